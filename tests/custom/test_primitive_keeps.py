"""A function that is not looked into may keep what it gets and what it gives: plain arrays."""

import numpy as np
import pytest

import chainrule as cr


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("computed", [False, True], ids=["argument", "value"])
def test_arrays_that_are_kept_stay_as_they_were(executor, computed) -> None:
    seen = []

    def note(x):
        seen.append(x)
        return x * 2

    operation = cr.primitive(note, name="note", partials=lambda out, x: 2.0 + 0 * x)
    f = cr.compile(lambda x: np.sum(operation(x + 1 if computed else x) * 3), executor=executor)
    seen.clear()  # what tracing tried
    x = np.full(300_000, 1.0)
    f(x)
    kept = seen[-1]
    del x
    f(np.zeros(300_000))
    assert (kept == (2 if computed else 1)).all()


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_function_may_give_one_array_again_and_again(executor) -> None:
    buffer = np.empty((5, 3))

    def double(x):
        return np.multiply(x, 2, out=buffer)

    operation = cr.primitive(double, name="double")
    x = np.ones((5, 3))
    both = cr.compile(lambda x, y: operation(x) + operation(y), executor=executor)
    assert (both(x, 10 * x) == 22).all()
    alone = cr.compile(lambda x: operation(x), executor=executor)
    first, second = alone(x), alone(5 * x)
    assert (first == 2).all() and (second == 10).all()


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_function_may_give_bytes_in_the_other_order(executor, dtype) -> None:
    operation = cr.primitive(lambda x: x.astype(x.dtype.newbyteorder()), name="swapped")
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    result = cr.compile(lambda x: operation(x) + x, executor=executor)(x)
    assert (result == 2 * x).all() and result.dtype == x.dtype


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_masked_result_is_refused(executor) -> None:
    operation = cr.primitive(lambda x: np.ma.masked_greater(x, 1), name="masked")
    with pytest.raises(cr.errors.ChainruleError, match="result of masked is a MaskedArray") as told:
        cr.compile(lambda x: operation(x) + 1, executor=executor)(np.arange(3.0))
    assert "np.where(mask, 0, values)" in str(told.value)
