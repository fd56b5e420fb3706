"""`mansard bench first-calls`: seconds that a caller waits for a first call, in a fresh process with an empty cache.

Every call is made by a process of its own: once with an empty cache, then by another process with what the first one
left there. Times are those of a clock on the wall, around the call alone; NumPy and `mansard` are imported before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np

import mansard as ms

from .. import forks, settings
from ..errors import UsageError
from ..options import near
from . import compile_seconds
from .table import Table

NAME = "first-calls"
KERNELS = "kernels"  # a set: not calls, but what compilers work for kernels
ROWS = "first-calls.json"
_REPEATS = 3  # the most processes of each kind
_MANY = 10_000  # matrices of a batch
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kalman_filter.py"


def _batch(rows: int, columns: int, count: int = _MANY) -> Any:
    return np.random.default_rng(0).standard_normal((count, rows, columns)) + 9 * np.eye(rows, columns)


def _linalg(name: str, order: int, *beside: int, positive: bool = False, count: int = _MANY) -> Callable[[], Any]:
    A = _batch(order, order, count)
    given = (A @ A.swapaxes(1, 2) if positive else A, *(_batch(order, one, count) for one in beside))
    return lambda: getattr(ms.linalg, name)(*given)


def _products(order: int) -> Callable[[], Any]:
    A = _batch(order, order)
    return lambda: ms.matmul(A, A)


def _gram() -> Callable[[], Any]:
    A = np.random.default_rng(0).standard_normal((100_000, 8))
    return lambda: ms.gram(A)


def _kalman(targets: int) -> Callable[[], Any]:
    seen = np.random.default_rng(0).standard_normal((100, targets, 3))
    return partial(run_path(str(_EXAMPLE))["filtered"], seen)


def _elements(count: int) -> Callable[[], Any]:
    """Stiffness of trilinear elements by eight points each."""
    random = np.random.default_rng(0)
    gradients = random.standard_normal((8, 1, 8, 3))
    nodes = np.eye(8, 3) + 0.1 * random.standard_normal((count, 8, 3))

    def stiffness() -> Any:
        jacobians = ms.blas.gemm(gradients, nodes, trans_a="T")
        weights = np.abs(ms.linalg.det(jacobians))
        of_space = ms.matmul(gradients, ms.linalg.inv(jacobians))
        K = ms.blas.gemm(of_space, of_space, alpha=weights, trans_b="T").sum(0) + np.eye(8)
        return K[:, :4, :4] - ms.matmul(K[:, :4, 4:], ms.linalg.solve(K[:, 4:, 4:], K[:, 4:, :4]))

    return stiffness


# What is called first, and the seconds that it may take (None: no goal).
CALLS: dict[str, tuple[Callable[[], Callable[[], Any]], float | None]] = {
    "gram of 100 000 x 8": (_gram, 1.5),
    "matmul, 10 000 of 8 x 8": (partial(_products, 8), 1.5),
    "solve, 10 000 of 8 x 8": (partial(_linalg, "solve", 8, 1), 3.0),
    "solve, 10 000 of 16 x 16": (partial(_linalg, "solve", 16, 1), 3.0),
    "solve, 10 of 5 x 5": (partial(_linalg, "solve", 5, 1, count=10), None),
    "cholesky, 10 000 of 8 x 8": (partial(_linalg, "cholesky", 8, positive=True), 3.0),
    "qr, 10 000 of 8 x 8": (partial(_linalg, "qr", 8), 3.0),
    "inv, 10 000 of 8 x 8": (partial(_linalg, "inv", 8), None),
    "eigh, 10 000 of 8 x 8": (partial(_linalg, "eigh", 8, positive=True), None),
    "Kalman filter, 1000 targets": (partial(_kalman, 1000), 6.0),
    "finite elements, 500": (partial(_elements, 500), None),
}


def run(args: argparse.Namespace, show: Callable[[Table], None]) -> int:
    """Time the calls in turn, print their table, and leave the numbers in a file."""
    if args.set == KERNELS:
        return _kernels_alone(args, show)
    asked = [name.strip() for name in args.set.split(",")] if args.set not in (None, "all", "quick") else list(CALLS)
    names = [name for name in CALLS if any(name.startswith(one) for one in asked)]
    if not names:
        raise UsageError(f"--set {args.set}: {KERNELS}, or calls: {', '.join(CALLS)}{near(args.set, CALLS)}")
    if not _EXAMPLE.exists():  # only the wheel is installed
        names = [name for name in names if not name.startswith("Kalman")]
    rows = []
    for name in names:
        rows.append(measured(name, min(args.repeats, _REPEATS)))
        print(f"{name}: {rows[-1]['cold']:.2f} s", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / ROWS).write_text(json.dumps(rows, indent=1) + "\n")
    show(table(rows))
    return 0


def _kernels_alone(args: argparse.Namespace, show: Callable[[Table], None]) -> int:
    """Seconds of the compiler for kernels of all families, in an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", compile_seconds.__name__]
        done = forks.run(command, env=settings.cached_environment(folder))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or not rows:
        raise UsageError(f"--set {KERNELS}: its process ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "kernels.json").write_text(json.dumps(rows, indent=1) + "\n")
    show(compile_seconds.table(rows))
    return 0


def measured(name: str, repeats: int) -> dict[str, Any]:
    """Medians of the seconds of a first call: cold, with the cache of another process, and of the call after it."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold, _ = _in_process(name, folder)
            kernels = list(_kernels(Path(folder)))
            warm, again = _in_process(name, folder)
            found.append((cold, warm, again))
    cold, warm, again = (statistics.median(column) for column in zip(*found, strict=True))
    return {"call": name, "kernels": len(kernels), "slowest": max(kernels, default=0.0), "cold": cold, "warm": warm,
            "again": again, "repeats": repeats}  # fmt: skip


def _kernels(root: Path) -> Iterator[float]:
    """Seconds that each kernel of a cache took to compile; headers and launchers are no kernels."""
    for path in root.glob("kernels/*/*/kernel.cpp"):
        if "written by Mansard from kernels/" in path.read_text():
            yield float(json.loads((path.parent / "manifest.json").read_text())["seconds"])


def _in_process(name: str, folder: str) -> tuple[float, float]:
    """Seconds of the first and of the second call in a process that finds its kernels in `folder`."""
    command = [sys.executable, "-m", __name__, name]
    done = forks.run(command, env=settings.cached_environment(folder))
    if done.returncode:
        raise UsageError(f"{name}: its process ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    first, second = json.loads(done.stdout.splitlines()[-1])
    return first, second


def table(rows: list[dict[str, Any]]) -> Table:
    """One line per call; those that miss their goal are marked."""
    cells: list[tuple[str, ...]] = []
    bad = set()
    for row in rows:
        goal = CALLS[row["call"]][1]
        if goal is not None and row["cold"] > goal:
            bad.add(len(cells))
        wanted = "" if goal is None else f"{goal:g} s"
        cells.append((row["call"], str(row["kernels"]), f"{row['cold']:.2f} s", wanted, f"{1e3 * row['warm']:.0f} ms",
                      f"{1e3 * row['again']:.1f} ms"))  # fmt: skip
    columns = ("first call", "kernels", "empty cache", "goal", "next process", "second call")
    return Table("First calls, on the wall", columns, cells, frozenset(bad))


def main(name: str) -> None:
    """Make a call twice and print the seconds of each."""
    call, seconds = CALLS[name][0](), []
    for _ in range(2):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1])
