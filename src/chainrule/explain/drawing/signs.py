"""A primitive in a few characters, read off its LaTeX: +, ⊙, Σ, exp; and as text with operands."""

from __future__ import annotations

import re
from functools import cache

from chainrule.dataclass import dataclass
from chainrule.explain.reading.symbols import SUBSCRIPTS
from chainrule.primitives.notation import ATOM, PRODUCT
from chainrule.primitives.primitive import Contract, Primitive

# In this order: parameters below and above the line are left out, but for axes; a fraction and a
# root are written in one line, commands become characters.
_REWRITES = (
    (re.compile(r"_\{\{\{ax[ie]s\}\}\}"), "{axes}"),
    (re.compile(r"_(\d)\b|_\{\{(\d+)\}\}"), lambda m: (m[1] or m[2]).translate(SUBSCRIPTS)),
    (re.compile(r"_\{\{\{\w+\}( \{\w+\})*\}\}"), ""),
    (re.compile(r"\^\{\{\(\d\)\}\}"), ""),
    (re.compile(r"\^\{\{-1\}\}"), "⁻¹"),
    (re.compile(r"\{\{|\}\}"), lambda m: m[0][0]),
    (re.compile(r"\\operatorname\{(\w+)\}"), r"\1"),
    (re.compile(r"\\frac\{(\{\w+\})\}\{(\{\w+\})\}"), r"\1 / \2"),
    (re.compile(r"\\sqrt\{(\{\w+\})\}"), r"√(\1)"),
    (re.compile(r"\{(\{\w+\})\}"), r"\1"),
    (re.compile(r"\\left\| *| *\\right\|"), lambda m: "|"),
    (re.compile(r"\^\\top"), "ᵀ"),
    (re.compile(r"\\arg\\max"), "arg max"),
)
_CHARACTERS = {
    "odot": "⊙", "cdot": "·", "sum": "Σ", "sigma": "σ", "neq": "≠", "leq": "≤", "geq": "≥",
    "oplus": "⊕", "wedge": "∧", "vee": "∨", "neg": "¬", "top": "ᵀ",
}  # fmt: skip
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_OPERAND = re.compile(r"\{\w+\}")
_RAISED, _HIGH = re.compile(r"\^\{(x|y)\}"), {"x": "ˣ", "y": "ʸ"}
_PRODUCT_SIGN, _SAME = "×", "="


@dataclass(frozen=True)
class Written:
    """A formula in one line: the template, how strongly it binds, what its operands need.

    `{axes}` stands where the axes of the operation do.
    """

    template: str
    binding: int
    operands: tuple[int, ...]


@cache
def written(primitive: Primitive) -> Written:
    """The LaTeX of a primitive as text: `{x} / {y}`, `exp({x})`, `Σ {x}`."""
    template = primitive.latex.template
    for pattern, replacement in _REWRITES:
        template = pattern.sub(replacement, template)
    template = _COMMAND.sub(lambda m: _CHARACTERS.get(m[1], m[1]), template)
    template = template.replace("-", "\N{MINUS SIGN}")
    template += "{axes}" if template.startswith("[") or template.endswith("ᵀ") else ""
    binding, operands = primitive.latex.binding, primitive.latex.operands
    if " / " in template:
        operands = (PRODUCT, PRODUCT + 1)
    if set(_OPERAND.sub("", template)) & set("{}\\"):  # more than one line can show
        template = f"{_name(primitive)}({', '.join(f'{{{one}}}' for one in primitive.inputs)})"
        binding, operands = ATOM, (0,)
    raised = [f"^{{{one}}}" in template for one in primitive.inputs]
    needs = (*operands, *operands[-1:] * len(raised))
    operands = tuple(ATOM if up else need for up, need in zip(raised, needs, strict=False))
    return Written(template, binding, operands)


def _name(primitive: Primitive) -> str:
    return primitive.name.replace("_derivative", "⁽ⁿ⁾")


LONGEST = 12  # a formula that is longer says less than the name


@cache
def sign(primitive: Primitive) -> str:
    """What stands in the circle of one operation: `+`, `×` for a matrix product, `tanh`."""
    template = written(primitive).template
    if not template.startswith("{x}^"):
        template = _RAISED.sub(lambda m: _HIGH[m[1]], template)
    template = _OPERAND.sub("", template)
    if isinstance(primitive.kernel, Contract):
        return template.strip() or _PRODUCT_SIGN
    if template.startswith("["):
        return "[ ]"
    core = re.sub(r"\(.*\)|[,]", "", template).strip(" ^").replace("||", "|·|")
    if len(core) > LONGEST:
        return _name(primitive)
    return core or (_SAME if not template.strip() else "^")
