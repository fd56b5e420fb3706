"""What the tuner remembers: one JSON line per trial, failures included, in a file that is only ever appended to.

A line is written whole by one `write` on a descriptor opened for appending, so several processes may tune at once and
an interruption costs at most the line being written. A reader skips what it cannot read. A trial that is timed again
is appended again; the later line counts.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import settings
from ..codegen.geometry import Device
from ..plan.problem import Problem

# Why a configuration gave no time. "constraints": illegal; "spills": registers overflowed into memory.
FAILURES = ("constraints", "compile", "spills", "runtime", "correctness", "timeout")
VENDOR = {"VARIANT": "vendor"}  # stands in the place of a configuration for the array library's own routine


@dataclass(frozen=True)
class Trial:
    """One configuration tried on one problem: its raw times, or the class of its failure and the reason."""

    problem: Problem
    config: dict[str, Any]
    status: str  # ok, or one of FAILURES
    seconds: tuple[float, ...] = ()
    reason: str = ""
    round: int = 0  # how far it came in the halving; a later round has more repeats
    predicted: float | None = None
    bound: float | None = None  # the roofline's seconds
    registers: int = 0
    kernel: str = ""  # hash of the kernel's text and headers; empty for the vendor's routine
    device: str = ""
    arch: str = ""
    driver: str = ""
    compiler: str = ""
    date: str = ""
    version: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def is_vendor(self) -> bool:
        return bool(self.config.get("VARIANT") == VENDOR["VARIANT"])

    @property
    def median(self) -> float:
        """The time that counts; failures take forever."""
        return statistics.median(self.seconds) if self.ok and self.seconds else float("inf")

    @property
    def percent(self) -> float | None:
        """Percent of the roofline's limit that was reached."""
        return 100 * self.bound / self.median if self.bound and self.ok else None

    @property
    def key(self) -> tuple[str, str]:
        """What makes two trials the same: the configuration and the kernel's text (the file knows the device)."""
        return config_key(self.config), self.kernel

    def timed(self, seconds: Iterable[float], round: int) -> Trial:
        """The same trial after another round of timing."""
        return replace(self, seconds=tuple(seconds), round=round)

    def to_line(self) -> str:
        values = asdict(self)
        values["problem"] = problem_to_dict(self.problem)
        values["seconds"] = [float(f"{second:.6g}") for second in self.seconds]  # no clock is finer
        values["median"] = float(f"{self.median:.6g}") if self.ok else None
        values["percent"] = self.percent and round(self.percent, 2)
        return json.dumps({name: value for name, value in values.items() if value not in (None, "", [], 0)})

    @staticmethod
    def from_line(line: str) -> Trial:
        values = json.loads(line)
        known = {name: values[name] for name in Trial.__dataclass_fields__ if name in values}
        known["problem"] = problem_from_dict(known["problem"])
        known["seconds"] = tuple(known.get("seconds", ()))
        return Trial(**known)


def config_key(config: dict[str, Any]) -> str:
    """A configuration as text, the same whatever the order of its parameters."""
    return json.dumps(config, sort_keys=True)


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    return {
        "operation": problem.operation,
        "dtype": problem.dtype,
        "sizes": dict(problem.sizes),
        "traits": dict(problem.traits),
    }


def problem_from_dict(values: dict[str, Any]) -> Problem:
    sizes, traits = tuple(values["sizes"].items()), tuple(values["traits"].items())
    return Problem(values["operation"], values["dtype"], sizes, traits)


def slug(device: Device) -> str:
    """The device's name in file names: `cuda-nvidia-h200-132`. CPUs with other thread counts are other devices."""
    name = f"{device.backend}-{device.name}-{device.multiprocessors}"
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def store_path(device: Device, family: str) -> Path:
    """Where this user's trials of a family on a device are kept."""
    return settings.current().cache_dir / "tuning" / slug(device) / f"{family}.jsonl"


class Store:
    """The trials of one device and family, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, trial: Trial) -> None:
        """Write one line; it is in the file when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (self._mend(descriptor) + trial.to_line() + "\n").encode())
        finally:
            os.close(descriptor)

    @staticmethod
    def _mend(descriptor: int) -> str:
        """A newline first if an interrupted writer left half a line, which would otherwise swallow this one too."""
        size = os.fstat(descriptor).st_size
        return "\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else ""

    def __iter__(self) -> Iterator[Trial]:
        """Every readable trial, oldest first."""
        return self._read("")

    def _read(self, part: str) -> Iterator[Trial]:
        """Every readable trial whose line contains `part`; looking for text is much cheaper than parsing."""
        try:
            text = self.path.read_text(errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            if part not in line:
                continue
            try:
                yield Trial.from_line(line)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # truncated, or written by another version

    def trials(self, problem: Problem) -> dict[tuple[str, str], Trial]:
        """The last word on every (configuration, kernel) tried on exactly this problem."""
        text = json.dumps(problem_to_dict(problem))
        return {trial.key: trial for trial in self._read(text) if trial.problem == problem}
