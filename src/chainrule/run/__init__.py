"""Numbers: the reference executor, and runs whose values have names."""

from chainrule.run.run import Run, run_graph

__all__ = ["Run", "run_graph"]
