"""Measures the ceilings of a device. What is reported is the best of several honest ways to move or compute, because a
percentage of a naive yardstick flatters whoever is compared with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from . import calibrate_cpu, calibrate_cuda, machine, noise
from .calibrate_record import Progress, Record
from .machine import Machine
from .measure import measure


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
    """The module that measures this kind of device."""
    return calibrate_cuda if backend.name == "cuda" else calibrate_cpu
