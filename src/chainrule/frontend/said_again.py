"""`said_again`: errors in which NumPy hides what a traced array or a size has said."""

from __future__ import annotations

from types import TracebackType

from chainrule.errors import (
    ChainruleError,
    DataDependentError,
    MutationError,
    UndecidableSize,
    UnsupportedError,
)
from chainrule.frontend.instead_of_arrays import known_shape
from chainrule.frontend.instead_of_sizes import instead_of_size
from chainrule.frontend.naming import user_frame
from chainrule.frontend.running import is_calling
from chainrule.graph.asked_size import how_to_fix
from chainrule.graph.asking import is_library
from chainrule.graph.origin import Origin
from chainrule.graph.sizes import Size

NO_SIZE = "expected a sequence of integers or a single integer, got "
NO_NUMBER = (  # what np.random.permutation and choice say to a size, and those of a Generator
    "x must be an integer or at least 1-dimensional",
    "axis 0 is out of bounds for array of dimension 0",
    "a must be 1-dimensional or an integer",
    f"a must be a sequence or an integer, not {Size}",
)
NO_ELEMENT = "setting an array element with a sequence."
WRITTEN = "= cr.at("
OF_PARTS = (
    "build the array anew: x = cr.at(x)[key].set(value); or of its parts: np.stack([...]), "
    "np.concatenate([...])"
)


def said_again(error: Exception) -> ChainruleError | None:
    """The error to raise in place of one that a traced program met; None where it says it all.

    A size does not know the user's line, nor that it was NumPy that divided it (np.arange(n)).
    NumPy replaces what `__index__` of a size raises (np.zeros(n)), and what `float` of a traced
    array raises that is assigned to an element (buffer[0] = x).
    """
    if isinstance(error, UndecidableSize) and not error.where:
        step = _step(error)
        if step is None:
            return error
        frame, place = step.tb_frame, step.tb_lasti
        what, hint = error.what, error.hint.partition("\nto fix ")[0]
        if is_calling(frame, place) and " / " in error.question:
            what = f"a function asks for {error.names[0]}" + what.removeprefix(error.question)
        hint = instead_of_size(frame, place, error.question) or hint
        hint += "\n" + how_to_fix(error.names)
        return error.at(_where(step), what, hint)
    if str(error) in NO_NUMBER:
        where = _where(_step(error))
        if "permutation(" in where or "choice(" in where:
            return UnsupportedError(
                "NumPy draws from numbers whose count is a size that is not known while tracing",
                where=where,
                hint="x[np.argsort(cr.random.bits(key, x.shape[:1]))] has the rows of x in a "
                "random order,\nwith a key that is an argument; or trace with an array of a known "
                "length",
            )
    text = str(error) if type(error) in (TypeError, ValueError) else ""
    if text.startswith(NO_SIZE):
        size = text.removeprefix(NO_SIZE).strip("'")
        return UnsupportedError(
            f"NumPy makes no array of the size {size}, which is not known while tracing",
            where=_where(_step(error)),
            hint=known_shape("it")
            if size.startswith("<traced ")
            else "np.zeros_like, np.ones_like and np.full_like take a traced array's shape; "
            "a number broadcasts by itself",
        )
    if text == NO_ELEMENT and isinstance(error.__cause__, DataDependentError):
        written = error.__cause__.hint
        return MutationError(
            "a traced array cannot be written into an element of a NumPy array: its numbers do not "
            "exist while the program is traced",
            where=error.__cause__.where,
            hint=written if WRITTEN in written else OF_PARTS,
        )
    return None


def _step(error: Exception) -> TracebackType | None:
    """The innermost line of the user's that the error went through."""
    step, found = error.__traceback__, None
    while step is not None:
        if user_frame(step.tb_frame) is step.tb_frame and not is_library(step.tb_frame):
            found = step
        step = step.tb_next
    return found


def _where(step: TracebackType | None) -> str:
    return Origin(step.tb_frame.f_code, step.tb_lasti).describe() if step is not None else ""
