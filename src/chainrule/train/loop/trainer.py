"""`Trainer`: a training loop that shows its progress and resumes after it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import InputError, StateError
from chainrule.execute.arguments import bound_to
from chainrule.graph.by_name import sizes_by_name
from chainrule.graph.graph import Graph
from chainrule.tracebacks import entry, warn_user
from chainrule.train.checkpoints.file import check_names
from chainrule.train.checkpoints.folder import absolute
from chainrule.train.evaluation.evaluate import checked_key, measured
from chainrule.train.evaluation.forward import Forward
from chainrule.train.evaluation.measures import Measures
from chainrule.train.evaluation.predict import predicted
from chainrule.train.loop.assembly import assembled, counted, split_over
from chainrule.train.loop.divergence import is_finite
from chainrule.train.loop.epoch import Epoch
from chainrule.train.loop.feed import Feed
from chainrule.train.loop.history import NAME, History
from chainrule.train.loop.learning_rate import learning_rate_of
from chainrule.train.loop.loop import NONFINITE, Loop
from chainrule.train.loop.position import Position
from chainrule.train.loop.saving import Saving, writing_seconds
from chainrule.train.loop.session import Session
from chainrule.train.loop.watching import sizes_in
from chainrule.train.optimizers.optimizer import Optimizer
from chainrule.train.step.counting import Accuracy
from chainrule.train.step.job import SplitStep, Step, first
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.weights import save_weights

if TYPE_CHECKING:
    from chainrule.explain.memory.lying import Layout
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.train.step.micro_memory import MicroBatchMemory

RESUME = ("auto", True, False)


class Trainer:
    """Trains `parameters` on `data`: `for epoch in trainer.epochs(10): ...`, or `trainer.fit(10)`.

    `objective` is a function (traced) or a graph, trained with `optimizer`; or a training step,
    which has its optimizer, also in micro-batches or split over ranks (`cr.parallel`).
    `parameters` are the arrays, or containers of arrays, to begin with, by the names of inputs; all
    are trained, or those that `wrt` names.  `of` says which output is the objective where there are
    several; `state` names those of `parameters` that the objective carries from step to step, as
    for `cr.training_step`.

    `data` are arrays by the names of inputs, with a row for each example: each epoch takes them in
    batches of `batch_size` rows, in an order of its own.  Or a function of the epoch's number
    (from 1) that returns its batches, the same for the same number; or batches that can be read
    again in each epoch, such as a list or a DataLoader.  A batch is a dict of arrays, or a tuple
    or list of arrays or tensors in the order of the objective's arguments.
    `validation` are such arrays, or batches, that are measured after every epoch.
    `accuracy=("o", "y")` names class scores [n, classes] and labels [n].

    `key` (default: `cr.random.key(0)`) decides all that is random.  The order of an epoch is
    `cr.data.minibatches(..., fold_in(key, 0), epoch=number)`.  Inputs of type uint32[2] that nobody
    gives are keys: the i-th of them (from 1) gets fold_in(fold_in(key, i), t) in the step that
    comes after t others.  In evaluation and prediction `cr.dropout` is the identity,
    and an argument `training` that is a bool is False.

    `folder` is where checkpoints and `history.jsonl` go: a checkpoint after every epoch, or after
    every `save_every` steps, and at the end.  The last `keep_last` are kept, and the `keep_best`
    with the smallest validation objective (without validation: objective).  `resume="auto"` goes
    on from the newest one, as if nothing had happened, if there is one; True wants one, and False
    none.  `log_every` adds a line to the history after so many steps.

    `progress` shows a bar in a terminal, elsewhere a line for each epoch.  `nonfinite` is what
    happens to NaN and infinity: "auto" finds out why, once the objective is not finite, "every
    step" looks before each step (slowly, on the reference executor), "off" goes on.
    `micro_batches` is the number of parts of a batch that are worked off one after another, as by
    `TrainingStep.micro_batched`; `executor` and `memory` as for `cr.training_step`.
    `devices=4`, or `cr.Devices.cpu(4)`, searches for the best split of the step over devices, for
    the first batch, as `cr.parallel` does.
    """

    @entry
    def __init__(
        self,
        objective: Callable[..., Any] | Graph | Step,
        parameters: Mapping[str, Any],
        optimizer: Optimizer | None = None,
        data: Any = None,
        *,
        batch_size: int = 32,
        wrt: Any = None,
        of: str | None = None,
        state: str | Iterable[str] = (),
        validation: Any = None,
        accuracy: Accuracy | None = None,
        key: Any = None,
        folder: str | Path | None = None,
        save_every: int | None = None,
        keep_last: int = 3,
        keep_best: int = 1,
        resume: bool | str = "auto",
        log_every: int | None = None,
        progress: bool = True,
        nonfinite: str = "auto",
        micro_batches: int = 1,
        executor: str | None = None,
        memory: int | str | None = None,
        devices: Any = None,
    ) -> None:
        _check_choices(resume, nonfinite, folder, save_every)
        for name, value in {"save_every": save_every, "log_every": log_every}.items():
            if value is not None:
                counted(name, value)
        self.key, self.batch_size = checked_key(key).copy(), counted("batch_size", batch_size)
        made = assembled(
            objective,
            parameters,
            optimizer,
            wrt,
            of,
            state,
            accuracy,
            micro_batches,
            executor,
            memory,
            devices is not None,
        )
        arrays = made.state.arrays
        check_names([*arrays, *made.constants])
        feed = Feed(
            made.whole.graph,
            data,
            self.batch_size,
            self.key,
            arrays,
            made.constants,
            made.row_size,
        )
        if devices is not None:
            batch = next(feed.first(), None)
            rows = self.batch_size
            sizes = rows if batch is None else sizes_in(made.whole, made.state, batch)
            made = split_over(made, devices, sizes, micro_batches)
        self.validation, self._made = validation, made
        saving, found = None, None
        if folder is not None:
            names = (*made.whole.weights, *made.constants)
            place, described = absolute(folder), feed.described()
            saving = Saving(place, made, keep_last, keep_best, described, names)
            found = saving.find(resume)
            is_looked_at = nonfinite != "off" and not made.job.rank
            if is_looked_at and found is not None and not is_finite(found.state):
                text = f"the state in {saving.saved} has numbers that are not finite"
                warn_user(text, RuntimeWarning)
        self.state = made.state if found is None else found.state
        self._forwards: dict[tuple[str, ...], Forward] = {}
        self._loop = Loop(
            made=made,
            state=self.state,
            feed=feed,
            position=Position() if found is None else found.position,
            history=History(
                [] if found is None else found.history,
                None if saving is None or made.job.rank else saving.folder / NAME,
            ),
            learning_rate=learning_rate_of(made.whole, made.arrays_of),
            validate=None if validation is None else self._validate,
            nonfinite=nonfinite,
            log_every=log_every,
            save_every=save_every,
        )
        again = 'run the program with resume="auto"' if resume is False else "run the program again"
        shown = progress and not made.job.rank
        self._session = Session(self._loop, saving, save_every, shown, again)
        self._check_data(feed)

    def __reduce__(self) -> Any:  # of copies, too
        raise StateError(
            "a trainer is neither copied nor pickled: it holds its data, its folder and its place "
            "in them",
            hint="cr.Trainer(objective, trainer.state.parameters, ...) begins with its arrays; one "
            "with the same folder= goes on where this one stopped",
        )

    @property
    def step(self) -> TrainingStep:
        """The training step on a whole batch, even if `micro_batches` takes it in parts."""
        return self._made.whole

    @property
    def rank(self) -> int:
        """The rank that this process is in a job of several (`chainrule run`); 0 for one alone."""
        return self._made.job.rank

    @entry
    def collect(self) -> State:
        """The state with the arrays of all ranks, as a copy; every rank of a job calls it."""
        if self._made.job.count == 1:
            return self.state.copy()
        return self.step.restore(self._made.arrays_of(self.state), steps=self.state.steps)

    @property
    def split(self) -> SplitStep | None:
        """The step that is taken, where it is split over ranks: `print(trainer.split)`."""
        step = self._made.step
        return step if isinstance(step, SplitStep) else None

    @property
    def history(self) -> list[dict[str, Any]]:
        """The lines of `history.jsonl`: a dict for each epoch, and for every `log_every` steps."""
        return [dict(line) for line in self._loop.history.lines]

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return self._loop.position.epoch

    @entry
    def epochs(self, number: int) -> Generator[Epoch, None, None]:
        """Trains up to epoch `number` in all, and yields the results of each epoch.

        The loop may be left; a later one goes on.  Ctrl-C and SIGTERM finish the step that is being
        taken, save, and then raise KeyboardInterrupt or SystemExit; a second one stops at once.

        Raises NonFiniteError where the objective becomes NaN or infinite (`error.diagnosis` says
        why; the state is that before the bad step), StateError where another process trains in the
        folder, and what a step raises, told in which batch.
        """
        return self._session.epochs(counted("number", number, 0))

    @entry
    def fit(self, number: int) -> list[dict[str, Any]]:
        """Trains up to epoch `number` in all, as `epochs`; returns the history."""
        self._session.fit(counted("number", number, 0))
        return self.history

    @entry
    def evaluate(self, data: Mapping[str, Any] | Any = None, /, **named: Any) -> Measures:
        """Computes the objective over all rows, and accuracy and confusions if classes are named.

        `trainer.evaluate(x=x, y=y)`, or a dict of arrays, or batches; as `cr.evaluate`.
        """
        forward = self._present(self._measured)
        return measured(forward, _data(data, named), self.batch_size, job=self._made.job)

    @entry
    def predict(
        self, data: Mapping[str, Any] | Any = None, /, *, output: str | None = None, **named: Any
    ) -> np.ndarray:
        """Computes the value called `output` for all rows: `trainer.predict(x=x, output="o")`.

        By default the class scores that `accuracy` names.  Only what it needs has to be there; as
        `cr.predict`.
        """
        if output is None:
            if self._made.accuracy is None:
                raise InputError(
                    "no value was chosen to predict",
                    hint='trainer.predict(x=x, output="o"), with the name of a value',
                )
            output = self._made.accuracy[0]
        return predicted(self._present((output,)), _data(data, named), self.batch_size)

    @entry
    def evaluation_graph(self, *names: str) -> Graph:
        """The graph that computes these values (default: what `evaluate` needs) and nothing else,
        without the backward pass and dropout; `print(trainer.evaluation_graph("o").memory(n=256))`.
        """
        return self._forward_to(names or self._measured).graph

    @entry
    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        executor: str | None = None,
        layout: Layout | None = None,
        **named: int,
    ) -> MemoryReport | MicroBatchMemory:
        """The bytes that a step takes, in parts where it is taken so: `print(trainer.memory())`.

        `trainer.memory().largest("n", "8GiB")` says which batch fits.  Sizes that are not given are
        those of the first batch, where `data` are arrays; else as for `TrainingStep.memory`.
        """
        loop = self._loop
        batch = next(loop.feed.first(), None)
        known = {} if batch is None else sizes_in(self._made.whole, loop.state, batch)
        given = {**known, **sizes_by_name(self._made.whole.graph, "trainer.memory", sizes, named)}
        step = self._made.step
        if not isinstance(step, SplitStep):
            return step.memory(given, executor=executor, layout=layout)
        if executor is not None or layout is not None:
            raise InputError(
                "executor= and layout= are of a step of one process, and this one is split",
                hint="trainer.memory() of the ranks; trainer.step.memory(executor=...) of the "
                "step without a split",
            )
        return step.memory(given)

    @entry
    def save_weights(self, path: str | Path) -> Path:
        """Writes all parameters, and the state that the objective carries, to a safetensors file,
        for `cr.load_weights`; returns its path."""
        made = self._made
        if made.job.count == 1:
            return save_weights(path, {**self.state.weights, **made.constants})
        own = made.arrays_of(self.state, made.whole.weights, to=0)
        write = lambda: str(save_weights(path, {**own, **made.constants}))  # noqa: E731
        return Path(first(made.job, "saves weights", write, writing_seconds(self.state)))

    @property
    def _measured(self) -> tuple[str, ...]:
        """What `evaluate` computes: the objective, and scores and labels."""
        return (self._made.whole.objective, *(self._made.accuracy or ()))

    def _present(self, names: tuple[str, ...]) -> Forward:
        """What computes values with the parameters as they are now, of all ranks."""
        made, forward = self._made, self._forward_to(names)
        if made.job.count == 1:
            return forward
        return forward.on({**made.arrays_of(self.state, made.whole.weights), **made.constants})

    def _forward_to(self, names: tuple[str, ...]) -> Forward:
        if names not in self._forwards:
            whole = self._made.whole
            arrays = {name: self.state.outlines[name] for name in whole.weights}
            self._forwards[names] = Forward.of(
                whole.evaluation,
                names,
                {**arrays, **self._made.constants},
                self.key,
                whole.executor,
            )
        return self._forwards[names]

    def _validate(self, check: Callable[[], None]) -> Measures:
        forward = self._present(self._measured)
        return measured(forward, self.validation, self.batch_size, check, self._made.job)

    def _check_data(self, feed: Feed) -> None:
        """Refuse at once what a step, or the validation after an epoch, would refuse."""
        made = self._made
        for batch in feed.first():
            arguments = made.whole.arguments(self.state.arrays, batch)
            bound_to(made.whole.graph, arguments)
            if made.parts is not None:
                _refuse_unequal(made.parts, feed.count(batch))
        if self.validation is not None:
            self._forward_to(self._measured).check(self.validation, self.batch_size)


def _check_choices(
    resume: bool | str, nonfinite: str, folder: str | Path | None, save_every: int | None
) -> None:
    for name, value, known in (("resume", resume, RESUME), ("nonfinite", nonfinite, NONFINITE)):
        if not any(value is one or (value == one and isinstance(value, str)) for one in known):
            raise InputError(
                f"{name}={value!r} is not known",
                hint=f"one of: {', '.join(repr(one) for one in known)}",
            )
    if folder is None and (resume is True or save_every is not None):
        given = "resume=True" if resume is True else f"save_every={save_every!r}"
        raise InputError(f"{given} without a folder", hint='folder="run"')


def _refuse_unequal(parts: MicroBatchedStep, rows: int) -> None:
    """InputError for a batch, perhaps the last one of an epoch, that has no equal parts."""
    try:
        parts.part_of(rows)
    except InputError as error:
        raise InputError(
            error.what,
            hint=f"micro_batches= with a divisor of {rows}, another batch_size=, or batches "
            "without the rest: data=lambda epoch: cr.data.minibatches(arrays, 32, key, "
            "epoch=epoch, drop_last=True)",
        ) from None


def _data(data: Any, named: Mapping[str, Any]) -> Any:
    """What `evaluate` and `predict` were given: names, or one positional argument."""
    if data is None:
        return dict(named)
    if not named:
        return data
    if isinstance(data, Mapping):
        return {**data, **named}
    raise InputError("batches and arrays by name were given", hint="one of the two")
