"""Notes of a calibration: rates and seconds per probe and shape, failures, wrong results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import LaunchError
from .measure import Timing

Progress = Callable[[str, int, int], None]  # what is measured now, how many steps are done, of how many


@dataclass
class Record:
    """Results of a calibration so far: per probe and shape a rate (or seconds) with its spread.

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
        """All results for `Machine.details`, best shape first."""
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


def expect(what: str, got: float, wanted: float, tolerance: float = 1e-9) -> None:
    """A probe whose result is wrong did not do the work it is timed for."""
    if not abs(got - wanted) <= tolerance * max(abs(wanted), 1e-300):
        raise LaunchError(f"the probe {what} returned {got!r} instead of {wanted!r}")
