"""A machine's measured ceilings: stored once per device, read by everything that states a percentage."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import private, untrusted
from ..codegen.geometry import Device
from ..plan.problem import REAL
from ..rules import Range, Real, Rule, Text, shown
from ..untrusted import Damaged
from . import nominal


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


_CPU = Machine("cpu", "nominal: run `mansard info` to measure this machine", 2e10, 2e10, 2e10,
               {"float32": 8e10, "float64": 4e10}, launch_seconds=5e-6)  # fmt: skip


def slug(device: Device) -> str:
    """The device's name in file names: `cuda-nvidia-h200-132`. CPUs with other thread counts are other devices."""
    name = f"{device.backend}-{device.name}-{device.multiprocessors}"
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def store_path(device: Device) -> Path:
    """Path of the file with the ceilings of `device`."""
    return private.cache_root() / "machines" / f"{slug(device)}.json"


def known(device: Device) -> Machine:
    """The measured ceilings of `device`, or nominal ones that say so."""
    return _load(store_path(device)) or nominal_for(device)


def save(machine: Machine, device: Device) -> Path:
    """Store measured ceilings; later calls of `known` see them."""
    path = store_path(device)
    private.replace_file(path, json.dumps(asdict(machine), indent=1))
    _load.cache_clear()
    return path


def forget(backend: str | None = None) -> list[str]:
    """Remove the stored ceilings of all devices, or of those of one backend; returns the names of the devices."""
    found = []
    for path in sorted((private.cache_root() / "machines").glob(f"{backend or '*'}-*.json")):
        stored = _load(path)
        path.unlink(missing_ok=True)
        found.append(stored.device if stored else path.stem)
    _load.cache_clear()
    return found


@lru_cache(maxsize=16)
def _load(path: Path) -> Machine | None:
    try:
        return from_values(untrusted.parse(untrusted.read_bytes(path, _MOST_BYTES)))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except Damaged as error:
        reason = str(error)
    untrusted.warn_ignored(path, f"{reason} (measure again with `mansard info --remeasure`)")
    return None


_MOST_BYTES = 1 << 18  # of a file of ceilings, which has about 4000
_NUMBER, _BYTES, _WORDS = Real(1e-15, 1e30), Range(1, 1 << 62), Text(1024)


def from_values(values: Any) -> Machine:
    """Ceilings as they were stored; raises `Damaged` unless every one is a number (or a text) that it can be."""
    if not isinstance(values, dict):
        raise Damaged("holds no ceilings")
    known = {one.name: one for one in fields(Machine)}
    needed = {name for name, one in known.items() if one.default is one.default_factory is MISSING}
    if odd := needed - set(values) or set(values) - set(known):
        raise Damaged(f"lacks or does not know {shown(', '.join(sorted(odd)))}")
    checked = {name: _checked(name, str(known[name].type), value) for name, value in values.items()}
    if not set(REAL.values()) <= set(checked["fma"]):
        raise Damaged("fma lacks a dtype")
    return Machine(**checked)


def _checked(name: str, kind: str, value: Any) -> Any:
    """The value of a field whose type is `kind`."""
    if kind == "dict[str, object]" and isinstance(value, dict):
        return value
    if kind == "dict[str, float]" and isinstance(value, dict):
        return {key: _allowed(name, each, _NUMBER) for key, each in value.items()}
    if kind.startswith("tuple[") and isinstance(value, list | tuple):
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
            raise Damaged(f"{name}={shown(value)} are no pairs")
        return tuple((_allowed(name, size, _BYTES), _allowed(name, rate, _NUMBER)) for size, rate in value)
    return _allowed(name, value, _NUMBER if kind == "float" else _WORDS)


def _allowed(name: str, value: Any, rule: Rule) -> Any:
    if reason := rule.refusal(value):
        raise Damaged(f"{name}={shown(value)} {reason}")
    return value


@lru_cache(maxsize=32)
def nominal_for(device: Device) -> Machine:
    """Ceilings by the data sheet of the device, or of one of its architecture; they say so."""
    if device.backend == "cpu":
        return _CPU
    sheet = nominal.closest(device)
    note = f"nominal for {sheet.device.name} ({sheet.source}): run `mansard info` to measure this device"
    return from_values({"device": sheet.device.name, "origin": note, **sheet.ceilings})
