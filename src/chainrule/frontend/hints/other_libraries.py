"""What to write for methods and keywords of PyTorch's tensors and JAX's arrays; tests compare each
expression with PyTorch's numbers."""

from __future__ import annotations

import re

from chainrule.signatures import OTHER_NAMES

# By the names of methods; x is the array.
METHODS = {
    "abs_": "np.abs(x)",
    "addmm": "x + y @ z",
    "bmm": "x @ y",
    "chunk": "np.array_split(x, 2, axis=0)",
    "clamp": "np.clip(x, 0, 1)",
    "clone": "x itself: traced arrays are never changed in place",
    "contiguous": "x itself: memory layout is the planner's",
    "cpu": "x itself",
    "cuda": "x itself: the device is the executor's",
    "detach": "cr.stop_gradient(x)",
    "div": "x / y",
    "double": "x.astype(np.float64)",
    "exp": "np.exp(x)",
    "expand": "np.broadcast_to(x, (3, 4))",
    "float": "x.astype(np.float32)",
    "gather": "np.take_along_axis(x, indices, axis=1)",
    "half": "x.astype(np.float16)",
    "index_select": "np.take(x, [0, 2], axis=0)",
    "log": "np.log(x)",
    "log_softmax": "cr.log_softmax(x, axis=-1)",
    "logsumexp": "cr.logsumexp(x, axis=-1)",
    "long": "x.astype(np.int64)",
    "masked_fill": "np.where(mask, 0, x)",
    "matmul": "x @ y",
    "mm": "x @ y",
    "mul": "x * y",
    "norm": "np.linalg.norm(x)",
    "numel": "x.size",
    "permute": "np.transpose(x, (1, 0))",
    "pow": "x ** 2",
    "relu": "cr.relu(x)",
    "requires_grad_": "wrt= of cr.grad or cr.training_step: it names what is differentiated",
    "rsqrt": "1 / np.sqrt(x)",
    "sigmoid": "cr.sigmoid(x)",
    "softmax": "cr.softmax(x, axis=-1)",
    "sqrt": "np.sqrt(x)",
    "sub": "x - y",
    "t": "x.T",
    "tanh": "np.tanh(x)",
    "to": "x.astype(np.float32)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "list(x)",
    "unsqueeze": "np.expand_dims(x, 0)",
    "view": "np.reshape(x, (2, 6))",
    "zero_": "np.zeros_like(x)",
    "backward": "cr.grad(objective)(...), or cr.backward(graph, wrt=...): derivatives are graphs",
    "grad": "cr.grad(objective)(...): a gradient is a value of its own, not an attribute",
    "block_until_ready": "x itself: runs return when they are done",
}
# By the names of keywords: those of NumPy that mean the same.
KEYWORDS = {name: OTHER_NAMES[name][0] for name in ("dim", "keepdim")}
UNEXPECTED = re.compile(r"unexpected keyword argument '(?P<name>\w+)'")


def method_of(name: str) -> str:
    """The hint for a method that NumPy's arrays lack, or ''."""
    instead = METHODS.get(name)
    if instead is None:
        return ""
    return f'write {instead}; the page "Coming from PyTorch and JAX" has a table of such names'


def keyword_of(problem: str) -> str:
    """The hint where Python says that a function has no such keyword, which is another library's;
    or ''."""
    found = UNEXPECTED.search(problem)
    return keyword_named(found["name"]) if found else ""


def keyword_named(name: str) -> str:
    """The hint for a keyword that is another library's, or ''."""
    instead = KEYWORDS.get(name)
    return f"NumPy calls it {instead}=" if instead else ""
