"""Translates Python functions on integers, numbers and arrays of them into LLVM's text.

One source is then both: code that Python runs where there is no native code, and machine code that
takes the same decisions 100 times as fast.  The functions use a small part of Python:

* parameters and results are annotated `int`, `float`, `Ints`, `Floats` (arrays), or with the class
  of a state, whose annotated fields have these types (text: `from __future__ import annotations`);
  a state is given by its address;
* local variables keep the type of their first value; `=`, `+=`, `if`, `while`, `for _ in range`,
  `break`, `continue`, `return`; calls of each other, `min`, `max`, `float`;
* integers have 64 bits, and `//`, `%`, `>>` are of numbers that are not negative: there, Python
  and the processor agree.  Indices are neither checked nor negative.

Everything else is an AssertionError when it is translated.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Ints = Any  # what an annotation calls an array of 64-bit integers, or in Python a list
Floats = Any  # the same of float64

TYPES = {"int": "i64", "float": "double", "Ints": "ints", "Floats": "floats", "None": "void"}
ELEMENTS = {"ints": "i64", "floats": "double"}

INTEGER: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.Mod: "srem",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
FLOAT: dict[type[ast.operator], str] = {
    ast.Add: "fadd",
    ast.Sub: "fsub",
    ast.Mult: "fmul",
    ast.Div: "fdiv",
}
COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("slt", "olt"),
    ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"),
    ast.GtE: ("sge", "oge"),
    ast.Eq: ("eq", "oeq"),
    ast.NotEq: ("ne", "une"),
}

Value = tuple[str, str]  # a register or constant of LLVM's, and its type
Fields = Mapping[str, str]  # of a state: the type of each field, in the order of its memory


def fields_of(state: type) -> dict[str, str]:
    """The annotated fields of a state, each of which takes 8 bytes, by their types."""
    bases = [one for one in reversed(state.__mro__) if one is not object]
    return {n: TYPES[str(kind)] for one in bases for n, kind in one.__annotations__.items()}


def translate(functions: Sequence[Callable[..., Any]], states: Sequence[type]) -> str:
    """LLVM's text of the functions, which may call each other and take states; only the last one
    is to be called from outside.

    Names that are neither local nor functions are constants of the function's module.
    """
    layouts = {state.__name__: fields_of(state) for state in states}
    trees = [_tree(one) for one in functions]
    signatures = {tree.name: _signature(tree, layouts) for tree in trees}
    texts = [
        _Function(tree, one.__globals__, signatures, layouts, one is functions[-1]).text()
        for tree, one in zip(trees, functions, strict=True)
    ]
    return "\n\n".join(texts) + "\n"


def _tree(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _signature(tree: ast.FunctionDef, layouts: Mapping[str, Fields]) -> tuple[str, list[str]]:
    """The type of the result, and those of the parameters; a state's is its class's name."""
    known = {**TYPES, **{name: name for name in layouts}}
    named = [arg.annotation for arg in tree.args.args]
    kinds = [known[ast.unparse(one)] for one in named if one is not None]
    assert len(kinds) == len(named) and tree.returns is not None, tree.name
    return known[ast.unparse(tree.returns)], kinds


def _machine_type(kind: str) -> str:
    return kind if kind in ("i64", "double", "i1", "void") else "ptr"


class _Function:
    """One function on its way into text."""

    def __init__(
        self,
        tree: ast.FunctionDef,
        constants: Mapping[str, Any],
        signatures: Mapping[str, tuple[str, list[str]]],
        layouts: Mapping[str, Fields],
        is_called: bool,
    ) -> None:
        self.tree, self.constants = tree, constants
        self.signatures, self.layouts = signatures, layouts
        self.locals: dict[str, str] = {}  # the type of each variable, whose memory is %name.at
        self.lines: list[str] = []
        self.loops: list[tuple[str, str]] = []  # where `continue` and `break` lead
        self.count = 0
        self.linkage = "" if is_called else "internal "
        self.result, self.kinds = signatures[tree.name]

    def text(self) -> str:
        names = [arg.arg for arg in self.tree.args.args]
        typed = list(zip(names, self.kinds, strict=True))
        for name, kind in typed:
            self.locals[name] = kind
            self.line(f"store {_machine_type(kind)} %{name}, ptr %{name}.at")
        self.statements(self.tree.body)
        ending = {"void": "ret void", "double": "ret double 0.0"}.get(self.result, "ret i64 0")
        self.line(ending)
        places = [
            f"  %{name}.at = alloca {_machine_type(kind)}" for name, kind in self.locals.items()
        ]
        listed = ", ".join(f"{_machine_type(kind)} %{name}" for name, kind in typed)
        head = f"define {self.linkage}{self.result} @{self.tree.name}({listed}) nounwind {{"
        return "\n".join([head, *places, *self.lines, "}"])

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str, kind: str) -> Value:
        """A new register with the value of an instruction."""
        self.count += 1
        self.line(f"%r{self.count} = {text}")
        return f"%r{self.count}", kind

    def labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def begin(self, label: str) -> None:
        self.line(f"br label %{label}")
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        """Leave for a label; what is written behind it is never run."""
        (dead,) = self.labels("dead")
        self.line(f"br label %{label}")
        self.lines.append(f"{dead}:")

    # Statements

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for one in body:
            self.statement(one)

    def statement(self, one: ast.stmt) -> None:
        match one:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                current = ast.BinOp(left=_loaded(target), op=op, right=value)
                self.assign(target, self.value(ast.copy_location(current, one)))
            case ast.If():
                then, other, end = self.labels("then", "else", "end")
                self.branch(one.test, then, other)
                self.lines.append(f"{then}:")
                self.statements(one.body)
                self.line(f"br label %{end}")
                self.lines.append(f"{other}:")
                self.statements(one.orelse)
                self.begin(end)
            case ast.While(orelse=[]):
                test, body, end = self.labels("test", "body", "end")
                self.begin(test)
                self.branch(one.test, body, end)
                self.lines.append(f"{body}:")
                self.loop(one.body, test, end)
                self.line(f"br label %{test}")
                self.lines.append(f"{end}:")
            case ast.For(target=ast.Name(id=name), orelse=[]):
                self.for_loop(name, one)
            case ast.Break():
                self.jump(self.loops[-1][1])
            case ast.Continue():
                self.jump(self.loops[-1][0])
            case ast.Return(value=None):
                self.line("ret void")
                self.lines.append(f"{self.labels('dead')[0]}:")
            case ast.Return(value=value):
                assert value is not None
                register, kind = self.value(value)
                assert kind == self.result, ast.unparse(one)
                self.line(f"ret {kind} {register}")
                self.lines.append(f"{self.labels('dead')[0]}:")
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=value):
                self.value(value)
            case _:
                raise AssertionError(f"not translated: {ast.unparse(one)}")

    def loop(self, body: Sequence[ast.stmt], again: str, end: str) -> None:
        self.loops.append((again, end))
        self.statements(body)
        self.loops.pop()

    def for_loop(self, name: str, one: ast.For) -> None:
        """`for name in range(stop)`, or `range(start, stop)`: both are evaluated once."""
        call = one.iter
        assert isinstance(call, ast.Call) and ast.unparse(call.func) == "range", ast.unparse(one)
        start = self.value(call.args[0])[0] if len(call.args) > 1 else "0"
        stop, _ = self.value(call.args[-1])
        test, body, following, end = self.labels("test", "body", "next", "end")
        hidden = f"{name}.{test}"  # Python's variable stays at the last value
        self.store(hidden, (start, "i64"))
        self.begin(test)
        current, _ = self.load(hidden)
        inside, _ = self.new(f"icmp slt i64 {current}, {stop}", "i1")
        self.line(f"br i1 {inside}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        self.store(name, (current, "i64"))
        self.loop(one.body, following, end)
        self.begin(following)
        self.store(hidden, self.new(f"add nsw i64 {current}, 1", "i64"))
        self.line(f"br label %{test}")
        self.lines.append(f"{end}:")

    def store(self, name: str, value: Value) -> None:
        register, kind = value
        assert self.locals.setdefault(name, kind) == kind, f"{name} is {kind}"
        self.line(f"store {_machine_type(kind)} {register}, ptr %{name}.at")

    def load(self, name: str) -> Value:
        kind = self.locals[name]
        return self.new(f"load {_machine_type(kind)}, ptr %{name}.at", kind)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.store(target.id, value)
            return
        address, kind = self.address(target)
        assert kind == value[1], f"{ast.unparse(target)} takes {kind}, not {value[1]}"
        self.line(f"store {_machine_type(kind)} {value[0]}, ptr {address}")

    def address(self, target: ast.expr) -> Value:
        """Where an element or a field lies, and the type of what lies there."""
        match target:
            case ast.Subscript(value=array, slice=place):
                base, kind = self.value(array)
                at, _ = self.value(place)
                element = ELEMENTS[kind]
                return self.new(f"getelementptr {element}, ptr {base}, i64 {at}", element)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                base, state = self.load(name)
                fields = list(self.layouts[state])
                at = fields.index(attr)
                kind = self.layouts[state][attr]
                return self.new(f"getelementptr i64, ptr {base}, i64 {at}", kind)
        raise AssertionError(f"not translated: {ast.unparse(target)}")

    # Expressions

    def branch(self, test: ast.expr, yes: str, no: str) -> None:
        """To one of two labels; `and` and `or` evaluate as few operands as Python does."""
        match test:
            case ast.BoolOp(op=op, values=[first, *rest]) if rest:
                (more,) = self.labels("more")
                other = rest[0] if len(rest) == 1 else ast.BoolOp(op=op, values=rest)
                if isinstance(op, ast.And):
                    self.branch(first, more, no)
                else:
                    self.branch(first, yes, more)
                self.lines.append(f"{more}:")
                self.branch(other, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.branch(operand, no, yes)
            case _:
                register, kind = self.value(test)
                if kind != "i1":
                    register, _ = self.new(f"icmp ne i64 {register}, 0", "i1")
                self.line(f"br i1 {register}, label %{yes}, label %{no}")

    def value(self, one: ast.expr) -> Value:
        match one:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name) if name in self.locals:
                return self.load(name)
            case ast.Name(id=name):
                return _constant(self.constants[name])
            case ast.Subscript() | ast.Attribute():
                address, kind = self.address(one)
                return self.new(f"load {_machine_type(kind)}, ptr {address}", kind)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                register, kind = self.value(operand)
                text = f"fneg double {register}" if kind == "double" else f"sub i64 0, {register}"
                return self.new(text, kind)
            case ast.BinOp(left=left, op=op, right=right):
                first, second, kind = self.alike(self.value(left), self.value(right), type(op))
                table = FLOAT if kind == "double" else INTEGER
                return self.new(f"{table[type(op)]} {kind} {first}, {second}", kind)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                first, second, kind = self.alike(self.value(left), self.value(right))
                integer, real = COMPARED[type(op)]
                test = f"fcmp {real}" if kind == "double" else f"icmp {integer}"
                return self.new(f"{test} {kind} {first}, {second}", "i1")
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, args)
        raise AssertionError(f"not translated: {ast.unparse(one)}")

    def alike(self, first: Value, second: Value, op: type | None = None) -> tuple[str, str, str]:
        """Both as float64 if one is, or if `/` divides them."""
        if "double" in (first[1], second[1]) or op is ast.Div:
            return self.as_float(first)[0], self.as_float(second)[0], "double"
        assert first[1] == second[1] == "i64", (first, second)
        return first[0], second[0], "i64"

    def as_float(self, value: Value) -> Value:
        if value[1] == "double":
            return value
        return self.new(f"sitofp i64 {value[0]} to double", "double")

    def call(self, name: str, args: Sequence[ast.expr]) -> Value:
        values = [self.value(arg) for arg in args]
        if name == "float":
            return self.as_float(values[0])
        if name in ("min", "max"):
            first, second, kind = self.alike(values[0], values[1])
            less = "slt" if name == "min" else "sgt"
            test = f"fcmp o{less[1:]}" if kind == "double" else f"icmp {less}"
            # As Python: the first unless the second is beyond it.
            beyond, _ = self.new(f"{test} {kind} {second}, {first}", "i1")
            return self.new(f"select i1 {beyond}, {kind} {second}, {kind} {first}", kind)
        result, kinds = self.signatures[name]
        assert [kind for _, kind in values] == kinds, f"{name}{values} takes {kinds}"
        listed = ", ".join(f"{_machine_type(kind)} {register}" for register, kind in values)
        text = f"call {result} @{name}({listed})"
        if result == "void":
            self.line(text)
            return "", "void"
        return self.new(text, result)


def _constant(value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AssertionError(f"not translated: the constant {value!r}")
    if isinstance(value, int):
        return str(value), "i64"
    return f"0x{_bits(value):016X}", "double"


def _bits(value: float) -> int:
    import struct

    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _loaded(target: ast.expr) -> ast.expr:
    """The same place as an expression that reads it."""
    return ast.parse(ast.unparse(target), mode="eval").body
