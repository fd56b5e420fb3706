"""NVIDIA's management library (NVML) through ctypes: energy, power, clocks and temperature of one GPU.

The library comes with the driver, so nothing needs to be installed. A CUDA device is found there by its PCI bus
address: the two number GPUs differently.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

from ..errors import EnergyUnreadable

_SM_CLOCK, _MEMORY_CLOCK, _ON_CHIP = 1, 2, 0  # NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU
_SLOWED = {0x4: "power limit", 0x8: "hardware slowdown", 0x20: "temperature", 0x40: "temperature", 0x80: "power brake"}


class Gpu:
    """Readings of the GPU that a CUDA backend runs on."""

    def __init__(self, backend: Any) -> None:
        place = create_string_buffer(32)
        if backend.driver.lib.cuDeviceGetPCIBusId(place, 32, backend.device.ordinal):
            raise EnergyUnreadable("the CUDA driver does not say at which PCI address the GPU is")
        try:
            self._library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            raise EnergyUnreadable("no NVML (libnvidia-ml.so.1), which comes with NVIDIA's driver") from None
        self._library.nvmlErrorString.restype = c_char_p
        self._handle, self.address = c_void_p(), place.value.decode()
        self._check(self._library.nvmlInit_v2(), "nvmlInit_v2")
        found = self._library.nvmlDeviceGetHandleByPciBusId_v2(place, byref(self._handle))
        self._check(found, f"the GPU at {self.address}")

    def _check(self, status: int, what: str) -> None:
        if status:
            raise EnergyUnreadable(f"NVML: {what}: {self._library.nvmlErrorString(status).decode()}")

    def joules(self) -> float:
        """Energy of the whole board since the driver was loaded, to a millijoule. The counter advances in steps."""
        millijoules = c_ulonglong()
        status = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle, byref(millijoules))
        self._check(status, "the total energy counter")
        return millijoules.value * 1e-3

    def state(self) -> dict[str, Any]:
        """SM clock in MHz, watts (averaged over a second by newer GPUs), degrees, and what limits the clock."""
        clock, memory, milliwatts, degrees = c_uint(), c_uint(), c_uint(), c_uint()
        reasons = c_ulonglong()
        self._library.nvmlDeviceGetClockInfo(self._handle, _SM_CLOCK, byref(clock))
        self._library.nvmlDeviceGetClockInfo(self._handle, _MEMORY_CLOCK, byref(memory))
        self._library.nvmlDeviceGetPowerUsage(self._handle, byref(milliwatts))
        self._library.nvmlDeviceGetTemperature(self._handle, _ON_CHIP, byref(degrees))
        self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, byref(reasons))
        slowed = sorted({name for bit, name in _SLOWED.items() if reasons.value & bit})
        return {
            "mhz": clock.value,
            "memory_mhz": memory.value,
            "watts": milliwatts.value // 1000,
            "celsius": degrees.value,
            "slowed_by": ", ".join(slowed),
        }
