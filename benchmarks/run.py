"""Time every case against the peers: one command, a table and JSON.

    python benchmarks/run.py [--cases PATTERN ...] [--processes 3] [--threads 2] [--json FILE]
                             [--quick [--compiled]] [--torch-cache FOLDER]
                             [--executor native|reference] [--levels all avx2]

README.md tells how times are taken.  Ends with status 1 where results disagree.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cases import CASES
from cases.case import IMPLEMENTATIONS, Case
from measure import Timing
from report import table

HERE = Path(__file__).parent
SECONDS_ALLOWED = 1800  # of one process; torch.compile takes minutes
FIRST = "first-call-"  # before the name of a case: the row of its first call


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    processes: int
    rounds: int
    first_calls: int
    compiled_first_calls: int
    left_out: dict[str, str]
    timing: Timing


def plan(processes: int, quick: bool, compiled: bool) -> Plan:
    """In full: 20 rounds in each process, and as many first calls as an interval needs."""
    if quick:
        skip = {} if compiled else {"torch.compile": "left out by --quick"}
        return Plan(processes, 5, processes, int(compiled), skip, Timing())
    return Plan(processes, 20, max(6, processes), processes, {}, Timing())


# Left to each library: a cache of its own, its choice of kernels for this processor, .pyc files.
UNSET = (
    "JAX_COMPILATION_CACHE_DIR",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_ENABLE_INSTRUCTIONS",
    "PYTHONDONTWRITEBYTECODE",
    "CHAINRULE_EXECUTOR",
    "CHAINRULE_NUM_THREADS",
)


# A level of instructions by its name, and what keeps each library to it.
LEVELS: dict[str, dict[str, str]] = {
    "all": {},
    "avx2": {
        "CHAINRULE_WITHOUT": "avx512",
        "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own kernels, and what torch.compile makes
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",  # its matrix products do not obey
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    },
}


def environment(threads: int, level: str) -> dict[str, str]:
    """The same threads and instructions for every library, no GPU, no cache of an earlier run."""
    given = {k: v for k, v in os.environ.items() if k not in UNSET}
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
    return {
        **given,
        **dict.fromkeys(pools, str(threads)),
        "CHAINRULE_CACHE": "0",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONWARNINGS": "ignore",
        **LEVELS[level],
    }


def ask_worker(request: dict[str, Any], torch_cache: str) -> dict[str, Any]:
    """The answer of a fresh process, or {"failed": why there is none}."""
    variables = {
        **environment(request["threads"], request["level"]),
        "TORCHINDUCTOR_CACHE_DIR": torch_cache,
    }
    command = [sys.executable, str(HERE / "worker.py"), json.dumps(request)]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=SECONDS_ALLOWED
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {SECONDS_ALLOWED} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"the process ended with status {done.returncode}: {last}"[:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure_steady(case: Case, how: Plan, request: dict[str, Any], cache: str) -> dict[str, Any]:
    """Each process's seconds of the case by implementation and yardstick."""
    names = [name for name in IMPLEMENTATIONS if name not in how.left_out]
    whole = {**request, "case": case.name, "implementations": names}
    whole |= {"rounds": how.rounds, "timing": asdict(how.timing)}
    answers = [ask_worker(whole, cache) for _ in range(how.processes)]
    worked = [answer for answer in answers if "failed" not in answer]
    absent = dict(how.left_out)
    for answer in answers:
        absent |= answer.get("absent", {})
        if "failed" in answer:
            absent["a process"] = answer["failed"]
    return {
        "name": case.name,
        "title": case.title,
        "yardsticks": list(case.yardsticks),
        "processes": [answer["seconds"] for answer in worked],
        "cpus_busy_elsewhere": [answer["cpus_busy_elsewhere"] for answer in worked],
        "variants": [answer["variants"] for answer in worked],
        "tried": [answer["tried"] for answer in worked],
        "absent": absent,
        "versions": worked[0]["versions"] if worked else {},
    }


def measure_first_calls(case: Case, how: Plan, request: dict[str, Any]) -> dict[str, Any]:
    """Seconds of first calls by implementation, each of a fresh process with empty caches."""
    seconds: dict[str, list[float]] = {}
    imports: dict[str, list[float]] = {}
    absent = dict(how.left_out)
    for turn in range(how.first_calls):
        for name in IMPLEMENTATIONS:
            if name in absent or (name == "torch.compile" and turn >= how.compiled_first_calls):
                continue
            asked = {**request, "case": case.name, "implementations": [name], "first_call": True}
            with tempfile.TemporaryDirectory() as cache:
                answer = ask_worker(asked, cache)
            if "seconds" in answer:
                seconds.setdefault(name, []).append(answer["seconds"])
                imports.setdefault(name, []).append(answer["import_seconds"])
            else:
                absent[name] = answer.get("absent") or answer["failed"]
    return {
        "name": FIRST + case.name,
        "title": f"first call: {case.title}",
        "seconds": seconds,
        "import_seconds": imports,
        "absent": absent,
    }


def chosen(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that match one of the patterns; raises SystemExit for a pattern without any."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise SystemExit(f"no case matches {pattern!r}; the cases: {', '.join(names)}")
    return [name for name in names if any(fnmatch.fnmatch(name, p) for p in patterns)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["*"], help="names or patterns such as mlp-*")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also saves the table beside it, as .md")
    parser.add_argument("--quick", action="store_true", help="few rounds, no torch.compile")
    parser.add_argument("--compiled", action="store_true", help="torch.compile also with --quick")
    parser.add_argument(
        "--torch-cache", type=Path, help="where torch.compile finds what an earlier run compiled"
    )
    parser.add_argument("--executor", default="native", choices=("native", "reference"))
    parser.add_argument(
        "--levels",
        nargs="+",
        choices=LEVELS,
        default=["all", "avx2"] if "avx512f" in cpu_features() else ["all"],
        help="instructions: all that the processor has, or no AVX-512 (default: both)",
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    measured: list[dict[str, Any]] = []
    for level in given.levels:
        measured.append({})
        for found in measure(given, level):
            measured[-1] = found
            if given.json:
                save(measured, given.json)
        print(table(measured[-1]), "\n", flush=True)
    rows = [row for found in measured for row in found["cases"]]
    return 1 if any("disagrees" in str(row["absent"]) for row in rows) else 0


def measure(given: argparse.Namespace, level: str) -> Iterator[dict[str, Any]]:
    """All that is found at a level, after each case."""
    rows = {case.name: case for case in CASES}
    first_rows = {FIRST + case.name: case for case in CASES if case.trains}
    how = plan(given.processes, given.quick, given.compiled)
    request = {"threads": given.threads, "executor": given.executor, "level": level}
    found: dict[str, Any] = {
        "command": sys.argv[1:],
        "machine": {"cpu": cpu(), "cpus": os.cpu_count(), "system": platform.platform()},
        "beside": [name for name in ("mkl",) if find_spec(name)],
        "plan": asdict(how),
        **request,
        "cases": [],
        "first_calls": [],
    }
    with tempfile.TemporaryDirectory() as own:
        cache = str(given.torch_cache.resolve() / level) if given.torch_cache else own
        for name in chosen([*rows, *first_rows], given.cases):
            print(f"{name} ({level}) ...", file=sys.stderr, flush=True)
            if name in rows:
                found["cases"].append(measure_steady(rows[name], how, request, cache))
            else:
                found["first_calls"].append(measure_first_calls(first_rows[name], how, request))
            yield found


def save(measured: Sequence[dict[str, Any]], file: Path) -> None:
    """Write the JSON and the tables of what there is so far: a long run may be cut short."""
    text = "\n\n".join(map(table, measured))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(text + "\n", encoding="utf-8")


def cpu() -> str:
    """The processor's name, its family and model, where the system tells."""
    about = about_cpu()
    if not about:
        return platform.processor()
    return f"{about['model name']} (family {about['cpu family']}, model {about['model']})"


def cpu_features() -> list[str]:
    """Linux's names of what the processor can do."""
    return about_cpu().get("flags", "").split()


def about_cpu() -> dict[str, str]:
    """What Linux says of its first processor, on x86."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    about = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    return about if "cpu family" in about else {}


if __name__ == "__main__":
    sys.exit(main())
