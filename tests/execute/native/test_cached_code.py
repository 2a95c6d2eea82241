"""Code from the cache is the code that would have been made."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from caching import KEY, fresh_folder, load, stored_file, unpack
from executors import needs_native

import chainrule as cr
from chainrule import float32
from chainrule.disk import cache
from chainrule.disk.entry import pack
from chainrule.execute.native.artifact import Part, compiled, key_of
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime import machine
from chainrule.machine_code.target import host_target

pytestmark = needs_native


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return fresh_folder(tmp_path, monkeypatch)


def program():
    def objective(x: float32[5, 40], W: float32[40, 30]):
        return np.sum(np.tanh(x @ W) ** 2)

    return cr.backward(cr.trace(objective), wrt=("W",))


def values():
    graph = program()
    random = np.random.default_rng(0)
    shapes = [(5, 40), (40, 30)]
    inputs = {
        item.node: random.standard_normal(shape, dtype=np.float32)
        for item, shape in zip(graph.inputs, shapes, strict=True)
    }
    keep = [node for _, node in graph.outputs]
    return list(NativeProgram(graph, keep)(inputs).values())


@pytest.mark.slow
def test_code_that_another_process_stored_runs_here(folder, monkeypatch):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from caching import a_version, cache\n"
        "from test_cached_code import values\n"
        "cache._generator = a_version\n"
        "print(*(one.tobytes().hex() for one in values()))"
    )
    command = [sys.executable, "-c", script, *map(str, Path(__file__).parents[:3])]
    outputs, files = [], []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        outputs.append(done.stdout.decode().split())
        files.append((stored_file(folder).name, stored_file(folder).read_bytes()))
        if seed == "1":
            stored_file(folder).unlink()
    assert files[0] == files[1], "code depends on addresses or on the order of hashes"

    def compiled(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(machine, "compiled", compiled)
    assert [one.tobytes().hex() for one in values()] == outputs[0] == outputs[1]


def test_code_is_stored_when_it_is_made_and_found_on_disk_later(folder, monkeypatch):
    first = values()
    before = stored_file(folder).stat().st_mtime_ns
    machine._machines.clear()
    monkeypatch.setattr(machine, "compiled", None)
    again = values()
    assert all(map(np.array_equal, first, again))
    assert stored_file(folder).stat().st_mtime_ns > before


@pytest.mark.parametrize(
    "damaged", ["nothing", "cut off", "shorter than it says", "other functions"]
)
def test_code_that_cannot_be_loaded_is_compiled_again(folder, damaged):
    first = values()
    graph = program()
    results = [node for _, node in graph.outputs]
    threads = machine._default_threads()
    key = key_of(graph, results, {}, threads, host_target())
    whole = load(key)
    assert whole is not None
    changed = {
        "nothing": replace(whole, code=b"", code_nbytes=()),
        "cut off": replace(whole, code=whole.code[:-50], code_nbytes=(len(whole.code) - 50,)),
        "shorter than it says": replace(whole, code=whole.code[:-50]),
        "other functions": replace(whole, parts=(Part("unknown", False, None),)),
    }
    cache.store(key, changed[damaged])
    machine._machines.clear()
    assert all(map(np.array_equal, first, values()))
    assert load(key) == whole


def test_constants_of_one_type_are_told_apart_in_the_key():
    A, B = np.ones(3, np.float32), np.full(3, 5, np.float32)

    def with_first(x: float32[3]):
        return (x - A) * B + A

    def with_second(x: float32[3]):
        return (x - A) * B + B

    keys = set()
    for function in (with_first, with_second):
        graph = cr.trace(function)
        keys.add(key_of(graph, [node for _, node in graph.outputs], {}, 1, host_target()))
    assert len(keys) == 2


def test_another_llvm_has_other_keys(monkeypatch):
    graph = program()
    results = [node for _, node in graph.outputs]
    target = host_target()

    def key():
        return key_of(graph, results, {}, 1, target)

    keys = {key()}
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.__version__", "99")
        keys.add(key())
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.binding.llvm_version_info", (99, 0, 0))
        keys.add(key())
    assert len(keys) == 3
    assert key() in keys


def test_a_real_artifact_comes_back_as_it_was():
    graph = program()
    results = [node for _, node in graph.outputs]
    made = compiled(graph, results, {}, 2, host_target())
    data = pack(KEY, made)
    assert data is not None
    assert unpack(KEY, data) == made
