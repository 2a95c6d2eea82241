"""Initial weights from keys: schemes for any layer, and PyTorch's defaults for its layers."""

from typing import NoReturn

from chainrule.init.layers import conv, embedding, gru, linear, lstm, rnn
from chainrule.init.schemes import (
    gain,
    he_normal,
    he_uniform,
    orthogonal,
    truncated_normal,
    xavier_normal,
    xavier_uniform,
)

__all__ = [
    "conv",
    "embedding",
    "gain",
    "gru",
    "he_normal",
    "he_uniform",
    "linear",
    "lstm",
    "orthogonal",
    "rnn",
    "truncated_normal",
    "xavier_normal",
    "xavier_uniform",
]

# How PyTorch and JAX call them.
_ELSEWHERE = {"glorot": "xavier", "kaiming": "he", "trunc": "truncated", "calculate": ""}
_PLAIN = {
    "zeros": "np.zeros(shape, np.float32)",
    "ones": "np.ones(shape, np.float32)",
    "constant": "np.full(shape, value, np.float32)",
    "eye": "np.eye(n, dtype=np.float32)",
    "normal": "std * cr.random.normal(key, shape)",
    "uniform": "cr.random.uniform(key, shape, minval=low, maxval=high)",
}


def __getattr__(name: str) -> NoReturn:
    """Users of PyTorch and JAX look for other names here."""
    plain = name.rstrip("_")
    first, _, rest = plain.partition("_")
    ours = "_".join(part for part in (_ELSEWHERE.get(first, first), rest) if part)
    hint = f": write cr.init.{ours}" if ours in __all__ else ""
    hint = f": write {_PLAIN[plain]}" if plain in _PLAIN else hint
    raise AttributeError(f"module 'chainrule.init' has no attribute {name!r}{hint}")
