"""Names the functions for networks, and SciPy's, that `import chainrule` does not load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.nn.adaptive_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
    )
    from chainrule.nn.attention import scaled_dot_product_attention
    from chainrule.nn.binary import binary_cross_entropy, binary_cross_entropy_with_logits
    from chainrule.nn.convolution import conv1d, conv2d, conv3d
    from chainrule.nn.distances import absolute_error, huber, kl_divergence
    from chainrule.nn.grid_sampling import grid_sample
    from chainrule.nn.interpolation import interpolate
    from chainrule.nn.linear_units import elu, leaky_relu, log_sigmoid, silu
    from chainrule.nn.normalisation import batch_norm, group_norm, instance_norm, rms_norm
    from chainrule.nn.one_hot import one_hot
    from chainrule.nn.pooling import (
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from chainrule.nn.running import logcumsumexp
    from chainrule.nn.transposed_convolution import (
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from chainrule.numpy.matrix_functions import expm, lu, solve_triangular
    from chainrule.numpy.special import (
        betaln,
        digamma,
        entr,
        erfc,
        erfcx,
        expit,
        gammaln,
        i0e,
        i1e,
        log_ndtr,
        logit,
        ndtr,
        xlogy,
    )
    from chainrule.sequences.ctc import ctc_loss
    from chainrule.sequences.recurrent import gru, lstm, rnn

__all__ = [
    "absolute_error",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "betaln",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "ctc_loss",
    "digamma",
    "elu",
    "entr",
    "erfc",
    "erfcx",
    "expit",
    "expm",
    "gammaln",
    "grid_sample",
    "group_norm",
    "gru",
    "huber",
    "i0e",
    "i1e",
    "instance_norm",
    "interpolate",
    "kl_divergence",
    "leaky_relu",
    "log_ndtr",
    "log_sigmoid",
    "logcumsumexp",
    "logit",
    "lstm",
    "lu",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "ndtr",
    "one_hot",
    "rms_norm",
    "rnn",
    "scaled_dot_product_attention",
    "silu",
    "solve_triangular",
    "xlogy",
]

_NAMES = {
    "chainrule.nn.adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d"
    ),
    "chainrule.nn.attention": "scaled_dot_product_attention",
    "chainrule.nn.binary": "binary_cross_entropy binary_cross_entropy_with_logits",
    "chainrule.nn.convolution": "conv1d conv2d conv3d",
    "chainrule.nn.distances": "absolute_error huber kl_divergence",
    "chainrule.nn.grid_sampling": "grid_sample",
    "chainrule.nn.interpolation": "interpolate",
    "chainrule.nn.linear_units": "elu leaky_relu log_sigmoid silu",
    "chainrule.nn.normalisation": "batch_norm group_norm instance_norm rms_norm",
    "chainrule.nn.one_hot": "one_hot",
    "chainrule.nn.pooling": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
    "chainrule.nn.running": "logcumsumexp",
    "chainrule.nn.transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "chainrule.numpy.matrix_functions": "expm lu solve_triangular",
    "chainrule.numpy.special": (
        "betaln digamma entr erfc erfcx expit gammaln i0e i1e log_ndtr logit ndtr xlogy"
    ),
    "chainrule.sequences.ctc": "ctc_loss",
    "chainrule.sequences.recurrent": "gru lstm rnn",
}
MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
