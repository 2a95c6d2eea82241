"""Nested scopes as plain data: what stands in each, on which grid, and what connects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.explain.drawing.figure import Group, Item
from chainrule.explain.drawing.layout.grid import Grid
from chainrule.explain.drawing.layout.scopes import TOP, Kind, Nest, Scope, nest
from chainrule.explain.drawing.layout.whole import arrange_all

FORWARD, BACKWARD, BOTH = 1, 2, 3  # in which band a link is drawn
Pair = tuple[int, int]


class Grids:
    """The grids of all scopes, equal ones once."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._known: dict[int, tuple[Grid, int]] = {}  # the grid stays, so its id is not used again

    def number(self, grid: Grid, scope: Scope) -> int:
        """The number of a grid, which scopes of equal vertices and connections share."""
        known = self._known.get(id(grid))
        if known is None:
            known = self._known[id(grid)] = grid, len(self.all)
            self.all.append(_grid_data(grid, scope))
        return known[1]


def nested_data(
    items: tuple[Item, ...],
    links: Mapping[Pair, int],
    groups: tuple[Group, ...],
    grids: Grids,
) -> list[dict[str, Any]]:
    """The scopes of a band, outer ones first; the first one, without a key, is the band itself.

    `links` say in which bands each pair of item numbers is drawn; of a band that nothing mirrors
    all are BOTH.
    """
    parts = nest(items, list(links), groups)
    arranged = arrange_all(parts, items)
    only = _drawn_once(parts, links)
    place = {number: at for at, number in enumerate(parts.scopes)}
    return [
        {
            "key": scope.key,
            "label_width": scope.label_width,
            "parent": -1 if number == TOP else place[scope.parent],
            "grid": grids.number(arranged[number], scope),
            "things": [
                place[one.thing] if one.kind is Kind.INNER else one.thing for one in scope.vertices
            ],
            **only.get(number, {}),
        }
        for number, scope in parts.scopes.items()
    ]


def _drawn_once(parts: Nest, links: Mapping[Pair, int]) -> dict[int, dict[str, list[int]]]:
    """The connections of each scope that are drawn in one of two bands alone."""
    drawn = {number: [0] * len(scope.connections) for number, scope in parts.scopes.items()}
    for way, bands in zip(parts.legs, links.values(), strict=True):
        for leg in way:
            drawn[leg.scope][leg.connection] |= bands
    found: dict[int, dict[str, list[int]]] = {}
    for number, several in drawn.items():
        for name, band in (("forward_only", FORWARD), ("backward_only", BACKWARD)):
            alone = [place for place, one in enumerate(several) if one == band]
            if alone:
                found.setdefault(number, {})[name] = alone
    return found


def _grid_data(grid: Grid, scope: Scope) -> dict[str, Any]:
    connections = ((one.start, one.end, one.exit, one.entry) for one in scope.connections)
    return {
        "columns": grid.columns,
        "rows": grid.rows,
        "kinds": [one.kind.value for one in scope.vertices],
        "cells": [number for cell in grid.cells for number in cell],
        "connections": [number for one in connections for number in one],
        "ways": [number for way in grid.ways for number in (way.course.value, way.row)],
        "entry_rows": list(grid.entry_rows),
        "exit_rows": list(grid.exit_rows),
    }
