"""The result of an evaluation: the mean objective, accuracy and confusion counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass, field
from chainrule.errors import IndexOutOfRangeError
from chainrule.graph.in_notebooks import ShownByText
from chainrule.train.step.counting import Accuracy


@dataclass(frozen=True)
class Measures(ShownByText):
    """The objective over `count` rows, and, where classes were asked for, how many were right.

    `objective` is the mean of the batches' objectives, each counted by its rows: the objective of
    all rows at once, where that is a mean over rows plus what does not depend on them.
    `accuracy` is the fraction of rows whose largest score is that of their label;
    `confusion[i, j]` counts the rows of class i that were taken for class j, int64.  Both are None
    where no classes were named.
    """

    objective: float
    accuracy: float | None
    confusion: NDArray[np.int64] | None = field(compare=False)
    count: int

    def __str__(self) -> str:
        shown = f"objective {self.objective:.4f}"
        if self.accuracy is not None:
            shown += f", accuracy {self.accuracy:.1%}"
        return f"{shown} of {self.count:,} rows"


def confused(scores: np.ndarray, labels: np.ndarray, names: Accuracy) -> NDArray[np.int64]:
    """int64[classes, classes]: how many rows of each class were taken for each class.

    IndexOutOfRangeError for a label that is no class.
    """
    classes = scores.shape[1]
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        row = int(wrong[0])
        raise IndexOutOfRangeError(
            f"{names[1]}[{row}] is {labels[row]}, and {names[0]} has scores for the {classes} "
            f"classes 0 to {classes - 1}",
            hint="check the labels: classes count from 0",
        )
    cells = labels.astype(np.int64) * classes + scores.argmax(axis=1)
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes).astype(np.int64)
