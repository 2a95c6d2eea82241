"""What a run remembers and tells; this folder is on the import path of all tests by its being here.

`--skipped` runs what may differ since libraries were installed: the tests that were skipped when
they ran last, and those marked `peers`; and those marked `slow` or `exhaustive`, which have tiers
of their own.
"""

import gc
import os
import signal
import tempfile
from collections import Counter

import pytest
from hidden_features import hide_features
from watchdog import Watchdog

hide_features()

# Most tests run what they run once: the reference executor needs no compilation.  Tests of the
# native executor ask for it by name, and what they compile does not fill the user's own cache.
os.environ.setdefault("CHAINRULE_EXECUTOR", "reference")
_cache = tempfile.TemporaryDirectory(prefix="chainrule-tests-")
os.chmod(_cache.name, 0o700)
os.environ["CHAINRULE_CACHE_DIR"] = _cache.name

# Times that tests look at are those of a known processor, the same on each machine.
os.environ["CHAINRULE_CALIBRATION"] = "0"

# The arrays of tests are small, and each core has a worker: threads of BLAS that wait for work
# would take the time of another test.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# What JAX compiles here runs once: to make its code fast takes longer than it saves.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# A shell that starts a command in the background lets it ignore Ctrl-C, and so would what the
# tests of interrupts start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SKIPPED = (
    "chainrule/skipped-in"  # pytest's cache has the tests that were skipped last, by file there
)


def pytest_addoption(parser):
    parser.addoption("--skipped", action="store_true", help="only skipped, peers, slow ones")


def pytest_configure(config):
    """A machine that is slow, or busy, is no fault of what is tested: hypothesis takes no times."""
    from hypothesis import HealthCheck, settings

    untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    untimed["max_examples"] = 25  # where a test says no number
    settings.register_profile("untimed", settings.default, **untimed)
    settings.load_profile("untimed")
    config.pluginmanager.register(Watchdog())

    from chainrule.testing import gradients  # imports NumPy, for which variables are set above

    # One of some hundred seeds chooses a direction in which finite differences cannot decide.
    gradients._new_seed = lambda: 0


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Many thousand tests stay to the end: the garbage collector need not look for them.

    Nor need it look as often as in a small program: by default that takes a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Under `--skipped`, without a quick test that ran before and compares with no peer library."""
    part_sweeps(items)
    if config.getoption("--skipped"):
        before = {file: _skipped(config, file) for file in {file_of(one.nodeid) for one in items}}
        chosen, left_out = [], []
        for item in items:
            marked = any(map(item.get_closest_marker, ("peers", "slow", "exhaustive")))
            again = item.nodeid in before[file_of(item.nodeid)]
            (chosen if marked or again else left_out).append(item)
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


def part_sweeps(items):
    """Of a test marked `sweep(n)`, every nth case stays as it is: the others are exhaustive."""
    counts = Counter()
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is not None:
            name = item.nodeid.partition("[")[0]
            if counts[name] % sweep.args[0]:
                item.add_marker(pytest.mark.exhaustive)
            counts[name] += 1


@pytest.fixture
def native(monkeypatch):
    """The native executor where none is named, as users have it."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "native")


@pytest.fixture
def registry(monkeypatch):
    """Forgets the executors that a test registers."""
    from chainrule.execute import executors

    monkeypatch.setattr(executors, "_registered", dict(executors._registered))


def pytest_terminal_summary(terminalreporter, config):
    """Remembers what was skipped; shows the lines that tests noted with
    `record_property("ran", ...)`: what was really tried."""
    _remember_skipped(terminalreporter.stats, config)
    notes = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for key, value in report.user_properties
        if key == "ran"
    ]
    for note in dict.fromkeys(notes):
        terminalreporter.write_line(f"ran: {note}")


def _remember_skipped(stats, config):
    """By file: processes that run at once have other files."""
    if not hasattr(config, "cache"):
        return
    ran, skipped = (
        {report.nodeid for outcome in outcomes for report in stats.get(outcome, [])}
        for outcomes in (("passed", "failed", "error"), ("skipped",))
    )
    for file in {file_of(one) for one in ran | skipped}:
        before = _skipped(config, file)
        now = before - ran | {one for one in skipped if file_of(one) == file}
        if now != before:
            config.cache.set(f"{SKIPPED}/{file}", sorted(now))


def _skipped(config, file):
    return set(config.cache.get(f"{SKIPPED}/{file}", []))


def file_of(nodeid):
    return nodeid.partition("::")[0]


@pytest.fixture
def only_what_numpy_sees(monkeypatch):
    """Reports leave out what routines in C take, which tracemalloc does not see:
    test_library_bytes.py measures that."""
    from chainrule.schedule import in_numpy

    monkeypatch.setattr(in_numpy, "unseen_nbytes", lambda node, operands: 0)
