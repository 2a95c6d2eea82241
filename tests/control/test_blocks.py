"""Products too large to store are computed in blocks of rows, with the same values."""

from __future__ import annotations

import numpy as np
import pytest
from measured_memory import error_of_runs

import chainrule as cr
from chainrule.control import blocks
from chainrule.errors import InputError
from chainrule.plan.products import far_larger

HEADS, WIDTH = 3, 4


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 rows from 64 scores of a head on."""
    monkeypatch.setattr(far_larger, "LEAST_NBYTES", 4096)
    monkeypatch.setattr(blocks, "BLOCK_NBYTES", 1)


def plain(q, k, v, mask):
    return cr.softmax(q @ k.swapaxes(-1, -2) / 2) @ v


def masked(q, k, v, mask):
    return cr.softmax(np.where(mask, q @ k.swapaxes(-1, -2) / 2, -np.inf)) @ v


def added(q, k, v, mask):
    return cr.softmax(q @ k.swapaxes(-1, -2) + np.where(mask, 0, -1e9).astype(q.dtype)) @ v


def by_hand(q, k, v, mask):
    s = np.einsum("hqd,hkd->hqk", q, k)
    e = np.exp(s - s.max(axis=-1, keepdims=True)) * mask
    return np.einsum("hqk,hkd->hqd", e, v) / e.sum(axis=-1, keepdims=True)


def causal(q, k, v, mask):
    rows, columns = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
    return cr.softmax(np.where(rows >= columns, q @ k.swapaxes(-1, -2), -np.inf)) @ v


def dropped(q, k, v, mask):
    p = cr.softmax(q @ k.swapaxes(-1, -2))
    return cr.dropout(p, 0.3, key=cr.random.key(7)) @ v


def arrays(queries: int, keys: int, dtype: str = "float64", heads: int = HEADS) -> dict:
    random = np.random.default_rng(queries + keys)
    lengths = {"q": queries, "k": keys, "v": keys, "g": queries}
    shapes = {name: (heads, length, WIDTH) for name, length in lengths.items()}
    found = {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    return {**found, "mask": random.random((queries, keys)) < 0.7}


def training(attention, given: dict):
    def objective(q, k, v, g, mask):
        o = attention(q, k, v, mask)
        J = np.sum(o * o * g)
        return J

    return cr.backward(cr.trace(objective, **given), wrt=("q", "k", "v"))


def results(graph):
    return [node for _, node in graph.outputs]


def names(graph) -> list[str]:
    return [node.primitive.name for node in graph.nodes]


@pytest.mark.parametrize("attention", [plain, masked, added, by_hand, causal, dropped])
@pytest.mark.parametrize(("queries", "keys", "heads"), [(96, 96, 3), (83, 71, 5), (101, 64, 1)])
def test_blocks_have_the_values_of_the_square(small, monkeypatch, attention, queries, keys, heads):
    if attention is causal and queries > keys:
        pytest.skip("more queries than keys")
    given = arrays(queries, keys, heads=heads)
    step = training(attention, given)
    made = blocks.blocked(step, results(step))
    assert "scan" in names(made)
    assert not any(
        node.type.size >= heads * queries * keys and node.inputs
        for node in made.nodes
        if node.dtype == np.float64
    )
    monkeypatch.setattr(far_larger, "LEAST_NBYTES", 1 << 40)
    found = made.run(executor="reference", keep="outputs", **given)
    wanted = step.run(executor="reference", keep="outputs", **given)
    for name, _ in step.outputs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_gradients_are_those_of_pytorch(small, executor):
    torch = pytest.importorskip("torch")
    given = arrays(83, 71, "float32")
    step = training(masked, given)
    found = step.compile(executor=executor)(**given)
    t = {name: torch.tensor(given[name].astype("float64")) for name in "qkvg"}
    for name in "qkv":
        t[name].requires_grad_()
    o = torch.nn.functional.scaled_dot_product_attention(
        t["q"], t["k"], t["v"], attn_mask=torch.tensor(given["mask"]), scale=0.5
    )
    (o * o * t["g"]).sum().backward()
    for one, name in zip(found[1:], "qkv", strict=True):
        np.testing.assert_allclose(one, t[name].grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_nan_and_infinity_pass_as_without_blocks(small, executor, monkeypatch):
    given = arrays(96, 96, "float32")
    given["mask"][5] = False  # a whole row
    given["q"][0, 3, 1], given["k"][1, 90, 2], given["v"][2, 7, 0] = np.nan, np.inf, -np.inf
    found = training(masked, given).compile(executor=executor)(**given)
    monkeypatch.setattr(far_larger, "LEAST_NBYTES", 1 << 40)
    wanted = training(masked, given).compile(executor="reference")(**given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)  # NaN where NaN is


def test_second_derivatives(small, monkeypatch):
    given = arrays(64, 64)

    def directional(q, k, v, g, mask):
        def objective(q):
            return np.sum(plain(q, k, v, mask) ** 2 * g)

        return np.sum(cr.grad(objective)(q) * g)

    step = cr.backward(cr.trace(directional, **given), wrt=("q", "k", "v"))
    made = blocks.blocked(step, results(step))
    assert "scan" in names(made)
    found = step.compile(executor="reference")(**given)
    monkeypatch.setattr(far_larger, "LEAST_NBYTES", 1 << 40)
    wanted = step.compile(executor="reference")(**given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_the_nearest_row_is_found_in_blocks(small, monkeypatch):
    random = np.random.default_rng(0)
    x, y = random.standard_normal((96, 3)), random.standard_normal((80, 3))

    def nearest(x, y):
        d = np.sum(y * y, axis=-1) - 2 * (x @ y.T)
        return np.argmin(d, axis=-1), np.argmax(d, axis=-1)

    graph = cr.trace(nearest, x=x, y=y)
    made = blocks.blocked(graph, [node for _, node in graph.outputs])
    assert "scan" in names(made)
    d = np.sum((x[:, None] - y) ** 2, axis=-1) - np.sum(x * x, axis=-1, keepdims=True)
    wanted = np.argmin(d, axis=-1), np.argmax(d, axis=-1)
    np.testing.assert_array_equal(made.run(x=x, y=y, executor="reference").outputs, wanted)


def test_small_products_and_kept_ones_stay_as_they_are(monkeypatch):
    given = arrays(96, 96)
    step = training(masked, given)
    assert blocks.blocked(step, results(step)) is step
    monkeypatch.setattr(far_larger, "LEAST_NBYTES", 4096)
    scores = next(node for node in step.nodes if node.primitive.name == "matmul")
    assert blocks.blocked(step, [*results(step), scores]) is step


def test_attention_trains_in_little_more_than_its_arrays():
    length = 4096
    shapes = {name: np.broadcast_to(np.float32(0), (4, length, 64)) for name in "qkvt"}

    def objective(q, k, v, t):
        o = cr.softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v
        J = np.sum((o - t) ** 2) / 2
        return J

    step = cr.training_step(
        cr.trace(objective, **shapes), wrt=("q", "k", "v"), optimizer=cr.sgd(1e-3)
    )
    report = step.memory(executor="native")
    arrays_nbytes = 9 * 4 * length * 64 * 4  # q k v, t, o, and the gradients of q k v and o
    assert report.main.peak_nbytes <= 1.2 * arrays_nbytes
    assert report.prediction.peak_nbytes < arrays_nbytes
    assert "in 64 blocks of 64 rows for each of 4, never whole in memory" in str(report)


def test_the_plan_says_what_is_in_blocks(small):
    def objective(q, k, v, g, mask):
        s = q @ k.swapaxes(-1, -2)
        p = cr.softmax(s)
        return np.sum((p @ v) ** 2 * g)

    given = arrays(96, 96, "float32")
    step = cr.backward(cr.trace(objective, **given), wrt=("q", "k", "v"))
    text = " ".join(str(step.compile(executor="native").plan()).split())
    assert "s, p in 6 blocks of 16 rows for each of 3, never whole in memory" in text
    assert "never whole in memory; computed again" in text


def test_no_formulas_of_bytes_in_blocks(small):
    def objective(q):
        return np.sum(cr.softmax(q @ q.T) @ q)

    graph = cr.backward(cr.trace(objective, q=cr.float32["n 4"]), wrt="q")
    report = graph.memory(n=96, executor="reference")
    with pytest.raises(InputError, match="no formulas of sizes"):
        _ = report.formulas


def test_layers_of_a_network_stay_as_they_are(small):
    random = np.random.default_rng(0)
    shapes = {"x": (512, 32), "W1": (32, 16), "W2": (16, 2)}
    given = {name: random.standard_normal(shape) for name, shape in shapes.items()}

    def objective(x, W1, W2):
        return np.sum((np.maximum(x @ W1, 0) @ W2) ** 2)

    step = cr.backward(cr.trace(objective, **given), wrt=("W1", "W2"))
    assert any(
        map(far_larger.is_far_larger, step.nodes)
    )  # dJ/dh is far larger than both its factors
    assert blocks.blocked(step, results(step)) is step


@pytest.mark.sweep(3)
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("attention", [dropped, masked], ids=lambda one: one.__name__)
def test_runs_take_the_bytes_that_are_stated(attention, executor, small):
    given = arrays(70, 90)

    def objective(q, k, v, g, mask):
        return np.sum(attention(q, k, v, mask) * g)

    graph = cr.backward(cr.trace(objective, **given), wrt=("q", "k", "v"))
    errors = error_of_runs(graph, {}, given, "outputs", executor)
    assert set(errors) == {0}
