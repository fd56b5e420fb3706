"""A CPU's ceilings: all its probes one after the other, and those that serve as yardsticks beside other work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from . import calibrate_streams
from .calibrate_record import Progress, Record
from .probes_cpu import READ_SHAPES, WRITE_SHAPES, CpuProbes

STEPS = 10


def measure_all(backend: Any, progress: Progress | None, quick: bool) -> tuple[Record, dict[str, Any]]:
    """All ceilings of this machine, as fields of `Machine`."""
    record = Record(STEPS, progress, fastest=True)
    run = CpuProbes(backend, record, quick)
    run.touch()
    run.read()
    for kind in WRITE_SHAPES:
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
        read, moved = run.call("read", shape=READ_SHAPES.index(winner[1]) if winner[1] else 0), run.bytes
    held.callback(run.release)
    # as long as a call that it is compared with: what disturbs one disturbs the other
    found = {"read_bandwidth": (read, moved), "fma": run.fma("fma64", 8, rounds=100_000)}
    if copy:
        shape = WRITE_SHAPES["copy"].index(copy[1]) if copy[1] else 0
        found["copy_bandwidth"] = run.call("copy", shape=shape), 2 * run.bytes
    return found
