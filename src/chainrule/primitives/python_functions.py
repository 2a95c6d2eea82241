"""Functions that NumPy lacks, as the source that is written where a call needs one."""

LOGISTIC = '''
def logistic(x):
    """The logistic sigmoid 1 / (1 + exp(-x)), which overflows for no x."""
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))
'''

ERF = '''
def erf(x):
    """The error function."""
    x = np.asarray(x)
    return np.fromiter(map(math.erf, x.flat), x.dtype, x.size).reshape(x.shape)
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
