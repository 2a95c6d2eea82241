"""Whether results agree with a float64 run, but for what rounding to the arrays' dtype explains.

How far rounding moves a result differs by orders of magnitude.  The gradient jumps where the input
of a relu passes zero, and the first steps of Adam have the size of the learning rate however small
a gradient is, so that a gradient next to zero moves its parameter by the sign of its rounding
error.  Hence it is measured: the float64 run is repeated from arrays that are a little perturbed
(a condition number by sampling; Higham, Accuracy and Stability of Numerical Algorithms, section
1.6), and what that changes in a result, it may be off by.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from cases.case import Case, Prepared, Problem, Settings, flat, map_tree

STEPS_COMPARED = 3
# Who runs in float64, the first that can: JAX would need another mode of the whole process.
REFERENCES = {"NumPy": "numpy", "PyTorch": "torch", "chainrule": "chainrule"}

# Relative errors count in the `eps` of the arrays' dtype, float32 or float64.
# Elements are perturbed by 32 to 64 ulp, in so many runs.  Rounding moves less: what it turns by
# chance (a relu next to zero), one of the runs should turn too.  With a quarter of this, all four
# missed one in mlp-large.  Libraries were off by at most 0.6 of the largest change.
PERTURBATION, RUNS, SLACK = 32, 4, 2
RELATIVE = 84  # allowed in any case: scalars computed in that dtype, such as Adam's 1 - 0.999 ** n
STORING = 4  # relative to a parameter: rounded in each update


@dataclass(frozen=True)
class Expected:
    """The results in float64 by name, and the norm of the error that is allowed to each."""

    right: Mapping[str, np.ndarray]
    allowed: Mapping[str, float]

    def disagreement(self, found: Mapping[str, np.ndarray]) -> str | None:
        """What is most wrong with `found`, in words; None where all of it agrees."""
        if set(found) != set(self.right):
            return f"gives {', '.join(sorted(found))}; expected {', '.join(sorted(self.right))}"
        worst, message = 1.0, None
        for name, right in self.right.items():
            if found[name].shape != right.shape:
                return f"{name} has shape {found[name].shape}; expected {right.shape}"
            error, allowed = distance(found[name], right), self.allowed[name]
            if error <= allowed:
                continue
            excess = error / allowed if allowed and error == error else np.inf  # NaN is worst
            if excess > worst:
                worst, message = excess, f"{name} is off by {error:.1e}; allowed is {allowed:.1e}"
        return message


def results(case: Case, problem: Problem, prepared: Prepared) -> dict[str, np.ndarray]:
    """What is compared: the results of one call; of training those of the first steps.

    Those are the objective of each, and by how much all of them changed each parameter.
    """
    if not case.trains:
        return prepared.as_numpy(prepared.call())
    found: dict[str, np.ndarray] = {}
    for step in range(1, STEPS_COMPARED + 1):
        found |= prepared.as_numpy(prepared.call())
        found[f"J of step {step}"] = found.pop("J")
    for name, initial in flat(problem.parameters).items():
        found[name] = found[name] - initial.astype(np.float64)
    return found


def expected_results(case: Case, settings: Settings) -> Expected:
    """The float64 results of the case, and what is allowed around them."""
    build = reference(case)
    plain = replace(settings, executor="reference")

    def run(problem: Problem) -> dict[str, np.ndarray]:
        return results(case, problem, build(problem, plain))

    problem = case.problem()
    right = run(each_array(in_float64, problem))
    moved = dict.fromkeys(right, 0.0)
    for seed in range(RUNS):
        perturbed = partial(in_float64, random=np.random.default_rng(seed))
        for name, value in run(each_array(perturbed, problem)).items():
            moved[name] = max(moved[name], distance(value, right[name]))
    stored = flat(problem.parameters) if case.trains else {}
    eps = max(map(rounding, (*problem.arrays.values(), *flat(problem.parameters or {}).values())))
    allowed = {
        name: RELATIVE * eps * distance(value, 0)
        + SLACK * moved[name]
        + STORING * eps * distance(stored.get(name, 0), 0)
        for name, value in right.items()
    }
    return Expected(right, allowed)


def reference(case: Case) -> Callable[[Problem, Settings], Prepared]:
    """The way to write the case that is run in float64."""
    for name, module in REFERENCES.items():
        if name in case.variants and importlib.util.find_spec(module):
            return next(iter(case.variants[name].values()))
    raise ValueError(f"{case.name} is written for none of {', '.join(REFERENCES)}")


def each_array(function: Callable[[np.ndarray], np.ndarray], problem: Problem) -> Problem:
    arrays = {name: function(array) for name, array in problem.arrays.items()}
    return Problem(arrays, map_tree(function, problem.parameters) if problem.parameters else None)


def in_float64(array: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
    """A floating-point array in float64, by `random` perturbed; one of integers as it is."""
    eps = rounding(array)
    if not eps:
        return array
    wide = array.astype(np.float64)
    if random is not None:
        wide *= 1 + PERTURBATION * eps * random.standard_normal(array.shape)
    return wide


def rounding(array: np.ndarray) -> float:
    """The `eps` of its dtype; 0 of integers."""
    return float(np.finfo(array.dtype).eps) if np.issubdtype(array.dtype, np.floating) else 0.0


def distance(value: Any, other: Any) -> float:
    """The norm of the difference, in float64."""
    return float(np.linalg.norm(np.asarray(value, np.float64) - other))
