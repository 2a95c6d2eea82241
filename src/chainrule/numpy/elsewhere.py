"""Says what users of JAX and PyTorch look for, by what it is called here."""

from __future__ import annotations

ELSEWHERE = {
    "jit": "cr.compile(f) compiles once for each combination of argument types",
    "checkpoint": "cr.Checkpoints keeps states in a folder; no value is recomputed on request",
    "mse_loss": "cr.squared_error(predictions, targets), or np.mean((predictions - targets) ** 2)",
    "no_grad": "nothing is recorded but in cr.trace, cr.grad and their like",
    "nll_loss": "cr.cross_entropy(logits, labels)",
    "bce_loss": "cr.binary_cross_entropy",
    "arange": "np.arange, of a number of elements that is known while tracing",
    "psi": "cr.digamma",
    "lgamma": "cr.gammaln",
    "detach": "cr.stop_gradient(x)",
    "Tensor": "np.ndarray, which np.array makes",
    **{
        name: f"write np.{name}"
        for name in ("zeros", "ones", "full", "empty", "eye", "linspace", "ndarray", "asarray")
    },
    "tensor": "NumPy's arrays are what functions take; cr.array makes one of traced values",
    "SGD": "cr.sgd",
    "Adam": "cr.adam",
    "AdamW": "cr.adamw",
    "DataLoader": "chainrule.data.minibatches, and cr.Trainer",
    "l1_loss": "cr.absolute_error(x, y)",
    "smooth_l1_loss": "cr.huber(x, y, beta) / beta",
    "huber_loss": "cr.huber(x, y, delta)",
    "kl_div": "cr.kl_divergence(x, y)",
    "topk": "np.take_along_axis(x, np.argsort(-x, axis=-1)[..., :k], -1)",
    "top_k": "np.take_along_axis(x, np.argsort(-x, axis=-1)[..., :k], -1)",
    "cummax": "np.maximum.accumulate(x, axis=axis)",
    "cummin": "np.minimum.accumulate(x, axis=axis)",
    "cumlogsumexp": "cr.logcumsumexp(x, axis)",
    "gather": "np.take_along_axis(x, indices, axis=axis)",
    "index_select": "np.take(x, chosen, axis=axis)",
    "masked_fill": "np.where(mask, value, x)",
    "clamp": "np.clip(x, low, high)",
    "cat": "np.concatenate([x, y], axis=axis)",
    "permute": "np.transpose(x, axes)",
    "unsqueeze": "np.expand_dims(x, axis)",
    "mm": "x @ y",
    "normalize": "x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), 1e-12)",
    "cosine_similarity": "np.sum(x * y, axis) / np.linalg.norm(x, axis=axis) / "
    "np.linalg.norm(y, axis=axis)",
    "rsqrt": "1 / np.sqrt(x)",
    "lerp": "x + weight * (y - x)",
    "relu6": "np.clip(x, 0, 6)",
    "hardtanh": "np.clip(x, -1, 1)",
    "mish": "x * np.tanh(cr.softplus(x))",
    "softmin": "cr.softmax(-x)",
    "softsign": "x / (1 + np.abs(x))",
}
