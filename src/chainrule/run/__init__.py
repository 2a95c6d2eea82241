"""Numbers: the executors, and runs whose values have names."""

from chainrule.run.compiled import CompiledGraph
from chainrule.run.run import Run, run_graph

__all__ = ["CompiledGraph", "Run", "run_graph"]
