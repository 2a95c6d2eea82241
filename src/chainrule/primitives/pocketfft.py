"""What NumPy's Fourier transforms take from the system by themselves, measured with NumPy 2.4.

NumPy makes a plan for each call (its pocketfft keeps none), and transforms as many rows at once as
a vector register has doubles, each in a buffer of its own.
"""

from __future__ import annotations

from functools import lru_cache

LANES = 2  # doubles of a vector in NumPy's wheels, of which the plainest processor has 16 bytes
SMALL = 50  # lengths below are transformed directly
COMPLEX, REAL = 16, 8  # bytes
EASY = (2, 3, 5, 7, 11)


def pocketfft_bytes(length: int, rows: int, is_real: bool) -> int:
    """The most bytes at a time, of `rows` transforms of this length."""
    if length < 2 or not rows:
        return 0
    lanes = LANES if rows >= LANES else 1
    buffers = lanes * length if lanes > 1 else 0
    inner = _convolved(length, is_real)
    if not inner:
        return (REAL if is_real else COMPLEX) * (length + lanes * length + buffers)
    plan = inner + inner // 2 + length
    if is_real:
        return COMPLEX * (plan + lanes * (2 * inner + length)) + REAL * buffers
    return COMPLEX * (plan + lanes * 2 * inner + buffers)


@lru_cache(maxsize=1024)
def _convolved(length: int, is_real: bool) -> int:
    """The length of the convolution by which a transform is computed (Bluestein's algorithm); 0
    where it is done factor by factor, which is chosen by estimates of both costs."""
    largest = max(_factors(length))
    if length < SMALL or largest * largest <= length:
        return 0
    inner = 2 * length - 1
    while max(_factors(inner)) > EASY[-1]:
        inner += 1
    direct = _cost(length) / (2 if is_real else 1)
    return inner if 3 * _cost(inner) < direct else 0


def _cost(length: int) -> float:
    """A sum over the prime factors, times the length."""
    weights = [one if one <= 5 else 1.1 * one for one in _factors(length)]
    return length * sum(weights)


def _factors(number: int) -> list[int]:
    """The prime factors, each as often as it divides."""
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 else found
