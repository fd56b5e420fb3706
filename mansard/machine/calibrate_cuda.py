"""A GPU's ceilings: the kernels of probes.cuh in several shapes, checked, then timed by device events.

Memory comes from the driver and is filled by a kernel, so that neither CuPy nor PyTorch is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from ctypes import byref, c_size_t, c_uint, c_void_p
from typing import Any

import numpy as np

from .. import settings
from ..compile import nvrtc
from ..errors import LaunchError
from ..tune.measure import Timing, measure
from . import calibrate_streams, calibrate_waits
from . import probe_kernels as kernels
from .calibrate import Progress, Record, expect
from .probe_kernels import GRANULE, Shape

_OPERAND_BYTES = 4 << 30  # long enough that a launch is below half a per cent of its run
_QUICK_BYTES = 64 << 20
_RESULT_BYTES = 4 << 20
_FLOPS_PER_SM = {"float64": 5e8, "float32": 1e9}
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


class Memory:
    """Operands and a page of results on the device."""

    def __init__(self, driver: Any, size: int, arrays: int) -> None:
        self.driver, self.bytes, self.count, self._held = driver, size, size // 8, []
        try:
            for piece in (_RESULT_BYTES, *(size,) * arrays):
                self._held.append(driver.allocate(piece))
        except LaunchError:
            self.free()
            raise
        self.result, self.x, self.y = self._held[0], self._held[1], self._held[-1]

    def results(self, count: int) -> Any:
        """The first `count` doubles of the results, once the device is done."""
        values = np.empty(count)
        to, size = values.ctypes.data_as(c_void_p), c_size_t(values.nbytes)
        status = self.driver.lib.cuMemcpyDtoH_v2(to, c_void_p(self.result), size)
        self.driver.check(status, "a probe's result")
        return values

    def clear(self, address: int, size: int) -> None:
        self.driver.check(self.driver.lib.cuMemsetD8_v2(c_void_p(address), 0, c_size_t(size)), "cuMemsetD8")

    def free(self) -> None:
        for address in self._held:
            self.driver.lib.cuMemFree_v2(c_void_p(address))


@contextmanager
def operands(backend: Any, quick: bool, arrays: int = 2) -> Iterator[Memory]:
    """Operands far larger than the L2 cache, smaller where the card is nearly full."""
    free, total = c_size_t(), c_size_t()
    backend.driver.check(backend.driver.lib.cuMemGetInfo_v2(byref(free), byref(total)), "cuMemGetInfo")
    size = min(_QUICK_BYTES if quick else _OPERAND_BYTES, free.value // 3) // (8 * GRANULE) * 8 * GRANULE
    if size < 4 * backend.device.l2_bytes and not quick:
        raise LaunchError(f"{free.value >> 20} MiB of free GPU memory are too few to measure beyond the L2 cache")
    memory = Memory(backend.driver, 1 << (size.bit_length() - 1), arrays)
    try:
        yield memory
    finally:
        with suppress(LaunchError):  # a failure is already on its way to the caller
            backend.synchronize()
        memory.free()


class GpuProbes:
    """Runs the probes one group at a time."""

    def __init__(self, backend: Any, record: Record, memory: Memory) -> None:
        self.backend, self.device, self.driver = backend, backend.device, backend.driver
        self.record, self.memory = record, memory
        self.total = 0.0  # of x
        self.cache_curve: tuple[tuple[int, float], ...] = ()

    # --- Tools -------------------------------------------------------------------------------------------------

    def prepare(self, probe: str, shape: Shape | None = None, **sizes: int) -> tuple[Any, int]:
        """A launch of the probe, and the number of its blocks."""
        kernel = kernels.kernel(probe, shape or kernels.shapes(probe, self.device)[0], self.device, **sizes)
        return self.backend.prepare(kernel), kernel.geometry.grid[0]

    def call(
        self, launch: Any, x: int = 0, y: int = 0, a: float = 1.0, b: float = 0.0, stream: int = 0
    ) -> Callable[[], None]:
        pointers, scalars = (x, y, self.memory.result), (a, b)
        return lambda: launch(pointers, scalars, stream)

    def time(self, run: Callable[[], None], repeats: int = 7, inner: int = 3) -> Timing:
        return measure(run, self.backend, repeats=repeats, inner=inner, warmup=1)

    def sum_of(self, address: int, count: int) -> float:
        """The sum of `count` doubles on the device."""
        launch, blocks = self.prepare("read", count=count)
        self.call(launch, x=address)()
        self.backend.synchronize()
        return float(self.memory.results(blocks).sum())

    def compile(self) -> None:
        """All kernels, side by side: the compiler releases the interpreter."""
        self.record.step("compiling probes")
        sources = [kernel.source for _, _, kernel in kernels.all_kernels(self.device, self.memory.count)]
        with ThreadPoolExecutor(max(1, min(16, settings.current().threads))) as pool:
            for _ in pool.map(lambda source: nvrtc.compile_cuda(source, self.device.arch), sources):
                pass

    # --- Memory ------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        self.record.step("random operands")
        launch, blocks = self.prepare("fill", count=self.memory.count)
        self.call(launch, y=self.memory.x)()
        self.backend.synchronize()
        self.total = float(self.memory.results(blocks).sum())

    def read(self) -> None:
        self.record.step("read bandwidth")
        for probe in ("read", "read_ring"):
            for shape in kernels.shapes(probe, self.device):
                self.record.attempt(probe, str(shape), self._read, probe, shape)

    def _read(self, probe: str, shape: Shape) -> None:
        launch, blocks = self.prepare(probe, shape, count=self.memory.count)
        self.memory.clear(self.memory.result, 8 * blocks)
        timing = self.time(self.call(launch, x=self.memory.x))
        expect(probe, float(self.memory.results(blocks).sum()), self.total)
        self.record.add(probe, str(shape), timing, self.memory.bytes)

    def write(self, kind: str) -> None:
        """`copy` and `scale`: bytes read and bytes written both count."""
        self.record.step(f"{kind} bandwidth")
        for probe in (kind, f"{kind}_ring"):
            for shape in kernels.shapes(probe, self.device):
                self.record.attempt(probe, str(shape), self._write, probe, shape)

    def _write(self, probe: str, shape: Shape) -> None:
        memory, factor = self.memory, 1.0 if probe.startswith("copy") else 1.5
        launch, _ = self.prepare(probe, shape, count=memory.count)
        memory.clear(memory.y, memory.bytes)
        timing = self.time(self.call(launch, x=memory.x, y=memory.y, a=factor))
        expect(probe, self.sum_of(memory.y, memory.count), factor * self.total)
        self.record.add(probe, str(shape), timing, 2 * memory.bytes)

    def cache(self) -> None:
        """Bandwidth by footprint: at each the better of two shapes."""
        self.record.step("L2 bandwidth")
        curve = []
        for footprint in kernels.cache_footprints(self.device.l2_bytes):
            if footprint > self.memory.bytes:
                continue
            name = f"L2 {footprint / (1 << 20):.4g} MiB"
            for shape in kernels.shapes("cache", self.device):
                self.record.attempt(name, str(shape), self._cache, footprint, name, shape)
            curve.append((footprint, self.record.best(name)))
        self.cache_curve = tuple(curve)

    def _cache(self, footprint: int, name: str, shape: Shape) -> None:
        grid = shape.per_sm * self.device.multiprocessors
        count, rounds = kernels.cache_part(shape, footprint, grid, total=1 << 30)
        moved = 16 * grid * shape.block * rounds
        once = self.sum_of(self.memory.x, count)
        launch, blocks = self.prepare("cache", shape, count=count, repeats=rounds)
        timing = self.time(self.call(launch, x=self.memory.x), repeats=5, inner=1)
        expect(name, float(self.memory.results(blocks).sum()), once * (moved / (8 * count)))
        self.record.add(name, str(shape), timing, moved)

    # --- Arithmetic --------------------------------------------------------------------------------------------

    def arithmetic(self) -> None:
        self.record.step("multiply-add rate")
        for shape in kernels.shapes("fma", self.device):
            constants = dict(shape.constants)
            per_round = constants["CHAINS"] * constants["UNROLL"]
            rounds = int(_FLOPS_PER_SM[shape.dtype] / (2 * per_round * shape.block * shape.per_sm))
            lanes, chains = np.arange(shape.block) % 32, constants["CHAINS"]
            start = chains * lanes + chains * (chains - 1) / 2  # what a thread begins with
            exact = start + chains * (rounds * constants["UNROLL"] * 0.5)
            flops = 2 * per_round * shape.block
            self.record.attempt(f"fma_{shape.dtype}", str(shape), self._arithmetic, "fma", shape, rounds, flops, exact)
        self.record.notes["clocks_mhz_busy"] = _clocks(self.driver, self.device.ordinal)

    def tensor(self) -> None:
        self.record.step("tensor core rate")
        for shape in kernels.shapes("tensor", self.device):
            constants = dict(shape.constants)
            tiles = constants["TILES"] * constants["UNROLL"]
            flops = 2 * 16 * 8 * constants["KSTEP"] * tiles * shape.block // 32  # of a block and round
            rounds = int(2 * _FLOPS_PER_SM[shape.dtype] / flops)
            entry = rounds * constants["UNROLL"] * constants["KSTEP"] * 0.5
            exact = np.full(shape.block, 4 * constants["TILES"] * entry)
            name = f"tensor_{shape.dtype}"
            self.record.attempt(name, str(shape), self._arithmetic, "tensor", shape, rounds, flops, exact)

    def _arithmetic(self, probe: str, shape: Shape, rounds: int, flops: int, exact: Any) -> None:
        """Checked with numbers whose result is exact, timed with numbers whose bits are all in use."""
        launch, blocks = self.prepare(probe, shape, repeats=rounds)
        self.call(launch, a=1.0, b=0.5)()
        self.backend.synchronize()
        got = self.memory.results(blocks * shape.block).reshape(blocks, shape.block)
        expect(probe, float(np.abs(got - exact).max() + 1), 1.0)
        timing = self.time(self.call(launch, a=0.98765, b=0.12345), repeats=5, inner=2)
        self.record.add(f"{probe}_{shape.dtype}", str(shape), timing, float(flops) * rounds * blocks)


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


def _clocks(driver: Any, ordinal: int) -> dict[str, int]:
    """Clocks of cores and memory right now, in MHz, where NVML can tell."""
    clocks: dict[str, int] = {}
    with suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        bus, handle, value = ctypes.create_string_buffer(32), c_void_p(), c_uint()
        driver.lib.cuDeviceGetPCIBusId(bus, 32, ordinal)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, byref(handle)) == 0:
            for name, kind in (("core", 1), ("memory", 2)):
                if nvml.nvmlDeviceGetClockInfo(handle, kind, byref(value)) == 0:
                    clocks[name] = value.value
            nvml.nvmlShutdown()
    return clocks
