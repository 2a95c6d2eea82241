"""Named sizes become integers by `bind` or from a run's inputs; every condition is checked."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import NameLookupError, ShapeError, SizeError


def mlp(x: float64["n d"], W: float64["d h"], V: float64["h c"]):
    return np.tanh(x @ W) @ V


ARRAYS = {"x": np.ones((5, 3)), "W": np.ones((3, 4)), "V": np.ones((4, 2))}


def pairs(x: float64["n d"]):
    return x.reshape(x.shape[0] // 2, 2, -1)


def tail(x: float64["n"]):
    return x[3:][2]


def test_bind_gives_the_concrete_graph():
    graph = cr.trace(mlp)
    assert graph.sizes == ("n", "d", "h", "c")
    bound = graph.bind(n=5, d=3, h=4, c=2)
    assert bound.sizes == ()
    assert [str(node.type) for node in bound] == [
        "float64[5, 3]",
        "float64[3, 4]",
        "float64[4, 2]",
        "float64[5, 4]",
        "float64[5, 4]",
        "float64[5, 2]",
    ]
    assert np.array_equal(bound.run(**ARRAYS).outputs, mlp(**ARRAYS))
    assert graph.sizes == ("n", "d", "h", "c")


def test_sizes_that_are_not_given_stay_named():
    part = cr.trace(mlp).bind(d=3, c=2)
    assert part.sizes == ("n", "h")
    assert str(part.outputs[0][1].type) == "float64[n, 2]"
    assert (
        part.bind(n=5).bind(h=4).structural_hash
        == cr.trace(mlp).bind(n=5, d=3, h=4, c=2).structural_hash
    )
    assert np.array_equal(part.run(**ARRAYS).outputs, mlp(**ARRAYS))


def test_a_bound_graph_keeps_names_outputs_and_gradients():
    def objective(x: float64["n d"], W: float64["d"]):
        h = x @ W
        J = np.mean(h * h)
        return J

    step = cr.backward(cr.trace(objective), wrt="W")
    bound = step.bind(n=5)
    assert list(bound.names) == list(step.names)
    assert [name for name, _ in bound.outputs] == ["J", "dJ/dW"]
    x, W = ARRAYS["x"], np.arange(3.0)
    assert np.array_equal(bound.run(x=x, W=W)["dJ/dW"], step.run(x=x, W=W)["dJ/dW"])
    assert np.array_equal(bound.run(x=x, W=W).gradient("h"), step.run(x=x, W=W).gradient("h"))


@pytest.mark.parametrize(
    ("values", "what", "hint"),
    [
        ({"m": 3}, "the graph mlp has no size called 'm'", "its sizes are: n, d, h, c"),
        ({"n": 0}, "the size n must be an integer of at least 1, got 0", "for a size of 0, write the literal 0 in the array type"),
        ({"n": 2.0}, "the size n must be an integer of at least 1, got 2.0", "for a size of 0, write the literal 0 in the array type"),
        ({"n": True}, "the size n must be an integer of at least 1, got True", "for a size of 0, write the literal 0 in the array type"),
    ],
)  # fmt: skip
def test_a_wrong_size_is_explained(values, what, hint):
    with pytest.raises(SizeError) as caught:
        cr.trace(mlp).bind(**values)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_a_numpy_integer_is_a_size():
    assert str(cr.trace(mlp).bind(n=np.int32(5)).inputs[0].type) == "float64[5, d]"


def test_a_reshape_that_divides_is_a_condition():
    graph = cr.trace(pairs)
    x = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(graph.run(x=x).outputs, pairs(x))
    message = (
        "reshape of x: float64[n, d] to [n//2, 2, (d*n)//(2*(n//2))] needs equal numbers of "
        "elements; not so for n=5, d=3\n"
        f"  where: {__file__}:{pairs.__code__.co_firstlineno + 1}, in pairs\n"
        "    return x.reshape(x.shape[0] // 2, 2, -1)\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  try: choose sizes for which it holds"
    )
    for attempt in (lambda: graph.bind(n=5, d=3), lambda: graph.run(x=np.zeros((5, 3)))):
        with pytest.raises(SizeError) as caught:
            attempt()
        assert str(caught.value) == message


def test_conditions_are_checked_as_soon_as_they_can_be():
    graph = cr.trace(pairs)
    assert len(graph.conditions) == 1
    assert graph.bind(n=4).conditions == ()
    odd = graph.bind(n=5)
    assert len(odd.conditions) == 1
    with pytest.raises(SizeError):
        odd.bind(d=3)
    assert odd.bind(d=4).conditions == ()


def test_an_index_inside_is_a_condition():
    graph = cr.trace(tail)
    assert graph.bind(n=6).run(x=np.arange(6.0)).outputs == 5
    with pytest.raises(SizeError) as caught:
        graph.bind(n=5)
    assert caught.value.what.startswith("index 2 must lie inside axis 0 of (slice): float64[")
    assert caught.value.what.endswith("; not so for n=5")


def test_no_condition_where_it_can_be_proved():
    def rows(x: float32["n d"]):
        return x.reshape(-1, 1).reshape(x.shape)[0].reshape(1, -1), x[: x.shape[0] // 2]

    assert cr.trace(rows).conditions == ()
    with pytest.raises(ShapeError, match="cannot reshape x: float32"):
        cr.trace(lambda x: x.reshape(x.shape[0] + 1), x=float32["n"])


def test_the_inputs_of_a_run_give_the_sizes():
    graph = cr.trace(lambda x, y: (x, y), x=float64["2*n+1"], y=float64["n m"])
    run = graph.run(x=np.zeros(7), y=np.zeros((3, 2)))
    assert run.graph.sizes == ()
    assert str(run.graph["y"].type) == "float64[3, 2]"


DISAGREEMENTS = [
    (dict(ARRAYS, W=np.ones((7, 4))), "axis 0 of the input W of mlp must be d = 3 (d from x (axis 1)), got 7",
     "give arrays that agree on d: axis 0 of W, axis 1 of x"),
    (dict(ARRAYS, V=np.ones((3, 2))), "axis 0 of the input V of mlp must be h = 4 (h from W (axis 1)), got 3",
     "perhaps W is transposed, [3, 4]: pass W.T"),
    (dict(ARRAYS, x=np.ones((0, 3))), "axis 0 of the input x of mlp must be n, at least 1, got 0",
     "leave an empty x out; a size that may be 0 is a literal 0 in the type"),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "what", "hint"), DISAGREEMENTS)
def test_sizes_that_disagree_are_explained(arrays, what, hint):
    with pytest.raises(SizeError) as caught:
        cr.trace(mlp).run(**arrays)
    assert caught.value.what == what
    assert caught.value.hint == hint
    assert f"{__file__}:{mlp.__code__.co_firstlineno}, in mlp" in caught.value.where


def test_sizes_that_no_input_shows_are_asked_for():
    graph = cr.trace(lambda x: x, x=float64["n*m"])
    with pytest.raises(SizeError) as caught:
        graph.run(x=np.zeros(6))
    assert str(caught.value) == (
        "the sizes in m*n (axis 0 of x) cannot be read off the inputs\n"
        "  try: bind them first: graph.bind(m=..., n=...)"
    )
    assert graph.bind(n=2).run(x=np.zeros(6)).graph.sizes == ()


def test_values_of_sizes_follow_the_binding():
    graph = cr.trace(lambda x, y: np.mean(x) + x.shape[0] * y, x=float32["n"], y=int64["m"])
    x, y = np.arange(5, dtype=np.float32), np.arange(3)
    assert np.array_equal(graph.bind(n=5).run(x=x, y=y).outputs, np.mean(x) + 5 * y)


def test_the_last_bindings_are_remembered():
    graph = cr.trace(mlp)
    sizes = {"n": 5, "d": 3, "h": 4, "c": 2}
    assert graph.bound(sizes) is graph.bound(dict(reversed(sizes.items())))
    for n in range(1, 40):
        graph.bound({**sizes, "n": n})
    assert len(graph._bound) == 16


def test_an_unknown_name_is_looked_up_with_near_ones():
    with pytest.raises(NameLookupError, match="the graph mlp has no value called 'w'"):
        cr.trace(mlp)["w"]


def test_origins_and_scopes_point_to_the_nodes_of_the_bound_graph():
    def objective(x: float64["n d"], y: int64["n"], W: float64["d 3"]):
        return cr.cross_entropy(x @ W, y)

    def nodes_of(graph):
        for node in graph:
            yield node
            if node.origin.node is not None:
                yield node.origin.node
            scope = node.origin.scope
            while scope is not None:
                yield from scope.result
                yield from (one for _, one in scope.arguments if isinstance(one, type(node)))
                scope = scope.parent

    graph = cr.backward(cr.trace(objective), wrt="W")
    bound = graph.bind(n=5, d=2)
    place = {node: number for number, node in enumerate(graph)}
    place_bound = {node: number for number, node in enumerate(bound)}
    before = [place.get(node) for node in nodes_of(graph)]
    assert [place_bound.get(node) for node in nodes_of(bound)] == before
    assert before.count(None) < len(before) / 4 and len(before) > 2 * len(graph)
    drawn, drawn_bound = graph.draw().dot(), bound.draw().dot()
    assert drawn.count("dashed") == drawn_bound.count("dashed") > 0
