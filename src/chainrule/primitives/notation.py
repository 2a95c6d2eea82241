"""How an operation is written in formulas: strengths of binding, templates, and forms."""

from __future__ import annotations

from enum import Enum

from chainrule.dataclass import dataclass

# How strongly the outermost symbol of an expression binds: operands that bind more weakly get
# brackets.  Mathematics and Python differ below sums: x < y ∧ z is x < (y & z) in no language.
LOGICAL, RELATION = 4, 5  # of mathematics: ∧ ∨ and < ≤ =
COMPARISON, OR, AND = 4, 6, 8  # of Python (the language reference, section 6.17)
ADDITIVE, PRODUCT, PREFIX, POWER, NOT, ATOM = 10, 20, 30, 40, 50, 100
BIG = ADDITIVE + 5  # a sum with ∑: it reaches to the end of a product, no further
# Factors side by side bind more strongly than ⊙; in text a/b is a first factor without brackets;
# the gradient ∂J/∂o is one factor, and has brackets under an exponent only.
TEXT_FRACTION, SIDE_BY_SIDE, FRACTION, GRADIENT = 24, 25, 30, 35


class Form(Enum):
    """Notations that depend on shapes, or on what the operands are."""

    SUM = "x + y; in a derivative 2 x for x + x"
    DIFFERENCE = "x − y"
    NEGATIVE = "−x"
    PRODUCT = "λ W for a number times an array, else x ⊙ y"
    QUOTIENT = "x/y; a minus sign stands before the fraction"
    POWER = "x², of an array x^{⊙2}; above is the second input, or the parameter `exponent`"
    SERIES = "∑ with the axes below; over all squares of an array ‖x‖²"
    CASES = "the second input if the first one holds, else the third"
    CONVERSION = "another dtype, which is shown only where it changes values: [x > 0], int(x)"
    MATRIX_PRODUCT = "matrices side by side; of two vectors x · y"
    CONTRACTION = "x yᵀ, ⟨x, y⟩, else a product with the labels of its axes"
    TRANSPOSITION = "xᵀ of a matrix, or of each one of a stack; else with the permutation"
    REPETITION = "x in a larger shape, which the reader broadcasts himself"
    RESHAPING = "x in another shape, unseen where only axes of length 1 come or go"
    AT = "x[...]: the places are further inputs, or the parameters `start` and `step`"
    PADDED = "pad(x at [...]): the input at places of an array of zeros"
    SCATTERED = "scatter(x at [...]): added up where places are the same"
    JOINED = "[x, y] along an axis; stack(x, y) of inputs that got this axis first"
    UNIFORM = "the parameter `value` as a number, in an array times 𝟏"
    ELEMENTS = "the elements of the array that is the parameter `value`, where they are few"
    POSITIONS = "(0, …, n − 1)"
    WINDOWED = "windows(x), fold(x): with the size, and a stride and a dilation that are not 1"

    __hash__ = object.__hash__  # that of an Enum calls Python


@dataclass(frozen=True)
class Latex:
    r"""A template such as `{x} + {y}`; `binding` is the strength of the result, `operands` the
    least strength each input needs to stand without brackets.  Parameters appear by name: `{axes}`.

    Where equations depend on shapes or on what the operands are, `form` says how; the
    template is then for pictures, which say less.
    """

    template: str
    binding: int = ATOM
    operands: tuple[int, ...] = ()
    form: Form | None = None
