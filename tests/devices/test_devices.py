"""Devices are data: built, read from a file and written to one, each value checked."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jobs import needs_mpi
from parallel_models import ROWS, case

import chainrule as cr
from chainrule.cli import main
from chainrule.devices.launcher import mpiexec
from chainrule.devices.planning.devices import (
    THREADS,
    Devices,
    Group,
    Link,
    Processor,
    processor_of,
)
from chainrule.devices.planning.measuring import devices_of
from chainrule.devices.planning.units import in_rate, in_seconds, seconds_of
from chainrule.errors import InputError
from chainrule.explain.cost import measured_speeds
from chainrule.plan.speeds import SPEEDS, scaled

CLUSTER = """
[[groups]]
name = "node"
devices = 4
copies = 2
memory = "80 GB"
memory_bandwidth = "2 TB/s"
latency = "5 us"
bandwidth = "300 GB/s"

[groups.products]
float16 = "312 TFLOP/s"

[[groups]]
name = "old"
devices = 2
memory_bandwidth = 1e11
latency = 0
bandwidth = "1 GiB/s"

[groups.products]
float32 = 1e12
float64 = "500 GFLOP/s"

[groups.processor]
vector_bytes = 32
products = 1.5
loops = 2
memory = 0.5
numpy = 1.0

[between]
latency = "1.5ms"
bandwidth = "25 MB/s"
"""


def test_a_file_says_what_each_device_is() -> None:
    found = cr.Devices.parse(CLUSTER)
    node, old = found.groups
    assert found.count == 10 and [one.name for one in found] == ["node"] * 8 + ["old"] * 2
    assert (node.devices, node.copies, node.memory_nbytes) == (4, 2, 80 * 10**9)
    assert (node.memory_bandwidth, node.link) == (2e12, Link(5e-6, 3e11))
    assert old.memory_nbytes is None and old.link == Link(0.0, 2.0**30)
    assert old.processor == Processor(32, 1.5, 2.0, 0.5, 1.0)
    assert found.between == Link(1.5e-3, 25e6)
    assert found.between.seconds(25e6) == pytest.approx(1.0015)


def test_devices_are_linked_within_their_copy_of_a_group_or_between() -> None:
    found = cr.Devices.parse(CLUSTER)
    near = {(a, b) for a in range(10) for b in range(10) if found.link(a, b) is not found.between}
    copies = [range(4), range(4, 8), range(8, 10)]
    assert near == {(a, b) for copy in copies for a in copy for b in copy}
    assert found.link(8, 9) == Link(0.0, 2.0**30)
    assert [found.name(one) for one in (0, 3, 4, 7, 8)] == [
        *("node[0].0", "node[0].3", "node[1].0", "node[1].3", "old.0")
    ]


def test_products_in_another_dtype_follow_its_bytes() -> None:
    node, old = cr.Devices.parse(CLUSTER).groups
    assert (node.flops("float32"), node.flops("float64")) == (156e12, 78e12)
    assert (old.flops("float16"), old.flops("int64")) == (2e12, 1e12)


def test_times_follow_from_products_and_memory_where_there_is_no_processor() -> None:
    known = SPEEDS[64]
    node, old = cr.Devices.parse(CLUSTER).groups
    lanes = known.vector_nbytes // 4
    assert 2e9 * lanes / node.speeds.multiply_add == pytest.approx(156e12)
    assert node.speeds.memory[-1].nbytes_each_nanosecond == pytest.approx(2000)
    assert old.speeds == scaled(SPEEDS[32], products=1.5, loops=2, memory=0.5, numpy=1)


def test_speeds_become_a_processor_and_speeds_again() -> None:
    speeds = scaled(SPEEDS[32], products=1.25, loops=0.5, memory=2.0, numpy=4.0)
    assert processor_of(speeds) == Processor(32, 1.25, 0.5, 2.0, 4.0)
    (cpu,) = cr.Devices.cpu(2, memory=1000, speeds=speeds).groups
    assert (cpu.speeds, cpu.memory_nbytes, cpu.count) == (speeds, 1000, 2)
    assert cpu.flops("float32") == pytest.approx(2e9 * 8 / speeds.multiply_add)


positive = st.floats(1e-6, 1e18, allow_subnormal=False)
links = st.builds(Link, st.floats(0, 10), positive)
groups = st.builds(
    Group,
    st.text("abcXYZ019_.-", min_size=1, max_size=64),
    st.integers(1, 50),
    st.integers(1, 50),
    st.none() | st.integers(1, 2**63 - 1),
    st.dictionaries(st.sampled_from(["float16", "float32", "float64"]), positive, min_size=1),
    positive,
    links,
    st.none() | st.builds(Processor, st.sampled_from([16, 32, 64]), *[st.floats(1e-9, 1e9)] * 4),
)


@given(st.lists(groups, min_size=1, max_size=4, unique_by=lambda one: one.name), links)
def test_what_is_written_is_read_again(made: list[Group], between: Link) -> None:
    devices = cr.Devices(tuple(made), between)
    assert cr.Devices.parse(devices.toml()) == devices
    assert str(devices)


def changed(old: str, new: str) -> str:
    assert old in CLUSTER
    return CLUSTER.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (changed("latency", "latenzy"), "node has the unknown key 'latenzy'", "perhaps latency"),
        (changed("[between]", "[betwen]"), "a file of devices has the unknown key", "between"),
        (changed("float16 =", "float8 ="), "node.products has the unknown key 'float8'", "float"),
        (changed('"80 GB"', '"80 GBit"'), "node.memory='80 GBit' is not an amount", "GiB"),
        (changed('"80 GB"', "-1"), "node.memory=-1 is not an amount", "GiB"),
        (changed('"80 GB"', "0"), "node.memory is 0", '"2 GiB"'),
        (changed('"80 GB"', "1e9"), "node.memory=1000000000.0 is not an amount", "integer"),
        (changed('"2 TB/s"', '"300 Gb/s"'), "node.memory_bandwidth is '300 Gb/s'", "are bits"),
        (changed('"2 TB/s"', '"2 TB"'), "node.memory_bandwidth is '2 TB'", '"25 GB/s"'),
        (changed('"2 TB/s"', '"2 Tbit/s"'), "node.memory_bandwidth is '2 Tbit/s'", "bytes each"),
        (changed('"2 TB/s"', "0"), "node.memory_bandwidth is 0, and it is more than 0", "GB/s"),
        (changed('"5 us"', "-1e-6"), "node.latency is -1e-06", '"5 us"'),
        (changed('"5 us"', '"5 GB/s"'), "node.latency is '5 GB/s'", "ns"),
        (changed('"5 us"', "nan"), "node.latency is nan", "seconds"),
        (changed('"5 us"', "inf"), "node.latency is inf", "seconds"),
        (changed('"5 us"', "true"), "node.latency is True", "seconds"),
        (changed('"312 TFLOP/s"', '"312 TB/s"'), "node.products.float16 is '312 TB/s'", "FLOP/s"),
        (changed('"312 TFLOP/s"', "[1]"), "node.products.float16 is [1]", "FLOP/s"),
        (changed('float16 = "312 TFLOP/s"', ""), "node.products is empty", "float32"),
        (changed("devices = 4", "devices = 0"), "node.devices is 0", "1 or more"),
        (changed("devices = 4", "devices = 2.0"), "node.devices is 2.0", "1 or more"),
        (changed("devices = 4", ""), "node has no devices", "devices = 8"),
        (changed("copies = 2", "copies = 90000"), "there are 360,002 devices", "at most 100,000"),
        (changed('"old"', '"node"'), "two groups of devices are called node", "copies"),
        (changed('"old"', '"ol d"'), "a group of devices is called 'ol d'", "letters"),
        (changed('name = "old"', ""), "groups[1] has no name", 'name = "node"'),
        (changed("vector_bytes = 32", "vector_bytes = 31"), "vector_bytes is 31", "16, 32 or 64"),
        (changed("products = 1.5", "products = 0"), "old.processor.products is 0", "1.0"),
        (changed("products = 1.5", 'products = "1"'), "old.processor.products is '1'", "1.0"),
        (CLUSTER.partition("[between]")[0], "no [between]", "latency"),
        ("groups = 3", "there are no groups", "[[groups]]"),
        ("groups = [3]", "groups[0] is 3, and no table", "[groups[0]]"),
        ("", "there are no groups", "[[groups]]"),
        ("a = ", "the text is no TOML", "[[groups]]"),
        ("a = " + "[" * 10000, "the text is no TOML", "[[groups]]"),
        ("#" * 300_000, "the text has more than 256 KiB", "copies"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key_that_is_wrong(
    text: str, what: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        cr.Devices.parse(text)
    assert what in caught.value.what and hint in caught.value.hint
    assert len(caught.value.what) < 300


def test_files_are_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    found = cr.Devices.load(path)
    found.save(tmp_path / "again.toml")
    assert cr.Devices.load(str(tmp_path / "again.toml")) == found
    for content, what in ((b"\xff", "no text in UTF-8"), (b"#" * 300_000, "more than 256 KiB")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=what):
            cr.Devices.load(path)
    for wrong in (tmp_path, tmp_path / "none.toml", "a\0b"):
        with pytest.raises(InputError):
            cr.Devices.load(wrong)
    with pytest.raises(InputError, match="cannot write"):
        found.save(tmp_path / "none" / "cluster.toml")


@pytest.mark.parametrize(
    ("count", "options", "what"),
    [
        (0, {}, "the number of devices is 0"),
        (True, {}, "the number of devices is True"),
        (2, {"memory": "2 gb/s"}, "memory='2 gb/s' is not an amount of memory"),
        (2, {"memory": 0}, "memory is 0"),
    ],
)
def test_no_devices_are_refused(count: Any, options: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        cr.Devices.cpu(count, **options)


def test_amounts_are_shown_in_the_unit_that_fits() -> None:
    assert [in_seconds(one) for one in (0, 5e-6, 1.25e-3, 2, 3e-10)] == [
        *("0 s", "5 us", "1.25 ms", "2 s", "0.3 ns")
    ]
    assert [in_rate(one, "B") for one in (999, 999.9e6, 25e9, 2e19)] == [
        *("999 B/s", "1 GB/s", "25 GB/s", "2e+04 PB/s")
    ]
    assert seconds_of("1.5 µs", "t") == seconds_of("1.5us", "t") == 1.5e-6


def test_measured_ranks_become_groups_of_their_hosts() -> None:
    def rank(host: str, products: float) -> list[Any]:
        return [host, 1000, 64, products, 1.0, 1.0, 1.0]

    within, between = Link(1e-6, 1e10), Link(1e-5, 1e9)
    alike = [rank(host, one) for host, one in zip("aabb", (1, 2, 3, 9), strict=True)]
    (node,) = devices_of(alike, within, between).groups
    assert (node.devices, node.copies, node.memory_nbytes) == (2, 2, 500)
    assert node.processor == Processor(64, 2.5, 1.0, 1.0, 1.0)
    uneven = devices_of([*alike, rank("b", 9)], within, between)
    assert [(one.name, one.devices, one.memory_nbytes) for one in uneven.groups] == [
        *(("node0", 2, 500), ("node1", 3, 333))
    ]
    assert uneven.link(1, 2) == between and uneven.link(2, 4) == within


def test_the_command_prints_and_writes_devices(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    shown = CliRunner().invoke(main, ["devices", str(path)])
    assert shown.exit_code == 0 and shown.output.startswith("10 devices\n")
    here = CliRunner().invoke(main, ["devices", "-o", str(tmp_path / "here.toml")])
    assert here.exit_code == 0, here.output
    found = cr.Devices.load(tmp_path / "here.toml")
    assert found.groups[0].processor is not None and str(found) in here.output
    path.write_text("a = 1")
    assert CliRunner().invoke(main, ["devices", str(path)]).exit_code == 1
    assert CliRunner().invoke(main, ["devices", str(path), "--measure"]).exit_code == 2


@pytest.mark.slow
def test_this_machine_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = replace(measured_speeds.THOROUGH, turns=1, seconds=0.001, together=0.001)
    monkeypatch.setattr(measured_speeds, "THOROUGH", soon)
    shown = CliRunner().invoke(main, ["devices", "--measure", "-o", str(tmp_path / "a.toml")])
    assert shown.exit_code == 0, shown.output
    (group,) = cr.Devices.load(tmp_path / "a.toml").groups
    assert group.flops("float32") > 1e8 and group.memory_bandwidth > 1e8
    assert group.processor is not None and 0.01 < group.processor.starting < 100


def test_a_processor_says_how_long_a_step_takes_to_begin() -> None:
    """On devices that are no processors, nothing; per array of the state on the others."""
    step, *_ = case("network", "sgd", "reference")
    starts = []
    for text in (CLUSTER, CLUSTER.replace("numpy = 1.0", "numpy = 1.0\nstarting = 3.0")):
        found = cr.Devices.parse(text)
        assert cr.Devices.parse(found.toml()) == found
        split = replace(
            cr.parallel(step, micro_batches=4), devices=Devices(found.groups[1:], THREADS)
        )
        line = split.timeline(n=ROWS)
        starts.append(line.step_seconds - line.seconds)
    assert starts == pytest.approx([5e-4 + 4 * 2e-5, 3 * (5e-4 + 4 * 2e-5)])
    split = replace(split, devices=Devices(found.groups[:1], THREADS))
    assert split.timeline(n=ROWS).step_seconds == split.timeline(n=ROWS).seconds


@pytest.mark.slow
@needs_mpi
def test_a_job_measures_its_links(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    command = [sys.executable, "-m", "chainrule", "devices", "--measure", "-o", str(path)]
    found = subprocess.run(
        [mpiexec(), "-n", "2", *command], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    (node,) = cr.Devices.load(path).groups
    assert (node.name, node.devices, node.copies) == ("node", 2, 1)
    assert 1e-7 < node.link.latency + 1e3 / node.link.bandwidth < 1e-2
    assert 1e7 < node.link.bandwidth < 1e12
    assert found.stdout.count("wrote") == 1
