"""Functions of the small part of Python that `translate` knows, run as machine code, or by Python
where there is none."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.disk import cache
from chainrule.machine_code.forks import making
from chainrule.machine_code.object_file import ObjectError
from chainrule.machine_code.target import (
    Library,
    compile_object,
    host_target,
    llvm_versions,
    load_objects,
    native_refusal,
)
from chainrule.machine_code.translate import ELEMENTS, fields_of, translate

NUMBERS = {"i64": np.int64, "double": np.float64}


@dataclass(frozen=True)
class Compiled:
    """The object file of a kernel."""

    code: bytes


class Kernel:
    """A function of one state that returns an integer, with the functions that it calls.

    The fields of a state are numbers, and NumPy's arrays of int64 or float64.  `kernel(state)`
    changes arrays and numbers in place; it compiles at the first call (some 0.2 s), unless
    an earlier process did.
    """

    def __init__(
        self, function: Callable[[Any], int], helpers: Sequence[Callable[..., Any]], state: type
    ) -> None:
        self._function, self._helpers, self._state = function, tuple(helpers), state
        self._fields = fields_of(state)
        self._library: Library | None = None
        self._call: Callable[[int], int] | None = None

    def __call__(self, state: Any) -> int:
        return self.in_python(state) if native_refusal() else self.native(state)

    def prepare(self) -> None:
        """Compile now, so that no call has to."""
        if not native_refusal():
            self._compiled()

    def in_python(self, state: Any) -> int:
        """The same by Python; arrays are lists meanwhile, which it indexes faster."""
        names = [name for name, kind in self._fields.items() if kind in ELEMENTS]
        arrays = {name: getattr(state, name) for name in names}
        for name, array in arrays.items():
            setattr(state, name, array.tolist())
        try:
            return self._function(state)
        finally:
            for name, array in arrays.items():
                array[:] = getattr(state, name)
                setattr(state, name, array)

    def native(self, state: Any) -> int:
        """The same by machine code, which others can run beside."""
        fields = self._fields
        memory = np.zeros(len(fields), np.int64)
        for at, (name, kind) in enumerate(fields.items()):
            value = getattr(state, name)
            if kind in ELEMENTS:
                assert value.dtype == NUMBERS[ELEMENTS[kind]] and value.flags.c_contiguous, name
                memory[at] = value.__array_interface__["data"][0]  # quicker than value.ctypes
            else:
                memory[at : at + 1].view(NUMBERS[kind])[0] = value
        status = self._compiled()(memory.ctypes.data)
        for at, (name, kind) in enumerate(fields.items()):
            if kind not in ELEMENTS:
                setattr(state, name, memory[at : at + 1].view(NUMBERS[kind])[0].item())
        return status

    def _compiled(self) -> Callable[[int], int]:
        with making:
            if self._call is None:
                text = translate((*self._helpers, self._function), (self._state,))
                self._library = _loaded(text)
                address = self._library.address(self._function.__name__)
                self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
            return self._call


def _loaded(text: str) -> Library:
    """The code of a text, as the user's cache folder has it, or compiled."""
    target = host_target()
    key = hashlib.sha256(f"kernel|{target}|{llvm_versions()}|{text}".encode()).hexdigest()
    stored = cache.load(key, Compiled, lambda one: bool(one.code))
    if stored is not None:
        try:
            return load_objects([stored.code], {})
        except ObjectError:  # no code for this machine
            pass
    code = compile_object(text, target, through_passes=True)
    cache.store(key, Compiled(code))
    return load_objects([code], {})
