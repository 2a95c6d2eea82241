"""Methods and keywords of PyTorch and JAX are answered by what to write, with PyTorch's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import MissingMethodError, UnsupportedError
from chainrule.frontend.hints.other_libraries import METHODS

ARRAYS = {
    "x": np.random.default_rng(0).uniform(0.1, 2, (4, 3)),
    "y": np.random.default_rng(1).uniform(0.1, 2, (4, 3)),
    "indices": np.array([[0, 2], [1, 0], [2, 2], [0, 1]]),
    "mask": np.arange(12).reshape(4, 3) % 3 == 0,
}
# PyTorch's own call for each expression, where it is not the method without arguments.
CALLS = {
    "abs_": "x.abs()",
    "chunk": "x.chunk(2, 0)",
    "clamp": "x.clamp(0, 1)",
    "div": "x.div(y)",
    "expand": "x[0].expand(3, 4) if False else x[:, 0].expand(3, 4)",
    "gather": "x.gather(1, indices)",
    "index_select": "x.index_select(0, torch.tensor([0, 2]))",
    "log_softmax": "x.log_softmax(-1)",
    "logsumexp": "x.logsumexp(-1)",
    "masked_fill": "x.masked_fill(mask, 0)",
    "mul": "x.mul(y)",
    "permute": "x.permute(1, 0)",
    "pow": "x.pow(2)",
    "softmax": "x.softmax(-1)",
    "sub": "x.sub(y)",
    "to": "x.to(torch.float32)",
    "type_as": "x.type_as(y)",
    "unsqueeze": "x.unsqueeze(0)",
    "view": "x.view(2, 6)",
}
PRODUCTS = ("addmm", "bmm", "matmul", "mm")
EXPRESSIONS = {
    name: text
    for name, text in METHODS.items()
    if not (text.startswith("x itself") or ":" in text or " or " in text or name in PRODUCTS)
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_answered(name: str):
    with pytest.raises(MissingMethodError) as caught:
        cr.trace(lambda x: getattr(x, name), x=ARRAYS["x"])
    assert f"write {METHODS[name].splitlines()[0]}" in str(caught.value)


@pytest.mark.peers
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_advice_has_pytorchs_numbers(name: str):
    torch = pytest.importorskip("torch")
    x = ARRAYS["x"][:, 0] if name == "expand" else ARRAYS["x"]
    code = compile(EXPRESSIONS[name], name, "eval")

    def written(x: Any, y: Any, indices: Any, mask: Any) -> Any:
        return eval(code, {"np": np, "cr": cr}, {"x": x, "y": y, "indices": indices, "mask": mask})

    ours = cr.compile(written, executor="reference")(x, *list(ARRAYS.values())[1:])
    tensors = {key: torch.from_numpy(array) for key, array in ARRAYS.items()}
    theirs = eval(CALLS.get(name, f"x.{name}()"), {"torch": torch}, tensors)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, (list, tuple)) else [(ours, theirs)]
    for one, other in pairs:
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-6)


def test_keywords_are_answered():
    with pytest.raises(UnsupportedError, match="NumPy calls it axis="):
        cr.trace(lambda x: np.sum(x, dim=1), x=ARRAYS["x"])  # pyright: ignore
    with pytest.raises(UnsupportedError, match="NumPy calls it axis="):
        cr.trace(lambda x: x.sum(dim=1), x=ARRAYS["x"])
    with pytest.raises(UnsupportedError, match="NumPy calls it keepdims="):
        cr.trace(lambda x: x.mean(1, keepdim=True), x=ARRAYS["x"])


def test_what_nobody_has_is_still_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'fold_up'"):
        cr.trace(lambda x: x.fold_up, x=ARRAYS["x"])
    seen: list[bool] = []
    cr.trace(lambda x: seen.append(hasattr(x, "detach")) or x, x=ARRAYS["x"])
    assert seen == [False]
