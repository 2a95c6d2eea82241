"""What every page has inside: our modules in dependency order, styles, skeleton, libraries."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from chainrule.dataclass import dataclass

ENTRY = "boot.js"
STYLES = (  # later ones count more
    "colours.css",
    "base.css",
    "head.css",
    "places.css",
    "outline.css",
    "graph.css",
    "inspector.css",
    "below.css",
    "budget.css",
    "help.css",
    "narrow.css",
    "print.css",
)
_NAMES = r"(?P<names>[\w$]+(?:, [\w$]+)*)"
_IMPORT = re.compile(rf'import \{{ {_NAMES} \}} from "\./(?P<file>[\w-]+\.js)";')
_DECLARED = r"(?:async )?(?:function\*?|const|let|class) (?P<name>[\w$]+)"
_EXPORT = re.compile(rf"export (?={_DECLARED})")
_TOP = re.compile(rf"(?:export )?{_DECLARED}")
_ENDS_SCRIPT = re.compile(r"</script|<!--|\r", re.IGNORECASE)
_ENDS_STYLE = re.compile(r"</style|<!--|@import|url\((?!data:)", re.IGNORECASE)


@dataclass(frozen=True)
class Assets:
    """The parts of a page that are the same in every page, as text."""

    skeleton: str  # of the body, without scripts
    styles: str
    libraries: tuple[str, ...]  # classic scripts
    program: str  # one module
    licences: str


@cache
def assets() -> Assets:
    """The files of the package, read once."""
    return Assets(
        skeleton=_without(re.compile("<script", re.IGNORECASE), "page.html", _page("page.html")),
        styles="\n".join(
            _without(_ENDS_STYLE, name, text)
            for name, text in {
                "katex.min.css": _vendor("katex/katex.min.css"),
                "uPlot.min.css": _vendor("uplot/uPlot.min.css"),
                **{name: _page(name) for name in STYLES},
            }.items()
        ),
        libraries=tuple(
            _without(_ENDS_SCRIPT, name, _vendor(name))
            for name in ("katex/katex.min.js", "uplot/uPlot.iife.min.js")
        ),
        program=assembled(_page),
        licences=_without(
            re.compile("--|>"),
            "LICENSE",
            "".join(
                f"{name}\n\n{_vendor(f'{folder}/LICENSE')}\n"
                for name, folder in (("KaTeX", "katex"), ("uPlot", "uplot"))
            ),
        ),
    )


def assembled(read: Callable[[str], str], entry: str = ENTRY) -> str:
    """The module `entry` and all that it imports as one module, each after those it imports.

    `read` gives the text of a file by its name.  Imports are lines
    `import { a, b } from "./file.js";`, exports `export function`, `const` or `class`, and a name
    is declared at the top of one file only; AssertionError where that is not so.
    """
    modules: dict[str, _Module] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules[name] = _module(name, read(name))
            waiting += modules[name].imports
    _check(modules)
    order = graphlib.TopologicalSorter(
        {name: sorted(modules[name].imports) for name in sorted(modules)}
    )
    try:
        names = list(order.static_order())
    except graphlib.CycleError as error:
        raise AssertionError(f"modules import each other: {' -> '.join(error.args[1])}") from error
    return "\n".join(f"// {name}\n{modules[name].text.strip()}\n" for name in names)


@dataclass(frozen=True)
class _Module:
    text: str
    imports: dict[str, list[str]]  # names by file
    exports: frozenset[str]
    declared: tuple[str, ...]


def _module(name: str, source: str) -> _Module:
    _without(_ENDS_SCRIPT, name, source)
    imports: dict[str, list[str]] = {}
    exports, declared, kept = set(), [], []
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("import "):
            found = _IMPORT.fullmatch(line)
            assert found, f"{name}:{number}: this import has another form: {line}"
            imports.setdefault(found["file"], []).extend(found["names"].split(", "))
            continue
        if line.startswith("export "):
            found = _EXPORT.match(line)
            assert found, f"{name}:{number}: this export has another form: {line}"
            exports.add(found["name"])
        if top := _TOP.match(line):
            declared.append(top["name"])
        kept.append(_EXPORT.sub("", line, count=1) if line.startswith("export ") else line)
    return _Module("\n".join(kept), imports, frozenset(exports), tuple(declared))


def _check(modules: dict[str, _Module]) -> None:
    """Every name that is imported is exported there, and no two files declare the same one."""
    owner: dict[str, str] = {}
    for name, module in sorted(modules.items()):
        for file, names in module.imports.items():
            missing = sorted(set(names) - modules[file].exports)
            assert not missing, f"{name} imports {', '.join(missing)}, which {file} does not export"
        for one in module.declared:
            assert one not in owner, f"{one} is declared in {owner[one]} and in {name}"
            owner[one] = name


def _without(pattern: re.Pattern[str], name: str, text: str) -> str:
    """The text, which has nothing that would end the element around it."""
    found = pattern.search(text)
    assert found is None, f"{name} has {found and found[0]!r}, which cannot be inside a page"
    return text


def _page(name: str) -> str:
    return files("chainrule.explain.report").joinpath("page", name).read_text(encoding="utf-8")


def _vendor(name: str) -> str:
    return files("chainrule.explain.report").joinpath("vendor", name).read_text(encoding="utf-8")
