"""Functions that stand for operators: those of the file, and those of ONNX's own definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.errors import UnsupportedError
from chainrule.exchange.from_onnx.blocks import Block, Reader
from chainrule.exchange.from_onnx.call import Call
from chainrule.frontend.traced import Traced

# Operators that ONNX itself defines by simpler ones, and that are read in this way.
_NAMES = "AffineGrid Attention CausalConvWithState LinearAttention RotaryEmbedding SwiGLU"
DEFINED = frozenset(("", name) for name in _NAMES.split())


class Functions:
    """What a call of an operator without a table entry runs."""

    def __init__(self, onnx: Any, model: Any, reader: Reader, versions: dict[str, int]) -> None:
        self.onnx, self.reader, self.versions = onnx, reader, versions
        self.own: dict[tuple[str, str], Block] = {}
        self._defaults: dict[tuple[str, str], dict[str, Any]] = {}
        self._defined: dict[Any, Block] = {}
        for one in model.functions:
            key = ("" if one.domain == "ai.onnx" else one.domain, one.name)
            self.own[key] = reader.function(one, versions)
            self._defaults[key] = {
                each.name: reader._attribute(each, versions, 1) for each in one.attribute_proto
            }

    def has(self, call: Call) -> bool:
        """Whether there is a function for this operator."""
        key = call.domain, call.operator
        return key in self.own or key in DEFINED

    def body(self, call: Call, operands: Sequence[Any]) -> tuple[Block, dict[str, Any]]:
        """The function of a call, with the outputs that it asks for, and defaults of attributes."""
        found, defaults = self._body(call, operands)
        wanted = tuple(name for name, own in zip(found.outputs, call.outputs, strict=False) if own)
        return self.reader.asked_for(found, wanted), defaults

    def _body(self, call: Call, operands: Sequence[Any]) -> tuple[Block, dict[str, Any]]:
        key = call.domain, call.operator
        if key in self.own:
            return self.own[key], self._defaults[key]
        return self._definition(call, operands), {}

    def _definition(self, call: Call, operands: Sequence[Any]) -> Block:
        """ONNX's own definition, which may depend on types and attributes."""
        onnx = self.onnx
        schema = onnx.defs.get_schema(call.operator, call.version, call.domain)
        graphs = [name for name, value in call.attributes.items() if isinstance(value, Block)]
        if graphs:
            call.refuse(f"its attribute {graphs[0]} is a graph")
        node = onnx.helper.make_node(
            call.operator, call.inputs, call.outputs, domain=call.domain, **call.attributes
        )
        if schema.has_function:
            found = schema.get_function_with_opset_version(schema.since_version)
        else:
            types = [_type_text(onnx, one) for one in operands]
            versions = schema.context_dependent_function_opset_versions
            if not versions:
                raise UnsupportedError(f"{call.operator} has no definition in this version of onnx")
            found = schema.get_context_dependent_function_with_opset_version(
                versions[0], node.SerializeToString(), types
            )
        function = onnx.FunctionProto()
        function.ParseFromString(found)
        for one in schema.attributes.values():  # defaults, which references need
            if one.name not in call.attributes and one.default_value.name:
                call.attributes[one.name] = self.reader._attribute(one.default_value, {}, 1)
        return self.reader.function(function, self.versions)


def _type_text(onnx: Any, value: Any) -> bytes:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    if isinstance(value, (list, tuple)):
        raise UnsupportedError("a sequence is given to an operator that ONNX defines by others")
    shape = [one if isinstance(one, int) else None for one in value.shape]
    dtype = value.node.type.dtype if isinstance(value, Traced) else value.dtype
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return onnx.helper.make_tensor_type_proto(kind, shape).SerializeToString()
