"""One sample of time, for every mode: host or device clock, single calls, loops and captured graphs.

Contenders are sampled in turn, so a sample is the unit here; `machine.measure` repeats one candidate instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..codegen.instantiate import Source
from ..compile import nvrtc

Call = Callable[[], Any]


def nothing() -> None:
    """Restore nothing: the default for calls that leave their operands unchanged."""


# The device waits this long before a timed call, so that the call and both events are queued when it starts and the
# host's launch cost (5 us of a 500 us kernel) stays out of the device's time. With 60 us, array libraries that had just
# slept were too late now and then, and 40 us became 90.
_HOLD_SECONDS = 300e-6
# A card at its power limit lowers its clock for some 100 ms. After a sample it rests for three times as long (at most
# _LONGEST_REST), so that the next contender does not pay for this one; the set `sustained` shows what happens without.
# The call before the timed one wakes it up again (`wake`): the first after a pause takes about 150 us longer, which
# does not matter for calls longer than _LONG.
_REST, _LONGEST_REST = 3.0, 0.03
_LONG = 0.02
_EMPTY = 'extern "C" __global__ void kernel() {}\n'


class HostClock:
    """Clock of backends whose calls return when they are done."""

    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause

    def sample(self, run: Call, wake: bool = True, restore: Call = nothing) -> float:
        """Seconds of one call. The pause lets the threads of the contender before go to sleep. `restore` gives a call
        that works in place its operands again, before the clock starts."""
        restore()
        if self._pause:
            time.sleep(self._pause)
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    def loop(self, run: Callable[[int], Any], count: int) -> float:
        """Seconds per call of a loop over operand pairs."""
        begin = time.perf_counter()
        for index in range(count):
            run(index)
        return (time.perf_counter() - begin) / count

    def sustain(self, run: Call, seconds: float) -> list[float]:
        """Seconds of each of the calls that go on, one behind the other, for so long."""
        samples: list[float] = []
        while sum(samples) < seconds:
            samples.append(self.loop(lambda index: run(), 1))
        return samples

    def enqueue(self, run: Call, count: int) -> float:
        """Seconds per call that the caller spends."""
        return self.loop(lambda index: run(), count)


class DeviceClock(HostClock):
    """Clock of a GPU: events on its default stream."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self._driver = backend.driver
        self._driver.make_current(backend.device.ordinal)
        self._events = (self._driver.event(), self._driver.event())
        self._hold = backend.hold

    def sample(self, run: Call, wake: bool = True, restore: Call = nothing) -> float:
        begin, end = self._events
        if wake:
            restore()
            run()
        restore()
        self._hold(_HOLD_SECONDS)
        self._driver.record(begin)
        run()
        self._driver.record(end)
        seconds = float(self._driver.elapsed(begin, end))
        time.sleep(min(_REST * 2 * seconds, _LONGEST_REST))
        return seconds

    def sustain(self, run: Call, seconds: float) -> list[float]:
        """Seconds per call, in samples of some 50 ms, of calls one behind the other for so long."""
        count = max(1, round(0.05 / self.sample(run)))
        begin, end = self._events
        samples: list[float] = []
        while sum(samples) * count < seconds:
            self._driver.record(begin)
            for _ in range(count):
                run()
            self._driver.record(end)
            samples.append(float(self._driver.elapsed(begin, end)) / count)
        return samples

    def loop(self, run: Callable[[int], Any], count: int) -> float:
        self._driver.synchronize()
        begin = time.perf_counter()
        for index in range(count):
            run(index)
        self._driver.synchronize()
        return (time.perf_counter() - begin) / count

    def enqueue(self, run: Call, count: int) -> float:
        """The caller's cost alone: fewer calls than the launch queue holds, waited for after the clock stopped."""
        self._driver.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        elapsed = time.perf_counter() - begin
        self._driver.synchronize()
        return elapsed / count


def sampler(clock: HostClock, run: Call, restore: Call = nothing) -> Callable[[], float]:
    """Return a function that times one call; calls longer than _LONG are not preceded by one that wakes the card."""
    wake = True

    def sample() -> float:
        nonlocal wake
        seconds = clock.sample(run, wake, restore)
        wake = seconds < _LONG
        return seconds

    return sample


def prepared_launch(backend: Any, text: str = _EMPTY) -> Call:
    """A call that does nothing but launch one thread of a kernel without arguments: the cheapest launch there is."""
    from ctypes import c_uint, c_void_p

    entry = nvrtc.compile_cuda(Source("cuda", text, ()), backend.device.arch)
    function = backend.driver.load(entry.binary.read_bytes(), 0)
    one, arguments = c_uint(1), backend.driver.lib.cuLaunchKernel
    prepared = (function, one, one, one, one, one, one, c_uint(0), c_void_p(0), None, None)
    return lambda: arguments(*prepared)


def capture_cupy(run: Callable[[int], Any], count: int) -> Call:
    """A graph of `count` calls on CuPy's current stream, as a call that launches it."""
    import cupy

    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    cupy.get_default_memory_pool().free_all_blocks()  # which cannot be taken from there
    with stream, cupy.cuda.using_allocator(pool.malloc):  # what calls take for a while is written at every launch
        run(0)  # compiled and loaded before capture begins
        stream.synchronize()
        stream.begin_capture()
        try:
            for index in range(count):
                run(index)
        finally:
            graph = stream.end_capture()

    def launch(kept: Any = (run, pool)) -> None:  # a graph stores addresses only: keep what they point to alive
        graph.launch()

    launch()
    cupy.cuda.get_current_stream().synchronize()
    return launch


def capture_torch(run: Callable[[int], Any], count: int) -> Call:
    """A graph of `count` calls on PyTorch's current stream, as a call that launches it."""
    import torch

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            run(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        kept = [run(index) for index in range(count)]
    graph.replay()
    torch.cuda.synchronize()
    held = (graph, kept)  # results live as long as the graph that writes them
    return lambda: held[0].replay()


def clock_for(backend: Any) -> HostClock:
    if backend.name == "cuda":
        return DeviceClock(backend)
    return HostClock(pause=0.004 if backend.name == "cpu" else 0.0)
