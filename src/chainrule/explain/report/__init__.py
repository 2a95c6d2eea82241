"""A graph, its values and its memory as one page for a browser, which needs nothing else."""

from chainrule.explain.report.report import Report, report

__all__ = ["Report", "report"]
