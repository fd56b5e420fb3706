"""Which configuration the records recommend: the user's own trials first, then the tables shipped in `tune/data/`.

A record answers a problem of the same dtype, widths, layouts, kind of pitch and alignment. Conjugation does not change
the speed and is ignored. The long dimensions (`spec.LONG`) need not agree: the record nearest in their logarithms
answers. Beyond a factor of eight its configuration is still the better guess (the rules of thumb do not look at them at
all) and the reason says how far away it was measured; a verdict for the vendor's routine, though, rests on fixed costs
and is not carried that far. Nor does a record speak for a problem that far away if only one of them is short
(`Family.is_short`): the model does.

A record whose kernel has changed since is never served. Its code counts; comments and folders may change. Dispatch asks
once per new shape, so files are read and indexed once per change, and hashes of headers are kept.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from math import log2, prod
from pathlib import Path
from typing import Any

from .. import settings, units
from ..codegen.geometry import Device
from ..compile.key import bare, code_digest
from ..errors import IllegalConfig
from ..kernels import family_of
from ..kernels.common.measured import DATA
from ..kernels.family import Family
from ..machine.machine import slug
from ..plan.problem import Problem
from .trials import ENERGY, TIME, Store, Trial, config_key, goal_name, store_path
from .verdict import is_undecided, vendor_wins, was_doubtful

FAR = 8.0  # beyond this factor in size the reason warns, and the vendor's victory does not count

_IRRELEVANT = ("conj", "conj_a", "conj_b", "deterministic")  # the speed is the same; of the last, legality decides
_INCLUDES = re.compile(r'^\s*#\s*include\s*"[^"]+"', re.MULTILINE)


@dataclass(frozen=True)
class Record:
    """What dispatch is told: a configuration (None: the vendor's routine), and why."""

    config: Any
    reason: str


Key = tuple[Any, ...]
Sizes = tuple[int, ...]
Index = dict[Key, dict[Sizes, list[Trial]]]  # key -> long sizes -> trials, best first


def best(problem: Problem, device: Device, family: Family) -> Record | None:
    """The recorded way to answer `problem` on `device` that suits the goal (`MANSARD_GOAL`) best, or None if no record
    applies. Where nothing was tuned for energy, records for time answer."""
    key, goal = match_key(problem), settings.current().goal
    for name in (goal_name(family_name(family), one) for one in ((ENERGY, TIME) if goal == ENERGY else (TIME,))):
        for path, place in ((store_path(device, name), "here"), (shipped_path(device, name), "shipped table")):
            by_size = _index_of(path).get(key)
            if by_size:
                asked = long_sizes(problem)
                for tall in sorted(by_size, key=lambda sizes: (_distance(sizes, asked), -prod(sizes))):
                    record = _judge(problem, device, family, by_size[tall], tall, place)
                    if record:
                        return record
    return None


def kernel_hash(problem: Problem, config: Any, device: Device, family: Family) -> str:
    """Names the code of a kernel, its headers' included (the emulator's for emulated kernels alone). What was written
    about it and where its headers lie does not count."""
    return text_hash(family.emit.source(problem, config, device.backend).text, device.backend)


def text_hash(text: str, backend_name: str) -> str:
    """`kernel_hash` of a kernel that is written already."""
    headers = _headers("\n".join(_INCLUDES.findall(text)), "" if backend_name == "emulated" else "emulated")
    return hashlib.sha256(f"{headers}\0{bare(text)}".encode()).hexdigest()[:16]


def is_current(trial: Trial, config: Any, device: Device, family: Family) -> bool:
    """Whether the kernel that a trial states is still what would be written for its problem. A record may be made up:
    of a problem that no family accepts, or for which no text can be written, it is not."""
    try:
        refused = family.spec.refusal(trial.problem) or family.space.illegal(trial.problem, config, device)
        return not refused and kernel_hash(trial.problem, config, device, family) == trial.kernel
    except (ArithmeticError, LookupError, ValueError):
        return False


def match_key(problem: Problem) -> Key:
    """All that must agree between a record's problem and the one asked for."""
    family = family_of(problem.operation)
    without = (*_IRRELEVANT, *family.alike)
    sizes = tuple(item for item in problem.sizes if item[0] not in family.spec.LONG)
    traits = tuple(
        (name, _pitch_class(problem, name) if name.startswith("pitch") else value)
        for name, value in problem.traits
        if name not in without
    )
    return problem.operation, problem.dtype, sizes, traits


def long_sizes(problem: Problem) -> Sizes:
    """The sizes in which a record and a problem may differ."""
    return tuple(getattr(problem, name) for name in family_of(problem.operation).spec.LONG)


def shipped_path(device: Device, name: str) -> Path:
    """Where the table of a family on a device is that ships with Mansard."""
    return DATA / slug(device) / f"{name}.jsonl"


def family_name(family: Family) -> str:
    return family.name


def forget() -> None:
    """Read files and headers again at the next lookup, whatever their dates say."""
    _load.cache_clear()
    _headers.cache_clear()


def _pitch_class(problem: Problem, name: str) -> str:
    """packed, padded (rows start on 16-byte boundaries) or ragged: kernels run alike within a class."""
    side = name.removeprefix("pitch_")
    kind, pitch = getattr(problem, f"layout_{side}"), getattr(problem, name)
    if kind == "any":
        return "any"
    rows, columns = family_of(problem.operation).spec.SHAPES[side]
    if pitch == getattr(problem, columns if kind == "row" else rows):
        return "packed"
    return "ragged" if pitch * problem.itemsize % 16 else "padded"


def _judge(
    problem: Problem, device: Device, family: Family, trials: list[Trial], tall: Sizes, place: str
) -> Record | None:
    """The verdict of the records made at one size: the first usable configuration, or the vendor's routine."""
    trials = [trial for trial in trials if not was_doubtful(trial, device)]
    vendor = next((trial for trial in trials if trial.is_vendor), None)
    if device.backend == "emulated":
        vendor = None  # the emulator exists to run our kernels, not to lose against the host
    changed = ""  # when the latest of the faster trials was made whose kernel exists no more (to the hour: one session)
    for trial in trials:
        config = None if trial.is_vendor else _usable(trial, problem, device, family)
        if config is None:
            continue
        if not is_current(trial, config, device, family):
            changed = max(changed, trial.date)
            continue
        if trial.date[:13] <= changed[:13]:
            return None  # it lost against a kernel whose text has changed since: that says nothing now
        far = 2.0 ** _distance(tall, long_sizes(problem))
        if far > FAR and _other_regime(problem, trial.problem, family):
            return None
        if far <= FAR and vendor_wins(vendor, trial):
            return Record(
                None,
                f"the array library took {_time(vendor)}, the best kernel {_time(trial)}, "
                f"measured at {_named(problem, tall)} ({place}, {trial.date[:10]})",
            )
        return Record(config, _reason(trial, vendor, problem, tall, far, place))
    return None


def _other_regime(problem: Problem, recorded: Problem, family: Family) -> bool:
    """Whether one of the two is over before a ring is set up, for families where that decides."""
    return family.is_short(problem) != family.is_short(recorded)


def _usable(trial: Trial, problem: Problem, device: Device, family: Family) -> Any:
    """The trial's configuration if it exists still and is legal for this problem."""
    try:
        config = family.space.from_dict(trial.config)
    except IllegalConfig:
        return None
    return config if family.space.illegal(problem, config, device) is None else None


def _reason(trial: Trial, vendor: Trial | None, problem: Problem, tall: Sizes, far: float, place: str) -> str:
    share = f", {trial.percent:.0f} % of the limit" if trial.percent else ""
    versus = f", the array library {_time(vendor)}" if vendor else ""
    versus += " (within the spread of both)" if is_undecided(vendor, trial) else ""
    goal = "tuned for energy, " if trial.joules else ""
    text = f"{goal}measured at {_named(problem, tall)}: {_time(trial)}{share}{versus} ({place}, {trial.date[:10]})"
    if far > FAR:
        asked = long_sizes(problem)
        side = "more" if prod(tall) < prod(asked) else "fewer"
        text += f"; no record is nearer to {_named(problem, asked)}, {far:.3g} times {side} rows"
    return text


def _distance(one: Sizes, other: Sizes) -> float:
    """How far apart two sizes are, in powers of two of the farthest dimension."""
    return max((abs(log2(a) - log2(b)) for a, b in zip(one, other, strict=True)), default=0.0)


def _named(problem: Problem, sizes: Sizes) -> str:
    names = family_of(problem.operation).spec.LONG
    return ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def _time(trial: Trial | None) -> str:
    """Time of a call, and its joules where these were measured."""
    if trial is None:
        return "-"
    joules = f"{units.quantity(trial.cost, 'J')} in " if trial.joules else ""
    return joules + units.duration(trial.median)


def _index_of(path: Path) -> Index:
    try:
        stat = path.stat()
    except OSError:
        return {}
    return _load(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _load(path: Path, mtime_ns: int, size: int) -> Index:
    last: dict[tuple[Problem, str, str], Trial] = {}
    for trial in Store(path):
        last[(trial.problem, config_key(trial.config), trial.kernel)] = trial
    index: Index = {}
    for trial in last.values():
        if trial.ok and trial.seconds and all(sizes := long_sizes(trial.problem)):
            index.setdefault(match_key(trial.problem), {}).setdefault(sizes, []).append(trial)
    for by_size in index.values():
        for trials in by_size.values():
            # finalists first: a lucky short measurement must not beat the repeated ones
            trials.sort(key=lambda trial: (-trial.round, trial.cost))
    return index


@lru_cache(maxsize=64)
def _headers(includes: str, without: str) -> str:
    return code_digest(includes, without)
