"""`follow`: shows a running training in a notebook, by its history and norms of named values."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable, Mapping
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.explain.plot import COLOURS, Axis, Plot, Series
from chainrule.tracebacks import entry
from chainrule.train.loop.epoch import Epoch
from chainrule.train.loop.trainer import Trainer

SECONDS = 0.25  # between two pictures at least: a short step is not held up
CHARTS = {
    "objective": {"objective": "training", "validation_objective": "validation"},
    "accuracy": {"accuracy": "training", "validation_accuracy": "validation"},
}


class Following:
    """A training that is followed: `epochs` and `fit` train, and what they show changes meanwhile.

    `norms` has a dict for each line of the history: the step, and the norm of each value.
    """

    def __init__(
        self, trainer: Trainer, norms: tuple[str, ...], batch: Mapping[str, Any] | None
    ) -> None:
        self.trainer = trainer
        self.norms: list[dict[str, float]] = []
        self._names, self._batch = norms, batch
        self._shown: Any = None  # IPython's handle of what is displayed
        self._next = 0.0  # when the next picture may be made

    @entry
    def epochs(self, number: int) -> Generator[Epoch, None, None]:
        """Trains up to epoch `number` in all, as `Trainer.epochs`."""
        self._display()
        listeners = self.trainer._loop.history.listeners
        listeners.append(self._take)
        try:
            for epoch in self.trainer.epochs(number):
                self._update(last=True)
                yield epoch
        finally:
            listeners.remove(self._take)

    @entry
    def fit(self, number: int) -> list[dict[str, Any]]:
        """Trains up to epoch `number` in all, as `epochs`; returns the history."""
        for _ in self.epochs(number):
            pass
        return self.trainer.history

    def _take(self, line: Mapping[str, Any]) -> None:
        """After a line of the history."""
        if self._names:
            self.norms.append({"step": line["step"], **self._norms()})
        self._update()

    def _norms(self) -> dict[str, float]:
        graph = self.trainer.step.differentiated
        arguments = {**(self._batch or {}), **self.trainer.state.weights}
        run = graph.run(arguments, keep=list(self._names))
        return {name: float(np.linalg.norm(run[name])) for name in self._names}

    def _display(self) -> None:
        """Shows it once, where there is a notebook."""
        if self._shown is None and "IPython" in sys.modules:
            from IPython.core.getipython import get_ipython
            from IPython.display import display

            if get_ipython() is not None:
                self._shown = display(self, display_id=True)

    def _update(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._shown is not None and (last or now >= self._next):
            self._shown.update(self)
            self._next = now + SECONDS

    def __str__(self) -> str:
        objectives = [line.get("objective") for line in self.trainer.history]
        last = f"objective {objectives[-1]:.4g}" if objectives and objectives[-1] else "no step yet"
        return f"{self.trainer.epoch} epochs, {last}"

    def __repr__(self) -> str:
        return f"<Following: {self}>"

    def _repr_html_(self) -> str:
        charts = [
            _chart(title, found)
            for title, keys in CHARTS.items()
            if (found := _series(self.trainer.history, keys))
        ] or [_chart("objective", {})]
        if self._names:
            names = dict.fromkeys(self._names, "")
            charts.append(_chart("norms", _series(self.norms, names), logarithmic=True))
        return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(charts)}</div>'


def _chart(
    title: str, lines: Mapping[str, list[tuple[float, float]]], logarithmic: bool = False
) -> str:
    """The lines by step, as SVG."""
    told = (f"{name} {points[-1][1]:.4g} at last" for name, points in lines.items() if points)
    return Plot(
        title,
        Axis("step", lambda value: f"{value:,.0f}", whole=True),
        Axis("", lambda value: f"{value:.4g}", logarithmic=logarithmic, from_zero=False),
        [
            Series(name, points, number % COLOURS, dots=len(points) == 1)
            for number, (name, points) in enumerate(lines.items())
        ],
        f"{title} by steps: {', '.join(told) or 'nothing yet'}.",
        width=460,
        height=300,
    ).svg()


def _series(
    lines: Iterable[Mapping[str, Any]], keys: Mapping[str, str]
) -> dict[str, list[tuple[float, float]]]:
    """The points (step, number) of each key that any line has, by what it is called in the picture
    (its own name where that is ''); what is None is NaN."""
    lines = list(lines)
    return {
        called or key: [
            (line["step"], float("nan") if line[key] is None else line[key])
            for line in lines
            if key in line
        ]
        for key, called in keys.items()
        if any(key in line for line in lines)
    }


@entry
def follow(
    trainer: Trainer,
    norms: str | Iterable[str] = (),
    batch: Mapping[str, Any] | None = None,
) -> Following:
    """Follows a training in a notebook: objective and accuracy as lines that grow.

        view = cr.follow(trainer, norms=("dJ/dW1", "dJ/dW2"), batch={"x": x[:64], "y": y[:64]})
        view.fit(10)

    A point is added for each line of `trainer.history`: each epoch, and every `log_every` steps.
    `norms` are names of values or gradients whose Euclidean norms on `batch` are followed, too;
    these are computed by the reference executor, one pass for each line.  In a notebook the picture
    replaces itself, without a server or a widget; elsewhere nothing is shown, and
    `view._repr_html_()` has it.

    NameLookupError for a name that the step's graph does not have; InputError for `norms` without
    `batch`, or what is no trainer.
    """
    if not isinstance(trainer, Trainer):
        raise InputError(
            f"a trainer is followed, got {type(trainer).__name__}",
            hint="cr.follow(cr.Trainer(objective, parameters, optimizer, data))",
        )
    names = (norms,) if isinstance(norms, str) else tuple(norms)
    if names and batch is None:
        raise InputError(
            "norms are computed on a batch, and there is none",
            hint='pass rows of the data: batch={"x": x[:64], "y": y[:64]}',
        )
    for name in names:
        trainer.step.differentiated[name]  # NameLookupError says what there is
    view = Following(trainer, names, batch)
    if names:
        view._norms()  # what is missing or does not fit is said now, not after the first epoch
    return view
