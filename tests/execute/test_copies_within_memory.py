"""Within a budget, copies of arguments are counted, or refused before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_layouts import backwards, unaligned, with_gaps
from deep_programs import deep, network
from executors import WITHIN, needs_native

import chainrule as cr
from chainrule.errors import MemoryLimitError

N, D = 512, 48
PROGRAM = deep(6, D)
NBYTES = 4 * N * D


def swapped(x: np.ndarray) -> np.ndarray:
    return x.astype(x.dtype.newbyteorder())


LAYOUTS = {
    "in Fortran order": np.asfortranarray,
    "with gaps": with_gaps,
    "backwards": backwards,
    "at an odd address": unaligned,
    "of another byte order": swapped,
}
WAYS = ("run", "compiled graph", "compiled function", "step")


def ways(
    way: str, executor: str, memory: int | None
) -> tuple[Callable[..., Any], Callable[[np.ndarray], bytes]]:
    """The report of a way to run a program, and the bits that it gives."""
    given = {"executor": executor, "memory": memory}
    if way == "step":
        step = PROGRAM.step(cr.sgd(0.1), **given)

        def taken(x: np.ndarray) -> bytes:
            state = PROGRAM.state(step)
            J = step(state, x=x)
            return b"".join([J.tobytes(), *[state[name].tobytes() for name in state]])

        return step.memory, taken
    graph = cr.backward(cr.trace(network, x=cr.float32["n 48"], Ws=PROGRAM.parameters), wrt="Ws")

    def report(**named: Any) -> Any:
        return graph.memory(**named, **given)

    compiled = graph.compile(**given)
    if way == "run":
        return report, lambda x: _bits(compiled.run(x=x, Ws=PROGRAM.parameters).outputs)
    if way == "compiled graph":
        return report, lambda x: _bits(compiled(x=x, Ws=PROGRAM.parameters))
    function = cr.compile(cr.grad(network, wrt="Ws"), **given)
    return report, lambda x: _bits(function(x, PROGRAM.parameters))


def _bits(found: Any) -> bytes:
    found = found if isinstance(found, (list, tuple)) else [found]
    return b"".join(
        _bits(one) if isinstance(one, (list, tuple)) else one.tobytes() for one in found
    )


def copied(executor: str, name: str) -> int:
    """The arrays that are made of one that lies so."""
    return int(executor == "native" or name == "of another byte order")


def least_within(way: str, executor: str) -> int:
    """A budget that is used up."""
    report, _ = ways(way, executor, None)
    report, _ = ways(way, executor, report(n=N).needed_nbytes - 2 * NBYTES)
    return report(n=N).needed_nbytes


@pytest.mark.slow
@pytest.mark.sweep(25)
@WITHIN
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_that_a_budget_has_no_room_for_are_refused(
    name: str, way: str, executor: str
) -> None:
    limit = least_within(way, executor)
    report, call = ways(way, executor, limit)
    plain = PROGRAM.batch(N)
    want, x = call(plain), LAYOUTS[name](plain)
    if not copied(executor, name):
        assert report(n=N, layout={"x": x}).needed_nbytes <= limit
        assert call(x)
        return
    with pytest.raises(MemoryLimitError, match=r"would copy arguments") as error:
        call(x)
    assert error.value.budget_nbytes == limit
    assert limit < error.value.needed_nbytes <= limit + 2 * NBYTES
    assert re.search(r"x \([\d,]+\)", str(error.value)) or "compiled function" in way
    advice = re.search(r'pass (np\.array\((.+), "float32", order="C"\))', str(error.value))
    assert advice is not None
    assert call(np.array(x, "float32", order="C")) == want
    if name == "in Fortran order":
        assert "np.ascontiguousarray(" in str(error.value)
        assert call(np.ascontiguousarray(x)) == want
    if way != "compiled function":
        with pytest.raises(MemoryLimitError, match="would copy arguments") as told:
            report(n=N, layout={"x": x})
        assert told.value.budget_nbytes == limit


@pytest.mark.slow
@pytest.mark.sweep(5)
@WITHIN
@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_that_a_budget_has_room_for_are_made(name: str, executor: str) -> None:
    report, call = ways("step", executor, None)
    x = PROGRAM.batch(N)
    want = call(x)
    _, call = ways("step", executor, report(n=N).needed_nbytes + 3 * NBYTES)
    other = LAYOUTS[name](x)
    assert call(other) == (want if executor == "native" else ways("step", executor, None)[1](other))


@pytest.mark.slow
@pytest.mark.sweep(6)
@WITHIN
@pytest.mark.parametrize("name", ["in Fortran order", "of another byte order"])
def test_copies_of_batches_in_parts_are_refused(name: str, executor: str) -> None:
    whole = PROGRAM.step(cr.sgd(0.1), executor=executor)
    limit = whole.micro_batched(4).memory(n=N).needed_nbytes - NBYTES // 4
    limit = _parts(executor, limit).memory(n=N).needed_nbytes
    parts, x = _parts(executor, limit), PROGRAM.batch(N)
    other = LAYOUTS[name](x)
    state = PROGRAM.state(parts)
    if not copied(executor, name):
        parts(state, x=other)
        return
    with pytest.raises(MemoryLimitError, match="would copy arguments"):
        parts(state, x=other)
    for key, array in PROGRAM.state(parts).items():
        np.testing.assert_array_equal(state[key], array)
    J = parts(state, x=np.ascontiguousarray(other, np.float32))
    assert J == whole.micro_batched(4)(PROGRAM.state(whole), x=x)


def _parts(executor: str, memory: int) -> Any:
    return PROGRAM.step(cr.sgd(0.1), executor=executor, memory=memory).micro_batched(4)


def columns(x: cr.float32["48 n"], Ws: Any) -> Any:
    return network(np.swapaxes(x, 0, 1), Ws)


@pytest.mark.slow
@needs_native
def test_parts_on_another_axis_are_counted_as_copies() -> None:
    given = {"Ws": PROGRAM.parameters}
    plain = cr.training_step(columns, "Ws", cr.sgd(0.1), executor="native", **given)
    parts = plain.micro_batched(2)
    x = np.ascontiguousarray(PROGRAM.batch(N).T)
    full = parts.memory(n=N).needed_nbytes
    for limit in (full, full - NBYTES):
        step = cr.training_step(
            columns, "Ws", cr.sgd(0.1), executor="native", memory=limit, **given
        ).micro_batched(2)
        assert step.memory(n=N).needed_nbytes <= limit
        state, other = plain.init(given), step.init(given)
        assert step(other, x=x) == parts(state, x=x)
        for key, array in state.items():
            assert other[key].tobytes() == array.tobytes()
