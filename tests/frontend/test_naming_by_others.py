"""Every Python that is installed here gives the names that this one gives."""

from __future__ import annotations

from typing import Any

import pytest
from test_naming import WITHOUT_RANGES, check_in, other_pythons


@pytest.mark.slow
def test_every_python_gives_the_same_names(record_property: Any) -> None:
    others = list(other_pythons().items())
    found = [(*which, ()) for which in others]
    check_in([*found, *((*which, WITHOUT_RANGES) for which in others[:1])], record_property)
