"""Runs the user's file as one rank; `chainrule run` starts it by `python -m`."""

from __future__ import annotations

import atexit
import os
import runpy
import sys

from chainrule.devices import ending
from chainrule.devices.job import folder, started_as, this_rank
from chainrule.devices.system import end_with_parent


def main() -> None:
    """Runs sys.argv[1] with the arguments that follow."""
    end_with_parent()
    rank = (started_as() or (0, 1))[0]
    ending.install()
    where = folder()
    if where is not None:
        where.write_started(this_rank(rank))
        atexit.register(where.write_completed, rank)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
