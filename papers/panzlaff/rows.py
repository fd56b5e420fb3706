"""Powers by level groups in the formats of Panzlaff's thesis, CRS and SELL with C = 32, 16, 8, ..., which the library's
own powers do not have (figures 3.2, 3.4 and 3.7 over p, 4.6 and 4.7).

    python -m papers.panzlaff.rows --device cpu --out FILE

Rows are in the order of their levels (a stencil's and a band's own order is one), a group is a range of rows. Power k
of group g follows power k - 1 of group g + 1, as in RACE; one call or launch each. Kernels: `rows.cuh`, `rows.hpp`.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mansard.bench.sparse import matrices
from mansard.codegen.geometry import Geometry, Kernel
from mansard.codegen.instantiate import Field, Source
from mansard.compile import cxx

from ..kernels import Rows, Text, launched, pointers, seconds

HERE = Path(__file__).parent
ROWS = "panzlaff-rows.jsonl"
POWERS = (1, 2, 3, 4, 5, 6, 8, 10)
CHUNKS = (32, 16, 8, 4, 2)  # C; 1 is CRS
BLOCK = 256  # threads
AHEAD = 4  # lines of a chunk whose entries are loaded before the first is used
STENCILS, RAMPED = ("7pt", "27pt"), "band-27"
_ENTRY = 12  # bytes: a number and its column


class Stored(NamedTuple):
    """A matrix in CRS (C = 1) or SELL-C-1; padding is zeros of column 0."""

    C: int
    values: Any
    columns: Any  # int32
    starts: Any  # int64, of rows or chunks
    rows: int
    nnz: int
    reach: int  # how many rows away the farthest column is


class Task(NamedTuple):
    """Power `power` of the rows of a group."""

    power: int
    first: int
    last: int


def stored(csr: Any, C: int, lanes_first: bool) -> Stored:
    """A SciPy matrix in chunks of C rows. `lanes_first`: lines of a chunk are 32 numbers, 32 / C of each row in a piece
    (GPUs); otherwise one of each row."""
    rows, lengths = csr.shape[0], np.diff(csr.indptr).astype(np.int64)
    row_of = np.repeat(np.arange(rows, dtype=np.int64), lengths)
    reach = int(abs(csr.indices - row_of).max(initial=0))
    if C == 1:
        return Stored(1, csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int64), rows, csr.nnz, reach)
    chunks, lanes = -(-rows // C), 32 // C if lanes_first else 1
    padded = np.zeros(chunks * C, np.int64)
    padded[:rows] = lengths
    lines = -(-padded.reshape(chunks, C).max(1) // lanes)
    starts = np.concatenate([[0], np.cumsum(lines * C * lanes)])
    at = np.arange(csr.nnz) - csr.indptr[:-1].astype(np.int64)[row_of]  # place in its row
    place = starts[row_of // C] + at // lanes * (C * lanes) + row_of % C * lanes + at % lanes
    values, columns = np.zeros(starts[-1]), np.zeros(starts[-1], np.int32)
    values[place], columns[place] = csr.data, csr.indices
    return Stored(C, values, columns, starts, rows, csr.nnz, reach)


def groups(matrix: Stored, budget: float, p: int) -> list[tuple[int, int]]:
    """Ranges of rows of which p + 1 fit a budget in bytes, none narrower than the matrix reaches."""
    per_row = _ENTRY * len(matrix.values) / max(1, matrix.rows)
    count = max(1, int(np.ceil(matrix.rows * per_row * (p + 1) / budget)))
    height = max(matrix.reach, -(-matrix.rows // count), 1)
    height = -(-height // 32) * 32  # whole chunks of every format
    return [(first, min(first + height, matrix.rows)) for first in range(0, matrix.rows, height)]


def schedule(ranges: list[tuple[int, int]], p: int) -> Iterator[Task]:
    """Every power of every group: power k of group g when power k - 1 of group g + 1 is done."""
    for step in range(len(ranges) + p - 1):
        for power in range(1, p + 1):
            group = step - (power - 1)
            if 0 <= group < len(ranges):
                yield Task(power, *ranges[group])


@dataclass
class OnCpu:
    """Calls of `rows.hpp`, one per task."""

    threads: int = 1

    def calls(self, matrix: Stored, V: Any, tasks: list[Task]) -> Callable[[], None]:
        call = _library()[matrix.C]
        fixed = (matrix.values.ctypes.data, matrix.columns.ctypes.data, matrix.starts.ctypes.data)
        begin, step = V.ctypes.data, V.strides[0]

        def run() -> None:
            for power, first, last in tasks:
                call(*fixed, begin + (power - 1) * step, begin + power * step, first, last, self.threads)

        return run


def _library() -> dict[int, Any]:
    """The compiled function of every C."""
    given = "const double* A, const int* columns, const panzlaff::i64* starts, const double* x, double* y"
    rest = "panzlaff::i64 first, panzlaff::i64 last, int threads"
    text = (HERE / "rows.hpp").read_text() + "".join(
        f'\nextern "C" void chunk{C}({given}, {rest}) {{\n'
        f"  panzlaff::multiply_rows<{C}>(A, columns, starts, x, y, first, last, threads);\n}}\n" for C in (1, *CHUNKS)
    )
    library = ctypes.CDLL(str(cxx.compile_cpu(Source("cpu", text, ()), ("-ffp-contract=fast",)).binary))
    found = {C: getattr(library, f"chunk{C}") for C in (1, *CHUNKS)}
    for function in found.values():
        function.argtypes = (*[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_int64, ctypes.c_int)
        function.restype = None
    return found


class OnGpu:
    """Launches of `rows.cuh`, one per task, on a backend (cuda or emulated)."""

    def __init__(self, backend: Any, stream: Callable[[], int] = lambda: 0, ahead: int = AHEAD) -> None:
        self.backend, self.stream, self.ahead = backend, stream, ahead

    def calls(self, matrix: Stored, V: Any, tasks: list[Task]) -> Callable[[], None]:
        lanes = 1 if matrix.C == 1 else 32 // matrix.C
        constants = {"LANES": lanes, "CRS": matrix.C == 1, "AHEAD": self.ahead, "BLOCK": BLOCK}
        arrays = (*pointers("float64", "A"), Field("J", "const int*", "pointer"),
                  Field("S", "const mansard::i64*", "pointer"), *pointers("float64", "X", "Y"))  # fmt: skip
        text = Text(HERE / "rows.cuh", "multiply_rows", "float64", constants, arrays, ("FIRST", "LAST"), BLOCK)
        source = text.source(self.backend.name)
        launches = []
        for power, first, last in tasks:
            blocks = -(-(last - first) * lanes // BLOCK)
            kernel = Kernel(source, Geometry((blocks, 1, 1), BLOCK), (first, last))
            launches.append((self.backend.prepare(kernel), V[power - 1], V[power]))

        def run() -> None:
            for launch, x, y in launches:
                launched(launch, (matrix.values, matrix.columns, matrix.starts, x, y), self.stream())

        return run


def timed_on_cpu(run: Callable[[], None], clock: Callable[[], float], repeats: int = 7) -> list[float]:
    run()
    found = []
    for _ in range(repeats):
        begin = clock()
        run()
        found.append(clock() - begin)
    return found


def measure_on_cpu(out: Path, rows: int, budget: float, threads: int) -> None:
    """Both stencils over p in CRS and with C = 8; a band over sizes in CRS and with every C. One thread is timed by its
    own clock, which other programs disturb less than the time that passes."""
    import mansard.machine.probes_cpu as probes

    from ..masliah.cpu import processor

    kept, device, levels = Rows(out, processor()), OnCpu(threads), {"plain": np.inf, "groups": budget}
    clock, name_of_clock = (time.process_time, "cpu") if threads == 1 else (time.perf_counter, "wall")

    def rate(name: str, matrix: Stored, p: int, which: str) -> None:
        C = matrix.C
        V = np.zeros((p + 1, matrix.rows))
        V[0] = 1
        ranges = groups(matrix, levels[which], p)
        took = timed_on_cpu(device.calls(matrix, V, list(schedule(ranges, p))), clock)
        speed = 2 * p * matrix.nnz / min(took) / 1e9
        kept.add(what="powers", matrix=name, C=C, p=p, execution=which, groups=len(ranges), rows=matrix.rows,
                 nnz=matrix.nnz, threads=threads, clock=name_of_clock, seconds=took, gflops=speed,
                 cache=probes.last_level_cache())  # fmt: skip
        print(f"{name} {matrix.rows} C {C} p {p} {which}: {speed:.2f}", flush=True)

    for name in STENCILS:
        csr = matrices.make(name, rows, "float64", np)
        for matrix in (stored(csr, C, False) for C in (1, 8)):
            for p, which in product(POWERS, levels):
                rate(name, matrix, p, which)
    for bits in range(18, 27):
        csr = matrices.make(RAMPED, (1 << bits) // (_ENTRY * 27), "float64", np)
        for matrix in (stored(csr, C, False) for C in (1, *CHUNKS)):
            for which in levels:
                rate(RAMPED, matrix, 5, which)


class Wanted(NamedTuple):
    """A matrix of an experiment on a GPU: its name, rows and C, and the pairs of p and AHEAD that are measured."""

    name: str
    rows: int
    C: int
    runs: tuple[tuple[int, int], ...]


def stencils(rows: int) -> Iterator[Wanted]:
    """Both stencils over p in three formats; single products with one line of a chunk at a time as well."""
    over_p = (*((p, AHEAD) for p in (1, 2, 3, 5, 8)), (1, 1))
    yield from (Wanted(name, rows, C, over_p) for name in STENCILS for C in (1, 32, 8))


def ramp(sizes: Iterable[int]) -> Iterator[Wanted]:
    """Bands of 2^size bytes in CRS and with every C."""
    for bits in sizes:
        yield from (Wanted(RAMPED, (1 << bits) // (_ENTRY * 27), C, ((5, AHEAD),)) for C in (8, 32, 4, 2, 16, 1))


def prepared(wanted: Wanted) -> Stored:
    """The matrix in the host's memory."""
    return stored(matrices.make(wanted.name, wanted.rows, "float64", np), wanted.C, True)


def measure_on_gpu(out: Path, experiments: list[Wanted], budget: float, end: float) -> None:
    """Products and level groups on this machine's GPU, each as a captured graph, until `end` (of `time.monotonic`).

    Matrices take seconds each to convert, so other processes do it meanwhile.
    """
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(prepared, each) for each in experiments]
        import cupy

        from mansard.backends import cuda

        backend = cuda.backend()
        kept = Rows(out, backend.device.name)
        for each, matrix in zip(experiments, waiting, strict=True):
            if time.monotonic() > end:
                return pool.shutdown(wait=False, cancel_futures=True)
            on_host = matrix.result()
            on_gpu = on_host._replace(**{part: cupy.asarray(getattr(on_host, part))
                                         for part in ("values", "columns", "starts")})  # fmt: skip
            for p, ahead in each.runs:
                device = OnGpu(backend, lambda: cupy.cuda.get_current_stream().ptr, ahead)
                _measure_powers(kept, device, each, on_gpu, p, budget)
            cupy.get_default_memory_pool().free_all_blocks()
    return None


def _measure_powers(kept: Rows, device: OnGpu, each: Wanted, matrix: Stored, p: int, budget: float) -> None:
    """p products and p powers by level groups."""
    import cupy

    V = cupy.zeros((p + 1, matrix.rows))
    V[0] = 1
    for which, room in (("plain", np.inf), ("groups", budget)):
        ranges = groups(matrix, room, p)
        took = seconds(_captured(device.calls(matrix, V, list(schedule(ranges, p)))), 5, 1)
        rate = 2 * p * matrix.nnz / min(took) / 1e9
        kept.add(what="powers", matrix=each.name, C=matrix.C, p=p, execution=which, groups=len(ranges),
                 ahead=device.ahead, rows=matrix.rows, nnz=matrix.nnz, seconds=took, gflops=rate,
                 cache=device.backend.device.l2_bytes)  # fmt: skip
        print(f"{each.name} {matrix.rows} C {matrix.C} p {p} ahead {device.ahead} {which}: {rate:.0f}", flush=True)


def _captured(run: Callable[[], None]) -> Callable[[], None]:
    from mansard.bench.clock import capture_cupy

    return capture_cupy(lambda _: run(), 1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.panzlaff.rows", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="rows are appended to it")
    parser.add_argument("--rows", type=int, default=1 << 20, help="rows of the stencils (default: 2^20)")
    parser.add_argument("--budget", type=float, metavar="MIB", default=24.0,
                        help="MiB that p + 1 level groups may have (default: 24)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="of a GPU: stop after so many (default: 60)")
    given = parser.parse_args(arguments)
    if given.device == "cuda":
        end = time.monotonic() + given.seconds
        every = [*ramp(range(20, 27)), *stencils(given.rows), *ramp((27, 28))]  # the largest last
        measure_on_gpu(given.out, every, given.budget * 2**20, end)
    else:
        threads = int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))
        measure_on_cpu(given.out, given.rows, given.budget * 2**20, threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
