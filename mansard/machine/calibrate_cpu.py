"""A CPU's ceilings: the loops of probes.hpp on all threads, checked, then timed by the clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..compile import cxx
from ..tune.measure import Timing, measure
from . import calibrate_streams
from .calibrate import Progress, Record, expect
from .probe_kernels import ADDEND, FACTOR, GRANULE, cpu_kernel

_SMALLEST = 256 << 20
_QUICK_BYTES = 8 << 20
_PLAIN, _PAST = "through the caches", "past the caches"
_READ_SHAPES = ("one stream", "2 streams", "4 streams", "one stream, prefetched", "4 streams, prefetched")
_WRITE_SHAPES = {"copy": (_PLAIN, _PAST, "memcpy"), "scale": (_PLAIN, _PAST), "triad": (_PLAIN, _PAST),
                 "fill": (_PLAIN, _PAST)}  # fmt: skip
_FLOPS_PER_ROUND = 2 * 12 * 16  # of one lane in multiply_add
STEPS = 10


def measure_all(backend: Any, progress: Progress | None, quick: bool) -> tuple[Record, dict[str, Any]]:
    """All ceilings of this machine, as fields of `Machine`."""
    record = Record(STEPS, progress, fastest=True)
    run = CpuProbes(backend, record, quick)
    run.touch()
    run.read()
    for kind in _WRITE_SHAPES:
        run.write(kind)
    run.arithmetic()
    run.caches()
    run.waits()
    calibrate_streams.ramp_cpu(run)
    record.notes |= run.facts()
    return record, {
        "read_bandwidth": record.best("read", "dot"),
        "copy_bandwidth": record.best("copy"),
        "scale_bandwidth": record.best("scale"),
        "fma": {"float32": record.best("fma_float32"), "float64": record.best("fma_float64")},
        "cache_bandwidth": run.cache_curve,
        "launch_seconds": record.seconds("launch"),
        "graph_step_seconds": record.seconds("launch"),
        "grid_barrier_seconds": record.seconds("fork"),
        "latency_seconds": record.seconds("latency"),
    }


def yardsticks(
    backend: Any, winner: tuple[str, str], copy: tuple[str, str] | None, held: ExitStack
) -> dict[str, tuple[Callable[[], None], float]]:
    """Read bandwidth and multiply-add rate, copies if asked for: what `calibrate.Yardsticks` holds."""
    run = CpuProbes(backend, Record(2), quick=False)
    run.touch()
    if winner[0] == "dot":
        read, moved = run.call("dot"), 2 * run.bytes
    else:
        read, moved = run.call("read", shape=_READ_SHAPES.index(winner[1]) if winner[1] else 0), run.bytes
    held.callback(run.release)
    # as long as a call that it is compared with: what disturbs one disturbs the other
    found = {"read_bandwidth": (read, moved), "fma": run.fma("fma64", 8, rounds=100_000)}
    if copy:
        shape = _WRITE_SHAPES["copy"].index(copy[1]) if copy[1] else 0
        found["copy_bandwidth"] = run.call("copy", shape=shape), 2 * run.bytes
    return found


class CpuProbes:
    """Runs the probes one group at a time."""

    def __init__(self, backend: Any, record: Record, quick: bool) -> None:
        self.backend, self.record, self.quick = backend, record, quick
        self.threads: int = backend.device.multiprocessors
        self.last_cache = last_level_cache()
        self.bytes = _QUICK_BYTES if quick else operand_bytes(self.last_cache)
        self.count = self.bytes // 8
        self.x, self.y = (_untouched(self.count) for _ in range(2))
        self.result = np.zeros(2)  # the probe's answer, and the slowest thread's own seconds
        self.total = 0.0  # of x
        self.cache_curve: tuple[tuple[int, float], ...] = ()

    # --- Tools -------------------------------------------------------------------------------------------------

    def call(
        self, probe: str, a: float = 1.0, b: float = 0.0, x: Any = None, y: Any = None, **sizes: int
    ) -> Callable[[], None]:
        """A launch of the probe on x and y, or on the arrays given."""
        launch = self.backend.prepare(cpu_kernel(probe, self.threads, **({"count": self.count} | sizes)))
        operands = (self.x if x is None else x, self.y if y is None else y, self.result)
        pointers = tuple(array.ctypes.data for array in operands)
        return lambda: launch(pointers, (a, b), 0)

    def best_of(self, probe: str, shapes: tuple[str, ...], work: float, prepare: Callable[[int], Callable[[], None]],
                check: Callable[[], None], samples: int = 5) -> None:  # fmt: skip
        """Every shape is checked and timed twice, the fastest then `samples` times more: its median counts."""
        found: dict[int, tuple[float, ...]] = {}
        for shape in range(len(shapes)):
            run = prepare(shape)
            run()
            check()
            found[shape] = measure(run, self.backend, repeats=2, warmup=0).seconds
        fastest = min(found, key=lambda shape: min(found[shape]))
        found[fastest] += measure(prepare(fastest), self.backend, repeats=self.few(samples), warmup=0).seconds
        for shape, seconds in found.items():
            self.record.add(probe, shapes[shape], Timing(seconds), work)

    def threads_time(self, run: Callable[[], None], samples: int) -> Timing:
        """The slowest thread's own time, for work that stays in a core: no one waits for a core that others use."""
        seconds = []
        for _ in range(samples + 1):
            run()
            seconds.append(float(self.result[1]))
        return Timing(tuple(seconds[1:]))

    def few(self, samples: int) -> int:
        return 2 if self.quick else samples

    def sum_of(self, array: Any, count: int) -> float:
        self.call("read", x=array, count=count)()
        return float(self.result[0])

    # --- Memory ------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        self.record.step("compiling probes, random operands")
        for array in (self.y, self.x):
            self.call("touch", y=array)()
        self.total = float(self.result[0])

    def read(self) -> None:
        self.record.step("read bandwidth")
        part = 8 * GRANULE
        self.call("dot", count=part)()
        expect("dot", float(self.result[0]), float(np.einsum("i,i->", self.x[:part], self.y[:part])))

        def is_second_moment() -> None:  # y equals x; numbers even in [0.5, 1.5) have mean 1 and mean square 13/12
            expect("dot", float(self.result[0]), self.total * 13 / 12, 1e-2)

        def is_total() -> None:
            expect("read", float(self.result[0]), self.total)

        self.best_of("read", _READ_SHAPES, self.bytes, lambda shape: self.call("read", shape=shape), is_total)
        self.best_of("dot", ("two arrays",), 2 * self.bytes, lambda shape: self.call("dot"), is_second_moment)

    def write(self, kind: str) -> None:
        """Bytes read and bytes written both count; a line fetched only to be overwritten does not."""
        self.record.step(f"{kind} bandwidth")
        count = self.count // 2 if kind == "triad" else self.count
        moved = {"copy": 2, "scale": 2, "triad": 3, "fill": 1}[kind] * 8 * count
        factor = 1.0 if kind == "copy" else 1.5
        wanted = {"triad": self._triad_sum(factor), "fill": count * factor}.get(kind, self.total * factor)

        def prepare(shape: int) -> Callable[[], None]:
            self.y[:: GRANULE // 4] = -1.0  # what is not written over shows in the sum
            return self.call(kind, a=factor, shape=shape)

        def check() -> None:
            expect(kind, self.sum_of(self.y, count), wanted)

        self.best_of(kind, _WRITE_SHAPES[kind], moved, prepare, check, samples=5 if kind in ("copy", "scale") else 2)

    def _triad_sum(self, factor: float) -> float:
        first = self.sum_of(self.x, self.count // 2)
        return first + factor * (self.total - first)

    def caches(self) -> None:
        """Reads by footprint, all threads' parts together: from the first-level caches to memory."""
        self.record.step("cache bandwidth")
        curve, total = [], (2 if self.quick else 64) << 20
        for footprint in _footprints(self.threads, self.bytes):
            count = footprint // 8
            sweeps = max(1, total // footprint)
            sweep = self.call("cache", count=count, repeats=sweeps)
            private = footprint <= self.threads << 20
            timing = (
                self.threads_time(sweep, self.few(9))
                if private
                else measure(sweep, self.backend, repeats=self.few(7), warmup=1)
            )
            got = float(self.result[0])
            expect("cache", got, self.sum_of(self.x, count) * sweeps)
            name = f"{footprint >> 10} KiB"
            self.record.add(f"cache {name}", "all threads", timing, 8 * count * sweeps)
            curve.append((footprint, self.record.best(f"cache {name}")))
        self.cache_curve = tuple(curve)

    # --- Arithmetic and waiting --------------------------------------------------------------------------------

    def arithmetic(self) -> None:
        self.record.step("multiply-add rate")
        for dtype, probe, size in (("float64", "fma64", 8), ("float32", "fma32", 4)):
            lanes = self.backend.device.vector_bytes // size * self.threads
            self.call(probe, a=1.0, repeats=4)()
            expect(probe, float(self.result[0]), lanes * 66 * 2.0**64)
            timed, flops = self.fma(probe, size, 1_000 if self.quick else 10_000)  # shorter than a time slice
            self.record.add(f"fma_{dtype}", "12 chains", self.threads_time(timed, self.few(25)), flops)

    def fma(self, probe: str, size: int, rounds: int) -> tuple[Callable[[], None], float]:
        """A run of multiply-adds and its flops; 10 000 rounds take a millisecond or two."""
        lanes = self.backend.device.vector_bytes // size * self.threads
        return self.call(probe, a=-2.0, repeats=rounds), float(_FLOPS_PER_ROUND) * lanes * rounds

    def release(self) -> None:
        self.x = self.y = np.zeros(0)

    def waits(self) -> None:
        """Latency of memory, of a parallel region, and of a call through Python."""
        self.record.step("latencies")
        lines = 1 << (self.count // 8).bit_length() - 1
        self.call("link", count=8 * lines)()
        self.result[0], place, steps = 0, 0, 2_000 if self.quick else 20_000
        timing = measure(self.call("chase", x=self.y, repeats=steps), self.backend, repeats=9, warmup=1)
        for _ in range(10 * steps):
            place = (place * FACTOR + ADDEND) % lines
        expect("chase", float(self.result[0]) + 1, place + 1)
        self.record.add("latency", f"{8 * lines >> 17} MiB", Timing(tuple(t / steps for t in timing.seconds)))
        regions = 10 if self.quick else 500
        fork = measure(self.call("fork", repeats=regions), self.backend, repeats=self.few(9), warmup=1)
        self.record.add("fork", f"{self.threads} threads", Timing(tuple(t / regions for t in fork.seconds)))
        call = self.call("fork", repeats=1)
        launch = measure(call, self.backend, repeats=self.few(7), inner=10 if self.quick else 200)
        self.record.add("launch", "call and parallel region", launch)

    def facts(self) -> dict[str, object]:
        beyond = self.bytes >= 2 * self.last_cache
        return {
            "operand_bytes": self.bytes,
            "last_level_cache_bytes": self.last_cache,
            "served_by": "memory" if beyond else "partly the last-level cache: operands are below twice its size",
            "threads": self.threads,
            "compiler": cxx.find_compiler()[1],
            "vector_bytes": self.backend.device.vector_bytes,
            "clocks_mhz": _clock(),
        }


def last_level_cache() -> int:
    """Bytes of the largest cache the system names; 32 MiB where it names none."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text.rstrip("KM")) << (20 if text.endswith("M") else 10))
    return max(sizes, default=32 << 20)


def operand_bytes(cache: int) -> int:
    """Twice the last-level cache at least, as far as a quarter of the free memory allows."""
    wanted = max(_SMALLEST, -(-2 * cache // (64 << 20)) * (64 << 20))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        free = 4 << 30
    return max(_QUICK_BYTES, min(wanted, free // 4)) // (8 * GRANULE) * 8 * GRANULE


def _untouched(count: int) -> Any:
    """Allocate doubles on untouched pages: each page is placed near the first thread that writes to it."""
    raw = np.empty(8 * count + 4096, np.uint8)
    offset = -raw.ctypes.data % 4096
    return raw[offset : offset + 8 * count].view(np.float64)


def _footprints(threads: int, largest: int) -> list[int]:
    """16 KiB to 64 MiB per thread, in steps of two, and what memory serves."""
    sizes = [threads << power for power in range(14, 27)]
    return [size for size in sizes if size < largest] + [largest]


def _clock() -> float | None:
    """The clock of the first core right now, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")), None)
