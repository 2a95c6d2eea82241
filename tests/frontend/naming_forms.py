"""The forms in which a program stores a value, each with the names that its values have.

A row is what the user writes, and the name of every value made, in the order in which they are
made.  `x W W1 W2` are traced, `op` makes one value, `Ws` is `[W, W1, W2]`.
"""

from __future__ import annotations

TABLE: dict[str, tuple[str, list[str | None]]] = {
    "plain": ("z = x @ W\nh = op(z)", ["z", "h"]),
    "sub-expressions": ("h = op(x @ W) + x", [None, None, "h"]),
    "several lines": ("h = op(\n    x,\n    W,\n)", ["h"]),
    "annotated": ("h: int = x @ W", ["h"]),
    "augmented": ("h = x @ W\nh += x\nh @= W", ["h", "h", "h"]),
    "unary, index, property": ("a = -x\nb = x[0]\nc = x.T", ["a", "b", "c"]),
    "slice": ("b = x[1:]\nc = x[:, None]", ["b", "c"]),
    "keyword arguments": ("def f(x, *, w): return x @ w\nh = f(x, w=W)", ["h"]),
    "walrus": ("y = op(h := x @ W)", ["h", "y"]),
    "walrus in a test": ("if (h := x @ W) is not None:\n    y = op(h)", ["h", "y"]),
    "walrus in a comprehension": ("hs = [(h := op(w)) for w in Ws]", ["h"] * 3),
    "chained": ("a = b = x @ W", ["a"]),
    "chained with an attribute": ("box.h = b = x @ W", ["box.h"]),
    "tuple": ("a, b = x @ W, op(x)", ["a", "b"]),
    "triple": ("a, b, c = x @ W, op(x), -x", ["a", "b", "c"]),
    "four": ("a, b, c, d = x @ W, op(x), -x, x.T", ["a", "b", "c", "d"]),
    "swap": ("a, b = x, W\na, b = op(b), op(a)", ["a", "b"]),
    "list of targets": ("[a, b] = [x @ W, op(x)]", ["a", "b"]),
    "nested targets": ("(a, b), c = (x @ W, op(x)), -x", ["a", "b", "c"]),
    "starred": ("a, *b, c = -x, x.T, x[0], x @ W", ["a", "b[0]", "b[1]", "c"]),
    "starred first": ("*a, b = -x, x.T, x @ W", ["a[0]", "a[1]", "b"]),
    "tuple targets of all kinds": ("box.a, d['b'] = x @ W, op(x)", ["box.a", "d.b"]),
    "conditional expression": ("h = x @ W if flag else op(x)", ["h"]),
    "conditional expression, else": ("h = x @ W if not flag else op(x)", ["h"]),
    "nested conditional": ("h = -x if not flag else op(x) if not flag else x @ W", ["h"]),
    "conditional in a display": ("p = [x @ W, op(x) if flag else -x]", ["p[0]", "p[1]"]),
    "conditional beside": ("p = (x @ W, 1 if flag else 2)", ["p[0]"]),
    "and": ("h = flag and x @ W", ["h"]),
    "or": ("h = 0 or x @ W", ["h"]),
    "attribute": ("box.h = x @ W\nbox.box.h = op(x)", ["box.h", "box.box.h"]),
    "string entry": ("d['h'] = x @ W\nd['a']['b'] = op(x)", ["d.h", "d.a.b"]),
    "odd entry": ("d['a b'] = x @ W\nd[1.5] = op(x)", ['d["a b"]', None]),
    "number entry": ("hs = [0, 0]\nhs[1] = x @ W\nd[0] = op(x)", ["hs[1]", "d[0]"]),
    "entry at a variable": (
        "for k in ('u', 2):\n    d[k] = x @ W\n    box.d[k] = op(x)",
        ["d.u", "box.d.u", "d[2]", "box.d[2]"],
    ),
    "entry at an expression": ("d[1 + op.__name__.count('o')] = x @ W", [None]),
    "entry whose key is new": ("k = 'old'\nk, d[k] = 'new', x @ W", [None]),
    "entry, augmented": ("d['h'] = x @ W\nd['h'] += x", ["d.h", "d.h"]),
    "attribute, augmented": ("box.h = x @ W\nbox.h @= W", ["box.h", "box.h"]),
    "list": ("p = [x @ W, op(x), 3]", ["p[0]", "p[1]"]),
    "tuple display": ("p = x @ W, op(x)", ["p[0]", "p[1]"]),
    "list in a list": ("p = [[x @ W], (0, op(x))]", ["p[0][0]", "p[1][1]"]),
    "list after a star": ("p = [x @ W, *Ws, op(x)]", ["p[0]", None]),
    "list after constants": ("p = [1, 2, 3, x @ W]", ["p[3]"]),
    "long list": ("p = [" + "x @ W, " * 40 + "]", [f"p[{i}]" for i in range(40)]),
    "dict": ("p = {'u': x @ W, 'v': op(x)}", ["p.u", "p.v"]),
    "dict of one": ("p = {'u': x @ W}", ["p.u"]),
    "dict with variables": ("k = 'u'\np = {k: x @ W, 'v': op(x)}", ["p.u", "p.v"]),
    "dict after a star": ("p = {**d, 'u': x @ W}", ["p.u"]),
    "dict of lists": ("p = {'u': [x @ W, op(x)]}", ["p.u[0]", "p.u[1]"]),
    "long dict": (
        "p = {" + ", ".join(f"'k{i}': x @ W" for i in range(40)) + "}",
        [f"p.k{i}" for i in range(40)],
    ),
    "set": ("p = {x @ W}", [None]),
    "list comprehension": ("hs = [x @ w for w in Ws]", ["hs[0]", "hs[1]", "hs[2]"]),
    "comprehension over range": ("hs = [op(x) for _ in range(1, 7, 3)]", ["hs[0]", "hs[1]"]),
    "comprehension over enumerate": (
        "hs = [op(w, i) for i, w in enumerate(Ws, 5)]",
        ["hs[0]", "hs[1]", "hs[2]"],
    ),
    "comprehension over zip": ("hs = [a @ b for a, b in zip(Ws, Ws)]", ["hs[0]", "hs[1]", "hs[2]"]),
    "comprehension over pairs": ("hs = [a @ b for a, b in pairs]", ["hs[0]", "hs[1]"]),
    "comprehension over items": ("hs = [op(w) for k, w in dw.items()]", ["hs[0]", "hs[1]"]),
    "comprehension over values": ("hs = [op(w) for w in dw.values()]", ["hs[0]", "hs[1]"]),
    "comprehension over reversed": (
        "hs = [op(w) for w in reversed(Ws)]",
        ["hs[0]", "hs[1]", "hs[2]"],
    ),
    "comprehension over an attribute": (
        "hs = [op(w) for w in box.Ws]",
        ["hs[0]", "hs[1]", "hs[2]"],
    ),
    "comprehension over a display": ("hs = [op(w) for w in (W1, W)]", ["hs[0]", "hs[1]"]),
    "comprehension over constants": ("hs = [op(x, k) for k in ('a', 'b')]", ["hs[0]", "hs[1]"]),
    "comprehension over equals": ("hs = [op(w) for w in [W, W]]", [None, None]),
    "comprehension over an iterator": ("hs = [op(w) for w in iter(Ws)]", [None] * 3),
    "comprehension with a filter": ("hs = [op(w) for w in Ws if flag]", [None] * 3),
    "comprehension of two loops": ("hs = [op(w) for w in Ws for _ in range(1)]", [None] * 3),
    "conditional in a comprehension": (
        "hs = [op(x) if k else x @ W for k in (0, 1)]",
        ["hs[0]", "hs[1]"],
    ),
    "comprehension of tuples": (
        "hs = [(w, op(w)) for w in Ws]",
        ["hs[0][1]", "hs[1][1]", "hs[2][1]"],
    ),
    "comprehension in a comprehension": (
        "hs = [[op(w, k) for k in (5, 6)] for w in Ws]",
        ["hs[0][0]", "hs[0][1]", "hs[1][0]", "hs[1][1]", "hs[2][0]", "hs[2][1]"],
    ),
    "comprehension in a loop": (
        "for _ in range(2):\n    hs = [op(w) for w in dw.values()]",
        ["hs[0]", "hs[1]"] * 2,
    ),
    "comprehension in a dict": ("d = {'u': [op(w) for w in Ws]}", ["d.u[0]", "d.u[1]", "d.u[2]"]),
    "comprehension of calls": (
        "def f(w):\n    return -w if flag else w\nhs = [f(w) for w in Ws]",
        ["hs[0]", "hs[1]", "hs[2]"],
    ),
    "comprehension, consumed": ("h = op(x, [op(w) for w in Ws])", [None, None, None, "h"]),
    "comprehension, unpacked": ("a, b, c = [op(w) for w in Ws]", ["a", "b", "c"]),
    "dict comprehension": ("d = {k: op(x) for k in ('u', 'v')}", ["d.u", "d.v"]),
    "dict comprehension over items": ("d = {k: op(w) for k, w in dw.items()}", ["d.a", "d.b"]),
    "dict comprehension, filtered": ("d = {k: op(x) for k in 'uv' if k != 'u'}", ["d.v"]),
    "dict comprehension, odd keys": ("d = {k + 'x': op(x) for k in 'uv'}", [None, None]),
    "set comprehension": ("d = {op(x) for k in 'uv'}", [None, None]),
    "list of a generator": ("hs = list(op(w) for w in Ws)", ["hs[0]", "hs[1]", "hs[2]"]),
    "loop over a generator": ("for h in (op(w) for w in Ws): pass", ["h"] * 3),
    "tuple of a generator": ("hs = tuple(op(x) for i in range(2))", ["hs[0]", "hs[1]"]),
    "generator unpacked from a list": ("a, b = list(op(w) for w in dw.values())", ["a", "b"]),
    "generator in sum": ("s = sum(op(w) for w in Ws)", [None] * 6),
    "sum": ("s = sum([W, W1])", [None, None]),
    "reduce": ("s = functools.reduce(operator.matmul, Ws)", [None, None]),
    "reduce with lambda": ("s = functools.reduce(lambda a, w: a @ w, Ws)", [None, None]),
    "map": ("hs = list(map(op, Ws))", [None] * 3),
    "operator module": ("h = operator.matmul(x, W)", ["h"]),
    "append": (
        "hs = []\nfor w in Ws:\n    hs.append(op(w))\n    box.hs.append([x @ w])",
        ["hs[0]", "box.hs[0][0]", "hs[1]", "box.hs[1][0]", "hs[2]", "box.hs[2][0]"],
    ),
    "append to no list": ("class S(list): pass\nhs = S()\nhs.append(op(x))", [None]),
    "lambda": ("f = lambda a: a @ W\nh = f(x)", ["h"]),
    "lambda, immediate": ("h = (lambda a: a @ W)(x)", ["h"]),
    "helper": ("def f(a):\n    return op(a)\nh = f(x)", ["h"]),
    "helper with a local": ("def f(a):\n    y = op(a)\n    return y\nh = f(x)", ["y"]),
    "nested helpers": ("def g(a): return op(a)\ndef f(a): return g(a)\nh = f(x)", ["h"]),
    "helper in an argument": ("def f(a): return -a\nh = op(f(x))", [None, "h"]),
    "recursive helper": ("def f(a, n): return f(a, n - 1) if n else op(a)\nh = f(x, 3)", ["h"]),
    "helper of a tuple": ("def f(a): return -a, op(a)\np, q = f(x)", ["p", "q"]),
    "helper of a tuple, kept": ("def f(a): return -a, op(a)\np = f(x)", ["p[0]", "p[1]"]),
    "helper of a dict": ("def f(a): return {'u': -a, 'v': op(a)}\np = f(x)", ["p.u", "p.v"]),
    "helper of a comprehension": (
        "def f(a): return [op(w) for w in a]\np = f(Ws)",
        ["p[0]", "p[1]", "p[2]"],
    ),
    "decorator": (
        "def deco(f):\n    @functools.wraps(f)\n    def wrapper(*args, **kwargs):\n"
        "        return f(*args, **kwargs)\n    return wrapper\n"
        "@deco\ndef f(a): return op(a)\nh = f(x)",
        ["h"],
    ),
    "partial": ("def f(w, a): return a @ w\ng = functools.partial(f, W)\nh = g(x)", ["h"]),
    "partial of partial": (
        "def f(w, a): return a @ w\nh = functools.partial(functools.partial(f), W)(x)",
        ["h"],
    ),
    "cached function": ("@functools.lru_cache\ndef f(a): return op(a)\nh = f(x)", ["h"]),
    "method": ("class C:\n    def f(self, a): return a @ W\nc = C()\nh = c.f(x)", ["h"]),
    "classmethod": (
        "class C:\n    @classmethod\n    def f(cls, a): return op(a)\nh = C.f(x)",
        ["h"],
    ),
    "callable object": (
        "class C:\n    def __call__(self, a): return op(a)\nc = C()\nh = c(x)",
        ["h"],
    ),
    "callables in a list": (
        "class C:\n    def __call__(self, a): return op(a)\n"
        "fs = [C(), C()]\nh = x\nfor f in fs:\n    h = f(h)\nhs = [f(x) for f in fs]",
        ["h", "h", "hs[0]", "hs[1]"],
    ),
    "attribute in a method": (
        "class C:\n    def __init__(self, a): self.h = op(a)\nc = C(x)",
        ["self.h"],
    ),
    "property": ("class C:\n    @property\n    def f(self): return op(x)\nc = C()\nh = c.f", ["h"]),
    "operator of a class": (
        "class C:\n    def __rxor__(self, a): return op(x)\nh = 2 ^ C()",
        ["h"],
    ),
    "star call": ("def f(*a, **k): return op(*a)\nh = f(*[x, W], **{'q': 1})", ["h"]),
    "for": ("h = x\nfor w in Ws:\n    h = h @ w", ["h"] * 3),
    "for over a traced array": ("for row in x:\n    h = op(row)", ["row", "h"] * 2),
    "unpacking a traced array": ("a, b = x", ["a", "b"]),
    "several results": (
        "a, b, c = split(x)\np = split(x)",
        ["a", "b", "c", "p[0]", "p[1]", "p[2]"],
    ),
    "containers of results": (
        "(h, c), y = nested(x)\ns, y = nested(x)\nr = nested(x)",
        ["h", "c", "y", "s[0]", "s[1]", "y", "r[0][0]", "r[0][1]", "r[1]"],
    ),
    "results by key": (
        "d, y = keyed(x)\n(h, *c), y = nested(x)",
        ["d.h", "d.c", "y", "h", "c[0]", "y"],
    ),
    "composite": ("h = composite(x)", ["h"]),
    "while": ("i = 0\nwhile i < 2:\n    h = op(x)\n    i += 1", ["h", "h"]),
    "statement": ("op(x)\nx @ W", [None, None]),
    "comparison": ("t = op(x) is not op(W)", [None, None]),
    "f-string": ("t = f'{op(x)!r:.3}'", [None]),
    "global": ("global g\ng = x @ W", ["g"]),
    "closure": (
        "h = x @ W\ndef f():\n    nonlocal_or_global = h\n    return nonlocal_or_global",
        ["h"],
    ),
    "try": (
        "try:\n    h = op(x)\n    1 / 0\nexcept ZeroDivisionError:\n    y = x @ W\n"
        "finally:\n    z = -x",
        ["h", "y", "z"],
    ),
    "return in finally": (
        "def f(a):\n    try:\n        return op(a)\n    finally:\n        b = -a\nh = f(x)",
        ["h", "b"],
    ),
    "return in with": ("def f(a):\n    with box:\n        return op(a)\nh = f(x)", ["h"]),
    "with": ("with box as b:\n    h = op(x)", ["h"]),
    "match": (
        "match (1, x):\n    case (1, a):\n        h = op(a)\n    case _:\n        h = -x",
        ["h"],
    ),
    "match subject": ("match x @ W:\n    case h:\n        y = op(h)", ["h", "y"]),
    "assert": ("h = op(x)\nassert (y := -h), 'no'", ["h", "y"]),
    "loop until it is specialised": (
        "def f(a): return operator.neg(a)\nfor i in range(40):\n    h = op(x)\n    y = f(x)\n"
        "    t = operator.matmul(x, W)",
        ["h", "y", "t"] * 40,
    ),
    "many variables": (
        "\n".join(f"v{i} = {i}" for i in range(300))
        + "\nh = op(x) if v299 else x\na, b = op(x), op(x)",
        ["h", "a", "b"],
    ),
    "entry of a display": ("h = (x @ W,)[0]\nh = [op(w) for w in Ws][0]", [None] * 4),
    "key that the value rebinds": ("k = 'u'\np = {k: op(x, (k := 'v'))}", [None]),
    "compound callables": (
        "class C:\n    def g(self, a): return op(a)\nfs = [C().g]\n"
        "a = C().g(x)\nb = fs[0](x)\nc = (fs[0] if flag else op)(x)\n"
        "d = (lambda: C())().g(*[x])\ne = C().g(a=x)",
        ["a", "b", "c", "d", "e"],
    ),
    "super": (
        "class B:\n    def g(self, a): return op(a)\nclass C(B):\n    def g(self, a):\n"
        "        y = super().g(a)\n        return super().g(a)\nh = C().g(x)",
        ["y", "h"],
    ),
    "loop over an expression": (
        "for row in x @ W: pass\na, b = x @ W",
        [None, "row", "row", None, "a", "b"],
    ),
    "sorted": ("hs = sorted([1, 2], key=lambda i: (op(x), i)[1])", [None] * 2),
    "key of max": ("h = max([1, 2], key=lambda i: id(op(x)))", [None] * 2),
    "map of a lambda": (
        "f = lambda w: op(w)\nhs = [*map(f, Ws)]\nh = list(map(f, Ws))",
        [None] * 6,
    ),
    "loop over map": ("f = lambda w: op(w)\nfor h in map(f, Ws): pass", [None] * 3),
    "loop over zip": ("for pair in zip(x, x): pass", [None] * 4),
    "loop over a kept zip": ("z = zip(x, x)\nfor pair in z: pass", [None] * 4),
    "unpacked zip": ("a, b = zip(x, x)", [None] * 4),
    "loop over an own iterator": (
        "class C:\n    n = 2\n    def __iter__(self): return self\n    def __next__(self):\n"
        "        self.n -= 1\n        if self.n < 0: raise StopIteration\n        return op(x)\n"
        "c = C()\nfor h in c: pass\nc.n = 1\nfor i, t in enumerate(c): pass",
        ["h", "h", None],
    ),
    "generator kept": ("g = (op(w) for w in Ws)\nhs = list(g)", [None] * 3),
    "another list": ("def list(g): return next(g)\nh = list(op(w) for w in Ws)", [None]),
    "membership": (
        "class C:\n    def __contains__(self, a): return op(a)\nt = x in C()",
        [None],
    ),
    "loop variable of its own iterable": (
        "hs = [op(hs) for hs in Ws]",
        ["hs[0]", "hs[1]", "hs[2]"],
    ),
    "iterable bound in the comprehension": (
        "ws = [W, W1]\nhs = [(ws := op(w)) for w in ws]",
        ["ws", "ws"],
    ),
    "iterable rebound in the comprehension": (
        "ws = [W, W1]\nhs = [(op(w), ws := [W1, W])[0] for w in ws]",
        [None, None],
    ),
    "tuple entry of an iterable rebound": (
        "ws = [W, W1]\nhs = [[op(w), ws := [W1, W]] for w in ws]",
        [None, None],
    ),
    "tuple unpacked into entries": ("hs = [0, 0]\nhs[0], hs[1] = x @ W, op(x)", ["hs[0]", "hs[1]"]),
    "generator, unpacked": ("q, k, v = (x @ w for w in Ws)", ["q", "k", "v"]),
    "generator, unpacked with a star": (
        "a, *b = (x @ w for w in Ws)\n*c, d = (x @ w for w in Ws)",
        ["a", "b[0]", "b[1]", None, None, None],
    ),
    "generator of pairs, unpacked": (
        "(a, b), (c, d), p = ((x @ w, op(w)) for w in Ws)",
        ["a", "b", "c", "d", "p[0]", "p[1]"],
    ),
    "generator of an unknown place, unpacked": ("a, b, c = (x @ w for w in iter(Ws))", [None] * 3),
    "generator that is kept, unpacked": ("g = (x @ w for w in Ws)\na, b, c = g", [None] * 3),
    "generator among others, unpacked": ("a, b, c = zip(*[(op(w) for w in Ws)] * 1)", [None] * 3),
    "comprehension with a star": ("a, *b = [op(w) for w in Ws]", ["a", "b[0]", "b[1]"]),
    "helper with a star": (
        "def f(a): return -a, op(a), a @ W\na, *b = f(x)\n*c, d = f(x)",
        ["a", "b[0]", "b[1]", "c[0]", "c[1]", "d"],
    ),
    "helper of a nested tuple": (
        "def f(a): return (-a, op(a)), a @ W\n(mean, var), y = f(x)",
        ["mean", "var", "y"],
    ),
    "enumerate of zip": (
        "for i, (w, b) in enumerate(zip(Ws, Ws)):\n    z = x @ w\n    hs = [z + b]\n"
        "gs = [w @ b for i, (w, b) in enumerate(zip(Ws, Ws))]",
        ["z", "hs[0]"] * 3 + ["gs[0]", "gs[1]", "gs[2]"],
    ),
    "walrus in a generator": ("a, b, c = ((h := op(w)) for w in Ws)", ["h"] * 3),
    "generator function": (
        "def g(a):\n    yield op(a)\n    yield -a, a @ W\n"
        "h = list(g(x))\na, (b, c) = g(x)\nd, *e = g(x)\nfor t in g(x): pass\n"
        "k = g(x)\nfor u in k: pass",
        "h[0] h[1][0] h[1][1] a b c d e[0][0] e[0][1] t t[0] t[1] u u[0] u[1]".split(),
    ),
    "generator function with a loop": (
        "def g(a):\n    for w in a:\n        y = op(w)\n        yield y\n        yield -w\n"
        "for h in g([W, W1]): pass\nhs = list(g([W]))",
        ["y", "h", "y", "h", "y", None],
    ),
    "return of a generator function": (
        "def g(a):\n    yield 1\n    return op(a)\nfor h in g(x): pass\nh, = g(x)",
        [None, None],
    ),
    "generator method": (
        "class C:\n    def g(self, a):\n        for w in a: yield op(w)\n"
        "c = C()\nfor h in c.g(Ws): pass\nfor i, k in enumerate(c.g(Ws)): pass",
        ["h"] * 3 + [None] * 3,
    ),
    "generator function of others": (
        "def g(a): yield op(a)\ndef f(a): yield from g(a)\n"
        "for h in f(x): pass\nfor h in zip(g(x), g(W)): pass\nh = next(g(x))\nh, = map(id, g(x))",
        [None] * 5,
    ),
}
