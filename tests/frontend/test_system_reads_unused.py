"""Entropy, clocks and files whose numbers reach no graph, as in a log: nothing is told."""

from __future__ import annotations

import datetime
import inspect
import logging
import math
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from freezing import told_by

import chainrule as cr

X = np.ones(3)


def seconds_for_a_log(x: Any) -> Any:
    start = time.perf_counter()
    y = 2.5 * np.sin(x) + x / -3 + GIVEN
    _ = f"{time.perf_counter() - start} s, {datetime.datetime.now()}"
    return y


GIVEN = np.array([1.0, 2.0, 3.0])


def a_log(x: Any, path: str) -> Any:
    with open(path, "a") as file:
        file.write("traced")
    return x * 0.1


LOGGER = logging.getLogger(__name__)


def seconds_beside_computed_numbers(x: Any) -> Any:
    start = time.time()
    y = x * (math.pi / 180) @ np.full((3, 3), 0.37)
    LOGGER.debug("%s", 1e3 * (time.time() - start))
    return y * np.sqrt(2 * np.pi)


def seconds_that_are_kept(x: Any) -> Any:
    start = time.perf_counter()
    y = x * np.linspace(0.1, 0.7, 3) / 7.77
    SECONDS["last"] = time.perf_counter() - start
    if SECONDS["last"] > 60:
        print(f"slow: {SECONDS}")
    return y


SECONDS: dict[str, float] = {}


def a_log_beside_arrays(x: Any, path: str) -> Any:
    with open(path, "w") as file:
        file.write("traced")
    return x * np.array([1.5, 2.5, 3.5]) * (np.pi / 7)


def a_line_that_is_added(x: Any, path: str) -> Any:
    file = open(path, "a")
    print("traced", file=file)
    file.close()
    return x * np.array([1.5, 2.5, 3.5])


def a_name_for_a_log(x: Any) -> Any:
    logger = logging.getLogger(str(uuid.uuid4()))
    logger.debug("traced %s", uuid.uuid4().hex)
    return x * 2.0


def a_file_that_is_there(x: Any, path: str) -> Any:
    if os.path.exists(path) and os.stat(path).st_size > 10:
        print(os.path.getmtime(path))
    return x * np.array([1.5, 2.5, 3.5]) * 0.7


def sleeping(x: Any) -> Any:
    time.sleep(1e-6)
    return x * (math.pi / 180)


NOT_USED = [
    seconds_beside_computed_numbers,
    seconds_that_are_kept,
    a_log_beside_arrays,
    a_line_that_is_added,
    a_name_for_a_log,
    a_file_that_is_there,
    sleeping,
]


@pytest.mark.parametrize("function", NOT_USED)
def test_what_is_only_shown_is_silent_beside_other_constants(function: Any, tmp_path: Path) -> None:
    more = (str(tmp_path / "log"),) * ("path" in inspect.signature(function).parameters)
    assert told_by(lambda: cr.trace(function, X, *more)) == []


def entropy_that_is_not_drawn(x: Any, noisy: bool = False) -> Any:
    return x + os.urandom(1)[0] if noisy else x


def a_seed(x: Any) -> Any:
    return x + np.random.default_rng(np.random.SeedSequence(5)).normal(size=3)


@pytest.mark.parametrize("function", [seconds_for_a_log, entropy_that_is_not_drawn, a_seed, a_log])
def test_what_leaves_no_number_in_the_graph_is_silent(function: Any, tmp_path: Path) -> None:
    more = (str(tmp_path / "log"),) * ("path" in inspect.signature(function).parameters)
    assert told_by(lambda: cr.trace(function, X, *more)) == []
    assert sys.getprofile() is None
