"""Tuning for tests: a backend whose kernels are NumPy, trials that were never made, a cache of one's own."""

from __future__ import annotations

import ctypes
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from mansard import settings
from mansard.backends import emulated
from mansard.codegen.geometry import Device
from mansard.errors import CompileError, LaunchError
from mansard.kernels.tall_skinny import gram
from mansard.machine import measure
from mansard.records import database
from mansard.records.trials import Trial
from mansard.tune import runner, session
from mansard.tune.cases import CASES, make_case
from mansard.tune.runner import DeviceRunner

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 227 << 10, 228 << 10, 65536, 2048, 50 << 20)


@pytest.fixture(name="own_cache", autouse=True)
def with_own_cache(tmp_path, monkeypatch):
    """Records and kernels of a test belong to the test."""
    monkeypatch.setenv("MANSARD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(database, "DATA", tmp_path / "shipped")
    settings.reread()
    yield tmp_path
    monkeypatch.undo()
    settings.reread()


# --- A backend whose kernels are NumPy --------------------------------------------------------------------------


class FakeBackend:
    """Pretends to be a small Hopper. `behave(text)` says what the kernel with this text does: right, wrong, hole (an
    entry is never written), fault, varies, interrupt, spill, no-compile; `seconds(text)` how long it takes."""

    name = "fake"

    def __init__(self, problem, behave=lambda text: "right", seconds=lambda text: 0.0):
        self.device = replace(emulated.EmulatedBackend().device, name="fake hopper")
        self.problem, self.behave, self.seconds, self.prepared = problem, behave, seconds, 0

    def log(self, source):
        kind = self.behave(source.text)
        if kind == "no-compile":
            raise CompileError("fake", "kernel.cu(3): error: planted", source.text)
        return f"Used 40 registers, {96 * (kind == 'spill')} bytes spill stores"

    def prepare(self, kernel):
        self.prepared += 1
        return lambda pointers, scalars, stream: self._launch(kernel, pointers)

    def _launch(self, kernel, pointers):
        kind, problem = self.behave(kernel.source.text), self.problem
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind == "fault":
            raise LaunchError("planted fault")
        K, *strides = kernel.fixed
        shapes = ((K, problem.M), (K, problem.N), (problem.M, problem.N))
        steps = (strides[0:2], strides[2:4], strides[4:6])
        A, B, C = (_view(*each, problem.dtype) for each in zip(pointers, shapes, steps, strict=True))
        product = gram.spec.reference(A, B, conj=problem.conj)
        if kind == "wrong" or (kind == "wrong when large" and K > 10_000):
            product[-1, -1] += 1
        if kind == "varies":
            product[0, 0] *= 1 + 2e-16 * (self.prepared + time.perf_counter_ns() % 97)
        C[...] = product
        if kind == "hole":
            C[0, 0] = np.nan
        time.sleep(self.seconds(kernel.source.text))

    def synchronize(self, stream=0):
        pass


def _view(address, shape_, strides, dtype):
    size = np.dtype(dtype).itemsize
    extent = sum((n - 1) * s for n, s in zip(shape_, strides, strict=True)) + 1
    flat = np.frombuffer((ctypes.c_char * (extent * size)).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape_, [s * size for s in strides])


SMALL = gram.spec.problem("float64", 4, 4, 20_001)


def fake_runner(behave=lambda text: "right", problem=SMALL, **options):
    backend = FakeBackend(problem, behave)
    return DeviceRunner(make_case(problem, backend), session.facts(problem, backend), **options)


def one_config(problem=SMALL, device=None):
    return gram.defaults.default(problem, device or emulated.EmulatedBackend().device)


class Clock:
    """Stands for `time`: only sleeping takes time, so that what a kernel takes does not depend on the machine."""

    monotonic = staticmethod(time.monotonic)
    perf_counter_ns = staticmethod(time.perf_counter_ns)

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(name="clock")
def with_own_clock(monkeypatch):
    """A fake kernel takes exactly its seconds, the vendor's gram half a millisecond."""
    clock = Clock()
    for module in (sys.modules[__name__], runner, measure):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(CASES["gram"], "vendor", lambda case: lambda: clock.sleep(5e-4))
    return clock


# --- Strategies on recorded trials --------------------------------------------------------------------------------


def fake_trial(config, seconds, problem=SMALL, device=H200, **changes):
    values = gram.space.to_dict(config)
    kernel = database.kernel_hash(problem, config, device, gram.FAMILY)
    trial = Trial(problem, values, "ok", (seconds,), kernel=kernel, bound=1e-4, date="2026-01-02T00:00:00", version="0")
    return replace(trial, **changes)
