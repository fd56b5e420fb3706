"""The yardstick of a run: ceilings measured at its start, and the read bandwidth probed again while it lasts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import MansardError
from ..model import machine
from ..model.machine import Machine
from .power import Power
from .progress import Progress

PROBE_EVERY = 20.0  # seconds


def measure(backend: Any) -> Machine:
    """This device's ceilings, measured now; for the emulator and the reference nominal ones, which say so."""
    if backend.name not in ("cpu", "cuda"):
        return machine.known(backend.device)
    from ..model import calibrate

    with Progress("ceilings", 0) as shown:

        def progress(label: str, done: int, total: int) -> None:
            if not shown.total:
                shown.total = total
                shown.__enter__()
            shown.step(label)

        return calibrate.calibrate(backend, progress)


class Probe:
    """Measures the read bandwidth again, at most every `PROBE_EVERY` seconds, and notes the clocks on a GPU."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._read = _reader(backend)
        self._power = Power(backend)
        self._last = time.monotonic()
        self.failure = ""  # why it stopped, if it did: named in the results

    def due(self) -> bool:
        return self._read is not None and time.monotonic() - self._last > PROBE_EVERY

    def run(self) -> dict[str, Any] | None:
        """Bandwidth in bytes per second, when, and clock and power; None if the probe failed."""
        assert self._read is not None
        try:
            bandwidth = float(self._read(self._backend))
        except MansardError as error:
            self._read, self.failure = None, f"stopped at {time.strftime('%H:%M:%S')}: {error}"
            return None
        self._last = time.monotonic()
        return {"read_bandwidth": bandwidth, "at": time.strftime("%H:%M:%S"), **self._power.read()}


def _reader(backend: Any) -> Callable[[Any], float] | None:
    """The calibration's own read probe, so that the yardstick does not change during a run."""
    return {"cpu": _read_cpu, "cuda": _read_cuda}.get(backend.name)


def _read_cpu(backend: Any) -> float:
    from ..model.calibrate import Record
    from ..model.calibrate_cpu import CpuProbes

    record = Record(2, fastest=True)
    probes = CpuProbes(backend, record, quick=False)
    probes.touch()
    probes.read()
    return record.best("read", "dot")


def _read_cuda(backend: Any) -> float:
    from ..model.calibrate import Record
    from ..model.calibrate_cuda import GpuProbes, operands

    record = Record(2)
    with operands(backend, quick=False) as memory:
        probes = GpuProbes(backend, record, memory)
        probes.fill()
        probes.read()
    return record.best("read", "read_ring")
