"""What of autograd's tests is left out, each with its reason."""

from __future__ import annotations

MACHINERY = "autograd's own machinery"
COMPLEX = "complex numbers"
LISTS = "NumPy does not ask traced arrays that stand in a list: np.stack makes one of them"
INDEXED = "np.r_ and np.c_ make their arrays without asking traced ones"

FILES = {
    "test_complex.py": COMPLEX,
    "test_fft.py": COMPLEX,
    "test_direct.py": COMPLEX,
    "test_core.py": MACHINERY,
    "test_misc.py": MACHINERY,
    "test_logic.py": MACHINERY,
    "test_vspaces.py": MACHINERY,
    "test_tests.py": MACHINERY,
    "test_ufunc_dispatch.py": MACHINERY,
    "test_scipy.py": "SciPy, not NumPy",
    "test_performance.py": "SciPy, not NumPy",
}
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "test_mean_list_of_boxes test_std_list_of_boxes test_var_list_of_boxes "
            "test_norm_list_of_boxes test_simple_append_list_2D"
        ).split(),
        LISTS,
    ),
    **dict.fromkeys(
        (
            "test_r_basic test_r_double test_r_node_and_const test_r_mixed test_r_slicing "
            "test_c_ test_c_mixed"
        ).split(),
        INDEXED,
    ),
    **dict.fromkeys(
        (
            "test_deprecated_defgrad_wrapper test_deprecated_defvjp_wrapper "
            "test_deprecated_defvjp_is_zero_wrapper "
            "test_deprecated_quick_grad_check_wrapper test_wrapped_name_and_docs "
            "test_isinstance test_custom_where test_custom_where_dtypes test_make_ggnvp "
            "test_make_ggnvp_nondefault_g"
        ).split(),
        MACHINERY,
    ),
    **dict.fromkeys(("test_eig_real", "test_complex_mutating_outgrad_from_indexing"), COMPLEX),
    "test_cast_to_int": "np.int64(x) asks for the numbers of x; x.astype is traced",
    "test_dtypes": "float128 is not traced",
}
# Tests that call a derivative and compare nothing: that the call returns is all they say.
CALLS_ALONE = ("test_slices", "test_tensordot_kwargs_by_position", "test_partial")
TRIANGLE = "NumPy reads one triangle; as in PyTorch and JAX, the derivative is symmetric"
FAILING = dict.fromkeys(  # these count as failures
    (
        "test_eigvalh_lower test_eigvalh_upper test_eigvalh_lower_broadcasting "
        "test_eigvalh_upper_broadcasting"
    ).split(),
    TRIANGLE,
)
COMPLEX_ONLY = {"real_if_close": "of complex numbers", "angle": "of complex numbers"}
