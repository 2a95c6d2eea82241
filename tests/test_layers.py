"""Imports point down the layers, and every module keeps the rules of the house."""

from __future__ import annotations

import ast
import builtins
import gc
import inspect
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chainrule import errors

ROOT = Path(__file__).resolve().parents[1] / "src"
PACKAGE = ROOT / "chainrule"
FILES = sorted(PACKAGE.rglob("*.py"))

# Lowest first; each name is a module or a folder of chainrule.  docs/decisions/0002 says why.
LAYERS = (
    "version",
    "dataclass",
    "errors",
    "nearest",
    "signatures",
    "tracebacks",
    "source",
    "disk",
    "machine_code",
    "graph",
    "annotations",
    "primitives",
    "frontend",
    "numpy",
    "nn",
    "random",
    "init",
    "tracing",
    "transforms",
    "custom",
    "schedule",
    "plan",
    "execute",
    "functional",
    "control",
    "sequences",
    "exchange",
    "explain",
    "views",
    "testing",
    "data",
    "train",
    "devices",
    "advice",
    "examples",
    "later",
    "__init__",
    "cli",
    "__main__",
)

# Files that import each other in a circle, imports inside of functions counted: `value.py` and
# `arithmetic.py` are made of each other, and the primitives of derivatives with them.
LARGEST_CIRCLE = 10

LONGEST = 400

EVALUATES = {
    "dataclass.py": "`__init__` of our own classes, as in the standard library",
    "annotations.py": "annotations that are text under `from __future__ import annotations`",
}


@dataclass(frozen=True)
class Import:
    """One module of chainrule that a file imports; `inside` says whether in a function's body."""

    file: str
    target: str
    line: int
    inside: bool


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax trees of all modules, by file; collecting garbage would take the longest."""
    gc.disable()
    try:
        return {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}
    finally:
        gc.freeze()
        gc.enable()


def layer_of(module: str) -> str:
    """`chainrule.graph.node` is of the layer graph; `chainrule` itself is `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def module_of(file: Path) -> str:
    """`chainrule.graph.node`; a package is called as its folder."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def exists(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def targets(node: ast.stmt, package: list[str]) -> list[str]:
    """The modules of chainrule that one import statement loads by name."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        start = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*start, *([node.module] if node.module else [])])
        # `from chainrule import source` is of the module, `from chainrule import Graph` of __init__
        found = [inner if exists(inner := f"{base}.{alias.name}") else base for alias in node.names]
    else:
        return []
    return [name for name in found if name == "chainrule" or name.startswith("chainrule.")]


def imports(tree: ast.Module, file: str, package: list[str]) -> Iterator[Import]:
    """Every import of chainrule's own modules that can run; TYPE_CHECKING blocks cannot."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for target in targets(node, package):
                yield Import(file, target, node.lineno, inside)
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        checked = isinstance(node, ast.If) and is_type_checking(node.test)
        children = node.orelse if checked else ast.iter_child_nodes(node)
        pending += [(child, inside) for child in children if not isinstance(child, ast.expr)]


def is_type_checking(test: ast.expr) -> bool:
    match test:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name == "TYPE_CHECKING"
    return False


@cache
def imports_of(file: Path) -> list[Import]:
    module = module_of(file).split(".")
    package = module if file.name == "__init__.py" else module[:-1]
    name = file.relative_to(PACKAGE).as_posix()
    return list(imports(trees()[file], name, package))


def points_up(one: Import) -> bool:
    """Whether an import leads to a higher layer than the file's own."""
    own = one.file.split("/")[0].removesuffix(".py")
    return LAYERS.index(layer_of(one.target)) > LAYERS.index(own)


def test_every_module_belongs_to_a_layer_and_every_layer_exists() -> None:
    found = {file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in FILES}
    assert found == set(LAYERS)


def test_imports_point_down() -> None:
    upward = [one for file in FILES for one in imports_of(file) if points_up(one)]
    assert [f"{one.file}:{one.line} imports {one.target}" for one in upward] == []


def circles(graph: Mapping[str, Set[str]]) -> list[set[str]]:
    """The sets of modules of which each imports each, over others too; alone is no circle."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        found: set[str] = set()
        pending = [module]
        while pending:
            new = graph.get(pending.pop(), frozenset()) - found
            found |= new
            pending += new
        reached[module] = found
    return [
        {other for other in found if module in reached.get(other, ())}
        for module, found in reached.items()
        if module in found
    ]


def test_no_circle_of_imports_is_large() -> None:
    graph = {
        module_of(file): {one.target for one in imports_of(file)} - {module_of(file)}
        for file in FILES
    }
    largest = max(circles(graph), key=len)
    assert len(largest) <= LARGEST_CIRCLE, sorted(largest)


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert {frozenset(one) for one in circles(graph)} == {frozenset("abc"), frozenset("de")}


def test_files_are_short() -> None:
    lines = {f.relative_to(PACKAGE).as_posix(): len(f.read_bytes().splitlines()) for f in FILES}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def test_every_module_begins_with_what_it_is() -> None:
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        assert source.startswith('"""') and not source.startswith('""""""'), file


@pytest.mark.parametrize("folder", sorted({file.parent for file in FILES}), ids=lambda f: f.name)
def test_every_folder_has_a_readme(folder: Path) -> None:
    assert (folder / "README.md").is_file() or folder == PACKAGE


@pytest.mark.parametrize("readme", sorted(PACKAGE.rglob("README.md")), ids=lambda f: f.parent.name)
def test_a_readme_names_every_file_beside_it_and_no_other(readme: Path) -> None:
    named = set(re.findall(r"`(\w+\.py)`", readme.read_text("utf-8")))
    there = {file.name for file in readme.parent.glob("*.py")} - {"__init__.py"}
    assert there <= named
    assert named - there <= {file.name for file in FILES}, "names a file that is not there"


def pickles(node: ast.AST) -> bool:
    """Whether the code imports what pickles, or lets NumPy do it."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
        return not (isinstance(node.value, ast.Constant) and node.value.value is False)
    return bool({"pickle", "_pickle", "cPickle", "dill", "joblib", "shelve"} & set(names))


WORDS = re.compile(r"\b(allow_pickle|c?_?[pP]ickle|dill|joblib|shelve)\b")


def test_nothing_is_pickled() -> None:
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        if WORDS.search(source):  # most have none of the words
            assert not any(map(pickles, ast.walk(trees()[file]))), file


@pytest.mark.parametrize(
    "text",
    [
        *("import pickle", "import _pickle", "import cPickle", "import shelve, joblib"),
        *("from dill import load", "load(f, allow_pickle=x)"),
    ],
)
def test_what_pickles_is_found(text: str) -> None:
    assert WORDS.search(text) and any(map(pickles, ast.walk(ast.parse(text))))


def evaluates(file: Path) -> bool:
    """Whether the code calls eval or exec."""
    return bool(re.search(r"\b(eval|exec)\b", file.read_text("utf-8"))) and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"eval", "exec"}
        for node in ast.walk(trees()[file])
    )


def test_text_is_evaluated_only_in_files_that_are_known() -> None:
    found = {f.relative_to(PACKAGE).as_posix() for f in FILES if evaluates(f)}
    assert found == EVALUATES.keys()


@pytest.mark.parametrize(
    "planted",
    [
        "from chainrule.execute import run_graph",
        "import chainrule",
        "import chainrule as cr",
        "from chainrule import Graph",
        "from chainrule import transforms",
        "from ..execute.reference import evaluate",
        "from .. import functional",
        "try:\n    import chainrule.cli\nexcept ImportError:\n    pass",
        "def f():\n    from chainrule.tracing import trace",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from chainrule.execute import Run",
    ],
)
def test_an_import_that_points_up_is_found(planted: str) -> None:
    found = list(imports(ast.parse(planted), "graph/node.py", ["chainrule", "graph"]))
    assert [one for one in found if points_up(one)] == found != []


@pytest.mark.parametrize(
    "harmless",
    [
        "from chainrule import errors, source",
        "from . import sizes",
        "from chainrule.graph.types import ArrayType",
        "if TYPE_CHECKING:\n    from chainrule.execute import Run",
        "import numpy",
    ],
)
def test_an_import_that_points_down_is_none(harmless: str) -> None:
    assert not any(
        map(points_up, imports(ast.parse(harmless), "graph/node.py", ["chainrule", "graph"]))
    )


# Exceptions that no user meets: something below catches each.
INSIDE = {
    "DamagedEntryError",
    "Interrupted",
    "NotAffineError",
    "NotComputedError",
    "NotWritten",
    "ObjectError",
    "Stopped",
}
INSIDE |= {"Refused", "TooLong", "UndecidedError", "Unknown"}


@cache
def nodes(*kinds: type[ast.AST]) -> list[tuple[Path, Any]]:
    """The nodes of these kinds in all modules, with their files."""
    return [
        (file, node)
        for file, tree in trees().items()
        for node in every_node(tree)
        if isinstance(node, kinds)
    ]


@cache
def every_node(tree: ast.AST) -> list[ast.AST]:
    """All but what is in expressions, which are most of them."""
    found = [tree]
    for node in found:
        found += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
    return found


def every_kind() -> list[type[Exception]]:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    return [kind for kind in kinds if issubclass(kind, Exception)]


def is_exception(name: str, found: Set[str] = frozenset()) -> bool:
    kind = getattr(builtins, name, None)
    return name in found or (inspect.isclass(kind) and issubclass(kind, BaseException))


def defined() -> set[str]:
    """The exceptions that modules other than `errors` define."""
    classes = [node for file, node in nodes(ast.ClassDef) if file.name != "errors.py"]
    known, count = {kind.__name__ for kind in every_kind()}, -1
    found: set[str] = set()
    while len(found) > count:
        count = len(found)
        for node in classes:
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(is_exception(base, known | found) for base in bases):
                found.add(node.name)
    return found


def raised() -> Iterator[tuple[str, str]]:
    """What is raised or warned of, where it is named there: (name, file:line)."""
    for file, node in nodes(ast.Raise, ast.Expr):
        one: Any = None
        call = node.exc if isinstance(node, ast.Raise) else node.value
        if isinstance(node, ast.Raise):
            one = call.func if isinstance(call, ast.Call) else call
        elif isinstance(call, ast.Call) and ast.unparse(call.func).startswith("warnings.warn"):
            one = call.args[1] if len(call.args) > 1 else None
        if isinstance(one, ast.Name) and one.id[0].isupper():
            yield one.id, f"{file}:{node.lineno}"


def caught() -> Iterator[str]:
    """The names in all `except` clauses."""
    for _, node in nodes(ast.ExceptHandler):
        if node.type is not None:
            yield from (one.id for one in ast.walk(node.type) if isinstance(one, ast.Name))


def test_every_exception_that_a_user_can_meet_is_in_errors() -> None:
    assert defined() == INSIDE
    names = {kind.__name__ for kind in every_kind()} | INSIDE
    found = list(raised())
    assert len(found) > 300
    assert [one for one in found if not is_exception(one[0], names)] == []


def test_exceptions_that_are_not_in_errors_are_caught() -> None:
    assert INSIDE - set(caught()) == set()
