"""Keys asked for by several threads at once are those of the number that each asks for."""

from __future__ import annotations

import numpy as np

from chainrule.random import key
from chainrule.train.step.random_inputs import AT_ONCE, Keys


class Interrupted(Keys):
    """Keys of which another thread asks for those of a later step, in the middle of a call."""

    asks = False

    @property
    def names(self) -> tuple[str, ...]:
        if self.asks:
            self.asks = False
            super().at(2 * AT_ONCE)
        return self._kept

    @names.setter
    def names(self, names: tuple[str, ...]) -> None:
        self._kept = names


def test_a_thread_that_asks_in_between_changes_no_keys() -> None:
    keys = Interrupted(("a", "b"), key(0))
    expected = {name: one.copy() for name, one in keys.at(3).items()}
    keys.asks = True
    found = keys.at(3)
    assert not keys.asks
    for name, one in expected.items():
        np.testing.assert_array_equal(found[name], one)
