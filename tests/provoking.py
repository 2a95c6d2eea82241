"""The list of programs that provoke errors, and the messages that their docstrings are."""

import inspect
import re

import numpy as np

CASES = []
X, W, LABELS = np.ones((2, 3)), np.ones((4, 5)), np.array([0, 1, 7])


def provokes(kind):
    """The program below provokes this exception, whose whole text is its docstring."""

    def add(program):
        CASES.append((kind, program))
        return program

    return add


def full_text(case):
    """The docstring with the file, and the number of the line that it quotes or names, put in."""
    text = inspect.cleandoc(case.__doc__)
    found = re.search(r"FILE:LINE, in (.*)(?:\n    (.*))?", text)
    if found:
        wanted = found[2] or f"def {found[1].rpartition('.')[2]}"  # no line is quoted: a definition
        source, first = inspect.getsource(case), inspect.getsourcelines(case)[1]
        place = first + source[: source.rindex(wanted)].count("\n")  # the last: after the docstring
        text = text.replace("FILE:LINE", f"{inspect.getsourcefile(case)}:{place}")
    return text
