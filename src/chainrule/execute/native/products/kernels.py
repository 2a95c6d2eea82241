"""In LLVM's text: functions that serve all products of a module, written once a process."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, constant, with_lanes
from chainrule.execute.native.plan_to_ir.masks import first_lanes
from chainrule.execute.native.products.narrow_reads import load_vector, memory_types
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import Tiles

I64 = "i64"


class Kernels:
    """Functions for the panels, tiles and strips that a product has.

    They take what lies between elements as arguments, so that all products of a module share them.
    """

    def __init__(self, module: Module, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        self.module, self.gemm, self.tiles, self.type = module, gemm, tiles, type_
        self.vector = with_lanes(type_, tiles.lanes)
        self.of_a, self.of_b, _ = memory_types(tiles.narrow, type_)
        edge = gemm.m % tiles.width  # rows of the last panel; 0: it is like the others
        self.widths = ([edge] if edge else []) + ([tiles.width] if gemm.m >= tiles.width else [])
        low, wide = divmod(gemm.n, tiles.strips_together(gemm))
        self.columns = [low + 1, low] if wide else [low]  # of the first strips, and of the others

    def masks(self, width: int, lanes: int) -> list[Operand | None]:
        """For every vector of so many rows, which lanes it has; None: all."""
        found = list[Operand | None]()
        for begin in range(0, width, lanes):
            here = min(width - begin, lanes)
            found.append(None if here == lanes else first_lanes(here, lanes))
        return found

    def moved(self, code: Code, base: Operand, index: Operand) -> Operand:
        """base + index elements."""
        return code.address(base, index, self.type)

    def read(
        self, code: Code, base: Operand, vector: str, masks: Sequence[Operand | None], kept: str
    ) -> list[Operand]:
        """The vectors from `base` on, of numbers that are kept as this type; what a mask hides is
        not read."""
        found = list[Operand]()
        for v, mask in enumerate(masks):
            place = code.address(base, number(v * self.tiles.lanes), kept)
            found.append(load_vector(code, place, kept, vector, mask))
        return found

    def written(self, code: Code, name: str, parameters: list[Operand]) -> str:
        """The name of the function that was written, which is there once."""
        code.do("ret void")
        code.function(name[1:], parameters, attributes="noinline nounwind")
        _texts[name] = self.module.functions.pop().replace("define ", "define internal ", 1)
        self.is_there(name)
        return name

    def is_there(self, name: str) -> bool:
        """Whether the function was written before, for any module; then it is in this one."""
        text = _texts.get(name)
        if text is not None and text not in self.module.functions:
            self.module.functions.append(text)
        return text is not None


_texts: dict[str, str] = {}  # of the functions, by their names, which say all that they depend on


def iota(lanes: int) -> Operand:
    """0, 1, 2, ... as a vector."""
    return Operand(f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>", f"<{lanes} x i64>")


def number(value: int) -> Operand:
    """An `i64` constant."""
    return constant(value, I64)


def choice(code: Code, condition: Operand, names: list[str]) -> str:
    """The first of two functions where the condition holds, else the last."""
    if len(names) == 1:
        return names[0]
    return code.select(condition, *(Operand(name, "ptr") for name in names)).text


def call(code: Code, function: str, *operands: Operand) -> None:
    """Call a function of this module, or by its address."""
    arguments = ", ".join(f"{one.type} {one.text}" for one in operands)
    code.do(f"call void {function}({arguments})")
