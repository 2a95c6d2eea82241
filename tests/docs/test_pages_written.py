"""`python tests/docs/pages.py` leaves a page alone whose packages are not installed."""

from pathlib import Path

import pytest
from pages import write_outputs


def test_a_page_without_its_packages_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "page.md"
    text = "```python\nprint(1)\n```\n\n```text\n0\n```\n"
    page.write_text(text)
    write_outputs(page)
    assert page.read_text() == text.replace("0", "1")

    text = "<!-- needs: os absent_package -->\n\n" + text
    page.write_text(text)
    write_outputs(page)
    assert page.read_text() == text
    assert capsys.readouterr().out == "left as it is, without absent_package: page.md\n"
