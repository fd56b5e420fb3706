"""Joules per call: windows of back-to-back calls, read from an energy counter at both ends, net of idle power.

A counter advances in steps (every 20 to 100 ms on GPUs), so a window begins and ends at a step: the error at either end
is at most the time between two readings. Readings lie between chunks of calls. On a GPU the next chunks are queued
before the counter is read, so that the device is not idle inside a window: a reading takes 2 ms, and 18 ms now and then
(H200).
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import EnergyUnreadable
from .energy import GPU, Counter

Chunks = Generator[int, None, None]  # runs calls, and yields how many have ended
Call = Callable[[], Any]
Announce = Callable[[str], None]
LEAST = 0.2  # seconds: a shorter window may lie between two steps of a counter
_CHUNK = 0.01  # seconds of calls between two readings
_MOST_CALLS = 10_000  # of a chunk
_AHEAD = 2  # chunks that are queued on a GPU while the counter is read
_WARM, _MOST_WARM = 0.3, 0.5  # share of a window, and seconds, of calls before it begins
_POLL = 0.01  # seconds between readings while nothing runs
STUCK = 10.0  # seconds without a step after which a counter is given up
_POINTS = 60  # of power over time that are stored


@dataclass(frozen=True)
class Effort:
    """How much is measured: seconds of a window, windows (trials), seconds of rest before each, and of idling."""

    window: float = 5.0
    trials: int = 3
    rest: float = 1.0
    idle: float = 2.0

    def seconds(self) -> float:
        """Seconds that one contender takes."""
        return self.trials * (self.rest + self.window + min(_WARM * self.window, _MOST_WARM))


@dataclass(frozen=True)
class Window:
    """What was read between two steps of a counter."""

    seconds: float
    calls: int
    joules: dict[str, float]  # by part
    state: dict[str, Any] = field(default_factory=dict)  # clocks and temperature at the end
    power: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # part -> seconds, watts

    def watts(self) -> dict[str, float]:
        """Average power by part."""
        return {part: joules / self.seconds for part, joules in self.joules.items()}


@dataclass(frozen=True)
class Usage:
    """Windows of one contender, and the idle power before them."""

    windows: tuple[Window, ...]
    idle: dict[str, float]  # watts by part
    about: str = ""  # the counter

    def per_call(self) -> tuple[float, ...]:
        """Joules of a call in each window, net of idle, of the device's own parts."""
        return tuple(net_joules(asdict(window), self.idle) for window in self.windows)

    def to_dict(self) -> dict[str, Any]:
        """As rows store it: power over time of the first window alone."""
        trials = [asdict(window) for window in self.windows]
        for trial in trials[1:]:
            trial["power"] = {}
        return {"trials": trials, "idle": self.idle, "about": self.about}


def own(parts: dict[str, float]) -> float:
    """The sum over the device's own parts: the GPU where there is one, else all."""
    return parts[GPU] if GPU in parts else sum(parts.values())


def net_joules(window: dict[str, Any], idle: dict[str, float]) -> float:
    """Joules of a call of a window, as `Window` has it, less what the device would have used idling."""
    return float((own(window["joules"]) - own(idle) * window["seconds"]) / window["calls"])


class Meter:
    """Takes windows of one counter. `clock` and `sleep` are the system's, but in tests."""

    def __init__(
        self,
        counter: Counter,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counter, self._clock, self._sleep = counter, clock, sleep

    def idle(self, seconds: float) -> Window:
        """A window in which nothing runs."""
        return self.window(self._waiting(), seconds, 0.0)

    def _waiting(self) -> Chunks:
        while True:
            self._sleep(_POLL)
            yield 0

    def window(self, chunks: Chunks, seconds: float, warm: float | None = None) -> Window:
        """Run chunks of calls, which `chunks` counts, for `seconds` from the first step of the counter after `warm`
        seconds to the first one after that time."""
        samples: list[tuple[float, int, dict[str, float]]] = []
        begin, calls, last = self._clock(), 0, self.counter.joules()
        warm = min(_WARM * seconds, _MOST_WARM) if warm is None else warm
        for count in chunks:
            calls += count
            now, joules = self._clock(), self.counter.joules()
            stepped = own(joules) != own(last)
            last = joules
            if stepped and now - begin >= warm:
                samples.append((now, calls, joules))
                if now - samples[0][0] >= seconds:
                    break
            elif now - (samples[-1][0] if samples else begin + warm) > STUCK:
                raise EnergyUnreadable(f"the counter stood still for {STUCK:g} s")
        first, end = samples[0], samples[-1]
        used = {part: end[2][part] - joules for part, joules in first[2].items()}
        times = [(now, joules) for now, _, joules in samples]
        return Window(end[0] - first[0], end[1] - first[1], used, self.counter.state(), power_over_time(times))

    def usage(
        self, chunks: Callable[[], Chunks], effort: Effort, idle: Window, say: Announce = lambda _: None
    ) -> Usage:
        """Windows of one contender, with rests before them."""
        windows = []
        for trial in range(effort.trials):
            say(f"energy, trial {trial + 1} of {effort.trials}")
            self._sleep(effort.rest)
            with closing(chunks()) as running:
                windows.append(self.window(running, effort.window))
        return Usage(tuple(windows), idle.watts(), self.counter.about)


def power_over_time(samples: list[tuple[float, dict[str, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Watts between readings of a counter, by part, at most so many points: (seconds since the first, watts)."""
    every = max(1, -(-(len(samples) - 1) // _POINTS))
    kept = samples[::every]
    start = kept[0][0] if kept else 0.0
    return {
        part: [
            (round(now - start, 4), round((joules[part] - before[part]) / (now - then), 3))
            for (then, before), (now, joules) in itertools.pairwise(kept)
            if now > then
        ]
        for part in (kept[0][1] if kept else {})
    }


def chunks(call: Call, backend: Any) -> Chunks:
    """Run a call for ever, in chunks of some 10 ms; yields how many calls have ended since the last time."""
    count = _calls_per_chunk(call, backend)
    if backend.name == "cuda":
        yield from _queued(call, count, backend.driver)
    while True:
        for _ in range(count):
            call()
        yield count


def _calls_per_chunk(call: Call, backend: Any) -> int:
    """Calls that take about a chunk's time, by three of them."""
    wait = backend.synchronize if backend.name == "cuda" else lambda: None
    call()
    wait()
    begin = time.perf_counter()
    for _ in range(3):
        call()
    wait()
    return max(1, min(_MOST_CALLS, round(3 * _CHUNK / max(1e-7, time.perf_counter() - begin))))


def _queued(call: Call, count: int, driver: Any) -> Chunks:
    """Chunks on the default stream of a GPU, of which some are left to run while the counter is read."""
    events = [driver.event() for _ in range(_AHEAD + 1)]
    try:
        for number in itertools.count():
            for _ in range(count):
                call()
            driver.record(events[number % len(events)])
            if number >= _AHEAD:
                driver.wait(events[(number - _AHEAD) % len(events)])
                yield count
    finally:
        driver.synchronize()


def spread(values: tuple[float, ...] | list[float]) -> float:
    """Half the distance between the extremes over the median: there are three trials."""
    return (max(values) - min(values)) / 2 / abs(statistics.median(values) or 1.0)
