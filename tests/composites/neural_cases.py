"""Calls of convolution, pooling, attention, normalisation and further losses, and PyTorch's."""

from __future__ import annotations

from typing import Any

from composite_cases import case

import chainrule as cr


def conv(shapes: Any, transposed: bool = False, **options: Any) -> None:
    """One case of a convolution of these shapes of x, weight and perhaps bias."""
    axes = len(shapes[1]) - 2
    given = ", ".join(
        ("x, y, z"[: 3 * len(shapes) - 2], *(f"{k}={v!r}" for k, v in options.items()))
    )
    name = f"{'conv_transpose' if transposed else 'conv'}{axes}d"
    case(getattr(cr, name), f"cr.{name}({given})", None, f"F.{name}({given})", shapes)


conv(((2, 3, 5), (4, 3, 3)))
conv(((2, 3, 5), (4, 3, 2), (4,)), stride=2, padding=1)
conv(((3, 6), (2, 3, 3)), dilation=2, padding="same")
conv(((2, 4, 5), (6, 2, 3), (6,)), groups=2, padding="same")
case(  # PyTorch warns of a copy
    cr.conv1d,
    "cr.conv1d(x, y, padding='same')",
    None,
    "F.conv1d(F.pad(x, (1, 2)), y)",
    ((2, 3, 5), (2, 3, 4)),
)
conv(((1, 1, 1), (1, 1, 1), (1,)))
conv(((2, 3, 4, 5), (2, 3, 3, 2), (2,)))
conv(((2, 3, 6, 5), (2, 3, 2, 2)), stride=(3, 2), padding=(1, 0))
conv(((2, 3, 6, 4), (2, 3, 3, 2)), stride=(3, 2))  # windows side by side
conv(((1, 2, 7, 6), (3, 2, 3, 2)), dilation=(2, 3), padding=2)
conv(((2, 4, 5, 4), (4, 1, 3, 3), (4,)), groups=4, padding="same")
conv(((2, 4, 5, 4), (6, 2, 2, 3)), groups=2, stride=2, padding=1, dilation=(1, 1))
conv(((2, 3, 3, 3), (4, 3, 1, 1)))
conv(((3, 4, 4), (2, 3, 2, 2), (2,)), padding="valid")
conv(((2, 1, 9, 9), (1, 1, 2, 2)), stride=4)  # some elements are in no window
conv(((1, 1, 3, 3), (1, 1, 3, 3)))  # one window
conv(((1, 2, 3, 4, 3), (3, 2, 2, 3, 2), (3,)))
conv(((2, 4, 5, 2, 3), (2, 2, 3, 1, 2)), stride=(2, 1, 2), padding=(1, 0, 2), groups=2)
conv(((2, 5, 3, 4), (1, 2, 3, 1, 3)), dilation=(1, 2, 2), padding="same")

conv(((2, 3, 5), (3, 2, 3)), True)
conv(((3, 2), (3, 1, 2), (1,)), True, stride=3, output_padding=2)
conv(((2, 4, 3), (4, 1, 2), (2,)), True, stride=2, padding=1, output_padding=1, groups=2)
conv(((1, 2, 4), (2, 2, 3)), True, padding=3, dilation=2, output_padding=1)
conv(((2, 3, 3, 4), (3, 2, 2, 3), (2,)), True)
conv(((2, 4, 2, 3), (4, 1, 3, 2), (4,)), True, groups=4, padding=1)
conv(((1, 2, 3, 2), (2, 3, 3, 2)), True, stride=(1, 2), padding=(2, 0), dilation=(2, 1))
conv(((2, 2, 1, 1), (2, 1, 3, 3)), True)  # each element in few windows: added back
conv(((2, 3, 3), (2, 1, 1, 1)), True, stride=4, output_padding=(3, 1))
conv(((1, 2, 2, 3), (2, 1, 2, 2)), True, padding=1, output_padding=1, dilation=3)
conv(((1, 2, 2, 1, 3), (2, 2, 2, 2, 1), (2,)), True, stride=(2, 1, 1), padding=(0, 0, 1))
conv(((4, 2, 2, 1), (4, 1, 1, 2, 2)), True, groups=2, dilation=2, output_padding=1)

case(cr.max_pool1d, "cr.max_pool1d(x, 2)", None, "F.max_pool1d(x, 2)", (2, 3, 5), (1, 4))
case(
    cr.max_pool1d,
    "cr.max_pool1d(x, 3, 2, 1, 2)",
    None,
    "F.max_pool1d(x, 3, 2, 1, 2)",
    (2, 2, 9),
)
case(
    cr.max_pool2d,
    "cr.max_pool2d(x, 2)",
    None,
    "F.max_pool2d(x, 2)",
    (2, 2, 4, 5),
    (2, 3, 3),
    (2, 2, 4, 6),
)
case(
    cr.max_pool2d,
    "cr.max_pool2d(x, (3, 2), stride=(1, 2), padding=1)",
    None,
    "F.max_pool2d(x, (3, 2), stride=(1, 2), padding=1)",
    (1, 2, 4, 5),
)
case(cr.max_pool2d, "cr.max_pool2d(x, 1, 3)", None, "F.max_pool2d(x, 1, 3)", (1, 2, 4, 5))
case(cr.avg_pool1d, "cr.avg_pool1d(x, 2)", None, "F.avg_pool1d(x, 2)", (2, 3, 5), (1, 4))
case(
    cr.avg_pool1d,
    "cr.avg_pool1d(x, 4, 1, 2, count_include_pad=False)",
    None,
    "F.avg_pool1d(x, 4, 1, 2, count_include_pad=False)",
    (2, 3, 5),
)
case(
    cr.avg_pool2d,
    "cr.avg_pool2d(x, 2)",
    None,
    "F.avg_pool2d(x, 2)",
    (2, 2, 4, 5),
    (2, 3, 3),
    (2, 2, 4, 6),
)
case(
    cr.avg_pool2d,
    "cr.avg_pool2d(x, 3, 2, 1)",
    None,
    "F.avg_pool2d(x, 3, 2, 1)",
    (1, 2, 4, 5),
)
case(
    cr.avg_pool2d,
    "cr.avg_pool2d(x, (3, 2), (1, 3), (1, 1), count_include_pad=False)",
    None,
    "F.avg_pool2d(x, (3, 2), (1, 3), (1, 1), count_include_pad=False)",
    (1, 2, 4, 5),
)


def pool(kind: str, options: str, *shapes: Any) -> None:
    """One case of a pooling that PyTorch calls alike, on arrays of these shapes."""
    axes = len(shapes[0]) - 2
    name = f"{kind}_pool{axes}d"
    case(getattr(cr, name), f"cr.{name}(x, {options})", None, f"F.{name}(x, {options})", *shapes)


pool("avg", "(2, 3), 2, 1, divisor_override=5", (1, 2, 4, 5))
pool("max", "2", (1, 2, 4, 3, 2), (2, 1, 2, 2, 5), (1, 2, 4, 2, 6))
pool("max", "(2, 1, 3), 2, (1, 0, 1), (1, 2, 1), True", (2, 1, 3, 4, 5))
pool("avg", "(2, 1, 2)", (1, 2, 4, 3, 2), (2, 1, 2, 2, 5))
pool("avg", "2, 2, 1, True, False", (1, 2, 4, 3, 2))
pool("avg", "2, 1, 1, False, True, -3", (1, 1, 2, 3, 2))
for kind in ("adaptive_avg", "adaptive_max"):
    pool(kind, "3", (2, 2, 7), (1, 2, 6), (2, 1, 1), (1, 2, 2))
    pool(kind, "(3, 2)", (2, 2, 7, 5), (1, 2, 3, 4), (2, 1, 4, 1))
    pool(kind, "(None, 2)", (2, 1, 3, 5))
    pool(kind, "1", (2, 3, 4, 5))
    pool(kind, "(2, 3, 1)", (1, 2, 3, 4, 2))


case(
    cr.logcumsumexp,
    "cr.logcumsumexp(x)",
    None,
    "torch.logcumsumexp(x, -1)",
    *((4,), (1,), (2, 3)),
)
case(cr.logcumsumexp, "cr.logcumsumexp(9 * x, 0)", None, "(9 * x).logcumsumexp(0)", (3, 2))


def resized(options: str, *shapes: Any) -> None:
    """One case of interpolate, which PyTorch calls alike."""
    call = f"interpolate(x, {options})"
    case(cr.interpolate, f"cr.{call}", None, f"F.{call}", *shapes)


resized("5", (2, 2, 3), (1, 2, 7), (1, 1, 1))
resized("scale_factor=(2, 3)", (1, 2, 3, 2))
resized("scale_factor=0.7, mode='nearest-exact'", (2, 1, 7))
resized("7, mode='linear'", (2, 2, 3), (1, 1, 9), (1, 1, 1))
resized("scale_factor=1.7, mode='bilinear'", (1, 2, 3, 4))
resized("scale_factor=1.7, mode='bilinear', recompute_scale_factor=True", (1, 2, 3, 4))
resized("(5, 2), mode='bilinear', align_corners=True", (1, 2, 3, 4), (1, 1, 1, 3))
resized("(2, 3, 4), mode='trilinear'", (1, 1, 3, 2, 2))
resized("(6, 2), mode='bicubic'", (1, 2, 3, 4), (1, 1, 1, 5))
resized("scale_factor=1.3, mode='bicubic', align_corners=True", (1, 1, 4, 5))
resized("(3, 2), mode='bilinear', antialias=True", (1, 2, 7, 5), (1, 1, 2, 4))
resized("(3, 2), mode='bicubic', antialias=True", (1, 2, 7, 5), (1, 1, 2, 4))
resized("(3, 2), mode='area'", (1, 2, 7, 4))


def sampled(shapes: Any, mode: str, padding: str, aligned: bool) -> None:
    """One case of grid_sample; places are up to 2.2 from the centre."""
    options = f"{mode!r}, {padding!r}, {aligned}"
    call = f"grid_sample(x, 1.1 * y, {options})"
    case(cr.grid_sample, f"cr.{call}", None, f"F.{call}", shapes)


IMAGE, VOLUME = ((1, 2, 3, 4), (1, 2, 2, 2)), ((2, 1, 2, 3, 2), (2, 1, 2, 1, 3))
for padding in ("zeros", "border", "reflection"):
    for aligned in (False, True):
        sampled(IMAGE, "bilinear", padding, aligned)
        sampled(IMAGE, "bicubic", padding, aligned)
        sampled(VOLUME, "bilinear", padding, aligned)
    sampled(IMAGE, "nearest", padding, False)

ATTENTION = "scaled_dot_product_attention"


def attention(shapes: Any, options: str = "", by_torch: str | None = None) -> None:
    """One case of attention with shapes of query, key and value."""
    theirs = options if by_torch is None else by_torch
    case(
        cr.scaled_dot_product_attention,
        f"cr.{ATTENTION}(x, y, z{options})",
        None,
        f"F.{ATTENTION}(x, y, z{theirs})",
        shapes,
    )


MASK = "[[True, False, True, False], [False] * 4, [True] * 4]"
attention(((3, 2), (4, 2), (4, 5)))
attention(((2, 3, 2), (2, 4, 2), (2, 4, 1)), ", scale=0.3")
for queries, keys in ((3, 3), (4, 3), (2, 3)):  # of four axes PyTorch has no second derivative
    attention(((2, queries, 4), (2, keys, 4), (2, keys, 4)), ", is_causal=True")
attention(((1, 1), (1, 1), (1, 1)))
attention(((2, 3, 2), (2, 4, 2), (2, 4, 3)), f", np.array({MASK})", f", torch.tensor({MASK})")
attention(
    ((3, 2), (4, 2), (4, 2)),
    f", np.where({MASK}, 0.5, -np.inf)",
    f", torch.where(torch.tensor({MASK}), 0.5, -torch.inf).double()",
)

ROWS: tuple[Any, ...] = ((3, 4), (2, 4, 3), (2, 4, 2, 3))
case(
    cr.batch_norm,
    "cr.batch_norm(x, None, None, training=True)[0]",
    None,
    "F.batch_norm(x, None, None, training=True)",
    *ROWS,
)
case(
    cr.batch_norm,
    "cr.batch_norm(x, np.zeros(4), np.ones(4), y, z, training=True)[0]",
    None,
    "F.batch_norm(x, None, None, y, z, True)",
    ((3, 4), (4,), (4,)),
    ((2, 4, 3), (4,), (4,)),
)
case(
    cr.batch_norm,
    "cr.batch_norm(x, np.arange(4.0), y, z, eps=0.1)[0]",
    None,
    "(x - torch.arange(4)[:, None]) / torch.sqrt(y + 0.1)[:, None] * z[:, None]",
    ((2, 4, 3), (4,), (4,)),
    domain=(1, 2),
)
case(
    cr.group_norm,
    "cr.group_norm(x, 2, y, z)",
    None,
    "F.group_norm(x, 2, y, z)",
    ((2, 4), (4,), (4,)),
    ((2, 4, 3, 2), (4,), (4,)),
)
case(cr.group_norm, "cr.group_norm(x, 4)", None, "F.group_norm(x, 4)", (2, 4, 3))
case(
    cr.instance_norm,
    "cr.instance_norm(x, y, z)",
    None,
    "F.instance_norm(x, None, None, y, z)",
    ((2, 3, 4), (3,), (3,)),
    ((2, 3, 2, 2), (3,), (3,)),
)
case(cr.rms_norm, "cr.rms_norm(x)", None, "F.rms_norm(x, x.shape[-1:])", (3,), (2, 3), (2, 1, 4))
case(
    cr.rms_norm,
    "cr.rms_norm(x, y, axis=(1, 2), eps=0.01)",
    None,
    "F.rms_norm(x, x.shape[1:], y, 0.01)",
    ((2, 3, 2), (3, 2)),
)

PAIRS: tuple[Any, ...] = (((2, 3), (2, 3)), ((), ()), ((3,), (3,)))
case(cr.huber, "cr.huber(x, y)", None, "F.huber_loss(x, y)", *PAIRS)
case(
    cr.huber,
    "cr.huber(x, y, 0.3, 'sum')",
    None,
    "F.huber_loss(x, y, delta=0.3, reduction='sum')",
    *PAIRS,
)
case(cr.absolute_error, "cr.absolute_error(x, y)", None, "F.l1_loss(x, y)", *PAIRS)
case(
    cr.absolute_error,
    "cr.absolute_error(x, y, 'none')",
    None,
    "F.l1_loss(x, y, reduction='none')",
    *PAIRS,
)
LOGITS = "binary_cross_entropy_with_logits"
case(
    cr.binary_cross_entropy_with_logits,
    f"cr.{LOGITS}(x, y)",
    None,
    f"F.{LOGITS}(x, y)",
    *PAIRS,
    domain=(0, 1),
)
case(
    cr.binary_cross_entropy_with_logits,
    f"cr.{LOGITS}(7 * x - 3, np.array([1.0, 0.25, 0]), np.array(0.3), 'sum', y)",
    None,
    "-0.3 * torch.sum(torch.tensor([1.0, 0.25, 0]).double() * y * F.logsigmoid(7 * x - 3)"
    " + torch.tensor([0.0, 0.75, 1]).double() * F.logsigmoid(3 - 7 * x))",
    ((3,), (3,)),
    domain=(0, 1),
)
case(
    cr.binary_cross_entropy,
    "cr.binary_cross_entropy(x, y)",
    None,
    "F.binary_cross_entropy(x, y)",
    *PAIRS,
    domain=(0.1, 0.9),
)
case(
    cr.binary_cross_entropy,
    "cr.binary_cross_entropy(x, y, np.array([2.0, 0.5]), reduction='none')",
    None,
    "F.binary_cross_entropy(x, y, torch.tensor([2.0, 0.5]).double(), reduction='none')",
    ((2,), (2,)),
    domain=(0.1, 0.9),
)
case(
    cr.kl_divergence,
    "cr.kl_divergence(x, y)",
    None,
    "torch.mean(torch.xlogy(y, y) - y * x)",
    *PAIRS,
    domain=(0.1, 0.9),
)
case(
    cr.kl_divergence,
    "cr.kl_divergence(x, y, 'batchmean', log_target=True)",
    None,
    "F.kl_div(x, y, reduction='batchmean', log_target=True)",
    ((2, 3), (2, 3)),
)

LABELS = "[2, 0, 1, 0]"
WEIGHT = "weight=np.array([0.5, 2.0, 1.5])"
for options in (
    WEIGHT,
    f"reduction='sum', {WEIGHT}, label_smoothing=0.3",
    "label_smoothing=0.1",
    "ignore_index=0",
    f"ignore_index=0, {WEIGHT}, label_smoothing=0.2",
    "reduction='none', ignore_index=2",
):
    theirs = options.replace("np.array([0.5, 2.0, 1.5])", "torch.tensor([0.5, 2.0, 1.5]).double()")
    case(
        cr.cross_entropy,
        f"cr.cross_entropy(x, np.array({LABELS}), {options})",
        None,
        f"F.cross_entropy(x, torch.tensor({LABELS}), {theirs})",
        (4, 3),
    )
