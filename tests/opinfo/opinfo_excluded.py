"""What of PyTorch's database is not compared, each with its reason."""

from __future__ import annotations

from typing import Any

OF_VALUES = "the shape of the result depends on values"
OF_NUMBERS = "makes an array from numbers alone: there is nothing to differentiate"
CONVERSION = "a conversion of dtype: x.astype is compared with NumPy for every dtype"
COMPLEX = "has complex arguments or results"
RANDOM = "draws random numbers of PyTorch's own"
MEMORY = "about PyTorch's memory or its own machinery"
FACTORS = "missing: LDL or Householder factors"
SPECIAL = "missing: a special function"
SPATIAL = "missing: places of largest elements as results"
SPARSE = "missing: sparse arrays"
SEGMENTS = "missing: segments and bags of rows"
BATCHED = "another entry of an operation that is compared"

NAMES: dict[str, str] = {
    **dict.fromkeys(
        "argwhere bincount nonzero nonzero_static unique unique_consecutive masked_select".split(),
        OF_VALUES,
    ),
    **dict.fromkeys(
        (
            "arange empty empty_like empty_permuted empty_strided eye full linspace "
            "linspace-tensor_overload logspace logspace-tensor_overload new_empty "
            "new_empty_strided new_full new_ones new_zeros ones scalar_tensor zeros tril_indices "
            "triu_indices broadcast_shapes signal.windows.bartlett signal.windows.blackman "
            "signal.windows.cosine signal.windows.exponential signal.windows.gaussian "
            "signal.windows.general_cosine signal.windows.general_hamming "
            "signal.windows.hamming signal.windows.hann signal.windows.kaiser "
            "signal.windows.nuttall unravel_index"
        ).split(),
        OF_NUMBERS,
    ),
    **dict.fromkeys(
        "bfloat16 bool byte char double float half int long short to".split(), CONVERSION
    ),
    **dict.fromkeys(
        (
            "cdouble cfloat chalf complex polar view_as_complex view_as_real imag linalg.eig "
            "linalg.eigvals stft istft fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn "
            "fft.rfft fft.rfft2 fft.rfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 "
            "fft.ihfftn fft.irfft fft.irfft2 fft.irfftn nn.functional.silu-complex"
        ).split(),
        COMPLEX,
    ),
    **dict.fromkeys(
        (
            "bernoulli cauchy exponential geometric log_normal multinomial normal "
            "normal-in_place normal-number_mean rand_like randint randint_like randn "
            "randn_like uniform nn.functional.alpha_dropout nn.functional.dropout "
            "nn.functional.dropout2d nn.functional.dropout3d "
            "nn.functional.feature_alpha_dropout-with_train "
            "nn.functional.feature_alpha_dropout-without_train "
            "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d "
            "nn.functional.multi_head_attention_forward pca_lowrank svd_lowrank"
        ).split(),
        RANDOM,
    ),
    **dict.fromkeys(
        (
            "item equal allclose hash_tensor jiterator_2inputs_2outputs "
            "jiterator_4inputs_with_extra_args jiterator_binary "
            "jiterator_binary_return_by_ref jiterator_unary resize_ resize_as_ "
            "_chunk_cat as_strided-partial_views torch._scaled_mm torch._scaled_mm_v2 "
            "torch.ops.aten._efficient_attention_forward "
            "torch.ops.aten._flash_attention_forward _unsafe_masked_index_put_accumulate"
        ).split(),
        MEMORY,
    ),
    **dict.fromkeys(
        (
            "geqrf ormqr linalg.householder_product linalg.ldl_factor linalg.ldl_factor_ex "
            "linalg.ldl_solve"
        ).split(),
        FACTORS,
    ),
    **dict.fromkeys(
        (
            "igamma igammac polygamma special.ndtri special.zeta special.airy_ai "
            "special.polygamma special.bessel_j0 special.bessel_j1 special.bessel_y0 "
            "special.bessel_y1 "
            "special.chebyshev_polynomial_t special.chebyshev_polynomial_u "
            "special.chebyshev_polynomial_v special.chebyshev_polynomial_w "
            "special.hermite_polynomial_h special.hermite_polynomial_he "
            "special.laguerre_polynomial_l special.legendre_polynomial_p "
            "special.modified_bessel_k0 "
            "special.modified_bessel_k1 special.scaled_modified_bessel_k0 "
            "special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t "
            "special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v "
            "special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0"
        ).split(),
        SPECIAL,
    ),
    **dict.fromkeys(
        (
            ""
            "max_pool2d_with_indices_backward "
            "nn.functional.max_unpool1d nn.functional.max_unpool1d-grad "
            "nn.functional.max_unpool2d nn.functional.max_unpool2d-grad "
            "nn.functional.max_unpool3d nn.functional.max_unpool3d-grad"
        ).split(),
        SPATIAL,
    ),
    **dict.fromkeys(("sparse.mm-reduce", "sparse.sampled_addmm", "to_sparse"), SPARSE),
    **dict.fromkeys(
        ("_segment_reduce-lengths", "_segment_reduce-offsets", "nn.functional.embedding_bag"),
        SEGMENTS,
    ),
    **dict.fromkeys(
        (
            "native_batch_norm _native_batch_norm_legit _batch_norm_with_update "
            "nn.functional.linear_cross_entropy-chunked "
            "nn.functional.linear_cross_entropy-chunked_none"
        ).split(),
        BATCHED,
    ),
    **dict.fromkeys(
        "histogram histogramdd histc isin frexp nextafter ldexp gcd lcm isreal".split(),
        "is not traced; docs/numpy-functions.md says why",
    ),
    "as_strided_scatter": "PyTorch's gradient is wrong: its own gradcheck finds it",
    "mode": "missing: the most frequent element",
    "nn.functional.ctc_loss": "PyTorch's gradient is that of a log-softmax before it, too",
    "nn.functional.one_hot": "the number of classes, where it is not given, depends on values",
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
LARGEST = ((_asks("return_indices", True), "gives places, too"),)
# Which of PyTorch's results are compared, where not all: the others are places, ranks, or
# factors of its own.
RESULTS = {
    **dict.fromkeys(("linalg.cholesky_ex", "lu", "linalg.lu_factor", "linalg.lu_factor_ex"), (0,)),
    "linalg.inv_ex": (0,),
    "linalg.solve_ex": (0,),
    "linalg.lstsq": (0,),
    # whose derivatives ignore the statistics
    **dict.fromkeys(("native_layer_norm", "native_group_norm"), (0,)),
    **dict.fromkeys([f"nn.functional.adaptive_max_pool{k}d" for k in (1, 2, 3)], (0,)),
}
PROMOTED = "written with constants of float64, or promoted as NumPy does"
DTYPES = {
    **dict.fromkeys(("masked.argmax", "masked.argmin"), "PyTorch gives places as floats"),
    **dict.fromkeys(
        (
            "block_diag cdist clamp corrcoef cov diag_embed linalg.vander "
            "masked.mean masked.std masked.var "
            "nn.functional.gaussian_nll_loss nn.functional.nll_loss "
            "nn.functional.pdist"
        ).split(),
        PROMOTED,
    ),
}
CLOSE = {"nn.functional.hardsigmoid": {1e-7: "PyTorch's 1/6 is that of float32"}}
FLOAT32 = {"linalg.pinv": "singular matrices, whose rank depends on rounding"}
# Where PyTorch's second derivative is NaN and ours is not.
NAN_ALLOWED = {
    "linalg.norm": "at 0, where the first one has a kink and is taken as 0",
    "linalg.vector_norm": "at 0, where the first one has a kink and is taken as 0",
    "masked.logaddexp": "where both terms are masked, and their sum is -inf",
}
SAMPLES: dict[str, tuple[tuple[Any, str], ...]] = {
    "_upsample_bilinear2d_aa": (
        (lambda op, sample: "scales_h" in sample.kwargs, "sizes and factors that contradict"),
    ),
    "gather": ((lambda op, sample: sample.input.ndim != sample.args[1].ndim, "empty places"),),
    "native_layer_norm": (
        (lambda op, sample: any(a is None for a in sample.args), "PyTorch fails at order 2"),
    ),
    "nn.functional.rrelu": ((_asks("training", True), RANDOM),),
    "nn.functional.linear_cross_entropy": (
        (lambda op, sample: sample.args[1].is_floating_point(), "labels are numbers of classes"),
        (lambda op, sample: {*sample.kwargs} - {"reduction"}, "options that are not built"),
    ),
    **dict.fromkeys(
        ("linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"),
        ((_asks("pivot", False), "without a permutation of rows"),),
    ),
    "lu_unpack": ((lambda op, sample: len(sample.kwargs) > 0, "leaves results out"),),
    "linalg.lstsq": ((lambda op, sample: sample.input.ndim > 2, "NumPy takes no stacks"),),
    "svd": ((_asks("some", False), "the further columns have no derivative"),),
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
    "nn.functional.max_pool1d": LARGEST,
    "nn.functional.max_pool2d": LARGEST,
    "nn.functional.max_pool3d": LARGEST,
}
