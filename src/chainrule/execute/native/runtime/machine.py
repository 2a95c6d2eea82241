"""Compiled code ready to be called: loaded, with its scratch memory, and called."""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from chainrule.disk import cache
from chainrule.errors import InputError, UnsupportedError
from chainrule.execute.aligned import address_of
from chainrule.execute.native.artifact import (
    Artifact,
    Foreign,
    Part,
    Place,
    compiled,
    is_sensible,
    key_of,
)
from chainrule.execute.native.lapack.lapack import LAPACK_ROUTINES, lapack_addresses
from chainrule.execute.native.plan_to_ir.driver import RUNTIME
from chainrule.execute.native.planned import planned
from chainrule.execute.native.products.blas import Blas, load_blas
from chainrule.execute.native.runtime.context import Context
from chainrule.execute.native.runtime.in_pieces import apply_in_pieces
from chainrule.execute.native.runtime.pool import pool, thread_count
from chainrule.execute.reference import apply
from chainrule.graph.body import holds_bodies
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.machine_code.forks import making, multiplying, under_way, wait_for_forks
from chainrule.machine_code.object_file import ObjectError
from chainrule.machine_code.target import (
    Target,
    host_target,
    load_objects,
    native_refusal,
)
from chainrule.plan.pieces import piece_of
from chainrule.plan.planner import Plan

ENTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
ENTER_WITH_LOCK = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
REMEMBERED = 256  # compiled plans in memory


class Settings(NamedTuple):
    """What code is made for, beside its graph; as for `key_of`."""

    threads: int
    target: Target
    plain: bool
    placement_seconds: float = 0.0
    memory_nbytes: int | None = None
    nested: bool = False

    @property
    def of_bodies(self) -> Settings:
        """Those for the bodies of loops."""
        return self._replace(placement_seconds=0.0, memory_nbytes=None, nested=True)


def _routine_address(name: str, blas: Blas | None) -> int:
    """Where a function of LAPACK or of BLAS is."""
    return lapack_addresses()[name] if name in LAPACK_ROUTINES else getattr(blas, name)


class Machine:
    """A loaded artifact.  Calls from several threads at once each get memory of their own.

    The bodies of its loops are compiled with the same `settings`, by which they were planned; for
    their offsets nothing is searched, and they have no budget.
    """

    def __init__(self, artifact: Artifact, settings: Settings | None = None) -> None:
        self.artifact = artifact
        self.settings = (settings or settings_now(artifact.threads)).of_bodies
        self.library = load_objects(artifact.objects, {})
        self.blas: Blas | None = load_blas() if artifact.routines else None
        self.enters = [
            ((ENTER_WITH_LOCK if part.asks else ENTER)(self._address(part)), part)
            for part in artifact.parts
        ]
        self.first_array = len(RUNTIME)
        self._free: list[Context] = []
        self._pieces: dict[int, tuple[int, ...]] = {}  # of nodes without a kernel, by position

    def _address(self, part: Part) -> int:
        """Where the function is that Python calls."""
        return self.library.address(f"{part.function}_enter")

    def needs(self, copied_nbytes: int, later_nbytes: int) -> int:
        """What a call allocates: no arena where that of an earlier call is free; beside the copies
        of its arguments, and what its caller does when these are gone."""
        arena = 0 if self._free else self.artifact.scratch_nbytes
        return arena + max(copied_nbytes + self.artifact.allocated_nbytes, later_nbytes)

    def take(self) -> Context:
        """Memory for one call; give it back afterwards."""
        try:
            return self._free.pop()
        except IndexError:
            return self.new_context()

    def give_back(self, context: Context) -> None:
        """Let other calls use the memory."""
        self._free.append(context)

    def new_context(self, scratch: np.ndarray | None = None) -> Context:
        """Memory that nobody else uses; `scratch` as in `Context`."""
        fixed: dict[str, int] = {}
        if any(part.shared for part in self.artifact.parts):
            threads = pool(self.artifact.threads)
            fixed.update(pool=threads.address, run=threads.run_address, wait=threads.wait_address)
        for name in self.artifact.routines:
            fixed[name] = _routine_address(name, self.blas)
        if self.artifact.threaded_products:
            fixed.update(_blas_threads(self.blas))
        context = Context(self.artifact, fixed, scratch)
        context.process = _process
        return context

    @property
    def is_one_function(self) -> bool:
        """Whether it is one native function from beginning to end, in which Python has no turns."""
        parts = self.artifact.parts
        return len(parts) == 1 and parts[0].then is None and not parts[0].asks

    @property
    def enter_address(self) -> int:
        """Where the first function is, which takes the address of a context."""
        return self._address(self.artifact.parts[0])

    def guarded(self, context: Context, run: Callable[..., bool]) -> Callable[..., bool]:
        """A function that does what `run` does, and what `call` does around the code."""

        def guarded(*arrays: Any) -> bool:
            if context.process is not _process:
                _start_threads(self.artifact, context)
            done = False
            try:
                done = run(*arrays)
            finally:
                if not done:
                    context.failed[:] = 0
            return done

        def multiplied(*arrays: Any) -> bool:
            try:
                _begin_to_multiply()
                return guarded(*arrays)
            finally:
                multiplying.discard(get_ident())

        return guarded if self.blas is None else multiplied

    def call(self, graph: Graph, context: Context) -> bool:
        """Run all parts; False if an index was out of range (nothing given is changed then)."""
        if context.process is not _process:
            _start_threads(self.artifact, context)
        done = False
        try:
            if self.blas is not None:
                _begin_to_multiply()
            for enter, part in self.enters:
                if enter(context.address):
                    return False
                if part.then is not None:
                    # What it calls may make code, for which a fork under way is waited for.
                    multiplying.discard(get_ident())
                    self._evaluate(graph, part.then, context)
                    if self.blas is not None:
                        _begin_to_multiply()
            done = True
        finally:
            if not done:  # or an interrupted call would fail the next one
                context.failed[:] = 0
            if self.blas is not None:
                multiplying.discard(get_ident())
        return True

    def _evaluate(self, graph: Graph, foreign: Foreign, context: Context) -> None:
        """A node that has no kernel, by its reference evaluation."""
        from chainrule.execute.native.plan_to_ir.bodies import (
            Room,  # here, as bodies are run by machines
        )

        nodes = graph.nodes
        names = (graph.name_of,)
        values = {nodes[one.node]: self._array(graph, one, context) for one in foreign.reads}
        result, into = nodes[foreign.result.node], self._array(graph, foreign.result, context)
        pending = [result]
        with np.errstate(all="ignore"):
            while pending:
                node = pending[-1]
                missing = [one for one in node.inputs if one not in values]
                if missing:
                    pending += missing
                    continue
                pending.pop()
                if node not in values:
                    operands = [values[one] for one in node.inputs]
                    if getattr(node.primitive.kernel, "keeps", False):
                        # of its own: what is in this program's memory is written over
                        operands = [operand.copy() for operand in operands]
                    xp: Any = np
                    if node is result and foreign.direct and holds_bodies(node):
                        begin = (context.slots[0] or 0) + foreign.workspace_offset
                        space = _memory(begin, foreign.workspace_nbytes)
                        xp = Room(self.settings, into, space)
                    elif node is result and foreign.direct:
                        piece = self._pieces.get(foreign.result.node)
                        if piece is None:
                            piece = self._pieces[foreign.result.node] = piece_of(node)
                        apply_in_pieces(node, piece, operands, names, into)
                        return
                    values[node] = apply(node, operands, names, xp)
        if values[result] is not into:
            into[...] = values[result]

    def _array(self, graph: Graph, place: Place, context: Context) -> np.ndarray:
        """The memory of a value as an array."""
        node = graph.nodes[place.node]
        slot = 0 if place.arena == "scratch" else None
        if slot is None:
            slot = self.first_array + self.artifact.arenas.index(place.arena)
        address = (context.slots[slot] or 0) + place.offset
        if not node.type.size:
            return np.empty(node.shape, node.dtype)
        memory = _memory(address, int(node.type.nbytes))
        return np.ndarray(node.shape, node.dtype, memory, 0, place.strides)


def _memory(address: int, nbytes: int) -> Any:
    """So many bytes as a buffer."""
    return (ctypes.c_char * nbytes).from_address(address)


def _start_threads(artifact: Artifact, context: Context) -> None:
    """Anew, after a fork."""
    pool(artifact.threads)
    context.process = _process


def _begin_to_multiply() -> None:
    """Forks wait for this thread from now on."""
    multiplying.add(get_ident())
    if under_way:
        wait_for_forks()


_process = object()  # another one in each process
# Calls that want BLAS quiet, the threads it had before, and the lock of both.
_blas_state = np.zeros(3, np.int64)


def _after_fork() -> None:
    global _process
    _process = object()
    _blas_state[[0, 2]] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _blas_threads(blas: Blas | None) -> dict[str, int]:
    """Pointers by which a step takes BLAS's own threads away for a while."""
    get = blas.get_threads_address if blas is not None else None
    put = blas.set_threads_address if blas is not None else None
    if get is None or put is None:  # this BLAS has no threads that can be told
        get, put = _address(_ONE_THREAD), _address(_NOTHING)
    return {"blas_state": address_of(_blas_state), "blas_get": get, "blas_set": put}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_ONE_THREAD = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
_NOTHING = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda threads: None)

_machines: OrderedDict[str, Machine] = OrderedDict()


@without_collector
def machine_for(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    threads: int | None = None,
    target: Target | None = None,
    settings: Settings | None = None,
) -> Machine:
    """The code that computes `results` of a concrete graph: from memory, from disk, or compiled.

    `settings` are given instead of threads and target.
    """
    refusal = _refusal()
    if refusal:
        raise UnsupportedError(refusal, hint='executor="reference" runs everywhere')
    with making:
        settings = settings or settings_now(threads, target)
        key = key_of(graph, results, overwrites or {}, *settings)
        found = _machines.get(key)
        if found is not None:
            _machines.move_to_end(key)
            return found
        made = _stored(key, settings)
        if made is None:
            artifact = compiled(graph, results, overwrites or {}, *settings)
            made = Machine(artifact, settings)
            cache.store(key, artifact)
        _machines[key] = made
        while len(_machines) > REMEMBERED:
            _machines.popitem(last=False)
        return made


def settings_now(threads: int | None = None, target: Target | None = None) -> Settings:
    """What code is made for now, on this machine and by the environment."""
    threads = _default_threads() if threads is None else threads
    return Settings(threads, target or host_target(), wants_plain_order())


def plan_for(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node] | None = None,
    settings: Settings | None = None,
) -> Plan:
    """The plan that `machine_for` compiles with these settings (default: those of now)."""
    threads, target, plain, seconds, nbytes, nested = settings or settings_now()
    with making:
        return planned(graph, results, overwrites, threads, target, plain, seconds, nbytes, nested)


def wants_plain_order() -> bool:
    """Whether CHAINRULE_ORDER says that instructions stay in the order of the graph."""
    order = os.environ.get("CHAINRULE_ORDER", "least")
    if order not in ("least", "plain"):
        raise InputError(
            f"CHAINRULE_ORDER is {order!r}",
            hint='"least" takes the order that needs least memory, "plain" that of the graph',
        )
    return order == "plain"


@lru_cache(maxsize=1)
def _refusal() -> str | None:
    return native_refusal()


def _stored(key: str, settings: Settings) -> Machine | None:
    """The code that this process or another one has stored on disk."""
    artifact = cache.load(key, Artifact, is_sensible)
    if artifact is None:
        return None
    try:
        return Machine(artifact, settings)
    except (ObjectError, KeyError):  # no code for this machine, or other functions
        return None


@lru_cache(maxsize=1)
def _default_threads() -> int:
    return thread_count()
