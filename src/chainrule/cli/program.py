"""`Program`: a function of the user's file, and the arguments that the file gives for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import click
import numpy as np

from chainrule.annotations import MISSING
from chainrule.cli.functions import found_at, function_in, raised_by
from chainrule.errors import ChainruleError, SizeError, TypeSpecError
from chainrule.execute.arguments import checked
from chainrule.execute.leaves import leaves_of
from chainrule.functional.arguments import named_arguments
from chainrule.graph.graph import Graph
from chainrule.nearest import perhaps
from chainrule.tracing import annotated_arguments

EXAMPLE = "example"


class Program:
    """`file.py:function` as the user wrote it.

    `chosen` is the function of the file that returns the arguments of an example: a dict by their
    names, or a tuple; arrays, containers of arrays, or array types.  Without it, `example` is, if
    the file has it.  It is called when something needs it.
    """

    def __init__(self, place: str, chosen: str | None = None) -> None:
        self.place, self._chosen = place, chosen
        self.file, _, self.name = place.rpartition(":")

    @cached_property
    def _found(self) -> tuple[Callable[..., Any], ModuleType]:
        return found_at(self.place)

    @property
    def function(self) -> Callable[..., Any]:
        """The function; usage errors as `found_at`."""
        return self._found[0]

    @cached_property
    def _example(self) -> Callable[..., Any] | None:
        """The function of the file that gives arguments, if it has one."""
        module = self._found[1]
        if self._chosen is not None:
            return function_in(module, self.file, self._chosen)
        found = vars(module).get(EXAMPLE)
        if not inspect.isfunction(found) or found is self.function:
            return None
        takes = inspect.signature(found).parameters.values()
        return None if any(map(_is_needed, takes)) else found

    @cached_property
    def example(self) -> Mapping[str, Any]:
        """The arguments of the example by name; none without such a function.

        A ClickException, with the user's lines, where it raises or what it returns is no argument.
        """
        if self._example is None:
            return {}
        try:
            given = self._example()
        except (Exception, SystemExit) as error:
            told = raised_by(error, self.place, f"{self._example.__name__}() raised")
            if told is None:
                raise
            raise told from error
        signature = inspect.signature(self.function)
        if isinstance(given, Mapping):
            strange = self._strange_names(given, signature)
            if strange and self._chosen is None and not self._needed:
                return {}  # of another function of the file
            if strange:
                names = list(signature.parameters)
                raise self._refusal(
                    f"gives {strange[0]!r}, and {self.name} has no argument of that name",
                    f"{perhaps(strange[0], names)}its arguments are: {', '.join(names)};\n"
                    f"--example NAME calls another function of the file, made for {self.name}",
                )
            return dict(given)
        if not isinstance(given, tuple) or hasattr(given, "_fields"):
            raise self._refusal(
                f"returns {_kind(given)}, and no arguments of {self.name}",
                f"return {self._returned(signature)};\n"
                "a function for something else needs another name",
            )
        try:
            return named_arguments(self.function, given, {}, defaults=False)
        except TypeError:
            raise self._refusal(
                f"returns {len(given)} arguments, and {self.name} takes "
                f"{', '.join(signature.parameters) or 'none'}",
                f"return {self._returned(signature)}",
            ) from None

    def _strange_names(self, given: Iterable[Any], signature: inspect.Signature) -> list[Any]:
        parameters = signature.parameters
        if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            return []
        return [name for name in given if name not in parameters]

    @cached_property
    def _unannotated(self) -> list[str]:
        """The arguments of which annotations say no type of an array."""
        annotated = annotated_arguments(self.function)
        return [name for name, one in annotated.items() if one in (MISSING, float, int)]

    @cached_property
    def _needed(self) -> list[str]:
        """The arguments of which nothing else says a type."""
        parameters = inspect.signature(self.function).parameters
        return [name for name in self._unannotated if _is_needed(parameters[name])]

    def _returned(self, signature: inspect.Signature) -> str:
        return "{" + ", ".join(f'"{name}": ...' for name in signature.parameters) + "}"

    def _refusal(self, what: str, hint: str) -> click.ClickException:
        assert self._example is not None
        code = inspect.unwrap(self._example).__code__
        where = f"{self.file}:{code.co_firstlineno}, in {code.co_name}"
        hint = hint.replace("\n", "\n       ")
        return click.ClickException(f"{code.co_name}() {what}\n  where: {where}\n  try: {hint}")

    def types(self) -> dict[str, Any]:
        """What the example gives for arguments of which annotations say no type of an array."""
        if not self._needed and self._chosen is None:
            return {}
        missing = [name for name in self._needed if name not in self.example]
        if missing and self._example is not None:
            raise self._refusal(
                f"gives nothing for {', '.join(missing)}, whose type no annotation says",
                f"return {self._returned(inspect.signature(self.function))}",
            )
        known = annotated_arguments(self.function)
        names = [name for name in self.example if name in self._unannotated or name not in known]
        return {name: self.example[name] for name in names}

    def traced_by(self, by: Callable[..., Any]) -> Any:
        """What `by(function, types)`, which traces, makes.

        A ClickException, which names the lines of the file, for what the function raises.
        """
        function, types = self.function, self.types()
        try:
            return by(function, types)
        except TypeSpecError as error:
            if self._example is not None or "has no array type" not in error.what:
                raise
            raise TypeSpecError(
                error.what,
                where=error.where,
                hint="annotate it, or add a function to the file that returns the arguments:\n"
                f"def {EXAMPLE}():\n    return {self._returned(inspect.signature(function))}",
            ) from None
        except ChainruleError:
            raise
        except (Exception, SystemExit) as error:
            what = f"{self.name} raised while it was traced"
            told = raised_by(error, self.place, what, is_traced=True)
            if told is None:
                raise
            raise told from error

    def arrays(self, graph: Graph) -> dict[str, np.ndarray]:
        """The arrays of the example by the names of inputs, each of the type of its input.

        InputError for one that does not fit, SizeError where two show other named sizes.
        """
        known = {**leaves_of(graph, self.example)}
        given = {name: one for name, one in known.items() if _is_array(one)}
        return {
            item.name: checked(graph, item, given) for item in graph.inputs if item.name in given
        }

    def sizes(self, graph: Graph) -> dict[str, int]:
        """The named sizes that the arrays of the example show."""
        return {} if not graph.sizes else sizes_seen(graph, self.arrays(graph))


def sizes_seen(graph: Graph, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The named sizes that the shapes of arrays show; SizeError where two disagree."""
    found: dict[str, int] = {}
    shown_by: dict[str, str] = {}
    for item in graph.inputs:
        shape = given[item.name].shape if item.name in given else ()
        for size, length in zip(item.type.shape, shape, strict=False):
            name = str(size)
            if name in graph.sizes and found.setdefault(name, length) != length:
                raise SizeError(
                    f"{name} is {found[name]} in {shown_by[name]}, and {length} in {item.name}",
                    where=item.node.origin.describe(),
                    hint="arrays that agree",
                )
            shown_by.setdefault(name, item.name)
    return found


def _is_array(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number or (hasattr(value, "__array__") and hasattr(value, "dtype"))


def _is_needed(one: inspect.Parameter) -> bool:
    return one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
