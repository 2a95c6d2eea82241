"""Derivatives of functions, for programs that only need numbers.

`jacobian` and `vmap` are modules of their own, as fewer programs load them.
"""

from chainrule.functional.api import grad, hvp, jvp, value_and_grad, vjp
from chainrule.functional.compiled import compile

__all__ = ["compile", "grad", "hvp", "jvp", "value_and_grad", "vjp"]
