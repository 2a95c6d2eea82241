"""Checks `max_steps`, the bound of a while loop, which must be known while tracing."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Any

from chainrule.errors import InputError
from chainrule.frontend.hints.numbers import argument_without_number


def checked_limit(iterations: Any, where: str) -> int:
    """The bound as a Python integer; InputError unless it is one of at least 0."""
    found = -1
    if not isinstance(iterations, bool):
        with suppress(TypeError):
            found = operator.index(
                iterations
            )  # of an int argument the number, for which alone it holds
    if not 0 <= found < 2**63:
        raise no_number_of_iterations(
            "max_steps",
            iterations,
            where,
            "max_steps is a Python integer of at least 0, which is known while tracing",
        )
    return found


def no_number_of_iterations(what: str, value: Any, where: str, hint: str) -> InputError:
    """The error where a number of iterations is something else, or is not known while tracing."""
    name, given = argument_without_number(value)
    if name:
        return InputError(f"{what}: {name} has no value while tracing", where=where, hint=given)
    return InputError(f"{what}={value!r} is no number of iterations", where=where, hint=hint)
