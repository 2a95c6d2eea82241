"""Writes docs/numpy.md: the NumPy functions that are traced, their options, where they differ."""

# ruff: noqa: E501  (a line of the page is a line here)

import inspect
from pathlib import Path

import numpy as np

from chainrule.composites.numpy_names import COMPOSITES
from chainrule.frontend.dispatch import name_of
from chainrule.frontend.elementwise import UFUNCS
from chainrule.frontend.functions import FUNCTIONS
from chainrule.frontend.instead import CONDITIONS, INSTEAD
from chainrule.frontend.traced import Traced

PAGE = Path(__file__).resolve().parents[1] / "docs" / "numpy.md"
HEAD = """\
<!-- Written by scripts/make_numpy_page.py from the tables in the source; a test keeps it current. -->
# NumPy on traced arrays

These functions work on traced arrays exactly as on arrays: same numbers, same dtypes (NumPy 2's
promotion), same broadcasting. Every other function and every other option is refused by name, with
your line. Each entry is called by a test, which compares it with NumPy for all dtypes from bool to
float64.

One thing is not as in NumPy: a traced array is a value, so `z += 1` binds the name z to a new array,
and another name for the old one (`a = z` before) still means the old one. NumPy would change both.

Operators: `+ - * / ** @`, comparisons, `& | ^ ~` of booleans, `abs`, unary `-` and `+`, indexing with
everything but traced masks, and iteration over an axis of known length. `//` and `%` work on sizes
and Python integers only. Item assignment, `out=` and `np.add.at` are
refused, since a traced array is a value.
"""
# Only what the doc lines in the source do not say, and every difference from NumPy.
NOTES = {
    np.argmax: "The first of several largest elements.",
    np.bitwise_and: "The `&` operator, of booleans and integers.",
    np.bitwise_or: "The `|` operator, of booleans and integers.",
    np.bitwise_xor: "The `^` operator, of booleans and integers.",
    np.clip: "A limit must fit the dtype: -1 does not fit uint8, where NumPy takes 0 instead.",
    np.concatenate: "Of sizes with names, all but the joined one must be the same.",
    np.copy: "The value itself: nothing changes it in place.",
    np.dot: "A Python number does not widen the array's dtype, as in NumPy's `*` but not its `dot`.",
    np.einsum: "With a subscripts string, evaluated from left to right.",
    np.logaddexp: "Of small integers the result is float64.",
    np.exp2: "Integers and booleans of up to 16 bits give float64.",
    np.inner: "A Python number does not widen the array's dtype, as in NumPy's `*`.",
    np.invert: "The `~` operator, of booleans and integers.",
    np.matmul: "The `@` operator; leading axes broadcast.",
    np.max: "Where elements tie, they share the derivative equally.",
    np.min: "Where elements tie, they share the derivative equally.",
    np.ndim: "A Python integer, known while tracing.",
    np.pad: "With zeros.",
    np.positive: "Takes booleans too.",
    np.power: "A Python integer as exponent is static. Of booleans, its square is int8, as NumPy's `x ** 2`.",
    np.reciprocal: "Of integers: 1 / x in floats, where NumPy truncates.",
    np.reshape: "In C order. Sizes whose products cannot be compared yet become a condition.",
    np.shape: "A tuple of integers and sizes, known while tracing.",
    np.size: "An integer or a size, known while tracing.",
    np.squeeze: "A named size is never 1.",
    np.take: "An index outside the axis is an error, when it runs.",
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
    return f"| `np.{name_of(function)}{call}` | {note} |"


def replacement(name: str) -> str:
    """One line of the table of what to write instead."""
    expression = INSTEAD[name].replace("|", "\\|")
    condition = f", {CONDITIONS[name]}" if name in CONDITIONS else ""
    return f"| `{name}` | `{expression}`{condition} |"


def doc_of(function) -> str:
    """The first line of what the source says, without the name that stands beside it."""
    line = (inspect.getdoc(function) or "").partition("\n")[0]
    told = line.partition(": ")[2] if line.startswith("np.") else line
    return told[:1].upper() + told[1:] if told[1:2].islower() else told


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
    functions = {**FUNCTIONS, **COMPOSITES}
    others = [
        row(function, options(traced), doc_of(traced) if function in COMPOSITES else "")
        for function, traced in functions.items()
        if not isinstance(function, str)
    ]
    public = [name for name in sorted(vars(Traced)) if not name.startswith("_")]
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
            "These are not traced, and have a short replacement. `cr` is this library.\n",
            table([replacement(name) for name in INSTEAD]),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
