"""Writes control flow as Python source: each node calls a function defined beside it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from chainrule.control.packing import packed_type, result_types
from chainrule.control.wording import loop_text
from chainrule.graph.body import Body
from chainrule.graph.free_names import free_name
from chainrule.graph.node import Node, topological
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.python import Writing, Written, dtype_text, shape_text


class _Function:
    """The source of one function under construction; a `Writing` for what stands in it."""

    def __init__(self, writing: Writing, name: str, doc: str) -> None:
        self.writing, self.doc = writing, doc
        self.name = re.sub(r"\W", "_", name)
        self.sizes: dict[str, str] = {}
        self.taken = {"np", "math", "result", "step", self.name}
        self.arguments: list[str] = []
        self.lines: list[str] = []

    def size(self, size: int | Size) -> str:
        """A size; the names in it become arguments."""
        for name in sorted(sizes.names(size)):
            self.sizes[name] = self.writing.size(sizes.size(name))
        return self.writing.size(size)

    def helper(self, source: str) -> str:
        """The name of another function."""
        return self.writing.helper(source)

    def fresh(self, wish: str) -> str:
        """A variable that is not there yet."""
        stem = re.sub(r"\W", "_", wish).strip("_") or "t"
        stem = f"{stem}_" if keyword.iskeyword(stem) or stem[0].isdigit() else stem
        name = free_name(stem, self.taken)
        self.taken.add(name)
        return name

    def parameter(self, wish: str) -> str:
        """One more argument."""
        self.arguments.append(self.fresh(wish))
        return self.arguments[-1]

    def say(self, line: str, depth: int = 1) -> None:
        """One more line."""
        self.lines.append(f"{'    ' * depth}{line}")

    def body(self, body: Body, given: Sequence[str], depth: int) -> list[str]:
        """The lines that compute a body from these variables; the variables of its outputs."""
        graph = body.graph
        known = dict(zip([item.node for item in graph.inputs], given, strict=True))
        needed = set(topological(node for _, node in graph.outputs))
        for node in graph.nodes:
            if node in known or node not in needed:
                continue
            spelling = node.primitive.python
            assert spelling is not None
            written = spelling.write(node, self, [Written(known[one]) for one in node.inputs])
            for check in written.before:
                self.say(check, depth)
            known[node] = self.fresh(graph.name_of.get(node, "t"))
            self.say(f"{known[node]} = {written.text}", depth)
        return [known[node] for _, node in graph.outputs]

    def written(self, operands: Sequence[Written]) -> Written:
        """The call of the function on the operands, and on the sizes that it needs."""
        arguments = ", ".join([*self.sizes.values(), *self.arguments])
        source = "\n".join(
            ["", f"def {self.name}({arguments}):", f'    """{self.doc}"""', *self.lines, ""]
        )
        shown = [*self.sizes.values(), *(one.text for one in operands)]
        return Written(f"{self.writing.helper(source)}({', '.join(shown)})")

    def result(self, out: Node, types: Sequence[ArrayType]) -> list[str]:
        """The lines that make the result and name its parts."""
        self.say(f"result = np.empty({self.size(out.type.size)}, {dtype_text(out.dtype)})")
        found, start = [], packed_type(out.dtype, ()).size
        for one in types:
            found.append(self.fresh("part"))
            stop = start + one.size
            view = f"result[{self.size(start)} : {self.size(stop)}]"
            self.say(f"{found[-1]} = {view}.reshape({shape_text(self, one.shape)})")
            start = stop
        return found

    def states(self, out: Node, initial: Sequence[str], parts: list[str]) -> list[str]:
        """The lines that make the carries, in the result where they are of its dtype."""
        found = []
        types = [node.type for _, node in out.param("body").graph.outputs]
        for value, one in zip(initial, types, strict=False):
            if one.dtype == out.dtype:
                found.append(parts.pop(0))
                self.say(f"{found[-1]}[...] = {value}")
            else:
                found.append(self.fresh("state"))
                made = f"np.empty({shape_text(self, one.shape)}, {dtype_text(one.dtype)})"
                self.say(f"{found[-1]} = {made}")
                self.say(f"{found[-1]}[...] = {value}")
        return found

    def store(self, places: Sequence[str], values: Sequence[str], depth: int) -> None:
        """The lines that write the values to the places; values may be parts of places."""
        copies = []
        for value in values:
            copies.append(self.fresh("new"))
            self.say(f"{copies[-1]} = np.array({value})", depth)
        for place, value in zip(places, copies, strict=True):
            self.say(f"{place} = {value}", depth)


def _inputs(function: _Function, body: Body, count: int) -> list[str]:
    """The arguments of a function for its body's inputs; the first `count` in C order."""
    names = [function.parameter(item.name) for item in body.graph.inputs]
    for name in names[:count]:
        function.say(f'{name} = np.asarray({name}, order="C")')
    return names


def scan_python(out: Node, writing: Writing, *operands: Written) -> Written:
    """The call of a function with a for loop."""
    body, carries, constants = (out.param(key) for key in ("body", "carries", "constants"))
    length = out.param("length")
    function = _Function(
        writing, f"scan_{body}", "One iteration after another; all results in a row."
    )
    names = _inputs(function, body, constants)
    parts = function.result(out, result_types(body, carries, out.dtype, length))
    states = function.states(out, names[constants : constants + carries], parts)
    numbers = f"range({function.size(length)})"
    function.say(f"for step in {f'reversed({numbers})' if out.param('reverse') else numbers}:")
    rows = []
    for name in names[constants + carries :]:
        rows.append(function.fresh(f"{name}_row"))
        function.say(f'{rows[-1]} = np.asarray({name}[step], order="C")', 2)
    values = function.body(body, [*names[:constants], *states, *rows], 2)
    places = [f"{one}[...]" for one in states] + [f"{one}[step]" for one in parts]
    function.store(places, values, 2)
    function.say("return result")
    return function.written(operands)


def while_python(out: Node, writing: Writing, *operands: Written) -> Written:
    """The call of a function with a while loop."""
    body, condition, constants = (out.param(key) for key in ("body", "condition", "constants"))
    function = _Function(writing, f"while_{body}", "As long as the condition holds.")
    names = _inputs(function, body, constants)
    types = [node.type for _, node in body.graph.outputs if node.dtype == out.dtype]
    parts = function.result(out, types)
    states = function.states(out, names[constants:], parts)
    given = [*names[:constants], *states]
    number = _condition(function, condition, given, out.param("limit"), body)
    values = function.body(body, given, 2)
    function.store([f"{one}[...]" for one in states], values, 2)
    if number:
        function.say(f"{number} += 1", 2)
    function.say("return result")
    return function.written(operands)


def _condition(
    function: _Function, condition: Body, given: Sequence[str], limit: int | None, body: Body
) -> str:
    """The head of a while loop; the variable that counts its iterations where there is a limit."""
    number = "" if limit is None else function.fresh("iterations")
    if number:
        function.say(f"{number} = 0")
    function.say("while True:")
    (holds,) = function.body(condition, given, 2)
    function.say(f"if not {holds}:", 2)
    function.say("break", 3)
    if number:
        function.say(f"if {number} == {limit}:", 2)
        said = f"{loop_text(body)} has not ended after max_steps={limit}"
        function.say(f'raise ValueError("{said}")', 3)
    return number


def unwind_python(out: Node, writing: Writing, *operands: Written) -> Written:
    """The call of a function with a while loop, and a for loop back through its iterations."""
    body, step, condition = (out.param(key) for key in ("body", "step", "condition"))
    constants, last = out.param("constants"), len(body.graph.inputs) - out.param("carries")
    function = _Function(writing, f"unwind_{step}", "Back through the iterations of a while loop.")
    names = _inputs(function, body, constants)
    fixed, forth, gone = names[:constants], names[constants:last], names[last:]
    types = [node.type for _, node in body.graph.outputs if node.dtype == out.dtype]
    parts = function.result(out, types)
    gone = function.states(out, gone, parts)
    befores = function.fresh("befores")
    function.say(f"{befores} = []")
    number = _condition(function, condition, [*fixed, *forth], out.param("limit"), step)
    together = f"({forth[0]},)" if len(forth) == 1 else f"({', '.join(forth)})"
    function.say(f"{befores}.append({together})", 2)
    values = function.body(step, [*fixed, *forth], 2)
    if forth:
        function.say(f"{', '.join(forth)} = {', '.join(values)}", 2)
    function.say(f"{number} += 1", 2)
    function.say(f"for {together if forth else '_'} in reversed({befores}):")
    values = function.body(body, [*fixed, *forth, *gone], 2)
    function.store([f"{one}[...]" for one in gone], values, 2)
    function.say("return result")
    return function.written(operands)


def cond_python(out: Node, writing: Writing, *operands: Written) -> Written:
    """The call of a function with an if."""
    bodies = out.param("if_true"), out.param("if_false")
    name = f"cond_{bodies[0]}_{bodies[1]}"
    function = _Function(writing, name, "The results of one of two branches, in a row.")
    holds = function.parameter("holds")
    names = _inputs(function, bodies[0], len(bodies[0].graph.inputs))
    parts = function.result(out, [node.type for _, node in bodies[0].graph.outputs])
    for line, body in zip((f"if {holds}:", "else:"), bodies, strict=True):
        function.say(line)
        values = function.body(body, names, 2)
        function.store([f"{one}[...]" for one in parts], values, 2)
        if not values:
            function.say("pass", 2)
    function.say("return result")
    return function.written(operands)
