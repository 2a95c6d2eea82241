"""Every check of primitives goes red when a fault is planted, in every primitive."""

from __future__ import annotations

import pytest
from noting import noted

from chainrule.errors import GradientCheckError, InputError
from chainrule.primitives.arithmetic import exp, multiply, tanh
from chainrule.primitives.primitive import Given
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import CHECKS, FAULTS, check_primitive, planted_fault
from chainrule.testing.checks import is_differentiable
from chainrule.testing.faults import GRADIENT_FAULTS, PART_FAULTS

# Copies that are not wrong at all, or that a check says it does not look at.
HARMLESS = {
    "detached": {
        **dict.fromkeys(
            ("absolute", "copysign", "fmod", "maximum", "minimum", "remainder"),
            "the partials are constant between the kinks",
        ),
    },
    **dict.fromkeys(
        ("kernel: another value", "kernel: an unknown function"),
        dict.fromkeys(("argmax", "argmin"), "its kernel is no scalar expression"),
    ),
}


def check_that_finds(kind):
    if kind == "one mode":
        return "agreement"
    return "derivatives" if kind in GRADIENT_FAULTS else kind.partition(":")[0]


def differentiable(primitive):
    return any(s.smooth and is_differentiable(primitive, s) for s in primitive.samples)


def planted():
    """Every (name, primitive with a fault, its kind and argument) that exists."""
    for primitive in PRIMITIVES:
        for kind in FAULTS:
            if kind in GRADIENT_FAULTS and not differentiable(primitive):
                continue
            if kind.startswith("type") and isinstance(primitive.kernel, Given):
                continue  # the type of an argument is its parameter
            for argument in range(len(primitive.inputs)) if kind in GRADIENT_FAULTS else (0,):
                try:
                    wrong = planted_fault(primitive, kind, argument)
                except InputError:
                    continue  # nothing to change; test_no_fault_is_forgotten counts
                if primitive.name not in HARMLESS.get(kind, {}):
                    yield primitive.name, wrong, kind, argument


PLANTED = list(planted())


@pytest.mark.sweep(23)
@pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in PLANTED))
def test_planted_faults_are_found(name):
    for of, wrong, kind, argument in PLANTED:
        if of == name:
            with noted(f"{kind} of argument {argument}"):
                look_for(wrong, kind)


def look_for(wrong, kind):
    """Fails where no sample shows the fault."""
    check = CHECKS[check_that_finds(kind)]
    for sample in wrong.samples:
        try:
            check(wrong, sample, 0)
        except AssertionError as error:
            assert wrong.name in str(error)
            return
    raise AssertionError(f"no sample of {wrong.name} shows the fault")


def test_no_fault_is_forgotten():
    for kind in FAULTS:
        count = sum(found == kind for *_, found, _ in PLANTED)
        assert count >= 3, kind
    found = {check_that_finds(kind) for kind in FAULTS}
    assert found == set(CHECKS)


def test_each_rule_of_each_smooth_primitive_is_tried():
    tried = {(name, kind) for name, _, kind, _ in PLANTED}
    for primitive in filter(differentiable, PRIMITIVES):
        assert (primitive.name, "shifted") in tried, primitive.name


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_copies_are_let_pass(kind):
    for primitive in PRIMITIVES:
        if primitive.name in HARMLESS[kind]:
            wrong = planted_fault(primitive, kind)
            for sample in wrong.samples[:2]:
                CHECKS[check_that_finds(kind)](wrong, sample, 0)


def test_a_planted_fault_leaves_the_original_alone():
    before = exp.derivative
    assert planted_fault(exp, "scaled") is not exp
    assert exp.derivative is before
    check_primitive(exp)


def test_check_primitive_finds_a_fault_of_any_part():
    for kind in ("scaled", "detached", *PART_FAULTS):
        with pytest.raises(AssertionError):
            check_primitive(planted_fault(tanh, kind))


def test_only_order_two_sees_a_detached_rule():
    with pytest.raises(GradientCheckError, match="order 2"):
        check_primitive(planted_fault(tanh, "detached"))


def test_faults_of_one_mode_are_named_so():
    with pytest.raises(GradientCheckError, match="forward and reverse mode disagree"):
        CHECKS["agreement"](planted_fault(multiply, "one mode", 1), multiply.samples[1], 0)


def test_unknown_and_impossible_faults_are_explained():
    with pytest.raises(InputError, match=r"no fault called 'scale'\n.*try: one of: scaled, "):
        planted_fault(exp, "scale")
    with pytest.raises(InputError, match=r"exp has nothing that the fault 'scaled' \(argument 1\)"):
        planted_fault(exp, "scaled", argument=1)
