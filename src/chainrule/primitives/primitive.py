"""A `Primitive` is everything that is known of one operation, declared once and complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.graph.body import Flow
from chainrule.graph.dtypes import in_float32
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, Shape
from chainrule.primitives.affine import Domain, IndexMap
from chainrule.primitives.notation import Latex
from chainrule.primitives.python import Python, calls

if TYPE_CHECKING:
    from chainrule.primitives.routines import Writer

# In derivative rules: x y are inputs, out the result (the node itself, so that its parameters can
# be read), g the cotangent of the result, dx dy tangents of the inputs.
Rule = Callable[..., Any]

Region = tuple[tuple[int, ...], tuple[int, ...]]  # its first element and its steps, by axis


@dataclass(frozen=True)
class Partials:
    """Elementwise: `partials[i](out, *inputs)` is each element's derivative by the i-th input's
    element; None where it is zero everywhere.

    `selected[i](out, *inputs)`, if there is one, says where the i-th input has a part in the
    result: elsewhere its derivative is 0 by choice, whatever it is multiplied with."""

    partials: tuple[Rule | None, ...]
    selected: tuple[Rule | None, ...] = ()


@dataclass(frozen=True)
class Linear:
    """Linear in all inputs that have a transpose, jointly: `transposes[i](g, out, *inputs)` is the
    cotangent of the i-th input; None for inputs (indices, conditions) that only steer.  Where
    `variadic`, the one rule `transposes[0](i, g, out)` serves every input."""

    transposes: tuple[Rule | None, ...]
    variadic: bool = False

    def transpose(self, index: int) -> Rule | None:
        """The transpose for the `index`-th input; the last one serves all further inputs."""
        return self.transposes[min(index, len(self.transposes) - 1)]


@dataclass(frozen=True)
class Multilinear:
    """Linear in each input separately: `transposes[i](g, out, *inputs)`."""

    transposes: tuple[Rule, ...]


@dataclass(frozen=True)
class Explicit:
    """Both modes written out: `tangents[i](dx, out, *inputs)` is what the tangent dx of the i-th
    input adds to the result's, `cotangents[i](g, out, *inputs)` the i-th input's cotangent."""

    tangents: tuple[Rule | None, ...]
    cotangents: tuple[Rule | None, ...]


@dataclass(frozen=True)
class Joint:
    """Both modes written out for all inputs at once, which share work: `tangent(dxs, out, *inputs)`
    is the result's tangent from the inputs' (None for zero), or None; `cotangents(g, out, active,
    *inputs)` has a cotangent or None for each input, of which those at the places in `active` (a
    tuple, ascending) are used.  Through inputs at the places in `steers` no derivative flows.

    Where `selects`, both take the keyword `selections`, too: the `Selections` of the pass, in which
    the conditions of dxs or g are found, and those of what comes back are put."""

    tangent: Rule
    cotangents: Rule
    steers: tuple[int, ...] = ()
    selects: bool = False


@dataclass(frozen=True)
class Flat:
    """The derivative is zero wherever it exists."""


Derivative = Partials | Linear | Multilinear | Explicit | Joint | Flat


@dataclass(frozen=True)
class Map:
    """One output element from the elements at the same place; `expression` in the inputs' names,
    in Python's grammar (`~ & |` on booleans), with scalar functions of C's math.h and `cast`,
    `where`, `sign`, `logistic`, `fmax_nan`, `fmin_nan` (NaN if either is); of words, those of
    `threefry.py`."""

    expression: str


@dataclass(frozen=True)
class Fold:
    """A reduction over `axes`: `combine` of `x` and `y`, starting at `initial`."""

    combine: str
    initial: str


@dataclass(frozen=True)
class Contract:
    """Sums of products over shared axes: matrix products and their relatives."""


@dataclass(frozen=True)
class Gather:
    """Reads at places given by index arrays; where `adds`, adds there to zeros."""

    adds: bool = False


@dataclass(frozen=True)
class Move:
    """The elements of the one input at other places: of NumPy's arrays a view, where strides can.

    `reads(out, where, domain)` is where the input has the elements that the result has at `where`,
    in a loop nest over `domain`; None where that is not affine.  `part(out, start, shape)` makes
    this part of the result by moving less, where it can."""

    reads: Callable[[Node, IndexMap, Domain], IndexMap | None]
    part: Callable[[Node, tuple[int, ...], Shape], Node | None] = lambda out, start, shape: None


@dataclass(frozen=True)
class Assemble:
    """The inputs copied into regions of the result, on zeros where they leave gaps.

    `regions(out)` has for each input the first element of its region along each axis of the result,
    and the steps from one to the next.
    """

    regions: Callable[[Node], Sequence[Region]]
    gaps: bool


@dataclass(frozen=True)
class Generate:
    """Elements computed from their position alone."""


@dataclass(frozen=True)
class Given:
    """An array from outside: nothing computes it."""


@dataclass(frozen=True, eq=False)
class Library:
    """A routine of the executor's own library, called as a whole.

    `wide`: it computes in float64. `lapack`: so does it, a routine of LAPACK that calls BLAS;
    `routine(out, *operands)`, where there is one, says how.  `factored`: the routine reads a factor
    in place of the first operand; for a node, the first function gives the value that is factored
    (this operand, or what it is the transpose of), the second for that value the node of the
    factor.  `by_columns`: any of the result's columns need only those of the last operand, and the
    routine does so many `columns`. `large_routine`: the one for a large matrix that is alone, whose
    steps threads share.  `among_devices`: what several devices do together.  `keeps`: it may be a
    user's function, which may keep the arrays that it gets.  `turns`, of a loop of bodies: how
    often `turns(out)` it evaluates them, None where only a run can say.  `quicker`, of a loop,
    gives at sizes graphs of the same values and, all of them, the same bits, in which such loops
    compute nothing twice, the quickest first, in the last one perhaps all; `shorter` those in which
    fewer and fewer states are kept, with these bits or, if they need not be the same, in less
    memory.  `flow` tells what a loop or a choice does with its bodies; `over`, of a loop, which
    inputs of its body may lose their place to which outputs.
    """

    wide: bool = False
    lapack: bool = False
    routine: Writer | None = None
    factored: tuple[Callable[[Node], Node], Callable[[Node], Node]] | None = None
    by_columns: bool = False
    large_routine: Writer | None = None
    among_devices: bool = False
    keeps: bool = False
    turns: Callable[[Node], int | None] | None = None
    shorter: Callable[[Graph, bool], Iterable[Graph]] | None = None
    quicker: Callable[[Graph, Mapping[str, int]], Iterable[Graph]] | None = None
    flow: Callable[[Node], Flow | None] | None = None
    over: Callable[[Node], Mapping[Node, Node]] | None = None


MOVING = (Move, Assemble)  # the kernels of elements that are moved and not changed
UNCHANGED = ("x", "where(condition, x, y)", "cast(x)")  # that compute nothing of an element

Kernel = Map | Fold | Contract | Gather | Move | Assemble | Generate | Given | Library


@dataclass(frozen=True)
class Sample:
    """One point of the domain in which tests try the primitive.

    `shapes` and `domains` are per input; a domain is (low, high) for floats, "int:n" for indices
    below n, "uint32" for words of any bits, "bool".  `params` are the static parameters, `smooth`
    says whether finite differences apply.
    """

    shapes: tuple[tuple[int, ...], ...]
    domains: tuple[Any, ...]
    params: tuple[tuple[str, Any], ...] = ()
    smooth: bool = True
    dtype: str = "float64"


Cut = tuple[int, tuple[int | None, ...]]  # an axis of the result, and those of the operands
CALLED = ("result_type", "evaluate", "flops", "scratch", "library_bytes", "independent")


def no_bytes(out: Node, *operands: np.ndarray) -> int:
    """What an evaluation takes that makes nothing but its result."""
    return 0


@dataclass(frozen=True, eq=False)
class Primitive(Frozen):
    """One operation: complete, or it cannot be made.

    `result_type(*types, **params)` gives the type of the result and raises on types that do not
    fit; `evaluate(xp, *arrays, **params)` computes it in an array namespace; `batch(size, inputs,
    batched, out)` builds the same operation on inputs that have (where `batched`) a further first
    axis of length `size`; `flops(out)` counts floating-point operations.

    `scratch(out, *operands)` is how many bytes `evaluate` takes from NumPy at its fullest beside
    its operands and its result, measured with NumPy 2.4.  The operands are arrays without values:
    right in shape, dtype and strides, but not to be read.  `library_bytes(out, *operands)` is by
    how much the most is more, because of what routines in C take from the system by themselves.

    `independent(out)` are the axes of the result along which it can be computed in pieces, with
    the bits that it has as a whole: each with the axis of every operand that is cut with it, None
    for an operand that each piece needs as a whole.  `c_order`: an elementwise evaluation that
    makes arrays in C order, however its operands lie.

    `defined` is from where to where a function of one number has values, where not everywhere.

    `kink(*operands, **params)` says at which elements of the operands a derivative is a convention
    or infinite; None where it is nowhere.

    `python` is how a call is written as source; without it, as that of NumPy's function of the
    same name.  `as_stored`: it takes bfloat16 as it is; others compute in float32 (`widens`).
    """

    _called = "a primitive"
    _instead = "import it where it is needed; declare one of your own in a module that both import"

    name: str
    doc: str
    inputs: tuple[str, ...]
    result_type: Callable[..., ArrayType]
    evaluate: Callable[..., Any]
    derivative: Derivative
    batch: Callable[..., Node] | None
    kernel: Kernel
    flops: Callable[[Node], int | Size]
    latex: Latex
    samples: tuple[Sample, ...]
    variadic: bool = field(default=False)
    scratch: Callable[..., int] = field(default=no_bytes)
    library_bytes: Callable[..., int] = field(default=no_bytes)
    independent: Callable[[Node], tuple[Cut, ...]] = field(default=lambda out: ())
    c_order: bool = field(default=False)
    defined: tuple[float, float] | None = field(default=None)
    kink: Callable[..., Any] | None = field(default=None)
    python: Python | None = field(default=None)
    as_stored: bool = field(default=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise TypeError(f"a primitive's name must be an identifier, got {self.name!r}")
        if not self.doc or "\n" in self.doc:
            raise TypeError(f"{self.name}: the doc must be one line")
        for part in CALLED:
            if not callable(getattr(self, part)):
                raise TypeError(f"{self.name}: {part} must be callable")
        if self.widens:
            object.__setattr__(self, "evaluate", in_float32(self.evaluate))
        if self.inputs and not callable(self.batch):
            raise TypeError(f"{self.name}: a primitive with inputs needs a batching rule")
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"{self.name}: {self.kernel!r} is not a Kernel")
        if not isinstance(self.latex, Latex):
            raise TypeError(f"{self.name}: {self.latex!r} is not a Latex")
        if self.python is None and hasattr(np, self.name):
            object.__setattr__(self, "python", calls(self.name, self.inputs))
        if not isinstance(self.python, Python):
            raise TypeError(
                f"{self.name}: {self.python!r} is not a Python, and NumPy has no {self.name}: "
                'python=Python("...", ...) says how NumPy source writes it'
            )
        if not self.samples:
            raise TypeError(f"{self.name}: tests need at least one sample")
        for sample in self.samples:
            self._check_sample(sample)
        match self.derivative:
            case Partials(rules, selected):
                count = len(rules) if len(selected) in (0, len(rules)) else -1
                rules = (*rules, *selected)
            case Multilinear(rules):
                count = len(rules)
            case Explicit(tangents, cotangents):
                rules = (*tangents, *cotangents)
                count = len(tangents) if len(tangents) == len(cotangents) else -1
            case Linear(rules):
                count = len(self.inputs) if self.variadic else len(rules)
            case Joint(tangent, cotangents):
                rules, count = (tangent, cotangents), len(self.inputs)
            case Flat():
                rules, count = (), len(self.inputs)
            case _:
                raise TypeError(f"{self.name}: {self.derivative!r} is not a Derivative")
        if count != len(self.inputs):
            raise TypeError(f"{self.name}: one derivative rule for each of {self.inputs} is needed")
        if any(rule is not None and not callable(rule) for rule in rules):
            raise TypeError(f"{self.name}: derivative rules are functions, or None where zero")

    @property
    def widens(self) -> bool:
        """Whether operands of bfloat16 are computed with in float32."""
        match self.kernel:
            case Map(expression):
                return expression not in UNCHANGED
            case Gather(adds):
                return adds
            case Fold() | Contract() | Library():
                return not self.as_stored
        return False

    def _check_sample(self, sample: Sample) -> None:
        count = len(sample.shapes)
        right = count >= len(self.inputs) if self.variadic else count == len(self.inputs)
        if not right or len(sample.domains) != count:
            raise TypeError(f"{self.name}: a sample needs a shape and a domain for each input")

    def __call__(self, *inputs: Node, **params: Any) -> Any:
        """A new node (without origin yet) that applies this primitive; types must fit exactly."""
        type_ = self.result_type(*[node.type for node in inputs], **params)
        items = tuple(sorted(params.items())) if len(params) > 1 else tuple(params.items())
        return Value(self, inputs, items, type_)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


class _Views:
    """NumPy, except that a reshape that would have to copy is a ValueError."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def reshape(x: np.ndarray, shape: Any) -> np.ndarray:
        return np.reshape(x, shape, copy=False)


VIEWS = _Views()


def elements(out: Node) -> int | Size:
    """One operation for each element of the result."""
    return out.type.size


def no_flops(out: Node) -> int:
    """Only moves, no arithmetic."""
    return 0


def every_axis(out: Node) -> tuple[Cut, ...]:
    """Each element of the result needs only the elements of the operands at the same place."""
    count = len(out.inputs)
    return tuple([(axis, (axis,) * count) for axis in range(out.ndim)])


def every_other_axis(out: Node) -> tuple[Cut, ...]:
    """All axes but the one that the parameter `axis` names, of operands shaped like the result."""
    return tuple([one for one in every_axis(out) if one[0] != out.param("axis")])


from chainrule.primitives.value import Value  # noqa: E402  (a Value applies Primitives)
