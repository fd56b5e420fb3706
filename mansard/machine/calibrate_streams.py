"""The rest of the stream set, and how small kernels gain speed: y = a x over more and more bytes, one kernel behind the
other, and the line that fits the times, overhead + bytes / bandwidth (equation 4.12 of Panzlaff, "Matrix Power Kernels
on GPUs")."""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p
from pathlib import Path
from typing import Any

from .calibrate_record import Record, expect
from .calibrate_waits import capture, each
from .measure import Timing, measure
from .probe_kernels import GRANULE, RAMP, Shape, shapes
from .probes_cpu import CpuProbes
from .probes_cuda import GpuProbes
from .spmv import fit_overhead

_SMALLEST = 1 << 16  # bytes read and written
_FACTOR = 1.5


def triad(run: GpuProbes) -> None:
    """y = x + a x' with the two halves of x, on a GPU: all three streams count."""
    run.record.step("triad bandwidth")
    for shape in shapes("triad", run.device):
        run.record.attempt("triad", str(shape), _triad, run, shape)


def _triad(run: GpuProbes, shape: Shape) -> None:
    memory = run.memory
    launch, _ = run.prepare("triad", shape, count=memory.count)
    memory.clear(memory.y, memory.bytes // 2)
    timing = run.time(run.call(launch, x=memory.x, y=memory.y, a=_FACTOR))
    first = run.sum_of(memory.x, memory.count // 2)
    expect("triad", run.sum_of(memory.y, memory.count // 2), first + _FACTOR * (run.total - first))
    run.record.add("triad", str(shape), timing, 3 * memory.bytes // 2)


def ramp(run: GpuProbes, steps: int = 100) -> None:
    """On a GPU: the kernels of a graph, all on the same operands, which stay in the L2 cache."""
    run.record.step("small kernels")
    lib, check, stream = run.driver.lib, run.driver.check, c_void_p()
    check(lib.cuStreamCreate(byref(stream), c_uint(1)), "cuStreamCreate")
    points = []
    for size in _sizes(min(run.device.l2_bytes, run.memory.bytes)):
        launch, _ = run.prepare("scale", RAMP, count=size // 16)
        run.memory.clear(run.memory.y, size // 2)
        run.backend.synchronize()
        call = run.call(launch, x=run.memory.x, y=run.memory.y, a=_FACTOR, stream=stream.value or 0)
        captured, executable = capture(run, stream, call, steps)
        timing = measure(lambda graph=executable: check(lib.cuGraphLaunch(graph, stream), "cuGraphLaunch"),  # type: ignore[misc]
                         run.backend, repeats=7, warmup=2, stream=stream.value or 0)  # fmt: skip
        wanted = _FACTOR * run.sum_of(run.memory.x, size // 16)
        expect("ramp", run.sum_of(run.memory.y, size // 16), wanted)
        points.append((size, _noted(run.record, size, each(timing, steps))))
        lib.cuGraphExecDestroy(executable)
        lib.cuGraphDestroy(captured)
    lib.cuStreamDestroy_v2(stream)
    run.record.notes["ramp"] = fitted(points, run.device.l2_bytes // 2)


def ramp_cpu(run: CpuProbes) -> None:
    """On a CPU: calls whose operands stay in the cores' own caches."""
    run.record.step("small kernels")
    points = []
    for size in _sizes(min(run.threads * cache_bytes(2), run.bytes), 16 * GRANULE):
        call = run.call("scale", a=_FACTOR, count=size // 16)
        call()
        expect("ramp", run.sum_of(run.y, size // 16), _FACTOR * run.sum_of(run.x, size // 16))
        timing = measure(call, run.backend, repeats=run.few(15), inner=2 if run.quick else 20)
        points.append((size, _noted(run.record, size, timing)))
    run.record.notes["ramp"] = fitted(points, points[-1][0] // 2)  # x and y fill the caches at the last


def cache_bytes(level: int) -> int:
    """Bytes of the data cache of this level that the first core has; 1 MiB where the system names none."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if int((index / "level").read_text()) == level and (index / "type").read_text().strip() != "Instruction":
                text = (index / "size").read_text().strip()
                return int(text.rstrip("KM")) << (20 if text.endswith("M") else 10)
        except (OSError, ValueError):
            continue
    return 1 << 20


def _sizes(most: int, least: int = _SMALLEST) -> list[int]:
    sizes = [least]
    while 2 * sizes[-1] <= most or len(sizes) < 3:
        sizes.append(2 * sizes[-1])
    return sizes


def _noted(record: Record, size: int, timing: Timing) -> float:
    name = f"ramp {size >> 10} KiB"
    record.add(name, "scale", timing, float(size))
    return size / record.best(name)


def fitted(points: list[tuple[int, float]], most: int) -> dict[str, Any]:
    """Overhead and bandwidth of the sizes that stay in the cache, beside all points; without them where times do not
    grow with the size."""
    inside = [point for point in points if point[0] <= most]
    inside = inside if len(inside) > 1 else points
    found: dict[str, Any] = {"points": [list(point) for point in points]}
    try:
        overhead, rate = fit_overhead(*zip(*inside, strict=True))
    except ValueError:
        return found
    return {"overhead_seconds": overhead, "bandwidth": rate, **found}
