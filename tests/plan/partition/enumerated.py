"""All splits of small graphs, tried one by one: shares no code with chainrule."""

from itertools import product

from hypothesis import strategies as st


def connected(groups, size):
    """For each node, the group that it lies together with, as a set."""
    sets = [{v} for v in range(size)]
    for group in groups:
        whole = set().union(*(sets[v] for v in group))
        for v in whole:
            sets[v] = whole
    return sets


def has_cycle(pairs, size):
    """Whether pairs of different places go around in a circle."""
    reach = [[(a, b) in pairs for b in range(size)] for a in range(size)]
    for k, i, j in product(range(size), repeat=3):
        reach[i][j] |= reach[i][k] and reach[k][j]
    return any(reach[i][i] for i in range(size))


def load_of(graph, here, is_host):
    """The load of a device or host with these nodes."""
    if is_host:
        return sum(graph["host_seconds"][v] for v in here)
    load = sum(graph["seconds"][v] for v in here)
    for u, cost in enumerate(graph["transfer_seconds"]):
        readers = {v for w, v in graph["edges"] if w == u}
        leaves = u in here and readers - here
        enters = u not in here and readers & here
        if leaves or enters:
            load += cost
    return load


def arrows(graph):
    """Pairs (u, v) such that v lies where u lies, or on a later device."""
    backward = set(graph["backward"])
    sets = connected(graph["together"], len(graph["seconds"]))
    alone = {v for v in backward if sets[v] <= backward}
    for u, v in graph["edges"]:
        if v not in backward:
            yield u, v
        elif u in backward and (u in alone or v in alone):
            yield v, u


def least_load(graph, contiguous=True):
    """The least largest load of all splits, or None where none fits."""
    size, places = len(graph["seconds"]), graph["devices"] + graph["hosts"]
    memory = graph["memory_nbytes"]
    memory = [memory] * graph["devices"] if isinstance(memory, int) else memory
    best = None
    ordered = list(arrows(graph))
    for place in product(range(places), repeat=size):
        if any(len({place[v] for v in group}) > 1 for group in graph["together"]):
            continue
        rows = [{v for v in range(size) if place[v] == d} for d in range(places)]
        if any(
            sum(graph["nbytes"][v] for v in row) > limit
            for row, limit in zip(rows, memory, strict=False)
        ):
            continue
        if contiguous and has_cycle(
            {(place[u], place[v]) for u, v in ordered if place[u] != place[v]}, places
        ):
            continue
        load = max(load_of(graph, row, d >= graph["devices"]) for d, row in enumerate(rows))
        best = load if best is None else min(best, load)
    return best


@st.composite
def graphs(draw, most=6, places=3):
    """Small graphs: forward only, or with a backward part, some of it without forward nodes."""
    size = draw(st.integers(1, most))
    times = st.lists(st.sampled_from([0, 0, 1, 2, 5, 0.5]), min_size=size, max_size=size)
    forward = draw(st.integers(0, size)) if draw(st.booleans()) else size
    pairs = [(u, v) for v in range(size) for u in range(v)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    groups = []
    if draw(st.booleans()):
        groups += [(v, size - 1 - v) for v in range(min(forward, size - forward))]
    if size > 1 and draw(st.integers(0, 2)) == 0:
        groups.append(tuple(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3))))
    devices = draw(st.integers(1, places))
    hosts = draw(st.sampled_from([0, 0, 1])) if devices < places else 0
    memory = st.sampled_from([3, 5, 8, 1000])
    return {
        "seconds": draw(times),
        "nbytes": draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)),
        "edges": chosen,
        "transfer_seconds": draw(times),
        "devices": devices,
        "memory_nbytes": draw(
            st.one_of(memory, st.lists(memory, min_size=devices, max_size=devices))
        ),
        "backward": list(range(forward, size)),
        "together": groups,
        "hosts": hosts,
        "host_seconds": draw(times),
    }


@st.composite
def idle_graphs(draw):
    """Graphs most of whose nodes take no time, so that they can be merged into others."""
    size = draw(st.integers(2, 7))
    pairs = [(u, v) for v in range(size) for u in range(v)]
    times = st.lists(st.sampled_from([0, 0, 0, 2, 3]), min_size=size, max_size=size)
    moves = st.sampled_from([0, 0.25, 0.5, 0.75, 1])
    return {
        "seconds": draw(times),
        "nbytes": [draw(st.sampled_from([0, 0, 0, 1])) for _ in range(size)],
        "edges": draw(st.lists(st.sampled_from(pairs), min_size=size - 1, max_size=10)),
        "transfer_seconds": [draw(moves) for _ in range(size)],
        "devices": 2,
        "memory_nbytes": draw(st.sampled_from([2, 3, 9])),
        "backward": [],
        "together": [],
        "hosts": 0,
        "host_seconds": [0] * size,
    }


def least_load_of_chain(seconds, transfer_seconds, devices):
    """The least largest load of a chain whose stages follow each other, cut at `devices` - 1
    places or fewer."""
    size = len(seconds)

    def load(start, stop):
        enters = transfer_seconds[start - 1] if start else 0
        leaves = transfer_seconds[stop - 1] if stop < size else 0
        return sum(seconds[start:stop]) + enters + leaves

    best = [0.0] + [float("inf")] * size
    for _ in range(devices):
        best = [
            min([best[stop], *(max(best[start], load(start, stop)) for start in range(stop))])
            for stop in range(size + 1)
        ]
    return best[size]
