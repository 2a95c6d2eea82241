"""The tuple of all primitives: tests go through it; nothing else loads all of them."""

from __future__ import annotations

from chainrule.primitives.arithmetic import ARITHMETIC
from chainrule.primitives.bits import BITS
from chainrule.primitives.cumulative import CUMULATIVE
from chainrule.primitives.fourier import FOURIER
from chainrule.primitives.hyperbolic import HYPERBOLIC
from chainrule.primitives.indexing import INDEXING
from chainrule.primitives.library import LIBRARY
from chainrule.primitives.linalg.linalg import LINALG
from chainrule.primitives.logarithms import LOGARITHMS
from chainrule.primitives.logic import LOGIC
from chainrule.primitives.movement import MOVEMENT
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products import PRODUCTS
from chainrule.primitives.products_of_elements import PRODUCTS_OF_ELEMENTS
from chainrule.primitives.reduce import REDUCE
from chainrule.primitives.rounding import ROUNDING
from chainrule.primitives.searching import SEARCHING
from chainrule.primitives.shifts import SHIFTS
from chainrule.primitives.sorting import SORTING
from chainrule.primitives.sources import SOURCES
from chainrule.primitives.special.special import SPECIAL
from chainrule.primitives.threefry import THREEFRY
from chainrule.primitives.trigonometric import TRIGONOMETRIC
from chainrule.primitives.windows import WINDOWS

PRIMITIVES: tuple[Primitive, ...] = (
    *SOURCES,
    *ARITHMETIC,
    *LOGARITHMS,
    *TRIGONOMETRIC,
    *HYPERBOLIC,
    *ROUNDING,
    *SPECIAL,
    *LOGIC,
    *BITS,
    *SHIFTS,
    *MOVEMENT,
    *REDUCE,
    *CUMULATIVE,
    *PRODUCTS_OF_ELEMENTS,
    *INDEXING,
    *SORTING,
    *SEARCHING,
    *PRODUCTS,
    *LINALG,
    *THREEFRY,
    *WINDOWS,
    *FOURIER,
    *LIBRARY,
)
