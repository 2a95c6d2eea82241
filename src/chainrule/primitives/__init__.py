"""What operations are: each primitive is declared once, with everything that is known of it."""

from chainrule.primitives.arithmetic import ARITHMETIC
from chainrule.primitives.indexing import INDEXING
from chainrule.primitives.logic import LOGIC
from chainrule.primitives.movement import MOVEMENT
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products import PRODUCTS
from chainrule.primitives.reduce import REDUCE
from chainrule.primitives.sources import SOURCES

PRIMITIVES: tuple[Primitive, ...] = (
    *SOURCES,
    *ARITHMETIC,
    *LOGIC,
    *MOVEMENT,
    *REDUCE,
    *INDEXING,
    *PRODUCTS,
)

__all__ = ["PRIMITIVES", "Primitive"]
