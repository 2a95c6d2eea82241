"""The names of the package: each is listed on docs/api.md, and another one is told the nearest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import chainrule as cr

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
ROW = re.compile(r"^\| `(?:cr\.)?(?P<name>\w+)[^|]*` \| (?P<text>.+) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    return [(match["name"], match["text"]) for match in ROW.finditer(PAGE.read_text("utf-8"))]


def test_every_public_name_has_one_line_on_the_page() -> None:
    names = [name for name, _ in rows() if name in cr.__all__]
    assert sorted(names) == sorted(cr.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert cr.__version__ == project["version"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "crossentropy",
            "module 'chainrule' has no attribute 'crossentropy'; perhaps cross_entropy",
        ),
        ("Adam", "module 'chainrule' has no attribute 'Adam': cr.adam"),
        (
            "jit",
            "module 'chainrule' has no attribute 'jit': cr.compile(f) compiles once for each "
            "combination of argument types",
        ),
        ("tanh", "module 'chainrule' has no attribute 'tanh': write np.tanh, which is traced"),
        ("xyz", "module 'chainrule' has no attribute 'xyz'"),
        ("__wrapped__", "module 'chainrule' has no attribute '__wrapped__'"),
    ],
)
def test_a_name_that_is_not_there_is_explained(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(cr, name)
    assert str(caught.value) == text


def test_what_stands_elsewhere_names_what_is_here() -> None:
    for hint in cr._ELSEWHERE.values():
        for name in re.findall(r"cr\.(\w+)", hint):
            assert hasattr(cr, name), hint
