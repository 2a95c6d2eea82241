"""What the page asks of Python in the browser: a program explained, a cell run, a report page."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import traceback
from typing import Any

import numpy as np

# Pyodide 0.27 has NumPy 2.0.  chainrule names functions that NumPy 2.1 added, and needs none; and
# it asks np.reshape for a view by an argument that NumPy 2.1 added.
_is_old = np.lib.NumpyVersion(np.__version__) < "2.1.0"
for _name in ("cumulative_sum", "cumulative_prod", "unstack") if _is_old else ():
    setattr(np, _name, type(_name, (), {}))

import chainrule as cr  # noqa: E402
from chainrule.graph.graph import Graph  # noqa: E402

_reshape = np.reshape


def reshape(array: Any, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """np.reshape with the argument `copy`."""
    result = _reshape(array, shape, order)
    if copy is False and array.size and not np.shares_memory(array, result):
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return result


if _is_old:
    np.reshape = reshape  # after the import: tables of chainrule name the original

_cells: dict[str, dict[str, Any]] = {}  # the names of each page's cells


def explained(source: str, width: float = 900) -> dict[str, Any]:
    """The last graph that a program makes: its picture, equations, source and text form.

    The picture is laid out for a page of `width` pixels.
    `error` is the message for the reader where the program fails, `line` where it did so.
    """
    names: dict[str, Any] = {"__name__": "program"}
    printed, error, line = _run(source, "program.py", names)
    answer: dict[str, Any] = {"printed": printed, "error": error, "line": line}
    if error:
        return answer
    graphs = [value for value in names.values() if isinstance(value, Graph)]
    if not graphs:
        hint = "graph = cr.backward(cr.trace(objective), wrt=...)"
        return {**answer, "error": f"the program makes no graph: write {hint}"}
    return {**answer, **_views(graphs[-1], width)}


def _views(graph: Graph, width: float) -> dict[str, Any]:
    equations = graph.equations()
    return {
        "svg": graph.draw(width=width).svg(),
        "equations": [
            [one.number, str(one.during.direction.value), one.latex()] for one in equations
        ],
        "python": _or_reason(graph.python),
        "text": str(graph),
        "name": graph.name,
    }


def _or_reason(view: Any) -> str:
    try:
        return str(view())
    except cr.errors.ChainruleError as error:
        return f"# {error}".replace("\n", "\n# ")


def ran(page: str, cell: str, source: str) -> dict[str, Any]:
    """Runs a cell of a page, in the names of the page's cells: what it printed, and its value.

    The value of a last line that is an expression is shown as a notebook would: a picture, HTML or
    text.
    """
    names = _cells.setdefault(page, {"__name__": page})
    printed, error, line = _run(source, f"{cell}.py", names)
    value = names.pop("_", None)
    html = "" if error or value is None else _shown(value)
    return {"printed": printed, "error": error, "line": line, "html": html}


def _shown(value: Any) -> str:
    """A value as HTML: what it shows in a notebook, or its text."""
    if hasattr(value, "_repr_mimebundle_"):
        bundle = value._repr_mimebundle_()
        for kind in ("image/svg+xml", "text/html"):
            if kind in bundle:
                return bundle[kind]
    if hasattr(value, "_repr_html_"):
        return value._repr_html_()
    text = repr(value).replace("&", "&amp;").replace("<", "&lt;")
    return f"<pre>{text}</pre>"


def _run(source: str, file: str, names: dict[str, Any]) -> tuple[str, str, int | None]:
    """Runs a source; what it printed, the message of its error, and the line of that in it."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    printed = io.StringIO()
    try:
        tree = ast.parse(source, file)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            target = ast.Name("_", ast.Store())
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
            ast.fix_missing_locations(tree)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(compile(tree, file, "exec", dont_inherit=True), names)
    except SyntaxError as error:
        return printed.getvalue(), f"{type(error).__name__}: {error}", error.lineno
    except BaseException as error:
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__)]
        files = [one.filename for one in traceback.extract_tb(error.__traceback__)]
        own = [line for line, name in zip(lines, files, strict=True) if name == file]
        return printed.getvalue(), f"{type(error).__name__}: {error}", own[-1] if own else None
    return printed.getvalue(), "", None


def report(source: str, path: str) -> str:
    """Writes the report page of a program's last graph, run on random arrays; '' or the error."""
    names: dict[str, Any] = {"__name__": "program"}
    _, error, _ = _run(source, "program.py", names)
    if error:
        return error
    graph = [value for value in names.values() if isinstance(value, Graph)][-1]
    from catalogue import inputs_of

    try:
        cr.report(graph, inputs_of(graph), path, executor="reference")
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""
