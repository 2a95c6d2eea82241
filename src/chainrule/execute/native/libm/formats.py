"""The two floating-point formats, by their bits, and the few idioms that all functions share."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Operand,
    constant,
    element,
    lanes,
    like,
)


@dataclass(frozen=True)
class Format:
    """IEEE 754: a sign, the exponent (what it says plus `bias`), `digits` binary digits.

    The number of digits does not count the leading one, which is not stored.
    """

    integer: str
    digits: int
    bias: int

    @property
    def width(self) -> int:
        """The number of all bits."""
        return BITS[self.integer]

    @property
    def sign(self) -> int:
        """The bit pattern of -0, as a signed integer."""
        return -(1 << (self.width - 1))

    @property
    def mantissa(self) -> int:
        """The mask of the stored digits."""
        return (1 << self.digits) - 1

    @property
    def rounder(self) -> float:
        """Adding and subtracting it rounds |x| < 2^(digits - 1) to an integer.

        The sum's lowest bits are that integer, plus those of what was added to the rounder.
        """
        return 1.5 * 2.0**self.digits


FORMATS = {"float": Format("i32", 23, 127), "double": Format("i64", 52, 1023)}


def format_of(x: Operand) -> Format:
    """The format of x's lanes; TypeError where they are not float or double."""
    if element(x.type) not in FORMATS:
        raise TypeError(f"elementary functions take float and double, not {x.type}")
    return FORMATS[element(x.type)]


LONG = 12  # coefficients


class Terms:
    """Writes formulas on operands of the type of x, with Python's numbers as constants."""

    def __init__(self, code: Code, x: Operand) -> None:
        self.code, self.type = code, x.type
        self.format = format_of(x)
        self.integer = like(self.format.integer, x.type)

    def _operand(self, x: Operand | float, type_: str) -> Operand:
        return x if isinstance(x, Operand) else constant(x, type_)

    def real(self, operation: str, x: Operand | float, y: Operand | float) -> Operand:
        """`fadd`, `fsub`, `fmul` or `fdiv`."""
        return self.code.binary(operation, self._operand(x, self.type), self._operand(y, self.type))

    def whole(self, operation: str, x: Operand | int, y: Operand | int) -> Operand:
        """`add`, `sub`, `and`, `shl`, ... of bit patterns."""
        return self.code.binary(
            operation, self._operand(x, self.integer), self._operand(y, self.integer)
        )

    def fma(self, x: Operand | float, y: Operand | float, z: Operand | float) -> Operand:
        """x y + z."""
        return self.code.fma(*(self._term(one) for one in (x, y, z)))

    def _term(self, x: Operand | float) -> Operand:
        """An operand that an instruction reads from memory where it is a number.

        Only AVX-512 has instructions that take one number for all lanes.  Without, LLVM puts each
        into a register first, and a loop of long polynomials waits for registers: the gradient of
        gelu by erf takes 0.85 of the time with whole vectors in memory (Zen 4, AVX2).
        """
        if isinstance(x, Operand) or self.code.module.avx512 or not lanes(self.type):
            return self._operand(x, self.type)
        return self.code.in_memory(x, self.type)

    def compare(self, relation: str, x: Operand | float, y: Operand | float) -> Operand:
        """`olt`, `oeq`, ...: false where either is NaN."""
        operands = (self._operand(one, self.type) for one in (x, y))
        return self.code.compare(f"fcmp {relation}", *operands)

    def select(self, condition: Operand, x: Operand | float, y: Operand | float) -> Operand:
        """x where the condition holds, else y."""
        operands = (self._operand(one, self.type) for one in (x, y))
        return self.code.select(condition, *operands)

    def bits(self, x: Operand) -> Operand:
        """The bit pattern of x."""
        return self.code.convert("bitcast", x, self.integer)

    def number(self, bits: Operand) -> Operand:
        """What has that bit pattern."""
        return self.code.convert("bitcast", bits, self.type)

    def clamp(self, x: Operand, low: float, high: float) -> Operand:
        """x, or the nearer of low and high; NaN stays NaN.  One instruction for each end."""
        x = self.select(self.compare("olt", x, low), low, x)
        return self.least(x, high)

    def least(self, x: Operand, high: float) -> Operand:
        """x, or high if that is less; NaN stays NaN."""
        return self.select(self.compare("ogt", x, high), high, x)

    def absolute(self, x: Operand) -> Operand:
        """|x|."""
        return self.code.intrinsic("fabs", x)

    def polynomial(self, x: Operand, coefficients: Sequence[float | Operand]) -> Operand:
        """The polynomial, lowest power first (two coefficients at least).

        By Horner's rule, but a long one as two in x², the even and the odd powers: waiting for
        one chain of 20 products costs a third more time than the further product (measured).
        """
        if len(coefficients) < LONG:
            return self._horner(x, coefficients)
        square = self.real("fmul", x, x)
        odd = self._horner(square, coefficients[1::2])
        return self.fma(odd, x, self._horner(square, coefficients[::2]))

    def _horner(self, x: Operand, coefficients: Sequence[float | Operand]) -> Operand:
        *others, last = coefficients
        value = self._operand(last, self.type)
        for coefficient in reversed(others):
            value = self.fma(value, x, coefficient)
        return value
