"""Looks at the arrays of a call and runs the code on them: one function of machine code, where it
can be.

A step of a few microseconds is mostly Python around the code.  So the checks of `arrays.binder`
are machine code, too: one function for all programs, which Python calls as one of its own (a
builtin), with a table that says what is expected.  It is used where it is seen to read arrays as
Python does; else `binder` looks at them, and `Machine.call` runs the code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.native.runtime.arrays import DATA_AT, Expected, binder
from chainrule.machine_code.target import Library, compile_object, host_target, load_objects

if TYPE_CHECKING:
    from chainrule.execute.native.runtime.context import Context
    from chainrule.execute.native.runtime.machine import Machine
    from chainrule.graph.graph import Graph

Enter = Callable[..., bool]

# The table: words of eight bytes, then those of each argument, then the sizes of their axes.
TABLE = ("COUNT", "NDARRAY", "SLOTS", "ENTER", "BEGIN", "END")
ARGUMENT = ("SLOT", "DTYPE", "RANK", "SHAPE")
WORD_NBYTES = 8
NOT_READ = -1  # of a slot
FASTCALL = 0x0080  # Python's METH_FASTCALL: (self, pointers of the arguments, their number)

# Where NumPy's arrays have what is looked at, behind the head that all objects have (the layout of
# PyArrayObject, which its C interface publishes); the last word of the head is the type.
ARRAY = {
    "TYPE": DATA_AT - 8,
    "DATA": DATA_AT,
    "ARRAY_RANK": DATA_AT + 8,
    "ARRAY_SHAPE": DATA_AT + 16,
    "ARRAY_DTYPE": DATA_AT + 40,
    "FLAGS": DATA_AT + 48,
}
_PROBE = np.zeros((3, 5), np.float32)  # here, as a call has no arrays but those of its program
PLAIN = 0x0101  # NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED

CODE = Template("""
declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyBool_FromLong(i64)

; Whether the argument is as its entry of the table says; if so its address is in the slot.
define internal i1 @take(ptr %table, ptr %entry, ptr %array) nounwind {
  %slot_word = getelementptr i64, ptr %entry, i64 $SLOT
  %slot = load i64, ptr %slot_word
  %unread = icmp eq i64 %slot, $not_read
  br i1 %unread, label %fits, label %typed
typed:
  %ndarray_word = getelementptr i64, ptr %table, i64 $NDARRAY
  %ndarray = load i64, ptr %ndarray_word
  %type_at = getelementptr i8, ptr %array, i64 $TYPE
  %type = load i64, ptr %type_at
  %is_array = icmp eq i64 %type, %ndarray
  br i1 %is_array, label %compare, label %differs
compare:
  %dtype_wanted_word = getelementptr i64, ptr %entry, i64 $DTYPE
  %dtype_wanted = load i64, ptr %dtype_wanted_word
  %dtype_at = getelementptr i8, ptr %array, i64 $ARRAY_DTYPE
  %dtype = load i64, ptr %dtype_at
  %same_dtype = icmp eq i64 %dtype, %dtype_wanted
  %rank_wanted_word = getelementptr i64, ptr %entry, i64 $RANK
  %rank_wanted = load i64, ptr %rank_wanted_word
  %rank_at = getelementptr i8, ptr %array, i64 $ARRAY_RANK
  %rank_found = load i32, ptr %rank_at
  %rank = sext i32 %rank_found to i64
  %same_rank = icmp eq i64 %rank, %rank_wanted
  %flags_at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags_at
  %plain_flags = and i32 %flags, $plain
  %is_plain = icmp eq i32 %plain_flags, $plain
  %same_type = and i1 %same_dtype, %same_rank
  %alike = and i1 %same_type, %is_plain
  br i1 %alike, label %sizes, label %differs
sizes:
  %shape_at = getelementptr i8, ptr %array, i64 $ARRAY_SHAPE
  %shape = load ptr, ptr %shape_at
  %wanted_at = getelementptr i64, ptr %entry, i64 $SHAPE
  %wanted = load ptr, ptr %wanted_at
  br label %axis
axis:
  %number = phi i64 [ 0, %sizes ], [ %next, %size ]
  %more = icmp slt i64 %number, %rank
  br i1 %more, label %size, label %place
size:
  %has_word = getelementptr i64, ptr %shape, i64 %number
  %has = load i64, ptr %has_word
  %needs_word = getelementptr i64, ptr %wanted, i64 %number
  %needs = load i64, ptr %needs_word
  %next = add i64 %number, 1
  %same_size = icmp eq i64 %has, %needs
  br i1 %same_size, label %axis, label %differs
place:
  %data_at = getelementptr i8, ptr %array, i64 $DATA
  %data = load i64, ptr %data_at
  %begin_word = getelementptr i64, ptr %table, i64 $BEGIN
  %begin = load i64, ptr %begin_word
  %end_word = getelementptr i64, ptr %table, i64 $END
  %end = load i64, ptr %end_word
  %behind = icmp uge i64 %data, %begin
  %before = icmp ult i64 %data, %end
  %inside = and i1 %behind, %before
  br i1 %inside, label %differs, label %keep
keep:
  %slots_at = getelementptr i64, ptr %table, i64 $SLOTS
  %slots = load ptr, ptr %slots_at
  %into = getelementptr i64, ptr %slots, i64 %slot
  store i64 %data, ptr %into
  br label %fits
fits:
  ret i1 true
differs:
  ret i1 false
}

define ptr @chainrule_entry(ptr %self, ptr %arguments, i64 %given) nounwind {
  %table = call ptr @PyByteArray_AsString(ptr %self)
  %count_word = getelementptr i64, ptr %table, i64 $COUNT
  %count = load i64, ptr %count_word
  %as_many = icmp eq i64 %given, %count
  br i1 %as_many, label %look, label %refuse
look:
  %number = phi i64 [ 0, %0 ], [ %next, %argument ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %argument, label %run
argument:
  %of_arguments = mul i64 %number, $argument_words
  %offset = add i64 %of_arguments, $table_words
  %entry = getelementptr i64, ptr %table, i64 %offset
  %array_at = getelementptr ptr, ptr %arguments, i64 %number
  %array = load ptr, ptr %array_at
  %fits = call i1 @take(ptr %table, ptr %entry, ptr %array)
  %next = add i64 %number, 1
  br i1 %fits, label %look, label %refuse
run:
  %thread = call ptr @PyEval_SaveThread()
  %enter_at = getelementptr i64, ptr %table, i64 $ENTER
  %enter = load ptr, ptr %enter_at
  %context_at = getelementptr i64, ptr %table, i64 $SLOTS
  %context = load ptr, ptr %context_at
  %status = call i64 %enter(ptr %context)
  call void @PyEval_RestoreThread(ptr %thread)
  %is_done = icmp eq i64 %status, 0
  %done = zext i1 %is_done to i64
  br label %answer
refuse:
  br label %answer
answer:
  %value = phi i64 [ 0, %refuse ], [ %done, %run ]
  %result = call ptr @PyBool_FromLong(i64 %value)
  ret ptr %result
}
""")


class _Method(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def entry(
    machine: Machine,
    graph: Graph,
    context: Context,
    expected: Sequence[Expected | None],
    kept: tuple[int, int] = (0, 0),
) -> Enter:
    """A function of arrays that runs the machine's code on them, with the rest of the context.

    True if it has run to its end.  False, and nothing given has changed, if an argument is not as
    `expected` (see `binder`) or begins between the addresses `kept`, or an index was out of range.
    It is for one call at a time, and gives other threads of Python their turn meanwhile.
    """
    if machine.is_one_function and reads_arrays():
        run = builtin(machine.enter_address, context.address, expected, kept)
        return machine.guarded(context, run)
    return plain_entry(machine, graph, context, expected, kept)


def plain_entry(
    machine: Machine,
    graph: Graph,
    context: Context,
    expected: Sequence[Expected | None],
    kept: tuple[int, int],
) -> Enter:
    """As `entry`, in Python."""
    bind, slots, (begin, end) = binder(expected), context.slots, kept
    places = [one[0] for one in expected if one is not None]

    def enter(*arrays: Any) -> bool:
        if not bind(arrays, slots) or any(begin <= (slots[one] or 0) < end for one in places):
            return False
        return machine.call(graph, context)

    return enter


@lru_cache(maxsize=1)
def reads_arrays() -> bool:
    """Whether the machine code finds in an array what Python finds there."""
    array = _PROBE[1:]
    head = ctypes.c_void_p.from_address(id(array) + ARRAY["TYPE"]).value
    rank = ctypes.c_int.from_address(id(array) + ARRAY["ARRAY_RANK"]).value
    shape = ctypes.c_void_p.from_address(id(array) + ARRAY["ARRAY_SHAPE"]).value
    dtype = ctypes.c_void_p.from_address(id(array) + ARRAY["ARRAY_DTYPE"]).value
    if (head, rank, dtype) != (id(np.ndarray), 2, id(array.dtype)) or not shape:
        return False
    if tuple((ctypes.c_int64 * rank).from_address(shape)) != array.shape:
        return False
    flags = [_flags(one) & PLAIN == PLAIN for one in (array, array.T, array[:, :2], array[:, 0])]
    data = ctypes.c_void_p.from_address(id(array) + ARRAY["DATA"]).value
    return flags == [True, False, False, False] and data == array.__array_interface__["data"][0]


def _flags(array: np.ndarray) -> int:
    return ctypes.c_int.from_address(id(array) + ARRAY["FLAGS"]).value


def _table(
    enter: int, context: int, expected: Sequence[Expected | None], kept: tuple[int, int]
) -> bytearray:
    """The table of a program's arguments, in memory that stays where it is."""
    sizes = [size for one in expected if one is not None for size in one[2]]
    table = bytearray(WORD_NBYTES * (len(TABLE) + len(ARGUMENT) * len(expected) + len(sizes)))
    words = (ctypes.c_int64 * (len(table) // WORD_NBYTES)).from_buffer(table)
    shape = len(words) - len(sizes)
    words[shape:] = sizes
    found = [len(expected), id(np.ndarray), context, enter, *kept]
    for one in expected:
        slot, dtype, axes = one or (NOT_READ, None, ())
        address = ctypes.addressof(words) + WORD_NBYTES * shape
        found += [slot, id(dtype), len(axes), address]
        shape += len(axes)
    words[: len(found)] = found
    return table


def builtin(
    enter: int, context: int, expected: Sequence[Expected | None], kept: tuple[int, int]
) -> Enter:
    """As `entry`, in machine code, by the addresses of a native function and of its context."""
    table = _table(enter, context, expected, kept)  # kept by the function
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p
    make.restype = ctypes.py_object
    return make(ctypes.byref(_method()), table, None)


@lru_cache(maxsize=1)
def _method() -> _Method:
    """Python's description of the function; kept to the end, as its code is.

    Unoptimised, which takes 3 ms in place of 8, and is no slower where it is called.
    """
    target = host_target()
    names = {name: number for words in (TABLE, ARGUMENT) for number, name in enumerate(words)}
    sizes = {"table_words": len(TABLE), "argument_words": len(ARGUMENT)}
    text = CODE.substitute(names, **ARRAY, **sizes, plain=PLAIN, not_read=NOT_READ)
    library = load_objects([compile_object(text, target, opt=0)], _python())
    address = library.address("chainrule_entry")
    method = _Method(b"run", address, FASTCALL, b"Run the code on these arrays, if they fit.")
    _kept.append((library, method))
    return method


_kept: list[tuple[Library, _Method]] = []  # more than one if threads make it at a time


def _python() -> dict[str, int]:
    """The functions of Python that the code calls, by their addresses."""
    names = "PyByteArray_AsString", "PyEval_SaveThread", "PyEval_RestoreThread", "PyBool_FromLong"
    functions = {name: getattr(ctypes.pythonapi, name) for name in names}
    return {n: ctypes.cast(one, ctypes.c_void_p).value or 0 for n, one in functions.items()}
