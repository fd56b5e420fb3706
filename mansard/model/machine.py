"""A machine's measured ceilings: stored once per device, read by everything that states a percentage."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from .. import settings
from ..codegen.geometry import Device
from ..plan.problem import REAL


@dataclass(frozen=True)
class Machine:
    """Ceilings of one device, in bytes, flops and seconds."""

    device: str
    origin: str  # "measured 2026-..." or "nominal for sm_90"
    read_bandwidth: float
    copy_bandwidth: float
    scale_bandwidth: float
    fma: dict[str, float]  # float32, float64: fused multiply-add, flops per second
    tensor: dict[str, float] = field(default_factory=dict)  # tensor cores: float64, and tf32 (three make one float32)
    cache_bandwidth: tuple[tuple[int, float], ...] = ()  # (footprint in bytes, bandwidth)
    launch_seconds: float = 4e-6
    graph_step_seconds: float = 2e-6
    grid_barrier_seconds: float = 1.2e-6
    latency_seconds: float = 0.35e-6  # of an idle memory, as a chain of dependent loads sees it

    details: dict[str, object] = field(default_factory=dict)  # spreads, driver, clocks: whatever the measurement noted

    @property
    def measured(self) -> bool:
        """False for the nominal numbers that stand in until a device was measured."""
        return self.origin.startswith("measured")

    @property
    def noise(self) -> tuple[str, ...]:
        """The signs that other work disturbed the measurement; empty if there were none."""
        return tuple(map(str, self.details.get("noise", ())))  # type: ignore[call-overload]

    @property
    def loaded_latency(self) -> float:
        """Seconds a load takes while the memory runs at its limit: about 2.3 times as long (H200)."""
        return 2.3 * self.latency_seconds

    def flop_rate(self, dtype: str) -> float:
        """The fastest unit that computes `dtype` at full accuracy. float32 products may run on float64 tensor cores, or
        as three products of TF32 numbers."""
        real = REAL[dtype]
        on_tensor_cores = max(self.tensor.get("float64", 0.0), self.tensor.get("tf32", 0.0) / 3 * (real == "float32"))
        return max(self.fma[real], on_tensor_cores)


_NOMINAL = {
    "sm_90": Machine("sm_90", "nominal for sm_90: run `mansard info` to measure this device", 4.4e12, 4.2e12, 4.0e12,
                     {"float32": 60e12, "float64": 31e12}, {"float64": 62e12}),
    "sm_80": Machine("sm_80", "nominal for sm_80: run `mansard info` to measure this device", 1.5e12, 1.4e12, 1.4e12,
                     {"float32": 19e12, "float64": 9.5e12}, {"float64": 19e12}),
    "cpu": Machine("cpu", "nominal: run `mansard info` to measure this machine", 2e10, 2e10, 2e10,
                   {"float32": 8e10, "float64": 4e10}, launch_seconds=5e-6),
}  # fmt: skip


def store_path(device: Device) -> Path:
    """Where the ceilings of `device` are kept."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{device.backend}-{device.name}-{device.multiprocessors}").strip("-").lower()
    return settings.current().cache_dir / "machines" / f"{name}.json"


def known(device: Device) -> Machine:
    """The measured ceilings of `device`, or nominal ones that say so."""
    return _load(store_path(device)) or _nominal(device)


def save(machine: Machine, device: Device) -> Path:
    """Store measured ceilings; later calls of `known` see them."""
    path = store_path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(machine), indent=1))
    os.replace(draft, path)
    _load.cache_clear()
    return path


def forget(backend: str | None = None) -> list[str]:
    """Remove the stored ceilings of all devices, or of those of one backend; returns the names of the devices."""
    found = []
    for path in sorted((settings.current().cache_dir / "machines").glob(f"{backend or '*'}-*.json")):
        stored = _load(path)
        path.unlink(missing_ok=True)
        found.append(stored.device if stored else path.stem)
    _load.cache_clear()
    return found


@lru_cache(maxsize=16)
def _load(path: Path) -> Machine | None:
    try:
        values = json.loads(path.read_text())
        values["cache_bandwidth"] = tuple(map(tuple, values["cache_bandwidth"]))
        return Machine(**values)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _nominal(device: Device) -> Machine:
    if device.backend == "cpu":
        return _NOMINAL["cpu"]
    return _NOMINAL["sm_90" if device.capability >= 90 else "sm_80"]
