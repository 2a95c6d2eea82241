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
