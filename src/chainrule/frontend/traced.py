"""`Traced`: what the user's function sees instead of an array; operations on it build nodes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from chainrule.errors import (
    DataDependentError,
    MissingMethodError,
    MutationError,
)
from chainrule.frontend.at import At
from chainrule.frontend.dispatch import dispatch, ufunc_method
from chainrule.frontend.elementwise import elementwise, name_scalar
from chainrule.frontend.instead import instead_of
from chainrule.frontend.instead_of_asking import (
    CHOICE,
    argument_without_number,
    instead_of_asking,
    instead_of_iterating,
    instead_of_writing,
)
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.types_shown import type_text
from chainrule.graph.asking import asking, goes_on
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size
from chainrule.graph.types import Shape

_COMPARISONS: dict[np.ufunc, Callable[[Any, Any], bool]] = {
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}


class Traced:
    """A value of the program being traced: NumPy's operators, functions and methods work on it.

    It has a dtype and a shape and no numbers.  It is a value: `+=` binds the name anew, and
    nothing changes it in place.
    """

    __slots__ = ("node", "program")
    __array_priority__ = 1000.0

    def __init__(self, node: Node, trace: Trace) -> None:
        self.node, self.program = node, trace

    # What is known before running -------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The sizes of the axes: integers, or named sizes such as n."""
        return self.node.type.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.node.type.shape)

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.node.type.dtype

    @property
    def size(self) -> int | Size:
        """The number of elements."""
        return self.node.type.size

    @property
    def T(self) -> Any:
        """The axes in reverse order."""
        return self._call(np.transpose)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return self._call(np.swapaxes, -1, -2)

    @property
    def at(self) -> At:
        """`x.at[key].set(value)` is a new array, x with these elements changed; also add, max..."""
        return At(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        first = self.shape[0]
        if isinstance(first, Size):
            raise DataDependentError(
                f"len() is an integer, but the first axis of {self._shown()} is the size {first}",
                where=self._here(),
                hint=instead_of_iterating(sys._getframe(1))
                or "use x.shape[0], which may be a named size",
            )
        return first

    def __iter__(self) -> Iterator[Any]:
        trace, count = self.program, len(self)
        if trace.site is not None:
            return iter([self[i] for i in range(count)])
        frame = trace.enter(sys._getframe(1))
        try:
            rows = [self[i] for i in range(count)]
        finally:
            trace.site = None
        for i, row in enumerate(rows):
            trace.name_result(row.node, frame, ((i, count),))
        return iter(rows)

    # Operators --------------------------------------------------------------------------------

    def _binary(self, ufunc: np.ufunc, left: Any, right: Any) -> Any:
        trace = self.program
        if trace.site is not None:
            return Traced(elementwise(trace, ufunc, (left, right)), trace)
        frame = trace.enter(sys._getframe(2))
        try:
            if self.node in trace.scalars and ufunc in _COMPARISONS:
                pair = [v if type(v) is float else trace.known_int(v) for v in (left, right)]
                if None not in pair and self.dtype.kind == "i":
                    return _COMPARISONS[ufunc](*[trace.specialised(v) for v in (left, right)])
            if type(right) is float:
                right = name_scalar(trace, right, 0)
            elif type(left) is float:
                left = name_scalar(trace, left, 1)
            node = elementwise(trace, ufunc, (left, right))
        finally:
            trace.site = None
        if self.node in trace.scalars:
            trace.carry_int(ufunc, node, left, right)
        trace.name_result(node, frame)
        return Traced(node, trace)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(np.floor_divide, operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided(np.floor_divide, operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._divided(np.remainder, operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._divided(np.remainder, operator.mod, other, self)

    def _divided(self, ufunc: np.ufunc, function: Any, left: Any, right: Any) -> Any:
        """//, %, shifts and bits; of Python int arguments, Python ints for which alone the graph
        then holds."""
        trace = self.program
        known = trace.known_int(left) is not None and trace.known_int(right) is not None
        if not known:
            return self._run(ufunc, sys._getframe(2), (left, right), {})
        trace.enter(sys._getframe(2))
        try:
            return function(trace.specialised(left), trace.specialised(right))
        finally:
            trace.site = None

    def __divmod__(self, other: Any) -> Any:
        return self._divided(np.divmod, divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._divided(np.divmod, divmod, other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._divided(np.left_shift, operator.lshift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._divided(np.left_shift, operator.lshift, other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._divided(np.right_shift, operator.rshift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._divided(np.right_shift, operator.rshift, other, self)

    def __round__(self, ndigits: Any = None) -> Any:
        if ndigits is None and self.program.known_int(self) is not None:
            return self
        return self._call("round", ndigits)

    def __floor__(self) -> Any:
        return self._call("whole", np.floor)

    def __ceil__(self) -> Any:
        return self._call("whole", np.ceil)

    def __trunc__(self) -> Any:
        return self._call("whole", np.trunc)

    def __add__(self, other: Any) -> Any:
        return self._binary(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._binary(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._binary(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str, bytes)) and self.node in self.program.scalars:
            return self._repeated(other)
        return self._binary(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str, bytes)) and self.node in self.program.scalars:
            return self._repeated(other)
        return self._binary(np.multiply, other, self)

    def _repeated(self, sequence: Any) -> Any:
        """[x] * n with an int argument n is Python's repetition."""
        self.program.enter(sys._getframe(2))
        try:
            return sequence * self.program.guard(self.node)
        finally:
            self.program.site = None

    def __truediv__(self, other: Any) -> Any:
        return self._binary(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(np.true_divide, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._binary(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(np.power, other, self)

    def __eq__(self, other: object) -> Any:
        return self._binary(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return self._binary(np.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return self._binary(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return self._binary(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return self._binary(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._binary(np.greater_equal, self, other)

    def __and__(self, other: Any) -> Any:
        return self._divided(np.bitwise_and, operator.and_, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._divided(np.bitwise_or, operator.or_, self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._divided(np.bitwise_xor, operator.xor, self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return self._call(np.invert)

    def __neg__(self) -> Any:
        return self._carried(self._call(np.negative), operator.neg)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._carried(self._call(np.absolute), abs)

    def _carried(self, result: Any, operation: Callable[[int], int]) -> Any:
        """The result, known as an integer where the program's Python integer is known."""
        known = self.program.known_int(self)
        if known is not None:
            self.program.scalars[result.node] = operation(known)
        return result

    def __matmul__(self, other: Any) -> Any:
        return self._run(np.matmul, sys._getframe(1), (self, other), {})

    def __rmatmul__(self, other: Any) -> Any:
        return self._run(np.matmul, sys._getframe(1), (other, self), {})

    def __getitem__(self, key: Any) -> Any:
        return self._run("getitem", sys._getframe(1), (self, key), {})

    # NumPy's protocols -------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if method == "__call__":
            return self._run(ufunc, frame, inputs, kwargs)
        found, args, options = ufunc_method(self.program, ufunc, method, inputs, kwargs, frame)
        return self._run(found, frame, args, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._run(func, sys._getframe(1), args, kwargs)

    def _run(self, function: Any, frame: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call the traced version of a NumPy function, naming its result at the user's level."""
        trace = self.program
        if trace.site is not None:
            return wrap(trace, dispatch(trace, function, args, kwargs))
        found = trace.enter(frame)
        try:
            if not kwargs and any(type(value) is float for value in args):
                last = len(args) - 1
                args = tuple([name_scalar(trace, v, last - i) for i, v in enumerate(args)])
            result = dispatch(trace, function, args, kwargs)
        finally:
            trace.site = None
        for node, place in nodes_of(result):
            trace.name_result(node, found, place)
        return wrap(trace, result)

    # Methods of arrays ---------------------------------------------------------------------------

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(function, sys._getframe(2), (self, *args), kwargs)

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

    def copy(self) -> Any:
        """The value itself: traced arrays are never changed in place."""
        return self

    def __copy__(self) -> Traced:
        return self

    def __deepcopy__(self, memo: Any) -> Traced:
        return self

    # What a traced array is not ------------------------------------------------------------------

    def _shown(self) -> str:
        name = self.program.name_shown(self.node)
        return f"{name} ({type_text(self.node.type)})" if name else type_text(self.node.type)

    def _here(self, depth: int = 2) -> str:
        self.program.refuse_leaked(self.node)
        if self.program.site is not None:
            return self.program.where()
        return self.program.origin_at(sys._getframe(depth)).describe()

    def _number(self, asked: str, hint: str) -> DataDependentError:
        return DataDependentError(
            f"{asked} of {self._shown()}: its numbers do not exist while the program is traced",
            where=self._here(3),
            hint=instead_of_asking(sys._getframe(2)) or hint,
        )

    def __hash__(self) -> int:
        """That of an int argument, for which alone the graph then holds; arrays have none."""
        if self.program.known_int(self) is None:
            raise TypeError("unhashable type: a traced array")
        return hash(self.program.guard(self.node))

    def __bool__(self) -> bool:
        if self.node in self.program.scalars and self.dtype.kind == "i":
            return bool(self.program.guard(self.node))
        raise self._number(
            "the truth value",
            CHOICE,
        )

    def __index__(self) -> int:
        if self.node in self.program.scalars and self.dtype.kind == "i":
            return self.program.guard(self.node)
        _, hint = argument_without_number(self)
        raise self._number("an integer", hint or "use a Python int, or x.shape[0] for a size")

    def __int__(self) -> int:
        if self.node in self.program.scalars and self.dtype.kind == "i":
            return self.program.guard(self.node)
        raise self._number("int()", "keep it an array, for instance with .astype(np.int64)")

    def __float__(self) -> float:
        raise self._number("float()", "keep it an array; return it, and read it after graph.run")

    def __complex__(self) -> complex:
        raise self._number("complex()", "keep it an array")

    def item(self) -> Any:
        """Refused: there is no number while tracing."""
        raise self._number(".item()", "keep it an array; return it, and read it after graph.run")

    def tolist(self) -> Any:
        """Refused: there are no numbers while tracing."""
        raise self._number(".tolist()", "keep it an array; return it, and read it after graph.run")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        known = self.program.known_int(self) is not None
        raise self._number(
            "a NumPy array",
            "write int(...) around it; the graph then holds for this number only"
            if known
            else "call NumPy functions on it directly; cr.array([...]) makes an array of several,\n"
            "cr.at(x)[key].set(...) writes into one, cr.at(x)[key].get() reads of one",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise MutationError(
            f"item assignment to {self._shown()}: traced arrays are values, not storage",
            where=self._here(),
            hint=instead_of_writing(sys._getframe(1))
            or "build the new array: x = x.at[key].set(value), or np.where(mask, value, x);\n"
            "cr.at(x)[key].set(value) does the same where x may be a NumPy array",
        )

    def __contains__(self, item: object) -> bool:
        raise self._number("'in'", "use np.sum(x == item) > 0 inside np.where")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self.__slots__ or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        known = self.program.functions.get(getattr(np, name, None)) is not None
        raise MissingMethodError(
            f".{name} of {self._shown()} is not traced",
            where=self._here(),
            hint=f"call np.{name}(...)" if known else instead_of(name),
        )

    def __repr__(self) -> str:
        return self._text(sys._getframe(1), repr)

    def __str__(self) -> str:
        return self._text(sys._getframe(1), str)

    def __format__(self, spec: str) -> str:
        return self._text(sys._getframe(1), lambda number: format(number, spec))

    def _text(self, frame: FrameType, written: Callable[[int], str]) -> str:
        """What it is; of an int argument its number, where the program goes on with the text."""
        if self.program.known_int(self) is not None:
            found = asking(frame)
            if found is not None and goes_on(found.frame):
                return written(self.program.guard(self.node))
        return f"<traced {self._shown()}>"


def wrap(trace: Trace, result: Any) -> Any:
    """Nodes as traced arrays, also inside lists and tuples."""
    if isinstance(result, Node):
        return Traced(result, trace)
    if isinstance(result, (list, tuple)):
        make: Any = getattr(type(result), "_make", type(result))  # of a named tuple
        return make([wrap(trace, item) for item in result])
    return result
