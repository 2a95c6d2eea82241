"""Equations as files, and in notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from graphs_to_explain import mlp

from chainrule.errors import InputError
from chainrule.explain.equations import equations


@pytest.mark.parametrize("suffix", [".tex", ".md", ".txt"])
def test_equations_are_saved_by_suffix(tmp_path: Path, suffix: str) -> None:
    found = equations(mlp())
    found.save(tmp_path / f"equations{suffix}")
    content = (tmp_path / f"equations{suffix}").read_text("utf-8")
    parts = {".tex": found.latex(), ".md": found.markdown(), ".txt": str(found)}
    assert parts[suffix] in content and [*tmp_path.iterdir()] == [tmp_path / f"equations{suffix}"]


def test_a_file_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    found = equations(mlp())
    with pytest.raises(InputError, match=r"not written as \.pdf.*\n.*equations\.tex"):
        found.save(tmp_path / "equations.pdf")
    with pytest.raises(InputError, match=r"(?s)cannot write .*No such file.*folder that exists"):
        found.save(tmp_path / "missing" / "equations.md")
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        found.save(tmp_path / "folder.md")
    assert [one.name for one in tmp_path.iterdir()] == ["folder.md"]


def test_notebooks_get_all_three() -> None:
    found = equations(mlp())
    bundle = found._repr_mimebundle_()
    assert bundle == {
        "text/latex": found.latex(),
        "text/markdown": found.markdown(),
        "text/plain": str(found),
    }
