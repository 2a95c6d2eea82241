"""What of PyTorch's database is not compared, each with its reason."""

from __future__ import annotations

from typing import Any

OF_VALUES = "the shape of the result depends on values"
OF_NUMBERS = "makes an array from numbers alone: there is nothing to differentiate"
OF_INTEGERS = "of integers or booleans alone; tests/frontend compares it with NumPy"
CONVERSION = "a conversion of dtype: x.astype is compared with NumPy for every dtype"
COMPLEX = "has complex results"
OTHER = "another function than NumPy's of this name"

NAMES: dict[str, str] = {
    **dict.fromkeys(("argwhere", "nonzero", "unique"), OF_VALUES),
    **dict.fromkeys(
        (
            "arange empty empty_like eye full linspace logspace ones zeros tril_indices "
            "triu_indices broadcast_shapes"
        ).split(),
        OF_NUMBERS,
    ),
    **dict.fromkeys(
        (
            "bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or "
            "bitwise_right_shift bitwise_xor unravel_index"
        ).split(),
        OF_INTEGERS,
    ),
    **dict.fromkeys(("bool", "byte", "double", "half", "long", "short"), CONVERSION),
    **dict.fromkeys(("cdouble", "imag", "linalg.eig", "linalg.eigvals"), COMPLEX),
    **dict.fromkeys(("allclose", "equal"), "answers with a Python bool while it is traced"),
    **dict.fromkeys(
        "histogram histogramdd isin frexp nextafter i0 ldexp gcd lcm isreal".split(),
        "is not traced; docs/numpy-functions.md says why",
    ),
    **dict.fromkeys(("isneginf", "isposinf"), "is not traced; x == np.inf is"),
    **dict.fromkeys(("median", "nanmedian"), "the lower of two middle elements; NumPy's mean"),
    **dict.fromkeys(("norm", "qr", "svd"), "deprecated; that of linalg is compared"),
    "linalg.lstsq": "the rank, and singular values, come as PyTorch's driver has them",
    "nn.functional.one_hot": OF_INTEGERS,
    "nn.functional.dropout": "draws random numbers of PyTorch's own",
    "put": OTHER + ", which assigns in place",
    "select": OTHER + ": an index along an axis",
}


def _broadcasts_summed_axes(op: Any, sample: Any) -> bool:
    dims, other = sample.kwargs.get("dims"), sample.args[0]
    if not isinstance(dims, (list, tuple)):
        return False
    pairs = zip(*dims, strict=True)
    return any(sample.input.shape[a] != other.shape[b] for a, b in pairs)


def _full_matrices(op: Any, sample: Any) -> bool:
    rows, columns = sample.input.shape[-2:]
    return sample.kwargs.get("full_matrices", True) and rows != columns


def _has_tensor(name: str) -> Any:
    return lambda op, sample: hasattr(sample.kwargs.get(name), "shape")


def _asks(name: str, value: Any) -> Any:
    return lambda op, sample: sample.kwargs.get(name) == value


def _positional(place: int, *values: Any) -> Any:
    return lambda op, sample: len(sample.args) > place and sample.args[place] not in values


def _zero_matrices(op: Any, sample: Any) -> bool:
    return op.variant_test_name == "subgradients_at_zero" and sample.input.ndim > 1


STATIC = "a number that is known while tracing, not a tensor"
QUANTILES = ((lambda op, sample: sample.args[0].__class__.__name__ == "Tensor", STATIC),)
AVERAGES = ((_positional(5, None), "divisor_override is a factor that the user can write"),)
LARGEST = ((_asks("return_indices", True), "gives places, too"),)
# Where PyTorch's second derivative is NaN and ours is not.
NAN_ALLOWED = {
    "linalg.norm": "at 0, where the first one has a kink and is taken as 0",
    "linalg.vector_norm": "at 0, where the first one has a kink and is taken as 0",
}
SAMPLES: dict[str, tuple[tuple[Any, str], ...]] = {
    "tensordot": ((_broadcasts_summed_axes, "NumPy refuses to broadcast axes that are summed"),),
    "searchsorted": ((lambda op, sample: sample.input.ndim > 1, "NumPy's sequence has one axis"),),
    "quantile": QUANTILES,
    "nanquantile": QUANTILES,
    "cov": (
        (lambda op, sample: "aweights" in sample.kwargs, "PyTorch computes with float32 weights"),
    ),
    "linalg.norm": ((_zero_matrices, "PyTorch takes another subgradient there; ours is 0"),),
    "linalg.pinv": ((_has_tensor("rtol"), STATIC), (_has_tensor("atol"), STATIC)),
    "linalg.svd": ((_full_matrices, "the further columns have no derivative"),),
    "nn.functional.batch_norm": (
        (lambda op, sample: sample.input.ndim < 2, "an array without an axis of channels"),
    ),
    "nn.functional.cross_entropy": (
        (lambda op, sample: sample.args[0].is_floating_point(), "labels are numbers of classes"),
        (lambda op, sample: {*sample.kwargs} - {"reduction"}, "options that are not built"),
    ),
    "nn.functional.scaled_dot_product_attention": (
        (lambda op, sample: sample.kwargs.get("dropout_p"), "draws random numbers of its own"),
        (lambda op, sample: sample.kwargs.get("enable_gqa"), "an option that is not built"),
    ),
    "nn.functional.avg_pool1d": AVERAGES,
    "nn.functional.avg_pool2d": AVERAGES,
    "nn.functional.max_pool1d": LARGEST,
    "nn.functional.max_pool2d": LARGEST,
}
