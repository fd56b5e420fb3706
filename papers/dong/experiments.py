"""Experiments of Dong's dissertation outside `mansard bench`: `python -m papers.dong.experiments --out FOLDER`.

Ways to solve with a triangle (figures 4.4, 4.5), factorizations by unblocked panels of our own (4.1 to 4.3), the
time line of an LU factorization (3.4, 3.6), his versions of the bidiagonalization (4.8), and the shares of its
products (4.9).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from mansard.arrays.kinds import kind_of
from mansard.operations.factor.plan import blocked as library_blocked
from mansard.operations.factor.plan import swapped

from .. import kernels
from ..kernels import Rows
from . import panels, substitution, timeline, versions

ROWS = "dong-experiments.jsonl"
TRIANGLES, ELEMENTS = (64, 128, 256, 512), 1 << 27  # orders; numbers of all matrices together, out of the cache
FACTORED, MATRICES = (512, 256, 128, 64), 2000  # the paper's numbers are those of n = 512
REDUCED = (512, 256, 128)  # orders of bidiagonalizations
LINE, HOLD = 512, 0.15  # order of the time line's matrices; seconds in which its launches are queued
OPERATIONS = ("lu", "cholesky", "qr")


def measure(out: Path, seconds: float, names: Sequence[str]) -> None:
    """These parts on this machine's GPU within about so many seconds; a part that fails leaves the others alone."""
    import cupy

    rows = Rows(out / ROWS, cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    end = time.monotonic() + seconds
    for name in names:
        try:
            PARTS[name](rows, end)
        except Exception as error:
            print(f"{name}: {error!r}", flush=True)
        cupy.get_default_memory_pool().free_all_blocks()


def triangles(n: int, uplo: str, count: int, module: Any) -> tuple[Any, Any]:
    """Well-conditioned triangles with zeros beyond the diagonal, and right-hand sides."""
    make = module.random.default_rng(n)
    A = make.random((count, n, n)) / n
    A = module.tril(A) if uplo == "L" else module.triu(A)
    diagonal = module.arange(n)
    A[:, diagonal, diagonal] += 1
    return A, make.random((count, n))


def measure_triangles(rows: Rows, end: float) -> None:
    """Every way at every order, each as a captured graph: no time of Python."""
    import cupy

    for n in TRIANGLES:
        count = ELEMENTS // n**2
        for uplo in "LU":
            A, b = triangles(n, uplo, count, cupy)
            calls = {name: partial(_from, way, A, b, cupy.empty_like(b), uplo)
                     for name, way in substitution.WAYS.items()}  # fmt: skip
            _in_threads(calls.values())
            for name, call in calls.items():
                try:
                    x = call()
                    right = float(abs(cupy.einsum("bij,bj->bi", A[:50], x[:50]) - b[:50]).max())
                    took = kernels.seconds(_captured(call), 5, 1)
                except Exception as error:  # other ways may be possible all the same
                    print(f"trsv {uplo} {n}, {name}: {error!r}", flush=True)
                    continue
                rate = count * n * n / min(took) / 1e9
                rows.add(what="trsv", way=name, n=n, uplo=uplo, count=count, seconds=took, error=right, gflops=rate,
                         bytes=4 * count * n * (n + 5))  # fmt: skip
                print(f"trsv {uplo} {n}, {name}: {rate:.0f} GFLOP/s", flush=True)
            if time.monotonic() > end:
                return


def _from(way: substitution.Way, A: Any, b: Any, x: Any, uplo: str) -> Any:
    x[...] = b
    way(A, x, uplo)
    return x


def _in_threads(calls: Any) -> None:
    """Call all once, so that compilers run side by side."""
    import cupy

    def once(call: Callable[[], Any]) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            call()
            stream.synchronize()

    cupy.cuda.get_current_stream().synchronize()
    with ThreadPoolExecutor() as pool:
        list(pool.map(once, calls))


def _captured(call: Callable[[], Any]) -> Callable[[], Any]:
    from mansard.bench.clock import capture_cupy

    return capture_cupy(lambda _: call(), 1)


def matrices(operation: str, n: int, count: int, module: Any) -> Any:
    """Random matrices; positive definite ones for Cholesky."""
    A = module.random.default_rng(n).random((count, n, n)) - 0.5
    if operation == "cholesky":
        A = A + A.swapaxes(1, 2)
        diagonal = module.arange(n)
        A[:, diagonal, diagonal] += 2 * n
    return A


def measure_panels(rows: Rows, end: float) -> None:
    """Factorizations by columns of our own, whole matrices and panels, in captured graphs."""
    import cupy

    columns = _columns()
    for n, how, operation in product(FACTORED, ("nonblocked", "classic"), OPERATIONS):
        if (how, operation) == ("classic", "qr"):
            continue  # reflections between panels would be compiled for longer than they are measured
        A = matrices(operation, n, MATRICES, cupy)
        work = cupy.empty_like(A)
        call = partial(_factored, operation, how, A, work, columns)
        copy = kernels.seconds(partial(cupy.copyto, work, A), 3, 1)
        if how == "classic":
            made = panels.classic(columns, work)
            timeline.rehearse(made, partial(getattr(made, operation), work, None))
        took = kernels.seconds(_captured(call), 3, 1)
        least = min(took) - min(copy)  # every call begins with a copy
        rate = MATRICES * panels.flops(operation, n) / least / 1e9
        rows.add(what="panels", operation=operation, how=how, n=n, count=MATRICES, seconds=took, copy=min(copy),
                 gflops=rate, error=_error(operation, A[0], work[0]))  # fmt: skip
        print(f"{operation} {n}, {how}: {rate:.0f} GFLOP/s", flush=True)
        if time.monotonic() > end:
            return


def _columns() -> panels.Columns:
    import cupy

    from mansard.backends import cuda

    return panels.Columns(cuda.backend(), lambda: cupy.cuda.get_current_stream().ptr)


def _factored(operation: str, how: str, A: Any, work: Any, columns: panels.Columns) -> Any:
    work[...] = A
    return panels.run(operation, how, work, columns)


def _error(operation: str, A: Any, F: Any) -> float:
    """How far the diagonal of the factor, which fixes |det A|, is from that of the library's own, relatively."""
    import numpy as np

    diagonal = np.log(abs(np.diag(F.get()))).sum() * (2 if operation == "cholesky" else 1)
    return float(abs(diagonal / np.linalg.slogdet(A.get())[1] - 1))


def lines(A: Any, columns: panels.Columns) -> Iterator[tuple[str, Any]]:
    """The factorizations whose time lines are compared: classic, with exchanges all at once, recursive."""
    kind = kind_of(A, "A")
    yield "classic", panels.classic(columns, A)
    swaps = panels.classic(columns, A)
    swaps.swaps.kernel = partial(swapped, kind, None)
    yield "parallel swaps", swaps
    yield "recursive", library_blocked(kind, None)


def measure_line(rows: Rows, end: float) -> None:
    """Parts of an LU factorization in time; launches are queued behind a wait, so that the host is not seen."""
    import cupy

    columns, A = _columns(), matrices("lu", LINE, MATRICES, cupy)
    work = cupy.empty_like(A)

    def mark() -> Any:
        event = cupy.cuda.Event()
        event.record()
        return event

    for how, blocked in lines(A, columns):
        timeline.rehearse(blocked, partial(blocked.lu, work, None))
        if time.monotonic() > end:
            return
        parts = timeline.recorded(blocked, mark)
        work[...] = A
        cupy.cuda.get_current_stream().synchronize()
        columns.backend.hold(HOLD, cupy.cuda.get_current_stream().ptr)
        first = mark()
        blocked.lu(work, None)
        cupy.cuda.get_current_stream().synchronize()
        found = [(name, *(round(1e3 * cupy.cuda.get_elapsed_time(first, event), 1) for event in events))
                 for name, *events in parts]  # fmt: skip
        rows.add(what="line", how=how, n=LINE, count=MATRICES, parts=found, shares=timeline.shares(found))
        print(f"time line, {how}: {found[-1][2] / 1e3:.1f} ms, {timeline.shares(found)}", flush=True)


def measure_versions(rows: Rows, end: float) -> None:
    """Bidiagonalizations by Dong's versions; the error is that of the Frobenius norm, which rotations keep."""
    import cupy

    from mansard.backends import cuda

    made = versions.Kernels(cuda.backend(), lambda: cupy.cuda.get_current_stream().ptr)
    for n, version in product(REDUCED, versions.VERSIONS):
        count = ELEMENTS // n**2
        A = matrices("gebrd", n, count, cupy)
        work = versions.Work(cupy, cupy.empty_like(A), 1 if version == "nonblocked" else versions.PANEL)

        def call(A: Any = A, work: versions.Work = work, version: str = version) -> None:
            work.F[...] = A
            versions.run(version, work, made)

        copy = kernels.seconds(partial(cupy.copyto, work.F, A), 3, 1)
        took = kernels.seconds(call, 3, 1)
        rate = count * versions.flops(n) / (min(took) - min(copy)) / 1e9  # every call begins with a copy
        norm = cupy.sqrt((work.D**2).sum(1) + (work.E**2).sum(1))
        error = float(abs(norm / cupy.linalg.norm(A, axis=(1, 2)) - 1).max())
        rows.add(what="versions", version=version, n=n, count=count, seconds=took, copy=min(copy), gflops=rate,
                 error=error)  # fmt: skip
        print(f"gebrd {n}, version {version}: {rate:.0f} GFLOP/s", flush=True)
        if time.monotonic() > end:
            return


def measure_reduction(rows: Rows, end: float) -> None:
    """Shares of square products, of wide and tall ones, and of products of matrices in his version 3 of the
    bidiagonalization; launches are queued behind a wait, so that the host is not seen."""
    import cupy

    from mansard.backends import cuda

    made = versions.Kernels(cuda.backend(), lambda: cupy.cuda.get_current_stream().ptr)
    for n in REDUCED:
        A = matrices("gebrd", n, ELEMENTS // n**2, cupy)
        work = versions.Work(cupy, A.copy())
        marks: list[tuple[str, Any]] = []

        def mark(part: str, marks: list[tuple[str, Any]] = marks) -> None:
            marks.append((part, cupy.cuda.Event()))
            marks[-1][1].record()

        versions.run("3", work, made)  # which compiles
        work.F[...] = A
        cupy.cuda.get_current_stream().synchronize()
        made.backend.hold(HOLD, cupy.cuda.get_current_stream().ptr)
        mark("begin")
        versions.run("3", work, made, mark)
        cupy.cuda.get_current_stream().synchronize()
        at = [(part, cupy.cuda.get_elapsed_time(marks[0][1], event)) for part, event in marks]
        found = timeline.shares([(part, before, then) for (_, before), (part, then) in pairwise(at)], versions.PARTS)
        rows.add(what="reduction", n=n, count=len(A), milliseconds=at[-1][1], shares=found)
        print(f"gebrd {n}, version 3: {at[-1][1]:.1f} ms, {found}", flush=True)
        if time.monotonic() > end:
            return


PARTS: dict[str, Callable[[Rows, float], None]] = {
    "triangles": measure_triangles, "line": measure_line, "panels": measure_panels,
    "versions": measure_versions, "reduction": measure_reduction}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.dong.experiments", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the rows")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after about so many seconds (default: 60)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="in this order (default: all)")
    given = parser.parse_args(arguments)
    measure(given.out, given.seconds, given.parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
