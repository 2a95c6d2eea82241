"""Puts text from a user's program on one line of a screen."""


def printable(text: str) -> str:
    """The text on one line, without what a screen would obey: a name may hold a new line."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
