"""Padding, pooling, resizing and windows of images, with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

import chainrule as cr

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def cropped(x, pairs):
    ends = zip(np.shape(x), pairs, strict=True)
    return x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in ends)]


def pad(x, pads, mode="constant", value=None):
    """Pairs from the last axis on; a negative number takes elements away."""
    pairs = [(0, 0)] * (np.ndim(x) - len(pads) // 2)
    pairs += list(zip(pads[::2], pads[1::2], strict=True))[::-1]
    options = {"constant_values": value or 0} if mode == "constant" else {}
    if mode == "circular":  # which wraps what is left
        x = cropped(x, pairs)
        return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], "wrap")
    padded = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], MODES[mode], **options)
    return cropped(padded, pairs)


def numbers(value, count):
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def edges(length, parts):
    return [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]


def adaptive(name):
    def call(x, size, return_indices=False):
        return getattr(cr, name)(x, tuple(size) if isinstance(size, list) else size)

    return call


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, **options):
    size, scale_factor = (tuple(v) if isinstance(v, list) else v for v in (size, scale_factor))
    return cr.interpolate(x, size, scale_factor, mode, align_corners, **options)


def upsample(mode, aligned=None):
    def call(x, size=None, scale_factor=None):
        return interpolate(x, size, scale_factor, mode, aligned)

    return call


def antialiased(x, output_size, align_corners, scale_factors=None):
    return interpolate(
        x, output_size, scale_factors, "bilinear", align_corners=align_corners, antialias=True
    )


def grid_sampler(x, grid, mode, padding, aligned):
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return cr.grid_sample(x, grid, modes[mode], paddings[padding], aligned)


def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    return cr.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    tall, wide = numbers(kernel_size, 2)
    gaps, pads, steps = (numbers(v, 2) for v in (dilation, padding, stride))
    batched = x if np.ndim(x) == 4 else x[None]
    padded = np.pad(batched, ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    height, width = np.shape(padded)[2:]
    rows = np.arange(0, height - gaps[0] * (tall - 1), steps[0])
    columns = np.arange(0, width - gaps[1] * (wide - 1), steps[1])
    down = np.arange(tall)[:, None, None, None] * gaps[0] + rows[:, None]
    across = np.arange(wide)[:, None, None] * gaps[1] + columns
    taken = padded[:, :, down, across]  # rows, channels, tall, wide, places down and across
    count = np.shape(batched)[1] * tall * wide
    found = np.reshape(taken, (np.shape(batched)[0], count, len(rows) * len(columns)))
    return found if np.ndim(x) == 4 else found[0]


def pixel_shuffle(x, upscale_factor):
    factor = upscale_factor
    *outer, channels, height, width = np.shape(x)
    parts = np.reshape(x, (*outer, channels // factor**2, factor, factor, height, width))
    k = len(outer)
    moved = np.transpose(parts, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return np.reshape(moved, (*outer, channels // factor**2, height * factor, width * factor))


def pixel_unshuffle(x, downscale_factor):
    factor = downscale_factor
    *outer, channels, height, width = np.shape(x)
    shape = (*outer, channels, height // factor, factor, width // factor, factor)
    k = len(outer)
    moved = np.transpose(np.reshape(x, shape), (*range(k + 1), k + 2, k + 4, k + 1, k + 3))
    return np.reshape(moved, (*outer, channels * factor**2, height // factor, width // factor))


def channel_shuffle(x, groups):
    rows, channels, *rest = np.shape(x)
    parts = np.reshape(x, (rows, groups, channels // groups, *rest))
    return np.reshape(np.swapaxes(parts, 1, 2), np.shape(x))


def bilinear(x, y, weight, bias=None):
    found = np.einsum("...i,oij,...j->...o", x, weight, y)
    return found if bias is None else found + bias


TABLE = (
    {
        f"nn.functional.{name}": value
        for name, value in {
            "pad": pad,
            "interpolate": interpolate,
            "upsample_bilinear": upsample("bilinear", True),
            "upsample_nearest": upsample("nearest"),
            "unfold": unfold,
            "pixel_shuffle": pixel_shuffle,
            "pixel_unshuffle": pixel_unshuffle,
            "channel_shuffle": channel_shuffle,
            "bilinear": bilinear,
        }.items()
    }
    | {
        f"nn.functional.adaptive_{kind}_pool{axes}d": adaptive(f"adaptive_{kind}_pool{axes}d")
        for kind in ("avg", "max")
        for axes in (1, 2, 3)
    }
    | {
        "_upsample_bilinear2d_aa": antialiased,
        "grid_sampler_2d": grid_sampler,
        "grid_sampler_3d": grid_sampler,
        "nn.functional.grid_sample": grid_sample,
        "constant_pad_nd": lambda x, pads, value=0: pad(x, pads, "constant", value),
    }
)
