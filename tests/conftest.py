"""What a run tells at its end; this folder is on the import path of all tests by its being here."""


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
