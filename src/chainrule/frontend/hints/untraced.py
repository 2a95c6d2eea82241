"""The reasons why NumPy functions are not traced, by name."""

from __future__ import annotations


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


# What each function that is refused does, in the third person.
REFUSED: dict[str, str] = {
    **_because(
        "makes an array whose shape depends on values",
        "argwhere flatnonzero nonzero unique unique_all unique_counts unique_inverse "
        "unique_values union1d intersect1d setdiff1d setxor1d trim_zeros",
    ),
    **_because(
        "changes an array in place", "copyto fill_diagonal place put put_along_axis putmask"
    ),
    **_because("compares each element with all elements of another array", "isin"),
    **_because("counts values", "histogram histogram2d histogramdd histogram_bin_edges"),
    **_because(
        "has complex results", "linalg.eig linalg.eigvals roots sort_complex iscomplex isreal"
    ),
    **_because(
        "asks for the numbers of an array, which do not exist while the program is traced",
        "array asarray asanyarray asarray_chkfinite ascontiguousarray asfortranarray asmatrix "
        "bmat require fromiter array2string array_repr array_str from_dlpack packbits unpackbits",
    ),
    **_because(
        "is called for one number at a time", "frompyfunc fromfunction apply_over_axes nested_iters"
    ),
    **_because(
        "treats coefficients of polynomials, with shapes that depend on zeros",
        "poly polyadd polyder polydiv polyfit polyint polymul polysub",
    ),
    **_because("takes numbers apart into bits", "frexp ldexp nextafter spacing bitwise_count"),
    **_because("treats integers alone", "gcd lcm"),
    **_because("has no derivative here yet; scipy.special has it, for cr.primitive", "i0"),
    **_because(
        "reads or writes files",
        "fromfile fromregex fromstring frombuffer genfromtxt load loadtxt save savetxt savez "
        "savez_compressed",
    ),
    **_because(
        "treats dates",
        "busday_count busday_offset datetime_as_string datetime_data is_busday isnat",
    ),
}

# Functions of numbers, dtypes and shapes that are known while tracing: NumPy itself answers.
OF_NUMBERS: dict[str, str] = {
    **_because(
        "makes an array of numbers; it is a constant of the program",
        "arange bartlett blackman diag_indices empty eye full hamming hanning identity indices "
        "ix_ kaiser mask_indices ones tri tril_indices triu_indices zeros",
    ),
    **_because(
        "asks for the shape alone; pass that of x: np.tril_indices(x.shape[0])",
        "diag_indices_from tril_indices_from triu_indices_from",
    ),
    **_because(
        "is about dtypes and shapes",
        "broadcast_shapes can_cast common_type einsum_path iscomplexobj isdtype isfortran "
        "isrealobj isscalar issubdtype iterable may_share_memory min_scalar_type mintypecode "
        "promote_types ravel_multi_index result_type shares_memory typename unravel_index astype",
    ),
    **_because(
        "makes text of a number",
        "base_repr binary_repr format_float_positional format_float_scientific",
    ),
    **_because(
        "is about NumPy itself",
        "get_include get_printoptions getbufsize geterr geterrcall info printoptions "
        "set_printoptions setbufsize seterr seterrcall show_config show_runtime test",
    ),
    **_because("is an old name of np.vstack", "row_stack"),
}
