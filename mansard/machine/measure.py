"""Timing, the same way for the tuner, the calibration and the benchmark: warm-up, repeats, medians with spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_HOLD_SECONDS = 40e-6  # more than a call costs the host, an array library's too
# Times what was measured, at most so many seconds: a GPU at its power limit makes the next candidate look slow.
_REST, _LONGEST_REST = 3.0, 0.05


@dataclass(frozen=True)
class Timing:
    """Raw seconds per call."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles over the median."""
        if len(self.seconds) < 4:
            return (max(self.seconds) - min(self.seconds)) / 2 / self.median
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


def measure(
    run: Callable[[], Any], backend: Any, *, repeats: int = 7, warmup: int = 2, inner: int = 1, stream: int = 0
) -> Timing:
    """Time `run()`: by device events on `stream` for GPUs, by the clock for CPUs; `inner` calls make one sample."""
    for _ in range(warmup):
        run()
    backend.synchronize(stream)
    sample = _sample_device if backend.name == "cuda" else _sample_host
    timing = Timing(tuple(sample(run, backend, inner, stream) / inner for _ in range(repeats)))
    if backend.name == "cuda":
        time.sleep(min(_REST * sum(timing.seconds) * inner, _LONGEST_REST))
    return timing


def _sample_device(run: Callable[[], Any], backend: Any, inner: int, stream: int) -> float:
    driver = backend.driver
    begin, end = _events(backend)
    # all launches are queued when the first one starts, so that the host's cost stays out of the device's time
    backend.hold(_HOLD_SECONDS * (4 + inner), stream)
    driver.record(begin, stream)
    for _ in range(inner):
        run()
    driver.record(end, stream)
    return driver.elapsed(begin, end)  # type: ignore[no-any-return]


def _sample_host(run: Callable[[], Any], backend: Any, inner: int, stream: int) -> float:
    begin = time.perf_counter()
    for _ in range(inner):
        run()
    return time.perf_counter() - begin


def _events(backend: Any) -> tuple[Any, Any]:
    if not hasattr(backend, "_timing_events"):
        backend._timing_events = (backend.driver.event(), backend.driver.event())
    return backend._timing_events  # type: ignore[no-any-return]
