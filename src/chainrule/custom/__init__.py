"""Operations of the user's own: functions with derivative rules, and opaque functions."""

from chainrule.custom.derivative import custom_derivative
from chainrule.custom.operation import Operation, primitive

__all__ = ["Operation", "custom_derivative", "primitive"]
