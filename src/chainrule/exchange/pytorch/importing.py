"""`from_torch`: a module of PyTorch as a `Model`, by `torch.export`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.exchange.model import Model
from chainrule.exchange.pytorch.converting import converted
from chainrule.exchange.pytorch.hidden import HiddenRules, noted
from chainrule.exchange.pytorch.installed import imported_torch
from chainrule.exchange.pytorch.kept import kept_whole
from chainrule.exchange.pytorch.operators import KNOWN
from chainrule.frontend import by_hand
from chainrule.frontend.trace import Trace
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import flatten
from chainrule.graph.types import ArrayType
from chainrule.tracebacks import entry

# Example lengths of named sizes: unlike each other, and unlike what models have by chance.
_LENGTHS = (7, 11, 13, 17, 19, 23, 29, 31)


@entry
def from_torch(
    module: Any,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Model:
    """A module of PyTorch as a `Model`: a function of traced arrays, its parameters and buffers.

    `example_inputs` are what `module` takes, in a tuple if these are several: tensors, NumPy
    arrays, or array types, whose named sizes stay open (`cr.float32["n 3 224 224"]`).  With tensors
    `dynamic_shapes` says which sizes stay open, as for `torch.export.export`; names may be text
    (`({0: "n"},)`).  All others are fixed by the examples.

    The module is exported as it is, in train or in eval mode; in the other one when
    `model(..., training=)`, `model.train()` or `model.eval()` first asks for it.
    Values are named by the variables of
    `forward`, with the path of the submodule (`layer1.0.h`), as parameters are
    (`layer1.0.conv1.weight`).  Parameters that require a gradient become `model.parameters`;
    buffers and frozen parameters become `model.buffers`, and what the module writes into one is in
    the buffers afterwards: `out, buffers = model(x, parameters, buffers)`.

    Raises InputError without PyTorch, and UnsupportedError for operators that have no counterpart
    here, all at once, each with its name, a line of the module, and how often it occurs; also where
    `torch.export` itself refuses the module.
    """
    torch = imported_torch("from_torch")
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"from_torch takes a torch.nn.Module, got {type(module).__name__}",
            hint="cr.from_torch(module, example_inputs)",
        )
    args = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    options = dict(example_kwargs or {})
    examples = _Examples(torch)
    given = tuple(examples.tensors(one) for one in args)
    named = {name: examples.tensors(one) for name, one in options.items()}
    shapes = examples.shapes((args, options), dynamic_shapes)
    names = _size_names(torch, (*given, *named.values()), shapes)

    arrays: dict[str, np.ndarray] = {}  # of both modes: the module may be trained meanwhile

    def in_mode(training: bool) -> Model:
        with _mode(module, training):
            exported = _exported(torch, module, given, named, shapes)
        return _model(torch, module, exported, names, arrays, training, in_mode)

    return in_mode(bool(module.training))


class _Examples:
    """Example tensors of what was given, and the names of sizes that stay open."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.dims: dict[str, Any] = {}
        self.lengths: dict[str, int] = {}

    def tensors(self, value: Any) -> Any:
        pytree = self.torch.utils._pytree
        return pytree.tree_map(self._tensor, value)

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, ArrayType):
            shape = [self._length(length) for length in value.shape]
            dtype = getattr(self.torch, value.dtype.name)
            return self.torch.zeros(shape, dtype=dtype)
        if isinstance(value, (np.ndarray, np.generic)):
            return self.torch.from_numpy(np.array(value, order="C"))
        return value

    def _length(self, length: int | Size) -> int:
        if isinstance(length, int):
            return length
        name = str(length)
        if not name.isidentifier():
            raise InputError(
                f"from_torch: the size {name} of an example is no name",
                hint='cr.float32["n 3"]; sizes that follow from others are found by themselves',
            )
        return self.lengths.setdefault(name, _LENGTHS[len(self.lengths) % len(_LENGTHS)])

    def dim(self, name: str) -> Any:
        return self.dims.setdefault(name, self.torch.export.Dim(name))

    def shapes(self, given: Any, stated: Any) -> Any:
        """What `torch.export` takes as dynamic_shapes: of types, or of what was stated."""
        if stated is not None:
            return self._with_dims(stated)
        args, options = given
        pytree = self.torch.utils._pytree
        found = pytree.tree_map(self._open, (args, options))
        return (*found[0], *found[1].values()) if self.lengths else None

    def _open(self, value: Any) -> Any:
        if not isinstance(value, ArrayType):
            return None
        return {
            axis: self.dim(str(length))
            for axis, length in enumerate(value.shape)
            if isinstance(length, Size)
        }

    def _with_dims(self, stated: Any) -> Any:
        if isinstance(stated, str):
            return self.dim(stated)
        if isinstance(stated, Mapping):
            return {key: self._with_dims(one) for key, one in stated.items()}
        if isinstance(stated, (list, tuple)):
            return type(stated)([self._with_dims(one) for one in stated])
        return stated


@contextmanager
def _mode(module: Any, training: bool) -> Iterator[None]:
    """While the module is in this mode; as it is, if it is in it."""
    before = {one: one.training for one in module.modules()}
    try:
        if module.training != training:
            module.train(training)
        yield
    finally:
        for one, mode in before.items():
            one.training = mode


def _exported(torch: ModuleType, module: Any, args: Any, options: Any, shapes: Any) -> Any:
    """The module in the operators of core ATen, and those of our table as they are."""
    hidden = HiddenRules(torch, module)
    try:
        # Gradients are on, so that `torch.no_grad` in the module is seen.
        with (
            torch.enable_grad(),
            warnings.catch_warnings(),
            kept_whole(torch),
            noted(torch, hidden),
        ):
            warnings.simplefilter("ignore")  # of PyTorch, about its own future
            exported = torch.export.export(
                module, args, options or None, dynamic_shapes=shapes, strict=False
            )
            hidden.look_at(exported.graph_module)
            hidden.raise_all()
            hidden.inline(exported.graph_module)
            hidden.is_first_pass = False
            return exported.run_decompositions(_decompositions(torch))
    except UnsupportedError:
        raise
    except Exception as error:  # whatever the module, or the exporter, makes of it
        text = next((line for line in str(error).splitlines() if line.strip()), "")
        raise UnsupportedError(
            f"torch.export cannot export {type(module).__name__}: {type(error).__name__}: {text}",
            hint="torch.export.export(module, args) shows the whole message; a branch that depends "
            "on values, say, is written with torch.where",
        ) from error


def _decompositions(torch: ModuleType) -> Any:
    """All that are known, but for the operators of our table."""
    table = torch.export.default_decompositions()
    known = torch._decomp.decomposition_table
    found = {op: rule for op, rule in known.items() if op not in table}
    table.update(found)
    for name in KNOWN:
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


def _size_names(torch: ModuleType, given: Any, shapes: Any) -> list[dict[int, str]]:
    """The names of open sizes, by axis, for each leaf of the inputs."""
    if isinstance(shapes, Mapping):  # by the names of arguments
        shapes = [*shapes.values()]
    found: list[dict[int, str]] = []
    for position, value in enumerate(given):
        spec = shapes[position] if shapes is not None and position < len(shapes) else None
        _name_sizes(torch, value, spec, found)
    return found


def _name_sizes(torch: ModuleType, value: Any, spec: Any, found: list[dict[int, str]]) -> None:
    if isinstance(value, torch.Tensor) or not isinstance(value, (Mapping, list, tuple)):
        axes = dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else dict(spec or {})
        names = {axis: getattr(dim, "__name__", "") for axis, dim in axes.items()}
        found.append({axis: name for axis, name in names.items() if name.isidentifier()})
        return
    keys = list(value) if isinstance(value, Mapping) else range(len(value))
    for key in keys:
        _name_sizes(torch, value[key], spec[key] if spec else None, found)


def _model(
    torch: ModuleType,
    module: Any,
    exported: Any,
    named_sizes: list[dict[int, str]],
    arrays: dict[str, np.ndarray],
    training: bool,
    in_mode: Callable[[bool], Model],
) -> Model:
    pytree = torch.utils._pytree
    name = type(module).__name__
    found = converted(torch, exported, name, named_sizes)
    args, options = pytree.tree_unflatten([*range(len(found.inputs))], exported.call_spec.in_spec)
    places = {**dict(zip(_input_names(module, len(args)), args, strict=True)), **options}
    types = {
        key: pytree.tree_map(lambda place: found.inputs[place], one) for key, one in places.items()
    }
    order = [place for key, one in places.items() for place in flatten(one, key)[0]]

    def compute(trace: Trace, inputs: Any, own: Any, key: Any) -> tuple[Any, dict[str, Any]]:
        leaves = dict(zip(order, inputs, strict=True))
        values = [own[one] if isinstance(one, str) else leaves[one] for one in found.reads]
        results = found.program.run(trace, values, key)
        pairs = zip(found.changed, results, strict=False)
        changed = {key: by_hand.named(value, f"{key}_next") for key, value in pairs}
        return pytree.tree_unflatten(results[len(changed) :], exported.call_spec.out_spec), changed

    return Model(
        name,
        types,
        {key: arrays.setdefault(key, one) for key, one in found.parameters.items()},
        {key: arrays.setdefault(key, one) for key, one in found.buffers.items()},
        compute,
        draws=found.program.draws,
        source="the exported program",
        training=training,
        in_mode=in_mode,
    )


def _input_names(module: Any, count: int) -> list[str]:
    """The names of the positional arguments of `forward`; those of *args are counted."""
    kind = inspect.Parameter
    names: list[str] = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind is kind.VAR_POSITIONAL:
            names += [f"{parameter.name}_{place}" for place in range(count - len(names))]
        elif parameter.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count]
