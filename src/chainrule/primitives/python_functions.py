"""Source of functions that NumPy lacks, written beside a call that needs one."""

LOGISTIC = '''
def logistic(x):
    """The logistic sigmoid 1 / (1 + exp(-x)), which overflows for no x."""
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))
'''

ERF = '''
def erf(x):
    """The error function."""
    x = np.asarray(x)
    return np.vectorize(math.erf, otypes=[x.dtype])(x)
'''

GAUSSIAN = '''
def gaussian(x):
    """exp(-x^2)."""
    return np.exp(-np.multiply(x, x))
'''

ARCTAN_SLOPE = '''
def arctan_slope(x):
    """1 / (1 + x^2)."""
    return 1 / (1 + np.multiply(x, x))
'''

PADDED = '''
def padded(x, places, shape):
    """Zeros of a shape, with x at the places."""
    result = np.zeros(shape, x.dtype)
    result[places] = x
    return result
'''

SCATTER_ADD = '''
def scatter_add(updates, indices, shape):
    """Zeros of a shape, to which the updates are added at the places of the indices."""
    result = np.zeros(shape, updates.dtype)
    np.add.at(result, indices, updates)
    return result
'''

CHECK_INDICES = '''
def check_indices(indices, size):
    """Raise IndexError unless all indices are from 0 to size - 1: NumPy takes -1 for the last."""
    if np.size(indices) and not 0 <= np.min(indices) <= np.max(indices) < size:
        found = f"from {np.min(indices)} to {np.max(indices)}"
        raise IndexError(f"indices {found} do not fit an axis of length {size}")
'''

RECURRENCE = '''
def recurrence(a, b, axis, reverse):
    """y with y[k] = a[k] y[k-1] + b[k] along an axis, from its end if reverse."""
    y = np.array(b)
    step = -1 if reverse else 1
    factors, rows = np.moveaxis(a, axis, 0)[::step], np.moveaxis(y, axis, 0)[::step]
    for k in range(1, len(rows)):
        rows[k] += factors[k] * rows[k - 1]
    return y
'''
