"""Every Python that is installed here gives the names that this one gives."""

from __future__ import annotations

from typing import Any

import pytest
from test_naming import WITHOUT_RANGES, check_in, other_pythons


@pytest.mark.slow
def test_every_python_gives_the_same_names(record_property: Any) -> None:
    others = other_pythons().items()
    check_in(
        [(*which, flags) for which in others for flags in ((), WITHOUT_RANGES)], record_property
    )
