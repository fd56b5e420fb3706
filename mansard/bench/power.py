"""Clock and power of a GPU while it is measured: a card at its power limit lowers its clock, and whoever is measured
then looks slow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..errors import EnergyUnreadable
from ..machine import nvml

_STORED = ("mhz", "watts", "celsius", "slowed_by")


class Power:
    """Readings of one GPU; without NVML, or for another backend, there are none."""

    def __init__(self, backend: Any) -> None:
        self._gpu: nvml.Gpu | None = None
        if backend.name == "cuda":
            with suppress(EnergyUnreadable):
                self._gpu = nvml.Gpu(backend)

    def read(self) -> dict[str, Any]:
        """SM clock in MHz, watts, degrees, and what limits the clock; empty where NVML is missing."""
        if self._gpu is None:
            return {}
        state = self._gpu.state()
        return {name: state[name] for name in _STORED}
