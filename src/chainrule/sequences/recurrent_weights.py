"""Reads the weights of recurrent layers by PyTorch's names: layers, directions and shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, ShapeError
from chainrule.frontend.errors.refusing import refuse, shown

NAME = re.compile(r"(weight_ih|weight_hh|weight_hr|bias_ih|bias_hh)_l(\d+)(_reverse)?")
FIELDS = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}
FIELDS["weight_hr"] = "w_hr"


@dataclass(frozen=True)
class Direction:
    """The weights of one direction of one layer; biases and the projection may be missing."""

    suffix: str
    w_ih: Any
    w_hh: Any
    b_ih: Any = None
    b_hh: Any = None
    w_hr: Any = None

    @property
    def width(self) -> Any:
        """How many elements the state h has."""
        return np.shape(self.w_hh)[1]

    def require_features(self, features: Any, x: Any, asked: str) -> None:
        """ShapeError unless the weights fit what this direction reads."""
        if np.shape(self.w_ih)[1] != features:
            refuse(
                ShapeError,
                (x, self.w_ih),
                f"{asked}: weight_ih_{self.suffix} {shown(self.w_ih)} reads "
                f"{np.shape(self.w_ih)[1]} features, and there are {features}",
                "it is (gates hidden, features): the last axis of x; above the first layer "
                "directions times hidden",
            )


def layers_of(weights: Any, gates: int, asked: str) -> list[list[Direction]]:
    """The directions of each layer, the one from the end last, checked against each other."""
    if not isinstance(weights, Mapping):
        raise InputError(
            f"{asked}: the weights are {type(weights).__name__}, not a mapping",
            hint="give a dict with weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...",
        )
    found: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, value in weights.items():
        match = NAME.fullmatch(str(name))
        if match is None or (match[1] == "weight_hr" and asked != "lstm"):
            raise InputError(
                f"{asked}: there is no weight {name!r}",
                hint="names are those of PyTorch, as in weight_ih_l0, bias_hh_l1_reverse; "
                "take away what is before them: lstm.weight_ih_l0",
            )
        found.setdefault((int(match[2]), bool(match[3])), {})[FIELDS[match[1]]] = value
    count = max((number for number, _ in found), default=-1) + 1
    both = any(is_reverse for _, is_reverse in found)
    layers = []
    for number in range(max(count, 1)):
        directions = []
        for is_reverse in (False, True)[: 1 + both]:
            suffix = f"l{number}{'_reverse' * is_reverse}"
            directions.append(_direction(found.get((number, is_reverse), {}), suffix, asked))
            _check(directions[-1], gates, asked)
        layers.append(directions)
    _check_alike([one for directions in layers for one in directions], asked)
    return layers


def _direction(given: dict[str, Any], suffix: str, asked: str) -> Direction:
    biases = {"b_ih", "b_hh"} if {"b_ih", "b_hh"} & given.keys() else set()
    for long, short in FIELDS.items():
        if short in {"w_ih", "w_hh"} | biases and short not in given:
            raise InputError(
                f"{asked}: {long}_{suffix} is missing",
                hint="each direction of each layer has weight_ih and weight_hh, "
                "and bias_ih with bias_hh or neither",
            )
    return Direction(suffix, **given)


def _check(one: Direction, gates: int, asked: str) -> None:
    rows = np.shape(one.w_hh)[0] if np.ndim(one.w_hh) == 2 else None
    hidden = one.width if one.w_hr is None else np.shape(one.w_hr)[-1]
    wanted = {
        "weight_hh": (one.w_hh, (gates * hidden, one.width)),
        "weight_ih": (one.w_ih, (rows, *np.shape(one.w_ih)[-1:])),
        "bias_ih": (one.b_ih, (rows,)),
        "bias_hh": (one.b_hh, (rows,)),
        "weight_hr": (one.w_hr, (one.width, hidden)),
    }
    for name, (array, shape) in wanted.items():
        if array is not None and tuple(np.shape(array)) != shape:
            refuse(
                ShapeError,
                (array,),
                f"{asked}: {name}_{one.suffix} is {shown(array)}, where weight_hh_{one.suffix} is "
                f"{shown(one.w_hh)}",
                f"with {gates} gates weight_ih is ({gates} hidden, features), weight_hh "
                f"({gates} hidden, hidden), a bias ({gates} hidden): rows of all gates",
            )


def _check_alike(all_of_them: list[Direction], asked: str) -> None:
    first = all_of_them[0]
    for one in all_of_them:
        if one.width != first.width or (one.w_hr is None) != (first.w_hr is None):
            refuse(
                ShapeError,
                (one.w_hh, first.w_hh),
                f"{asked}: weight_hh_{one.suffix} is {shown(one.w_hh)}, and "
                f"weight_hh_{first.suffix} {shown(first.w_hh)}",
                "all layers and directions have states of one width",
            )
