"""`dropout`: sets random elements to zero and scales the others, so that the mean stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import require_flag
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.plain import refuse_among
from chainrule.random.distributions import bernoulli, in_dtype

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def _gradient(g: Any, out: Any, call: Any) -> Any:
    """The same elements are dropped, the others divided by the same number."""
    return dropout(g, call["rate"], key=call["key"])


@composite(symbol="dropout", latex=r"\operatorname{dropout}", gradients={"x": _gradient})
def dropout(x: Any, rate: Any, *, key: Any = None, training: bool = True) -> Any:
    """x with each element zero with probability `rate`, the others divided by 1 - rate
    (Srivastava et al., 2014, in the form that leaves prediction alone).

    Without a key or with training=False, for prediction, x itself.  The rate may be traced:
    changing it compiles nothing.  It is from 0 to 1, where 0 keeps and 1 drops everything.
    """
    trace = trace_of((x, rate, key))
    given = [one for one in (x, rate, key) if not isinstance(one, Traced)]
    refuse_among(given, "cr.dropout", trace.where() if trace is not None else "")
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        raise InputError(
            f"dropout: rate={rate!r} is not from 0 to 1",
            where=trace.where() if trace is not None else "",
            hint="the rate is the part of the elements that is dropped: 0.1 for 10 %",
        )
    require_flag((x, rate, key), training, "dropout: training")
    if key is None or not training:
        return x.copy() if isinstance(x, Traced) else x
    if trace is not None and not isinstance(key, Traced):
        key = Traced(as_node(trace, key), trace)  # where the shape has named sizes, too
    x = x if isinstance(x, Traced) else np.asarray(x)
    kept = bernoulli(key, in_dtype(1 - rate, FLOAT32), np.shape(x))  # one mask for all dtypes of x
    keep = in_dtype(1 - rate, x.dtype if dtype_kind(x.dtype) == "f" else FLOAT64)
    # Where all is dropped the quotient must stay finite, or 0 * inf would make its derivative NaN.
    return np.where(kept, x / np.where(keep > 0, keep, 1), 0)
