"""Finds where a NaN or an inf came from: replays the step, and names the first bad value."""

from chainrule.explain.nonfinite.diagnosis import Diagnosis
from chainrule.explain.nonfinite.find import nonfinite, nonfinite_step

__all__ = ["Diagnosis", "nonfinite", "nonfinite_step"]
