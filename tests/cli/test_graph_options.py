"""The options that say which graph: alike in every command that takes `FILE.py:FUNCTION`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chainrule.cli import COMMANDS as ALL_COMMANDS
from chainrule.cli import main

MODEL = """
import numpy as np
from chainrule import float64

def objective(x: float64["n d"], W: float64["d 2"], b: float64["2"]):
    h = np.tanh(x @ W + b)
    J = np.sum(h**2)
    return J
"""
COMMANDS = [
    name
    for name in ALL_COMMANDS
    if any(
        isinstance(one, click.Argument) and one.name == "place"
        for one in main.get_command(None, name).params
    )
]
PAGE = {"draw": "objective.svg", "explain": "objective.html"}


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "optional.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "optional", raising=False)


def call(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, "optional.py:objective", *arguments])


def made(command: str, *arguments: str) -> str:
    """What the command prints, and writes."""
    result = call(command, *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    page = Path(PAGE.get(command, ""))
    return result.stdout + (page.read_text(encoding="utf-8") if page.is_file() else "")


def refused(command: str, *arguments: str) -> str:
    result = call(command, *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr.partition("Error: ")[2].rstrip("\n")


def test_the_commands_on_graphs_are_these() -> None:
    assert COMMANDS[:6] == ["memory", "cost", "draw", "equations", "python", "explain"]
    assert COMMANDS[6:] == ["batch", "ways"]


@pytest.mark.parametrize("command", COMMANDS)
def test_sizes_and_names_are_options_of_one_spelling(command: str) -> None:
    options = {one.opts[0]: one for one in main.get_command(None, command).params}
    assert options["--dim"].metavar == "NAME=SIZE,..."
    assert options["--wrt"].metavar == "NAME,..."


# `batch` takes its sizes from data; `ways` plans many steps.
@pytest.mark.parametrize(
    "command", [*COMMANDS[:6], pytest.param("ways", marks=pytest.mark.exhaustive)]
)
def test_commas_are_as_good_as_options_that_are_given_again(command: str) -> None:
    apart = made(command, "--dim", "n=4", "--dim", "d=3", "--wrt", "W", "--wrt", "b")
    assert made(command, "--dim", "n=4,d=3", "--wrt", "W,b") == apart
    assert made(command, "--dim", "n=4, d=3", "--wrt", "W, b") == apart
    assert made(command, "--dim", "n=4,d=3", "--wrt", "W") != apart


@pytest.mark.parametrize("command", COMMANDS)
def test_a_size_without_its_option_is_told_it(command: str) -> None:
    assert refused(command, "n=4") == "n=4 belongs to no option\n  try: --dim n=4"
    two = "n=4 d=3 belong to no option\n  try: --dim n=4,d=3"
    assert refused(command, "n=4", "d=3") == two


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "equations"])
def test_a_second_name_after_wrt_is_told_how_names_are_given(command: str) -> None:
    assert refused(command, "--wrt", "W", "b") == "b belongs to no option\n  try: --wrt W,b"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_part_is_refused(command: str) -> None:
    text = "--wrt 'W,' has an empty part\n  try: --wrt NAME, or --wrt NAME,NAME without blanks"
    assert refused(command, "--wrt", "W,", "b") == text
    text = "--dim '' has an empty part\n"
    text += "  try: --dim NAME=SIZE, or --dim NAME=SIZE,NAME=SIZE without blanks"
    assert refused(command, "--dim", "") == text


def test_a_comma_in_brackets_is_part_of_a_name() -> None:
    result = call("equations", "--wrt", "p[0,1],W")
    assert "no value called 'p[0,1]'" in result.stderr


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        ("memory", "--keep", ("h", "J")),
        ("memory", "--predict", ("h", "J")),
        ("draw", "--expand", ("h", "J")),
    ],
)
def test_other_names_go_with_commas_too(command: str, option: str, names: tuple[str, str]) -> None:
    apart = made(command, option, names[0], option, names[1])
    assert made(command, option, ",".join(names)) == apart
    assert made(command, option, names[0]) != apart
