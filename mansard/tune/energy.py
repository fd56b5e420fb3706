"""Tuning for energy: the fastest configurations measured again, by joules per call instead of seconds.

A problem is tuned for time first, which verifies every candidate and finds those that are fast. Of these, the ones
within `_CLOSE` of the fastest get a window of back-to-back calls each, net of idle power, and the three that use least
get more, in turn with the vendor's routine. Records of this goal have files of their own (`<family>.energy.jsonl`).
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import EnergyUnreadable
from ..kernels import family_of
from ..machine import energy, meter
from ..machine.meter import Meter
from ..plan.problem import Problem
from ..records.database import family_name, kernel_hash
from ..records.trials import ENERGY, Store, Trial, config_key, goal_name, store_path
from .cases import Case, make_case
from .observer import Observer
from .runner import DeviceRunner
from .session import TuningResult, facts, tune_problem

WINDOW = 1.0  # seconds: ten steps of a GPU's counter
_IDLE, _REST = 1.0, 0.2  # seconds in which idle power is read, and of rest before a window
_CANDIDATES, _CLOSE = 8, 1.5  # configurations that are measured, and how many times slower than the fastest they may be
_FINALISTS, _MORE = 3, 2  # who is measured again, and how many windows more
TRIALS = 1 + _MORE  # windows of a finalist


class _Timing(Observer):
    """Passes on what happens while a problem is tuned for time, but not that it is done."""

    def __init__(self, observer: Observer) -> None:
        self.started, self.trial = observer.started, observer.trial  # type: ignore[method-assign]


@dataclass
class Windows:
    """Takes windows of one problem's kernels."""

    runner: DeviceRunner
    meter: Meter
    idle: dict[str, float]  # watts

    def add(self, trial: Trial) -> Trial:
        """The trial with one more window: joules and seconds of a call."""
        if trial.is_vendor:
            call, _written = self.runner.case.vendor(), None
        else:
            call, _written = self.runner.call(trial)
        time.sleep(_REST)
        with closing(meter.chunks(call, self.runner.backend)) as running:
            window = self.meter.window(running, WINDOW)
        joules = meter.net_joules(asdict(window), self.idle)
        if joules <= 0:
            raise EnergyUnreadable(f"{trial.config['VARIANT']} used no more than the idle device: too small a problem")
        more = (*trial.seconds[: len(trial.joules)], window.seconds / window.calls)
        return replace(trial, seconds=more, joules=(*trial.joules, joules), round=len(more) - 1)


def tune_energy(
    problem: Problem, backend: Any, strategy: str = "top", limit: int = 24, progress: Observer | None = None, *,
    seed: int = 0, deadline: float = float("inf"), case: Case | None = None,
) -> TuningResult:  # fmt: skip
    """Find the configuration that uses the fewest joules per call; arguments and records are as of `tune_problem`."""
    counter, observer = energy.counter(backend), progress or Observer()
    half = deadline - (deadline - time.monotonic()) / 2 if deadline < float("inf") else deadline
    timed = tune_problem(problem, backend, strategy, limit, _Timing(observer), seed=seed, deadline=half, case=case)
    case = case or make_case(problem, backend)
    try:
        idle = Meter(counter).idle(_IDLE).watts()
        windows = Windows(DeviceRunner(case, facts(problem, backend)), Meter(counter), idle)
        return _measured(timed, windows, observer, deadline)
    finally:
        case.close()


def _measured(timed: TuningResult, windows: Windows, observer: Observer, deadline: float) -> TuningResult:
    problem, device = timed.problem, windows.runner.backend.device
    family = family_of(problem.operation)
    store = Store(store_path(device, goal_name(family_name(family), ENERGY)))
    known = store.trials(problem)
    field: dict[str, Trial] = {}
    for trial in _field(timed):
        config = None if trial.is_vendor else family.space.from_dict(trial.config)
        digest = kernel_hash(problem, config, device, family) if config else ""
        fresh = replace(trial, kernel=digest, date=windows.runner.facts["date"])
        field[config_key(trial.config)] = known.get((config_key(trial.config), digest)) or fresh
    result = replace(timed, trials=[], vendor=None, goal=ENERGY)

    def extend(name: str, count: int) -> None:
        """Windows of a trial up to `count` of them, unless the time is over."""
        while len(field[name].joules) < count:
            if time.monotonic() > deadline:
                result.complete = False
                return
            field[name] = windows.add(field[name])
            store.append(field[name])
            observer.trial(field[name], repeated=len(field[name].joules) > 1)

    for name in field:
        extend(name, 1)
    measured = {name: trial for name, trial in field.items() if trial.joules}
    own = sorted((name for name in measured if not measured[name].is_vendor), key=lambda name: measured[name].cost)
    finalists = own[:_FINALISTS] + [name for name in measured if measured[name].is_vendor]
    for count in range(2, _MORE + 2):  # in turn: what disturbs one disturbs the others
        for name in finalists:
            extend(name, count)
    result.trials = [field[name] for name in own]
    result.vendor = next((trial for trial in field.values() if trial.is_vendor and trial.joules), None)
    result.best = family.space.from_dict(result.winner.config) if result.winner else None
    observer.finished(result)
    return result


def _field(timed: TuningResult) -> list[Trial]:
    """Trials that are measured: the fastest ones, and the vendor's routine."""
    ranked = sorted((trial for trial in timed.trials if trial.ok), key=lambda trial: (-trial.round, trial.median))
    fastest = min((trial.median for trial in ranked), default=0.0)
    near = [trial for trial in ranked if trial.median <= _CLOSE * fastest][:_CANDIDATES]
    vendor = [timed.vendor] if timed.vendor and timed.vendor.median <= _CLOSE * fastest else []
    return near + vendor
