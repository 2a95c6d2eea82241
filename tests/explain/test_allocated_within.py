"""What NumPy really allocates for runs within a budget of memory."""

from __future__ import annotations

import tracemalloc

from deep_programs import deep
from executors import WITHIN
from numpy_memory import numpy_traced

import chainrule as cr


@WITHIN
def test_what_numpy_allocates_is_within_the_budget(executor: str) -> None:
    n, program = 4096, deep(5, 48)
    plain = program.step(cr.sgd(0.1), executor=executor)
    report = plain.memory(n=n)
    saved = report.main.parts["saved intermediates"]
    nbytes = report.needed_nbytes - saved // 2
    step = program.step(cr.sgd(0.1), executor=executor, memory=nbytes)
    batch = program.batch(n)
    peaks = []
    for one in (plain, step):
        state = program.state(one)
        one(state, x=batch)  # code is made
        state = program.state(one)
        with numpy_traced():
            one(state, x=batch)
            peaks.append(tracemalloc.get_traced_memory()[1])
    assert peaks[0] - peaks[1] >= saved // 2 - 4096
    given = report.main.usage.given_nbytes
    assert peaks[1] <= nbytes - given
