"""Joules of contenders in a contest (`mansard bench --energy`), and of any block of code (`metered`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..backends import cpu, cuda
from ..errors import EnergyUnreadable
from ..machine import energy, meter
from ..machine.meter import Effort, Meter, Window

Call = Callable[[], Any]
_RESTORE = 0.5  # of a window, for the copy that gives a call in place its operands again; it is measured once
_IDLE_AGE = 60.0  # seconds after which idle power is read again
_POLL = 0.02  # seconds between readings beside a block of code
_SETTLE = 0.5  # seconds of rest before idle power is read


@dataclass
class Contender:
    """Work whose joules are counted: a call does `calls` calls of a case, each `scale` times smaller than the case."""

    name: str
    run: Call
    calls: int = 1
    scale: float = 1.0
    restore: Call | None = None  # a part of `run` that is measured on its own and subtracted


class Joules:
    """Measures energy on one device. `why` says why that is not possible; empty if it is."""

    def __init__(self, backend: Any, effort: Effort, best_peer: bool = False) -> None:
        self.backend, self.effort = backend, effort
        self.best_peer = best_peer  # of the peers, only the fastest is measured
        self.say: Callable[[str], None] = lambda _: None
        self._idle: tuple[float, Window] | None = None  # when idle power was read, and what
        self.why = energy.unreadable(backend)
        self._meter = None if self.why else Meter(energy.counter(backend))

    def seconds(self, contenders: int) -> float:
        """Seconds that a case of so many contenders takes at most."""
        return self.effort.idle + 2 * contenders * self.effort.seconds()

    def chosen(self, medians: dict[str, float], ours: str) -> set[str]:
        """Who is measured, of contenders whose times are known: all, or we and the fastest peer."""
        peers = sorted(set(medians) - {ours}, key=lambda name: medians[name])
        return {ours, *(peers[:1] if self.best_peer else peers)}

    def usage(self, contenders: list[Contender], is_over: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """Joules of each contender as rows store them, of those that time is left for."""
        assert self._meter is not None
        found: dict[str, Any] = {}
        try:
            for one in contenders:
                if is_over():
                    break
                found[one.name] = self._of(one, self._idle_power())
        except EnergyUnreadable as error:  # the times are worth a row nevertheless
            self.why = str(error)
        return found

    def _idle_power(self) -> Window:
        """Idle power of the device, read anew now and then."""
        assert self._meter is not None
        if self._idle is None or time.monotonic() - self._idle[0] > _IDLE_AGE:
            self.say("energy, idle")
            time.sleep(max(_SETTLE, self.effort.rest))
            self._idle = (time.monotonic(), self._meter.idle(self.effort.idle))
        return self._idle[1]

    def _of(self, one: Contender, idle: Window) -> dict[str, Any]:
        assert self._meter is not None
        found = self._trials(one.name, one.run, self.effort, idle)
        found |= {"window": self.effort.window, "calls": one.calls, "scale": one.scale}
        if one.restore is not None:
            effort = Effort(_RESTORE * self.effort.window, 1, self.effort.rest)
            found["restore"] = self._trials(f"{one.name}, restoring", one.restore, effort, idle)["trials"]
        return found

    def _trials(self, name: str, run: Call, effort: Effort, idle: Window) -> dict[str, Any]:
        assert self._meter is not None
        used = self._meter.usage(
            lambda: meter.chunks(run, self.backend), effort, idle, lambda text: self.say(f"{name}: {text}")
        )
        return used.to_dict()


@dataclass
class Metered:
    """Joules, seconds and watts of a block of code, set when it ends; 0 where no counter can be read, and `why`."""

    why: str = ""  # "cannot be read here: ..."
    seconds: float = 0.0  # of the block
    joules: float = 0.0  # of the device, from the counter's step before the block to the first one after it
    net_joules: float = 0.0  # less idle power over the same time
    watts: float = 0.0  # average
    idle_watts: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)  # joules of the device's and its host's parts
    state: dict[str, Any] = field(default_factory=dict)  # clocks and temperature at the end
    power: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # part -> (seconds, watts)


@contextmanager
def metered(device: str = "cuda", idle: float = 1.0) -> Iterator[Metered]:
    """Read the joules of a block of code on "cuda" or "cpu"; idle power is read for `idle` seconds before it.

    The block's work is waited for. A counter of a GPU advances every 20 to 100 ms: blocks should take seconds.
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is neither 'cuda' nor 'cpu'")
    backend: Any = cuda.backend() if device == "cuda" else cpu.backend()
    found = Metered(energy.unreadable(backend))
    if found.why:
        yield found
        return
    counter = energy.counter(backend)
    found.idle_watts = meter.own(Meter(counter).idle(idle).watts())
    readings = _Readings(counter)
    try:
        yield found
        _wait_for(backend)
    finally:
        readings.stop(found)


class _Readings:
    """Reads a counter beside a block of code, from one step of it to another."""

    def __init__(self, counter: energy.Counter) -> None:
        self._counter, self._ended = counter, threading.Event()
        self._samples = [self._next_step()]
        self._begin = time.perf_counter()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _next_step(self) -> tuple[float, dict[str, float]]:
        """The first reading after the counter has advanced; a counter that stands still is given up."""
        before, begin = self._counter.joules(), time.perf_counter()
        while time.perf_counter() - begin < meter.STUCK:
            now, joules = time.perf_counter(), self._counter.joules()
            if meter.own(joules) != meter.own(before):
                return now, joules
            time.sleep(1e-3)
        raise EnergyUnreadable(f"the counter stood still for {meter.STUCK:g} s")

    def _read(self) -> None:
        while not self._ended.wait(_POLL):
            now, joules = time.perf_counter(), self._counter.joules()
            if meter.own(joules) != meter.own(self._samples[-1][1]):
                self._samples.append((now, joules))

    def stop(self, found: Metered) -> None:
        found.seconds = time.perf_counter() - self._begin
        found.state = self._counter.state()
        self._ended.set()
        self._thread.join()
        self._samples.append(self._next_step())
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        found.parts = {part: last[part] - joules for part, joules in first.items()}
        found.joules = meter.own(found.parts)
        found.net_joules = found.joules - found.idle_watts * (end - start)
        found.watts = found.joules / (end - start)
        found.power = meter.power_over_time(self._samples)


def _wait_for(backend: Any) -> None:
    """Wait for all streams of a GPU; a CPU's calls are done when they return."""
    if backend.name == "cuda":
        backend.driver.make_current(backend.device.ordinal)
        backend.driver.check(backend.driver.lib.cuCtxSynchronize(), "the device's work")
