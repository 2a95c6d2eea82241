"""Names the function to call for the logarithm of a value that rounds to 0: `cr.log_ndtr(m)`."""

from __future__ import annotations

from chainrule.explain.nonfinite.phrases import Names, bracketed, phrase
from chainrule.explain.nonfinite.roots import is_softmax, root
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import full
from chainrule.primitives.special import special

# Functions with f(-x) = 1 - f(x): what they are, and what gives their logarithms.
LOGARITHMS: dict[Primitive, tuple[str, str]] = {
    a.logistic: ("sigmoid", "cr.log_sigmoid"),
    special.ndtr: ("ndtr", "cr.log_ndtr"),
}
SOFTMAX = "cr.log_softmax or cr.cross_entropy, which never form the probabilities"


def better_logarithm(node: Node, names: Names) -> tuple[str, str]:
    """What the node is, "a softmax", and what to call in place of its logarithm; "" where it is
    nothing of the kind."""
    if is_softmax(node):
        return "a softmax", SOFTMAX
    node = root(node)
    if node.primitive is special.erfc:
        (x,) = node.inputs
        call = f"np.log(2) + cr.log_ndtr(-np.sqrt(2) * {bracketed(phrase(x, names))})"
        return "erfc", call
    if node.primitive is a.subtract and _is_one(node.inputs[0]):
        return _of(root(node.inputs[1]), names, complement=True)
    return _of(node, names, complement=False)


def better_logarithm_of_rest(node: Node, names: Names) -> tuple[str, str]:
    """The same for the logarithm of 1 + node, as in `np.log1p(-cr.sigmoid(x))`."""
    node = root(node)
    if node.primitive is not a.negative:
        return "", ""
    return _of(root(node.inputs[0]), names, complement=True)


def _of(node: Node, names: Names, *, complement: bool) -> tuple[str, str]:
    if node.primitive in LOGARITHMS:
        what, function = LOGARITHMS[node.primitive]
        x = root(node.inputs[0])
    elif _is_sigmoid_by_hand(node):
        what, function = LOGARITHMS[a.logistic]
        x = root(root(root(node.inputs[1]).inputs[1]).inputs[0]).inputs[0]
    else:
        return "", ""
    shown = phrase(x, names)
    if complement:
        unnamed = x not in names and x.primitive is a.negative
        shown = phrase(x.inputs[0], names) if unnamed else f"-{bracketed(shown)}"
    what = f"1 - {what}" if complement else what
    return what, f"{function}({shown})"


def _is_sigmoid_by_hand(node: Node) -> bool:
    """Whether it is 1 / (1 + exp(-x))."""
    if node.primitive is not a.divide or not _is_one(node.inputs[0]):
        return False
    below = root(node.inputs[1])
    if below.primitive is not a.add or not _is_one(below.inputs[0]):
        return False
    above = root(below.inputs[1])
    return above.primitive is a.exp and root(above.inputs[0]).primitive is a.negative


def _is_one(node: Node) -> bool:
    node = root(node)
    return node.primitive is full and node.param("value") == 1
