"""Routes that were measured on one device: records by ranges of sizes, in the form of `kernels/common/measured.py`.

`tune/data/<device>/routes/<operation>.jsonl` has one record per line:

    {"operation": "tsmm", "dtype": ["float32", "float64"], "layout_a": ["col"], "widest": [9, 1048576],
     "set": {"ROUTE": "library"}, "device": "NVIDIA H200", "date": "2026-11-17", "why": "cuBLAS was faster"}

ROUTE is `library`, `steps` or `kernel`; the first record that matches decides. A tuning record of the very shape
decides before them, unless FINAL is set. Sizes that records may name beside those of the problem: `widest` (the larger
one of M and N), `moved` (bytes of both operands of a tall product), `remainder` (N modulo 4) and `unaligned` (1: rows
or columns of A begin off 16-byte boundaries, 0: they do not).

A device without records is left to the rules and the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from .. import untrusted
from ..codegen.geometry import Device
from ..kernels.common import measured
from ..rules import Flag, Names, Rule, shown
from ..untrusted import Damaged
from .problem import Problem

LIBRARY, STEPS, KERNEL = "library", "steps", "kernel"
_FIELDS: dict[str, Rule] = {"ROUTE": Names(LIBRARY, STEPS, KERNEL), "FINAL": Flag()}
_Names = tuple[frozenset[str], frozenset[str]]


@dataclass(frozen=True)
class Verdict:
    """What a record decides."""

    ROUTE: str
    FINAL: bool = False  # also where a tuning record names a kernel

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Verdict:
        """The verdict of a line; raises `Damaged` for fields and values that there are not."""
        if "ROUTE" not in values or set(values) - set(_FIELDS):
            raise Damaged(f"set={shown(dict(values))} is no route")
        for name, value in values.items():
            if reason := _FIELDS[name].refusal(value):
                raise Damaged(f"{name}={shown(value)} {reason}")
        return Verdict(**values)


@dataclass(frozen=True)
class Found:
    """The record that decides about a problem."""

    route: str
    is_final: bool
    reason: str


def find(problem: Problem, device: Device) -> Found | None:
    """The first record of the device that matches the problem; None where nothing was measured."""
    more = _more(problem)
    names = frozenset((*dict(problem.sizes), *more, measured.LARGEST, measured.ASPECT))
    path = measured.folder(device) / "routes" / f"{problem.operation}.jsonl"
    for record, reason in _records(path, problem.operation, (names, frozenset(dict(problem.traits)))):
        if record.matches(problem, more):
            return Found(record.config.ROUTE, record.config.FINAL, reason)
    return None


def _more(problem: Problem) -> dict[str, int]:
    sizes = dict(problem.sizes)
    widest = max(sizes.get("M", 0), sizes.get("N", 0))
    moved = sizes.get("K", 0) * (sizes.get("M", 0) + sizes.get("N", 0)) * problem.itemsize
    return {"widest": widest, "moved": moved, "remainder": sizes.get("N", 0) % 4, "unaligned": _unaligned(problem)}


def _unaligned(problem: Problem) -> int:
    traits = dict(problem.traits)
    return int(not traits.get("aligned", True) or traits.get("pitch_a", 0) * problem.itemsize % 16 != 0)


@lru_cache(maxsize=64)
def _records(path: Path, operation: str, names: _Names) -> tuple[tuple[measured.Measured, str], ...]:
    return tuple(untrusted.each_line(path, partial(from_line, operation=operation, names=names)))


def from_line(line: bytes, operation: str, names: _Names) -> tuple[measured.Measured, str]:
    """The record of a line and its reason; raises `Damaged` if it holds none."""
    record = measured.from_line(line, Verdict, operation, names)  # type: ignore[arg-type]  # has `from_dict`
    values = untrusted.parse(line)
    return record, f"{values['why']} ({values['device']}, {values['date']})"
