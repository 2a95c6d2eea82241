"""Compiled functions that tell how many times they were traced, and arrays for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr

RANDOM = np.random.default_rng(5)
EXECUTORS = ["native", "reference"]


class Counted:
    """The function, and how many times it was traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.traces = function, 0
        self.__signature__ = inspect.signature(function)
        self.__name__ = "counted"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.traces += 1
        return self.function(*args, **kwargs)


def compiling(executor: str) -> Callable[[Callable[..., Any]], tuple[Any, Counted]]:
    """Makes a compiled function, and counts its traces."""

    def make(function: Callable[..., Any]) -> tuple[Any, Counted]:
        counted = Counted(function)
        return cr.compile(counted, executor=executor), counted

    return make


def arrays(*shapes: tuple[int, ...], dtype: Any = float) -> list[np.ndarray]:
    return [RANDOM.normal(size=shape).astype(dtype) for shape in shapes]
