"""Numbers: the executors, and runs whose values have names."""

from chainrule.execute.compiled import CompiledGraph
from chainrule.execute.executors import register_executor
from chainrule.execute.run import Run, run_graph

__all__ = ["CompiledGraph", "Run", "register_executor", "run_graph"]
