"""Probes of the fixed costs of a GPU: memory latency, launches, graph steps, grid barriers."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import byref, c_uint, c_void_p
from typing import Any

import numpy as np

from .calibrate_record import expect
from .measure import Timing, measure
from .probe_kernels import ADDEND, FACTOR, LINE
from .probes_cuda import GpuProbes

_RELAXED = 2  # capture mode: other threads may go on using the driver


class Counted:
    """A call that knows how often it was made, so that a result which depends on that can be checked."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.count = call, 0

    def __call__(self) -> None:
        self.count += 1
        self.call()


def latency(run: GpuProbes, steps: int = 4096) -> None:
    """A chain of dependent loads over lines that no earlier launch has touched."""
    run.record.step("memory latency")
    lines = run.memory.count // LINE
    run.call(run.prepare("link", count=lines)[0], y=run.memory.y)()
    run.memory.clear(run.memory.result, 8)
    chase = Counted(run.call(run.prepare("chase", repeats=steps, blocks=1)[0], x=run.memory.y))
    timing = run.time(chase, repeats=5, inner=1)
    place = 0
    for _ in range(chase.count * steps):
        place = (place * FACTOR + ADDEND) % lines
    expect("chase", float(run.memory.results(1).view(np.int64)[0] + 1), place + 1)
    run.record.add("latency", f"{steps} lines", each(timing, steps))


def launches(run: GpuProbes, count: int = 1000) -> None:
    """Launches back to back as a caller sees them: through a prepared launch, and the bare driver call."""
    run.record.step("launch cost")
    launch, _ = run.prepare("empty", blocks=1)
    run.record.add("launch", "prepared launch", _host_time(run, run.call(launch), count))
    buffer = ctypes.create_string_buffer(launch.kernel.source.packing.size)
    parameters = (c_void_p * 1)(ctypes.addressof(buffer))
    grid_and_block = map(c_uint, (1, 1, 1, launch.kernel.geometry.block, 1, 1, 0))
    arguments = (launch.function, *grid_and_block, c_void_p(0), parameters, None)
    bare = _host_time(run, lambda: run.driver.lib.cuLaunchKernel(*arguments), count)
    run.record.notes["launch_seconds_driver_call"] = bare.median


def graph(run: GpuProbes, steps: int = 200) -> None:
    """A chain of small dependent kernels, captured once and launched as one graph."""
    run.record.step("graph step")
    lib, check, stream = run.driver.lib, run.driver.check, c_void_p()
    launch, blocks = run.prepare("step")
    threads = blocks * launch.kernel.geometry.block
    check(lib.cuStreamCreate(byref(stream), c_uint(1)), "cuStreamCreate")
    run.memory.clear(run.memory.result, 8 * threads)
    run.backend.synchronize()
    step = run.call(launch, stream=stream.value or 0)
    captured, executable = capture(run, stream, step, steps)
    replay = Counted(lambda: check(lib.cuGraphLaunch(executable, stream), "cuGraphLaunch"))
    timing = measure(replay, run.backend, repeats=7, warmup=2, stream=stream.value or 0)
    expect("step", float(run.memory.results(threads).sum()), threads * (1.0 + replay.count * steps))
    run.record.add("graph_step", f"{steps} kernels", each(timing, steps))
    lib.cuGraphExecDestroy(executable)
    lib.cuGraphDestroy(captured)
    lib.cuStreamDestroy_v2(stream)


def capture(run: GpuProbes, stream: c_void_p, step: Callable[[], None], steps: int) -> tuple[c_void_p, c_void_p]:
    """The graph of `steps` calls, and its executable form; one call is made outside it first."""
    lib, check, captured, executable = run.driver.lib, run.driver.check, c_void_p(), c_void_p()
    step()
    check(lib.cuStreamBeginCapture_v2(stream, _RELAXED), "cuStreamBeginCapture")
    for _ in range(steps):
        step()
    check(lib.cuStreamEndCapture(stream, byref(captured)), "cuStreamEndCapture")
    check(lib.cuGraphInstantiateWithFlags(byref(executable), captured, ctypes.c_ulonglong(0)), "cuGraphInstantiate")
    return captured, executable


def barrier(run: GpuProbes, rounds: int = 1000) -> None:
    """The slope between few and many barriers: the launch itself drops out."""
    run.record.step("grid barrier")
    few, blocks = run.prepare("barrier", repeats=0)
    many, _ = run.prepare("barrier", repeats=rounds)
    base = run.time(run.call(few, y=run.memory.y), repeats=5, inner=1).median
    timing = run.time(run.call(many, y=run.memory.y), repeats=5, inner=1)
    expect("barrier", float(run.memory.results(blocks).sum()), blocks * (blocks - 1) / 2 + blocks * rounds)
    seconds = tuple(max(sample - base, 1e-9 * rounds) / rounds for sample in timing.seconds)
    run.record.add("grid_barrier", f"{blocks} blocks of {many.kernel.geometry.block} threads", Timing(seconds))


def each(timing: Timing, steps: int) -> Timing:
    """Seconds per step of the graph."""
    return Timing(tuple(sample / steps for sample in timing.seconds))


def _host_time(run: GpuProbes, call: Callable[[], Any], count: int, samples: int = 6) -> Timing:
    """Seconds per call by the clock, the device's work included; the first sample warms up and is dropped."""
    seconds = []
    for _ in range(samples + 1):
        run.backend.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        run.backend.synchronize()
        seconds.append((time.perf_counter() - begin) / count)
    return Timing(tuple(seconds[1:]))
