"""`AskedSize`: answers what Python asks of a size: comparisons, truth, number, text.

In a traced function an answer must hold for the numbers of every run: it is proved, becomes a
condition of the program, or is refused.  Outside of one, sizes compare as polynomials.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from numbers import Integral, Number, Real
from operator import add, floordiv, ge, gt, le, lt, mod, mul, sub
from sys import _getframe
from types import FrameType
from typing import Any, NoReturn

from chainrule.errors import UndecidableSize
from chainrule.graph.origin import Origin
from chainrule.graph.sizes.asking import Asking, Program, asking, is_ours, note_text
from chainrule.graph.sizes.size_terms import Terms, written
from chainrule.tracebacks import entry

# A format of integers that says how wide they are, and nothing that depends on the digits.
_AS_INTEGER = re.compile(r"(?:.?([<>^])|.?=)?[-+ ]?0?(\d*)[,_]?[dn]?")


def is_plain(value: object) -> bool:
    return isinstance(value, (Number, AskedSize))


def no_number(question: str, a: AskedSize) -> NoReturn:
    raise _unknown(
        f"{question}: a size is an integer that is not known while tracing",
        f"as a number of the program it is cr.size_value({a}, like=x), with a traced array x",
        question,
        a,
    )


def _unknown(what: str, hint: str, question: str, a: int | AskedSize) -> UndecidableSize:
    """The error; its hint goes on with how a size becomes a number."""
    unknown = () if isinstance(a, int) else tuple(sorted(a._named()))
    binding = ", ".join(f"{name}=256" for name in unknown)
    hint += f"\n{how_to_fix(unknown)};\na graph that is there takes it by graph.bind({binding})"
    return UndecidableSize(what, hint=hint).asked(question, unknown)


def how_to_fix(unknown: Sequence[str]) -> str:
    """How sizes of these names become numbers while tracing."""
    shown = ", ".join(unknown)
    return (
        f"to fix {shown} while tracing, write a number for it in the type, or give example arrays"
    )


def _no_bits(question: str, a: AskedSize) -> NoReturn:
    hint = "n // 2**k, n * 2**k, n % 2**k and n & (2**k - 1) compute with sizes"
    what = f"{question}: a size is an integer whose bits are not known while tracing"
    raise _unknown(what, hint, question, a)


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and 0 <= int(value) < 64


def _refused(symbol: str, is_right: bool = False) -> Any:
    """An operator that asks for the bits of a size, on its left or (`is_right`) on its right."""

    def method(self: AskedSize, other: object) -> Any:
        if not is_plain(other):
            return NotImplemented
        left, right = (other, self) if is_right else (self, other)
        return _no_bits(f"{left} {symbol} {right}", self)

    return method


def _comparison(
    symbol: str, excess: Callable[[Any, Any], int | AskedSize], whole: Callable[[Any], int]
) -> Any:
    def method(self: AskedSize, other: Any) -> bool:
        if not isinstance(other, (AskedSize, Real)):
            return NotImplemented
        if isinstance(other, Real) and not math.isfinite(other):
            return float(other) > 0 if symbol in "<=" else float(other) < 0
        bound = other if isinstance(other, AskedSize) else whole(other)  # n < 2.5 says that n < 3
        answer = self._proved(excess(self, bound))
        if answer is not None:
            return answer
        sides = [f"cr.size_value({self}, like=x)", f"{other}"]
        if isinstance(other, AskedSize):
            sides[1] = f"cr.size_value({other}, like=x)"
        hint = f"cr.cond({sides[0]} {symbol} {sides[1]}, f, g, x) chooses when the graph runs,\n"
        hint += "with a traced array x; cr.minimum and cr.maximum compute with sizes"
        return _undecided(f"{self} {symbol} {other}", self + bound, hint)

    return method


class AskedSize:
    """The questions; `Size` has the arithmetic, the proofs and the names that answer them."""

    __slots__ = ()
    terms: Terms
    _hash: int
    __add__: Any
    __sub__: Any
    __mul__: Any
    __floordiv__: Any
    __rfloordiv__: Any
    __mod__: Any
    __rmod__: Any
    __neg__: Any

    @staticmethod
    def _proved(a: Any) -> bool | None:
        """Whether a >= 0: True or False if proved always or never, else None."""
        raise NotImplementedError

    def _named(self) -> frozenset[str]:
        """The names of which it is made."""
        raise NotImplementedError

    def _differs(self) -> bool:
        """Whether it is proved that this is never 0."""
        return bool(self._proved(self - 1) or self._proved(-self - 1))

    @property
    def __class__(self) -> type:  # type: ignore[override]
        """What isinstance asks beside the type: a program's own size is an int, as in its runs."""
        frame = _getframe(1)
        if is_ours.get(frame.f_globals.get("__name__")) or asking(frame) is None:
            return type(self)
        return int

    def __hash__(self) -> int:
        frame = _getframe(1)
        if not is_ours.get(frame.f_globals.get("__name__")) and asking(frame) is not None:
            hint = "compare instead: n in (2, 3), or if x.shape == y.shape"
            raise _unknown(
                f"the size {self} is a key of a dict or an element of a set, and is not known "
                "while tracing",
                hint,
                f"hash of {self}",
                self,
            )
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether these are one polynomial.  In a traced function that may differ from how the
        numbers of a run compare: that they are not equal then becomes a condition."""
        if self is other:
            return True
        kind = type(other)
        if kind is type(self):
            if self._hash == other._hash and self.terms == other.terms:  # type: ignore[union-attr]
                return True
        elif kind is not int and not isinstance(other, Number):
            return NotImplemented
        frame = _getframe(1)  # chainrule compares often: first of all is asked whether it does
        return not is_ours.get(frame.f_globals.get("__name__")) and _equals(self, other, frame)

    __lt__ = _comparison("<", lambda a, b: b - a - 1, math.ceil)
    __le__ = _comparison("<=", lambda a, b: b - a, math.floor)
    __gt__ = _comparison(">", lambda a, b: a - b - 1, math.floor)
    __ge__ = _comparison(">=", lambda a, b: a - b, math.ceil)

    def __truediv__(self, other: object) -> Any:
        return no_number(f"{self} / {other}", self) if is_plain(other) else NotImplemented

    def __rtruediv__(self, other: object) -> Any:
        return no_number(f"{other} / {self}", self) if is_plain(other) else NotImplemented

    def __lshift__(self, other: Any) -> Any:
        return self * 2 ** int(other) if _is_count(other) else _no_bits(f"{self} << {other}", self)

    def __rshift__(self, other: Any) -> Any:
        return self // 2 ** int(other) if _is_count(other) else _no_bits(f"{self} >> {other}", self)

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Integral) and int(other) >= 0 and not int(other) & (int(other) + 1):
            return self % (int(other) + 1)  # the lowest bits, such as n & 1
        return _no_bits(f"{self} & {other}", self)

    __rand__ = __and__
    __or__ = __ror__ = _refused("|")
    __xor__ = __rxor__ = _refused("^")
    __rlshift__, __rrshift__ = _refused("<<", True), _refused(">>", True)
    __rpow__ = _refused("**", True)

    def __invert__(self) -> Any:
        return -self - 1

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __pos__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__ = conjugate = __pos__
    real = numerator = property(__pos__)
    imag = property(lambda self: 0)
    denominator = property(lambda self: 1)

    def is_integer(self) -> bool:
        """True, as of every int."""
        return True

    def as_integer_ratio(self) -> tuple[Any, int]:
        """The size and 1."""
        return self, 1

    def __round__(self, ndigits: Any = None) -> Any:
        if ndigits is None or (isinstance(ndigits, Integral) and int(ndigits) >= 0):
            return self
        return no_number(f"round({self}, {ndigits})", self)

    def __abs__(self) -> Any:
        if self._proved(self):
            return self
        if self._proved(-self):
            return -self
        return _undecided(f"{self} < 0", self, "cr.maximum(size, -size) computes with sizes")

    @entry
    def bit_length(self) -> NoReturn:
        """Refused: the bits are those of a number."""
        return _no_bits(f"the bits of {self}", self)

    bit_count = bit_length

    @entry
    def to_bytes(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: the bytes are those of a number."""
        return _no_bits(f"the bytes of {self}", self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """NumPy integers on the left compute with sizes; other NumPy functions are refused."""
        known = _UFUNCS.get(ufunc.__name__)
        inputs = tuple([x.item() if getattr(x, "shape", None) == () else x for x in inputs])
        plain = all(isinstance(x, (AskedSize, Integral)) for x in inputs)
        if known is not None and method == "__call__" and plain:
            left, right = [x if isinstance(x, AskedSize) else int(x) for x in inputs]
            if known is _equals:
                a, b = (left, right) if isinstance(left, AskedSize) else (right, left)
                assert isinstance(a, AskedSize)  # NumPy asks only where there is one
                same = a.terms == getattr(b, "terms", None) or _equals(a, b, _getframe(1))
                return same if ufunc.__name__ == "equal" else not same
            return known(left, right)
        return no_number(f"np.{ufunc.__name__} of {self}", self)

    def __float__(self) -> NoReturn:
        return no_number(f"float of {self}", self)

    def __bool__(self) -> bool:
        if self._differs():
            return True
        found = asking(_getframe(1))
        if found is None:
            return _undecided(f"{self} != 0", self, "compare inside of a traced function")
        return not _assumed(found, self, f"{self} == 0")

    def __index__(self) -> int:
        hint = f"for an array of that size: np.zeros_like(x, shape=({self}, 3)), with a traced x"
        raise _unknown(f"the size {self} is not known while tracing", hint, f"{self}", self)

    def __str__(self) -> str:
        return self._told(_getframe(1))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        text = self._told(_getframe(1))
        number = _AS_INTEGER.fullmatch(spec)
        if number is None:
            try:
                return format(text, spec)
            except ValueError:
                what = f"the size {text} has no digits while tracing, for the format {spec!r}"
                hint = f"a format of text such as '>5' writes its name, {text}"
                raise _unknown(what, hint, f"{text} in {spec}", self) from None
        return f"{text:{number[1] or '>'}{number[2]}}"

    def _told(self, frame: FrameType) -> str:
        """Its text, of which a program that goes on with it is warned."""
        text = written(self.terms)
        if not is_ours.get(frame.f_globals.get("__name__")):
            found = asking(frame)
            if found is not None:
                note_text(found, text)
        return text

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def _refuse_to_leave(self, frame: FrameType) -> None:
        """UndecidableSize where a program pickles it: another process knows of no conditions."""
        if asking(frame) is not None:
            text = written(self.terms)
            hint = "compute with it in the traced function itself"
            what = f"the size {text} is pickled, for a file or another process, and is not known"
            raise _unknown(f"{what} while tracing", hint, f"{text} in another process", self)


def _undecided(question: str, a: int | AskedSize, hint: str) -> NoReturn:
    raise _unknown(f"whether {question} is not known while tracing", hint, question, a)


def _equals(a: AskedSize, b: Any, frame: FrameType) -> bool:
    """Whether a size equals a number or size that is not the same polynomial.  Not; where that is
    not proved and a traced function asks, that it is so becomes a condition of the program."""
    found = asking(frame)
    whole = b if found is None or type(b) is type(a) else _whole(b)
    if found is None or whole is None:
        return False
    difference = a - whole
    if isinstance(difference, int) or difference._differs():
        return False
    return _assumed(found, difference, f"{a} == {whole}")


def _whole(number: Any) -> int | None:
    """The integer that a number equals, if any."""
    try:
        whole = int(number.real)
    except (TypeError, ValueError, OverflowError):
        return None
    return whole if whole == number else None


def _assumed(found: Asking, difference: Any, question: str) -> bool:
    """As `assumed_other`; UndecidableSize in a thread that no program runs in."""
    if not found.is_elsewhere:
        return assumed_other(found.programs, found.origin, difference, question)
    hint = "compare in the thread that traces the function, and hand the answer to the other one"
    return _undecided(f"{question} (in a thread beside one that is tracing)", difference, hint)


def assumed_other(
    programs: Sequence[Program], origin: Origin, difference: Any, question: str
) -> bool:
    """False, with the condition that it is right; UndecidableSize where the sizes are not those of
    a program's inputs, so that no run would say what they are."""
    for program in programs:
        if difference._named() <= program.sizes:
            text = f"while tracing, {question} was taken as False"
            program.assume_not_zero(difference, text, origin)
            return False
    return _undecided(
        question, difference, "compare sizes of the function's own arguments, such as x.shape[0]"
    )


_UFUNCS: dict[str, Any] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "floor_divide": floordiv,
    "remainder": mod,
    "equal": _equals,
    "not_equal": _equals,
    "less": lt,
    "less_equal": le,
    "greater": gt,
    "greater_equal": ge,
}
