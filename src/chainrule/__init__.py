"""A training step as one explicit computational graph with your own names on it."""

from chainrule import errors, testing, transforms
from chainrule.annotations import (
    Array,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from chainrule.composites.activations import (
    erf,
    gelu,
    log_softmax,
    logsumexp,
    relu,
    sigmoid,
    softmax,
    softplus,
    stop_gradient,
)
from chainrule.composites.layers import embedding, layer_norm, linear
from chainrule.composites.losses import cross_entropy, squared_error
from chainrule.composites.statistics import mean, norm, size_value, std, var
from chainrule.functional import grad, hvp, jvp, value_and_grad, vjp
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size, maximum, minimum, size, sizes
from chainrule.graph.types import ArrayType
from chainrule.run import Run
from chainrule.tracing import trace
from chainrule.transforms import backward, deduplicate, prune, simplify

__version__ = "0.1.0"
