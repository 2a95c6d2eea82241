"""Reads and writes files of devices, in TOML, and prints devices as a table."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from chainrule.devices.planning.devices import (
    DTYPES,
    Devices,
    Group,
    Link,
    Processor,
    count_of,
    memory_of,
)
from chainrule.devices.planning.units import (
    bytes_each_second,
    flops_each_second,
    in_rate,
    in_seconds,
    seconds_of,
)
from chainrule.errors import InputError
from chainrule.graph.bytes_text import in_bytes
from chainrule.nearest import nearest

MOST_NBYTES = 2**18  # of a file: memory and time stay bounded
LARGEST = 2**63 - 1  # integers of TOML; also of bytes of a device
GROUP = (
    "name",
    "devices",
    "copies",
    "memory",
    "memory_bandwidth",
    "latency",
    "bandwidth",
    "products",
    "processor",
)
LINK = ("latency", "bandwidth")
PROCESSOR = ("vector_bytes", "products", "loops", "memory", "numpy", "starting")


def load(path: Path) -> Devices:
    """See `Devices.load`."""
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_NBYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            hint="chainrule devices --measure -o devices.toml writes a file of this machine",
        ) from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r} is no name of a file", hint="devices.toml") from error
    if len(content) > MOST_NBYTES:
        raise InputError(
            f"{path} has more than {in_bytes(MOST_NBYTES)}",
            hint="groups of alike devices: devices = 8, copies = 100",
        )
    try:
        return parse(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8: {error}", hint="a file in TOML") from error


def parse(text: str, where: str) -> Devices:
    """The devices of a text in TOML; `where` is what errors call it."""
    if not isinstance(text, str):
        raise InputError(
            f"devices are parsed from text, got {type(text).__name__}",
            hint='cr.Devices.load("cluster.toml") reads a file',
        )
    if len(text) > MOST_NBYTES:
        raise InputError(
            f"{where} has more than {in_bytes(MOST_NBYTES)}",
            hint="groups of alike devices: devices = 8, copies = 100",
        )
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{where} is no TOML: {error}", hint='[[groups]], name = "cpu"') from error
    try:
        return _devices(found)
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from error


def _devices(found: Mapping[str, Any]) -> Devices:
    _known(found, ("groups", "between"), "a file of devices")
    groups = found.get("groups")
    if not isinstance(groups, list) or not groups:
        raise InputError("there are no groups of devices", hint="[[groups]] before each of them")
    made = tuple(_group(one, number) for number, one in enumerate(groups))
    between = found.get("between")
    if between is None:
        if sum(one.count for one in made) > made[0].devices:
            raise InputError(
                "there are several groups, and no [between] with the link between them",
                hint='[between], latency = "5 us", bandwidth = "25 GB/s"',
            )
        return Devices(made, made[0].link)
    return Devices(made, _link(_table(between, "between"), "between"))


def _group(value: Any, number: int) -> Group:
    found = _table(value, f"groups[{number}]")
    name = found.get("name")
    if not isinstance(name, str):
        raise InputError(f"groups[{number}] has no name that is a text", hint='name = "node"')
    _known(found, GROUP, name[:80])
    link = {key: found[key] for key in LINK if key in found}
    memory = found.get("memory")
    products = _table(_needed(found, "products", name, "[groups.products]"), f"{name}.products")
    _known(products, tuple(DTYPES), f"{name}.products")
    if not products:
        raise InputError(f"{name}.products is empty", hint='float32 = "150 GFLOP/s"')
    processor = found.get("processor")
    return Group(
        name,
        count_of(_needed(found, "devices", name, "devices = 8"), f"{name}.devices"),
        count_of(found.get("copies", 1), f"{name}.copies"),
        None if memory is None else _memory(memory, f"{name}.memory"),
        {key: flops_each_second(one, f"{name}.products.{key}") for key, one in products.items()},
        bytes_each_second(
            _needed(found, "memory_bandwidth", name, 'memory_bandwidth = "12 GB/s"'),
            f"{name}.memory_bandwidth",
        ),
        _link(link, name),
        None if processor is None else _processor(processor, f"{name}.processor"),
    )


def _memory(value: Any, name: str) -> int:
    found = memory_of(value, name)
    if found > LARGEST:
        raise InputError(f"{name} is {found}", hint=f"at most {LARGEST} bytes")
    return found


def _link(found: Mapping[str, Any], name: str) -> Link:
    _known(found, LINK, name)
    latency = _needed(found, "latency", name, 'latency = "5 us"')
    bandwidth = _needed(found, "bandwidth", name, 'bandwidth = "25 GB/s"')
    return Link(
        seconds_of(latency, f"{name}.latency"), bytes_each_second(bandwidth, f"{name}.bandwidth")
    )


def _processor(value: Any, name: str) -> Processor:
    found = _table(value, name)
    _known(found, PROCESSOR, name)
    vector = _needed(found, "vector_bytes", name, "vector_bytes = 64")
    if vector not in (16, 32, 64) or isinstance(vector, (bool, float)):
        raise InputError(f"{name}.vector_bytes is {vector!r}", hint="16, 32 or 64")
    found = {"starting": 1.0, **found}  # which older files have not
    times = [_needed(found, key, name, f"{key} = 1.0") for key in PROCESSOR[1:]]
    for key, one in zip(PROCESSOR[1:], times, strict=True):
        number = isinstance(one, (int, float)) and not isinstance(one, bool)
        if not number or not 1e-9 <= one <= 1e9:
            raise InputError(
                f"{name}.{key} is {one!r}",
                hint="how many times as long as the known processor: 1.0",
            )
    return Processor(vector, *map(float, times))


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} is {value!r:.40}, and no table", hint=f"[{name}]")
    return value


def _needed(found: Mapping[str, Any], key: str, name: str, example: str) -> Any:
    if key not in found:
        raise InputError(f"{name} has no {key}", hint=example)
    return found[key]


def _known(found: Mapping[str, Any], keys: Collection[str], name: str) -> None:
    for key in found:
        if key not in keys:
            near = nearest(key, keys)
            hint = f"perhaps {near[0]}" if near else f"one of {', '.join(keys)}"
            raise InputError(f"{name} has the unknown key {key[:80]!r}", hint=hint)


# Writing ----------------------------------------------------------------------------------------


def text_of(devices: Devices) -> str:
    """The file of devices; `load` of it gives the same ones."""
    lines = []
    for one in devices.groups:
        lines += ["[[groups]]", f'name = "{one.name}"', f"devices = {one.devices}"]
        lines += [f"copies = {one.copies}"] if one.copies > 1 else []
        lines += [f"memory = {one.memory_nbytes}"] if one.memory_nbytes is not None else []
        lines.append(_said("memory_bandwidth", one.memory_bandwidth, _per_second("B")))
        lines += [*_lines_of(one.link), "", "[groups.products]"]
        lines += [_said(key, each, _per_second("FLOP")) for key, each in one.products.items()]
        if one.processor is not None:
            lines += ["", "[groups.processor]"]
            lines += [f"{key} = {getattr(one.processor, key)!r}" for key in PROCESSOR]
        lines.append("")
    if devices.count > devices.groups[0].devices or devices.between != devices.groups[0].link:
        lines += ["[between]", *_lines_of(devices.between), ""]
    return "\n".join(lines[:-1]) + "\n"


def _per_second(unit: str) -> Callable[[float], str]:
    return lambda value: in_rate(value, unit)


def _lines_of(link: Link) -> list[str]:
    return [
        _said("latency", link.latency, in_seconds),
        _said("bandwidth", link.bandwidth, _per_second("B")),
    ]


def _said(key: str, value: float, words: Callable[[float], str]) -> str:
    """The exact number, and what it is for people."""
    return f"{key} = {value!r}  # {words(value)}"


def table_of(devices: Devices) -> str:
    """The devices for people: a line for each group, and the links."""
    from chainrule.graph.columns import in_columns

    rows = [("group", "devices", "memory of each", "products", "memory", "link")]
    for one in devices.groups:
        count = str(one.devices) if one.copies == 1 else f"{one.copies} x {one.devices}"
        memory = "no limit" if one.memory_nbytes is None else in_bytes(one.memory_nbytes)
        each = ", ".join(f"{in_rate(n, 'FLOP')} {key}" for key, n in one.products.items())
        moved = in_rate(one.memory_bandwidth, "B")
        rows.append((one.name, count, memory, each, moved, _words(one.link)))
    plural = "s" if devices.count > 1 else ""
    lines = [f"{devices.count} device{plural}", "", *in_columns(rows, ())]
    if devices.count > devices.groups[0].devices:
        lines += ["", f"between groups: {_words(devices.between)}"]
    return "\n".join(lines)


def _words(link: Link) -> str:
    return f"{in_seconds(link.latency)}, {in_rate(link.bandwidth, 'B')}"
