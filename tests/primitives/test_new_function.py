"""A scalar function is its record: one that no other table knows does all that others do."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.frontend.composite import unary
from chainrule.primitives.arithmetic import divide, sign
from chainrule.primitives.families import elementwise
from chainrule.primitives.notation import ATOM, POWER, PRODUCT, Latex
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.python import Python
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import check_primitive

# The half of the unit circle above the axis.
arch = elementwise(
    "arch",
    "The root of 1 - x squared, for x from -1 to 1; its derivative there is inf.",
    lambda xp, x: xp.sqrt(1 - x * x),
    lambda out, x: -divide(x, out),
    kernel="sqrt(1.0 - x * x)",
    latex=Latex(r"\operatorname{{arch}}({x})", ATOM, (0,)),
    domain=(-0.9, 0.9),
    defined=(-1, 1),
    weight=4,
    kink=lambda x: np.abs(x) == 1,
    python=Python("np.sqrt(1 - {x} * {x})", ATOM, (POWER,), noun="height"),
)
# A kink at 0, and a template that is no call.
fade = elementwise(
    "fade",
    "exp(-|x|); its derivative at 0 is 0.",
    lambda xp, x: xp.exp(-xp.abs(x)),
    lambda out, x: -(out * sign(x)),
    kernel="exp(-fabs(x))",
    latex=Latex(r"e^{{-\left|{x}\right|}}", PRODUCT, (0,)),
    weight=11,
    kink=lambda x: x == 0,
    python=Python("np.exp(-np.abs({x}))"),
)
X = np.array([[-0.8, 0.3, 0.5], [0.1, -0.2, 0.7]])
W = np.array([0.4, -0.3, 0.9])


called: Any = unary(arch, np.exp, "arch", "The half circle.")
faded: Any = unary(fade, np.exp, "fade", "exp(-|x|).")


def objective(x: Any, w: Any) -> Any:
    z = x * w
    h = called(z)
    s = faded(h - 2 * z)
    J = np.sum(s * h)
    return J


@pytest.fixture(params=["reference", "native"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)
    return request.param


@pytest.mark.parametrize("primitive", [arch, fade], ids=["arch", "fade"])
def test_its_record_is_right(primitive: Primitive) -> None:
    check_primitive(primitive)


@pytest.mark.peers
def test_value_and_derivatives_of_both_orders(executor: str) -> None:
    torch = pytest.importorskip("torch")

    def referee(x: Any, w: Any) -> Any:
        z = x * w
        h = torch.sqrt(1 - z * z)
        return torch.sum(torch.exp(-torch.abs(h - 2 * z)) * h)

    x, w = torch.tensor(X), torch.tensor(W, requires_grad=True)
    value = referee(x, w)
    (slope,) = torch.autograd.grad(value, w)
    curvature: Any = torch.autograd.functional.hessian(lambda w: referee(x, w), w)
    ours, gradient = cr.value_and_grad(objective, wrt="w")(X, W)
    np.testing.assert_allclose(ours, value.item(), rtol=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)
    np.testing.assert_allclose(cr.hessian(objective, wrt="w")(X, W), curvature, rtol=1e-12)


def test_batches(executor: str) -> None:
    found = cr.vmap(lambda x: called(x) + faded(x))(X)
    np.testing.assert_allclose(found, np.sqrt(1 - X * X) + np.exp(-np.abs(X)), rtol=1e-15)


def graph() -> Any:
    types: dict[str, Any] = {"x": cr.float64["n 3"], "w": cr.float64[3]}
    return cr.trace(objective, **types)


def test_native_computes_it_in_one_loop_with_others() -> None:
    step = cr.backward(graph(), wrt="w").compile(executor="native", strict=True)
    shown = str(step.plan(n=2))
    assert "multiply, arch, subtract, fade" in shown
    assert "1 instruction," in shown


def test_equations() -> None:
    lines = str(cr.backward(graph(), wrt="w").equations()).splitlines()
    assert "(2)  h = arch(z) ∈ ℝ^{n×3}" in lines
    assert "(3)  s = e^{−|a₁|} ∈ ℝ^{n×3}" in lines
    (chain,) = (line for line in lines if line.startswith("(7)"))
    assert "∂J/∂z = prod(∂J/∂h, ∂h/∂z) + prod(∂J/∂s, ∂s/∂z) = ∂J/∂h ⊙ (−z/h)" in chain


def test_source() -> None:
    step = cr.backward(graph(), wrt="w")
    source = step.python()
    assert "h = np.sqrt(1 - z * z)" in source
    assert "s = np.exp(-np.abs(difference))" in source
    names: dict[str, Any] = {}
    exec(compile(source, "source", "exec"), names)
    ran = step.run(x=X, w=W)
    for got, name in zip(names["objective"](X, W), ("J", "dJ/dw"), strict=True):
        np.testing.assert_array_equal(got, ran[name])


def drawn(graph: Any, **options: Any) -> str:
    """The graph as Mermaid, its entities as characters."""
    return html.unescape(graph.draw(**options).mermaid().replace("#", "&#"))


def test_drawing() -> None:
    circles = re.findall(r'\(\("(.*)"\)\):::operator', drawn(graph()))
    assert circles == ["⊙", "φ arch", "fade(h − 2 z)", "Σ s ⊙ h"]
    assert drawn(graph(), detail="primitives").count('"φ fade"') == 1


def test_cost() -> None:
    values = graph().cost(n=2).values
    assert values["h"].flops == 4 * 6
    assert values["h"].nbytes == 2 * 6 * 8


def test_its_nan_is_explained() -> None:
    found = str(graph().nonfinite(x=X * 4, w=W))
    assert "h = arch(z) became NaN in the forward pass" in found
    assert "because: arch of a number below -1 is NaN" in found
    step = cr.backward(graph(), wrt="w")
    found = str(step.nonfinite(x=np.ones((2, 3)), w=np.array([1.0, 0.5, 0.5])))
    assert "because: the derivative of arch at -1 and 1 is not finite" in found
    assert "np.clip(z, -1 + eps, 1 - eps)" in found


def test_no_other_file_knows_a_domain() -> None:
    defined = {one.name for one in PRIMITIVES if one.defined is not None}
    assert {"arcsin", "arccos", "arccosh", "arctanh", "erfinv", "logit"} == defined


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda x, y: x ** (y + 1), "x^(y + 1)"),
        (lambda x, y: np.exp2(x + y), "2^(x + y)"),
        (lambda x, y: np.exp2(x), "φ 2ˣ"),
        (lambda x, y: np.hypot(x, 2 * y), "hypot(x, 2 y)"),
        (lambda x, y: np.log1p(x - y), "log(1 + x − y)"),
    ],
)
def test_pictures_put_brackets_where_they_are_needed(function: Any, shown: str) -> None:
    def program(x: Any, y: Any) -> Any:
        z = function(x, y)
        return z

    types: dict[str, Any] = {"x": cr.float64["n"], "y": cr.float64["n"]}
    assert f'(("{shown}"))' in drawn(cr.trace(program, **types))
