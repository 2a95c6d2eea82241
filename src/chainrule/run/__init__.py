"""Numbers: the executors, and runs whose values have names."""

from chainrule.run.compiled import CompiledGraph
from chainrule.run.executors import register_executor
from chainrule.run.run import Run, run_graph

__all__ = ["CompiledGraph", "Run", "register_executor", "run_graph"]
