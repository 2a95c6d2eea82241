"""Finds products of all windows of an image with weights, and writes them as `Conv`."""

from __future__ import annotations

import numpy as np

from chainrule.exchange.to_onnx.writer import Writer
from chainrule.graph.node import Node
from chainrule.primitives.windows import windows

MOST_AXES = 3
DTYPES = (np.dtype(np.float32), np.dtype(np.float16))  # for which onnxruntime has a kernel


def convolution(writer: Writer, out: Node) -> str | None:
    """The value of a `contract` that is a convolution; None for another.

    That is one of (n, c, positions, places in windows) and (c, places, o), in any order of axes,
    which sums over channels and places: (n, o, positions).
    """
    axes = [out.param("x_axes"), out.param("y_axes")]
    for one, other in ((0, 1), (1, 0)):
        seen, weight = out.inputs[one], out.inputs[other]
        if seen.primitive is not windows or seen.dtype not in DTYPES:
            continue
        count = len(seen.param("window"))
        mine = axes[one]
        if not 0 < count <= MOST_AXES or len(mine) != 2 + 2 * count:
            continue
        image, channel, positions, places = mine[0], mine[1], mine[2 : 2 + count], mine[2 + count :]
        new = [letter for letter in axes[other] if letter not in mine]
        fits = sorted(axes[other]) == sorted([channel, *places, *new])
        result = [image, *new, *positions]
        if len(new) != 1 or not fits or sorted(out.param("out_axes")) != sorted(result):
            continue
        source = writer.value_of.get(seen.inputs[0])
        kernel = writer.value_of.get(weight)
        if source is None or kernel is None:
            continue
        order = [axes[other].index(letter) for letter in [*new, channel, *places]]
        found = writer.emit(
            "Conv",
            source,
            writer.transpose(kernel, order),
            kernel_shape=list(seen.param("window")),
            strides=list(seen.param("stride")),
            dilations=list(seen.param("dilation")),
        )
        return writer.transpose(found, [result.index(letter) for letter in out.param("out_axes")])
    return None
