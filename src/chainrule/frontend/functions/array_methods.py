"""`ArrayMethods`: NumPy's methods for traced arrays: `x.sum(axis=0)` calls `np.sum`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


class ArrayMethods:
    """The methods; `Traced` has the `_call` that they make, which looks two frames up for the
    user's."""

    __slots__ = ()

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The traced function of this array, at the place of the caller's caller."""
        raise NotImplementedError

    def _run(self, function: Any, frame: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The traced function of these arguments, at the place of the frame."""
        raise NotImplementedError

    def sum(
        self, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **more: Any
    ) -> Any:
        """The sum over axes, as np.sum."""
        return self._call(np.sum, axis=axis, dtype=dtype, keepdims=keepdims, **more)

    def dot(self, b: Any) -> Any:
        """The product with another array, as np.dot."""
        return self._call(np.dot, b)

    def prod(self, axis: Any = None, dtype: Any = None, **more: Any) -> Any:
        """The product over axes, as np.prod."""
        return self._call(np.prod, axis=axis, dtype=dtype, **more)

    def mean(self, axis: Any = None, dtype: Any = None, **more: Any) -> Any:
        """The mean over axes, as np.mean."""
        return self._call(np.mean, axis=axis, dtype=dtype, **more)

    def var(self, axis: Any = None, dtype: Any = None, **more: Any) -> Any:
        """The variance over axes, as np.var."""
        return self._call(np.var, axis=axis, dtype=dtype, **more)

    def std(self, axis: Any = None, dtype: Any = None, **more: Any) -> Any:
        """The standard deviation over axes, as np.std."""
        return self._call(np.std, axis=axis, dtype=dtype, **more)

    def any(self, axis: Any = None, **more: Any) -> Any:
        """Whether one element over axes is not 0, as np.any."""
        return self._call(np.any, axis=axis, **more)

    def all(self, axis: Any = None, **more: Any) -> Any:
        """Whether no element over axes is 0, as np.all."""
        return self._call(np.all, axis=axis, **more)

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """The sums of the elements so far, as np.cumsum."""
        return self._call(np.cumsum, axis=axis, dtype=dtype)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """The products of the elements so far, as np.cumprod."""
        return self._call(np.cumprod, axis=axis, dtype=dtype)

    def max(self, axis: Any = None, *, keepdims: bool = False, **more: Any) -> Any:
        """The largest element over axes, as np.max."""
        return self._call(np.max, axis=axis, keepdims=keepdims, **more)

    def min(self, axis: Any = None, *, keepdims: bool = False, **more: Any) -> Any:
        """The smallest element over axes, as np.min."""
        return self._call(np.min, axis=axis, keepdims=keepdims, **more)

    def argmax(self, axis: Any = None, *, keepdims: bool = False, **more: Any) -> Any:
        """The position of the largest element, as np.argmax."""
        return self._call(np.argmax, axis=axis, keepdims=keepdims, **more)

    def argmin(self, axis: Any = None, *, keepdims: bool = False, **more: Any) -> Any:
        """The position of the smallest element, as np.argmin."""
        return self._call(np.argmin, axis=axis, keepdims=keepdims, **more)

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> Any:
        """The same elements in another shape; one size may be -1."""
        return self._call(np.reshape, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order, reversed by default."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        return self._call(np.transpose, axes or None)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Two axes exchanged."""
        return self._call(np.swapaxes, axis1, axis2)

    def ravel(self, order: str = "C") -> Any:
        """The elements in one axis, in C order unless told otherwise."""
        return self._call(np.reshape, -1, order=order)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        """Without axes of literal length 1."""
        return self._call(np.squeeze, axis)

    def take(self, indices: Any, axis: Any = None, **more: Any) -> Any:
        """The elements at indices, as np.take."""
        return self._call(np.take, indices, axis=axis, **more)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Each element several times, as np.repeat."""
        return self._call(np.repeat, repeats, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """A diagonal, as np.diagonal."""
        return self._call(np.diagonal, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, **more: Any) -> Any:
        """The sum of a diagonal, as np.trace."""
        return self._call(np.trace, offset, axis1, axis2, **more)

    def argsort(self, axis: Any = -1, **more: Any) -> Any:
        """The places of the elements from the smallest to the largest, as np.argsort."""
        return self._call(np.argsort, axis=axis, **more)

    def argpartition(self, kth: Any, axis: Any = -1, **more: Any) -> Any:
        """As np.argpartition."""
        return self._call(np.argpartition, kth, axis=axis, **more)

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """The rows for which a known condition holds, as np.compress."""
        return self._run(np.compress, sys._getframe(1), (condition, self, axis), {})

    def choose(self, choices: Any, **more: Any) -> Any:
        """Of each place the choice whose number stands there, as np.choose."""
        return self._call(np.choose, choices, **more)

    def clip(self, min: Any = None, max: Any = None, **more: Any) -> Any:
        """Limited to [min, max], as np.clip."""
        return self._call(np.clip, min, max, **more)

    def astype(self, dtype: Any, *, copy: bool = True) -> Any:
        """The elements converted to another dtype; `copy` has no meaning for values."""
        return self._call("astype", dtype)

    @property
    def real(self) -> Any:
        """The value itself: traced arrays are real."""
        return self._call(np.real)

    @property
    def imag(self) -> Any:
        """Zeros: traced arrays are real."""
        return self._call(np.imag)

    def conj(self) -> Any:
        """The value itself: traced arrays are real."""
        return self._call(np.conjugate)

    conjugate = conj

    def round(self, decimals: int = 0) -> Any:
        """Rounded to so many decimals, as np.round."""
        return self._call(np.round, decimals)
