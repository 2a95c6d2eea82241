"""Random numbers are values: arrays that are functions of a key, which is an array, too."""

from chainrule.random.distributions import bernoulli, normal, uniform
from chainrule.random.keys import bits, fold_in, key, split
from chainrule.random.permutation import permutation

__all__ = ["bernoulli", "bits", "fold_in", "key", "normal", "permutation", "split", "uniform"]
