"""An order in which nodes execute early that free more bytes than they take."""

from __future__ import annotations

from chainrule.plan.recomputation.problem import Problem


def early(problem: Problem) -> tuple[int, ...]:
    """The initial order, but a node that is not fixed executes as soon as it can, if fewer bytes
    are in use from then on."""
    waits_for = [{*problem.inputs[v], *problem.earlier[v]} for v in range(problem.size)]
    followers: list[list[int]] = [[] for _ in range(problem.size)]
    for v, nodes in enumerate(waits_for):
        for u in nodes:
            followers[u].append(v)
    missing = [len(nodes) for nodes in waits_for]
    unread = [len(nodes) for nodes in problem.readers]
    freed = [0] * problem.size  # bytes that nobody needs any more once a node has executed
    done = [False] * problem.size
    found: list[int] = []
    pending: list[int] = []

    def last_read_is_left(u: int) -> None:
        if u not in problem.kept:
            for v in problem.readers[u]:
                if not done[v]:
                    freed[v] += problem.nbytes[u]
                    pending.append(v)

    def execute(v: int) -> None:
        done[v] = True
        found.append(v)
        for w in followers[v]:
            missing[w] -= 1
        for u in problem.inputs[v]:
            unread[u] -= 1
            if unread[u] == 1:
                last_read_is_left(u)
        pending.extend(followers[v])

    for u in range(problem.size):
        if unread[u] == 1:
            last_read_is_left(u)
    pending.clear()
    for node in problem.order:
        if not done[node]:
            execute(node)
        while pending:
            v = pending.pop()
            stays = problem.nbytes[v] if problem.readers[v] or v in problem.kept else 0
            if not (done[v] or missing[v] or v in problem.fixed) and freed[v] > stays:
                execute(v)
    return tuple(found)
