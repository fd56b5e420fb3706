"""Records of sweeps on one device: configurations by ranges of sizes, and numbers that rules ask for.

`tune/data/<device>/ranges/<operation>.jsonl` has one configuration per line, which comes before the rules:

    {"operation": "lu", "dtype": ["float64"], "want": ["inverse"], "N": [1, 13], "square": true,
     "set": {"VARIANT": "lanes", "LANES": 4, "ROLLED": true, "WARPS": 1}, "device": "NVIDIA H200", "date": "2026-11-17",
     "why": "fastest of a sweep"}

A size has a range, both ends included; `largest` is the largest of M, N and K, `aspect` is M // N. A trait has the list
of its values; `square` says that M and N agree. What a record does not name may be anything. All records that match are
given in the order of the file, before the rules, and only legal ones are used: a record is passed over for a problem
that its configuration has no room for. Some rules take only part of a configuration from a record, the shape of a
team for example, and derive the rest.

`tune/data/<device>/numbers/<operation>.jsonl` has one number per line, which a rule asks for by its name:

    {"operation": "gemm", "number": "TILE_M", "rows": [5, 6], "value": 3, "device": "Neoverse N1", "date": "2026-11-17",
     "why": "..."}

Ranges are of what the rule passes with the name, in small letters. The first record that matches is used.

Files are untrusted: each field is checked, and a configuration must be one that its family declares. Lines that fail
are skipped with one warning. A device without a folder gets the rules alone. The emulator stands for the H200, so that
tests without a GPU run the kernels that an H200 runs. A CPU gets the records of the one that was measured with vectors
of the same width (`cpu-16-byte-vectors`, ...): width and number of registers are what the rules for CPUs depend on.

The records that replaced tables of the rules carry the date of the table, not of a measurement, and their reasons were
written down afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ... import untrusted
from ...codegen.geometry import Device
from ...machine.machine import slug
from ...plan.problem import DTYPES, Problem
from ...rules import Matches, Names, Range, Rule, Text, shown
from ...untrusted import Damaged

DATA = Path(__file__).resolve().parents[2] / "tune" / "data"
LARGEST, ASPECT = "largest", "aspect"
_EMULATED = "cuda-nvidia-h200-132"  # the folder of the device that the emulator stands for
_SIZE = Range(0, 1 << 62)
_NOTES: dict[str, Rule] = {
    "device": Text(100),
    "date": Matches(r"\d{4}-\d{2}-\d{2}", "2026-11-17"),
    "why": Text(400),
}  # for people
_KNOWN = {"operation", "dtype", "square", "set", *_NOTES}
_NUMBER: dict[str, Rule] = {"number": Matches(r"[A-Z][A-Z0-9_]*", "SMALL_BYTES"), "value": _SIZE, **_NOTES}
_NAME = Matches(r"[a-z][a-z0-9_]*", "rows")
_Ranges = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Measured:
    """One record: which problems it speaks for, and the configuration that was the fastest there."""

    dtypes: frozenset[str]
    square: bool
    sizes: tuple[tuple[str, int, int], ...]
    traits: tuple[tuple[str, frozenset[Any]], ...]
    config: Any

    def matches(self, problem: Problem, more: dict[str, int]) -> bool:
        """Whether the problem, with the sizes in `more`, is one of those that the record speaks for."""
        if problem.dtype not in self.dtypes or (self.square and problem.M != problem.N):
            return False
        within = all(least <= _size(problem, more, name) <= most for name, least, most in self.sizes)
        return within and all(getattr(problem, name) in values for name, values in self.traits)


def configs(space: ModuleType, problem: Problem, device: Device, **more: int) -> Iterator[Any]:
    """Configurations that sweeps on `device` recommend for the problem, the best first. `more` has sizes that records
    may name beside those of the problem."""
    for record in _records(folder(device), space, problem.operation, _names(problem, more)):
        if record.matches(problem, more):
            yield record.config


def number(operation: str, device: Device, name: str, otherwise: int, **sizes: int) -> int:
    """A number of the rules as it was measured on `device`, for these sizes; `otherwise`, the rule's own, where it was
    not."""
    for ranges, value in _numbers(DATA, _folder_name(device), operation).get(name, ()):
        if all(key in sizes and least <= sizes[key] <= most for key, least, most in ranges):
            return value
    return otherwise


def is_swept(operation: str, device: Device) -> bool:
    """Whether there are records by ranges of a family on a device: where they end, its rules of thumb are not asked."""
    return _is_file(folder(device) / "ranges" / f"{operation}.jsonl")


def folder(device: Device) -> Path:
    """Where the records of a device are."""
    return DATA / _folder_name(device)


@lru_cache(maxsize=64)
def _folder_name(device: Device) -> str:
    if device.backend == "cpu":
        return f"cpu-{max(16, device.vector_bytes)}-byte-vectors"
    return _EMULATED if device.backend == "emulated" else slug(device)


@lru_cache(maxsize=64)
def _is_file(path: Path) -> bool:
    return path.is_file()


@lru_cache(maxsize=64)
def _numbers(data: Path, device: str, operation: str) -> dict[str, list[tuple[_Ranges, int]]]:
    """The numbers of a family on a device by their names; none where there is no file."""
    file, found = data / device / "numbers" / f"{operation}.jsonl", defaultdict(list)
    for name, ranges, value in untrusted.each_line(file, partial(number_from_line, operation=operation)):
        found[name].append((ranges, value))
    return dict(found)


def number_from_line(line: bytes, operation: str) -> tuple[str, _Ranges, int]:
    """Name, ranges and value of a line; raises `Damaged` with the reason if it holds none."""
    values, rules = untrusted.parse(line), {"operation": Names(operation), **_NUMBER}
    if not isinstance(values, dict) or not set(rules) <= set(values):
        raise Damaged(f"lacks one of {', '.join(rules)}")
    for name, rule in rules.items():
        if reason := rule.refusal(values[name]):
            raise Damaged(f"{name}={shown(values[name])} {reason}")
    sizes = sorted(set(values) - set(rules))
    for name in sizes:
        if reason := _NAME.refusal(name):
            raise Damaged(f"the size {shown(name)} {reason}")
    ranges = tuple((name, *_range(name, values[name])) for name in sizes)
    return values["number"], ranges, int(values["value"])


_Sorted = tuple[frozenset[str], frozenset[str]]  # names of sizes and of traits


def _names(problem: Problem, more: dict[str, int]) -> _Sorted:
    return frozenset((*dict(problem.sizes), *more, LARGEST, ASPECT)), frozenset(dict(problem.traits))


def _size(problem: Problem, more: dict[str, int], name: str) -> int:
    if name == LARGEST:
        return max(value for size, value in problem.sizes if size in ("M", "N", "K"))
    if name == ASPECT:
        return int(problem.M // max(1, problem.N))
    return more[name] if name in more else int(getattr(problem, name))


@lru_cache(maxsize=64)
def _records(path: Path, space: ModuleType, operation: str, names: _Sorted) -> tuple[Measured, ...]:
    """The records of a family on a device, in the order of the file; none where there is no file."""
    file = path / "ranges" / f"{operation}.jsonl"
    return tuple(untrusted.each_line(file, partial(from_line, space=space, operation=operation, names=names)))


def from_line(line: bytes, space: ModuleType, operation: str, names: _Sorted) -> Measured:
    """The record of a line; raises ValueError (`Damaged`, `IllegalConfig`) with the reason if it holds none."""
    values = untrusted.parse(line)
    if not isinstance(values, dict) or not {"operation", "dtype", "set", *_NOTES} <= set(values):
        raise Damaged(f"lacks one of operation, dtype, set, {', '.join(_NOTES)}")
    for name, rule in {"operation": Names(operation), **_NOTES}.items():
        if reason := rule.refusal(values[name]):
            raise Damaged(f"{name}={shown(values[name])} {reason}")
    sizes, traits = names
    if unknown := set(values) - _KNOWN - sizes - traits:
        raise Damaged(f"{operation} has no size or trait {shown(', '.join(sorted(unknown)))}")
    if not isinstance(values.get("square", False), bool) or not isinstance(values["set"], dict):
        raise Damaged("square is no flag, or set no configuration")
    return Measured(
        frozenset(_list("dtype", values["dtype"], Names(*DTYPES))),
        values.get("square", False),
        tuple((name, *_range(name, values[name])) for name in sorted(sizes & set(values))),
        tuple((name, frozenset(_list(name, values[name], None))) for name in sorted(traits & set(values))),
        space.from_dict(values["set"]),
    )


def _range(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or any(_SIZE.refusal(end) for end in value):
        raise Damaged(f"{name}={shown(value)} is no range of two sizes")
    return int(value[0]), int(value[1])


def _list(name: str, value: Any, rule: Rule | None) -> list[Any]:
    """The values of a list; without a rule, names, flags or counts, which are only compared."""
    if not isinstance(value, list) or not value:
        raise Damaged(f"{name}={shown(value)} is no list of values")
    for each in value:
        refused = not isinstance(each, str | bool | int) if rule is None else rule.refusal(each)
        if refused:
            raise Damaged(f"{name}={shown(each)} is none of its values")
    return value
