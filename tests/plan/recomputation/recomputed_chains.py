"""Chains with their backward pass, as arguments of `recompute`."""


def chain(values, gradients, costs, back_costs, reads, budget, with_first=True):
    """Fi is node i; the backward nodes follow.  `reads[i]`: which of F(i-1), Fi are read by Bi."""
    k = len(values)
    n = 2 * k
    pairs = [(i, i + 1) for i in range(n - 1)]
    for i, (before, own) in enumerate(reads):
        pairs += [(i - 1, n - 1 - i)] if before and i else []
        pairs += [(i, n - 1 - i)] if own else []
    numbers = {
        "nbytes": [*values, *reversed(gradients)],
        "cost": [*costs, *reversed(back_costs)],
        "reads": pairs,
        "order": list(range(n)),
        "budget_nbytes": budget,
    }
    if not with_first:  # F0 is an input: nothing goes back to it
        numbers["nbytes"].pop()
        numbers["cost"].pop()
        numbers["order"].pop()
        numbers["reads"] = [pair for pair in pairs if n - 1 not in pair]
    return numbers
