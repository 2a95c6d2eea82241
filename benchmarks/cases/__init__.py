"""Every case, at the sizes of the table and at sizes that a test can afford."""

from . import (
    attention,
    convolutions,
    cross_entropy,
    deep_mlp,
    gelu,
    log_density,
    mlp,
    programs,
    rowwise,
    transformer,
)
from .case import Case

CASES: tuple[Case, ...] = (
    mlp.training_case("mlp-small", 20, 64, 10, 32),
    mlp.training_case("mlp-medium", 784, 256, 10, 256),
    mlp.training_case("mlp-large", 784, 2048, 10, 512),
    deep_mlp.training_case("deep-mlp-adam", 1024, 4, 10, 256),
    transformer.training_case("transformer-adamw", 256, 64, 128, 2, 16),
    convolutions.training_case("lenet", "LeNet, SGD", convolutions.lenet, 256, 1, 28),
    convolutions.training_case(
        "residual-blocks", "2 residual blocks, SGD", convolutions.residual, 32, 64, 28
    ),
    convolutions.training_case(
        "separable-block", "depthwise-separable block, SGD", convolutions.separable, 32, 64, 28
    ),
    rowwise.softmax_case("softmax-backward", 512, 2048),
    rowwise.layer_norm_case("layer-norm", 512, 2048),
    gelu.case("gelu-erf-backward", 512, 2048, "none"),
    gelu.case("gelu-tanh-backward", 512, 2048, "tanh"),
    cross_entropy.case("cross-entropy-small", 256, 10),
    cross_entropy.case("cross-entropy-large", 4096, 1000),
    attention.case("attention-1024", 1024),
    attention.case("attention-4096", 4096),
    mlp.hessian_case("hessian-vector", 784, 256, 10, 256),
    programs.logistic_case("logistic", 20, 64),
    programs.lstm_case("lstm", 100, 32, 32, 64),
    programs.embedding_case("embedding", 50_000, 64, 2_000),
    programs.mixture_case("mixture", 10_000, 8, 16),
    programs.kalman_case("kalman", 200, 4, 2),
    log_density.case("log-density-200", 200),
    log_density.case("log-density-1000", 1000),
)

TINY: tuple[Case, ...] = (
    mlp.training_case("tiny-mlp", 5, 7, 3, 4),
    deep_mlp.training_case("tiny-deep-mlp-adam", 6, 2, 3, 4),
    transformer.training_case("tiny-transformer-adamw", 11, 5, 8, 2, 3),
    convolutions.training_case("tiny-lenet", "LeNet", convolutions.lenet, 3, 2, 16),
    convolutions.training_case("tiny-residual", "residual blocks", convolutions.residual, 3, 4, 5),
    convolutions.training_case("tiny-separable", "separable", convolutions.separable, 3, 4, 5),
    rowwise.softmax_case("tiny-softmax-backward", 3, 5),
    rowwise.layer_norm_case("tiny-layer-norm", 3, 5),
    gelu.case("tiny-gelu-erf-backward", 3, 5, "none"),
    gelu.case("tiny-gelu-tanh-backward", 3, 5, "tanh"),
    cross_entropy.case("tiny-cross-entropy", 4, 3),
    attention.case("tiny-attention", 5, 2, 3),
    mlp.hessian_case("tiny-hessian-vector", 5, 7, 3, 4),
    programs.logistic_case("tiny-logistic", 4, 5),
    programs.lstm_case("tiny-lstm", 3, 4, 5, 2),
    programs.embedding_case("tiny-embedding", 40, 3, 5),
    programs.mixture_case("tiny-mixture", 6, 3, 2),
    programs.kalman_case("tiny-kalman", 4, 3, 2),
    log_density.case("tiny-log-density", 6),
)
