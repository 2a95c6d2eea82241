"""`primitive`: makes an opaque function on NumPy arrays an operation of the graph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.custom import opaque
from chainrule.custom.opaque import Opaque, Plain
from chainrule.custom.placing import placed
from chainrule.errors import InputError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import (
    as_node,
    common_shape,
    resolve,
    to_dtype,
    to_shape,
)
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import promoted
from chainrule.graph.node import Node
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.types import ArrayType
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Flat, Joint, Library, Primitive, Sample
from chainrule.primitives.python import Python
from chainrule.tracebacks import entry
from chainrule.tracing import graph_name

NAMES = ("x", "y", "z", "u", "v", "w")
TAKEN = ("input", "constant", "custom_derivative")  # which are told by their names
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 1, 3))


class Operation(Primitive):
    """A primitive of the user's own: a function of arrays and of traced arrays.

    Called on nodes, as primitives are, it makes a node.
    """

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        if inputs and all(isinstance(one, Node) for one in inputs):
            return super().__call__(*inputs, **params)
        return _applied(self, inputs, params, sys._getframe(1))

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def opaque(self) -> Opaque:
        """The function, and what its user said of it."""
        return dict(self.samples[0].params)["call"].opaque


@entry
def primitive(
    evaluate: Callable[..., Any],
    *,
    result_type: Callable[..., Any] | str = "same",
    partials: Sequence[Callable[..., Any] | None] | Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | str = "loop",
    name: str = "",
    latex: str = "",
    flops: int = 1,
    inputs: Sequence[str] = (),
    domain: tuple[float, float] = (-2.0, 2.0),
    shapes: Sequence[tuple[int, ...]] = (),
) -> Operation:
    """Makes the opaque function `evaluate(*arrays, **params)` an operation of the graph.

    `result_type`: "same" brings all inputs to one floating-point dtype and shape, which the result
    has, too; or a function of the inputs' types that returns the result's.  Derivatives are
    written with NumPy on traced arrays: `partials`, for each input the elementwise derivative
    `(out, *inputs)` or None for zero; or `vjp(g, out, *inputs)`, a tuple of cotangents, and
    `jvp(tangents, out, *inputs)`, a tangent.  `batch`: "loop" calls the function for each example,
    "pointwise" once for all, a function is called in its place.  `latex` has the inputs as {x};
    `flops` counts for each element of the result.  Keyword arguments of a call are static.
    `domain` and `shapes` say where `chainrule.testing.check_primitive` tries it.  Memory that the
    function takes beside its result is not known, and counted as none.
    """
    shown = name or _identifier(evaluate)
    names = tuple(inputs) or _inputs(evaluate, shown)
    rules = _partials(partials, names, shown, result_type)
    _check(shown, names, result_type, batch, rules, vjp, jvp)
    own = Opaque(evaluate, shown, result_type, rules, vjp, jvp, batch)
    tried = (tuple(shapes),) if shapes else _tried(result_type, len(names))
    call = Plain(own)
    samples = tuple(
        Sample(one, (domain,) * len(names), (("call", call), ("shape", _shape(own, one))))
        for one in tried
    )
    template = latex or rf"\operatorname{{{{{_escaped(shown)}}}}}({_listed(names)})"
    return Operation(
        name=shown,
        doc=_first_line(evaluate) or f"The function {shown}, which is not looked into.",
        inputs=names,
        result_type=opaque.declared,
        evaluate=opaque.evaluated,
        derivative=Flat()
        if opaque.is_flat(own)
        else Joint(opaque.tangent_of, opaque.cotangents_of),
        batch=opaque.batched,
        kernel=Library(keeps=True),
        as_stored=True,
        flops=lambda out: flops * out.type.size,
        latex=Latex(template, ATOM, (0,) * len(names)),
        samples=samples,
        python=Python(opaque.written(own, names), noun=shown),
    )


def _tried(result_type: Any, count: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Shapes of the inputs in which tests try it."""
    return tuple((one,) * count for one in (((3,),) if callable(result_type) else SHAPES))


def _shape(own: Opaque, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    types = [ArrayType(np.dtype(np.float64), shape, False) for shape in shapes]
    return own.type_of_result(types, {}).shape


def _identifier(evaluate: Any) -> str:
    if not callable(evaluate):
        raise InputError(
            f"primitive needs a function on arrays, got {type(evaluate).__name__}",
            hint="cr.primitive(scipy.special.gammaln, partials=...)",
        )
    found = graph_name(evaluate)
    if getattr(evaluate, "__name__", "") == "<lambda>":
        raise InputError(
            "a primitive of a lambda has no name",
            where=opaque.definition(evaluate),
            hint='cr.primitive(..., name="gammaln")',
        )
    return found


def _first_line(evaluate: Any) -> str:
    if isinstance(evaluate, np.ufunc):
        return ""
    return (inspect.getdoc(evaluate) or "").partition("\n")[0].strip()


def _inputs(evaluate: Any, name: str) -> tuple[str, ...]:
    """Names of the arrays: the parameters without default; x, y, ... of a ufunc."""
    if isinstance(evaluate, np.ufunc):
        return NAMES[: evaluate.nin]
    try:
        parameters = inspect.signature(evaluate).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    positional = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    if not positional:
        raise InputError(
            f"the inputs of {name} cannot be read off its signature",
            where=opaque.definition(evaluate),
            hint='name them: cr.primitive(..., inputs=("x", "y"))',
        )
    return tuple(positional)


def _partials(partials: Any, names: tuple[str, ...], name: str, result_type: Any) -> Any:
    if partials is None:
        return None
    found = (partials,) if callable(partials) else tuple(partials)
    if len(found) != len(names):
        raise InputError(
            f"{name} has {len(names)} inputs ({', '.join(names)}) and {len(found)} partials",
            hint="give one for each input, None where the derivative is zero",
        )
    if callable(result_type) and any(found):
        raise InputError(
            f"{name} has partials, which are for elementwise functions, and a result_type of its "
            "own",
            hint='vjp=rule, or result_type="same"',
        )
    return found


def _check(
    name: str, names: tuple[str, ...], result_type: Any, batch: Any, partials: Any, *rules: Any
) -> None:
    if name in TAKEN or not name.isidentifier():
        why = "is no identifier" if not name.isidentifier() else "is a name that the library needs"
        raise InputError(
            f"a primitive cannot be called {name!r}, which {why}", hint='name="my_function"'
        )
    if not callable(result_type) and result_type != "same":
        raise InputError(
            f'result_type={result_type!r} of {name} is neither "same" nor a function',
            hint="result_type=lambda x: x.with_shape(x.shape[:-1])",
        )
    if not callable(batch) and batch not in ("loop", "pointwise"):
        raise InputError(
            f'batch={batch!r} of {name} is neither "loop" nor "pointwise" nor a function',
            hint='leave it out: "loop" is always right',
        )
    if partials is not None and any(one is not None for one in rules):
        raise InputError(
            f"{name} has partials and another rule for the same derivative",
            hint="give partials=, or vjp= and jvp=",
        )


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{{{one}}}" for one in names)


# Calls -----------------------------------------------------------------------------------------


def _applied(own: Operation, inputs: tuple[Any, ...], params: dict[str, Any], frame: Any) -> Any:
    if len(inputs) != len(own.inputs):
        raise InputError(
            f"{own.name} takes {len(own.inputs)} arrays ({', '.join(own.inputs)}), got "
            f"{len(inputs)}",
            where=own.opaque.where,
            hint="give arrays by position, and static values by keyword",
        )
    call = Plain(own.opaque, _static(own, params))
    trace = trace_of(inputs)
    if trace is None:
        return _computed(call, inputs)
    with placed(trace, frame, own.opaque.evaluate) as user:
        operands = [as_node(trace, one) for one in inputs]
        if own.opaque.result_type == "same":
            operands = _alike(trace, operands, own.name)
        shape = call.result_type([one.type for one in operands]).shape
        node = trace.build(own, *operands, call=call, shape=shape)
    trace.name_result(node, user)
    return Traced(node, trace)


def _static(own: Operation, params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    for key, value in params.items():
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f"{own.name}({key}=...) is a {type(value).__name__}: what is given by keyword is "
                "static, and has to be hashable",
                where=own.opaque.where,
                hint="give arrays by position; a tuple in place of a list",
            ) from None
    return tuple(sorted(params.items()))


def _computed(call: Plain, inputs: Sequence[Any]) -> Any:
    """The value for arrays of numbers."""
    for one in inputs:
        refuse_subclass(one, f"an argument of {call}", call.opaque.where)
    arrays = [np.asarray(one) for one in inputs]
    if call.opaque.result_type == "same":
        kinds = [
            type(one) if type(one) in (int, float) else array.dtype
            for one, array in zip(inputs, arrays, strict=True)
        ]
        dtype = _common(kinds)
        arrays = list(np.broadcast_arrays(*[array.astype(dtype) for array in arrays]))
    found = call.evaluate(arrays, call.result_type([opaque.type_of(array) for array in arrays]))
    return found if found.ndim else found[()]


def _common(kinds: Sequence[Any]) -> np.dtype:
    """The floating-point dtype in which all are computed; Python numbers widen none."""
    strong = [kind for kind in kinds if isinstance(kind, np.dtype)]
    if not strong:
        return np.dtype(np.float64)
    weak = [kind(0) for kind in kinds if not isinstance(kind, np.dtype)]
    dtype = promoted(*strong, *weak)
    found = resolve(np.sin, (dtype,))
    return dtype if found is None else found[0]


def _alike(trace: Trace, operands: list[Node], name: str) -> list[Node]:
    """The operands in one dtype and shape."""
    kinds = [float if one.type.weak else one.type.dtype for one in operands]
    dtype = _common(kinds)
    weak = all(one.type.weak for one in operands)
    shape = common_shape(trace, operands, name)
    return [to_shape(trace, to_dtype(trace, one, dtype, weak), shape) for one in operands]
