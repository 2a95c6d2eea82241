"""Large arrays are fetched ahead, once for each vector, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from emitted import TARGETS
from executing import compare, inputs_of, planned, text_of

import chainrule as cr
from chainrule.machine_code.target import host_target

LARGE = (640, 512)  # float32: more than a MiB
SMALL = (500, 512)
CPUS = "znver4", "emeraldrapids"


def fetched(function: Callable[..., Any], *arrays: np.ndarray) -> list[tuple[int, int]]:
    """How many lines each block of the loops fetches, to read them and to write them."""
    graph = cr.trace(function, *arrays)
    text = text_of(planned(graph, [node for _, node in graph.outputs], threads=1))
    blocks = re.split(r"^\w+:$", text, flags=re.MULTILINE)
    found = [re.findall(r"call void @llvm.prefetch.p0\(ptr \S+, i32 (\d)", one) for one in blocks]
    return [(one.count("0"), one.count("1")) for one in found if one]


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_a_large_array_is_fetched_once_for_each_vector() -> None:
    assert fetched(lambda x, y: x * y + x, zeros(LARGE), zeros(LARGE)) == [(2, 1)]


def test_what_fits_a_cache_is_not_fetched() -> None:
    assert prod(SMALL) * 4 < 2**20 < prod(LARGE) * 4
    assert fetched(lambda x, y: x * y + x, zeros(SMALL), zeros(SMALL)) == []
    assert fetched(lambda x, b: x + b, zeros(LARGE), zeros(LARGE[1:])) == [(1, 1)]


def test_what_the_sweep_before_has_read_is_not_fetched_again() -> None:
    summed, moved = fetched(lambda x: x - np.sum(x, axis=1, keepdims=True), zeros(LARGE))
    assert summed[0] >= 1 and summed[1] == 0  # several vectors a round
    assert moved == (0, 1)


def test_a_processor_that_fetches_by_itself_is_left_alone() -> None:
    graph = cr.trace(lambda x: np.exp(x), zeros(LARGE))
    made = planned(graph, [node for _, node in graph.outputs], threads=1)
    assert "prefetch" in text_of(made)
    assert "prefetch" not in text_of(made, fetches=False)
    assert [replace(host_target(), cpu=cpu).fetches_by_itself for cpu in CPUS] == [True, False]


def test_elements_that_lie_apart_are_not_fetched() -> None:
    assert fetched(lambda x: np.exp(x.T), zeros(LARGE)) == [(0, 1)]


@pytest.mark.parametrize("target", TARGETS)
def test_the_values_stay_the_references(target: str) -> None:
    x = np.random.default_rng(0).normal(size=(300, 1000)).astype(np.float32)
    graph = cr.trace(lambda x: cr.softmax(x) * x, x)
    results = [node for _, node in graph.outputs]
    compare(graph, inputs_of(graph, {"x": x}), results, 1e-6, target=TARGETS[target])
