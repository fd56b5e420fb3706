"""The yardsticks of a run: all ceilings measured at its start, and the deciding ones beside every case."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from ..errors import MansardError
from ..machine import machine
from ..machine.machine import Machine
from .progress import Progress


def measure(backend: Any) -> Machine:
    """This device's ceilings, measured now; for the emulator and the reference nominal ones, which say so."""
    if backend.name not in ("cpu", "cuda"):
        return machine.known(backend.device)
    from ..machine import calibrate

    with Progress("ceilings", 0) as shown:

        def progress(label: str, done: int, total: int) -> None:
            if not shown.total:
                shown.total = total
                shown.__enter__()
            shown.step(label)

        return calibrate.calibrate(backend, progress)


class Beside:
    """Ceilings sampled in turn with the contenders of a case: its percentages are of what the device could do then."""

    def __init__(self, backend: Any, family: str = "gram") -> None:
        self.failure = ""  # why there are none, if there are none: named in the results
        self._held: Any = None
        if backend.name not in ("cpu", "cuda"):
            return
        from ..machine import calibrate

        try:
            self._held = calibrate.yardsticks(backend, writes=family != "gram")
        except MansardError as error:
            self.failure = str(error)

    @property
    def runs(self) -> dict[str, Callable[[], None]]:
        """Functions that run each ceiling's probe once."""
        return {name: run for name, (run, _) in self._held.runs.items()} if self._held else {}

    def rates(self, seconds: dict[str, list[float]]) -> dict[str, float]:
        """Bytes or flops per second, by the median of each ceiling's samples."""
        work = {name: work for name, (_, work) in self._held.runs.items()} if self._held else {}
        return {name: work[name] / statistics.median(seconds[name]) for name in work if name in seconds}

    def close(self) -> None:
        if self._held:
            self._held.close()
