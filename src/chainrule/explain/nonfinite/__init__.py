"""Where a NaN or an inf came from: the step replayed, the first bad value, and what it poisoned."""

from chainrule.explain.nonfinite.diagnosis import Diagnosis
from chainrule.explain.nonfinite.find import nonfinite, nonfinite_step

__all__ = ["Diagnosis", "nonfinite", "nonfinite_step"]
