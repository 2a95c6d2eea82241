"""Random numbers as values: arrays computed from a key, which is an array, too."""

from chainrule.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    truncated_normal,
)
from chainrule.random.discrete import categorical, choice, rademacher, randint
from chainrule.random.distributions import bernoulli, normal, uniform
from chainrule.random.keys import bits, fold_in, key, split
from chainrule.random.multivariate import multivariate_normal
from chainrule.random.permutation import permutation

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "multivariate_normal",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
