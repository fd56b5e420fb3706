"""Kernels of every family under compute-sanitizer: memcheck, racecheck and initcheck over cases drawn by a seed.

python3 -m tests.sanitize_gpu --tools memcheck,racecheck,initcheck --seconds 1200 --seed 1
python3 -m tests.sanitize_gpu --list         what would run, without a GPU
python3 -m tests.sanitize_gpu --families jacobi --variants block         cases of one kind of kernel

Processes take a few cases of one family each. Kernels are compiled before the tool starts. The table is written after
every process, and a run adds to the table of the runs before, so that a run may be killed, or made of several pieces.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLACES = (str(HERE.parent), str(HERE), str(HERE / "cases"))
sys.path[:0] = PLACES

from sanitize_report import Row, Watched, parse, read, write  # noqa: E402

from mansard import settings  # noqa: E402

FAMILIES = (
    "gram", "tsmm", "tsm2r", "matmul_gram", "sketch", "small_step", "gemm", "ragged", "gemv", "rank_k", "trsm", "trmm",
    "cholesky", "lu", "qr", "jacobi", "tridiagonal", "bidiagonal", "sweeps", "divide", "back_transform", "spmv",
    "powers", "krylov", "systems", "gradients", "refinement",
)  # fmt: skip
TOOLS = ("memcheck", "racecheck", "initcheck")
PER_PROCESS = 4  # cases; starting Python, CuPy and a CUDA context takes longer than most cases
CASE_SECONDS = 60  # a case that takes longer is taken to hang: spinning kernels may, under a tool
START_SECONDS = 60  # for a process until its first case


@dataclass(frozen=True)
class Batch:
    """Cases of one family for one process."""

    family: str
    numbers: tuple[int, ...]


def cases_of(family: str) -> Any:
    return import_module(f"{family}_cases").CASES


def described(family: str, number: int) -> tuple[str, str, str]:
    """Variant, dtype and sizes of a case."""
    case = cases_of(family)[number]
    problem, config = case if isinstance(case, tuple) else (case, case.config)
    sizes = getattr(problem, "sizes", None) or getattr(problem, "shape", ())
    numbers = [str(size[1] if isinstance(size, tuple) else size) for size in sizes]
    return getattr(config, "VARIANT", "default"), problem.dtype, "x".join(numbers)


def drawn(family: str, seed: int, variants: list[str]) -> list[int]:
    """Cases of a family (of these variants, or of all) in random order, but first one of each variant and dtype."""
    numbers = [n for n in range(len(cases_of(family))) if not variants or described(family, n)[0] in variants]
    random.Random(f"{family} {seed}").shuffle(numbers)
    met: dict[tuple[str, str], int] = {}
    for number in numbers:
        met.setdefault(described(family, number)[:2], number)
    first = list(met.values())
    return first + [number for number in numbers if number not in set(first)]


def batches(families: list[str], seed: int, variants: list[str] | None = None) -> Iterator[Batch]:
    """Batches of all families in turn, so that whenever time is up all have had theirs."""
    orders = {family: drawn(family, seed, variants or []) for family in families}
    for begin in range(0, max(map(len, orders.values())), PER_PROCESS):
        for family, order in orders.items():
            if order[begin : begin + PER_PROCESS]:
                yield Batch(family, tuple(order[begin : begin + PER_PROCESS]))


@dataclass
class Run:
    """A run under way: its deadline, and the rows so far."""

    out: Path
    device: str
    deadline: float
    sanitizer: str
    padding: list[str]
    rows: dict[tuple[str, int, str], Row] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: int = 0

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def add(self, rows: list[Row]) -> None:
        with self.lock:
            self.rows |= {row.key: row for row in rows}
            self.made += len(rows)
            write(self.out, self.rows.values(), self.device)
            for row in rows:
                print(row.family, row.variant, row.dtype, row.sizes, row.tool, row.outcome, f"{row.errors} errors",
                      row.report, flush=True)  # fmt: skip

    def watch(self, batch: Batch, tool: str) -> None:
        """One process; if a case hangs, another one for the cases after it."""
        numbers = batch.numbers
        while numbers and self.left() > START_SECONDS / 2:
            output, timed_out = self._output(Batch(batch.family, numbers), tool)
            seen = parse(output)
            if not seen and timed_out and self.left() <= 1:
                return
            if not seen:
                seen = {numbers[0]: Watched(outcome="failed", report=" ".join(output.split())[-200:])}
            begun = list(seen)
            if timed_out and self.left() <= 1:  # the run is over, not the case at fault
                begun = [number for number in begun if seen[number].outcome != "not finished"]
            elif timed_out and seen[begun[-1]].outcome == "not finished":
                seen[begun[-1]].outcome = "timeout"
            if tool != "none":
                self.add([self._row(batch.family, number, tool, seen[number]) for number in begun])
            numbers = numbers[len(seen) :]

    def _row(self, family: str, number: int, tool: str, seen: Watched) -> Row:
        what = described(family, number)
        return Row(family, *what, number, tool, seen.errors, seen.outcome, seen.seconds, seen.report)

    def _output(self, batch: Batch, tool: str) -> tuple[str, bool]:
        worker = [sys.executable, str(HERE / "sanitize_worker.py"), batch.family, tool, *map(str, batch.numbers)]
        watcher = [self.sanitizer, "--tool", tool, "--print-limit", "50", "--report-api-errors", "no"]
        watcher += self.padding if tool == "memcheck" else []
        limit = min(self.left(), START_SECONDS + CASE_SECONDS * len(batch.numbers))
        return bounded_output(worker if tool == "none" else [*watcher, *worker], limit)

    def check(self, batch: Batch, tools: list[str]) -> None:
        self.watch(batch, "none")
        for tool in tools:
            self.watch(batch, tool)


def bounded_output(command: list[str], seconds: float) -> tuple[str, bool]:
    """What a process and its children say within so many seconds, and whether they had to be killed."""
    env = os.environ | {"PYTHONPATH": ":".join(PLACES), "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    )
    try:
        return process.communicate(timeout=max(1.0, seconds))[0], False
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], True


def device_name() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sanitize_gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated (default: all)")
    parser.add_argument("--variants", help="comma-separated kinds of kernels (default: all)")
    parser.add_argument("--seconds", type=float, default=1200, help="no process outlives this (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="draws the cases (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4), help="processes at a time")
    parser.add_argument("--out", type=Path, help="the table (default: results/sanitizers-<device>.md)")
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="path of the program")
    parser.add_argument("--list", action="store_true", help="list the cases in their order and stop")
    asked = parser.parse_args(given)
    for name, known in (("tools", TOOLS), ("families", FAMILIES)):
        words = getattr(asked, name).split(",")
        if unknown := set(words) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))} not among {', '.join(known)}")
        setattr(asked, name, words)
    if asked.seconds <= START_SECONDS / 2:
        parser.error(f"--seconds: nothing is begun with less than {START_SECONDS // 2} s left, give more")
    asked.variants = asked.variants.split(",") if asked.variants else []
    if not any(batches(asked.families, asked.seed, asked.variants)):
        parser.error(f"--variants: no case of {', '.join(asked.families)} is {' or '.join(asked.variants)}")
    return asked


def find_sanitizer(name: str) -> str | None:
    beside = Path(settings.current().cuda_path or ".") / "bin" / "compute-sanitizer"
    return shutil.which(name) or (str(beside) if beside.exists() else None)


def padding_of(sanitizer: str) -> list[str]:
    """Options that fence allocations, where the program knows them."""
    said = subprocess.run([sanitizer, "--help"], capture_output=True, text=True, check=False)
    return ["--padding", "128"] if "--padding" in said.stdout + said.stderr else []


def main(given: list[str] | None = None) -> int:
    begin = time.monotonic()
    asked = arguments(given)
    if asked.list:
        for batch in batches(asked.families, asked.seed, asked.variants):
            for number in batch.numbers:
                print(batch.family, number, *described(batch.family, number), ",".join(asked.tools))
        return 0
    sanitizer = find_sanitizer(asked.sanitizer)
    if sanitizer is None:
        print("compute-sanitizer is not here: it comes with the CUDA toolkit; name it by --sanitizer", file=sys.stderr)
        return 2
    device = device_name()
    out = asked.out or HERE.parent / "results" / f"sanitizers-{device.split()[-1].lower()}.md"
    rows = {row.key: row for row in read(out)}
    run = Run(out, device, begin + asked.seconds, sanitizer, padding_of(sanitizer), rows)
    with ThreadPoolExecutor(asked.jobs) as pool:
        chosen = batches(asked.families, asked.seed, asked.variants)
        under_way = [pool.submit(run.check, batch, asked.tools) for batch in chosen]
    for one in under_way:
        one.result()  # raises what it raised
    bad = [row for row in run.rows.values() if not row.clean]
    seconds = time.monotonic() - begin
    print(f"{run.made} cases watched in {seconds:.0f} s; of {len(run.rows)} cases in {out} {len(bad)} are not clean")
    return 1 if bad or not run.made else 0


if __name__ == "__main__":
    sys.exit(main())
