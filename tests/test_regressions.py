"""Programs that once gave wrong numbers, wrong names or unexplained errors."""

import copy
import dataclasses
import pickle
import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule import errors

X = np.array([1.0, 2.0, 3.0])
RATE, FACTOR = 0.1, 0.1  # one object in this module's constants


def value(program, *args, **types):
    return cr.trace(program, *args, **types).run(x=args[0]).outputs


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_labels_of_a_narrow_dtype_count_more_rows_than_it_holds(dtype):
    logits = np.random.default_rng(0).normal(size=(1000, 10))
    labels = (np.arange(1000) % 10).astype(dtype)
    found = cr.value_and_grad(cr.cross_entropy)(logits, labels)
    expected = cr.value_and_grad(cr.cross_entropy)(logits, labels.astype(np.int64))
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


def test_batches_are_longer_than_the_dtype_of_the_indices_counts():
    graph = cr.trace(lambda x, i: x[i], np.ones(5), np.zeros(2, np.uint8))
    batched = cr.transforms.batch(graph, 300, ["x", "i"])
    x, i = np.arange(1500.0).reshape(300, 5), np.full((300, 2), 3, np.uint8)
    assert np.array_equal(batched.run(x=x, i=i)[batched.outputs[0][0]], x[:, [3, 3]])


def test_an_array_that_the_program_writes_into_is_read_each_time():
    def program(x):
        m, total = np.zeros(3), 0.0
        for i in range(3):
            m[:] = 0
            m[i] = i + 1
            total = total + np.sum(x * m) * 10**i
        return total

    assert value(program, X) == program(X)
    assert {"m", "m_1", "m_2"} <= set(cr.trace(program, X).names)


def test_an_int_argument_repeats_a_list():
    graph = cr.trace(lambda x, n=3: np.concatenate([x] * n), X)
    assert np.array_equal(graph.run(x=X).outputs, np.concatenate([X] * 3))
    with pytest.raises(errors.InputError, match="traced with n = 3"):
        graph.run(x=X, n=2)
    assert value(lambda x, k=2: x[[0] * k], X).shape == (2,)


def test_known_integers_that_leave_int64_are_refused():
    with pytest.raises(errors.DTypeError, match="18446744073709551616 does not fit int64"):
        cr.trace(lambda x, k=2**62: x * (k * 4), X)
    with pytest.raises(errors.TypeSpecError, match="does not fit int64"):
        cr.trace(lambda x, k=2**70: x * k, X)


def test_a_second_gradient_with_another_seed_is_another_one():
    def program(x):
        L = np.sum(x**2)
        return L

    first = cr.backward(cr.trace(program, X), of="L")
    second = cr.backward(first, of="L", wrt="x", seed=5.0)
    run = second.run(x=X)
    assert [name for name, _ in second.outputs] == ["L", "dL/dx", "dL/dx_1"]
    assert np.array_equal(run["dL/dx_1"], 5 * run["dL/dx"])
    again = cr.backward(first, of="L", wrt="x")
    assert [name for name, _ in again.outputs] == ["L", "dL/dx"]
    assert "dL/dx_1" not in again


def test_the_mean_of_float16_does_not_overflow():
    x = np.full(2000, 100, np.float16)
    assert value(lambda x: np.mean(x), x) == np.mean(x)
    assert value(lambda x: np.var(x), x) == 0
    assert (cr.grad(lambda x: np.mean(x))(np.ones(70000, np.float16)) > 0).all()


def test_run_time_factors_are_not_multiplied_first_in_float16():
    gradient = cr.grad(lambda x, a, b: a * np.sum(b * x * x))
    found = gradient(np.full(3, 1000.0, np.float16), np.float16(1e-4), np.float16(1e-2))
    assert np.allclose(found, 2e-3, rtol=1e-2)


@dataclasses.dataclass
class Tripled:
    W: object
    c: float = dataclasses.field(init=False, default=1.0)

    def __post_init__(self):
        self.W = self.W * 3


def test_a_dataclass_is_taken_apart_and_put_together_without_its_init():
    p = Tripled(X)
    p.c = 5.0
    graph = cr.trace(lambda p: p.W * p.c, p)
    assert np.array_equal(graph.run(p=p).outputs, 15 * X)


def test_a_default_before_positional_arguments_keeps_its_place():
    positional = eval("lambda x, f=True, c=2.0, /: np.sum(x) * c if f is True else x * f")
    assert value(positional, X, c=3.0) == 18
    found = cr.grad(lambda x, flag=True, *a: np.sum(x) * a[0] if flag else x)(X, True, 10.0)
    assert np.array_equal(found, [10, 10, 10])


def test_an_array_default_is_used_where_nothing_is_given():
    def program(x, w=np.full(3, 2.0)):  # noqa: B008  (what users write)
        return np.sum(x * w)

    assert value(program, X) == 12
    assert np.array_equal(cr.grad(program)(X), [2, 2, 2])


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("make", [lambda: np.ma.array(X, mask=[0, 1, 0]), lambda: np.matrix(X)])
def test_arrays_with_another_arithmetic_are_refused(make):
    array = make()
    with pytest.raises(errors.UnsupportedError, match=r"MaskedArray|matrix") as caught:
        cr.trace(lambda x: x, array)
    assert "np.asarray" in str(caught.value)


def test_two_floats_that_are_one_object_have_their_own_names():
    assert {"RATE", "FACTOR"} <= set(cr.trace(lambda x: x * RATE + x**FACTOR, X).names)


def test_arrays_of_foreign_byte_order_are_read():
    x = X.astype(">f8")
    assert value(lambda x: np.sum(x * 2) + x[0], x) == 13


def test_types_and_errors_survive_pickling_and_copying():
    type_ = cr.trace(lambda x: x, X).inputs[0].type
    assert copy.deepcopy(type_) == type_
    assert pickle.loads(pickle.dumps(type_)) == type_
    error = errors.ShapeError("what", where="where", hint="hint")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_threads_may_be_the_first_to_pass_a_dataclass():
    faults = []

    def work(cls, start):
        start.wait()
        try:
            cr.grad(lambda p: np.sum(p.W))(cls(X))
        except Exception as fault:  # reported below, in the main thread
            faults.append(fault)

    for round_ in range(10):
        cls = dataclasses.make_dataclass(f"Parameters{round_}", ["W"])
        start = threading.Barrier(4)
        threads = [threading.Thread(target=work, args=(cls, start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not faults


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda g: cr.backward(g, wrt=1.5), "wrt=1.5 names nothing"),
        (lambda g: cr.backward(g, wrt=True), "wrt=True names nothing"),
        (lambda g: cr.backward(g, seed=object()), "the seed is no array of numbers"),
        (lambda g: cr.backward(g, seed=""), "'' is no name for an input"),
        (lambda g: cr.backward(lambda x: x), "backward needs a graph, got function"),
    ],
)
def test_senseless_arguments_of_backward_are_explained(call, text):
    graph = cr.trace(lambda x: np.sum(x), X)
    with pytest.raises(errors.InputError) as caught:
        call(graph)
    assert text in str(caught.value)
