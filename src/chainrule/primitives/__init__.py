"""What operations are: each primitive is declared once, with everything that is known of it."""

from chainrule.primitives.primitive import Primitive

__all__ = ["Primitive"]
