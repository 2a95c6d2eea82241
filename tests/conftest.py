"""What a run tells at its end; this folder is on the import path of all tests by its being here."""

import os
import tempfile

import pytest

# Most tests run what they run once: the reference executor needs no compilation.  Tests of the
# native executor ask for it by name, and what they compile does not fill the user's own cache.
os.environ.setdefault("CHAINRULE_EXECUTOR", "reference")
_cache = tempfile.TemporaryDirectory(prefix="chainrule-tests-")
os.chmod(_cache.name, 0o700)
os.environ["CHAINRULE_CACHE_DIR"] = _cache.name


@pytest.fixture
def native(monkeypatch):
    """The native executor where none is named, as users have it."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "native")


def pytest_terminal_summary(terminalreporter):
    """The lines that tests noted with `record_property("ran", ...)`: what was really tried."""
    notes = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for key, value in report.user_properties
        if key == "ran"
    ]
    for note in dict.fromkeys(notes):
        terminalreporter.write_line(f"ran: {note}")
