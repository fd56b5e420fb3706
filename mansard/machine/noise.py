"""Whether a measurement of ceilings was disturbed, and whether it may replace the stored one.

Signs of a busy machine: other programs' processor time while measuring, samples that differ, a second look that
disagrees with the first, and ceilings far below the stored ones (hardware does not become slower).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from .. import units
from .machine import Machine

BUSY = 0.10  # share of the processors' time that other programs may take
STOLEN = 0.05  # share of the time that the hypervisor may give to others
LOADED = 0.5  # load average per thread when measuring begins, where processor times are not known
SPREAD = {"cpu": 0.10, "cuda": 0.03}  # half the distance of the quartiles over the median; idle: 0.01 and 0.001
CHANGED = 0.15  # relative difference of two looks at one ceiling within seconds
LOWER = 0.10  # a ceiling this far below the stored one is taken for noise

_DECIDING = {"read": ("read", "read_ring", "dot"), "copy": ("copy", "copy_ring"), "scale": ("scale", "scale_ring")}


class Shares(NamedTuple):
    """Load of other programs during a measurement; None where the system does not report it."""

    others: float | None  # processor time of other programs over what this process may use
    stolen: float | None  # time that the hypervisor gave to others
    load: float  # load average when measuring began


class Watch:
    """Counts processor time from its making on."""

    def __init__(self) -> None:
        self._begin, self._own, self._ticks = time.monotonic(), _own_seconds(), _ticks()
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

    def shares(self) -> Shares:
        """The shares of the time since this watch was made."""
        late = _ticks()
        capacity = (time.monotonic() - self._begin) * len(late)  # seconds of all processors
        if not self._ticks or len(late) != len(self._ticks) or capacity <= 0:
            return Shares(None, None, self._load)
        busy, stolen = (sum(one[i] - other[i] for one, other in zip(late, self._ticks, strict=True)) for i in (0, 1))
        others = max(0.0, busy - (_own_seconds() - self._own)) / capacity
        return Shares(round(others, 3), round(stolen / capacity, 3), self._load)


def _own_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _ticks() -> list[tuple[float, float]]:
    """Busy and stolen seconds of every processor that this process may use; empty where the system does not tell."""
    try:
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        second = os.sysconf("SC_CLK_TCK")
        found = [[int(word) / second for word in words[1:9]] for words in lines if words and words[0] in usable]
        # user, nice, system, idle, waiting for disks, interrupts (two kinds), stolen
        return [(sum(spent[:3]) + spent[5] + spent[6], spent[7]) for spent in found]
    except (AttributeError, OSError, ValueError, IndexError):
        return []


def of_surroundings(shares: Shares, threads: int) -> list[str]:
    """Describe other programs' use of the processors in sentences; an empty list means a quiet machine."""
    found = []
    if shares.others is not None and shares.others > BUSY:
        found.append(f"other programs used {100 * shares.others:.0f} % of the processors")
    if shares.others is None and shares.load > LOADED * threads:
        found.append(f"other programs were running (load {shares.load:.2g} on {units.count(threads, 'thread')})")
    if shares.stolen is not None and shares.stolen > STOLEN:
        found.append(f"the hypervisor gave {100 * shares.stolen:.0f} % of the time to others")
    return found


def of_spread(probes: Mapping[str, Mapping[str, tuple[float, float]]], backend: str) -> list[str]:
    """Ceilings whose samples differ too much; `probes` has a rate and a spread for every shape of every probe."""
    found = []
    for name, names in _DECIDING.items():
        shapes = [each for probe in names for each in probes.get(probe, {}).values()]
        if shapes and max(shapes)[1] > SPREAD[backend]:
            found.append(f"samples of the {name} bandwidth differ by {100 * max(shapes)[1]:.0f} %")
    return found


def of_second_look(first: Mapping[str, float], again: Mapping[str, float]) -> list[str]:
    """Ceilings that two looks within seconds disagree about."""
    return [
        f"the {_named(name)} was {_rate(name, first[name])} at first and {_rate(name, rate)} at a second look"
        for name, rate in again.items()
        if name in first and abs(rate - first[name]) > CHANGED * max(rate, first[name])
    ]


def below_stored(fresh: Machine, stored: Machine) -> list[str]:
    """Ceilings that are far below the stored ones."""
    now, then = _ceilings(fresh), _ceilings(stored)
    return [
        f"the {_named(name)} is {_rate(name, now[name])} now and was {_rate(name, value)} when it was stored"
        for name, value in then.items()
        if name in now and now[name] < (1 - LOWER) * value
    ]


def settle(fresh: Machine, stored: Machine) -> tuple[Machine, bool]:
    """The ceilings that hold from now on, and whether they are to be stored.

    Quiet ceilings replace disturbed ones, and quiet ones that are not better. Of two disturbed measurements the better
    of each ceiling is taken: other work only slows a loop down. Otherwise the stored ones stay as they are.
    """
    if not stored.measured:
        return fresh, True
    lower = below_stored(fresh, stored)
    if not fresh.noise and not lower:
        return fresh, True
    if stored.noise:
        return _better_of(fresh, stored), True
    details = {**stored.details, "not_kept": [*fresh.noise, *lower]}
    return replace(stored, origin=f"{stored.origin}; a new measurement was not kept", details=details), False


def _better_of(fresh: Machine, stored: Machine) -> Machine:
    """The better of each ceiling; what else was noted is that of the one that read faster."""
    base = max(fresh, stored, key=lambda one: one.read_bandwidth)
    rates = {name: max(getattr(one, name) for one in (fresh, stored)) for name in _BANDWIDTHS}
    waits = {name: min(getattr(one, name) for one in (fresh, stored)) for name in _WAITS}
    units_of = {name: _higher(getattr(fresh, name), getattr(stored, name)) for name in ("fma", "tensor")}
    curve = _higher(dict(fresh.cache_bandwidth), dict(stored.cache_bandwidth))
    details = {**base.details, "noise": list(fresh.noise or stored.noise)}
    found = {**rates, **waits, **units_of, "cache_bandwidth": tuple(sorted(curve.items())), "details": details}
    return replace(base, origin=fresh.origin, **found)


_BANDWIDTHS = ("read_bandwidth", "copy_bandwidth", "scale_bandwidth")
_WAITS = ("launch_seconds", "graph_step_seconds", "grid_barrier_seconds", "latency_seconds")


def _higher(one: dict[Any, float], other: dict[Any, float]) -> dict[Any, float]:
    return {key: max(each[key] for each in (one, other) if key in each) for key in {**one, **other}}


def _ceilings(one: Machine) -> dict[str, float]:
    found = {name: getattr(one, name) for name in _BANDWIDTHS}
    found |= {f"multiply-add rate in {dtype}": rate for dtype, rate in one.fma.items()}
    return found | {f"tensor cores' rate in {dtype}": rate for dtype, rate in one.tensor.items()}


def _named(name: str) -> str:
    return name.replace("_", " ")


def _rate(name: str, value: float) -> str:
    return units.rate(value, "B/s" if "bandwidth" in name else "FLOP/s")
