"""Hyperparameters that make no sense are refused where the optimizer is made."""

from __future__ import annotations

import pytest

import chainrule as cr
from chainrule.errors import InputError


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "0.1", None, True, [0.1]])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda value: cr.sgd(value), "a learning rate is a finite number of at least 0"),
        (lambda value: cr.adam(value), "a learning rate is a finite number of at least 0"),
        (lambda value: cr.adamw(value), "a learning rate is a finite number of at least 0"),
        (lambda value: cr.rmsprop(value), "a learning rate is a finite number of at least 0"),
        (lambda value: cr.rmsprop(eps=value), "eps is a finite number of at least 0"),
        (lambda value: cr.rmsprop(alpha=value), "alpha is a number of at least 0 and less than 1"),
        (lambda value: cr.rmsprop(momentum=value), "a momentum is a finite number of at least 0"),
        (lambda value: cr.rmsprop(weight_decay=value), "a weight decay is a finite number of at"),
        (lambda value: cr.sgd(0.1, value), "a momentum is a finite number of at least 0"),
        (lambda value: cr.sgd(1, weight_decay=value), "a weight decay is a finite number of at"),
        (lambda value: cr.adam(weight_decay=value), "a weight decay is a finite number of at"),
        (lambda value: cr.adamw(weight_decay=value), "a weight decay is a finite number of at"),
        (lambda value: cr.adam(eps=value), "eps is a finite number of at least 0"),
        (lambda value: cr.adamw(eps=value), "eps is a finite number of at least 0"),
        (lambda value: cr.adam(betas=(value, 0.9)), "beta1 is a number of at least 0 and less"),
        (lambda value: cr.adamw(betas=(0.9, value)), "beta2 is a number of at least 0 and less"),
    ],
)
def test_a_hyperparameter_out_of_range_is_explained(make, what, value):
    with pytest.raises(InputError, match=what) as caught:
        make(value)
    assert caught.value.what.endswith(f", got {value!r}")
    assert caught.value.hint.startswith("cr.")


def test_other_wrong_hyperparameters_are_explained():
    for betas in (0.9, (0.9,), (0.9, 0.99, 0.999), None):
        with pytest.raises(InputError, match="betas is a pair of numbers, beta1 and beta2, got"):
            cr.adam(betas=betas)  # type: ignore[arg-type]
    for betas in ((1.0, 0.9), (1.5, 0.9)):
        with pytest.raises(InputError, match=r"beta1 is .* less than 1, got 1\."):
            cr.adamw(betas=betas)
    with pytest.raises(InputError, match=r"nesterov=True looks .* got momentum=0\n.*momentum=0\.9"):
        cr.sgd(0.1, nesterov=True)
