"""Training within a budget of memory: trainers, and batches that are taken in parts."""

from __future__ import annotations

import re

import pytest
from deep_programs import deep
from executors import WITHIN

import chainrule as cr
from chainrule.errors import InputError, MemoryLimitError

ROWS, PARTS = 512, 4
PROGRAM, SMALL = deep(6, 32), deep(4, 32)


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


@pytest.mark.slow
def test_one_part_that_does_not_fit_says_so() -> None:
    with pytest.raises(MemoryLimitError) as alone:
        parts = SMALL.step(executor="reference", memory=0).micro_batched(PARTS)
        parts.accumulating.memory(n=ROWS // PARTS)
    nbytes = alone.value.needed_nbytes + 1000
    step = SMALL.step(executor="reference", memory=nbytes).micro_batched(PARTS)
    with pytest.raises(MemoryLimitError, match="needs at least") as error:
        step(SMALL.state(step), x=SMALL.batch(ROWS))
    assert f"what {nbytes:,} bytes leave for one of 4 parts" in "".join(error.value.__notes__)


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
