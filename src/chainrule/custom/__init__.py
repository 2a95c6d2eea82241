"""Operations of the user's own: derivative rules for functions, and functions that are opaque."""

from chainrule.custom.derivative import custom_derivative
from chainrule.custom.operation import Operation, primitive

__all__ = ["Operation", "custom_derivative", "primitive"]
