"""Primitives: each operation is one complete record, declared once."""

from chainrule.primitives.primitive import Primitive

__all__ = ["Primitive"]
