"""The probes' answers on the emulator, their code for real GPUs, and what a calibration makes of them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from played_driver import PlayedBackend

from mansard.backends import cpu, emulated
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.errors import LaunchError
from mansard.machine import (
    calibrate,
    calibrate_cuda,
    calibrate_record,
    calibrate_streams,
    calibrate_waits,
    info,
    machine,
    occupancy,
    probe_kernels,
    probes_cpu,
    probes_cuda,
)
from mansard.machine.measure import Timing
from mansard.machine.probe_kernels import ADDEND, FACTOR, LINE, PROBES, Shape
from mansard.plan import explain

H200 = explain.NOMINAL["sm_90a"]
needs_compiler = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


# --- What a calibration notes ---------------------------------------------------------------------------------


def test_record_keeps_the_best_shape_and_the_failures() -> None:
    record = calibrate_record.Record(2)
    record.add("read", "narrow", Timing((2.0, 2.0, 2.0)), 8.0)
    record.add("read", "wide", Timing((1.0, 1.0, 4.0)), 8.0)

    def broken() -> None:
        raise LaunchError("no")

    record.attempt("copy", "wide", broken)
    assert record.best("read", "read_ring") == 8.0
    assert list(record.details()["probes"]["read"]) == ["wide", "narrow"]  # type: ignore[index]
    assert record.details()["failures"] == {"copy wide": "no"}
    with pytest.raises(LaunchError, match="probe copy ran: no"):
        record.best("copy")


def test_wrong_probe_result_is_no_ceiling() -> None:
    calibrate_record.expect("read", 1.0 + 1e-12, 1.0)
    for wrong in (1.0 + 1e-6, float("nan"), float("inf")):
        with pytest.raises(LaunchError, match="read"):
            calibrate_record.expect("read", wrong, 1.0)


@needs_compiler
def test_cpu_calibration_smoke() -> None:
    seen: list[tuple[str, int, int]] = []
    result = calibrate.calibrate(cpu.backend(), lambda *step: seen.append(step), quick=True)
    assert result.origin.startswith("measured") and "no ceiling" in result.origin
    assert 1e8 < result.read_bandwidth < 1e13
    assert 1e8 < result.copy_bandwidth < 1e13
    assert 1e8 < result.fma["float64"] <= 1.2 * result.fma["float32"] < 1e15
    assert 1e-9 < result.latency_seconds < 1e-4
    assert 1e-8 < result.launch_seconds < 1e-1
    assert [size for size, _ in result.cache_bandwidth] == sorted(size for size, _ in result.cache_bandwidth)
    ramp: Any = result.details["ramp"]
    assert len(ramp["points"]) >= 3 and all(seconds > 0 for _, seconds in ramp["points"])
    assert result.details["quick"] is True and "compiler" in result.details
    assert [done for _, done, _ in seen] == list(range(seen[0][2])), "progress runs from the first step to the last"
    json.dumps(result.details)
    assert not machine.known(cpu.backend().device).details.get("quick"), "a smoke test is never stored"


def test_small_kernels_take_overhead_and_time_in_proportion() -> None:
    line = [(size, 2e-6 + size / 3e12) for size in (1 << 16, 1 << 20, 1 << 24)]
    found = calibrate_streams.fitted([*line, (1 << 26, 1e-3)], 1 << 24)
    assert found["overhead_seconds"] == pytest.approx(2e-6) and found["bandwidth"] == pytest.approx(3e12)
    assert len(found["points"]) == 4
    assert list(calibrate_streams.fitted([(1, 2e-6), (2, 1e-6)], 2)) == ["points"]
    shown = replace(machine.known(H200), details={"ramp": found})
    assert "small kernels           2 us + bytes / 3 TB/s" in info.ceilings_text(shown, full=True)


def test_calibration_refuses_other_backends() -> None:
    with pytest.raises(ValueError, match="emulated"):
        calibrate.calibrate(emulated.backend())


# --- The GPU probes, emulated ---------------------------------------------------------------------------------

COUNT = 4 * 1024 + 512  # doubles: not a whole number of tiles


class Emulated:
    """Runs one probe on arrays."""

    def __init__(self) -> None:
        self.backend = emulated.backend()
        self.result = np.zeros(4096)
        self.x = np.random.default_rng(3).integers(-99, 99, COUNT).astype(np.float64)
        self.y = np.full(COUNT, np.nan)

    def __call__(self, probe: str, shape: Shape, a: float = 1.0, b: float = 0.0, **sizes: int) -> int:
        kernel = probe_kernels.kernel(probe, shape, self.backend.device, **sizes)
        launch = self.backend.prepare(kernel)
        self.result[: kernel.geometry.grid[0] * shape.block] = np.nan if probe not in ("chase", "step") else 0
        launch((self.x.ctypes.data, self.y.ctypes.data, self.result.ctypes.data), (a, b), 0)
        return int(kernel.geometry.grid[0])


@pytest.fixture
def run() -> Emulated:
    return Emulated()


def shape(block: int, per_sm: int = 1, dtype: str = "float64", **constants: int | bool) -> Shape:
    return Shape(block, per_sm, tuple(constants.items()), dtype)


@needs_compiler
@pytest.mark.parametrize("per_sm", [2, 0])
def test_read_probe_sums_everything(run: Emulated, per_sm: int) -> None:
    blocks = run("read", shape(64, per_sm, UNROLL=4, STREAM=per_sm == 2), count=COUNT)
    assert run.result[:blocks].sum() == run.x.sum()


@needs_compiler
def test_ring_read_probe_sums_everything(run: Emulated) -> None:
    blocks = run("read_ring", shape(64, CHUNK=1024, STAGES=3), count=COUNT)
    assert run.result[:blocks].sum() == run.x.sum()


@needs_compiler
@pytest.mark.parametrize("scale", [False, True])
def test_copy_probes(run: Emulated, scale: bool) -> None:
    name, factor = ("scale", 1.5) if scale else ("copy", 1.0)
    run(name, shape(64, 2, UNROLL=4, STREAM=False, SCALE=scale), a=factor, count=COUNT)
    assert (run.y == factor * run.x).all()
    run.y[:] = np.nan
    run(f"{name}_ring", shape(64, CHUNK=1024, STAGES=3, SCALE=scale), a=factor, count=COUNT)
    assert (run.y == factor * run.x).all()


@needs_compiler
@pytest.mark.parametrize(("per_sm", "count"), [(2, COUNT), (0, COUNT), (1, COUNT - 4)])
def test_triad_probe(run: Emulated, per_sm: int, count: int) -> None:
    run("triad", shape(64, per_sm, UNROLL=4, STREAM=per_sm == 2), a=1.5, count=count)
    half = count // 2
    assert (run.y[:half] == run.x[:half] + 1.5 * run.x[half : 2 * half]).all() and np.isnan(run.y[half:]).all()


@needs_compiler
@pytest.mark.parametrize("footprint", [3 * 2 * 32 * 16, COUNT * 8])
def test_cache_probe_sweeps_its_part(run: Emulated, footprint: int) -> None:
    form = shape(64, 2, UNROLL=4)
    count, rounds = probe_kernels.cache_part(form, footprint, 6, total=20 * footprint)
    assert count * 8 <= footprint and rounds % 4 == 0
    blocks = run("cache", form, count=count, repeats=rounds)
    assert run.result[:blocks].sum() == run.x[:count].sum() * (6 * 64 * rounds * 2 / count)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fma_probe_counts(run: Emulated, dtype: str) -> None:
    blocks = run("fma", shape(64, dtype=dtype, CHAINS=4, UNROLL=2), a=1.0, b=0.5, repeats=10)
    start = 4 * (np.arange(64) % 32) + 6
    assert (run.result[: 64 * blocks].reshape(blocks, 64) == start + 4 * 20 * 0.5).all()


@needs_compiler
@pytest.mark.parametrize("kstep", [4, 8, 16])
def test_tensor_probe_counts(run: Emulated, kstep: int) -> None:
    blocks = run("tensor", shape(64, KSTEP=kstep, TILES=2, UNROLL=2, GROUP=False), a=1.0, b=0.5, repeats=3)
    assert (run.result[: 64 * blocks] == 4 * 2 * (3 * 2 * kstep * 0.5)).all()


@needs_compiler
def test_warpgroup_probe_counts(run: Emulated) -> None:
    form = shape(128, dtype="float32", KSTEP=8, TILES=3, UNROLL=2, GROUP=True)
    blocks = run("tensor", form, a=1.0, b=0.5, repeats=3)
    assert (run.result[: 128 * blocks] == 4 * 3 * (3 * 2 * 8 * 0.5)).all()


@needs_compiler
def test_barrier_probe_sees_its_neighbour(run: Emulated) -> None:
    blocks = run("barrier", shape(32), repeats=5)
    assert run.result[:blocks].tolist() == [(block + 1) % blocks + 5 for block in range(blocks)]


@needs_compiler
def test_chase_probe_follows_the_cycle(run: Emulated) -> None:
    (form,) = probe_kernels.shapes("link", run.backend.device)
    form, lines = replace(form, block=32), 256
    run("link", form, count=lines)
    places = run.y.view(np.int64)[: lines * LINE : LINE]
    assert sorted(places) == list(range(lines))
    seen, place = set(), 0
    for _ in range(lines):
        seen.add(place)
        place = int(places[place])
    assert len(seen) == lines, "one cycle through all lines"
    run.x[:] = run.y
    run("chase", form, repeats=7, blocks=1)
    expected = 0
    for _ in range(7):
        expected = (expected * FACTOR + ADDEND) % lines
    assert run.result.view(np.int64)[0] == expected


@needs_compiler
def test_fill_and_step_probes(run: Emulated) -> None:
    blocks = run("fill", shape(64), count=COUNT)
    assert ((run.y >= 0.5) & (run.y < 1.5)).all() and len(np.unique(run.y)) == COUNT
    assert abs(run.y.mean() - 1) < 0.05
    assert run.result[:blocks].sum() == pytest.approx(run.y.sum(), rel=1e-13)
    blocks = run("step", shape(64), a=2.5)
    assert (run.result[: 64 * blocks] == 2.5).all()


# --- The GPU probes, compiled ---------------------------------------------------------------------------------


@needs_nvrtc
def test_probes_compile_without_spills() -> None:
    every = [(probe, form) for probe in PROBES for form in probe_kernels.shapes(probe, H200)]
    tight = [(probe, form) for probe, form in every if probe == "read" or form == probe_kernels.shapes(probe, H200)[0]]
    kernels = [probe_kernels.kernel(probe, form, H200, count=1 << 20) for probe, form in tight]
    with ThreadPoolExecutor(2) as pool:
        logs = list(pool.map(lambda kernel: nvrtc.compile_cuda(kernel.source, "sm_90a").log, kernels))
    for (probe, form), kernel, log in zip(tight, kernels, logs, strict=True):
        found = nvrtc.resources(log)
        assert found.spill_bytes == 0 and found.stack_bytes == 0, (probe, str(form), log)
        assert "warning" not in log, (probe, str(form), log)
        blocks = occupancy.blocks_per_multiprocessor(H200, form.block, found.registers, kernel.geometry.shared_bytes)
        assert blocks >= max(1, form.per_sm), (probe, str(form), found)


def test_older_gpus_get_no_bulk_copies() -> None:
    ampere = explain.NOMINAL["sm_80"]
    assert not probe_kernels.shapes("read_ring", ampere) and not probe_kernels.shapes("copy_ring", ampere)
    assert probe_kernels.shapes("read", ampere) and probe_kernels.shapes("tensor", ampere)


def test_shapes_fit_the_device() -> None:
    for probe, form, kernel in probe_kernels.all_kernels(H200, 1 << 29):
        assert kernel.geometry.shared_bytes <= H200.shared_per_block, (probe, str(form))
        assert form.block * max(1, form.per_sm) <= H200.threads_per_multiprocessor
        assert kernel.geometry.grid[0] * (form.block if probe in ("fma", "tensor") else 1) * 8 <= 4 << 20


# --- All of a GPU's calibration, the driver played by the emulator ---------------------------------------------

SMALL = {
    "read": shape(64, 2, UNROLL=4, STREAM=True),
    "read_ring": shape(64, CHUNK=1024, STAGES=3),
    "copy": shape(64, 2, UNROLL=4, STREAM=False, SCALE=False),
    "copy_ring": shape(64, CHUNK=1024, STAGES=3, SCALE=False),
    "scale": shape(64, 2, UNROLL=4, STREAM=False, SCALE=True),
    "scale_ring": shape(64, CHUNK=1024, STAGES=3, SCALE=True),
    "cache": shape(64, 2, UNROLL=4),
    "fma": shape(64, CHAINS=4, UNROLL=2),
    "tensor": shape(64, KSTEP=4, TILES=2, UNROLL=2, GROUP=False),
    "barrier": shape(32),
    "fill": shape(64),
    "step": shape(64),
    "empty": shape(32),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> PlayedBackend:
    """Probes of one small shape each, few rounds, and no real compiler."""
    original, part = probe_kernels.shapes, probe_kernels.cache_part

    def shapes(probe: str, device: Device) -> tuple[Shape, ...]:
        if probe == "fma":
            return SMALL["fma"], replace(SMALL["fma"], dtype="float32")
        return (SMALL[probe],) if probe in SMALL else tuple(replace(one, block=32) for one in original(probe, device))

    monkeypatch.setattr(probe_kernels, "shapes", shapes)
    monkeypatch.setattr(
        probe_kernels, "cache_part", lambda form, size, blocks, total: part(form, size, blocks, 4 * size)
    )
    monkeypatch.setattr(probes_cuda, "_QUICK_BYTES", 1 << 18)
    monkeypatch.setattr(probes_cuda, "_FLOPS_PER_SM", {"float64": 1e4, "float32": 1e4})
    compiler = SimpleNamespace(compile_cuda=lambda *_: None, version=lambda: "none")
    for module in (calibrate_cuda, probes_cuda):
        monkeypatch.setattr(module, "nvrtc", compiler)
    ramp = calibrate_streams.ramp
    monkeypatch.setattr(calibrate_streams, "ramp", lambda run: ramp(run, 2))
    for name, count in (("latency", 16), ("launches", 2), ("graph", 3), ("barrier", 4)):
        wait = getattr(calibrate_waits, name)
        monkeypatch.setattr(calibrate_waits, name, lambda run, wait=wait, count=count: wait(run, count))
    return PlayedBackend()


@needs_compiler
def test_gpu_calibration_end_to_end(small: PlayedBackend) -> None:
    seen: list[tuple[str, int, int]] = []
    result = calibrate.calibrate(small, lambda *step: seen.append(step), quick=True)
    assert "failures" not in result.details
    assert [done for _, done, _ in seen] == list(range(calibrate_cuda.STEPS))
    rates = (result.read_bandwidth, result.copy_bandwidth, result.scale_bandwidth, *result.fma.values())
    assert all(rate > 0 for rate in (*rates, result.tensor["float64"]))
    assert result.launch_seconds > 0 and result.graph_step_seconds > 0 and result.grid_barrier_seconds > 0
    assert [size for size, _ in result.cache_bandwidth] == [
        int((1 << 16) * s) for s in (0.4, 0.55, 0.7, 0.8, 0.9, 1, 1.15, 1.5, 2)
    ]
    assert result.details["probes"]["triad"] and len(result.details["ramp"]["points"]) >= 3  # type: ignore[index]
    json.dumps(result.details)


@needs_compiler
def test_a_probe_that_computes_wrongly_is_no_ceiling(small: PlayedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    original = probe_kernels.kernel

    def halved(probe: str, form: Shape, device: Device, **sizes: int) -> object:
        if probe == "read_ring":
            sizes["count"] //= 2
        return original(probe, form, device, **sizes)

    monkeypatch.setattr(probe_kernels, "kernel", halved)
    result = calibrate.calibrate(small, quick=True)
    assert list(result.details["failures"]) == [f"read_ring {SMALL['read_ring']}"]  # type: ignore[call-overload]
    assert "read_ring" not in result.details["probes"]  # type: ignore[operator]


@needs_compiler
def test_yardsticks_of_a_gpu(small: PlayedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes_cuda, "_OPERAND_BYTES", 1 << 18)
    held = calibrate.yardsticks(small)
    run, moved = held.runs["read_bandwidth"]
    run()
    assert moved == 1 << 18
    held.close()
    assert held.runs == {}


@needs_compiler
def test_yardsticks_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes_cpu, "operand_bytes", lambda cache: 8 << 20)
    held = calibrate.yardsticks(cpu.backend())
    for run, work in held.runs.values():
        run()
        assert work > 0
    assert set(held.runs) == {"read_bandwidth", "fma"}
    held.close()
