"""Files that are made to do harm: each ends in a clear error, quickly and in little memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")

from onnx_models import F, helper, mlp, model, node, onnx, tensor, text, value  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.errors import ChainruleError, DataFileError  # noqa: E402

MEBIBYTE = 1 << 20
X, Y = value("x", [2, 3]), value("y", None)


def one(operator: str, inputs: str, known: dict[str, Any], shape: Any = (2, 3), **more: Any) -> Any:
    tensors = [tensor(name, np.asarray(array)) for name, array in known.items()]
    outputs = more.pop("outputs", "y")
    return model([node(operator, inputs, outputs, **more)], [value("x", shape)], [Y], tensors)


def chain(count: int, operator: str, array: Any) -> Any:
    """A known array, doubled or added to itself again and again."""
    nodes = [helper.make_node(operator, ["k0", "k0"], ["k1"])]
    nodes += [helper.make_node(operator, [f"k{i}"] * 2, [f"k{i + 1}"]) for i in range(1, count)]
    nodes += [node("Cast", f"k{count}", "t", to=F), node("Add", "t x", "y")]
    return model(nodes, [X], [Y], [tensor("k0", array)])


def deep(count: int) -> bytes:
    """Graphs in graphs, written byte by byte, as the package does not make so many."""

    def number(one: int) -> bytes:
        return bytes([one & 127 | 128]) + number(one >> 7) if one > 127 else bytes([one])

    def field(place: int, content: bytes) -> bytes:
        return number(place << 3 | 2) + number(len(content)) + content

    graph = field(12, field(1, b"o"))
    for _ in range(count):
        branch = field(1, b"then_branch") + field(6, graph) + number(20 << 3) + number(5)
        graph = field(1, field(2, b"o") + field(4, b"If") + field(5, branch))
        graph += field(12, field(1, b"o"))
    return field(7, graph)


def sparse(dims: list[int], index: int = 0) -> Any:
    made = onnx.SparseTensorProto()
    made.dims[:] = dims
    made.values.CopyFrom(tensor("w", np.ones(1, np.float32)))
    made.indices.CopyFrom(tensor("i", np.array([index])))
    graph = one("Add", "x w", {})
    graph.graph.sparse_initializer.append(made)
    return graph


def changed(change: Any) -> Any:
    made = mlp()
    change(made.graph.initializer[0])
    return made


def twice(part: str) -> Any:
    made = one("Add", "x w", {"w": np.ones(3, np.float32)})
    getattr(made.graph, part).append(getattr(made.graph, part)[0])
    return made


def sequences() -> Any:
    nodes = [node("SequenceConstruct", "x", "s0")]
    nodes += [
        helper.make_node("SequenceConstruct", [f"s{i}"] * 2, [f"s{i + 1}"]) for i in range(40)
    ]
    return model(nodes, [X], [value("s40", None)])


def functions(count: int) -> Any:
    made = model([helper.make_node("F0", ["x"], ["y"], domain="own")], [X], [Y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for i in range(count):
        inner = helper.make_node(f"F{(i + 1) % count}", ["a"], ["b"], domain="own")
        made.functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], [inner], opsets))
    return made


HUGE = 1 << 40
EVIL: dict[str, tuple[Any, str]] = {
    "tile": (lambda: one("Tile", "x k", {"k": [HUGE, HUGE]}), "more bytes than can be counted"),
    "pad": (lambda: one("Pad", "x k", {"k": [0, 0, HUGE, HUGE]}), "more bytes than can be"),
    "range": (
        lambda: one(
            "Range", "a b c", {"a": np.float32(0), "b": np.float32(1e30), "c": np.float32(1e-30)}
        ),
        "bounds|Range|more bytes",
    ),
    "resize": (
        lambda: one("Resize", "x - - k", {"k": [1 << 31] * 2}, mode="linear"),
        "axis 0 from 2 to 2147483648",
    ),
    "resize by a matrix": (
        lambda: one("Resize", "x - - k", {"k": [1, 1 << 16]}, (1, 1 << 20), mode="cubic"),
        "axis 1 from 1048576 to 65536, by a matrix",
    ),
    "split": (lambda: one("Split", "x", {}, num_outputs=1 << 20), "1 outputs of 1048576 parts"),
    "split lengths": (lambda: one("Split", "x k", {"k": [5]}), "2 elements in 1 parts"),
    "many outputs": (
        lambda: one(
            "Split", "x", {}, [60000], outputs="y " + " ".join(f"y{i}" for i in range(60000))
        ),
        "more than 50000 operations",
    ),
    "top k": (lambda: one("TopK", "x k", {"k": [HUGE]}, outputs="y i"), "TopK: the first"),
    "axes": (lambda: one("Unsqueeze", "x k", {"k": np.arange(9999)}), "an array of 10001 axes"),
    "many axes": (lambda: one("Relu", "x", {}, [1] * 5000), "has 5000 axes"),
    "positions": (
        lambda: model([node("GatherND", "x i", "y")], [X, value("i", [2, HUGE], 7)], [Y]),
        "positions of 1099511627776 numbers",
    ),
    "eye": (lambda: one("EyeLike", "x", {}, [1 << 20, 1 << 20]), "EyeLike"),
    "loop": (lambda: chain(700, "Add", np.ones(65536, np.int64)), "MiB of constants"),
    "doubled": (
        lambda: one("Einsum", "x x x x x x", {}, [10**4], equation="a,b,c,d,e,f->abcdef"),
        "more bytes than can be counted",
    ),
    "sequences": (sequences, "a sequence of sequences"),
    "nested": (lambda: deep(10_000), "cannot be parsed"),
    "functions": (lambda: functions(100), "nested more than 32 times"),
    "recursion": (lambda: functions(1), "nested more than 32 times"),
    "sparse": (lambda: sparse([HUGE]), "the sparse tensor"),
    "sparse overflow": (lambda: sparse([1 << 62, 1 << 62]), "the sparse tensor"),
    "sparse negative": (lambda: sparse([3], -1), "an index is negative"),
    "short": (lambda: changed(_short), "has 3 bytes"),
    "negative": (lambda: changed(lambda one: one.dims.__setitem__(0, -4)), "has the shape"),
    "many dims": (lambda: changed(lambda one: one.dims.extend([1] * 9999)), "and so on"),
    "input twice": (lambda: twice("input"), "the input 'x' is there twice"),
    "output twice": (lambda: twice("output"), "the output 'y' is there twice"),
    "tensor twice": (lambda: twice("initializer"), "the tensor 'w' is there twice"),
    "operator sets": (lambda: _opset(7), "names two operator sets"),
    "long name": (lambda: _named("a" * 10**6), "has 1000000 letters"),
    "no text": (lambda: text(_named("quick")).replace(b"quick", b"qu\xff\xfek"), "is no text"),
    "no text in sizes": (lambda: text(mlp()).replace(b"batch", b"b\xfftch"), "is no text"),
}


def _short(one: Any) -> None:
    one.raw_data = b"abc"


def _opset(version: int) -> Any:
    made = one("Relu", "x", {})
    made.opset_import.append(helper.make_opsetid("", version))
    return made


def _named(name: str) -> Any:
    return model([node("Relu", "x", name)], [X], [value(name, None)])


def read(made: Any) -> Any:
    return cr.from_onnx(made if isinstance(made, bytes) else text(made))


@pytest.mark.parametrize("name", EVIL)
def test_harm_is_refused(name: str) -> None:
    make, said = EVIL[name]
    made = make()
    tracemalloc.start()
    try:
        with pytest.raises(ChainruleError, match=f"(?s){said}"):
            read(made)
        assert tracemalloc.get_traced_memory()[1] < 300 * MEBIBYTE
    finally:
        tracemalloc.stop()


def external(location: str, **more: str) -> Any:
    made = mlp()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, word in {"location": location, **more}.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, word
    return made


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need rights on Windows")
def test_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(b"s" * 1000)
    (folder / "data.bin").write_bytes(b"d" * 1000)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    with (folder / "holes.bin").open("wb") as file:
        file.truncate(1 << 42)
    elsewhere = ["../secret.bin", str(tmp_path / "secret.bin"), "sub/../../secret.bin", "link.bin"]
    elsewhere += ["up/secret.bin", "fifo", "sub", ".", "", "a\0b", "a" * 9999, "..\\secret.bin"]
    for location in elsewhere:
        (folder / "net.onnx").write_bytes(text(external(location)))
        with pytest.raises(DataFileError, match="which is no file beside the model"):
            cr.from_onnx(folder / "net.onnx")
    for offset in ("-5", "990", "9" * 5000, "1e3"):
        (folder / "net.onnx").write_bytes(text(external("data.bin", offset=offset)))
        with pytest.raises(DataFileError, match=r"needs 48 bytes|has no place"):
            cr.from_onnx(folder / "net.onnx")
    made = external("holes.bin")
    made.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    (folder / "net.onnx").write_bytes(text(made))
    with pytest.raises(DataFileError, match="4,398,046,511,104 bytes cannot be read"):
        cr.from_onnx(folder / "net.onnx")
    (folder / "net.onnx").write_bytes(text(external("data.bin", offset="4")))
    weight = cr.from_onnx(folder / "net.onnx").parameters["layer1.weight"]
    assert weight.tobytes() == b"d" * 48


def test_names_are_text_in_pages_and_source() -> None:
    """Of a name that is markup, TeX or Python, no page, picture or program is made."""
    evil = '<script>alert(1)</script>"""\\input{/etc/passwd}$%&#_^{}~'
    inner = f'"><img src=x onerror=alert(2)>{evil}'
    nodes = [node("Relu", "x", "h"), node("Neg", "h", "y")]
    nodes[0].output[0] = nodes[1].input[0] = inner
    nodes[0].name = f"/{evil}/Relu"
    nodes[1].output[0] = evil
    made = model(nodes, [value("x", [evil, 3])], [value(evil, None)])
    made.graph.name = evil
    graph = cr.from_onnx(text(made)).graph
    picture = graph.draw()
    pages = [picture.svg, graph.memory().html(), picture.mermaid]
    pages = [page if isinstance(page, str) else page() for page in pages]
    for page in pages:
        assert "alert" in page and "<script>alert" not in page and "<img src=x" not in page
    assert "\\input{" not in graph.equations().latex()
    compile(graph.python(), "net.py", "exec")


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm")
def test_backend_cases_with_odd_numbers() -> None:
    """Known arrays, attributes and shapes of ONNX's own cases, with numbers up to 2^63."""
    check(0, 5000)


def check(first: int, count: int) -> None:
    program = Path(__file__).with_name("mutated.py")
    command = [sys.executable, "-W", "ignore", str(program), str(first), str(count), "cases"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    *wrong, read, memory = done.stdout.splitlines() or ["", "", ""]
    assert done.returncode == 0 and not wrong, "\n".join([*wrong, done.stderr[-2000:]])
    assert int(memory) < 1024
    assert int(read.removeprefix("read ")) >= count // 5
