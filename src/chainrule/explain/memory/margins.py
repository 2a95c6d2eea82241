"""How far estimated times may be off, beside the time of the same step without a budget.

An estimate adds up instructions, and knows neither what is still in the caches nor new pages.  The
margins hold what was measured in the programs of benchmarks/budget_time.py on three processors
(benchmarks/results.md says in how many cases).
"""

from __future__ import annotations

from chainrule.execute.executors import executor_of

BUDGET = 0.05  # of the time of a plan that computes values again
PARTS = 0.10  # of the time of a batch in parts, and of a smaller one,
OF_MORE = 0.3  # and of what that takes more than the whole batch
NEW_PAGES = 0.3  # of any, where each array is allocated by itself, on pages that may be new


MEASURE = "times are estimated: measure=True takes steps here, and says how long they take"


def margin(executor: str, nanoseconds: float, plain: float, *, is_whole: bool) -> float:
    """The fraction by which a time may be less or more than estimated; `plain` is that of the
    step without a budget, `is_whole` says whether the whole batch goes at once."""
    if nanoseconds == plain:
        return 0.0
    if not executor_of(executor).traits.one_block:
        return NEW_PAGES
    more = max(1 - plain / nanoseconds, 0.0) if nanoseconds else 0.0
    return BUDGET if is_whole else PARTS + OF_MORE * more


def in_words(fraction: float) -> str:
    """A margin beside a number: `± 5%`; nothing where there is none."""
    return f"± {fraction:.0%}" if fraction else ""
