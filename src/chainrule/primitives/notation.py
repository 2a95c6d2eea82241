"""How an operation is written in formulas: strengths of binding, templates, and forms."""

from __future__ import annotations

from dataclasses import dataclass

# How strongly the outermost symbol of an expression binds: operands that bind more weakly get
# brackets.  Mathematics and Python differ below sums: x < y ∧ z is x < (y & z) in no language.
LOGICAL, RELATION = 4, 5  # of mathematics: ∧ ∨ and < ≤ =
COMPARISON, OR, AND = 4, 6, 8  # of Python (the language reference, section 6.17)
ADDITIVE, PRODUCT, PREFIX, POWER, NOT, ATOM = 10, 20, 30, 40, 50, 100
BIG = ADDITIVE + 5  # a sum with ∑: it reaches to the end of a product, no further
# Factors side by side bind more strongly than ⊙; in text a/b is a first factor without brackets;
# the gradient ∂J/∂o is one factor, and has brackets under an exponent only.
TEXT_FRACTION, SIDE_BY_SIDE, FRACTION, GRADIENT = 24, 25, 30, 35


@dataclass(frozen=True)
class Terms:
    """A sum of the inputs with these signs: x − y, 2 x for x + x in a derivative."""

    signs: tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """λ W for a number times an array, else x ⊙ y."""


@dataclass(frozen=True)
class Quotient:
    """The first input over the second; a minus sign stands before the fraction."""


@dataclass(frozen=True)
class Power:
    """x², and of an array x^{⊙2}; `exponent` names the input or the parameter that is above."""

    exponent: str


@dataclass(frozen=True)
class Series:
    """∑ with the axes below; over all squares of an array ‖x‖²."""


@dataclass(frozen=True)
class Cases:
    """The second input if the first one holds, else the third."""


@dataclass(frozen=True)
class Conversion:
    """Another dtype, which is not shown unless it changes values: [x > 0], int(x)."""


@dataclass(frozen=True)
class MatrixProduct:
    """Matrices side by side; of two vectors x · y."""


@dataclass(frozen=True)
class Contraction:
    """A product over the axes with equal labels: x yᵀ, ⟨x, y⟩, else with labels."""


@dataclass(frozen=True)
class Transposition:
    """xᵀ of a matrix; of more axes with the permutation."""


@dataclass(frozen=True)
class Repetition:
    """x in a larger shape, which the reader broadcasts himself."""


@dataclass(frozen=True)
class Reshaping:
    """x in another shape, unseen where only axes of length 1 come or go."""


@dataclass(frozen=True)
class At:
    """x[...]: the places are further inputs, or the parameters `start` and `step` of a slice."""


@dataclass(frozen=True)
class Placed:
    """word(x at [...]): the first input at places (as those of `At`) of an array of zeros."""

    word: str


@dataclass(frozen=True)
class Joined:
    """[x, y] along an axis; stack(x, y) of inputs that got this axis first."""


@dataclass(frozen=True)
class Uniform:
    """The parameter `value` as a number, in an array times 𝟏."""


@dataclass(frozen=True)
class Elements:
    """The elements of the array that is the parameter `value`, where they are few."""


@dataclass(frozen=True)
class Positions:
    """(0, …, n − 1)"""


Form = (
    Terms | Product | Quotient | Power | Series | Cases | Conversion | MatrixProduct | Contraction
    | Transposition | Repetition | Reshaping | At | Placed | Joined | Uniform | Elements | Positions
)  # fmt: skip


@dataclass(frozen=True)
class Latex:
    r"""A template such as `{x} + {y}`; `binding` is the strength of the result, `operands` the
    least strength each input needs to stand without brackets.  Parameters appear by name: `{axes}`.

    Where equations are written by the shapes or by what the operands are, `form` says how; the
    template is then for pictures, which say less.
    """

    template: str
    binding: int = ATOM
    operands: tuple[int, ...] = ()
    form: Form | None = None
