"""`chainrule run -n 2` with little time for ranks that do not ask for more."""

import os
import sys
from pathlib import Path

from chainrule.devices import launcher

if __name__ == "__main__":
    launcher.STOPPING = 0.3
    os.environ["SLOW"] = "1"
    sys.exit(launcher.launch(2, Path(sys.argv[1]), sys.argv[2:], 20))
