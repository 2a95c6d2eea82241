"""An int argument of the program may say how far, how often and where elements move."""

import numpy as np
import pytest

import chainrule as cr

X = np.arange(16.0).reshape(4, 4)
PROGRAMS = {
    "roll": lambda x, k: np.roll(x, (k, 1), (0, 1)),
    "tile": lambda x, k: np.tile(x, (k, 1)),
    "repeat": lambda x, k: np.repeat(x, k, axis=1),
    "resize": lambda x, k: np.resize(x, (k, 3)),
    "rollaxis": lambda x, k: np.rollaxis(x, 1, k),
    "rot90": lambda x, k: np.rot90(x, k),
    "flip": lambda x, k: np.flip(x, k - 1),
    "pad": lambda x, k: np.pad(x, ((k, 0), (0, k)), mode="edge"),
    "split": lambda x, k: np.split(x, k)[1],
    "split at": lambda x, k: np.split(x, [k])[1],
    "array_split": lambda x, k: np.array_split(x, k + 1)[1],
    "delete": lambda x, k: np.delete(x, k, 0),
    "insert": lambda x, k: np.insert(x, k, 5, 0),
    "diag": lambda x, k: np.diag(x, k),
    "diag of a vector": lambda x, k: np.diag(x[0], k),
    "trace": lambda x, k: np.trace(x, k),
    "tril": lambda x, k: np.tril(x, k),
    "vander": lambda x, k: np.vander(x[0], k),
    "sort": lambda x, k: np.sort(x, axis=k - 1),
    "take": lambda x, k: np.take(x, k, 0),
    "choose": lambda x, k: np.choose(k, [x, x, x * x]),
    "linspace": lambda x, k: np.linspace(x, 1, k),
    "zeros_like": lambda x, k: np.zeros_like(x, shape=(k, 2)),
    "full_like": lambda x, k: np.full_like(x, k),
    "broadcast_to": lambda x, k: np.broadcast_to(x, (k, 4, 4)),
    "stack": lambda x, k: np.stack([x, x], axis=k),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_an_int_argument_is_known_while_tracing(program):
    got, want = cr.trace(program, X, 2).run(x=X, k=2).outputs, program(X, 2)
    assert got.dtype == want.dtype and np.array_equal(got, want)


def test_places_and_values_of_a_change_may_be_int_arguments():
    def change(x, k):
        return x.at[k].set(7.0).at[1:k].add(k)

    want = X.copy()
    want[2] = 7
    want[1] += 2
    assert np.array_equal(cr.trace(change, X, 2).run(x=X, k=2).outputs, want)
