"""Initial weights have the distributions that their formulas say, and PyTorch's for its layers."""

import math

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.init.fans import fans

KEY = cr.random.key(7)
SHAPE = (120, 80)  # 9,600 numbers: the spread is known to 1.5 % (two standard errors)
CLOSE = 0.04


def moments(x):
    x = np.asarray(x, np.float64)
    return x.mean() / x.std(), x.std(), np.abs(x).max()


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((784, 256), (784, 256)),
        ((16, 3, 5, 5), (75, 400)),
        ((16, 3, 5), (15, 80)),
        ((0, 4), (0, 4)),
    ],
)
def test_fans_are_those_of_our_layouts(shape, wanted):
    assert fans(shape, "he_normal") == wanted


@pytest.mark.parametrize(
    ("draw", "std", "largest"),
    [
        (lambda k: cr.init.xavier_uniform(k, SHAPE), math.sqrt(2 / 200), math.sqrt(6 / 200)),
        (lambda k: cr.init.xavier_uniform(k, SHAPE, 3.0), 0.3, 0.3 * math.sqrt(3)),
        (lambda k: cr.init.xavier_normal(k, SHAPE), 0.1, math.inf),
        (lambda k: cr.init.he_uniform(k, SHAPE), math.sqrt(2 / 120), math.sqrt(6 / 120)),
        (lambda k: cr.init.he_normal(k, SHAPE), math.sqrt(2 / 120), math.inf),
        (lambda k: cr.init.he_normal(k, SHAPE, mode="fan_out"), math.sqrt(2 / 80), math.inf),
        (lambda k: cr.init.he_normal(k, (40, 6, 5, 8), 1.0), 1 / math.sqrt(240), math.inf),
        (lambda k: cr.init.truncated_normal(k, SHAPE, 0.5), 0.5 * math.sqrt(0.7737), 1.0),
        (lambda k: cr.init.linear(k, *SHAPE)[0], 1 / math.sqrt(3 * 120), 1 / math.sqrt(120)),
        (lambda k: cr.init.conv(k, (40, 6, 5, 8))[0], 1 / math.sqrt(720), 1 / math.sqrt(240)),
        (lambda k: cr.init.embedding(k, *SHAPE), 1.0, math.inf),
    ],
)
def test_spread_and_bounds_are_those_of_the_formula(draw, std, largest):
    x = draw(KEY)
    mean, found, most = moments(x)
    assert x.dtype == np.float32
    assert abs(mean) < 3 / math.sqrt(x.size)
    assert abs(found / std - 1) < CLOSE
    assert most <= largest * (1 + 1e-6) and (math.isinf(largest) or most > 0.99 * largest)
    assert draw(KEY).tobytes() == x.tobytes()  # of the same key
    assert abs(np.corrcoef(x.ravel(), draw(cr.random.key(8)).ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("shape", [(30, 30), (40, 12), (12, 40), (8, 3, 2, 2)])
def test_orthogonal_weights_are(shape):
    x = cr.init.orthogonal(KEY, shape, 2.0, np.float64)
    assert x.shape == shape
    matrix = x.reshape(shape[0], -1) / 2
    small = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)


def test_orthogonal_matrices_are_uniformly_distributed():
    """Of uniform rotations and reflections, half have the determinant -1, and the trace has the
    variance 1 (Diaconis and Shahshahani, 1994); a QR factorisation alone has fixed signs."""
    keys = cr.random.split(KEY, 300)
    found = [cr.init.orthogonal(key, (4, 4), dtype=np.float64) for key in keys]
    assert 0.4 < np.mean([np.linalg.det(one) > 0 for one in found]) < 0.6
    traces = [np.trace(one) for one in found]
    assert abs(np.mean(traces)) < 0.2 and 0.75 < np.var(traces) < 1.3


def test_layers_take_them():
    W, b = cr.init.linear(KEY, 3, 5)
    weight, bias = cr.init.conv(KEY, (4, 2, 3, 3))
    assert cr.linear(np.ones((2, 3), np.float32), W, b).shape == (2, 5)
    assert cr.conv2d(np.ones((1, 2, 5, 5), np.float32), weight, bias).shape == (1, 4, 3, 3)
    assert moments(b)[2] <= 1 / math.sqrt(3) and moments(bias)[2] <= 1 / math.sqrt(18)


def test_a_traced_key_makes_nodes_with_the_same_numbers():
    def f(key):
        W = cr.init.he_normal(key, (4, 3))
        Q = cr.init.orthogonal(key, (3, 3))
        V, b = cr.init.linear(key, 3, 2)
        return W, Q, V, b

    run = cr.trace(f, KEY).run(key=KEY)
    np.testing.assert_array_equal(run["W"], cr.init.he_normal(KEY, (4, 3)))
    np.testing.assert_array_equal(run["b"], cr.init.linear(KEY, 3, 2)[1])
    np.testing.assert_allclose(run["Q"], cr.init.orthogonal(KEY, (3, 3)), 1e-6)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: cr.init.he_normal(KEY, 5),
            ShapeError,
            r"init.he_normal: \[5\] has 1 axes.*\n.*bias",
        ),
        (lambda: cr.init.orthogonal(KEY, (5,)), ShapeError, "a matrix has two"),
        (lambda: cr.init.conv(KEY, (5, 4)), ShapeError, "no shape of a convolution's weight"),
        (lambda: cr.init.he_normal(KEY, (5, 0.5)), InputError, "has to be integers"),
        (lambda: cr.init.he_normal(KEY, (5, 4), mode="in"), InputError, "neither 'fan_in' nor"),
        (lambda: cr.init.gain("mish"), InputError, "'mish' is not known\n.*'linear', 'sigmoid'"),
        (lambda: cr.init.he_normal(KEY, (5, 4), dtype=np.int32), DTypeError, "float32 or float64"),
        (lambda: cr.init.kaiming_normal_, AttributeError, "write cr.init.he_normal"),
        (lambda: cr.init.glorot_uniform, AttributeError, "write cr.init.xavier_uniform"),
        (lambda: cr.init.trunc_normal_, AttributeError, "write cr.init.truncated_normal"),
        (lambda: cr.init.calculate_gain, AttributeError, "write cr.init.gain"),
        (lambda: cr.init.zeros_, AttributeError, "write np.zeros"),
        (lambda: cr.init.mish, AttributeError, "has no attribute 'mish'$"),
    ],
)
def test_what_is_wrong_is_explained(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.peers
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_begin_as_those_of_pytorch(bidirectional):
    """The same names, shapes and bounds; spreads as far as so few numbers tell."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for name, kind in (("lstm", "LSTM"), ("gru", "GRU"), ("rnn", "RNN")):
        peer = getattr(torch.nn, kind)(20, 32, num_layers=2, bidirectional=bidirectional)
        mine = getattr(cr.init, name)(KEY, 20, 32, layers=2, bidirectional=bidirectional)
        theirs = {n: t.detach().numpy() for n, t in peer.named_parameters()}
        assert {n: x.shape for n, x in mine.items()} == {n: x.shape for n, x in theirs.items()}
        for one in theirs:
            assert moments(mine[one])[2] <= 1 / math.sqrt(32)
            if mine[one].size > 500:
                assert abs(moments(mine[one])[1] / moments(theirs[one])[1] - 1) < 0.12
        assert np.unique(np.concatenate([x.ravel() for x in mine.values()])).size > 1000
    pairs = [
        (torch.nn.Linear(50, 400), cr.init.linear(KEY, 50, 400)),
        (torch.nn.Conv2d(8, 400, 3, groups=2), cr.init.conv(KEY, (400, 4, 3, 3))),
    ]
    for layer, given in pairs:
        for tensor, array in zip((layer.weight, layer.bias), given, strict=True):
            theirs = moments(tensor.detach().numpy())
            np.testing.assert_allclose(moments(array)[1:], theirs[1:], 0.1)
            assert sorted(tensor.shape) == sorted(array.shape)
    for one in ("linear", "sigmoid", "tanh", "relu", "selu"):
        assert cr.init.gain(one) == torch.nn.init.calculate_gain(one)
    assert cr.init.gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)
    for ours, theirs, options in (
        ("xavier_uniform", "xavier_uniform_", {}),
        ("xavier_normal", "xavier_normal_", {}),
        ("he_uniform", "kaiming_uniform_", {"nonlinearity": "relu"}),
        ("he_normal", "kaiming_normal_", {"nonlinearity": "relu"}),
    ):
        for shape in ((200, 50), (20, 10, 5, 5)):
            empty = torch.empty(shape if len(shape) > 2 else shape[::-1])
            drawn = getattr(torch.nn.init, theirs)(empty, **options).numpy()
            found = getattr(cr.init, ours)(KEY, shape)
            np.testing.assert_allclose(moments(found)[1], moments(drawn)[1], CLOSE, err_msg=ours)
