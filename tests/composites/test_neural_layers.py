"""Batch normalisation's statistics, attention's masks, one-hot vectors, and the further losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError
from chainrule.graph.words import composite_of
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(37)


# Batch normalisation --------------------------------------------------------------------------


def normalised(
    x: float64["n 3 4"], m: float64["3"], v: float64["3"], w: float64["3"], b: float64["3"]
) -> Any:
    y, moved_mean, moved_var = cr.batch_norm(x, m, v, w, b, training=True, momentum=0.2)
    J = np.sum(np.sin(y))
    return J, moved_mean, moved_var


def statistics(rows: int = 5) -> dict[str, np.ndarray]:
    shapes = {"x": (rows, 3, 4), "m": (3,), "v": (3,), "w": (3,), "b": (3,)}
    return {name: RANDOM.uniform(0.5, 2, size=shape) for name, shape in shapes.items()}


@pytest.mark.peers
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_running_statistics_and_gradients_are_pytorchs(executor: str) -> None:
    torch = pytest.importorskip("torch")
    step = cr.backward(cr.trace(normalised), of="J", wrt=("x", "w", "b"))
    for rows in (1, 5):
        given = statistics(rows)
        run = step.run(**given, executor=executor)
        theirs = {name: torch.tensor(array) for name, array in given.items()}
        leaves = [theirs[name].requires_grad_() for name in ("x", "w", "b")]
        x, m, v, w, b = theirs.values()
        y = torch.nn.functional.batch_norm(x, m, v, w, b, training=True, momentum=0.2)
        np.testing.assert_allclose(run["y"], y.detach(), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(run["moved_mean"], m, rtol=1e-14)
        np.testing.assert_allclose(run["moved_var"], v, rtol=1e-13)
        for name, one in zip("xwb", torch.autograd.grad(y.sin().sum(), leaves), strict=True):
            np.testing.assert_allclose(run[f"dJ/d{name}"], one, rtol=1e-10, atol=1e-13)


def test_both_orders_of_batch_norm_agree_with_finite_differences() -> None:
    given = statistics(3)
    check_gradients(
        lambda x, w, b: np.sum(np.sin(cr.batch_norm(x, None, None, w, b, training=True)[0])),
        given["x"],
        given["w"],
        given["b"],
        order=2,
    )


def test_batch_norm_names_its_results_and_shows_its_symbol() -> None:
    graph = cr.trace(normalised)
    assert {"y", "moved_mean", "moved_var", "J"} <= set(graph.names)
    assert composite_of(graph["y"]).symbol == "BN"
    text = str(cr.backward(graph, of="J", wrt="w").equations())
    assert "y = BN" in text


def test_prediction_uses_the_running_statistics_and_leaves_them() -> None:
    given = statistics()
    x, m, v, w, b = given.values()
    y, same_mean, same_var = cr.batch_norm(x, m, v, w, b)
    assert same_mean is m and same_var is v
    expected = (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5) * w[:, None] + b[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    graph = cr.trace(lambda x, m, v: cr.batch_norm(x, m, v), x, m, v)
    np.testing.assert_allclose(graph.run(x=x, m=m, v=v).outputs[0], (y - b[:, None]) / w[:, None])


def test_no_derivative_flows_through_the_running_statistics() -> None:
    x, m, v, _, _ = statistics().values()
    gradient = cr.grad(
        lambda x: np.sum(
            cr.batch_norm(x, m, v, training=True)[1] + cr.batch_norm(x, m, v, training=True)[2]
        )
    )(x)
    np.testing.assert_array_equal(gradient, np.zeros_like(x))


def test_channels_that_are_all_equal_have_no_nan() -> None:
    x = np.ones((3, 2, 2))
    for layer in (
        lambda x: cr.batch_norm(x, None, None, training=True)[0],
        lambda x: cr.group_norm(x, 1),
        lambda x: cr.instance_norm(x),
        lambda x: cr.rms_norm(0 * x),
    ):
        value, gradient = cr.value_and_grad(lambda x, f=layer: np.sum(f(x) ** 2))(x)
        assert value == 0
        np.testing.assert_array_equal(gradient, np.zeros_like(x))


# Attention ------------------------------------------------------------------------------------

MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])


@pytest.mark.parametrize("mask", [MASK, np.where(MASK, 0.0, -np.inf)], ids=["bool", "float"])
def test_a_query_that_sees_no_key_gets_zeros_and_no_nan(mask: np.ndarray) -> None:
    q, k, v = RANDOM.normal(size=(3, 3, 2))

    def J(q: Any, k: Any, v: Any, mask: Any) -> Any:
        out = cr.scaled_dot_product_attention(q, k, v, mask)
        J = np.sum(np.sin(out))
        return J

    np.testing.assert_array_equal(cr.scaled_dot_product_attention(q, k, v, mask)[1], [0, 0])
    graph = cr.backward(cr.trace(J, q, k, v, mask), wrt=("q", "k", "v"))
    for executor in ("reference", "native"):
        run = graph.run(q=q, k=k, v=v, mask=mask, executor=executor)
        assert all(np.isfinite(run[f"dJ/d{name}"]).all() for name in "qkv")
        np.testing.assert_array_equal(run["dJ/dq"][1], [0, 0])
    product = cr.hvp(lambda q: J(q, k, v, mask), q, np.ones_like(q))
    assert np.isfinite(product).all()


def test_causal_attention_of_named_lengths_is_that_of_a_mask() -> None:
    def attend(q: float64["n l 4"], k: float64["n s 4"], v: float64["n s 3"]) -> Any:
        out = cr.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out

    graph = cr.trace(attend)
    for rows, keys in ((3, 3), (2, 5), (4, 1)):
        q, k, v = (RANDOM.normal(size=(2, *one)) for one in ((rows, 4), (keys, 4), (keys, 3)))
        expected = cr.scaled_dot_product_attention(q, k, v, np.tri(rows, keys, dtype=bool))
        for executor in ("reference", "native"):
            got = graph.run(q=q, k=k, v=v, executor=executor)["out"]
            np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_a_named_width_scales_by_its_root() -> None:
    def attend(q: float64["l d"], k: float64["l d"]) -> Any:
        out = cr.scaled_dot_product_attention(q, k, k)
        return out

    q, k = RANDOM.normal(size=(2, 3, 5))
    got = cr.trace(attend).run(q=q, k=k)["out"]
    np.testing.assert_allclose(got, cr.scaled_dot_product_attention(q, k, k), rtol=1e-14)


def test_huge_scores_are_finite_with_their_gradients() -> None:
    q, k = np.array([[1e4], [-1e4]]), np.array([[1e4], [0.0], [-1e4]])
    gradients = cr.grad(
        lambda q, k, v: np.sum(cr.scaled_dot_product_attention(q, k, v) ** 2), wrt=(0, 1, 2)
    )(q, k, np.ones((3, 1)))
    assert all(np.isfinite(one).all() for one in gradients)


def test_dropout_of_the_weights_is_a_function_of_them() -> None:
    q = RANDOM.normal(size=(4, 4))
    key = cr.random.key(0)
    out = cr.scaled_dot_product_attention(
        q, q, np.eye(4), dropout=lambda w: cr.dropout(w, 0.5, key=key)
    )
    weights = cr.scaled_dot_product_attention(q, q, np.eye(4))
    np.testing.assert_allclose(out, cr.dropout(weights, 0.5, key=key), rtol=1e-15)
    assert 0 < np.sum(out == 0) < 16


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_attention_keeps_the_dtype_and_takes_no_features(dtype: str, width: int) -> None:
    q, v = RANDOM.normal(size=(2, width)).astype(dtype), np.arange(6, dtype=dtype).reshape(2, 3)
    expected = cr.scaled_dot_product_attention(q, q, v)
    got = cr.trace(cr.scaled_dot_product_attention, q, q, v).run(query=q, key=q, value=v).outputs
    assert got.dtype == expected.dtype == dtype
    np.testing.assert_allclose(got, expected, rtol=1e-2)
    if not width:
        np.testing.assert_allclose(got, np.full((2, 3), v.mean(0)))


def test_attention_without_any_key_is_zero() -> None:
    q, k, v = np.ones((2, 4)), np.ones((0, 4)), np.ones((0, 3))
    value, pull = cr.vjp(lambda q, k, v: cr.scaled_dot_product_attention(q, k, v), q, k, v)
    np.testing.assert_array_equal(value, np.zeros((2, 3)))
    assert [one.shape for one in pull(np.ones((2, 3)))] == [q.shape, k.shape, v.shape]


# One-hot --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_one_hot_has_one_at_each_label(shape: tuple[int, ...], dtype: str) -> None:
    labels = RANDOM.integers(0, 4, shape)
    expected = np.eye(4, dtype=dtype)[labels]
    got = cr.one_hot(labels, 4, dtype)
    graph = cr.trace(lambda y: cr.one_hot(y, 4, dtype), labels)
    runs = [graph.run(y=labels, executor=one).outputs for one in ("reference", "native")]
    for one in (got, *runs):
        assert one.dtype == dtype
        np.testing.assert_array_equal(one, expected)


def test_one_hot_of_named_sizes() -> None:
    def encode(y: int64["n"], W: float64["c 3"]) -> Any:
        h = cr.one_hot(y, W.shape[0], np.float64) @ W
        return h

    W = RANDOM.normal(size=(5, 3))
    np.testing.assert_array_equal(cr.trace(encode).run(y=[4, 0], W=W)["h"], W[[4, 0]])


# Losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e4, 1e300])
@pytest.mark.parametrize("targets", [[0.0, 0, 0], [1.0, 1, 1], [0.5, 0.25, 1]])
def test_huge_logits_give_finite_losses_and_gradients(size: float, targets: list) -> None:
    x, t = np.array([size, -size, 0]), np.array(targets)
    value, gradient = cr.value_and_grad(
        lambda x: cr.binary_cross_entropy_with_logits(x, t, reduction="sum")
    )(x)
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient, [1, 0, 0.5] - t, rtol=1e-15)
    product = cr.hvp(lambda x: cr.binary_cross_entropy_with_logits(x, t), x, np.ones(3))
    np.testing.assert_allclose(product, [0, 0, 0.25 / 3], rtol=1e-14)


def test_the_tails_of_a_binary_cross_entropy_are_exact() -> None:
    x, t = np.array([-40.0, 40.0]), np.array([0.0, 1.0])
    losses = cr.binary_cross_entropy_with_logits(x, t, reduction="none")
    np.testing.assert_allclose(losses, np.exp([-40.0, -40.0]), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_certain_probabilities_are_clamped_and_have_no_nan(dtype: str) -> None:
    p = np.array([0, 1, 0, 1, 0.5], dtype)
    t = np.array([0, 1, 1, 0, 1], dtype)
    losses = cr.binary_cross_entropy(p, t, reduction="none")
    np.testing.assert_allclose(
        losses, [0, 0, 100, 100, np.log(2)], rtol=1e-3 if dtype == "float16" else 1e-6
    )
    gradient = cr.grad(lambda p: cr.binary_cross_entropy(p, t, reduction="sum"))(p)
    np.testing.assert_allclose(gradient, [1, -1, 0, 0, -2])
    with np.errstate(invalid="ignore"):
        assert np.isnan(cr.binary_cross_entropy(np.array([-0.1, 1.1]), np.ones(2), None, "none")[0])


def test_huber_is_a_parabola_up_to_delta_and_straight_beyond() -> None:
    d = np.array([-np.inf, -1e300, -2, -0.5, 0, 0.5, 2, 1e300, np.inf])
    value, gradient = cr.value_and_grad(lambda d: cr.huber(d, 0.0, 0.5, "sum"))(d)
    assert value == np.inf
    np.testing.assert_array_equal(gradient, 0.5 * np.sign(d))
    slope = cr.hvp(lambda d: cr.huber(d, 0.0, 0.5, "sum"), d, np.ones(9))
    np.testing.assert_array_equal(slope, [0, 0, 0, 1, 1, 1, 0, 0, 0])


def test_the_kl_divergence_of_impossible_events_is_zero() -> None:
    target = np.array([[0.0, 1.0], [0.5, 0.5]])
    log_p = np.array([[-np.inf, 0.0], [np.log(0.5)] * 2])
    value, gradient = cr.value_and_grad(lambda x: cr.kl_divergence(x, target, "batchmean"))(log_p)
    assert value == pytest.approx(0, abs=1e-16)
    np.testing.assert_array_equal(gradient, -target / 2)


def test_ignored_rows_may_have_any_label_and_no_weight_in_the_mean() -> None:
    def loss(o: float64["n 3"], y: int64["n"]) -> Any:
        L = cr.cross_entropy(o, y, ignore_index=-100, label_smoothing=0.1)
        return L

    o = RANDOM.normal(size=(4, 3))
    step = cr.backward(cr.trace(loss), wrt="o")
    for executor in ("reference", "native"):
        run = step.run(o=o, y=np.array([1, -100, 2, -100]), executor=executor)
        expected = cr.cross_entropy(o[::2], np.array([1, 2]), label_smoothing=0.1)
        np.testing.assert_allclose(run["L"], expected, rtol=1e-14)
        np.testing.assert_array_equal(run["dL/do"][1::2], np.zeros((2, 3)))
        with pytest.raises(IndexOutOfRangeError, match="index -1 "):
            step.run(o=o, y=np.array([1, -100, 2, -1]), executor=executor)


def test_labels_and_weights_may_be_lists() -> None:
    o = RANDOM.normal(size=(3, 2))
    options = {"ignore_index": -100}
    expected = cr.cross_entropy(o, np.array([0, 1, -100]), weight=np.array([1.0, 2.0]), **options)
    found = cr.cross_entropy(o, [0, 1, -100], weight=[1.0, 2.0], **options)
    assert found == expected
    traced = cr.trace(lambda o: cr.cross_entropy(o, [0, 1, -100], weight=[1.0, 2.0], **options), o)
    np.testing.assert_allclose(traced.run(o=o).outputs, expected, rtol=1e-14)


# Refusals -------------------------------------------------------------------------------------

x = np.zeros((2, 3))
REFUSALS = [
    (
        lambda x: cr.batch_norm(x, np.zeros(2), np.ones(3)),
        ShapeError,
        ["batch_norm: running_mean float64[2] does not fit the 3 channels", "one axis of 3"],
    ),
    (
        lambda x: cr.batch_norm(x[:1], None, None, training=True),
        ShapeError,
        ["has 1 values for each channel, which have no variance", "training=False"],
    ),
    (
        lambda x: cr.batch_norm(x[0], None, None, training=True),
        ShapeError,
        ["has no axis of channels", "(n, channels, ...)"],
    ),
    (
        lambda x: cr.group_norm(x, 2),
        ShapeError,
        ["the 3 channels of", "do not make 2 groups"],
    ),
    (
        lambda x: cr.scaled_dot_product_attention(x, np.zeros((2, 4)), x),
        ShapeError,
        ["the query", "the key float64[2, 4]", "differ in their last axis"],
    ),
    (
        lambda x: cr.scaled_dot_product_attention(x, x, np.zeros((4, 3))),
        ShapeError,
        ["the value float64[4, 3]", "differ in their length"],
    ),
    (
        lambda x: cr.scaled_dot_product_attention(x[0], x, x),
        ShapeError,
        ["the query", "has 1 axes", "(..., length, width)"],
    ),
    (
        lambda x: cr.one_hot(x, 3),
        DTypeError,
        ["one_hot needs integer labels (class numbers), got float64", ".astype(np.int64)"],
    ),
    (
        lambda x: cr.one_hot((x > 0).astype(np.int64), 2.5),
        InputError,
        ["num_classes=2.5 is not an integer"],
    ),
    (
        lambda x: cr.binary_cross_entropy_with_logits(x, np.zeros(3)),
        ShapeError,
        ["binary_cross_entropy_with_logits", "the targets float64[3] have different shapes"],
    ),
    (
        lambda x: cr.cross_entropy(x, np.array([0, 1]), weight=np.ones(2)),
        ShapeError,
        ["the weight has shape [2], and there are 3 classes"],
    ),
    (
        lambda x: cr.cross_entropy(x, np.array([0, 1]), label_smoothing=10.0),
        InputError,
        ["label_smoothing=10.0 is not from 0 to 1"],
    ),
    (lambda x: cr.huber(x, x, -1.0), InputError, ["delta=-1.0 is not above 0"]),
    (lambda x: cr.huber(x, x, reduction="all"), InputError, ["reduction='all'"]),
]


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize(("call", "error", "texts"), REFUSALS, ids=[r[2][0] for r in REFUSALS])
def test_a_refusal_says_what_and_what_to_try(
    call: Any, error: type, texts: list[str], is_traced: bool
) -> None:
    with pytest.raises(error) as caught:
        cr.trace(call, x) if is_traced else call(x)
    for text in texts:
        assert text in str(caught.value)
    assert ("test_neural_layers.py" in str(caught.value)) == is_traced


def test_a_label_outside_is_an_index_error() -> None:
    y = np.array([0, 3])
    with pytest.raises(IndexOutOfRangeError, match="labels from 0 to 3 for 3 classes"):
        cr.one_hot(y, 3)
    graph = cr.trace(lambda y: cr.one_hot(y, 3), y)
    for executor in ("reference", "native"):
        with pytest.raises(IndexOutOfRangeError, match=r"index 3 .* axis of length 3"):
            graph.run(y=y, executor=executor)
