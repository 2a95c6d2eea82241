"""Calls of reductions, statistics and what is made of them, and the same for the referees."""

from __future__ import annotations

from typing import Any

import numpy as np
from composite_cases import case

ROWS: tuple[Any, ...] = ((2, 3), (3, 4))
HOLES = "np.array([[np.nan, 1.0, 0.0], [2.0, np.nan, 3.0]])"
NUMBERS = "torch.tensor([[False, True, True], [True, False, True]])"
POINTS = "[-1.0, 0.0, 1.5, 2.5]"

case(np.average, "np.average(x, 1, y**2)", None, "(x * y**2).sum(1) / (y**2).sum(1)", ((2, 3),) * 2)
case(np.ptp, "np.ptp(x, axis=1)", "np.max(x, 1) - np.min(x, 1)", "x.amax(1) - x.amin(1)", *ROWS)
case(np.median, "np.median(x, 0)", None, "torch.quantile(x, 0.5, 0)", *ROWS)
for q in ("0.3", "[0.1, 0.75]"):
    expected = f"torch.quantile(x, torch.tensor({q}, dtype=x.dtype), 1)"
    case(np.quantile, f"np.quantile(x, {q}, 1)", None, expected, *ROWS)
case(np.percentile, "np.percentile(x, 25.0, 1)", None, "torch.quantile(x, 0.25, 1)", *ROWS)
for name, among_numbers in (
    ("nansum", "torch.where(m, x, 0.0).sum(1)"),
    ("nanprod", "torch.where(m, x, 1.0).prod(1)"),
    ("nancumsum", "torch.where(m, x, 0.0).cumsum(1)"),
    ("nancumprod", "torch.where(m, x, 1.0).cumprod(1)"),
    ("nanmax", "torch.where(m, x, -torch.inf).amax(1)"),
    ("nanmin", "torch.where(m, x, torch.inf).amin(1)"),
    ("nanmean", "torch.where(m, x, 0.0).sum(1) / 2"),
    ("nanmedian", "torch.nanquantile(torch.where(m, x, torch.nan), 0.5, 1)"),
    ("nanargmax", "x[[0, 1], torch.where(m, x, -torch.inf).argmax(1)]"),
    ("nanargmin", "x[[0, 1], torch.where(m, x, torch.inf).argmin(1)]"),
    ("nanvar", "torch.stack([x[0, 1:], x[1, ::2]]).var(1, correction=0)"),
    ("nanstd", "torch.stack([x[0, 1:], x[1, ::2]]).std(1, correction=0)"),
):
    ours = f"np.{name}(np.where({HOLES} == {HOLES}, x, np.nan), 1)"
    if "arg" in name:
        ours = f"x[np.arange(2), {ours}]"
    case(getattr(np, name), ours, None, among_numbers.replace("m, ", f"{NUMBERS}, "), (2, 3))
for name in ("nanquantile", "nanpercentile"):
    ours = f"np.{name}(np.where({HOLES} == {HOLES}, x, np.nan), {30 if 'cent' in name else 0.3}, 1)"
    expected = f"torch.nanquantile(torch.where({NUMBERS}, x, torch.nan), 0.3, 1)"
    case(getattr(np, name), ours, None, expected, (2, 3))

case(np.diff, "np.diff(x, 2, axis=0)", "np.diff(x, 2, axis=0)", "torch.diff(x, 2, 0)", (4, 2))
case(np.ediff1d, "np.ediff1d(x)", None, "torch.diff(x.reshape(-1))", *ROWS)
case(
    np.gradient,
    "np.gradient(x, axis=1)",
    None,  # autograd's fails for axes of fewer than four elements
    "torch.gradient(x, dim=1)[0]",
    *ROWS,
)
case(np.trapezoid, "np.trapezoid(x, y)", None, "torch.trapezoid(x, y)", ((2, 3), (3,)))
case(np.unwrap, "np.unwrap(x)", "x", "x", (3,), domain=(-1.0, 1.0))
case(np.cov, "np.cov(x)", None, "torch.cov(x)", *ROWS)
case(np.corrcoef, "np.corrcoef(x)[0, 1]", None, "torch.corrcoef(x)[0, 1]", *ROWS)
sliding = "torch.nn.functional.conv1d(x[None, None], {}[None, None], padding={})[0, 0]"
case(
    np.convolve,
    "np.convolve(x, y)",
    None,
    sliding.format("y.flip(0)", 2),
    ((5,), (3,)),
)
case(np.correlate, "np.correlate(x, y)", None, sliding.format("y", 0), ((5,), (3,)))
case(
    np.searchsorted,
    f"x * np.searchsorted({POINTS}, x)",
    None,
    f"x * torch.searchsorted(torch.tensor({POINTS}, dtype=x.dtype), x.detach())",
    *ROWS,
)
case(
    np.digitize,
    f"x * np.digitize(x, {POINTS})",
    None,
    f"x * torch.bucketize(x.detach(), torch.tensor({POINTS}, dtype=x.dtype), right=True)",
    *ROWS,
)
case(
    np.interp,
    "np.interp(x, np.array([-3.0, 3.0]), y)",
    "y[0] + (y[1] - y[0]) * (x + 3) / 6",
    "y[0] + (y[1] - y[0]) * (x + 3) / 6",
    ((3,), (2,)),
)
case(
    np.bincount,
    "np.bincount(np.array([0, 2, 0]), x)",
    None,
    "torch.stack([x[0] + x[2], 0 * x[0], x[1]])",
    (3,),
)
