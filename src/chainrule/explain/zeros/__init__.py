"""Finds why elements of gradients are 0, and which units are dead."""

from chainrule.explain.zeros.causes import Why
from chainrule.explain.zeros.find import zeros
from chainrule.explain.zeros.found import Cause, ZeroElements, Zeros
from chainrule.explain.zeros.units import DeadUnits

__all__ = ["Cause", "DeadUnits", "Why", "ZeroElements", "Zeros", "zeros"]
