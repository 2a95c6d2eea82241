"""Control flow that is not unrolled: loops and choices as nodes that hold graphs."""

from chainrule.control.api import cond, fori_loop, scan, while_loop
from chainrule.control.cond_node import cond as cond_primitive
from chainrule.control.scan_node import scan as scan_primitive
from chainrule.control.while_node import unwind, while_
from chainrule.primitives.primitive import Primitive

CONTROL: tuple[Primitive, ...] = (scan_primitive, cond_primitive, while_, unwind)

__all__ = ["CONTROL", "cond", "fori_loop", "scan", "while_loop"]
