"""Which scopes of the page are open at first: so many that there are about 60 boxes to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chainrule.explain.drawing.folding import FEW_BOXES
from chainrule.explain.report.outline_groups import Kind, PageScope, scopes_in


def opened_first(
    wholes: Iterable[PageScope], inside: Mapping[PageScope, int], folded: Mapping[PageScope, int]
) -> list[str]:
    """The keys of the scopes that are open.

    `inside` says how many boxes stand directly in a scope, `folded` as how many it is drawn when
    it is folded (two where there is one below it).  Small graphs are open; of others, calls are
    opened level by level, those of one function together, but no repetition, no stretch and no
    parameters.
    """
    level = list(wholes)
    shut = Kind.WHOLE, Kind.PARAMETERS
    every = [one for whole in level for one in scopes_in(whole) if one.kind not in shut]
    if sum(inside.values()) <= FEW_BOXES:
        return [one.key for one in every]
    seen = sum(_boxes(one, inside, folded) for one in level)
    found: list[str] = []
    while level:
        opened = []
        for scope in level:
            alike: dict[str, list[PageScope]] = {}
            for one in scope.inner:
                if one.kind is Kind.CALL:
                    alike.setdefault(one.title, []).append(one)
            for several in alike.values():
                more = sum(_boxes(one, inside, folded) - folded[one] for one in several)
                if seen + more <= FEW_BOXES:
                    seen += more
                    opened += several
        found += [one.key for one in opened]
        level = opened
    return found


def _boxes(
    scope: PageScope, inside: Mapping[PageScope, int], folded: Mapping[PageScope, int]
) -> int:
    """How many boxes are seen of an open scope if all inside are folded."""
    return inside[scope] + sum(folded[one] for one in scope.inner)
