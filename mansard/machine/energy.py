"""Energy counters: joules that a device has used, by part, read from the hardware. Nothing is ever estimated.

A GPU's joules come from NVML. A CPU's come from the kernel's powercap folder (RAPL, of Intel's and AMD's processors):
packages, and the memory that is beside them. A GPU's work has a share in the CPU's joules too, which is read along
where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ..errors import EnergyUnreadable
from . import nvml

POWERCAP = Path("/sys/class/powercap")
GPU = "gpu"  # the part that is a GPU's own
_THERMAL = Path("/sys/class/thermal")
_SENSORS = ("x86_pkg_temp", "k10temp", "cpu-thermal")  # types of thermal zones that are a processor's


class Counter(Protocol):
    """Counts joules from a start of its own."""

    about: str  # which counter is read

    def joules(self) -> dict[str, float]:
        """Joules by part; each only grows."""
        ...

    def state(self) -> dict[str, Any]:
        """Clocks, temperature, and what limits the clock."""
        ...


class Zone:
    """One energy counter of the powercap folder. It starts again at 0 after `range` microjoules."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self._file = name, folder / "energy_uj"
        self._range = int((folder / "max_energy_range_uj").read_text())
        self._last, self._turns = self._read(), 0

    def _read(self) -> int:
        return int(self._file.read_text())

    def joules(self) -> float:
        """Joules since the counter's last start before this object was made. At most one wrap-around may lie between
        two readings: at 500 W a counter takes minutes."""
        now = self._read()
        self._turns += now < self._last
        self._last = now
        return (now + self._turns * self._range) * 1e-6


class Cpu:
    """Packages of a CPU and the memory at their controllers."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        self.zones = list(_zones(folder))
        self.about = f"powercap: {', '.join(zone.name for zone in self.zones)}"

    def joules(self) -> dict[str, float]:
        return {zone.name: zone.joules() for zone in self.zones}

    def state(self) -> dict[str, Any]:
        clocks = [int(path.read_text()) // 1000 for path in Path("/sys/devices/system/cpu").glob(
            "cpu[0-9]*/cpufreq/scaling_cur_freq")]  # fmt: skip
        degrees = [
            int((zone / "temp").read_text()) // 1000
            for zone in _THERMAL.glob("thermal_zone*")
            if (zone / "type").read_text().strip() in _SENSORS
        ]
        return ({"mhz": sum(clocks) // len(clocks)} if clocks else {}) | ({"celsius": max(degrees)} if degrees else {})


class OnGpu:
    """A GPU and, where its counters can be read, the CPU that drives it."""

    def __init__(self, backend: Any, folder: Path = POWERCAP) -> None:
        self._gpu = nvml.Gpu(backend)
        self._gpu.joules()
        self.about = f"NVML: total energy counter of the GPU at {self._gpu.address}"
        self._cpu: Cpu | None = None
        try:
            self._cpu = Cpu(folder)
            self.about += f"; {self._cpu.about}"
        except EnergyUnreadable as error:
            self.about += f"; of its CPU {error}"

    def joules(self) -> dict[str, float]:
        return {GPU: self._gpu.joules()} | (self._cpu.joules() if self._cpu else {})

    def state(self) -> dict[str, Any]:
        return self._gpu.state()


def counter(backend: Any) -> Counter:
    """The counter of a backend's device; raises `EnergyUnreadable` with the reason where there is none."""
    if backend.name == "cuda":
        return OnGpu(backend)
    if backend.name == "cpu":
        return Cpu()
    raise EnergyUnreadable(f"the backend {backend.name} is no device")


def unreadable(backend: Any) -> str:
    """Why the joules of a backend's device cannot be read; empty if they can."""
    try:
        counter(backend).joules()
    except EnergyUnreadable as error:
        return str(error)
    return ""


def _zones(folder: Path) -> Iterator[Zone]:
    """Zones that add up to a machine: packages, and memory below them. Cores are a part of their package; the platform
    (psys) contains all; a second interface to the same counters (intel-rapl-mmio) counts them twice."""
    if not folder.exists():
        raise EnergyUnreadable(f"this kernel has no {folder}: RAPL is not offered to virtual machines and containers")
    found = False
    for path in sorted(folder.glob("intel-rapl:*")):
        name = (path / "name").read_text().strip()
        if name.startswith("package") or name == "dram":
            found = True
            package = path.name.split(":")[1]
            try:
                yield Zone(path, name if name.startswith("package") else f"dram-{package}")
            except OSError as error:
                remedy = ": run as root, or have it made readable" if isinstance(error, PermissionError) else ""
                raise EnergyUnreadable(f"{path}/energy_uj: {error.strerror}{remedy}") from None
    if not found:
        raise EnergyUnreadable(f"{folder} has no zone of a processor (intel-rapl:*)")
