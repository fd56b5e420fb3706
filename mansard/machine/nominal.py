"""Data sheets of known GPUs (`nominal.json`): devices described without being here, ceilings until they are measured.

An entry has the facts of a `Device` under the name that the driver gives it, what the vendor states (`sheet`) with its
source, and nominal ceilings: about the share of the sheet that an H200 reaches when it is measured, 92 % of the
bandwidth for reads, 87 % for copies, 90 % of the arithmetic and of the L2 cache's bandwidth. The first entry of an
architecture stands for all devices of that architecture that are not named.

Every fact was compared with a document (`documents`: the title, where it is, and the facts that it states; some quote
NVIDIA's own), follows from others by a formula (`derived`), or is an estimate for which nothing was found
(`unverified`, with what is known). A cache's bandwidth, which no data sheet states, is derived; the H200's nominal
ceilings have none.
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
    documents: tuple[dict[str, Any], ...]  # document, url, states: the facts that were compared with it
    derived: dict[str, str]  # facts that follow from others, and how
    unverified: dict[str, str]  # facts for which no document was found, and what is known of them


@lru_cache(maxsize=1)
def sheets() -> dict[str, Sheet]:
    """All entries by the driver's name of the device; the file is part of the package."""
    values = json.loads(FILE.read_text())
    return {name: _sheet(name, entry) for name, entry in values.items()}


def _sheet(name: str, entry: dict[str, Any]) -> Sheet:
    device, notes = Device("cuda", name, **entry["device"]), (tuple(entry["documents"]), entry["derived"])
    return Sheet(device, entry["ceilings"], entry["sheet"], entry["source"], *notes, entry["unverified"])


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
