"""Data sheets of known GPUs (`nominal.json`): devices described without being here, ceilings until they are measured.

An entry has the facts of a `Device` under the name that the driver gives it, what the vendor states (`sheet`) with its
source, and nominal ceilings: about the share of the sheet that an H200 reaches when it is measured, 92 % of the
bandwidth for reads, 87 % for copies, 90 % of the arithmetic. The first entry of an architecture stands for all devices
of that architecture that are not named. Entries other than the H200's are not yet compared with the documents that
they name: take them for estimates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..codegen.geometry import Device

FILE = Path(__file__).with_name("nominal.json")


@dataclass(frozen=True)
class Sheet:
    """One GPU: its facts, its nominal ceilings (fields of `Machine`), what the vendor states, and where."""

    device: Device
    ceilings: dict[str, Any]
    stated: dict[str, Any]
    source: str


@lru_cache(maxsize=1)
def sheets() -> dict[str, Sheet]:
    """All entries by the driver's name of the device; the file is part of the package."""
    values = json.loads(FILE.read_text())
    return {name: _sheet(name, entry) for name, entry in values.items()}


def _sheet(name: str, entry: dict[str, Any]) -> Sheet:
    return Sheet(Device("cuda", name, **entry["device"]), entry["ceilings"], entry["sheet"], entry["source"])


def by_capability() -> dict[int, Sheet]:
    """The entry that stands for each compute capability: 80, 89, 90, ..."""
    found: dict[int, Sheet] = {}
    for sheet in sheets().values():
        found.setdefault(sheet.device.capability, sheet)
    return found


def closest(device: Device) -> Sheet:
    """The entry of this device, else of its architecture, else of the newest one that is not newer."""
    if device.name in sheets():
        return sheets()[device.name]
    known = by_capability()
    older = [capability for capability in known if capability <= device.capability]
    return known[max(older, default=min(known))]
