"""Published rates of waiting of pipelines: Qi and others, arXiv 2401.10241, tables 5 and 6."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """`numbers` are p, m and the microseconds F, B, W and c; `rates` those of 1F1B, 1F1B-I, ZB-H1,
    ZB-H2, ZB-1p and ZB-2p.

    1F1B-I has as many chunks a stage as layers.  `kept_units`, what W needs in units of what B
    needs, is 32 / (34 + 5 a s / h) by their table 1, from heads, length and width of table 4.
    """

    numbers: tuple[int, int, float, float, float, float]
    rates: tuple[float, float, float, float, float, float]
    chunks: int
    kept_units: float

    def __str__(self) -> str:
        return "-".join(map(str, self.numbers[:3]))


SMALL = 32 / (34 + 5 * 24 * 1024 / 2304)  # 1.5 billion parameters
OTHERS = 32 / (34 + 5 * 32 * 1024 / 4096)  # 6.2, 14.6 and 28.3 billion
PUBLISHED = [
    Published(
        (8, 24, 18522, 18086, 9337, 601), (0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433), 3, SMALL
    ),
    Published(
        (8, 32, 18513, 18086, 9331, 626), (0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039), 3, SMALL
    ),
    Published(
        (8, 64, 18546, 18097, 9321, 762), (0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026), 3, SMALL
    ),
    Published(
        (8, 24, 29718, 29444, 19927, 527),
        (0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029),
        4,
        OTHERS,
    ),
    Published(
        (16, 48, 11347, 11248, 8132, 377),
        (0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066),
        3,
        OTHERS,
    ),
    Published(
        (32, 96, 10419, 10207, 7715, 408),
        (0.2646, 0.1493, 0.1421, 0.0641, 0.1421, 0.0038),
        2,
        OTHERS,
    ),
]
