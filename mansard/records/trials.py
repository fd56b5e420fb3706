"""What the tuner remembers: one JSON line per trial, failures included, in a file that is only ever appended to.

A line is written whole by one `write` on a descriptor opened for appending, so several processes may tune at once and
an interruption costs at most the line being written. A trial that is timed again is appended again; the later line
counts.

A reader takes nothing on trust: each field of a line must have its type and lie in its range, the problem must be one
of a family's, and the configuration one that the family declares. Lines that do not are skipped, and one warning names
the file, the first of them and the reason.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import private, untrusted
from ..codegen.geometry import Device
from ..kernels import family_of
from ..kernels.traits import problem_from_dict
from ..machine.machine import slug
from ..plan.problem import Problem
from ..rules import Names, Range, Real, Rule, Text, shown
from ..untrusted import Damaged

# Why a configuration gave no time. "constraints": illegal; "spills": registers overflowed into memory.
FAILURES = ("constraints", "compile", "spills", "runtime", "correctness", "timeout")
TIME, ENERGY = GOALS = ("time", "energy")  # what a tune minimises: seconds or joules of a call
VENDOR = {"VARIANT": "vendor"}  # stands in the place of a configuration for the array library's own routine


_LONGEST_REASON = 1 << 16  # characters; compilers may have much to say
# What the fields of a line may be, but for the problem, the configuration and the times.
_RULES: dict[str, Rule] = {
    "status": Names("ok", *FAILURES),
    "round": Range(0, 64),
    "registers": Range(0, 1 << 20),
    "predicted": Real(0, 1e9),
    "bound": Real(0, 1e9),
    "reason": Text(_LONGEST_REASON),
    **{name: Text(1024) for name in ("kernel", "device", "arch", "driver", "compiler", "date", "version")},
}
_TRIAL_BYTES, _PROBLEM_BYTES = 500, 2500  # of memory, that a reader has for them
_SECONDS = Real(1e-12, 1e9)  # joules, too


@dataclass(frozen=True, slots=True)
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
    joules: tuple[float, ...] = ()  # of a call, net of idle; of trials whose goal is energy, one per window

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
    def samples(self) -> tuple[float, ...]:
        """What the trial's goal minimises, one per sample: joules where they were measured, else seconds."""
        return self.joules or self.seconds

    @property
    def cost(self) -> float:
        """The median that decides; failures cost infinitely much."""
        return statistics.median(self.joules) if self.ok and self.joules else self.median

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
        values["joules"] = [float(f"{joule:.6g}") for joule in self.joules]
        values["reason"] = "".join(c if c.isprintable() or c == "\n" else " " for c in self.reason[:_LONGEST_REASON])
        values["median"] = float(f"{self.median:.6g}") if self.ok else None
        values["percent"] = self.percent and round(self.percent, 2)
        return json.dumps({name: value for name, value in values.items() if value not in (None, "", [], 0)})

    @staticmethod
    def from_line(line: str | bytes) -> Trial:
        """The trial of a line; raises ValueError with the reason if the line states none."""
        values = untrusted.parse(line.encode() if isinstance(line, str) else line)
        if not isinstance(values, dict):
            raise Damaged("is no trial")
        known = {name: values[name] for name in _RULES if name in values}
        for name, value in known.items():
            if reason := _RULES[name].refusal(value):
                raise Damaged(f"{name}={shown(value)} {reason}")
        seconds, joules = values.get("seconds", []), values.get("joules", [])
        if not isinstance(seconds, list) or any(_SECONDS.refusal(second) for second in seconds):
            raise Damaged(f"seconds={shown(seconds)} are no times")
        if not isinstance(joules, list) or any(_SECONDS.refusal(joule) for joule in joules):
            raise Damaged(f"joules={shown(joules)} are no energies")
        if "status" not in known:
            raise Damaged("has no status")
        problem, config = problem_from_dict(values.get("problem")), values.get("config")
        if not isinstance(config, dict):
            raise Damaged(f"config={shown(config)} is no configuration")
        if config != VENDOR:
            family_of(problem.operation).space.from_dict(config)
        return Trial(problem, config, seconds=tuple(seconds), joules=tuple(joules), **known)


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


def goal_name(family: str, goal: str) -> str:
    """Name of the file of a family's records: goals have files of their own, so neither overwrites the other."""
    return family if goal == TIME else f"{family}.{goal}"


def store_path(device: Device, family: str) -> Path:
    """Where this user's trials of a family on a device are kept."""
    return private.cache_root() / "tuning" / slug(device) / f"{family}.jsonl"


class Store:
    """The trials of one device and family, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, trial: Trial) -> None:
        """Write one line; it is in the file when this returns."""
        private.append_line(self.path, trial.to_line())

    def __iter__(self) -> Iterator[Trial]:
        """Every readable trial, oldest first."""
        return self._read(b"")

    def _read(self, part: bytes) -> Iterator[Trial]:
        """Every readable trial whose line contains `part`; looking for text is much cheaper than parsing."""
        problems: dict[Problem, Problem] = {}  # most trials are of few problems, which take most of the memory
        room = untrusted.SPARE + 4 * (self.path.stat().st_size if self.path.exists() else 0)
        for trial in untrusted.each_line(self.path, Trial.from_line, part):
            room -= _TRIAL_BYTES + (0 if trial.problem in problems else _PROBLEM_BYTES)
            if room < 0:
                untrusted.warn_ignored(self.path, "holds more records than a file of its size should; the rest of them")
                return
            yield replace(trial, problem=problems.setdefault(trial.problem, trial.problem))

    def trials(self, problem: Problem) -> dict[tuple[str, str], Trial]:
        """The last word on every (configuration, kernel) tried on exactly this problem."""
        text = json.dumps(problem_to_dict(problem)).encode()
        return {trial.key: trial for trial in self._read(text) if trial.problem == problem}
