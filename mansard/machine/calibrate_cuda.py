"""A GPU's ceilings: all its probes one after the other, and those that serve as yardsticks beside other work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import byref
from typing import Any

from ..compile import nvrtc
from . import calibrate_streams, calibrate_waits
from . import probe_kernels as kernels
from .calibrate_record import Progress, Record
from .probes_cuda import GpuProbes, Memory, operands

_ATTRIBUTES = {"core_khz": 13, "memory_khz": 36, "bus_bits": 37}
STEPS = 14


def measure_all(backend: Any, progress: Progress | None, quick: bool) -> tuple[Record, dict[str, Any]]:
    """All ceilings of the backend's GPU, as fields of `Machine`."""
    record = Record(STEPS, progress)
    backend.driver.make_current(backend.device.ordinal)
    with operands(backend, quick) as memory:
        run = GpuProbes(backend, record, memory)
        run.compile()
        run.fill()
        run.read()
        run.write("copy")
        run.write("scale")
        calibrate_streams.triad(run)
        run.cache()
        run.arithmetic()
        run.tensor()
        for wait in (calibrate_waits.latency, calibrate_waits.launches, calibrate_waits.graph, calibrate_waits.barrier):
            wait(run)
        calibrate_streams.ramp(run)
    record.notes |= _facts(backend, memory)
    values = {
        "read_bandwidth": record.best("read", "read_ring"),
        "copy_bandwidth": record.best("copy", "copy_ring"),
        "scale_bandwidth": record.best("scale", "scale_ring"),
        "fma": {dtype: record.best(f"fma_{dtype}") for dtype in ("float32", "float64")},
        "tensor": {
            name: record.best(f"tensor_{dtype}")
            for name, dtype in (("float64", "float64"), ("tf32", "float32"))
            if f"tensor_{dtype}" in record.results
        },
        "cache_bandwidth": run.cache_curve,
        "launch_seconds": record.seconds("launch"),
        "graph_step_seconds": record.seconds("graph_step"),
        "grid_barrier_seconds": record.seconds("grid_barrier"),
        "latency_seconds": record.seconds("latency"),
    }
    return record, values


def yardsticks(
    backend: Any, winner: tuple[str, str], copy: tuple[str, str] | None, held: ExitStack
) -> dict[str, tuple[Callable[[], None], float]]:
    """Read bandwidth, copies if asked for: what `calibrate.Yardsticks` holds."""
    backend.driver.make_current(backend.device.ordinal)
    memory = held.enter_context(operands(backend, quick=False, arrays=2 if copy else 1))
    run = GpuProbes(backend, Record(2), memory)
    run.fill()

    def prepared(chosen: tuple[str, str]) -> Any:
        probe, name = chosen
        shapes = {str(shape): shape for shape in kernels.shapes(probe, run.device)}
        return run.prepare(probe, shapes.get(name), count=memory.count)[0]

    found = {"read_bandwidth": (run.call(prepared(winner), x=memory.x), float(memory.bytes))}
    if copy:
        both = {"x": memory.x, "y": memory.y}
        found["copy_bandwidth"] = run.call(prepared(copy), **both), 2.0 * memory.bytes
    return found


def _facts(backend: Any, memory: Memory) -> dict[str, object]:
    """Facts that the measured ceilings depend on: operand size, driver, compiler, architecture, clocks."""
    facts: dict[str, object] = {
        "operand_bytes": memory.bytes,
        "driver": backend.driver.version(),
        "compiler": f"NVRTC {nvrtc.version()}",
        "arch": backend.device.arch,
    }
    for name, attribute in _ATTRIBUTES.items():
        value = ctypes.c_int()
        if backend.driver.lib.cuDeviceGetAttribute(byref(value), attribute, backend.device.ordinal) == 0:
            facts[name] = value.value
    return facts
