"""Derivatives of functions, for people who want only the numbers."""

from chainrule.functional.api import grad, hvp, jvp, value_and_grad, vjp

__all__ = ["grad", "hvp", "jvp", "value_and_grad", "vjp"]
