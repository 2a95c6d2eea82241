"""Recurrent layers: PyTorch's outputs and gradients, named sizes, lengths, equations, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(3)
FEATURES, HIDDEN = 3, 2
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS: dict[str, Any] = {"rnn": cr.rnn, "gru": cr.gru, "lstm": cr.lstm}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stacked, both ways": {"num_layers": 2, "bidirectional": True},
    "without biases": {"bias": False, "batch_first": True, "num_layers": 2},
}
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("rnn", {"nonlinearity": "relu"}),
    *[(kind, options) for kind in GATES for options in OPTIONS.values()],
    ("lstm", {"proj_size": 1, "num_layers": 2, "bidirectional": True}),
]


def weights_of(kind: str, suffix: str = "l0", features: int = FEATURES) -> dict[str, np.ndarray]:
    rows = GATES[kind] * HIDDEN
    shapes = {"weight_ih": (rows, features), "weight_hh": (rows, HIDDEN)}
    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
    return {f"{name}_{suffix}": RANDOM.normal(size=shape) / 2 for name, shape in shapes.items()}


def flat(found: Any) -> list[Any]:
    """output, h_n and perhaps c_n."""
    output, state = found
    return [output, *(state if isinstance(state, tuple) else (state,))]


def module_of(kind: str, options: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    module = getattr(torch.nn, kind.upper())(FEATURES, HIDDEN, **options).double()
    return module, {name: one.detach().numpy() for name, one in module.state_dict().items()}


@pytest.mark.peers
@pytest.mark.sweep(5)
@pytest.mark.parametrize(("kind", "options"), NETWORKS, ids=[f"{k} {o}" for k, o in NETWORKS])
def test_outputs_states_and_gradients_are_pytorchs(kind: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    module, weights = module_of(kind, options)
    own = {k: v for k, v in options.items() if k in ("batch_first", "nonlinearity")}
    loops = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    widths = (options.get("proj_size", HIDDEN), HIDDEN)[: 2 if kind == "lstm" else 1]
    x = RANDOM.normal(size=(4, 2, FEATURES))
    rows = x.shape[0 if options.get("batch_first") else 1]
    states = tuple(RANDOM.normal(size=(loops, rows, width)) for width in widths)

    def J(x: Any, weights: Any, states: Any) -> Any:
        start = states if kind == "lstm" else states[0]
        found = flat(FUNCTIONS[kind](x, weights, start, **own))
        return np.sum(sum(np.sum(np.sin((k + 1) * one)) for k, one in enumerate(found)))

    leaves = [torch.tensor(one, requires_grad=True) for one in (x, *states)]
    start = tuple(leaves[1:]) if kind == "lstm" else leaves[1]
    found = flat(module(leaves[0], start))
    total: Any = sum(torch.sin((k + 1) * one).sum() for k, one in enumerate(found))
    wanted = torch.autograd.grad(total, [*leaves, *module.parameters()])
    ours = flat(FUNCTIONS[kind](x, weights, states if kind == "lstm" else states[0], **own))
    for one, other in zip(ours, found, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-12, atol=1e-13)
    for executor in ("reference", "native"):
        value, parts = cr.value_and_grad(J, wrt=(0, 1, 2), executor=executor)(x, weights, states)
        assert value == pytest.approx(total.item(), rel=1e-12)
        names = [name for name, _ in module.named_parameters()]
        gradients = [parts[0], *parts[2], *[parts[1][name] for name in names]]
        for one, other in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.peers
@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_other_lengths_are_pytorchs_packed_ones(kind: str) -> None:
    torch = pytest.importorskip("torch")
    utils = torch.nn.utils.rnn
    module, weights = module_of(kind, {"bidirectional": True, "num_layers": 2})
    x, lengths = RANDOM.normal(size=(5, 3, FEATURES)), np.array([5, 2, 4])
    packed = utils.pack_padded_sequence(torch.tensor(x), torch.tensor(lengths), False, False)
    output, state = module(packed)
    expected = flat((utils.pad_packed_sequence(output)[0], state))
    padded = np.where((np.arange(5)[:, None] < lengths)[:, :, None], x, np.nan)
    for one, other in zip(
        flat(FUNCTIONS[kind](padded, weights, lengths=lengths)), expected, strict=True
    ):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-12, atol=1e-13)

    def J(weights: Any) -> Any:
        return np.sum(FUNCTIONS[kind](padded, weights, lengths=lengths)[0] ** 2)

    gradient = cr.grad(J)(weights)  # NaN behind the ends does not reach it
    torch.sum(expected[0] ** 2).backward()
    for name, one in module.named_parameters():
        np.testing.assert_allclose(gradient[name], one.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", GATES)
def test_both_orders_agree_with_finite_differences(kind: str) -> None:
    x = RANDOM.normal(size=(2, 1, FEATURES))
    names, arrays = zip(*weights_of(kind).items(), strict=True)

    def J(x: Any, *arrays: Any) -> Any:
        output, _ = FUNCTIONS[kind](x, dict(zip(names, arrays, strict=True)))
        return np.sum(output**3)

    check_gradients(J, x, *arrays, order=2)


@EITHER
def test_length_and_batch_may_be_named(executor: str) -> None:
    weights = weights_of("lstm") | weights_of("lstm", "l1", HIDDEN)

    def network(x: float64["t n 3"], weights: Any):
        y, (h, c) = cr.lstm(x, weights)
        J = np.sum(y**2) + np.sum(h * c)
        return J

    graph = cr.backward(cr.trace(network, weights=weights), wrt="x")
    assert [str(size) for size in graph["y"].type.shape] == ["t", "n", "2"]
    for shape in ((4, 2, 3), (1, 1, 3)):
        x = RANDOM.normal(size=shape)
        run = graph.run(x=x, weights=weights, executor=executor)
        y, (h, c) = cr.lstm(x, weights)
        for name, one in {"y": y, "h": h, "c": c}.items():
            np.testing.assert_allclose(run[name], one, rtol=1e-12, atol=1e-14)


def test_a_sequence_without_a_batch_and_dropout_between_layers() -> None:
    weights = weights_of("gru") | weights_of("gru", "l1", HIDDEN)
    x = RANDOM.normal(size=(4, FEATURES))
    output, h = cr.gru(x, weights)
    many, h_many = cr.gru(x[:, None], weights)
    np.testing.assert_array_equal(output, many[:, 0])
    np.testing.assert_array_equal(h, h_many[:, 0])
    start = RANDOM.normal(size=(2, HIDDEN))
    np.testing.assert_array_equal(
        cr.gru(x, weights, start)[0], cr.gru(x[:, None], weights, start[:, None])[0][:, 0]
    )
    seen = []

    def nothing(h: Any) -> Any:
        seen.append(np.shape(h))
        return 0 * h

    cut, _ = cr.gru(x, weights, dropout=nothing)
    alone = {name.replace("l1", "l0"): one for name, one in weights.items() if "l1" in name}
    np.testing.assert_allclose(cut, cr.gru(np.zeros((4, HIDDEN)), alone)[0])
    assert seen == [(4, 1, HIDDEN)]


def test_one_graph_serves_every_length_and_its_equations_are_the_textbooks() -> None:
    def network(x: float64["t n 3"], W: Any):
        y, (h, c) = cr.lstm(x, W)
        J = np.sum(y * y) + np.sum(h * c)
        return J

    text = str(cr.trace(network, W=weights_of("lstm")).equations())
    for line in (
        "i_s = σ(a_s[:, :2])",
        "g_s = tanh(a_s[:, 4:6])",
        "c⁽²⁾_s = f_s ⊙ c⁽²⁾_{s−1} + i_s ⊙ g_s",
        "h⁽²⁾_s = o_s ⊙ tanh(c⁽²⁾_s)",
    ):
        assert line in text


def test_float32_stays_float32() -> None:
    weights = {name: one.astype(np.float32) for name, one in weights_of("lstm").items()}
    x = np.ones((3, 2, FEATURES), np.float32)
    for one in flat(cr.lstm(x, weights)):
        assert one.dtype == np.float32


x = np.zeros((4, 2, FEATURES))
LSTM = weights_of("lstm")
REFUSALS = {
    "weights are list, not a mapping": (
        lambda x: cr.lstm(x, [*LSTM.values()]),  # type: ignore[arg-type]
        "give a dict with weight_ih_l0",
    ),
    "there is no weight 'lstm.weight_ih_l0'": (
        lambda x: cr.lstm(x, {f"lstm.{name}": one for name, one in LSTM.items()}),
        "take away what is before them",
    ),
    "weight_hh_l0 is missing": (
        lambda x: cr.lstm(x, {"weight_ih_l0": LSTM["weight_ih_l0"]}),
        "bias_ih with bias_hh or neither",
    ),
    "weight_ih_l1 is missing": (
        lambda x: cr.lstm(x, LSTM | {"weight_hh_l1": LSTM["weight_hh_l0"]}),
        "each direction of each layer",
    ),
    "weight_hh_l0 is float64[8, 2], where": (lambda x: cr.gru(x, LSTM), "with 3 gates"),
    "reads 3 features, and there are 2": (lambda x: cr.lstm(x[..., :2], LSTM), "the last axis"),
    "has 4 axes": (lambda x: cr.lstm(x[None], LSTM), "(length, n, features), or without n"),
    "the state is not (h, c)": (lambda x: cr.lstm(x, LSTM, np.zeros((1, 2, 2))), "two arrays"),
    "the state h float64[2, 2, 2] for 1 loops and 2 sequences": (
        lambda x: cr.lstm(x, LSTM, (np.zeros((2, 2, 2)),) * 2),
        "one for each direction of each layer",
    ),
    "lengths int64[3] for 2 sequences": (
        lambda x: cr.lstm(x, LSTM, lengths=np.array([1, 2, 3])),
        "one integer for each sequence",
    ),
    "batch_first='yes' is neither True nor False": (
        lambda x: cr.lstm(x, LSTM, batch_first="yes"),  # type: ignore[arg-type]
        "batch_first=True",
    ),
    "nonlinearity='sigmoid' is not known": (
        lambda x: cr.rnn(x, weights_of("rnn"), nonlinearity="sigmoid"),
        '"tanh" or "relu"',
    ),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str, is_traced: bool) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, x) if is_traced else call(x)
    assert text in str(caught.value) and hint in str(caught.value)
