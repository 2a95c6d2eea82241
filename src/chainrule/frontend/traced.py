"""`Traced`: the stand-in for an array in a traced function; its operations build nodes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.frontend.asked_value import AskedValue
from chainrule.frontend.functions.array_methods import ArrayMethods
from chainrule.frontend.functions.at import At
from chainrule.frontend.functions.dispatch import dispatch, ufunc_method
from chainrule.frontend.functions.elementwise import elementwise, name_scalar
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node

_COMPARISONS: dict[np.ufunc, Callable[[Any, Any], bool]] = {
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}


class Traced(AskedValue, ArrayMethods):
    """A value of the program being traced: NumPy's operators, functions and methods work on it.

    It has a dtype and a shape and no numbers.  It is a value: `+=` binds the name anew, and
    nothing changes it in place.
    """

    __slots__ = ()
    __array_priority__ = 1000.0
    __hash__ = AskedValue.__hash__  # which a class that defines __eq__ does not inherit

    def __init__(self, node: Node, trace: Trace) -> None:
        self.node, self.program = node, trace

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
            return self.copy()
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
        if self.node in self.program.scalars and isinstance(other, (list, tuple, str, bytes)):
            return self._repeated(other)
        return self._binary(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        if self.node in self.program.scalars and isinstance(other, (list, tuple, str, bytes)):
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
        return self.copy()

    def __abs__(self) -> Any:
        return self._carried(self._call(np.absolute), abs)

    def _carried(self, result: Any, operation: Callable[[int], int]) -> Any:
        """The result, known as an integer where the program's Python integer is known."""
        if self.node in self.program.scalars:
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
            if result is self.node:  # and nothing was built
                trace.refuse_leaked(result)
        finally:
            trace.site = None
        for node, place in nodes_of(result):
            trace.name_result(node, found, place)
        return wrap(trace, result)

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(function, sys._getframe(2), (self, *args), kwargs)

    def copy(self) -> Any:
        """The value itself: traced arrays are never changed in place."""
        self.program.refuse_leaked(self.node)
        return self

    def __copy__(self) -> Traced:
        return self

    def __deepcopy__(self, memo: Any) -> Traced:
        return self


def wrap(trace: Trace, result: Any) -> Any:
    """Nodes as traced arrays, also inside lists and tuples."""
    if isinstance(result, Node):
        return Traced(result, trace)
    if isinstance(result, (list, tuple)):
        make: Any = getattr(type(result), "_make", type(result))  # of a named tuple
        return make([wrap(trace, item) for item in result])
    return result
