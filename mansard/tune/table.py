"""Tables of winners: what is shipped in `data/` for known devices, and what is printed after a tune."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ..codegen.geometry import Device
from ..errors import IllegalConfig
from ..kernels.family import Family
from ..plan.problem import Problem
from ..records import database
from ..records.database import family_name
from ..records.trials import TIME, Store, Trial, goal_name, store_path

_FALLBACK = 1.25  # a variant this close to the winner is kept too: it may be legal where the winner is not


def export(
    device: Device, family: Family, path: Path | None = None, goal: str = TIME
) -> tuple[Path, int]:  # fmt: skip
    """Write the table of this device's winners by a goal; returns its path and the number of problems in it.

    Only records of today's kernel text are taken: others would never be served. What the table says of problems that
    were not measured here stays in it.
    """
    name = goal_name(family_name(family), goal)
    path = path or database.shipped_path(device, name)
    store = store_path(device, name)
    known = chain(Store(path), Store(store))  # of the same configuration the latter counts
    groups = grouped(trial for trial in known if trial.is_vendor or is_current(trial, device, family))
    chosen = [kept for trials in groups.values() if (kept := winners(trials))]
    lines = [trial.to_line() for kept in chosen for trial in kept]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path, len(chosen)


def is_current(trial: Trial, device: Device, family: Family) -> bool:
    """The trial's kernel text is still what would be generated."""
    if not trial.ok:
        return False
    try:
        config = family.space.from_dict(trial.config)
    except IllegalConfig:
        return False
    return database.is_current(trial, config, device, family)


def grouped(trials: Iterable[Trial]) -> dict[Problem, list[Trial]]:
    """Trials by problem, each configuration once (its last line), best first."""
    groups: dict[Problem, dict[tuple[str, str], Trial]] = {}
    for trial in trials:
        if trial.ok:
            groups.setdefault(trial.problem, {})[trial.key] = trial
    order = sorted(groups, key=lambda problem: (problem.operation, problem.dtype, problem.sizes, str(problem)))
    return {problem: sorted(groups[problem].values(), key=lambda t: (-t.round, t.cost)) for problem in order}


def winners(trials: list[Trial]) -> list[Trial]:
    """The best of each variant that comes close to the best, and the vendor's routine; medians instead of raw times."""
    own = [trial for trial in trials if not trial.is_vendor]
    if not own:
        return []
    firsts = {trial.config["VARIANT"]: trial for trial in reversed(own)}
    kept = [own[0], *(t for t in firsts.values() if t is not own[0] and t.cost <= _FALLBACK * own[0].cost)]
    kept += [trial for trial in trials if trial.is_vendor][:1]
    kept = [replace(trial, predicted=None, registers=0) for trial in kept]
    return [replace(t, seconds=(t.median,), joules=(t.cost,) if t.joules else ()) for t in kept]
