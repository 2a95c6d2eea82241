"""Trains a network on handwritten digits: makes .venv, installs chainrule, runs `chainrule train`.

    python3 scripts/demo.py            # options of `chainrule train` may follow

Needs Python 3.11 or newer and, the first time, a connection to the Python Package Index.
"""

import subprocess
import sys

import environment


def main(arguments):
    """The exit status of `chainrule train` with these further arguments."""
    environment.require_python()
    python = environment.prepare(".venv")
    command = python.with_name("chainrule" + python.suffix)
    print("running: chainrule train", *arguments, flush=True)
    return subprocess.run([str(command), "train", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
