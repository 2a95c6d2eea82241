"""What operations are: each primitive is declared once, with everything that is known of it."""

from chainrule.primitives.arithmetic import ARITHMETIC
from chainrule.primitives.bits import BITS
from chainrule.primitives.indexing import INDEXING
from chainrule.primitives.logic import LOGIC
from chainrule.primitives.movement import MOVEMENT
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products import PRODUCTS
from chainrule.primitives.reduce import REDUCE
from chainrule.primitives.sources import SOURCES
from chainrule.primitives.special import SPECIAL
from chainrule.primitives.threefry import THREEFRY

PRIMITIVES: tuple[Primitive, ...] = (
    *SOURCES,
    *ARITHMETIC,
    *SPECIAL,
    *LOGIC,
    *BITS,
    *MOVEMENT,
    *REDUCE,
    *INDEXING,
    *PRODUCTS,
    *THREEFRY,
)

__all__ = ["PRIMITIVES", "Primitive"]
