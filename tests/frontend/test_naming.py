"""Every form in which a program stores a value gives it the name that the source says.

Run as a script (`python test_naming.py`) it checks the table alone, without pytest and NumPy: so
each further Python that is installed is tested too.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import importlib
import importlib.util
import linecache
import operator
import os
import shutil
import subprocess
import sys
import textwrap
import types
import unittest.mock
from collections.abc import Iterable
from pathlib import Path

from naming_forms import TABLE

HERE = Path(__file__).resolve()
FRONTEND = HERE.parents[2] / "src" / "chainrule" / "frontend"


def load(module: str) -> types.ModuleType:
    """A module of the front end, without the package around it (which needs NumPy)."""
    package = sys.modules.get("naming_alone")
    if package is None:
        folders = {"naming_alone": FRONTEND}
        if __name__ == "__main__":  # what these modules need of the package needs no NumPy
            folders["chainrule"] = FRONTEND.parent
        for name, folder in folders.items():
            package = sys.modules[name] = types.ModuleType(name)
            package.__path__ = [str(folder)]
    return importlib.import_module(f"naming_alone.{module}")


bytecode, effects, frames = (load(f"bytecode.{one}") for one in ("stack", "effects", "frames"))
naming = load("naming")
_spec = importlib.util.spec_from_file_location("source_alone", FRONTEND.parent / "source.py")
assert _spec is not None and _spec.loader is not None
places = importlib.util.module_from_spec(_spec)
sys.modules["source_alone"] = places
_spec.loader.exec_module(places)

# A traced array that only notes the names of what it makes; its module is one of chainrule's.
STANDIN = """
import sys
class Namer(naming.Namer):
    def _target(self, frame, path):
        try:
            return super()._target(frame, path)
        except Unknown:
            raise
        except Exception as fault:  # target() would hide it
            faults.append(fault)
            raise
class Recorder:
    def __init__(self, root_code):
        self.namer = Namer(root_code)
        self.targets = []
        self.operands = []
        self.locations = []
    def note(self, *place):
        frame = naming.user_frame(sys._getframe(1))
        self.targets.append(self.namer.target(frame, place))
        self.operands.append((naming.operand_name(frame, 1), naming.operand_name(frame, 0)))
        self.locations.append(places.source_location(frame.f_code, frame.f_lasti))
        return Traced(self)
class Traced:
    def __init__(self, recorder): self.recorder = recorder
    def __matmul__(self, other): return self.recorder.note()
    def __iter__(self):
        for i in range(2):
            yield self.recorder.note((i, 2))
    __add__ = __radd__ = __mul__ = __rmul__ = __imatmul__ = __matmul__
    def __neg__(self): return self.recorder.note()
    def __getitem__(self, key): return self.recorder.note()
    @property
    def T(self): return self.recorder.note()
def op(x, *more): return x.recorder.note()
def inner(x): return op(x)
def composite(x): return inner(x)
def nested(x):
    h, c = [x.recorder.note((0, 2), (i, 2)) for i in range(2)]
    return (h, c), x.recorder.note((1, 2))
def keyed(x):
    d = {name: x.recorder.note((0, 2), (name, None)) for name in "hc"}
    return d, x.recorder.note((1, 2))
def split(x): return [x.recorder.note((i, 3)) for i in range(3)]
"""
standin = types.ModuleType("chainrule.standin")
faults: list[Exception] = []  # exceptions within the naming, other than Unknown
standin.__dict__.update(naming=naming, places=places, Unknown=frames.Unknown, faults=faults)
exec(compile(STANDIN, "<standin>", "exec"), standin.__dict__)


class Box(types.SimpleNamespace):
    """Something with attributes that is a context manager."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def record(source: str, form: str):
    """The recorder of one run of `source`, as the body of a function or as a notebook cell."""
    recorder = standin.Recorder(None)
    x, *weights = (standin.Traced(recorder) for _ in range(4))
    box = Box(box=Box(), d={}, hs=[], Ws=weights)
    given = {
        "x": x, "W": weights[0], "W1": weights[1], "W2": weights[2], "Ws": weights,
        "pairs": [(weights[0], x), (weights[1], x)], "dw": {"a": weights[0], "b": weights[1]},
        "d": {"a": {}}, "box": box, "flag": True,
    }  # fmt: skip
    forms = ("op", "composite", "split", "nested", "keyed")
    helpers = {name: getattr(standin, name) for name in forms}
    helpers |= {"functools": functools, "operator": operator, "__name__": "notebook"}
    if form == "notebook cell":
        code = compile(source, "<ipython-input-3-abc>", "exec")
        recorder.namer.root_code = code
        exec(code, helpers | given)
        return recorder
    filename = f"<naming {form}>"
    text = f"def root({', '.join(given)}):\n{textwrap.indent(source, '    ')}\n    return 0\n"
    if form == "function with source":
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), helpers)
    root = helpers["root"]
    recorder.namer.root_code = root.__code__
    root(**given)
    return recorder


FORMS = ("function with source", "function without source", "notebook cell")


def names_of(source: str, form: str = FORMS[0]) -> list[str | None]:
    return [target and target.name for target in record(source, form).targets]


def failures() -> list[str]:
    """Every row and form that does not give the names of the table."""
    return [
        f"{row} ({form}): {found} instead of {expected}"
        for row, (source, expected) in TABLE.items()
        for form in FORMS
        if (found := names_of(source, form)) != expected
    ]


def instructions_of(code: types.CodeType) -> set[str]:
    """The instructions of this code and of the functions and classes within."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {one.opname for one in dis.get_instructions(code)}.union(*map(instructions_of, inner))


SHORT = {row: pair for row, pair in TABLE.items() if len(pair[0]) + len(pair[1]) < 250}


def wrong_names(rows: Iterable[str] = SHORT) -> list[str]:
    """The rows in which a value has another name than that of the table, rather than none."""
    found = {row: names_of(TABLE[row][0]) for row in rows}
    return [
        f"{row}: {names} instead of {TABLE[row][1]}"
        for row, names in found.items()
        if any(one not in (None, other) for one, other in zip(names, TABLE[row][1], strict=True))
    ]


def wrong_names_where_an_instruction_is_unknown(most: int = 6) -> list[str]:
    """`wrong_names` without each instruction that `effects` knows, as if it were a later Python's,
    in so many rows that have the instruction: others are as they were.
    """
    tables = (effects.FIXED, effects.BY_ARGUMENT, effects.DESCRIBED, effects.LOADS)
    used = {
        row: instructions_of(record(source, FORMS[0]).namer.root_code)
        for row, (source, _) in SHORT.items()
    }
    found = []
    for name in sorted({name for table in tables for name in table} & set(dis.opmap)):
        with contextlib.ExitStack() as without:
            for table in tables:
                without.enter_context(unittest.mock.patch.dict(table)).pop(name, None)
            rows = [row for row, names in used.items() if name in names]
            some = rows[:: -(-len(rows) // most) or 1]
            found += [f"without {name}, {wrong}" for wrong in wrong_names(some)]
    return found


def other_pythons() -> dict[str, str]:
    """Version -> executable of every other Python that can be found and is new enough."""
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 16)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found: dict[str, str] = {}
    for name in [*filter(None, names), *map(str, pyenv.glob("versions/3.*/bin/python"))]:
        ask = [name, "-c", "import sys; print('.'.join(map(str, sys.version_info[:2])))"]
        answer = subprocess.run(ask, capture_output=True, text=True)  # a pyenv shim may fail
        version = answer.stdout.strip()
        if answer.returncode == 0 and (3, 11) <= tuple(map(int, version.split("."))):
            found.setdefault(version, name)
    found.pop(".".join(map(str, sys.version_info[:2])), None)
    return found


def pytest_generate_tests(metafunc) -> None:
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", TABLE)
    if "most" in metafunc.fixturenames:
        import pytest

        metafunc.parametrize("most", [6, pytest.param(len(TABLE), marks=pytest.mark.exhaustive)])


def test_the_source_names_every_value(row):
    source, expected = TABLE[row]
    for form in FORMS:
        assert names_of(source, form) == expected, form
    assert not faults


WITHOUT_RANGES = ("-X", "no_debug_ranges", "-X", "dev")


def test_python_gives_the_same_names_without_ranges(record_property):
    """Others do, too: `test_naming_by_others`."""
    check_in([("this one", sys.executable, WITHOUT_RANGES)], record_property)


def check_in(pythons, record_property):
    """The table of names, in processes of their own."""
    for version, python, flags in pythons:
        run = subprocess.run([python, *flags, str(HERE)], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        record_property("ran", f"naming table under Python {version} {' '.join(flags)}".strip())


def test_an_instruction_that_is_not_known_costs_names_but_makes_none_wrong(most):
    assert not wrong_names_where_an_instruction_is_unknown(most)


def test_each_instruction_is_declared_once():
    counted = [name for names in effects.COUNTED.values() for name in names.split()]
    declared = [*counted, *effects.BY_ARGUMENT, *effects.DESCRIBED, *effects.LOADS]
    assert len(declared) == len(set(declared))


def test_all_instructions_of_ordinary_code_are_known():
    asynchronous = {"RETURN_GENERATOR", "SEND", "GET_AWAITABLE", "CLEANUP_THROW", "GET_AITER"}
    asynchronous |= {"GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH", "ASYNC_GEN_WRAP"}
    forked = {"FOR_ITER", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"}  # in Analysis.step
    unknown = set()
    for module in ("argparse", "contextlib", "dataclasses", "inspect", "asyncio.tasks"):
        source = Path(importlib.import_module(module).__file__ or "").read_text()
        codes = [compile(source, module, "exec")]
        for code in codes:
            codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
            analysis = bytecode.Analysis(code)
            for offset, instruction in analysis.instructions.items():
                if effects.effect(instruction, analysis.before[offset], False, None) is None:
                    unknown.add(instruction.opname)
    assert unknown <= asynchronous | forked


def test_the_frame_of_a_target_is_the_one_that_stores_it():
    def frames_of(source):
        return [t and t.frame.f_code.co_name for t in record(source, FORMS[0]).targets]

    assert frames_of("h = x @ W") == ["root"]
    assert frames_of("def f(a):\n    y = op(a)\n    return y\nh = f(x)") == ["f"]
    assert frames_of("def f(a): return op(a)\nh = f(x)") == ["root"]
    assert frames_of("hs = [op(w) for w in (W, W1)]") == ["root", "root"]
    assert frames_of("hs = [(h := op(w)) for w in (W, W1)]") == ["root", "root"]
    assert frames_of("hs = list((h := op(w)) for w in (W, W1))") == ["root", "root"]


def test_what_the_traced_function_returns_is_not_named_after_its_callers_variable():
    text = "def root(x):\n    return op(x)\ndef outer(x):\n    graph = enter(x)\n    return graph\n"
    given = {"op": standin.op, "__name__": "notebook"}
    exec(text, given)
    entry = {"__name__": "chainrule.entry", "root": given["root"]}
    exec("def enter(x): return root(x)", entry)
    given["enter"] = entry["enter"]
    for root_code, names in [
        (given["root"].__code__, None),
        (entry["enter"].__code__, None),
        (None, "graph"),
    ]:
        recorder = standin.Recorder(root_code)
        given["outer"](standin.Traced(recorder))
        assert [target and target.name for target in recorder.targets] == [names]


def test_user_frame_skips_chainrule_and_numpy_but_nothing_that_is_only_named_like_them():
    for module, is_hidden in [
        ("chainrule", True),
        ("chainrule.frontend.traced", True),
        ("numpy.lib", True),
        ("chainrules", False),
        ("__main__", False),
        (None, False),
    ]:
        here: dict = {"find": naming.user_frame, "sys": sys} | (
            {"__name__": module} if module else {}
        )
        exec("def call(): frame = sys._getframe(); return find(frame) is frame", here)
        assert here["call"]() is not is_hidden, module
    assert naming.user_frame(None) is None


def test_operands_are_called_as_in_the_source():
    table = {
        "h = x @ W": (("local", "x"), ("local", "W")),
        "h = x @ box": (("local", "x"), ("local", "box")),
        "h = x * 2": (("local", "x"), None),
        "h = x * (1 + 1 * flag)": (("local", "x"), None),
        "h = box.rate * x": (("attribute", "box.rate"), ("local", "x")),
        "h = box.box.rate * x": (("attribute", "box.box.rate"), ("local", "x")),
        "h = x * d['rate']": (("local", "x"), ("item", "d.rate")),
        "k = 'rate'\nh = x * d[k]": (("local", "x"), ("item", "d.rate")),
        "h = x * rate": (("local", "x"), ("global", "rate")),
        "h = op * x": (("global", "op"), ("local", "x")),
        "def f(): return x * W\nh = f()": (("closure", "x"), ("closure", "W")),
        "h = op(x, W)": (("local", "x"), ("local", "W")),
        "h = x * (k := 3)": (("local", "x"), None),
        "h = x * (W if flag else W1)": (("local", "x"), None),
        "h = [x * w for w in (1,)]": (("local", "x"), ("local", "w")),
        "v = x\nh = v * (v := 3)": (None, None),
        "h = x\nh *= 3": (("local", "h"), None),
    }
    for source, (left, right) in table.items():
        setup = "box.rate = box.box.rate = d['rate'] = 0.5\nglobal rate\nrate = 2.0\n"
        found = record(setup + source, FORMS[0]).operands[-1]
        if "for w" in source and sys.version_info < (3, 12):
            left = ("closure", "x")  # the comprehension is a function
        assert found == (left, right), source
    cell = record("rate = 2.0\nh = x * rate", FORMS[2]).operands[-1]
    assert cell == (("global", "x"), ("global", "rate"))


def test_a_location_shows_the_expression():
    source = "h = 1 * x @ W  # é\ny = op('é', x) if x is None else op(x,\n    W)\nz = -x"
    recorder = record(source, FORMS[0])
    shown = [places.underlined(location) for location in recorder.locations]
    assert shown[1] == "h = 1 * x @ W  # é\n    ^^^^^^^^^"
    assert shown[2].splitlines()[1] == " " * shown[2].index("op(x,") + "^" * len("op(x,")
    first = recorder.locations[0]
    assert (first.filename, first.function, first.line) == (
        "<naming function with source>",
        "root",
        2,
    )


def test_columns_count_characters_that_are_wide_or_of_several_bytes():
    recorder = record("t = ('é', '漢', x @ W)", FORMS[0])
    line, carets = places.underlined(recorder.locations[0]).splitlines()
    assert carets == " " * (line.index("x @ W") + 1) + "^" * len("x @ W")


def test_a_location_without_source_or_columns_shows_what_there_is():
    with_source = record("h = x @ W", FORMS[0]).locations[0]
    bare = with_source._replace(column=None, end_column=None, end_line=None)
    assert places.underlined(bare) == "h = x @ W"
    sourceless = record("h = x @ W", FORMS[1]).locations[0]
    assert places.underlined(sourceless) == ""
    elsewhere = with_source._replace(column=500, end_column=600)
    assert places.underlined(elsewhere) == "h = x @ W"
    before = places.source_location(names_of.__code__, -1)
    assert before.line == names_of.__code__.co_firstlineno


def test_an_analysis_lives_as_long_as_its_code():
    code = compile("h = 1", "<short-lived>", "exec")
    key = id(code)
    bytecode.analysis_of(code)
    assert key in bytecode.analyses
    del code
    gc.collect()
    assert key not in bytecode.analyses


if __name__ == "__main__":
    strict = sys.version_info < (3, 15)  # of a later bytecode we ask only that no name is wrong
    found = [] if sys.flags.dev_mode else wrong_names_where_an_instruction_is_unknown()
    found += [*(failures() if strict else wrong_names()), *map(repr, faults)]
    sys.exit("\n".join(found) or None)
