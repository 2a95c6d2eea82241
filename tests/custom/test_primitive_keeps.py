"""A function that is not looked into may keep the arrays that it gets."""

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
