"""Reads the states of random generators, to compare them, without drawing.

The generators that `np.random` and `random` share are read for every traced program, so their bytes
are copied as they lie in memory: their own methods make 624 numbers of Python each.
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

SHARED: Any = np.random.normal.__self__  # what np.random.normal and its like draw from
PYTHONS: Any = random.random.__self__  # what random.random and its like draw from
GENERATORS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    random.Random,
)
_HEAD = object.__basicsize__  # the count of references is no part of a state
_MERSENNE_NBYTES = 4 * 625  # its 624 numbers, and the place


def is_generator(value: Any) -> bool:
    """Whether this is a generator whose state can be read (the system's has none)."""
    if isinstance(value, GENERATORS):
        return not isinstance(value, random.SystemRandom)
    return type(value).__name__ == "Generator" and type(value).__module__ == "torch._C"


def torchs() -> Any:
    """The generator that PyTorch's functions share; None where it is not loaded."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def state_of(generator: Any) -> Any:
    """The state of a generator as something that can be compared."""
    kind = type(generator)
    if kind is random.Random:
        return _bytes_of(generator, random.Random.__base__), generator.gauss_next
    if isinstance(generator, random.Random):
        return generator.getstate()
    if kind is np.random.RandomState and type(generator._bit_generator) is np.random.MT19937:
        numbers = bytes(_memory(_address(generator._bit_generator), _MERSENNE_NBYTES))
        return numbers, _bytes_of(generator, kind)  # which has the second number of a normal pair
    if isinstance(generator, np.random.RandomState):
        return _comparable(generator.get_state(legacy=False))
    if isinstance(generator, np.random.Generator):
        generator = generator.bit_generator
    if isinstance(generator, np.random.BitGenerator):
        return _comparable(generator.state)
    return generator.get_state().numpy().tobytes()  # PyTorch's


def _bytes_of(value: Any, kind: Any) -> bytes:
    """What the C structure of `kind` has in this object."""
    return bytes(_memory(id(value) + _HEAD, kind.__basicsize__ - _HEAD))


@functools.lru_cache(maxsize=256)
def _memory(address: int, nbytes: int) -> memoryview:
    """What lies at an address, to be read while an object that lives has it."""
    return memoryview((ctypes.c_char * nbytes).from_address(address))


def _address(bits: Any) -> int:
    return bits.ctypes.state_address


def _comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return tuple([(key, _comparable(value)) for key, value in found.items()])
    return found.tobytes() if isinstance(found, np.ndarray) else found


def package_of(value: Any) -> str:
    """The package that a module, a function, a class, or the class of an object is of."""
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        is_named = isinstance(value, (FunctionType, BuiltinFunctionType, type))
        name = (value if is_named else type(value)).__module__
    return name.partition(".")[0] if isinstance(name, str) else ""
