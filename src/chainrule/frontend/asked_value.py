"""`AskedValue`: answers what Python asks of a traced array: length, rows, truth, number, text.

Of an int argument the answer is its number, for which alone the graph then holds; of others there
is no number while tracing, and the refusal says what to write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import DataDependentError, MissingMethodError, MutationError
from chainrule.frontend.errors.types_shown import type_text
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.graph.plain import WITH_MASK, taken_for_plain
from chainrule.graph.sizes.asking import asking, goes_on, is_ours
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import Shape


class AskedValue:
    """The questions; `Traced` has the operators and functions."""

    __slots__ = ("node", "program")
    node: Node
    program: Trace

    @property
    def __class__(self) -> type:  # type: ignore[override]  # typeshed has it as no property
        """What isinstance asks beside the type: in the user's program, that of the value in a run.

        A result of no axes may be an array or a scalar of NumPy's, and is neither.
        """
        module = sys._getframe(1).f_globals.get("__name__")
        if is_ours.get(module) or str(module).partition(".")[0] in ("numpy", "scipy"):
            return type(self)
        found = self.node.type
        if not (found.weak or found.shape) or asking(sys._getframe(1)) is None:
            return type(self)
        if not found.weak:
            return np.ndarray
        return float if dtype_kind(found.dtype) == "f" else int

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

    if TYPE_CHECKING:  # `Traced` has it

        def __getitem__(self, key: Any) -> Any: ...

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        first = self.shape[0]
        if isinstance(first, Size):
            from chainrule.frontend.hints.numbers import instead_of_iterating  # if refused

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

    def _shown(self) -> str:
        name = self.program.name_shown(self.node)
        return f"{name} ({type_text(self.node.type)})" if name else type_text(self.node.type)

    def _here(self, depth: int = 2) -> str:
        self.program.refuse_leaked(self.node)
        if self.program.site is not None:
            return self.program.where()
        return self.program.origin_at(sys._getframe(depth)).describe()

    def _number(self, asked: str, hint: str) -> DataDependentError:
        from chainrule.frontend.hints.numbers import CHOICE, instead_of_asking  # if refused

        return DataDependentError(
            f"{asked} of {self._shown()}: its numbers do not exist while the program is traced",
            where=self._here(3),
            hint=instead_of_asking(sys._getframe(2)) or hint or CHOICE,
        )

    def __hash__(self) -> int:
        """That of an int argument, for which alone the graph then holds; arrays have none."""
        if self.program.known_int(self) is None:
            raise TypeError("unhashable type: a traced array")
        return hash(self.program.guard(self.node))

    def __bool__(self) -> bool:
        if self.node in self.program.scalars and self.dtype.kind == "i":
            return bool(self.program.guard(self.node))
        raise self._number("the truth value", "")

    def __index__(self) -> int:
        if self.node in self.program.scalars and self.dtype.kind == "i":
            return self.program.guard(self.node)
        from chainrule.frontend.hints.numbers import argument_without_number  # if refused

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
        if str(sys._getframe(1).f_globals.get("__name__")).startswith("numpy.ma"):
            what = f"the array on the left of {self._shown()}"
            raise taken_for_plain(what, "MaskedArray", self._here(), WITH_MASK)
        known = self.program.known_int(self) is not None
        raise self._number(
            "a NumPy array",
            "write int(...) around it; the graph then holds for this number only"
            if known
            else "call NumPy functions on it directly; cr.array([...]) makes an array of several,\n"
            "cr.at(x)[key].set(...) writes into one, cr.at(x)[key].get() reads of one",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        from chainrule.frontend.hints.numbers import instead_of_writing  # if refused

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
        from chainrule.frontend.hints.other_libraries import method_of  # if refused

        own = not name.startswith("_") and name not in AskedValue.__slots__
        other = method_of(name) if own else ""
        if not own or not (other or hasattr(np.ndarray, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from chainrule.frontend.hints.replacements import instead_of  # if refused

        known = self.program.functions.get(getattr(np, name, None)) is not None
        raise MissingMethodError(
            f".{name} of {self._shown()} is not traced",
            where=self._here(),
            hint=other or (f"call np.{name}(...)" if known else instead_of(name)),
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
        ended = ", of a trace that has ended" if self.program.thread is None else ""
        return f"<traced {self._shown()}{ended}>"
