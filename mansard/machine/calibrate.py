"""Measures the ceilings of a device. What is reported is the best of several honest ways to move or compute, because a
percentage of a naive yardstick flatters whoever is compared with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ..errors import LaunchError
from ..tune.measure import Timing, measure
from . import machine, noise
from .machine import Machine

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


def calibrate(backend: Any, progress: Progress | None = None, *, quick: bool = False, store: bool = True) -> Machine:
    """Measure the ceilings of the backend's device and store them; `quick` is a smoke test on small operands.

    Ceilings that were disturbed say so (`Machine.noise`) and do not replace better ones: the stored ones are returned
    then, and say what happened. What cannot be stored is returned all the same (`details["not_stored"]`).
    """
    begin = time.perf_counter()
    if backend.name not in ("cpu", "cuda"):
        raise ValueError(f"the ceilings of the backend {backend.name!r} cannot be measured: choose cpu or cuda")
    watch = noise.Watch()
    record, values = _probes_of(backend).measure_all(backend, progress, quick)
    again = {} if quick else _second_look(backend, record)
    disturbed = [] if quick else _disturbed(backend, record, values, again, watch.shares())
    if record.fastest or disturbed:  # whatever was slower was disturbed; medians of a quiet GPU stay as they are
        values |= {name: max(rate, values[name]) for name, rate in again.items()}
    date = time.strftime("%Y-%m-%d")
    record.notes |= {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "seconds": round(time.perf_counter() - begin, 2)}
    record.notes |= {"quick": True} if quick else {}
    record.notes |= {"noise": disturbed} if disturbed else {}
    how = " with small operands: no ceiling" if quick else " on a busy machine" if disturbed else ""
    fresh = Machine(device=backend.device.name, origin=f"measured {date}{how}", details=record.details(), **values)
    return fresh if quick or not store else _stored(fresh, backend.device)


def _stored(fresh: Machine, device: Any) -> Machine:
    """The ceilings that hold from now on; the fresh ones are stored if they are the better ones."""
    found, is_new = noise.settle(fresh, machine.known(device))
    if is_new:
        try:
            machine.save(found, device)
        except OSError as error:  # a cache folder that cannot be written to
            found.details["not_stored"] = str(error)
    return found


def _disturbed(
    backend: Any, record: Record, values: dict[str, Any], again: dict[str, float], shares: noise.Shares
) -> list[str]:
    """The signs that other work disturbed the measurement, in words."""
    record.notes |= {name: value for name, value in shares._asdict().items() if value is not None}
    # a GPU does not notice what the host's processors do
    around = noise.of_surroundings(shares, backend.device.multiprocessors) if backend.name == "cpu" else []
    return [*around, *noise.of_spread(record.results, backend.name), *noise.of_second_look(values, again)]


def _second_look(backend: Any, record: Record) -> dict[str, float]:
    """Read and copy bandwidth measured once more, in the shapes that won."""
    held = ExitStack()
    with held:
        runs = _probes_of(backend).yardsticks(backend, *_winners(record.details()["probes"]), held)
        timings = {name: measure(runs[name][0], backend, repeats=_LOOKS, warmup=1) for name in _LOOKED_AT}
    return {name: runs[name][1] / (each.best if record.fastest else each.median) for name, each in timings.items()}


_LOOKED_AT, _LOOKS = ("read_bandwidth", "copy_bandwidth"), 3


def _winners(probes: Any) -> tuple[tuple[str, str], tuple[str, str]]:
    """Probe and shape that read fastest, and those that copied fastest."""

    def winner(*names: str) -> tuple[str, str]:
        rates = {(name, shape): each["value"] for name in names for shape, each in probes.get(name, {}).items()}
        return max(rates, key=lambda key: rates[key], default=(names[0], ""))

    return winner("read", "read_ring", "dot"), winner("copy", "copy_ring")


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
    """Yardsticks of the backend's device, in the shapes that won its calibration; with `writes` also the copy."""
    read, copy = _winners(machine.known(backend.device).details.get("probes", {}))
    held = ExitStack()
    return Yardsticks(_probes_of(backend).yardsticks(backend, read, copy if writes else None, held), held)


def _probes_of(backend: Any) -> Any:
    """The module that measures this kind of device; both import this one."""
    from . import calibrate_cpu, calibrate_cuda

    return calibrate_cuda if backend.name == "cuda" else calibrate_cpu


def expect(what: str, got: float, wanted: float, tolerance: float = 1e-9) -> None:
    """A probe whose result is wrong did not do the work it is timed for."""
    if not abs(got - wanted) <= tolerance * max(abs(wanted), 1e-300):
        raise LaunchError(f"the probe {what} returned {got!r} instead of {wanted!r}")
