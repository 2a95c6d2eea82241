"""LLVM IR as text: typed operands, instructions numbered as they are emitted, loops with phis.

A type is LLVM's own text: `float`, `double`, `i1`, `i64`, `ptr`, `<16 x float>`.  Memory holds
booleans as bytes; registers hold them as `i1`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from chainrule.dataclass import dataclass, field

# For functions whose time is in what they call: LLVM does half of its work on them, and a quarter
# at its level 0 (`modules`), where loops of short instructions are 3 % slower.  The step of a small
# transformer compiles in 41 and 19 ms instead of 69.
UNOPTIMISED = "noinline optnone"
AT_LEVEL_0 = f'{UNOPTIMISED} "level"="0"'
FLOATS = ("half", "float", "double")
# First words of instructions without memory and effects: two with the same text are one.
PURE = frozenset(
    "fadd fsub fmul fdiv fneg fcmp add sub mul shl lshr ashr and or xor icmp select bitcast "
    "trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp "
    "insertelement extractelement shufflevector".split()
)
# Intrinsics of which the same is true; of x86's, those in `libm/instructions.py` are called.
MATHEMATICAL = frozenset(
    "copysign fabs floor fma fmuladd fshl smax smin sqrt umax umin x86".split()
)
BITS = {"half": 16, "float": 32, "double": 64, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


@dataclass(frozen=True, slots=True)
class Operand:
    """A register (`%7`) or a constant, with its type."""

    text: str
    type: str


@lru_cache(maxsize=1024)
def element(type_: str) -> str:
    """The type of one lane: `float` of `<16 x float>` and of `float`."""
    return type_.split(" x ")[1][:-1] if type_[0] == "<" else type_


@lru_cache(maxsize=1024)
def lanes(type_: str) -> int:
    """The number of lanes of a vector type, 0 of a scalar type."""
    return int(type_[1:].split(" ")[0]) if type_[0] == "<" else 0


@lru_cache(maxsize=1024)
def with_lanes(type_: str, count: int) -> str:
    """The type of `count` lanes of this element (0: the scalar type)."""
    return f"<{count} x {element(type_)}>" if count else element(type_)


def like(type_: str, other: str) -> str:
    """The type with the elements `type_` and as many lanes as `other`."""
    return with_lanes(type_, lanes(other))


def is_float(type_: str) -> bool:
    """Whether the elements are floating-point numbers."""
    return element(type_) in FLOATS


def number(value: float | int | bool, type_: str) -> str:
    """The text of one number in the scalar type: floats by their bits, so that nothing is lost."""
    if type_ == "half":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if type_ == "float":
        value = _rounded(value)
    if type_ in FLOATS:
        bits = struct.unpack(">Q", struct.pack(">d", value))[0]
        if math.isnan(value):
            bits = 0x7FF8000000000000
        return f"0x{bits:016X}"
    if type_ == "i1":
        return "true" if value else "false"
    return str(int(value))


def _rounded(value: float) -> float:
    """The float32 next to the value, infinite where it is too large."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def constant(value: float | int | bool, type_: str) -> Operand:
    """A number as an operand; in a vector type, the same in every lane."""
    text = number(value, element(type_))
    return Operand(f"splat ({element(type_)} {text})" if lanes(type_) else text, type_)


def count(value: int) -> Operand:
    """An `i64` constant."""
    return Operand(str(value), "i64")


ALL = "all_"  # before the names of numbers in memory


@dataclass(eq=False)
class Module:
    """The functions and declarations that one object file is made of.

    They may name instructions of x86-64 for registers of so many bytes: AVX-512 has 64, AVX2 32.
    Loops fetch large arrays ahead if `fetches`.
    """

    header: str = ""
    named_nbytes: int = 0
    fetches: bool = True
    functions: list[str] = field(default_factory=list)
    declarations: dict[str, None] = field(default_factory=dict)

    @property
    def avx512(self) -> bool:
        """Whether functions may name what only processors with AVX-512 have."""
        return self.named_nbytes == 64

    def declare(self, line: str) -> None:
        """Say once that a function exists elsewhere."""
        self.declarations.setdefault(line)

    def text(self) -> str:
        """The whole module."""
        return "\n".join([self.header, *self.declarations, *self.functions, ""])


class Code:
    """The body of one function, written from top to bottom.

    `block` is the label of the basic block that is being written.  In one block, a pure
    instruction is written once: asked for again, it gives the same register.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0
        self._known: dict[str, Operand] = {}

    def fresh(self) -> str:
        """A number that no register or label of this function has yet."""
        self._count += 1
        return str(self._count)

    def emit(self, text: str, type_: str) -> Operand:
        """One instruction with a result; the one that is there, if it is pure and in this block."""
        if text in self._known and is_pure(text):
            return self._known[text]
        result = self._known[text] = Operand(f"%v{self.fresh()}", type_)
        self.lines.append(f"  {result.text} = {text}")
        return result

    def do(self, text: str) -> None:
        """One instruction without a result."""
        self.lines.append(f"  {text}")

    def binary(self, operation: str, x: Operand, y: Operand) -> Operand:
        """`operation` is LLVM's word with its flags: `mul nsw`, `and`, `shl`."""
        assert x.type == y.type, (operation, x, y)
        return self.emit(f"{operation} {x.type} {x.text}, {y.text}", x.type)

    def compare(self, operation: str, x: Operand, y: Operand) -> Operand:
        """`operation` is `fcmp olt`, `icmp slt`, ...; the result has `i1` lanes."""
        assert x.type == y.type, (operation, x, y)
        return self.emit(f"{operation} {x.type} {x.text}, {y.text}", like("i1", x.type))

    def convert(self, operation: str, x: Operand, type_: str) -> Operand:
        """`operation` is `bitcast`, `fptosi`, `zext`, ...; the same operand if it has the type."""
        if x.type == type_:
            return x
        return self.emit(f"{operation} {x.type} {x.text} to {type_}", type_)

    def select(self, condition: Operand, x: Operand, y: Operand) -> Operand:
        """x where the condition holds, else y, lane by lane."""
        assert x.type == y.type and element(condition.type) == "i1", (condition, x, y)
        text = f"select {condition.type} {condition.text}, {x.type} {x.text}, {y.type} {y.text}"
        return self.emit(text, x.type)

    def negative(self, x: Operand) -> Operand:
        """-x of floats."""
        return self.emit(f"fneg {x.type} {x.text}", x.type)

    def call(self, name: str, type_: str, *operands: Operand) -> Operand:
        """The result of a function of another module or of an intrinsic."""
        self.module.declare(f"declare {type_} @{name}({', '.join(o.type for o in operands)})")
        return self.emit(f"call {type_} @{name}({typed(operands)})", type_)

    def run(self, name: str, *operands: Operand) -> None:
        """Call a function that returns nothing."""
        self.module.declare(f"declare void @{name}({', '.join(o.type for o in operands)})")
        self.do(f"call void @{name}({typed(operands)})")

    def intrinsic(self, name: str, *operands: Operand) -> Operand:
        """An overloaded intrinsic on operands of one type: `fma`, `sqrt`, `minnum`, `floor`."""
        return self.call(f"llvm.{name}.{mangled(operands[0].type)}", operands[0].type, *operands)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Operand:
        """x y + z, rounded once where the processor can, else after the product too."""
        return self.intrinsic("fmuladd", x, y, z)

    def splat(self, x: Operand, type_: str) -> Operand:
        """A scalar in every lane of the vector type."""
        count = lanes(type_)
        if not count or x.type == type_:
            return x
        if x.text[0] != "%":
            return Operand(f"splat ({x.type} {x.text})", with_lanes(x.type, count))
        wide = with_lanes(x.type, count)
        one = self.emit(f"insertelement {wide} poison, {x.type} {x.text}, i64 0", wide)
        zeros = f"<{count} x i32> zeroinitializer"
        return self.emit(f"shufflevector {wide} {one.text}, {wide} poison, {zeros}", wide)

    def in_memory(self, value: float, type_: str) -> Operand:
        """A number in every lane of the vector type, read from memory that nothing writes."""
        base, count = element(type_), lanes(type_)
        name, nbytes = f"@{ALL}{number(value, base)}_{count}_{base}", count * BITS[base] // 8
        # Not `constant`: LLVM would make that a number again.
        line = f"internal global {type_} {constant(value, type_).text}, align {nbytes}"
        self.module.declare(f"{name} = {line}")
        return self.load(Operand(name, "ptr"), type_, nbytes)

    def address(self, base: Operand, index: Operand, type_: str) -> Operand:
        """base + index elements of `type_`."""
        if index.text == "0":
            return base
        return self.emit(
            f"getelementptr {type_}, ptr {base.text}, {index.type} {index.text}", "ptr"
        )

    def load(self, pointer: Operand, type_: str, align: int = 0) -> Operand:
        """What the pointer points at; `align` is in bytes, by default that of one element."""
        align = align or max(BITS.get(element(type_), 64) // 8, 1)
        return self.emit(f"load {type_}, ptr {pointer.text}, align {align}", type_)

    def store(self, x: Operand, pointer: Operand, align: int = 0) -> None:
        """Put x where the pointer points."""
        align = align or max(BITS.get(element(x.type), 64) // 8, 1)
        self.do(f"store {x.type} {x.text}, ptr {pointer.text}, align {align}")

    def fetch(self, pointer: Operand, *, writes: bool = False) -> None:
        """Bring a line into the first-level cache, for writing or only for reading.

        The pointer may be outside of any array.
        """
        hints = (Operand(one, "i32") for one in ("1" if writes else "0", "3", "1"))
        self.run("llvm.prefetch.p0", pointer, *hints)

    def label(self, name: str) -> None:
        """Begin a basic block (the one before must have ended)."""
        self.lines.append(f"{name}:")
        self.block = name
        self._known.clear()

    def jump(self, name: str) -> None:
        """End the block: go on at a label."""
        self.do(f"br label %{name}")

    def branch(self, condition: Operand, yes: str, no: str) -> None:
        """End the block: go on at one of two labels."""
        self.do(f"br i1 {condition.text}, label %{yes}, label %{no}")

    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: int,
        carried: Sequence[Operand],
        body: Callable[[Operand, list[Operand]], Iterable[Operand]],
    ) -> list[Operand]:
        """`for i in range(start, stop, step)`, while start + k step <= stop - step is not asked.

        `body(i, values)` emits one round and returns the next `values`; what they are after the
        last round is returned.  Runs no round where start >= stop (all are `i64`, signed), and is
        not even written where these are numbers.
        """
        if start.text.isdigit() and stop.text.isdigit() and int(start.text) >= int(stop.text):
            return list(carried)
        number_ = self.fresh()
        head, inside, after = f"head{number_}", f"body{number_}", f"after{number_}"
        before = self.block
        self.jump(head)
        self.label(head)
        index = Operand(f"%i{number_}", "i64")
        values = [Operand(f"%c{number_}_{k}", one.type) for k, one in enumerate(carried)]
        place = len(self.lines)
        self.lines += [""] * (1 + len(values))
        more = self.compare("icmp slt", index, stop)
        self.branch(more, inside, after)
        self.label(inside)
        following = list(body(index, values))
        next_index = self.emit(f"add nsw i64 {index.text}, {step}", "i64")
        last = self.block
        self.jump(head)
        pairs = zip([index, *values], [start, *carried], [next_index, *following], strict=True)
        for k, (phi, first, later) in enumerate(pairs):
            self.lines[place + k] = (
                f"  {phi.text} = phi {phi.type} [ {first.text}, %{before} ], "
                f"[ {later.text}, %{last} ]"
            )
        self.label(after)
        return values

    def function(
        self, name: str, parameters: Sequence[Operand], result: str = "void", attributes: str = ""
    ) -> None:
        """Wrap what was written into a function of the module (the last block must have ended)."""
        head = f"define {result} @{name}({typed(parameters)}) {attributes} {{"
        self.module.functions.append("\n".join([head, "entry:", *self.lines, "}"]))


def is_pure(text: str) -> bool:
    """Whether the instruction's result depends on its operands only."""
    word, _, rest = text.partition(" ")
    if word == "load":
        return f"ptr @{ALL}" in rest
    if word != "call":
        return word in PURE
    _, found, name = rest.partition("@llvm.")
    return bool(found) and name.partition(".")[0] in MATHEMATICAL


def typed(operands: Iterable[Operand]) -> str:
    """Operands as the arguments of a call."""
    return ", ".join(f"{one.type} {one.text}" for one in operands)


def mangled(type_: str) -> str:
    """How intrinsics name the type: `v16f32`, `f64`, `i64`."""
    base = element(type_)
    short = f"f{BITS[base]}" if base in FLOATS else base
    return f"v{lanes(type_)}{short}" if lanes(type_) else short
