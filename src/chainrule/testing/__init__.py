"""Checks for derivatives, primitives and schedules, and planted faults that test the checks."""

from chainrule.testing.checks import CHECKS, check_primitive
from chainrule.testing.faults import FAULTS, planted_fault
from chainrule.testing.gradients import check_gradients, check_modes_agree
from chainrule.testing.samples import as_function, graph_of, sample_arrays
from chainrule.testing.simulator.simulate import simulate

__all__ = [
    "CHECKS",
    "FAULTS",
    "as_function",
    "check_gradients",
    "check_modes_agree",
    "check_primitive",
    "graph_of",
    "planted_fault",
    "sample_arrays",
    "simulate",
]
