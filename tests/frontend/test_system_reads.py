"""Entropy, clocks and files that a program asks while it is traced: told where they freeze."""

from __future__ import annotations

import datetime
import inspect
import json
import os
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from time import time as now
from typing import Any

import numpy as np
import pytest
from freezing import line_of, told_by

import chainrule as cr

X = np.ones(3)


def without_a_seed(x: Any) -> Any:
    return x + np.random.default_rng().normal(size=3)


def of_the_system(x: Any) -> Any:
    return x + os.urandom(1)[0]


def by_secrets(x: Any) -> Any:
    return x + secrets.randbelow(1000)


def steered_by_secrets(x: Any) -> Any:
    return x[secrets.randbelow(3)]


def by_a_generator_of_the_system(x: Any) -> Any:
    return x + random.SystemRandom().random()


def by_uuid(x: Any) -> Any:
    return x + uuid.uuid4().int % 1000


def by_the_clock(x: Any) -> Any:
    return x * (time.time() % 1)


def by_the_clock_under_another_name(x: Any) -> Any:
    return x * now()


def by_a_counter(x: Any) -> Any:
    return x * time.perf_counter()


def by_the_date(x: Any) -> Any:
    return x * datetime.datetime.now().timestamp()


def by_a_helper_of_the_clock(x: Any) -> Any:
    return x + by_the_clock(x)


def from_a_file(x: Any, path: str) -> Any:
    return x * np.loadtxt(path)


def from_a_binary_file(x: Any, path: str) -> Any:
    return x * np.load(Path(path).with_suffix(".npy"))


def from_text(x: Any, path: str) -> Any:
    return x * float(Path(path).read_text().split()[0])


def by_text_of_the_clock(x: Any) -> Any:
    return x * float(time.strftime("%Y"))


def by_local_time(x: Any) -> Any:
    return x * time.localtime().tm_year


def by_nanoseconds(x: Any) -> Any:
    return x * time.perf_counter_ns()


def by_the_system_clock(x: Any) -> Any:
    return x * time.clock_gettime(0)


def by_today(x: Any) -> Any:
    return x * datetime.date.today().year


def elapsed(x: Any) -> Any:
    start = time.monotonic()
    seconds = time.monotonic() - start
    return x * (2 + 1e9 * seconds)


def by_an_import_inside(x: Any) -> Any:
    import time as clock

    return x * clock.time()


def in_a_branch(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda a: a * time.time(), lambda a: a, x)


def in_a_loop(x: Any) -> Any:
    return cr.while_loop(lambda a: np.sum(a) < 10, lambda a: a * time.time(), x)


def from_a_descriptor(x: Any, path: str) -> Any:
    descriptor = os.open(path, os.O_RDONLY)
    value = float(os.read(descriptor, 10).split()[0])
    os.close(descriptor)
    return x * value


def from_an_open_file(x: Any, path: str) -> Any:
    with open(path) as file:
        return x * float(file.readline())


def from_lines(x: Any, path: str) -> Any:
    with open(path) as file:
        numbers = [float(line) for line in file]
    return x * numbers[0]


def from_json(x: Any, path: str) -> Any:
    with open(Path(path).with_suffix(".json")) as file:
        settings = json.load(file)
    return x * settings["rate"]


def of_a_generator_of_python_without_a_seed(x: Any) -> Any:
    draw = random.Random().gauss
    return x + draw(0, 1)


def of_bits_without_a_seed(x: Any) -> Any:
    return x + np.random.PCG64().random_raw() % 5


def seeded_by_the_system(x: Any) -> Any:
    np.random.seed()
    return x * np.random.rand()


def kept_in_the_system(x: Any) -> Any:
    HELD.append(os.urandom(1)[0])
    return x * HELD[-1]


HELD: list[int] = []


def by_the_time_of_a_file(x: Any, path: str) -> Any:
    return x * (os.path.getmtime(path) % 1000)


def by_the_size_of_a_file(x: Any, path: str) -> Any:
    return x * Path(path).stat().st_size


def as_often_as_secrets_say(x: Any) -> Any:
    for _ in range(secrets.randbelow(4)):
        x = x + 1
    return x


def matched_with_secrets(x: Any) -> Any:
    match secrets.randbelow(2):
        case 0:
            return x
    return x + 1


ASKED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a generator without a seed": (without_a_seed, "default_rng()", "random numbers are drawn"),
    "os.urandom": (of_the_system, "os.urandom", "random numbers are drawn"),
    "secrets": (by_secrets, "secrets.randbelow", "random numbers are drawn"),
    "an index": (steered_by_secrets, "secrets.randbelow", "random numbers are drawn"),
    "SystemRandom": (by_a_generator_of_the_system, "SystemRandom", "random numbers are drawn"),
    "uuid": (by_uuid, "uuid.uuid4", "random numbers are drawn"),
    "time": (by_the_clock, "time.time", "the clock is read"),
    "time, by another name": (by_the_clock_under_another_name, "now()", "the clock is read"),
    "perf_counter": (by_a_counter, "perf_counter", "the clock is read"),
    "datetime": (by_the_date, "datetime.now", "the clock is read"),
    "a helper": (by_a_helper_of_the_clock, "time.time", "the clock is read"),
    "np.loadtxt": (from_a_file, "np.loadtxt", "a file is read"),
    "np.load": (from_a_binary_file, "np.load", "a file is read"),
    "a path": (from_text, "read_text", "a file is read"),
    "strftime": (by_text_of_the_clock, "strftime", "the clock is read"),
    "localtime": (by_local_time, "localtime", "the clock is read"),
    "perf_counter_ns": (by_nanoseconds, "perf_counter_ns", "the clock is read"),
    "clock_gettime": (by_the_system_clock, "clock_gettime", "the clock is read"),
    "today": (by_today, "date.today", "the clock is read"),
    "seconds that passed": (elapsed, "start = time.monotonic()", "the clock is read"),
    "an import inside": (by_an_import_inside, "clock.time()", "the clock is read"),
    "a branch": (in_a_branch, "time.time()", "the clock is read"),
    "a loop": (in_a_loop, "time.time()", "the clock is read"),
    "a descriptor": (from_a_descriptor, "os.read", "a file is read"),
    "an open file": (from_an_open_file, "open(path)", "a file is read"),
    "the lines of a file": (from_lines, "open(path)", "a file is read"),
    "json": (from_json, "open(Path", "a file is read"),
    "Random()": (of_a_generator_of_python_without_a_seed, "random.Random()", "random numbers"),
    "PCG64()": (of_bits_without_a_seed, "PCG64()", "random numbers are drawn"),
    "seed()": (seeded_by_the_system, "np.random.seed()", "random numbers are drawn"),
    "getmtime": (by_the_time_of_a_file, "os.path.getmtime", "a time or a size of a file"),
    "stat": (by_the_size_of_a_file, "stat()", "a time or a size of a file is read"),
    "a range": (as_often_as_secrets_say, "secrets.randbelow", "random numbers are drawn"),
    "match": (matched_with_secrets, "secrets.randbelow", "random numbers are drawn"),
    "a list": (kept_in_the_system, "os.urandom", "random numbers are drawn"),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("case", ASKED)
def test_entropy_clocks_and_files_are_told_with_their_line(case: str, tmp_path: Path) -> None:
    function, text, what = ASKED[case]
    path = tmp_path / "numbers.txt"
    np.savetxt(path, [2.5, 3.5, 4.5], fmt="%g")
    np.save(path.with_suffix(".npy"), [2.5, 3.5, 4.5])
    path.with_suffix(".json").write_text(json.dumps({"rate": 2.5}))
    more = (str(path),) * ("path" in inspect.signature(function).parameters)
    (told,) = told_by(lambda: cr.trace(function, X, *more))
    assert str(told.message).startswith(what)
    assert f" while {function.__name__} is traced: " in str(told.message)
    assert text in line_of(told)
    assert sys.getprofile() is None


def test_the_advice_about_a_clock() -> None:
    (told,) = told_by(lambda: cr.trace(by_the_clock, X))
    assert str(told.message).endswith(
        "try: read it before the call, and pass the number as an argument"
    )


def test_a_profiler_that_runs_goes_on() -> None:
    seen: list[str] = []

    def profiler(frame: Any, event: str, _: Any) -> None:
        seen.append(event)

    sys.setprofile(profiler)
    try:
        assert told_by(lambda: cr.trace(by_the_clock, X)) == []
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert "c_call" in seen


def test_a_program_that_fails_leaves_no_profiler() -> None:
    def failing(x: Any) -> Any:
        return x @ np.ones((5, int(time.time() > 0)))

    with pytest.raises(cr.errors.ShapeError):
        cr.trace(failing, X)
    assert sys.getprofile() is None


def test_what_another_thread_asks_is_no_fault_of_the_program() -> None:
    def waiting(x: Any) -> Any:
        thread = threading.Thread(target=os.urandom, args=(4,))
        thread.start()
        thread.join()
        _ = os.urandom  # which it names
        return x

    assert told_by(lambda: cr.trace(waiting, X)) == []


@pytest.mark.peers
def test_jaxs_draws_are_told() -> None:
    jax = pytest.importorskip("jax")

    def function(x: Any) -> Any:
        return x + np.asarray(jax.random.normal(jax.random.key(0), (3,)), np.float64)

    def key_alone(x: Any) -> Any:
        jax.random.split(jax.random.key(0))
        return x

    (told,) = told_by(lambda: cr.trace(function, X))
    assert "jax.random.normal" in str(told.message)
    assert told_by(lambda: cr.trace(key_alone, X)) == []
