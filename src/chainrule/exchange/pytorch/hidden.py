"""Finds what decides gradients and is no operator: `torch.no_grad`, hooks, and rules of a module.

`torch.export` keeps the operators alone.  So each operator is noted with the lines that were
running, and with a mark where gradients were off: its result is a constant of the backward pass.
What else changes gradients is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary
from types import FrameType, ModuleType
from typing import Any

from chainrule.exchange.pytorch.refusals import Refusals
from chainrule.exchange.pytorch.sources import NO_GRAD, Frame, frames_of

_FILTER = "_filter_traceback_frames"
_HOLDERS = ("register_hook", "register_post_accumulate_grad_hook")


class HiddenRules:
    """What changes gradients beside the operators of a module."""

    def __init__(self, torch: ModuleType, module: Any) -> None:
        self.torch, self.refusals = torch, Refusals(type(module).__name__)
        self.package = str(Path(torch.__path__[0]))
        self.is_first_pass = True  # later ones compute without gradients themselves
        for name, parameter in module.named_parameters():
            if parameter._backward_hooks:
                self.refusals.add(f"a hook on the gradient of {name}", Frame("", 1, ""))
        # A version of PyTorch without this leaves operators without marks.
        self.marks = hasattr(torch.fx.proxy.TracerBase, _FILTER)

    def add(self, what: str, frame: FrameType | None) -> None:
        """Note it with the innermost running line that is not PyTorch's own."""
        while frame is not None and frame.f_code.co_filename.startswith((self.package, __file__)):
            frame = frame.f_back
        at = Frame("", 1, "")
        if frame is not None:
            at = Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if at not in self.refusals.found.get(what, ()):  # methods of tensors call themselves
            self.refusals.add(what, at)

    def look_at(self, program: Any) -> None:
        """Note writes, while gradients are off, into values that were computed with gradients:
        their gradient goes on as if nothing had been written."""
        for node in program.graph.nodes:
            if getattr(node.target, "__name__", "") != "wrap_with_set_grad_enabled":
                continue
            is_on, inner, *given = node.args
            part = getattr(program, inner.target)
            if not is_on and not self.marks:
                self.refusals.add("no_grad, with this version of PyTorch,", Frame("", 1, ""))
            if not is_on:
                self._look_for_writes(part, given)
            self.look_at(part)

    def inline(self, program: Any) -> None:
        """Put the operators of parts under another mode of gradients among the others: passes over
        these parts would lose their lines and marks."""
        graph = program.graph
        for node in [*graph.nodes]:
            if getattr(node.target, "__name__", "") != "wrap_with_set_grad_enabled":
                continue
            _, inner, *given = node.args
            part = getattr(program, inner.target)
            self.inline(part)
            held = [one for one in part.graph.nodes if one.op == "placeholder"]
            with graph.inserting_before(node):
                values = graph.graph_copy(part.graph, dict(zip(held, given, strict=True)))
            for reader in [*node.users]:  # which keeps its name, as others know it
                value = values[reader.args[1]]
                reader.target, reader.args = self.torch.ops.aten.alias.default, (value,)
            graph.erase_node(node)
            graph.erase_node(inner)
        program.recompile()

    def _look_for_writes(self, part: Any, given: list[Any]) -> None:
        outer = dict(
            zip([one for one in part.graph.nodes if one.op == "placeholder"], given, strict=True)
        )
        for node in part.graph.nodes:
            schema = getattr(node.target, "_schema", None)
            if schema is None or not schema.is_mutable:
                continue
            written = node.args[0]
            while written.op == "call_function" and _is_view(written):
                written = written.args[0]
            if written in outer and outer[written].op != "placeholder":
                name = schema.name.rpartition("::")[2]
                frames = frames_of(node.meta.get("stack_trace") or "", [])
                own = [one for one in frames if not one.file.startswith(self.package)]
                where = (own or [Frame("", 1, "")])[-1]
                self.refusals.add(f"{name} under no_grad, into a value that has a gradient", where)

    def raise_all(self) -> None:
        self.refusals.raise_all()


def _is_view(node: Any) -> bool:
    """Whether the result shares its memory with the first argument."""
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    return bool(arguments) and arguments[0].alias_info is not None and bool(node.args)


@contextmanager
def noted(torch: ModuleType, hidden: HiddenRules) -> Iterator[None]:
    """While it is open, operators get all lines and marks, and hidden rules are found."""
    package = str(Path(torch.__path__[0]))
    layers = str(Path(torch.__path__[0], "nn"))

    def lines(self: Any, summary: Any) -> Any:
        known = [
            one
            for one in summary
            if not one.filename.startswith(package)
            or (one.name == "forward" and one.filename.startswith(layers))
        ]
        first = next((i for i, one in enumerate(known) if one.name == "forward"), len(known))
        known = known[first:]
        if hidden.is_first_pass and not torch.is_grad_enabled():
            known.append(FrameSummary(NO_GRAD, 1, NO_GRAD, lookup_line=False, line=""))
        return StackSummary.from_list(known)

    function = torch.autograd.Function
    apply = function.apply.__func__

    def applied(cls: Any, *args: Any, **options: Any) -> Any:
        if cls.__module__.startswith("torch._higher_order_ops"):  # refused as operators
            return apply(cls, *args, **options)
        what = f"the torch.autograd.Function {cls.__name__}, which has a derivative of its own,"
        hidden.add(what, sys._getframe(1))
        return apply(cls, *args, **options)

    changed: list[tuple[Any, str, Any]] = [(function, "apply", classmethod(applied))]
    changed += [(torch.fx.proxy.TracerBase, _FILTER, lines)] if hidden.marks else []
    changed += [(torch.Tensor, name, _hooked(torch, name, hidden)) for name in _HOLDERS]
    before = [vars(holder)[name] for holder, name, _ in changed]
    for holder, name, new in changed:
        setattr(holder, name, new)
    try:
        yield
    finally:
        for (holder, name, _), old in zip(changed, before, strict=True):
            setattr(holder, name, old)


def _hooked(torch: ModuleType, name: str, hidden: HiddenRules) -> Any:
    original = getattr(torch.Tensor, name)

    def register(self: Any, hook: Any) -> Any:
        hidden.add(f"a hook on a gradient ({name})", sys._getframe(1))
        return original(self, hook)

    return register
