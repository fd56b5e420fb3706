"""Measures the ceilings of a device. What is reported is the best of several honest ways to move or compute, because a
percentage of a naive yardstick flatters whoever is compared with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ..errors import LaunchError
from ..tune.measure import Timing
from . import machine
from .machine import Machine

Progress = Callable[[str, int, int], None]  # what is measured now, how many steps are done, of how many


@dataclass
class Record:
    """What a calibration has measured so far: per probe and shape a rate (or seconds) with its spread.

    A GPU has one user and the median is its ceiling. A CPU is shared with whatever else runs, which can only slow a
    loop down: there the fastest sample is the ceiling, and the spread says how much was going on."""

    steps: int
    progress: Progress | None = None
    fastest: bool = False
    results: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    done: int = 0

    def step(self, label: str) -> None:
        """Tell the display that `label` begins."""
        if self.progress:
            self.progress(label, min(self.done, self.steps), self.steps)
        self.done += 1

    def add(self, probe: str, shape: str, timing: Timing, work: float | None = None) -> None:
        """Note a timing; with `work` (bytes or flops per call) it becomes a rate."""
        seconds = timing.best if self.fastest else timing.median
        value = seconds if work is None else work / seconds
        self.results.setdefault(probe, {})[shape] = (value, timing.spread)

    def attempt(self, probe: str, shape: str, run: Callable[..., None], *arguments: Any) -> None:
        """Run one shape of a probe; one that fails is noted and leaves the ceiling to the others."""
        try:
            run(*arguments)
        except LaunchError as error:
            self.failures[f"{probe} {shape}"] = str(error)

    def best(self, *probes: str) -> float:
        """The highest rate of any shape of these probes."""
        rates = [value for probe in probes for value, _ in self.results.get(probe, {}).values()]
        if not rates:
            reasons = "; ".join(text for name, text in self.failures.items() if name.startswith(probes))
            raise LaunchError(f"no shape of the probe {' or '.join(probes)} ran: {reasons or 'none was tried'}")
        return max(rates)

    def seconds(self, probe: str) -> float:
        """The least time of any shape of the probe."""
        return min(value for value, _ in self.results[probe].values())

    def details(self) -> dict[str, object]:
        """For `Machine.details`: everything, best shape first."""
        probes = {
            probe: {
                shape: {"value": value, "spread": round(spread, 5)}
                for shape, (value, spread) in sorted(shapes.items(), key=lambda item: -item[1][0])
            }
            for probe, shapes in self.results.items()
        }
        statistic = "fastest sample" if self.fastest else "median"
        failures = {"failures": self.failures} if self.failures else {}
        return {**self.notes, "statistic": statistic, "probes": probes, **failures}


def calibrate(backend: Any, progress: Progress | None = None, *, quick: bool = False, store: bool = True) -> Machine:
    """Measure the ceilings of the backend's device and store them; `quick` is a smoke test on small operands."""
    begin = time.perf_counter()
    if backend.name not in ("cpu", "cuda"):
        raise ValueError(f"the ceilings of the backend {backend.name!r} cannot be measured: choose cpu or cuda")
    record, values = _probes_of(backend).measure_all(backend, progress, quick)
    date = time.strftime("%Y-%m-%d")
    record.notes |= {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "seconds": round(time.perf_counter() - begin, 2)}
    if quick:
        record.notes["quick"] = True
    result = Machine(
        device=backend.device.name,
        origin=f"measured {date}" + (" with small operands: no ceiling" if quick else ""),
        details=record.details(),
        **values,
    )
    if store and not quick:
        machine.save(result, backend.device)
    return result


class Yardsticks:
    """The probes that set the ceilings, ready to be sampled beside other work: on a machine that others disturb, a
    percentage is worth something only if both its numbers were measured at the same time."""

    def __init__(self, runs: dict[str, tuple[Callable[[], None], float]], held: Any) -> None:
        self.runs = runs  # ceiling -> (one run of its probe, the bytes or flops of it)
        self._held = held

    def close(self) -> None:
        """Give the operands back."""
        self.runs = {}
        self._held.close()


def yardsticks(backend: Any, writes: bool = False) -> Yardsticks:
    """Those of the backend's device, in the shapes that won when it was calibrated; with `writes` the copy too."""
    probes: Any = machine.known(backend.device).details.get("probes", {})

    def winner(*names: str) -> tuple[str, str]:
        rates = {(name, shape): each["value"] for name in names for shape, each in probes.get(name, {}).items()}
        return max(rates, key=lambda key: rates[key], default=(names[0], ""))

    held = ExitStack()
    copy = winner("copy", "copy_ring") if writes else None
    return Yardsticks(_probes_of(backend).yardsticks(backend, winner("read", "read_ring", "dot"), copy, held), held)


def _probes_of(backend: Any) -> Any:
    """The module that measures this kind of device; both import this one."""
    from . import calibrate_cpu, calibrate_cuda

    return calibrate_cuda if backend.name == "cuda" else calibrate_cpu


def expect(what: str, got: float, wanted: float, tolerance: float = 1e-9) -> None:
    """A probe whose result is wrong did not do the work it is timed for."""
    if not abs(got - wanted) <= tolerance * max(abs(wanted), 1e-300):
        raise LaunchError(f"the probe {what} returned {got!r} instead of {wanted!r}")
