"""PyTorch's resizing, sampling by grids, and bags of embeddings: chainrule's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import dtype_of
from chainrule.nn.grid_sampling import grid_sample
from chainrule.nn.interpolation import interpolate
from chainrule.nn.layers import embedding
from chainrule.nn.pooling import lowest_of

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _resized(mode: str, *, aligns: bool = True, antialias: bool = False) -> Any:
    """upsample.vec(x, size, align_corners, factors); upsample(x, size, align_corners, *factors)."""

    def resize(x: Any, output_size: Any, *given: Any, **named: Any) -> Any:
        given = (*given, *named.values())
        align_corners = given[0] if aligns else None
        factors = [one for one in given[1 if aligns else 0 :] if one is not None]
        if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
            factors = factors[0]
        which: Any = {"scale_factor": tuple(factors)} if factors else {"size": tuple(output_size)}
        options = {"align_corners": align_corners} if aligns else {}
        return interpolate(x, **which, mode=mode, antialias=antialias, **options)

    return resize


def _grid_sampler(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    return grid_sample(x, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The sums (mode 0), means (1) or largest elements (2) of rows, bag by bag: the i-th bag begins
    at the i-th offset."""
    bags = np.shape(offsets)[0] - (1 if include_last_offset else 0)
    offsets = offsets[:bags]
    places = np.arange(np.shape(indices)[0])
    bag = np.sum(offsets[None, :] <= places[:, None], axis=-1) - 1
    rows = embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    counts = (indices != padding_idx)[:, None]
    width = np.shape(weight)[1]
    count: Any = np.zeros_like(rows, shape=(bags, 1))
    count = count.at[bag].add(counts.astype(dtype_of(rows)))
    begin = lowest_of(dtype_of(rows)) if mode == 2 else 0
    whole: Any = np.full_like(rows, begin, shape=(bags, width))
    if mode == 2:
        found = np.where(count > 0, whole.at[bag].max(np.where(counts, rows, begin)), 0)
    else:
        found = whole.at[bag].add(np.where(counts, rows, 0))
    if mode == 1:
        found = found / np.maximum(count, 1)
    return found, None, None, None


RESAMPLING: dict[str, Any] = {
    **{f"upsample_nearest{n}d": _resized("nearest", aligns=False) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _resized("nearest-exact", aligns=False) for n in (1, 2, 3)},
    "upsample_linear1d": _resized("linear"),
    "upsample_bilinear2d": _resized("bilinear"),
    "upsample_bicubic2d": _resized("bicubic"),
    "upsample_trilinear3d": _resized("trilinear"),
    "_upsample_bilinear2d_aa": _resized("bilinear", antialias=True),
    "_upsample_bicubic2d_aa": _resized("bicubic", antialias=True),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sampler),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
}
