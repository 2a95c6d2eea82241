"""A grid of JAX's devices: its mesh, what lies where, and functions that all of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.execute.across import Across
from chainrule.execute.xla.jax_here import jax_here, wide
from chainrule.execute.xla.landing import own_copy
from chainrule.execute.xla.memory import device_with_memory
from chainrule.graph.node import Node


class Grid:
    """The devices of `lying`, and how arrays get there."""

    def __init__(self, lying: Across) -> None:
        self.lying = lying
        self.mesh = _mesh(tuple(lying.axes.items()), lying.rank is not None)
        self._shardings: dict[Node, Any] = {}

    @property
    def where(self) -> Any:
        """What says where arrays are: those of another grid have to be sent again."""
        return self.mesh, self.lying.rank

    @property
    def sharing(self) -> int:
        """How many of the devices share one memory: all of this process where that is its own."""
        if device_with_memory() is not None or self.lying.rank is not None:
            return 1
        return self.lying.count

    @property
    def own_devices(self) -> dict[int, int]:
        """The places in the grid of the devices of this process, by what a profile calls them: on
        CPUs their number among all, on others that in this process."""
        own = jax_here().process_index()
        places = {x: at for at, x in enumerate(self.mesh.devices.flat) if x.process_index == own}
        found = {x.local_hardware_id: at for x, at in places.items()}
        return found | {x.id: at for x, at in places.items()}

    def spec(self, node: Node) -> Any:
        """The axes of the mesh along which each axis of a value is cut, the outer one first."""
        found: list[tuple[str, ...]] = [()] * node.ndim
        for name, axis in self.lying.cuts_of(node):
            found[axis] = (*found[axis], name)
        return jax_here().sharding.PartitionSpec(*[one or None for one in found])

    def sharding(self, node: Node) -> Any:
        """How a value lies, as JAX says it."""
        found = self._shardings.get(node)
        if found is None:
            found = jax_here().sharding.NamedSharding(self.mesh, self.spec(node))
            self._shardings[node] = found
        return found

    def sent(self, nodes: Sequence[Node], arrays: Sequence[np.ndarray]) -> list[Any]:
        """Copies of arrays of this process on its devices: their parts, or all of them on each."""
        jax, where = jax_here(), [self.sharding(node) for node in nodes]
        copies = [own_copy(one) for one in arrays]  # one device may still read when another is done
        with wide():
            if self.lying.rank is None:
                return jax.device_put(copies, where, may_alias=False)
            own = jax.device_put(copies, jax.local_devices()[0], may_alias=False)
            shapes = [self.lying.whole_shape(node) for node in nodes]
            made = jax.make_array_from_single_device_arrays
            return [made(*one[:2], [one[2]]) for one in zip(shapes, where, own, strict=True)]

    def array_of(self, node: Node) -> Any:
        """The shape and dtype of a whole value, and how it lies, as JAX takes them."""
        shape, where = self.lying.whole_shape(node), self.sharding(node)
        return jax_here().ShapeDtypeStruct(shape, node.dtype, sharding=where)

    def jitted(
        self,
        function: Callable[..., Any],
        given: Sequence[Sequence[Node]],
        found: Sequence[Sequence[Node]],
        **options: Any,
    ) -> Any:
        """A function of lists of arrays, those of `given`, that each device calls with its parts.

        It gives lists of arrays, those of `found`, and then what is the same on all devices.
        """
        jax = jax_here()
        same = jax.sharding.PartitionSpec()
        specs = tuple([self.spec(node) for node in nodes] for nodes in given)
        ends = (*([self.spec(node) for node in nodes] for nodes in found), same)
        options["in_shardings"] = tuple([self.sharding(x) for x in nodes] for nodes in given)
        each = jax.shard_map(
            function, mesh=self.mesh, in_specs=specs, out_specs=ends, check_vma=False
        )
        return jax.jit(each, **options)

    def anywhere(self, holds: Any) -> Any:
        """Whether a traced boolean holds on any device; the same on all."""
        jax = jax_here()
        return jax.lax.pmax(holds.astype("int32"), tuple(self.lying.axes)) > 0

    def text(self, places: Mapping[Node, int], nodes: Iterable[Node]) -> str:
        """What determines code for it, beside the graph."""
        cuts = [(places[x], self.lying.cuts_of(x)) for x in nodes if self.lying.cuts_of(x)]
        return f"{self.mesh.devices.shape}{self.mesh.axis_names}{self.lying.rank}{cuts}"


def own_part(array: Any) -> np.ndarray:
    """What this process has of an array of several processes, which has one device of it."""
    return np.asarray(array.addressable_data(0))


def device_count() -> tuple[int, str]:
    """How many devices a program of this process can run on, and what they are called."""
    devices = jax_here().local_devices()
    return len(devices), devices[0].platform


def device_memory() -> int | None:
    """The bytes that JAX has for programs on each device of this process, if they tell."""
    if device_with_memory() is None:
        return None
    return min(one.memory_stats()["bytes_limit"] for one in jax_here().local_devices())


@cache
def _mesh(axes: tuple[tuple[str, int], ...], one_each: bool) -> Any:
    """The devices as a grid: those of this process, or the first one of each process."""
    jax = jax_here()
    shape = [length for _, length in axes]
    devices = jax.devices()
    if one_each:
        first: dict[int, Any] = {}
        for one in devices:
            first.setdefault(one.process_index, one)
        devices = [first[number] for number in sorted(first)]
    count = int(np.prod(shape))
    if len(devices) < count:
        raise InputError(
            f"a program on {count} devices was asked for, and JAX has {len(devices)} "
            f"({devices[0].platform})",
            hint=f"a grid of {len(devices)} devices",
        )
    return jax.sharding.Mesh(np.array(devices[:count]).reshape(shape), [name for name, _ in axes])
