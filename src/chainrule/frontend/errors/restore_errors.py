"""`restored_error` restores errors of traced arrays and sizes that NumPy hides in its own."""

from __future__ import annotations

import ast
import inspect
import re
from dis import opname
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import (
    ChainruleError,
    DataDependentError,
    MutationError,
    UndecidableSize,
    UnsupportedError,
)
from chainrule.frontend.bytecode.running import around, is_calling, sizes_in, value_of
from chainrule.frontend.functions.dispatch import name_of
from chainrule.frontend.hints.arrays import known_shape
from chainrule.frontend.hints.other_libraries import UNEXPECTED, keyword_of
from chainrule.frontend.hints.sizes import instead_of_size
from chainrule.frontend.naming import user_frame
from chainrule.graph.origin import Origin
from chainrule.graph.sizes.asked_size import how_to_fix
from chainrule.graph.sizes.asking import is_library
from chainrule.graph.sizes.sizes import Size, names
from chainrule.signatures import perhaps_argument

if TYPE_CHECKING:
    from chainrule.frontend.trace import Trace

NO_SIZE = "expected a sequence of integers or a single integer, got "
NO_NUMBER = (  # what np.random.permutation and choice say to a size, and those of a Generator
    "x must be an integer or at least 1-dimensional",
    "axis 0 is out of bounds for array of dimension 0",
    "a must be 1-dimensional or an integer",
    f"a must be a sequence or an integer, not {Size}",
)
NO_ELEMENT = "setting an array element with a sequence."
WRITTEN = "= cr.at("
ASKED = (
    "chainrule.graph.sizes.asked_size",
    "chainrule.frontend.asked_value",
)  # whose methods answer
OUR_CLASSES = re.compile(r"\b(Size|Traced|(?<=^Object of type )int(?= is not JSON))\b")
WORDS = {"Size": "named size", "int": "named size", "Traced": "traced array"}
SIGNATURE = re.compile(
    r"(?P<method>(Traced|ArrayMethods|AskedValue)\.)?(?P<name>\w+)\(\) "
    r"(?P<what>(takes|got|missing) .*argument.*)"
)
OF_LISTS = {"vstack", "hstack", "dstack", "column_stack", "stack", "block"}
LIKE_TRACED = "np.pad takes sizes where the array is traced, as an argument is;\n"
OF_PARTS = (
    "build the array anew: x = cr.at(x)[key].set(value); or of its parts: np.stack([...]), "
    "np.concatenate([...])"
)


def restored_error(error: Exception, program: Trace | None = None) -> ChainruleError | None:
    """The error to raise in place of one that a traced program met; None where it says it all.

    A size does not know the user's line, nor that it was NumPy that divided it (np.arange(n)).
    NumPy replaces what `__index__` of a size raises (np.zeros(n)), and what `float` of a traced
    array raises that is assigned to an element (buffer[0] = x); so does Python (bytes(n)).  What
    it says of objects that it does not know ("unsupported operand type(s)") names our classes.
    """
    if isinstance(error, UndecidableSize) and not error.where:
        step = user_step(error)
        hint = error.hint.partition("\nto fix ")[0]
        if step is None:
            return error.at("", error.what, f"{hint}\n{how_to_fix(error.names)}")
        frame, place, what = step.tb_frame, step.tb_lasti, error.what
        if is_calling(frame, place) and " / " in error.question:
            what = f"a function asks for {error.names[0]}" + what.removeprefix(error.question)
        hint = instead_of_size(frame, place, error.question) or hint
        hint += "\n" + how_to_fix(error.names)
        return error.at(_where(step), what, hint)
    if str(error) in NO_NUMBER:
        where = _where(user_step(error))
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
            f"NumPy cannot make an array of the size {size}, which is not known while tracing",
            where=_where(user_step(error)),
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
    found = _of_wrong_arguments(text, user_step(error))
    if found is not None or program is None or isinstance(error, ChainruleError):
        return found
    return (
        _asked_in_c(error, program)
        or _of_our_classes(error, program)
        or _of_sizes_given(error, program)
    )


def _of_wrong_arguments(text: str, step: TracebackType | None) -> ChainruleError | None:
    """What Python says of the arguments of a function of NumPy's, or of an array's method, that was
    called with too few, too many or others than it has."""
    found = SIGNATURE.fullmatch(text)
    if found is None or step is None or step.tb_next is not None:
        return None
    call = next(
        (one for one in around(step.tb_frame, step.tb_lasti) if isinstance(one, ast.Call)), None
    )
    called: Any = None if call is None else value_of(call.func, step.tb_frame)
    if found["method"]:
        name, hint = f"x.{found['name']}", f"as np.{found['name']}(x, ...), for an array x"
    elif _is_numpys(called) and called.__name__ == found["name"]:
        name, hint = f"np.{name_of(called)}", ""
    else:
        return None
    if found["name"] in OF_LISTS:
        hint = f"np.{found['name']}([x, y]) takes the arrays as one list"
    hint = keyword_of(found["what"]) or hint
    return UnsupportedError(
        f"{name}() {found['what']}",
        where=_where(step),
        hint=hint or f"{_perhaps(text, called)}its arguments are: {name}{_arguments(called)}",
    )


def _is_numpys(called: Any) -> bool:
    module = getattr(called, "__module__", None)
    return isinstance(called, np.ufunc) or str(module).partition(".")[0] == "numpy"


def _arguments(called: Any) -> str:
    """The signature of a function of NumPy's, as far as it is known."""
    if isinstance(called, np.ufunc):
        return f"({', '.join('xyz'[: called.nin])})"
    try:
        return str(inspect.signature(called)).replace("=<no value>", "")
    except (TypeError, ValueError):
        return "(...)"


def _perhaps(text: str, called: Any) -> str:
    """The argument that is most likely meant, if Python says that there is none of some name."""
    unexpected = UNEXPECTED.search(text)
    try:
        known = inspect.signature(called).parameters
    except (TypeError, ValueError):
        return ""
    return "" if unexpected is None else perhaps_argument(unexpected["name"], known)


def is_swallowed(error: Exception) -> bool:
    """Whether code in C asked for a number, and went on without telling what it was answered."""
    is_answer = isinstance(error, DataDependentError) or (
        isinstance(error, UndecidableSize) and not error.where  # with a line, it is said again
    )
    step = error.__traceback__  # Python 3.11 makes one only for code in Python
    return is_answer and (step is None or step.tb_frame.f_globals.get("__name__") in ASKED)


def _asked_in_c(error: Exception, program: Trace) -> ChainruleError | None:
    """What a size or a traced array answered when code in C asked, which then raised this error."""
    answers = [one for one, _ in program.refused if is_swallowed(one)]
    step = user_step(error)
    if not answers or step is None:
        return None
    answer, where = answers[-1], _where(step)
    if isinstance(answer, UndecidableSize):
        hint = instead_of_size(step.tb_frame, step.tb_lasti, answer.question)
        if " format: " in str(error):
            hint = "write %s in place of %d: it gives the name of the size"
        hint = hint or answer.hint.partition("\nto fix ")[0]
        hint += "\n" + how_to_fix(answer.names)
        said = OUR_CLASSES.sub(lambda one: WORDS[one[1]], str(error))
        return answer.at(where, f"{answer.what}: {said}", hint)
    return DataDependentError(answer.what, where=answer.where or where, hint=answer.hint)


def _of_our_classes(error: Exception, program: Trace) -> ChainruleError | None:
    """The same in words of the user's, where Python names the class of a size or a traced array."""
    text, step = str(error), user_step(error)
    found = OUR_CLASSES.search(text)
    of_array = found is not None and found[1] == "Traced"
    if found is None or step is None or _is_raised_by_the_user(error):
        return None
    if of_array and isinstance(error, AttributeError):  # whose words are right
        return None
    said = OUR_CLASSES.sub(lambda one: WORDS[one[1]], text)
    if of_array:
        return DataDependentError(
            f"Python asks a traced array for something that it does not have: {said}",
            where=_where(step),
            hint="call NumPy functions on it directly; return it, and read it after graph.run",
        )
    unknown = tuple(sorted(program.sizes))
    name = unknown[0] if unknown else "n"
    return UndecidableSize(
        f"Python asks a named size, an integer that is not known while tracing: {said}",
        where=_where(step),
        hint=f"str({name}) is its name; as a number of the program it is "
        f"cr.size_value({name}, like=x),\nwith a traced array x; {how_to_fix(unknown)}",
    ).asked(text, unknown)


def _of_sizes_given(error: Exception, program: Trace) -> ChainruleError | None:
    """What a function that knows no named sizes raised, which the user's line has called with one
    (np.iinfo(n): NumPy takes it for an object)."""
    step = user_step(error) if program.sizes else None
    if step is None or isinstance(error, AttributeError) or _is_raised_by_the_user(error):
        return None
    try:
        nodes = around(step.tb_frame, step.tb_lasti)
    except SyntaxError:
        return None
    if not nodes or not isinstance(nodes[0], ast.Call):
        return None
    called = nodes[0]
    given = [*called.args, *(one.value for one in called.keywords)]
    sizes = [one for node in given for one in sizes_in(node, step.tb_frame)]
    if not sizes:
        return None
    hint = LIKE_TRACED if ast.unparse(called.func).endswith(".pad") else ""
    unknown = tuple(sorted({name for one in sizes for name in names(one)}))
    return UndecidableSize(
        f"{ast.unparse(called.func)} is called with the size {sizes[0]}, which is not known while "
        f"tracing: {error}",
        where=_where(step),
        hint=hint + how_to_fix(unknown),
    ).asked(str(sizes[0]), unknown)


def _is_raised_by_the_user(error: Exception) -> bool:
    """Whether a `raise` of the user's made the error, and not an operation."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or user_frame(step.tb_frame) is not step.tb_frame or is_library(step.tb_frame):
        return False
    return opname[step.tb_frame.f_code.co_code[step.tb_lasti]].startswith(("RAISE", "RERAISE"))


def user_step(error: Exception) -> TracebackType | None:
    """The innermost line of the user's that the error went through."""
    step, found = error.__traceback__, None
    while step is not None:
        if user_frame(step.tb_frame) is step.tb_frame and not is_library(step.tb_frame):
            found = step
        step = step.tb_next
    return found


def _where(step: TracebackType | None) -> str:
    return Origin(step.tb_frame.f_code, step.tb_lasti).describe() if step is not None else ""
