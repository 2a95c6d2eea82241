"""Derivatives of functions, for people who want only the numbers."""

from chainrule.functional.api import grad, hvp, jvp, value_and_grad, vjp
from chainrule.functional.compiled import compile
from chainrule.functional.jacobian import hessian, jacfwd, jacobian, jacrev
from chainrule.functional.vmap import vmap

__all__ = [
    "compile",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]
