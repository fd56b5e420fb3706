"""One problem: the choice, and the fastest configuration that a search finds, timed in the same run."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from ...backends.base import Backend
from ...kernels import family_of
from ...plan import dispatch
from ...plan.problem import Problem
from ...records.trials import Trial
from ...tune.cases import make_case
from ...tune.runner import DeviceRunner
from ...tune.search import search_space
from ...tune.session import facts
from ...tune.strategy import spread

_FINALISTS = 3
_LAST = 2  # the round of timing with the most samples


@dataclass(frozen=True)
class Compared:
    """Seconds of the choice and of the best configuration found, and how many of how many were tried."""

    problem: Problem
    origin: str  # rule, model, or tuned (by a range of sizes that was measured on this device)
    choice: dict[str, Any]
    best: dict[str, Any]
    choice_seconds: float
    best_seconds: float
    tried: int
    legal: int

    @property
    def share(self) -> float:
        """The best time over that of the choice: 1 is perfect."""
        return min(1.0, self.best_seconds / self.choice_seconds)

    def row(self) -> dict[str, Any]:
        """As a line of the journal."""
        names = ("origin", "choice", "best", "choice_seconds", "best_seconds", "tried", "legal")
        return {"problem": str(self.problem), "family": self.problem.operation, "share": self.share} | {
            name: getattr(self, name) for name in names
        }


def compare(problem: Problem, backend: Backend, limit: int, seed: int) -> Compared | str:
    """The comparison, or why there is none. Of the legal configurations `limit` are tried, half of them the ones that
    tuning would try, half drawn at random; all if there are no more."""
    chosen = dispatch.choose(problem, backend.device)
    if chosen.config is None:
        return f"{problem}: {chosen.reason}"
    space = search_space(problem, backend.device, family_of(problem.operation))
    configs = list(space.legal)
    if len(configs) > limit:
        likely = spread(space, limit // 2)
        configs = [*likely, *random.Random(seed).sample(configs, limit - len(likely))]
    configs = list(dict.fromkeys([chosen.config, *configs]))
    case = make_case(problem, backend)
    try:
        runner = DeviceRunner(case, facts(problem, backend), predicted=space.predicted)
        trials = dict(zip(configs, runner.run(configs), strict=True))
        return _judged(problem, chosen.origin, chosen.config, trials, runner, len(space.legal))
    finally:
        case.close()


def _judged(
    problem: Problem, origin: str, config: Any, trials: dict[Any, Trial], runner: DeviceRunner, legal: int
) -> Compared | str:
    """The fastest few and the choice are timed again, in turn; of two looks the better one counts."""
    own = trials[config]
    if not own.ok:
        return f"{problem}: the choice failed: {own.status}, {own.reason}"
    fastest = sorted((one for one in trials.values() if one.ok), key=lambda trial: trial.median)[:_FINALISTS]
    finalists = [_again(one, runner) for one in (*fastest, own)]
    best = min(finalists, key=lambda trial: trial.median)
    return Compared(problem, origin, own.config, best.config, finalists[-1].median, best.median, len(trials), legal)


def _again(trial: Trial, runner: DeviceRunner) -> Trial:
    second = runner.again(trial, _LAST)
    return second if second.median < trial.median else replace(trial, round=_LAST)
