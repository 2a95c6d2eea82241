"""Compares what the ranks of a job are given: the same step, state, numbers and batch.

Of a batch, all bytes are read.  So a rank reads them while it waits for others, and all compare
batches just before they update.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from chainrule.devices.mpi import World
from chainrule.errors import InputError
from chainrule.graph.node import ArrayValue, structural_hash
from chainrule.train.step.state import State
from chainrule.version import VERSION

if TYPE_CHECKING:
    from chainrule.devices.splitting import Split

ROW = 521  # words of 8 bytes: a prime, so that no pattern in rows of a batch stays in a column


def agree(
    world: World,
    split: Split,
    digest: int,
    state: State,
    numbers: Mapping[str, np.ndarray],
    batch: Iterable[np.ndarray] = (),
) -> None:
    """InputError on all ranks where they are about to take different steps; `digest` is that of the
    split."""
    arrays = 0 if state.shares is not None else checksum(state.memory.values())
    sums = arrays, checksum(batch), checksum(one for _, one in sorted(numbers.items()))
    own = np.array([digest, state.steps, *sums], np.uint64)
    told = world.gather("takes a step", own)
    differs = np.argwhere(told != told[0])
    if not differs.size:
        return
    column = int(differs[:, 1].min())
    other = int(next(rank for rank, at in differs if at == column))
    first, second = world.ranks[0], world.ranks[other]
    if column == 0:
        texts = world.exchange("takes a step", split.text)
        raise InputError(
            f"{second} takes another step than {first}:\n  {texts[other]}\n  {texts[0]}",
            hint="run the same file, with the same data and version, on all ranks",
        )
    if column == 1:
        raise InputError(
            f"{second} has a state after {told[other, 1]} steps, {first} after {told[0, 1]}",
            hint="all ranks restore the same checkpoint",
        )
    if column == 4:
        told = world.exchange("takes a step", {name: str(one) for name, one in numbers.items()})
        name = next(name for name in told[0] if told[0][name] != told[other][name])
        raise InputError(
            f"{second} was given {name}={told[other][name]}, {first} {name}={told[0][name]}, in "
            f"step {state.steps + 1}",
            hint="all ranks are given the same numbers",
        )
    what = {2: "begins with other parameters than", 3: "was given another batch than"}[column]
    raise _refusal(world, other, what, state)


def begin_comparing(
    world: World, state: State, batch: Iterable[np.ndarray]
) -> Callable[[], InputError | None]:
    """Reads a batch, and tells the others; what it gives waits for them, and is what all ranks
    raise where their batches differ."""
    told = world.begin_gather("ends a step", np.array([checksum(batch)], np.uint64))

    def refusal() -> InputError | None:
        sums = told(0.0)[:, 0].tolist()
        other = next((rank for rank, one in enumerate(sums) if one != sums[0]), None)
        what = "was given another batch than"
        return None if other is None else _refusal(world, other, what, state)

    return refusal


def _refusal(world: World, other: int, what: str, state: State) -> InputError:
    return InputError(
        f"{world.ranks[other]} {what} {world.ranks[0]}, in step {state.steps + 1}",
        hint="every rank is given the whole batch and all parameters: seed generators alike, as in "
        "np.random.default_rng(0)",
    )


def digest_of(split: Split) -> int:
    """What the ranks compare of a split: graphs, their constants, programs, version."""
    found = hashlib.sha256(f"{VERSION}|{split.text}|{split.programs}|{split.lent}".encode())
    for piece in split.pieces:
        found.update(structural_hash(piece.graph.nodes).encode())
        for node in piece.graph.nodes:
            for _, value in node.params:
                if isinstance(value, ArrayValue):
                    found.update(value.sha256.encode())
    return int.from_bytes(found.digest()[:8], "little")


def checksum(arrays: Iterable[np.ndarray]) -> int:
    """A number that other arrays hardly share, nor the same rows in another order.

    Reading takes most of its time: words lie in a table, and of its sums along both axes there is a
    CRC.  Sums lose the highest bit of words where an even number of them have another sign.
    """
    found = 0
    for array in arrays:
        whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        rows = whole.size // (8 * ROW)
        table = whole[: rows * 8 * ROW].view(np.uint64).reshape(rows, ROW)
        if rows:
            for axis in (0, 1):
                found = zlib.crc32(np.add.reduce(table, axis=axis).data, found)
        found = zlib.crc32(whole[rows * 8 * ROW :].data, found)
    return found
