"""The least cost of a tiny program, by trying everything; and random tiny programs."""

import heapq

from hypothesis import strategies as st

from chainrule.plan.recomputation.problem import problem
from chainrule.plan.recomputation.sequence import measured

UNLIMITED = 1 << 40


def least_cost(one):
    """The least cost within the budget (Dijkstra over what was executed and what is stored), or
    None where there is none.  It shares nothing with the planner but the numbers."""
    n = one.size
    start = (frozenset(), frozenset())
    seen, queue, count = set(), [(0, 0, start)], 0
    while queue:
        cost, _, state = heapq.heappop(queue)
        if state in seen:
            continue
        seen.add(state)
        executed, stored = state
        if len(executed) == n and one.kept <= stored:
            return cost
        following = [(cost, (executed, stored - {u})) for u in stored]
        for v in set(range(n)) - stored:
            again = v in executed
            if not set(one.inputs[v]) <= stored or (again and v in one.once):
                continue
            if any(late in executed for early, late in one.before if early == v):
                continue
            if not again and any(early not in executed for early, late in one.before if late == v):
                continue
            alive = stored | {v}
            if sum(one.nbytes[u] for u in alive) + one.workspace[v] <= one.budget_nbytes:
                following.append((cost + one.cost[v], (executed | {v}, alive)))
        for then, other in following:
            if other not in seen:
                count += 1
                heapq.heappush(queue, (then, count, other))
    return None


@st.composite
def programs(draw, most=3):
    """The arguments of `recompute`, as a dict: random pairs of a program with its backward pass,
    and a budget for which something has to be done."""
    k = draw(st.integers(1, most))
    n = 2 * k
    pairs = [(u, v) for u in range(k) for v in range(u + 1, k)]
    chosen = {(u, v) for u, v in pairs if v == u + 1 or draw(st.integers(0, 3)) == 0}
    # Node n - 1 - v is the derivative of v: it reads those of v's readers, and what v reads or is.
    back = {(n - 1 - v, n - 1 - u) for u, v in chosen} | {(k - 1, k)}
    for v in range(k):
        for u in (v, *(u for u, w in chosen if w == v)):
            if draw(st.integers(0, 3)) > 0:
                back.add((u, n - 1 - v))
    names = draw(st.permutations(range(n)))  # the numbers of nodes are in no order
    sizes = st.lists(st.integers(0, 5), min_size=n, max_size=n)
    after = [(u, v) for u in range(n) for v in range(u + 1, n)]
    found = {
        "nbytes": draw(sizes),
        "cost": draw(sizes),
        "reads": [(names[u], names[v]) for u, v in sorted(chosen | back)],
        "order": list(names),
        "workspace": draw(st.none() | sizes),
        "kept": draw(st.none() | st.lists(st.integers(0, n - 1), max_size=2)),
    }
    if draw(st.booleans()):
        found["once"] = [v for v in range(n) if draw(st.integers(0, 4)) == 0]
        found["before"] = [(names[u], names[v]) for u, v in after if draw(st.integers(0, 9)) == 0]
    plain = problem(**found, budget_nbytes=UNLIMITED)
    most_nbytes = max(plain.least_nbytes, measured(plain, plain.order).peak_nbytes - 1)
    found["budget_nbytes"] = draw(st.integers(plain.least_nbytes, most_nbytes))
    return found


def as_problem(found):
    return problem(**found)
