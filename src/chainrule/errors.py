"""All exceptions and warnings that users can meet: what happened, where, and what to try."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


def programs_around(frame: FrameType | None) -> Iterator[Any]:
    """The programs whose functions are being traced around this frame, the innermost first.

    The frame that runs such a function has it as the local `program`, in a module whose
    `__runs_programs__` is the code of that frame.
    """
    while frame is not None:
        if frame.f_globals.get("__runs_programs__") is frame.f_code:
            yield frame.f_locals["program"]
        frame = frame.f_back


class ChainruleError(Exception):
    """The base of all errors of this library.

    `what` says what happened, with the user's names and values; `where` is the place in the
    user's source (empty where there is none); `hint` is what to try.  `str(error)` shows all three.

    The programs that are being traced keep it: one that catches it takes a branch because of it.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what, self.where, self.hint = what, where, hint
        frame = sys._getframe(1)
        for program in programs_around(frame):
            program.note_error(self, frame)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.what, self.where, self.hint)

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append("  where: " + self.where.replace("\n", "\n    "))
        if self.hint:
            parts.append("  try: " + self.hint.replace("\n", "\n       "))
        return "\n".join(parts)


def _remade(kind: type[ChainruleError], what: str, where: str, hint: str) -> ChainruleError:
    """An error that came from another process: multiprocessing sends errors by pickle."""
    return kind(what, where=where, hint=hint)


class ShapeError(ChainruleError, ValueError):
    """Arrays whose shapes do not go together.

    `rests_on` are sizes that are taken as other than 0, if these decide; None where that is not
    known.
    """

    rests_on: tuple[Any, ...] | None = None

    def resting_on(self, *differences: Any) -> ShapeError:
        """The same error, which is one for all sizes that make none of the differences 0."""
        self.rests_on = differences
        return self


class DTypeError(ChainruleError, TypeError):
    """An operation on element types for which it is not defined."""


class TypeSpecError(ChainruleError, TypeError):
    """An array type (`float32["n 784"]`) that is missing or cannot be read."""


class InputError(ChainruleError, ValueError):
    """Arguments of a call or a run that do not fit what was traced."""


class SizeError(ChainruleError, ValueError):
    """Sizes given to `bind` or read off the inputs that contradict the graph."""


class UndecidableSize(ChainruleError, TypeError):
    """A question about named sizes, which has no answer before they are numbers.

    `question`, such as "n < 5", is what was asked, and `names` are the sizes.
    """

    question: str = ""
    names: tuple[str, ...] = ()

    def asked(self, question: str, names: tuple[str, ...]) -> UndecidableSize:
        """The same error, with what was asked."""
        self.question, self.names = question, names
        return self

    def at(self, where: str, what: str, hint: str) -> UndecidableSize:
        """Such an error with the user's line, and perhaps other words."""
        return UndecidableSize(what, where=where, hint=hint).asked(self.question, self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return _asked, (self.what, self.where, self.hint, self.question, self.names)


def _asked(
    what: str, where: str, hint: str, question: str, names: tuple[str, ...]
) -> UndecidableSize:
    return UndecidableSize(what, where=where, hint=hint).asked(question, names)


class NameLookupError(ChainruleError, KeyError):
    """A name that the graph or the run does not have."""


class DataDependentError(ChainruleError, TypeError):
    """Python asked a traced array for its number (`if`, `float`, `range`) while tracing."""


class MutationError(ChainruleError, TypeError):
    """An in-place change of a traced array, which is a value and not storage."""


class UnsupportedError(ChainruleError, TypeError):
    """A NumPy function, option or type that this library does not trace."""


class MissingMethodError(UnsupportedError, AttributeError):
    """A method or attribute that NumPy's arrays have and traced arrays do not."""


class ForeignValueError(ChainruleError, ValueError):
    """A traced array used outside the call of `trace` that made it.

    `outermost` is the older of the two traces that met, where two did.
    """

    outermost: Any = None


class NotDifferentiableError(ChainruleError, TypeError):
    """A derivative asked of, or with respect to, something that has none."""


class IndexOutOfRangeError(ChainruleError, IndexError):
    """An index, met while running, outside the axis it indexes."""


class EvaluationError(ChainruleError, ValueError):
    """NumPy refused to evaluate a node with the values that it met."""


class StepLimitError(EvaluationError):
    """A loop with `max_steps` that has not ended after so many steps."""


class StateError(ChainruleError, RuntimeError):
    """A training state used by two steps at once, or by a step that did not make it."""


class MemoryLimitError(ChainruleError, MemoryError):
    """A run that needs more memory than there is, refused before it starts.

    `needed_nbytes` is what it would have allocated, `free_nbytes` what was free (0: not such a
    refusal), which `source` says.  `budget_nbytes` is what it was to take at most, if it had a
    budget: then `needed_nbytes` is the least that was found, with all that a memory report counts.
    """

    needed_nbytes: int = 0
    free_nbytes: int = 0
    budget_nbytes: int | None = None
    source: str = ""


class DivergenceError(ChainruleError, ArithmeticError):
    """Training whose objective is no finite number any more."""


class NonFiniteError(DivergenceError):
    """A `Trainer` whose objective, or state, is no finite number any more.

    `diagnosis` says which value was the first, and why; None where the replay found none.
    """

    diagnosis: Any = None


class GradientCheckError(ChainruleError, AssertionError):
    """A derivative that finite differences contradict."""


class DataFileError(ChainruleError, ValueError):
    """A file that is missing, damaged or not what its name promises."""


class BatchStatisticsWarning(UserWarning):
    """A prediction that normalises by the mean and variance of its batch, as in training."""


class BroadcastWarning(UserWarning):
    """Shapes such as (n, 1) and (n,) that make (n, n), all of which count in an objective."""


class CacheWarning(UserWarning):
    """Compiled code and plans are not kept on disk: each process makes them anew."""


class CastWarning(UserWarning):
    """Arguments of another dtype than a program takes, which are cast: nothing that matters is
    lost."""


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint was passed over because it cannot be read as it was written."""


class FrozenRandomWarning(UserWarning):
    """Random numbers drawn, a clock or a file read while a program was traced: constants of it."""


class IdleStageWarning(UserWarning):
    """Stages of a pipeline have nothing to compute: their ranks wait for the others."""


class SizeTextWarning(UserWarning):
    """A traced program makes text of a size that is not known, which no run replaces."""


class HistoryWarning(UserWarning):
    """A history is gone, and training goes on without it."""


class InvariantError(ChainruleError):
    """A graph that breaks one of its own rules: an error of a transform, not of the user."""


class KinkWarning(UserWarning):
    """Gradients are checked at a point where a function has none: a convention decides there."""


class PrecisionWarning(UserWarning):
    """An objective of float32 parameters that is float64, because of a constant of NumPy's."""


class QuantisedWeightsWarning(UserWarning):
    """Weights of a file are quantised: they are read as the floats that they stand for."""


class ScheduleError(ChainruleError):
    """A schedule that reads what is not there, or writes over it: an error of a planner."""
