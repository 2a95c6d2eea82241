"""Imports JAX where the executor `xla` needs it, and sets what its programs are traced with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from chainrule.errors import UnsupportedError

INSTALL = "python -m pip install 'chainrule[xla]' (on a GPU also 'jax[cuda13]' or 'jax[cuda12]')"
# XLA may skip roundings to float16 between two operations; then a step would not be that of the
# graph.
OPTIONS = {"xla_allow_excess_precision": False}


# What XLA's compiler for CPUs does before it decides what is computed when; for others, barriers
# stay until that is decided.
DROPS_BARRIERS = {"xla_disable_hlo_passes": "cse_barrier_expander"}


@cache
def refusal() -> str | None:
    """Why JAX cannot be used here; None where it can.  Does not import it."""
    if find_spec("jax") is None or find_spec("jaxlib") is None:
        return f'the executor "xla" needs JAX, which is not installed: {INSTALL}'
    return None


@cache
def jax_here() -> Any:
    """The module `jax`; UnsupportedError with what to install where there is none."""
    why = refusal()
    if why is not None:
        raise UnsupportedError(why, hint='executor="native" or "reference"')
    try:
        import jax
    except Exception as error:  # what is installed does not fit together
        raise UnsupportedError(
            f'the executor "xla" needs JAX, which cannot be imported: {error}',
            hint=f'{INSTALL}; or executor="native"',
        ) from error
    return jax


@cache
def failures() -> tuple[type[Exception], ...]:
    """What a call of compiled code raises where it failed: ValueError from its second call on, and
    FloatingPointError where the user's `jax_debug_nans` has found a NaN."""
    return jax_here().errors.JaxRuntimeError, ValueError, FloatingPointError


def refuse_traced(array: Any = None) -> None:
    """UnsupportedError where JAX traces a function of the user's: by default any array shows it."""
    jax = jax_here()
    if isinstance(jax.numpy.zeros(()) if array is None else array, jax.core.Tracer):
        raise UnsupportedError(
            'a program of the executor "xla" was called while JAX traces a function that calls it',
            hint="call it outside of jax.jit, or there by jax.pure_callback",
        )


def keeping_barriers() -> dict[str, Any]:
    """The compiler's options with which barriers between operations decide the order."""
    return DROPS_BARRIERS if jax_here().default_backend() == "cpu" else {}


def wide() -> Any:
    """In it, JAX has 64-bit numbers, for this thread and this while: the user's setting stays."""
    return jax_here().enable_x64(True)


@contextmanager
def tracing() -> Iterator[None]:
    """In it, JAX traces as the graph says, whatever the user has set: 64 bits, products in full
    precision, NumPy's promotion and broadcasting."""
    jax = jax_here()
    with ExitStack() as stack:
        stack.enter_context(wide())
        stack.enter_context(jax.default_matmul_precision("highest"))
        stack.enter_context(jax.numpy_dtype_promotion("standard"))
        stack.enter_context(jax.numpy_rank_promotion("allow"))
        yield
