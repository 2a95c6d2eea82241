"""Calls of helper functions become scopes; what calls `trace` is no part of the program."""

import numpy as np

import chainrule as cr


def test_each_call_of_a_helper_function_is_a_scope():
    def block(x):
        return x * x

    def f(x):
        a = block(x)
        b = block(a)
        return b

    graph = cr.trace(f, np.ones(3))
    scopes = [node.origin.scope.path for node in graph.nodes if node.origin.scope]
    assert scopes == ["block", "block_1"]


def test_a_function_of_this_library_is_not_named_after_what_calls_trace():
    def compare(function, point):
        graph = cr.trace(function, point)
        return graph

    namespace = {"__name__": "chainrule.elsewhere"}
    exec("def own(x):\n    return x * x + x[0]", namespace)
    graph = compare(namespace["own"], np.ones(3))
    assert "graph" not in graph.names
    assert {node.origin.scope for node in graph.nodes} == {None}
