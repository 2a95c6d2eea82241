"""What to write in place of common functions that are not traced; each is tested against NumPy."""

from __future__ import annotations

# By the names of functions of NumPy, its arrays and scipy.special; x and y are their arguments.
INSTEAD = {
    "all": "np.sum(~x) == 0",
    "amax": "np.max(x)",
    "amin": "np.min(x)",
    "any": "np.sum(x) > 0",
    "append": "np.concatenate([np.ravel(x), np.ravel(y)])",
    "argmin": "np.argmax(-x)",
    "average": "np.mean(x)",
    "column_stack": "np.stack([x, y], axis=1)",
    "cosh": "(np.exp(x) + np.exp(-x)) / 2",
    "count_nonzero": "np.sum(x != 0)",
    "deg2rad": "x * (np.pi / 180)",
    "diff": "x[1:] - x[:-1]",
    "ediff1d": "x[1:] - x[:-1]",
    "expit": "cr.sigmoid(x)",
    "fabs": "np.absolute(x)",
    "flip": "x[::-1]",
    "fmax": "np.where((x > y) | (y != y), x, y)",
    "fmin": "np.where((x < y) | (y != y), x, y)",
    "heaviside": "np.where(x > 0, 1.0, np.where(x == 0, y, 0.0))",
    "hypot": "np.sqrt(x**2 + y**2)",
    "isclose": "np.absolute(x - y) <= 1e-8 + 1e-5 * np.absolute(y)",
    "isfinite": "np.absolute(x) < np.inf",
    "isinf": "np.absolute(x) == np.inf",
    "isnan": "x != x",
    "log_expit": "-cr.softplus(-x)",
    "logical_xor": "x != y",
    "logit": "np.log(x) - np.log1p(-x)",
    "nan_to_num": "np.where(x == x, x, 0.0)",
    "nansum": "np.sum(np.where(x == x, x, 0.0))",
    "prod": "np.exp(np.sum(np.log(x)))",
    "ptp": "np.max(x) - np.min(x)",
    "rad2deg": "x * (180 / np.pi)",
    "roll": "np.concatenate([x[-shift:], x[:-shift]])",
    "sinc": "np.sin(np.pi * x) / (np.pi * x)",
    "sinh": "(np.exp(x) - np.exp(-x)) / 2",
    "tan": "np.sin(x) / np.cos(x)",
}
CONDITIONS = {  # where the expression is not as general as the function
    "all": "of booleans",
    "any": "of booleans",
    "logical_xor": "of booleans",
    "nan_to_num": "which leaves infinities as they are",
    "prod": "of positive numbers",
    "sinc": "of numbers that are not 0",
}
PAGE = 'the page "NumPy on traced arrays" (docs/numpy.md in the repository)'


def instead_of(name: str) -> str:
    """The hint for a function or method that is not traced."""
    expression = INSTEAD.get(name.rpartition(".")[2])
    if expression is None:
        return (
            "write it with functions that are traced, or compute it before the call;\n"
            f"{PAGE} lists them"
        )
    condition = CONDITIONS.get(name.rpartition(".")[2])
    return f"write {expression}" + (f", {condition}" if condition else "")
