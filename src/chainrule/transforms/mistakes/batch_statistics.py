"""Warns where a prediction normalises by the statistics of its batch, as in training."""

from __future__ import annotations

import numpy as np

from chainrule.errors import BatchStatisticsWarning, ChainruleError
from chainrule.graph.body import inner_nodes
from chainrule.graph.graph import Graph
from chainrule.tracebacks import warn_user

NORMALISED = "batch_norm"  # the name of the composite


def warn_of_batch_statistics(graph: Graph) -> None:
    """A BatchStatisticsWarning where a graph to be predicted with calls `cr.batch_norm` for
    training: each row of a prediction then depends on the other rows of its batch."""
    for node in (*graph.nodes, *inner_nodes(graph)):
        for scope in node.origin.scopes:
            training = dict(scope.arguments).get("training")
            if scope.name == NORMALISED and isinstance(training, (bool, np.bool_)) and training:
                said = ChainruleError(  # not raised: its text has the form of every message
                    f"{', '.join(name for name, _ in graph.outputs)} of {graph.name} is predicted "
                    "with the mean and variance of each batch, as in training: a row depends on "
                    "the others",
                    where=node.origin.describe(),
                    hint="give the objective an argument training=True, and pass it on: "
                    "cr.batch_norm(..., training=training);\nevaluation and prediction then take "
                    "the running statistics",
                )
                warn_user(str(said), BatchStatisticsWarning)
                return
