"""What a product packs next is fetched while its tiles are computed, a line every few steps.

Packing reads memory and computes nothing; tiles compute, and read what has been packed.  So what
will be packed next is brought into a cache between the multiplications, one line at a time: more
at once would take the places in which the tile's own lines arrive.
"""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import BITS, Code, Operand, constant
from chainrule.execute.native.products.product_code import ZERO, moved

I64 = "i64"
STEPS = 8  # of a tile's inner index, for each of which one line is fetched
LINE_NBYTES = 64


@dataclass(frozen=True)
class Region:
    """Rows of a matrix, `stride` elements apart, of which each has so many `lines`.

    The tiles of one strip fetch a line of each of `at_once` rows: those of each panel from
    `across` elements behind those of the panel before.  Where there `is_none`, they fetch nothing.
    """

    begin: Operand
    stride: int
    lines: int
    rows: int
    at_once: int
    across: int
    is_none: Operand

    def share(self, code: Code, type_: str, turn: Operand, hot: Operand) -> Fetched:
        """What the tiles of a strip fetch, the first one with `turn` 0.

        When all is fetched, it is what lies at `hot`, which is in a cache anyway.
        """
        lines = constant(self.lines, I64)
        line, round_ = code.binary("urem", turn, lines), code.binary("udiv", turn, lines)
        rounds = constant(-(-self.rows // self.at_once), I64)
        is_over = code.binary("or", self.is_none, code.compare("icmp uge", round_, rounds))
        place = moved(code, self.begin, line, LINE_NBYTES * 8 // BITS[type_], type_)
        place = moved(code, place, round_, self.at_once * self.stride, type_)
        across = constant(self.across, I64)
        stride = constant(self.stride * BITS[type_] // 8, I64)
        return Fetched(
            code.select(is_over, hot, place),
            code.select(is_over, ZERO, across),
            code.select(is_over, ZERO, stride),
        )


@dataclass(frozen=True)
class Fetched:
    """The first address; how many elements further the next panel's is, and how many bytes the next
    line."""

    begin: Operand
    across: Operand
    step: Operand

    def of_panel(self, code: Code, panel: Operand, type_: str) -> list[Operand]:
        """The first address and the step of the panel with this number in its stack."""
        place = code.address(self.begin, code.binary("mul", panel, self.across), type_)
        return [place, self.step]


def line_count(size: int, type_: str) -> int:
    """The lines of so many elements, one after another."""
    return -(-size * BITS[type_] // (8 * LINE_NBYTES))
