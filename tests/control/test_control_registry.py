"""The primitives of control flow keep what every primitive keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import close

import chainrule as cr
from chainrule.control import CONTROL
from chainrule.control.cond_node import cond
from chainrule.control.scan_node import scan
from chainrule.control.while_node import while_
from chainrule.graph.body import Body
from chainrule.graph.invariants import INVARIANTS, check
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.testing import planted_fault
from chainrule.testing.checks import CHECKS
from chainrule.testing.samples import cases, graph_of, sample_arrays, sample_graph

CASES = [*cases(CONTROL)]
EVERY_CASE = pytest.mark.parametrize(
    ("primitive", "sample"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
FLOAT32 = ("type",)  # a body is of one dtype; the types are compared below
BACKWARD = ("derivatives", "agreement")  # while_ has forward mode alone


@EVERY_CASE
@pytest.mark.parametrize("check_name", [name for name in CHECKS if name not in FLOAT32])
def test_every_check_of_primitives_holds(
    primitive: Primitive, sample: Sample, check_name: str
) -> None:
    if primitive is not while_ or check_name not in BACKWARD:
        CHECKS[check_name](primitive, sample, 0)


@EVERY_CASE
def test_the_declared_type_is_the_real_one(primitive: Primitive, sample: Sample) -> None:
    arrays = sample_arrays(sample)
    graph = sample_graph(primitive, sample, arrays)
    got = primitive.evaluate(np, *arrays, **dict(sample.params))
    assert type_of(got) == graph["out"].type
    check(graph, INVARIANTS)
    for _, value in sample.params:
        if isinstance(value, Body):
            check(value.graph, INVARIANTS)


@EVERY_CASE
def test_other_types_are_refused(primitive: Primitive, sample: Sample) -> None:
    arrays = [one.astype(np.float32) for one in sample_arrays(sample)]
    with pytest.raises(TypeError):
        graph_of(primitive, [type_of(one) for one in arrays], dict(sample.params))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("kind", ["scaled", "missing", "detached", "one mode"])
@pytest.mark.parametrize(("primitive", "place"), [(scan, 0), (cond, 1)])
def test_a_wrong_derivative_is_found(primitive: Primitive, place: int, kind: str) -> None:
    sample = primitive.samples[2 % len(primitive.samples)]
    CHECKS["derivatives"](primitive, sample, 0)
    with pytest.raises(AssertionError):
        CHECKS["derivatives"](planted_fault(primitive, kind, place), sample, 0)


@EVERY_CASE
def test_every_executor_gives_the_same(primitive: Primitive, sample: Sample) -> None:
    arrays = sample_arrays(sample, 5)
    graph = sample_graph(primitive, sample, arrays)
    given = {item.name: one for item, one in zip(graph.inputs, arrays, strict=True)}
    pair = [graph.run(given, executor=one)["out"] for one in ("reference", "native")]
    assert close(pair[1], pair[0])


def test_bodies_that_compute_the_same_are_equal_and_make_equal_nodes() -> None:
    def program(xs: Any) -> Any:
        a = cr.scan(lambda c, x: (np.sin(c * x), c), 0.5, xs)[1]
        b = cr.scan(lambda h, y: (np.sin(h * y), h), 0.5, xs)[1]
        c = cr.scan(lambda h, y: (np.sin(h + y), h), 0.5, xs)[1]
        return a + b + c

    graph = cr.deduplicate(cr.trace(program, np.ones(3)))
    scans = [node for node in graph.nodes if node.primitive.name == "scan"]
    assert len(scans) == 2
    again = cr.trace(program, np.ones(3))
    assert again.structural_hash == cr.trace(program, np.ones(3)).structural_hash
