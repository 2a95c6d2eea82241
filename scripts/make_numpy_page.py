"""Writes docs/numpy.md: the NumPy functions that are traced, their options, where they differ."""

# ruff: noqa: E501  (a line of the page is a line here)

import inspect
from pathlib import Path

import numpy as np

from chainrule.frontend.functions.dispatch import name_of
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.frontend.functions.linalg import LINALG
from chainrule.frontend.functions.table import FUNCTIONS
from chainrule.frontend.hints.replacements import CONDITIONS, INSTEAD
from chainrule.frontend.traced import Traced
from chainrule.numpy.names import COMPOSITES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "numpy.md"
HEAD = """\
<!-- Written by scripts/make_numpy_page.py from the tables in the source; a test keeps it current. -->
# NumPy on traced arrays

These functions work on traced arrays exactly as on arrays: same numbers, same dtypes (NumPy 2's
promotion), same broadcasting. All other functions and options are refused; the error names them and
shows your line. A test calls each entry and compares it with NumPy for all dtypes from bool to
float64.

There is one difference: a traced array is a value. So `z += 1` binds the name z to a new array, and
another name for the old one (`a = z` before) keeps it. NumPy would change both.

Traced operators: `+ - * / // % ** @`, comparisons, `& | ^ ~` of booleans and integers, `<< >>` of
integers, `divmod`, `abs`, unary `-` and `+`, indexing with everything but traced masks, and iteration
over an axis of known length. Single numbers also support `round`, `math.floor`, `math.ceil` and
`math.trunc`. Item assignment, `out=` and `np.add.at` are refused, because a traced array is a value.

`x.at[key].set(value)` returns a copy of x with `x[key] = value`. `add`, `subtract`, `multiply`,
`divide`, `power`, `min`, `max` and `apply` update in the same way; `get` reads.
`cr.at(x)[key].set(value)` also takes NumPy arrays: use it in functions that run both traced and
untraced, and to read a constant table at a traced index, `cr.at(table)[i].get()`.

A traced array cannot intercept NumPy's own `np.array`, `np.asarray`, `np.full`, `np.r_`, `np.c_`, or
a list of traced arrays instead of one array (`np.sum([x, y])`). The error contains a replacement for
your line (`cr.array([x, y])`, `np.broadcast_to`, `np.concatenate`).

A traced array is valid only during the call that traces it. If you store one (in a global, a cache,
an object) and use it later, or use it in another thread, you get a `ForeignValueError` with your
line.

Masked arrays, `np.matrix` and arrays with units are refused everywhere, also in containers: NumPy
would treat them as plain arrays and silently drop the mask or the unit. Pass `np.asarray(...)`, and
a mask as an array of its own.

If you draw random numbers in a traced function (with `np.random`, `random`, `secrets`, `uuid`,
`os.urandom`, PyTorch, JAX, or your own generator), they become constants of the graph, the same in
every run. A `FrozenRandomWarning` shows your line. [`cr.random`](random.md) draws in every run. The
same warning covers clocks and files that you read while tracing, if their values may enter the graph
(a clock read for a log is silent, and so is an unused draw). It also covers draws in the body of a
loop or in a function under `cr.vmap`, which are called once for all iterations or examples. There is no
warning for values that are constant within a process but may differ in the next (`os.environ`,
`os.getpid()`, `id(x)`, `hash` of a text), as with NumPy alone. Nor is there one for `np.empty`,
because you may set its elements later; those that you do not set become constants of the graph,
whatever was in memory.

Methods of ufuncs: `reduce` of `np.add`, `np.multiply`, `np.maximum`, `np.minimum`, `np.logical_and`
and `np.logical_or`, `accumulate` of the first four (where elements tie, the first takes the
derivative), and `outer` of all with two arguments.
"""
# Only what the doc lines in the source do not say, and every difference from NumPy.
NOTES = {
    np.amax: "Where elements tie, they share the derivative equally.",
    np.amin: "Where elements tie, they share the derivative equally.",
    np.argmax: "The first of several largest elements.",
    np.argmin: "The first of several smallest elements.",
    np.bitwise_and: "The `&` operator, for booleans and integers.",
    np.bitwise_or: "The `|` operator, for booleans and integers.",
    np.bitwise_xor: "The `^` operator, for booleans and integers.",
    np.clip: "A limit must fit the dtype: -1 does not fit uint8, where NumPy takes 0 instead.",
    np.concatenate: "Named sizes must agree on all axes but the joined one.",
    np.copy: "The value itself: nothing changes it in place.",
    np.einsum: "Contracts two operands at a time, from left to right or in the order of `optimize`.",
    np.linalg.cond: "With p other than None, 2 and -2, a singular matrix is an error.",
    np.linalg.det: "Its derivatives of order 1 and 2 exist at singular matrices too.",
    np.linalg.eigh: "Where eigenvalues are equal, the vectors have no derivative; the values do.",
    np.linalg.eigvalsh: "The derivative exists where eigenvalues are equal, too.",
    np.linalg.lstsq: "Returns residuals for every rank.",
    np.linalg.multi_dot: "With named sizes, from left to right.",
    np.linalg.norm: "The derivative at 0 is 0.",
    np.linalg.qr: "Reduced factors.",
    np.linalg.pinv: "Singular values that a cutoff drops count as 0 in the derivative, as in PyTorch.",
    np.linalg.svd: "Reduced factors; `full_matrices=True` for square matrices only.",
    np.invert: "The `~` operator, for booleans and integers.",
    np.matmul: "The `@` operator; leading axes broadcast.",
    np.cumprod: "Its derivatives are right where elements are 0.",
    np.max: "Where elements tie, they share the derivative equally.",
    np.min: "Where elements tie, they share the derivative equally.",
    np.ndim: "A Python integer, known while tracing.",
    np.pad: "Not with `empty`, `median`, statistics of a part, or odd reflections.",
    np.partition: "Both sides of kth are in order too.",
    np.argpartition: "Both sides of kth are in order too.",
    np.piecewise: "Where its condition is false, a function gets some other element.",
    np.geomspace: "NaN if an end is 0 or the signs differ.",
    np.empty_like: "In NumPy the elements are arbitrary.",
    np.sort: "Equal elements take derivatives in their order in the array.",
    np.positive: "Takes booleans too.",
    np.power: "A Python integer as exponent is static. The square of booleans is int8, as NumPy's `x ** 2`.",
    np.reshape: "A and K mean C order. If products of named sizes cannot be compared, their equality becomes a condition.",
    np.modf: "Two results.",
    np.divmod: "Two results.",
    np.nan_to_num: "A copy, always.",
    np.remainder: "The `%` operator.",
    np.floor_divide: "The `//` operator.",
    np.left_shift: "The `<<` operator, for integers.",
    np.right_shift: "The `>>` operator, for integers.",
    np.shape: "A tuple of integers and sizes, known while tracing.",
    np.size: "An integer or a size, known while tracing.",
    np.squeeze: "That a named size is not 1 becomes a condition.",
    np.take: 'With `mode="raise"`, an index outside the axis is an error in the run.',
    np.where: "With three arguments.",
}


def options(function) -> str:
    """`(a, axis=None, *, keepdims=False)`: what the traced version takes."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "trace":
        parameters = parameters[1:]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(plain))


def row(function, call: str, doc: str) -> str:
    """One line of a table."""
    note = " ".join(part for part in (doc, NOTES.get(function, "")) if part)
    escaped = note.replace("|", "\\|")
    return f"| `np.{name_of(function)}{call}` | {escaped} |"


def replacement(name: str) -> str:
    """One line of the table of what to write instead."""
    expression = INSTEAD[name].replace("|", "\\|")
    condition = f", {CONDITIONS[name]}" if name in CONDITIONS else ""
    return f"| `{name}` | `{expression}`{condition} |"


def doc_of(function) -> str:
    """Returns the first docstring line without the function's name, with a capital if it is a word."""
    line = (inspect.getdoc(function) or "").partition("\n")[0]
    told = line.partition(": ")[2] if line.startswith("np.") else line
    word = told.partition(" ")[0].rstrip(",;")
    return told[:1].upper() + told[1:] if word.isalpha() and len(word) > 1 else told


def table(rows: list[str]) -> str:
    """Rows, sorted by name, under a head."""
    return "\n".join(["| function | notes |", "|---|---|", *sorted(rows)])


def _is_refused(member) -> bool:
    return inspect.ismemberdescriptor(member) or doc_of(member).startswith("Refused")


def page() -> str:
    """The whole text."""
    ufuncs = [
        row(ufunc, "(x)" if ufunc.nin == 1 else "(x, y)", primitive.doc)
        for ufunc, primitive in UFUNCS.items()
    ]
    functions = {**FUNCTIONS, **LINALG, **COMPOSITES}
    others = [
        row(function, options(traced), doc_of(traced) if function in COMPOSITES else "")
        for function, traced in functions.items()
        if not isinstance(function, str)
    ]
    public = [name for name in sorted(dir(Traced)) if not name.startswith("_")]
    shown = [f"`{name}`" for name in public if not _is_refused(getattr(Traced, name))]
    return "\n".join(
        [
            HEAD,
            "## Elementwise functions\n",
            table(ufuncs),
            "\n## Other functions\n",
            table(others),
            "\n## Attributes and methods of traced arrays\n",
            ", ".join(shown) + ".",
            "\n## What to write instead\n",
            "These functions are not traced, but have a short replacement. `cr` is this library.\n",
            table([replacement(name) for name in INSTEAD]),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
