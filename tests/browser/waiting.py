"""Waiting for a page, without a script that its policy would refuse."""

from typing import Any


def settle(page: Any) -> None:
    """Wait until what was asked for has been drawn, also what is drawn one frame later."""
    page.evaluate(
        """async () => {
          for (let frame = 0; frame < 3; frame += 1) {
            await new Promise((done) => requestAnimationFrame(done));
          }
        }"""
    )


def calm(page: Any) -> None:
    """Wait until also the inspector is drawn, which waits for a pause where changes come fast."""
    page.evaluate("new Promise((done) => setTimeout(done, 150))")
    settle(page)


def spoken(page: Any, text: str) -> None:
    """Wait until a screen reader would speak this, a quarter of a second after the last change."""
    line = page.locator("#announcer")
    line.filter(has_text=text).wait_for(state="attached")
    assert line.text_content() == text
