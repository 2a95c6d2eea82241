"""Runs the tests: makes .venv-test, installs chainrule and the test tools there, runs pytest.

Needs Python 3.11 or newer and, the first time, a connection to the Python Package Index.
Arguments that are not listed go to pytest, for example: tests/data -k split
Each core runs its part of the files; two cores run three parts of the slow tiers, which wait for
browsers and ranks.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import environment
from parts import NO_TESTS_COLLECTED, run_in_parts

FOLDER = ".venv-test"
# Hundreds of Pythons import the package: they share the bytecode, outside the source tree.
BYTECODE = {"PYTHONPYCACHEPREFIX": str(environment.ROOT / FOLDER / "bytecode")}
TIERS = {
    "quick": ["-m", "not slow and not exhaustive and not peers"],
    "skipped": ["-m", "not slow and not exhaustive", "--skipped"],
    "slow": ["-m", "(slow or peers) and not exhaustive"],
    "slow and skipped": ["-m", "not exhaustive", "--skipped"],
    "exhaustive": ["-m", "exhaustive"],
}
LIST_MISSING_PEERS = """
import importlib.metadata, importlib.util, re
for line in importlib.metadata.requires("chainrule"):
    requirement, _, condition = line.partition(";")
    module = re.match(r"\\w+", requirement).group()
    if "peers" in condition and importlib.util.find_spec(module) is None:
        print(requirement.strip())
"""


def main(arguments):
    """0 where every test that was run passed, and at least one was run."""
    environment.require_python()
    options, passed_on = _options(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(BYTECODE)
    seconds = {}

    begin = time.perf_counter()
    if options.no_install:
        python = environment.python_in(options.environment)
        if not python.exists():
            raise SystemExit(f"there is no {python}: leave out --no-install, and it is made")
    else:
        python = environment.prepare(options.environment, "[test]", options.python)
    seconds["environment"] = time.perf_counter() - begin

    named = " and ".join(tier for tier in ("slow", "skipped") if getattr(options, tier))
    named = "exhaustive" if options.exhaustive else named
    chosen = ["quick", "slow", "exhaustive"] if options.all else [named or "quick"]
    statuses = []
    for tier in chosen:
        command = [str(python), "-m", "pytest", "-rs", *TIERS[tier]]
        print(f"\nthe {tier} tier: {shlex.join([*command[2:], *passed_on])}", flush=True)
        begin = time.perf_counter()
        quick = tier == "quick"
        statuses.append(run_in_parts(command, passed_on, environment.ROOT, quick=quick))
        seconds[f"{tier} tier"] = time.perf_counter() - begin

    print()
    if not any("slow" in tier for tier in chosen):
        print("not run: the tests marked slow or peers (--slow runs these, --all runs all tiers)")
    _tell_missing_peers(python)
    print("took: " + ", ".join(f"{part} {duration:.1f} s" for part, duration in seconds.items()))
    return _verdict(statuses)


def _options(arguments):
    parser = argparse.ArgumentParser(
        usage="%(prog)s [--slow] [--skipped] [--exhaustive] [--all] [--python PATH] "
        "[--environment FOLDER] [--no-install] "
        "[pytest's arguments]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--slow", action="store_true", help="only the tests marked slow, or peers (PyTorch, JAX)"
    )
    parser.add_argument(
        "--skipped",
        action="store_true",
        help="of the quick tier, what was skipped last, and what compares with PyTorch or JAX; "
        "with --slow both at once",
    )
    parser.add_argument(
        "--exhaustive", action="store_true", help="only the further cases of tests marked sweep"
    )
    parser.add_argument("--all", action="store_true", help="all tiers, one after the other")
    parser.add_argument(
        "--python",
        type=_command,
        default=sys.executable,
        metavar="PATH",
        help="the Python to make the environment with",
    )
    parser.add_argument(
        "--environment",
        default=FOLDER,
        metavar="FOLDER",
        help="the virtual environment (default: %(default)s)",
    )
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="use that environment as it is: nothing is installed",
    )
    return parser.parse_known_args(arguments)


def _command(name):
    found = shutil.which(name)
    if found is None:
        raise argparse.ArgumentTypeError(f"there is no program {name}")
    return str(Path(found).absolute())


def _tell_missing_peers(python):
    """Names the libraries of the extra `peers` that are absent, and how to get them."""
    answer = subprocess.run(
        [str(python), "-c", LIST_MISSING_PEERS], check=True, stdout=subprocess.PIPE
    )
    missing = answer.stdout.decode().split()
    if not missing:
        return
    absent = f"{', '.join(missing)}, absent from {python.parents[1].name}"
    print(f"skipped: comparisons with {absent}. To run them too:")
    print("\n".join(_installs(python.relative_to(environment.ROOT), missing)))


def _installs(python, missing):
    """Lines to copy into a shell, which would take the > of a requirement for its own."""
    install = f"    {python} -m pip install"
    torch = [requirement for requirement in missing if requirement.startswith("torch")]
    others = [f'"{requirement}"' for requirement in missing if requirement not in torch]
    for requirement in torch:
        yield f"{install} {requirement} --index-url https://download.pytorch.org/whl/cpu"
        yield "    (a build for the CPU; without --index-url comes the usual one, far larger)"
    if others:
        yield " ".join([install, *others])


def _verdict(statuses):
    """The first failure; a tier without tests is none, unless there were no tests at all."""
    ran = [status for status in statuses if status != NO_TESTS_COLLECTED]
    return next((status for status in ran if status != 0), 0) if ran else NO_TESTS_COLLECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
