"""Training within a budget of memory: trainers, and batches that are taken in parts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from deep_programs import deep
from executors import WITHIN

import chainrule as cr
from chainrule.errors import InputError, MemoryLimitError

ROWS, PARTS = 512, 4
PROGRAM, SMALL = deep(6, 32), deep(4, 32)
TINY = deep(3, 8)


@pytest.mark.slow
@pytest.mark.sweep(2)
@WITHIN
def test_parts_and_update_are_within_the_budget_together(executor: str) -> None:
    plain = PROGRAM.step(executor=executor).micro_batched(PARTS)
    full = plain.memory(n=ROWS).needed_nbytes
    with pytest.raises(MemoryLimitError) as error:
        PROGRAM.step(executor=executor, memory=0).micro_batched(PARTS).memory(n=ROWS)
    assert error.value.budget_nbytes == 0
    state = PROGRAM.state(plain)
    want = [plain(state, x=PROGRAM.batch(ROWS)) for _ in range(2)]
    for saved in (0, 60_000):
        nbytes = full - saved
        step = PROGRAM.step(executor=executor, memory=nbytes).micro_batched(PARTS)
        assert step.memory(n=ROWS).needed_nbytes <= nbytes
        mine = PROGRAM.state(step)
        assert [step(mine, x=PROGRAM.batch(ROWS)) for _ in range(2)] == want
        for key, array in state.items():
            assert mine[key].tobytes() == array.tobytes()
        values = step.memory(n=ROWS).accumulating.values.values()
        again = sum(bool(value.again_at) for value in values)
        assert saved or not again
    assert again or executor == "reference"  # where another order is enough


@WITHIN
def test_the_amount_that_is_said_to_be_enough_for_parts_and_update_is(executor: str) -> None:
    """It is not what is left for one part, nor what the update needs."""

    def parts(memory: int) -> Any:
        return TINY.step(cr.adam(), executor=executor, memory=memory).micro_batched(PARTS)

    enough = 0
    for nbytes in (0, -1):
        step = parts(nbytes + (enough if nbytes < 0 else 0))
        with pytest.raises(MemoryLimitError, match="4 parts of a batch and the update") as error:
            step(TINY.state(step), x=TINY.batch(ROWS))
        enough = error.value.needed_nbytes
        assert f"at least {enough:,} bytes" in str(error.value)
        assert f"memory={enough} is enough" in str(error.value)
        assert re.search(r"of one part, [\d,]+ bytes are beside arrays", str(error.value))
    step = parts(enough)
    step(TINY.state(step), x=TINY.batch(ROWS))
    assert step.memory(n=ROWS).needed_nbytes == enough
    assert step.fits(enough, n=ROWS) and not step.fits(enough - 1, n=ROWS)


@pytest.mark.sweep(2)
@WITHIN
def test_trainers_have_budgets(executor: str) -> None:
    def trained(**options: object) -> cr.Trainer:
        trainer = cr.Trainer(
            cr.trace(PROGRAM.objective, x=cr.float32["n", 32], Ws=PROGRAM.parameters),
            {"Ws": PROGRAM.parameters},
            cr.sgd(0.1),
            {"x": PROGRAM.batch(1024)},
            batch_size=ROWS,
            executor=executor,
            progress=False,
            **options,  # pyright: ignore[reportArgumentType]
        )
        trainer.fit(2)
        return trainer

    plain = trained()
    nbytes = plain.memory().needed_nbytes - 100_000
    within = trained(memory=nbytes)
    assert within.memory().needed_nbytes <= nbytes
    for key, array in plain.state.items():
        assert within.state[key].tobytes() == array.tobytes()
    with pytest.raises(InputError, match="memory= was given beside a training step"):
        cr.Trainer(PROGRAM.step(), {"Ws": PROGRAM.parameters}, memory=nbytes)


@pytest.mark.slow
@pytest.mark.sweep(2)
@WITHIN
def test_what_a_refusal_advises_is_right(executor: str) -> None:
    """Every way that it names is taken, with the same budget."""
    optimizer = cr.adam(1e-3)
    plain = SMALL.step(optimizer, executor=executor)
    with pytest.raises(MemoryLimitError) as found:
        SMALL.step(optimizer, executor=executor, memory=0).memory(n=ROWS)
    least = found.value.needed_nbytes
    assert least < plain.memory(n=ROWS).needed_nbytes
    nbytes = least - 30_000
    step = SMALL.step(optimizer, executor=executor, memory=nbytes)
    state = SMALL.state(step)
    with pytest.raises(MemoryLimitError) as refused:
        step(state, x=SMALL.batch(ROWS))
    error = refused.value
    assert (error.needed_nbytes, error.budget_nbytes) == (least, nbytes)
    text = str(error)
    assert f"a run of network needs at least {least:,} bytes" in text
    assert f"and memory is {nbytes:,}" in text
    assert re.search(r"at the peak, while .* is computed:\n    \S+ +[\d,]+\n", text)
    (enough,) = re.findall(r"try: memory=(\d+) is enough; ", text)
    assert SMALL.step(optimizer, executor=executor, memory=int(enough)).memory(n=ROWS)
    (smaller,) = re.findall(r"; n = (\d+) fits; ", text)
    assert 8 < int(smaller) < ROWS
    step(state, x=SMALL.batch(int(smaller)))
    (count,) = re.findall(r"; step.micro_batched\((\d+)\) fits", text)
    parts = step.micro_batched(int(count))
    parts(SMALL.state(parts), x=SMALL.batch(ROWS))
    other = SMALL.step(cr.sgd(0.1), executor=executor, memory=nbytes)
    try:
        other(SMALL.state(other), x=SMALL.batch(ROWS))
    except MemoryLimitError:  # its code may take more than the arrays of adam
        assert "cr.sgd" not in text and executor == "native"
    else:
        assert "; cr.sgd as the optimizer, which has no arrays of its own, fits" in text


def test_a_graph_that_is_refused_says_which_size_fits() -> None:
    graph = cr.trace(PROGRAM.objective, x=cr.float32["n", 32], Ws=PROGRAM.parameters)
    graph = cr.backward(graph, wrt="Ws")
    limit = graph.memory(n=256, executor="reference").needed_nbytes
    compiled = graph.compile(executor="reference", memory=limit)
    given = {"Ws": PROGRAM.parameters}
    with pytest.raises(MemoryLimitError, match=r"memory=\d+ is enough; n = [\d,]+ fits") as error:
        compiled(x=PROGRAM.batch(4096), **given)
    (size,) = re.findall(r"n = ([\d,]+) fits", str(error.value))
    assert int(size.replace(",", "")) >= 256
    compiled(x=PROGRAM.batch(int(size.replace(",", ""))), **given)
