"""Clock and power of a GPU while it is measured: a card at its power limit lowers its clock, and whoever is measured
then looks slow. Read from NVIDIA's management library, which comes with the driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

_SM_CLOCK = 1
_SLOWED = {0x4: "power limit", 0x8: "hardware slowdown", 0x20: "temperature", 0x40: "temperature", 0x80: "power brake"}


class Power:
    """Readings of one GPU; without the library, or for another backend, there are none."""

    def __init__(self, backend: Any) -> None:
        self._library: Any = None
        self._handle = c_void_p()
        if backend.name != "cuda":
            return
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        place = create_string_buffer(32)
        found = backend.driver.lib.cuDeviceGetPCIBusId(place, 32, backend.device.ordinal) == 0
        found = found and library.nvmlInit_v2() == 0
        if found and library.nvmlDeviceGetHandleByPciBusId_v2(place, byref(self._handle)) == 0:
            self._library = library

    def read(self) -> dict[str, Any]:
        """SM clock in MHz, watts, degrees, and what limits the clock; empty where NVML is missing."""
        if self._library is None:
            return {}
        clock, milliwatts, degrees, reasons = c_uint(), c_uint(), c_uint(), c_ulonglong()
        self._library.nvmlDeviceGetClockInfo(self._handle, _SM_CLOCK, byref(clock))
        self._library.nvmlDeviceGetPowerUsage(self._handle, byref(milliwatts))
        self._library.nvmlDeviceGetTemperature(self._handle, 0, byref(degrees))
        self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, byref(reasons))
        slowed = sorted({name for bit, name in _SLOWED.items() if reasons.value & bit})
        return {
            "mhz": clock.value,
            "watts": milliwatts.value // 1000,
            "celsius": degrees.value,
            "slowed_by": ", ".join(slowed),
        }
