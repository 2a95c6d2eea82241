"""What each instruction takes from the value stack and puts on it (CPython 3.11 to 3.14).

Of most only the slots are counted; a function in `DESCRIBED` says what the pushed ones hold. An
instruction that is missing here, or that this Python counts differently, has no known effect.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dis import Instruction
from types import CodeType

from .slots import (
    EXPRESSION,
    NULL,
    Call,
    Constant,
    Entry,
    Function,
    Index,
    Iterating,
    Name,
    Sequence,
    Slot,
    Stack,
    pop,
    unpack,
    unpack_starred,
)

Effect = tuple[int, Stack]  # how many slots are popped, and the slots then pushed

NEVER_FALL_THROUGH = frozenset(
    """RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE JUMP_FORWARD JUMP_BACKWARD
    JUMP_BACKWARD_NO_INTERRUPT""".split()
)
OPERATORS = frozenset(
    "BINARY_OP BINARY_SLICE COMPARE_OP UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT".split()
)
GIVE_ONE_RESULT = OPERATORS | frozenset(
    "BINARY_SUBSCR CALL CALL_KW CALL_FUNCTION_EX CALL_INTRINSIC_1 FOR_ITER LOAD_ATTR".split()
)
LOADS = {"LOAD_FAST": "local", "LOAD_FAST_CHECK": "local", "LOAD_FAST_BORROW": "local"}
LOADS |= {"LOAD_DEREF": "closure", "LOAD_NAME": "name"}
STORES = {"STORE_FAST": "local", "STORE_DEREF": "closure", "STORE_GLOBAL": "global"}
STORES |= {"STORE_NAME": "name"}

# (popped, pushed): the instructions whose results need no description.
COUNTED: dict[tuple[int, int], str] = {
    (0, 0): """NOP RESUME EXTENDED_ARG MAKE_CELL COPY_FREE_VARS PRECALL KW_NAMES NOT_TAKEN
        SETUP_ANNOTATIONS JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT DELETE_FAST
        DELETE_NAME DELETE_GLOBAL DELETE_DEREF RETURN_CONST""",
    (0, 1): """LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT LOAD_CLOSURE
        LOAD_CLASSDEREF LOAD_LOCALS LOAD_FAST_AND_CLEAR IMPORT_FROM GET_LEN MATCH_MAPPING
        MATCH_SEQUENCE MATCH_KEYS WITH_EXCEPT_START""",
    (1, 0): """POP_TOP POP_ITER POP_EXCEPT RETURN_VALUE STORE_FAST STORE_NAME STORE_GLOBAL
        STORE_DEREF DELETE_ATTR SET_UPDATE SET_ADD DICT_MERGE PRINT_EXPR IMPORT_STAR RERAISE
        POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
        POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_NONE
        POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE
        POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE""",
    (1, 1): """UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT TO_BOOL YIELD_VALUE
        FORMAT_SIMPLE CONVERT_VALUE CHECK_EXC_MATCH GET_YIELD_FROM_ITER
        LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF""",
    (1, 2): "PUSH_EXC_INFO BEFORE_WITH LOAD_SPECIAL",
    (2, 0): "STORE_ATTR DELETE_SUBSCR STORE_FAST_STORE_FAST",
    (2, 1): """COMPARE_OP IS_OP CONTAINS_OP IMPORT_NAME END_SEND CALL_INTRINSIC_2
        FORMAT_WITH_SPEC""",
    (2, 2): "CHECK_EG_MATCH",
    (3, 0): "STORE_SUBSCR",
    (3, 1): "BINARY_SLICE MATCH_CLASS",
    (4, 0): "STORE_SLICE",
}
FIXED = {name: count for count, names in COUNTED.items() for name in names.split()}
BY_ARGUMENT: dict[str, Callable[[int], tuple[int, int]]] = {
    "BUILD_SET": lambda count: (count, 1),
    "BUILD_STRING": lambda count: (count, 1),
    "BUILD_SLICE": lambda count: (count, 1),
    "FORMAT_VALUE": lambda flags: (1 + (flags & 4 == 4), 1),
    "RAISE_VARARGS": lambda count: (count, 0),
}

COUNTS_ARGUMENTS_AT_PRECALL = "PRECALL" in dis.opmap  # 3.11
PUSHES_NULL_AFTER_CALLABLE = "CALL_KW" in dis.opmap  # since 3.13
LIST_TO_TUPLE = 6  # the argument of CALL_INTRINSIC_1


def effect(
    instruction: Instruction, stack: Stack, has_keywords: bool, index: Index | None
) -> Effect | None:
    """What the instruction does to this stack, or None if that is not known.

    `has_keywords`: of a CALL, whether some of its arguments are keywords.
    `index`: of a LIST_APPEND in a comprehension, which entry it appends.
    """
    name, argument = instruction.opname, instruction.arg or 0
    if name in FIXED or name in BY_ARGUMENT:
        popped, count = FIXED[name] if name in FIXED else BY_ARGUMENT[name](argument)
        pushed: Stack = (EXPRESSION if name in OPERATORS else None,) * count
    elif name == "CALL":
        popped, pushed = _call(argument, stack, has_keywords)
    elif name == "LIST_APPEND":
        popped, pushed = _list_append(argument, stack, index)
    elif name in LOADS:
        popped, pushed = 0, (Name(LOADS[name], instruction.argval),)
    elif name in DESCRIBED:
        popped, pushed = DESCRIBED[name](instruction, argument, stack)
    else:
        return None
    if name in ("PRECALL", "CALL") and COUNTS_ARGUMENTS_AT_PRECALL:
        return popped, pushed
    counts = len(pushed) - popped == change(instruction) or name in NEVER_FALL_THROUGH
    return (popped, pushed) if counts else None


def change(instruction: Instruction, jump: bool = False) -> int:
    """By how much the instruction makes the stack higher."""
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=jump)


def called(slots: Stack) -> tuple[Slot, Slot]:
    """The callable, and what else there is, of the two slots under a call's arguments."""
    first, second = slots
    return (second, None) if first == NULL else (first, second)


def _call(count: int, stack: Stack, has_keywords: bool) -> Effect:
    slots = pop(stack, count + 2)[1]
    callee, owner = called(slots[:2])
    result: Slot = _result_of(callee)
    if isinstance(callee, Function) and isinstance(owner, Iterating):
        result = Call(callee, (owner,))  # a comprehension: the iterator stands where `self` does
    elif isinstance(callee, Name) and not has_keywords:
        result = Call(callee, slots[2:])
    return count + 2, (result,)


def _result_of(callee: Slot) -> Slot:
    return None if callee is None else EXPRESSION


def _call_with_names(instruction: Instruction, count: int, stack: Stack) -> Effect:
    return count + 3, (_result_of(called(pop(stack, count + 3)[1][:2])[0]),)


def _call_with_containers(instruction: Instruction, flags: int, stack: Stack) -> Effect:
    popped = 1 - change(instruction)
    return popped, (_result_of(called(pop(stack, popped)[1][:2])[0]),)


def _list_append(count: int, stack: Stack, index: Index | None) -> Effect:
    holder, *between, new = pop(stack, count + 1)[1]
    if count > 1:  # in a comprehension
        if isinstance(new, Entry):
            known = holder == Sequence(()) and index is not None
            holder = Entry(((index, None), *new.path)) if known and index is not None else None
    elif isinstance(holder, Sequence):  # a long display, in pieces
        length = len(holder.entries)
        if isinstance(new, Entry):
            holder = Entry(((Constant(length), length + 1), *new.path))
        else:
            holder = Sequence((*holder.entries, new))
    elif isinstance(holder, Entry) and holder.path and not isinstance(new, Entry):
        (step, length), *inner = holder.path
        holder = Entry(((step, None if length is None else length + 1), *inner))
    else:
        holder = None
    return count + 1, (holder, *between)


def _list_extend(instruction: Instruction, count: int, stack: Stack) -> Effect:
    holder, *between, given = pop(stack, count + 1)[1]
    if isinstance(holder, Entry) and holder.path and not isinstance(given, Entry):
        (step, _), *inner = holder.path
        holder = Entry(((step, None), *inner))
    elif isinstance(holder, Sequence) and isinstance(given, Constant):
        values = given.value if isinstance(given.value, tuple) else ()
        holder = Sequence((*holder.entries, *map(Constant, values))) if values else None
    else:
        holder = None
    return count + 1, (holder, *between)


def _dict_update(instruction: Instruction, count: int, stack: Stack) -> Effect:
    holder, *between, given = pop(stack, count + 1)[1]
    if isinstance(given, Entry):
        holder = given if given.path else None
    return count + 1, (holder, *between)


def _map_add(instruction: Instruction, count: int, stack: Stack) -> Effect:
    holder, *between, key, new = pop(stack, count + 2)[1]
    if isinstance(new, Entry):
        holder = _keyed(key, new)
    return count + 2, (holder, *between)


def _keyed(key: Slot, entry: Entry) -> Slot:
    return Entry(((key, None), *entry.path)) if isinstance(key, Constant | Name) else None


def _build_sequence(instruction: Instruction, count: int, stack: Stack) -> Effect:
    entries = pop(stack, count)[1]
    for index, entry in enumerate(entries):
        if isinstance(entry, Entry):
            return count, (Entry(((Constant(index), count), *entry.path)),)
    return count, (Sequence(entries),)


def _build_map(instruction: Instruction, count: int, stack: Stack) -> Effect:
    slots = pop(stack, 2 * count)[1]
    for key, entry in zip(slots[::2], slots[1::2], strict=True):
        if isinstance(entry, Entry):
            return 2 * count, (_keyed(key, entry),)
    return 2 * count, (None,)


def _build_const_key_map(instruction: Instruction, count: int, stack: Stack) -> Effect:
    *entries, keys = pop(stack, count + 1)[1]
    for index, entry in enumerate(entries):
        if (
            isinstance(entry, Entry)
            and isinstance(keys, Constant)
            and isinstance(keys.value, tuple)
        ):
            return count + 1, (_keyed(Constant(keys.value[index]), entry),)
    return count + 1, (None,)


def _load_global(instruction: Instruction, flags: int, stack: Stack) -> Effect:
    named = Name("global", instruction.argval)
    if not flags & 1:
        return 0, (named,)
    return 0, (named, NULL) if PUSHES_NULL_AFTER_CALLABLE else (NULL, named)


def _load_attribute(instruction: Instruction, flags: int, stack: Stack) -> Effect:
    owner = pop(stack, 1)[1][0]
    named = _result_of(owner)
    if isinstance(owner, Name):
        named = owner.then(instruction.argval)
    return 1, (named, None) if change(instruction) else (named,)  # a method comes with `self`


def _binary_subscr(instruction: Instruction, _: int, stack: Stack) -> Effect:
    owner, key = pop(stack, 2)[1]
    if isinstance(owner, Name) and isinstance(key, Constant | Name):
        return 2, (owner.then(key),)
    return 2, (EXPRESSION,)


def _binary_operator(instruction: Instruction, which: int, stack: Stack) -> Effect:
    if instruction.argrepr == "[]":  # since 3.14
        return _binary_subscr(instruction, which, stack)
    return 2, (EXPRESSION,)


def _swap(instruction: Instruction, count: int, stack: Stack) -> Effect:
    first, *between, last = pop(stack, count)[1]
    return count, (last, *between, first)


def _get_iter(instruction: Instruction, _: int, stack: Stack) -> Effect:
    over = pop(stack, 1)[1][0]
    return 1, (None if isinstance(over, Entry) else Iterating(over),)


def _make_function(instruction: Instruction, flags: int, stack: Stack) -> Effect:
    code = pop(stack, 1)[1][0]
    made: Slot = None
    if isinstance(code, Constant) and isinstance(code.value, CodeType):
        made = Function(code.value)
    return 1 + (flags & 15).bit_count(), (made,)


def _call_intrinsic(instruction: Instruction, which: int, stack: Stack) -> Effect:
    return 1, pop(stack, 1)[1] if which == LIST_TO_TUPLE else (EXPRESSION,)


def _load_constant(instruction: Instruction, _: int, stack: Stack) -> Effect:
    return 0, (Constant(instruction.argval),)


def _load_two(instruction: Instruction, _: int, stack: Stack) -> Effect:
    return 0, tuple(Name("local", name) for name in instruction.argval)


DESCRIBED: dict[str, Callable[[Instruction, int, Stack], Effect]] = {
    "BINARY_OP": _binary_operator,
    "BINARY_SUBSCR": _binary_subscr,
    "BUILD_CONST_KEY_MAP": _build_const_key_map,
    "BUILD_LIST": _build_sequence,
    "BUILD_MAP": _build_map,
    "BUILD_TUPLE": _build_sequence,
    "CALL_FUNCTION_EX": _call_with_containers,
    "CALL_INTRINSIC_1": _call_intrinsic,
    "CALL_KW": _call_with_names,
    "COPY": lambda _, depth, stack: (0, (pop(stack, depth)[1][0],)),
    "DICT_UPDATE": _dict_update,
    "END_FOR": lambda instruction, *_: (-change(instruction), ()),
    "GET_ITER": _get_iter,
    "LIST_EXTEND": _list_extend,
    "LIST_TO_TUPLE": lambda _, __, stack: (1, pop(stack, 1)[1]),
    "LOAD_ATTR": _load_attribute,
    "LOAD_CONST": _load_constant,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _load_two,
    "LOAD_FAST_LOAD_FAST": _load_two,
    "LOAD_GLOBAL": _load_global,
    "LOAD_METHOD": _load_attribute,
    "LOAD_SMALL_INT": _load_constant,
    "LOAD_SUPER_ATTR": lambda instruction, *_: (3, (EXPRESSION, None)[: 3 + change(instruction)]),
    "MAKE_FUNCTION": _make_function,
    "MAP_ADD": _map_add,
    "PUSH_NULL": lambda *_: (0, (NULL,)),
    "SET_FUNCTION_ATTRIBUTE": lambda _, __, stack: (2, pop(stack, 1)[1]),
    "STORE_FAST_LOAD_FAST": lambda instruction, *_: (1, (Name("local", instruction.argval[1]),)),
    "SWAP": _swap,
    "UNPACK_EX": lambda _, counts, stack: (
        1,
        unpack_starred(pop(stack, 1)[1][0], counts & 255, counts >> 8)[::-1],
    ),
    "UNPACK_SEQUENCE": lambda _, count, stack: (1, unpack(pop(stack, 1)[1][0], count)[::-1]),
}
