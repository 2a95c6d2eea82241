"""exp(-|x|) times the modified Bessel functions I0 and I1, and their derivatives.

Up to 8 the series in x², whose terms are positive, times exp(-|x|); beyond, a polynomial in 1/x
over √x.  Derivatives are differences that cancel, so they have polynomials of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.execute.native.libm.bessel_coefficients import (
    I0_FAR,
    I0_NEAR,
    I0_SLOPE_FAR,
    I0_SLOPE_NEAR,
    I1_FAR,
    I1_NEAR,
    I1_SLOPE_FAR,
    I1_SLOPE_NEAR,
    I1_SLOPE_ZERO,
)
from chainrule.execute.native.libm.exponential import exp
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, element

END = 8.0  # of the series


def i0e(code: Code, x: Operand) -> Operand:
    """exp(-|x|) I0(x)."""
    parts = Parts(code, x)
    return parts.either(parts.near(I0_NEAR), parts.far(I0_FAR))


def i1e(code: Code, x: Operand) -> Operand:
    """exp(-|x|) I1(x); -0 of -0."""
    parts = Parts(code, x)
    near = parts.terms.real("fmul", parts.near(I1_NEAR), parts.size)
    return code.intrinsic("copysign", parts.either(near, parts.far(I1_FAR)), x)


def i0e_slope(code: Code, x: Operand) -> Operand:
    """The derivative of i0e, odd; 0 at 0, where its sides differ."""
    parts = Parts(code, x)
    value = parts.either(parts.level(I0_SLOPE_NEAR), parts.beyond(I0_SLOPE_FAR))
    value = code.intrinsic("copysign", value, code.negative(x))
    return parts.terms.select(parts.terms.compare("oeq", x, 0.0), 0.0, value)


def i1e_slope(code: Code, x: Operand) -> Operand:
    """The derivative of i1e, accurate beside its zero."""
    parts = Parts(code, x)
    high, low = I1_SLOPE_ZERO[parts.base]
    distance = parts.terms.real("fsub", parts.terms.real("fsub", parts.size, high), low)
    near = parts.terms.real("fmul", parts.level(I1_SLOPE_NEAR), distance)
    return parts.either(near, parts.beyond(I1_SLOPE_FAR))


class Parts:
    """Polynomials for |x| up to END and beyond."""

    def __init__(self, code: Code, x: Operand) -> None:
        self.terms, self.base = Terms(code, x), element(x.type)
        self.size = self.terms.absolute(x)
        self.is_near = self.terms.compare("ole", self.size, END)

    def near(self, coefficients: Mapping[str, tuple[float, ...]]) -> Operand:
        """A polynomial in x², times exp(-|x|)."""
        square = self.terms.real("fmul", self.size, self.size)
        decay = exp(self.terms.code, self.terms.code.negative(self.size))
        return self.terms.real(
            "fmul", self.terms.polynomial(square, coefficients[self.base]), decay
        )

    def far(self, coefficients: Mapping[str, tuple[float, ...]]) -> Operand:
        """A polynomial in 1/|x|, over √|x|."""
        t = self.terms.real("fsub", self.terms.real("fdiv", 2 * END, self.size), 1.0)
        value = self.terms.polynomial(t, coefficients[self.base])
        return self.terms.real("fdiv", value, self.terms.code.intrinsic("sqrt", self.size))

    def either(self, near: Operand, far: Operand) -> Operand:
        """By the size of x."""
        return self.terms.select(self.is_near, near, far)

    def level(self, coefficients: Mapping[str, tuple[float, ...]]) -> Operand:
        """A polynomial in |x| - 4, over (|x| + 1)²."""
        t = self.terms.real("fsub", self.size, END / 2)
        above = self.terms.real("fadd", self.size, 1.0)
        value = self.terms.polynomial(t, coefficients[self.base])
        return self.terms.real("fdiv", value, self.terms.real("fmul", above, above))

    def beyond(self, coefficients: Mapping[str, tuple[float, ...]]) -> Operand:
        """A polynomial in 1/|x|, over |x| √|x|."""
        return self.terms.real("fdiv", self.far(coefficients), self.size)
