"""Reads a program that `torch.export` made into plain instructions; refuses what is unknown."""

from __future__ import annotations

import operator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.complex_numbers import COMPLEX
from chainrule.exchange.pytorch.creating import CREATORS
from chainrule.exchange.pytorch.elementwise import PROMOTED
from chainrule.exchange.pytorch.kept import NAMESPACE
from chainrule.exchange.pytorch.operators import (
    DRAWING,
    DROPPED,
    IGNORED,
    OPERATORS,
    PARTS,
    WHOLE,
)
from chainrule.exchange.pytorch.program import Instruction, Program, Ref
from chainrule.exchange.pytorch.refusals import Refusals
from chainrule.exchange.pytorch.scalars import SCALARS, SIZES
from chainrule.exchange.pytorch.sources import NO_GRAD, Frame, Made, frames_of, names_of
from chainrule.graph.dtypes import as_dtype, dtype_kind, is_bfloat16
from chainrule.graph.sizes.sizes import size
from chainrule.graph.types import array_type

_KINDS = "biuf"


@dataclass(frozen=True)
class Converted:
    """A program, what its inputs are, and the arrays that belong to it."""

    program: Program
    inputs: list[Any]  # the type of each leaf, or a value that is part of the program
    reads: list[str | int]  # what each input of the program is: an array by name, or a leaf
    parameters: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]
    changed: list[str]  # the buffers that the first results are


def converted(
    torch: ModuleType, exported: Any, name: str, named_sizes: list[dict[int, str]]
) -> Converted:
    """The exported program in terms of this library.

    `named_sizes` are the names of open sizes, by axis, for each leaf of the inputs.
    """
    return _Converting(torch, exported, name, named_sizes).all()


class _Converting:
    def __init__(
        self, torch: ModuleType, exported: Any, name: str, named_sizes: list[dict[int, str]]
    ) -> None:
        self.torch, self.exported, self.name = torch, exported, name
        self.named_sizes = named_sizes
        self.package = str(Path(torch.__path__[0]))
        self.nodes = [node for node in exported.graph.nodes if node.op != "output"]
        self.place_of = {node: place for place, node in enumerate(self.nodes)}
        (self.output,) = [node for node in exported.graph.nodes if node.op == "output"]
        self.refusals = Refusals(name)
        self.draws = 0
        self._size_names: dict[str, str] = {}

    def all(self) -> Converted:
        signature = self.exported.graph_signature
        holders = [node for node in self.nodes if node.op == "placeholder"]
        arrays = self._arrays(signature)
        constants: list[tuple[int, str, np.ndarray]] = []
        inputs: list[Any] = []
        reads: list[str | int] = []
        read: list[int] = []
        for node, spec in zip(holders, signature.input_specs, strict=True):
            kind = spec.kind.name
            if kind in ("PARAMETER", "BUFFER"):
                reads.append(arrays[spec.target])
                read.append(self.place_of[node])
            elif kind == "CONSTANT_TENSOR":
                value = self._array(self.exported.constants[spec.target], spec.target)
                constants.append((self.place_of[node], spec.target, value))
            elif kind == "TOKEN":  # of an order of side effects
                continue
            elif kind == "USER_INPUT":
                reads.append(len(inputs))
                read.append(self.place_of[node])
                inputs.append(self._input(node, len(inputs)))
            else:
                self._refuse(f"an input of the kind {kind.lower()}", node)
        made = [self._made(node) for node in self.nodes]
        names = names_of(made, self.torch.nn.modules.container.__file__)
        called = [node for node in self.nodes if node.op == "call_function"]
        for node in self.nodes:
            if node.op == "get_attr":
                self._refuse(f"{node.target}, a program within the program,", node)
        instructions = [one for node in called if (one := self._instruction(node, made, names))]
        self.refusals.raise_all()
        changed, results = self._results(signature)
        kept = {key: value for key, value in self._known.items() if key in set(arrays.values())}
        parameters = {key: kept[key] for key in kept if self._is_trained(key)}
        program = Program(
            tuple(instructions), tuple(read), results, len(self.nodes), tuple(constants)
        )
        buffers = {key: kept[key] for key in kept if key not in parameters}
        return Converted(program, inputs, reads, parameters, buffers, changed)

    # Inputs and results ---------------------------------------------------------------------

    def _arrays(self, signature: Any) -> dict[str, str]:
        """The name of each parameter and buffer; one that has two keeps the first (tied weights).

        Also reads the arrays themselves.
        """
        first: dict[Any, str] = {}
        found: dict[str, str] = {}
        self._known: dict[str, np.ndarray] = {}
        for spec in signature.input_specs:
            if spec.kind.name not in ("PARAMETER", "BUFFER"):
                continue
            tensor = self._tensor(spec.target)
            alike = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            name = first.setdefault(alike if tensor.numel() else spec.target, spec.target)
            found[spec.target] = name
            if name not in self._known:
                self._known[name] = self._array(tensor, name)
        return found

    def _tensor(self, name: str) -> Any:
        state = self.exported.state_dict
        return state[name] if name in state else self.exported.constants[name]

    def _is_trained(self, name: str) -> bool:
        tensor = self._tensor(name)
        return isinstance(tensor, self.torch.nn.Parameter) and tensor.requires_grad

    def _array(self, tensor: Any, name: str) -> np.ndarray:
        dtype = self._dtype(tensor.dtype)
        if dtype is None or tensor.layout is not self.torch.strided:
            raise UnsupportedError(
                f"from_torch: {name} of {self.name} is {tensor.dtype}, {tensor.layout}",
                hint="NumPy has booleans, integers and floats of 16, 32 and 64 bits: "
                "module.float() before from_torch",
            )
        tensor = tensor.detach().cpu().contiguous()
        wide = tensor.float() if is_bfloat16(dtype) else tensor  # for which PyTorch has no array
        return wide.numpy().astype(dtype)

    def _dtype(self, dtype: Any) -> np.dtype | None:
        """NumPy's dtype; None for those that graphs do not have."""
        try:
            found = as_dtype(str(dtype).removeprefix("torch."))
        except (TypeError, UnsupportedError):
            return None
        return found if dtype_kind(found) in _KINDS and found.itemsize <= 8 else None

    def _inner_dtype(self, dtype: Any) -> np.dtype | None:
        """The same, or a complex dtype, which values within a program may have."""
        complex_ = {self.torch.complex64: np.complex64, self.torch.complex128: np.complex128}
        found = complex_.get(dtype)
        return self._dtype(dtype) if found is None else np.dtype(found)

    def _input(self, node: Any, place: int) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, self.torch.Tensor):
            return value
        dtype = self._dtype(value.dtype)
        if dtype is None:
            self._refuse(f"an input of dtype {value.dtype}", node)
            return None
        stated = self.named_sizes[place] if place < len(self.named_sizes) else {}
        for axis, length in enumerate(value.shape):
            if not isinstance(length, int) and axis in stated:
                self._size_names.setdefault(str(length), stated[axis])
        return array_type(dtype, tuple([self._size(length) for length in value.shape]))

    def _size(self, length: Any) -> Any:
        if isinstance(length, int):
            return length
        text = str(length)
        return size(self._size_names.get(text, text))

    def _results(self, signature: Any) -> tuple[list[str], tuple[Any, ...]]:
        """Which buffers the first results are, and all results."""
        changed: list[str] = []
        for spec in signature.output_specs:
            kind = spec.kind.name
            if kind == "BUFFER_MUTATION":
                changed.append(spec.target)
            elif kind not in ("USER_OUTPUT", "TOKEN"):
                self._refuse(f"a result of the kind {kind.lower()}", self.output)
        self.refusals.raise_all()
        for node in self._results_of_user:
            value: Any = node.meta.get("val") if isinstance(node, self.torch.fx.Node) else None
            if isinstance(value, self.torch.Tensor) and value.is_complex():
                self._refuse(f"a result of dtype {value.dtype}", node)
        self.refusals.raise_all()
        pairs = zip(self.output.args[0], signature.output_specs, strict=True)
        results = [value for value, spec in pairs if spec.kind.name != "TOKEN"]
        return changed, tuple(self._argument(results))

    # Operators --------------------------------------------------------------------------------

    def _made(self, node: Any) -> Made | None:
        if node.op != "call_function":
            return None
        is_part = node.target is operator.getitem
        source = self.place_of.get(node.args[0]) if is_part else None
        part = (source, node.args[1]) if source is not None else None
        readers = tuple(self.place_of[one] for one in node.users if one in self.place_of)
        user = self._results_of_user
        return Made(self._frames(node), readers, any(node is one for one in user), part)

    @property
    def _results_of_user(self) -> list[Any]:
        specs = self.exported.graph_signature.output_specs
        pairs = zip(self.output.args[0], specs, strict=True)
        return [value for value, spec in pairs if spec.kind.name == "USER_OUTPUT"]

    def _frames(self, node: Any) -> tuple[Frame, ...]:
        return frames_of(node.meta.get("stack_trace") or "", self._modules(node))

    def _modules(self, node: Any) -> list[str]:
        """The paths of the submodules that were running, outermost first."""
        stack = node.meta.get("nn_module_stack") or {}
        paths: list[str] = []
        for key, (path, _) in stack.items():
            again = key.rpartition("@")[2] if "@" in key else ""
            path = path.replace("L['self'].", "").removeprefix("L['self']")
            paths.append(f"{path}_{again}" if again and "@" not in path else path.replace("@", "_"))
        return paths

    def _line(self, frames: tuple[Frame, ...]) -> Frame:
        """The innermost line that is not PyTorch's own."""
        own = [one for one in frames if not one.file.startswith(self.package)]
        return (own or list(frames) or [Frame("", 1, self.name)])[-1]

    def _instruction(
        self, node: Any, made: list[Made | None], names: dict[int, str]
    ) -> Instruction | None:
        place = self.place_of[node]
        found = made[place]
        assert found is not None
        modules = self._modules(node)
        where = {
            "frame": self._line(found.frames),
            "path": modules[-1] if modules else "",
            "name": names.get(place, ""),
            "has_gradient": NO_GRAD not in (node.meta.get("stack_trace") or ""),
        }
        args = tuple(self._argument(one) for one in node.args)
        options = {key: self._argument(one) for key, one in node.kwargs.items()}
        target = node.target
        if self._is_check(node):
            return None
        if not isinstance(target, self.torch._ops.OpOverload):
            function = SCALARS.get(getattr(target, "__name__", ""))
            if function is None:
                self._refuse(getattr(target, "__name__", str(target)), node)
                return None
            dtypes = self._dtypes(node) if target is operator.getitem else None
            return Instruction(place, function, args, options, **where, dtypes=dtypes)
        name, _, _ = target._name.partition("::")[2].partition(".")
        if name in IGNORED:
            return None
        if name in ("sym_size", "sym_numel", "sym_stride"):
            sizes = SIZES.get(name)
            if sizes is None:
                self._refuse(name, node)
                return None
            return Instruction(place, sizes, args, options, **where)
        return self._operator(node, name, args, options, where)

    def _is_check(self, node: Any) -> bool:
        """A check with an effect, `with_effects(token, check, ...)`, or the token that it gives."""
        if node.target is operator.getitem and node.args[0].op == "call_function":
            return self._is_check(node.args[0])
        if getattr(node.target, "__name__", "") != "with_effects":
            return False
        return node.args[1]._name.partition("::")[2].partition(".")[0] in IGNORED

    def _operator(
        self, node: Any, name: str, args: tuple[Any, ...], options: dict[str, Any], where: Any
    ) -> Instruction | None:
        place = self.place_of[node]
        dtypes = self._dtypes(node)
        options = {key: value for key, value in options.items() if key not in DROPPED}
        if node.target.namespace not in ("aten", NAMESPACE):
            self._refuse(f"{node.target.namespace}::{name}", node)
            return None
        if name in DRAWING and DRAWING[name][1](*args, **options):
            self.draws += 1
            return Instruction(
                place,
                DRAWING[name][0],
                args,
                options,
                **where,
                dtypes=dtypes,
                draws=self.draws - 1,
            )
        function = CREATORS.get(name) or OPERATORS.get(name)
        if self._is_complex(node):
            function = COMPLEX.get(name)
            name = f"{name} of complex numbers"
        if function is None:
            self._refuse(name, node)
            return None
        parts = PARTS.get(name)
        further = set() if parts is None else self._used(node) - parts
        if further:
            function = WHOLE.get(name)
        if function is None:
            self._refuse(f"{name}, of which result {min(further)} is used,", node)
            return None
        is_float = isinstance(dtypes, np.dtype) and name in PROMOTED
        return Instruction(
            place,
            function,
            args,
            options,
            **where,
            dtypes=dtypes,
            operands=dtypes if is_float else None,
            makes=name in CREATORS,
        )

    def _dtypes(self, node: Any) -> Any:
        """The dtypes of what the operator gives; those that no graph has are refused."""
        value = node.meta.get("val")
        if isinstance(value, self.torch.Tensor):
            return self._result_dtype(value, node)
        if isinstance(value, (list, tuple)):
            used = self._used(node)
            return tuple(
                self._result_dtype(one, node)
                if isinstance(one, self.torch.Tensor) and place in used
                else None
                for place, one in enumerate(value)
            )
        return None

    def _is_complex(self, node: Any) -> bool:
        """Whether complex numbers go in or come out."""
        values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
        flat = [x for one in values for x in (one if isinstance(one, (list, tuple)) else [one])]
        return any(isinstance(one, self.torch.Tensor) and one.is_complex() for one in flat)

    def _used(self, node: Any) -> set[int]:
        """Which of several results are read."""
        return {user.args[1] for user in node.users if user.target is operator.getitem}

    def _result_dtype(self, value: Any, node: Any) -> np.dtype | None:
        dtype = self._inner_dtype(value.dtype)
        if dtype is None:
            called = getattr(node.target, "__name__", str(node.target))
            self._refuse(f"{called} with a result of dtype {value.dtype}", node)
        return dtype

    def _argument(self, value: Any) -> Any:
        """An argument with references for values, and NumPy's dtypes."""
        if isinstance(value, self.torch.fx.Node):
            return Ref(self.place_of[value])
        if isinstance(value, (list, tuple)):
            return [self._argument(one) for one in value]
        if isinstance(value, self.torch.dtype):
            return self._inner_dtype(value)
        if isinstance(value, (self.torch.device, self.torch.layout, self.torch.memory_format)):
            return None
        return value

    def _refuse(self, what: str, node: Any) -> None:
        self.refusals.add(what, self._line(self._frames(node)))
