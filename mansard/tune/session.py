"""One problem tuned from end to end: space, strategy, runner, records, result.

Every trial is recorded as it ends, so an interrupted session loses nothing and the next one skips what is known for
the same kernel text. Timing is by successive halving: all candidates get few repeats, the faster half more, the last
few most, together with the vendor's routine.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .. import settings, units
from ..compile import cxx, nvrtc
from ..errors import BackendUnavailable, UnsupportedProblem
from ..kernels import family_of
from ..machine import machine, roofline
from ..machine.measure import Timing
from ..plan.problem import Problem
from ..records.database import family_name, kernel_hash
from ..records.trials import TIME, Store, Trial, config_key, store_path
from ..records.verdict import DOUBTFUL, excess, is_undecided, judged, vendor_wins, was_doubtful
from ..version import __version__
from .cases import CASES, Case, make_case
from .observer import Observer
from .runner import REPEATS, DeviceRunner, Runner
from .search import SearchSpace, search_space
from .strategy import STRATEGIES

_FINALISTS = {1: 8, 2: 3}  # round -> how many are timed again
_CLOSE = 1.5  # nobody slower than this many times the fastest is timed again
_UNSTEADY = 0.1  # spread of a winner's samples above which the machine is called busy


@dataclass
class TuningResult:
    """What a tune found. `best` is None if no configuration worked."""

    problem: Problem
    best: Any
    trials: list[Trial]
    vendor: Trial | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    complete: bool = True  # False: the time budget ended it
    remark: str = ""  # of a winner above 105 % of the limit: what explains it
    goal: str = TIME  # what was minimised

    @property
    def winner(self) -> Trial | None:
        """The fastest trial of those that came furthest; of those for energy, the one with fewest joules."""
        return min((trial for trial in self.trials if trial.ok), key=lambda t: (-t.round, t.cost), default=None)

    @property
    def vendor_wins(self) -> bool:
        """The vendor's routine is faster than every configuration by more than the samples of both spread."""
        return vendor_wins(self.vendor, self.winner)

    def line(self) -> str:
        """The outcome in one line."""
        winner = self.winner
        sizes = " ".join(f"{name}={value}" for name, value in self.problem.sizes)
        text = f"{self.problem.operation} {self.problem.dtype} {sizes}: "
        if not winner:
            return text + f"no configuration worked ({self.failures()}{self._example()})"
        text += f"{winner.config['VARIANT']} {_cost(winner)}"
        text += f", {winner.percent:.1f} % of the limit" if winner.percent else ""
        text += f" ({self.remark})" if self.remark else ""
        return text + self._against_vendor() + self._unsteady()

    def _example(self) -> str:
        reason = next((trial.reason for trial in self.trials if trial.reason), "")
        return f"; for example {reason}" if reason else ""

    def _against_vendor(self) -> str:
        if not self.vendor:
            return ""
        text = f", vendor {_cost(self.vendor)}"
        if is_undecided(self.vendor, self.winner):
            return text + " (no clear winner: the samples overlap)"
        return text + (" (which wins)" if self.vendor_wins else "")

    def _unsteady(self) -> str:
        spread = Timing(self.winner.samples).spread if self.winner else 0.0
        return f"; samples differ by {100 * spread:.0f} %: the machine is busy" if spread > _UNSTEADY else ""

    def failures(self) -> str:
        """How many trials failed, by class."""
        counts = Counter(trial.status for trial in self.trials if not trial.ok)
        return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no failures"

    def summary(self, count: int = 5) -> str:
        """The fastest configurations, what failed and what was dropped, as text."""
        ranked = sorted((trial for trial in self.trials if trial.ok), key=lambda t: (-t.round, t.cost))
        rows = [
            f"  {_cost(trial):>10}  {trial.percent or 0:5.1f} %  "
            + " ".join(f"{name}={value}" for name, value in trial.config.items())
            for trial in [*ranked[:count], *([self.vendor] if self.vendor else [])]
        ]
        rows.append(f"  {len(self.trials)} trials: {len(ranked)} timed, {self.failures()}")
        rows += [f"  {number} left out, {why}" for why, number in self.dropped.items()]
        reasons = {trial.status: trial.reason for trial in self.trials if not trial.ok}
        rows += [f"  {status}, for example: {reason}" for status, reason in reasons.items()]
        return "\n".join([self.line(), *rows])


def _cost(trial: Trial) -> str:
    """Time of a call, and its joules where these were measured."""
    joules = f"{units.quantity(trial.cost, 'J')} in " if trial.joules else ""
    return joules + units.duration(trial.median)


def tune_problem(
    problem: Problem,
    backend: Any,
    strategy: str = "top",
    limit: int = 24,
    progress: Observer | None = None,
    *,
    seed: int = 0,
    deadline: float = float("inf"),
    case: Case | None = None,
) -> TuningResult:
    """Measure candidates for `problem` on the backend's device, record every trial, return the outcome.

    `strategy` is one of STRATEGIES; `deadline` (of `time.monotonic`) ends the search early but still gives a result.
    `case` has the operands, which are made up unless it is given. KeyboardInterrupt passes through: whatever ended
    before it is on disk.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}")
    if not hasattr(backend, "prepare"):
        raise BackendUnavailable(f"backend {backend.name} compiles no kernels: there is nothing to tune")
    family, problem = family_of(problem.operation), _fitted(problem, backend)
    empty = 0 in (size for name, size in problem.sizes if name != "NRHS")  # a factorization has no right-hand sides
    refusal = family.spec.refusal(problem) or ("nothing to compute" if empty else None)
    if refusal:
        raise UnsupportedProblem(f"{refusal}; there is nothing to tune")
    space = search_space(problem, backend.device, family)
    case = case or make_case(problem, backend)
    runner = DeviceRunner(case, facts(problem, backend), strategy == "exhaustive", space.predicted)
    store = Store(store_path(backend.device, family_name(family)))
    try:
        return Session(space, runner, store, progress, deadline).run(strategy, limit, seed)
    finally:
        case.close()


def _fitted(problem: Problem, backend: Any) -> Problem:
    kind = CASES.get(problem.operation)
    return problem if kind is None else kind.fitted(problem, backend)


class Session:
    """The state of one tune: what is known, what was tried."""

    def __init__(
        self,
        space: SearchSpace,
        runner: Runner,
        store: Store,
        observer: Observer | None = None,
        deadline: float = float("inf"),
    ) -> None:
        self.space, self.runner, self.store = space, runner, store
        self.observer, self.deadline = observer or Observer(), deadline
        device = space.device
        self.known = {key: one for key, one in store.trials(space.problem).items() if not was_doubtful(one, device)}
        self.tried: dict[Any, Trial] = {}  # by configuration
        self.complete = True

    def run(self, strategy: str, limit: int, seed: int) -> TuningResult:
        batches = STRATEGIES[strategy](self.space, limit, seed)
        count = len(self.space.legal) if strategy == "exhaustive" else limit
        self.observer.started(self.space.problem, count + sum(_FINALISTS.values()) + 2)
        try:
            batch = next(batches)
            while True:
                self._try(batch)
                batch = batches.send({config: trial.median for config, trial in self.tried.items()})
        except StopIteration:
            pass
        vendor = self._finals()
        vendor = vendor if vendor and vendor.ok else None
        trials = list(self.tried.values())
        result = TuningResult(self.space.problem, None, trials, vendor, self.space.dropped, self.complete)
        if result.winner:
            result.best = self.space.family.space.from_dict(result.winner.config)
            above = excess(result.winner, self.space.device)
            result.remark = above.reason if above else ""
        self.observer.finished(result)
        return result

    def _try(self, batch: list[Any]) -> None:
        """Try what is not on record; the rest is taken from it."""
        new = []
        for config in batch:
            known = self._recorded(config)
            if known:
                self.tried[config] = known
                self.observer.trial(known, repeated=True)
            elif self._out_of_time():
                return
            else:
                new.append(config)
        for some in self._portions(new):
            for trial, config in zip(self.runner.run(some), some, strict=False):
                self.tried[config] = self._record(trial, repeated=False)
                if self._out_of_time():
                    return

    def _portions(self, configs: list[Any]) -> Iterator[list[Any]]:
        """Configurations that are compiled together before one of them is timed: all, but with a deadline only as many
        as there are compilers at once, because compiling takes most of the time."""
        size = len(configs) if self.deadline == float("inf") else max(1, settings.current().threads)
        for begin in range(0, len(configs), max(1, size)):
            yield configs[begin : begin + size]

    def _recorded(self, config: Any) -> Trial | None:
        space = self.space
        if space.family.space.illegal(space.problem, config, space.device):
            return None
        digest = kernel_hash(space.problem, config, space.device, space.family)
        return self.known.get((config_key(space.family.space.to_dict(config)), digest))

    def _finals(self) -> Trial | None:
        """Later rounds among the fastest, and the vendor's routine beside the last of them."""
        if not self.tried:
            return None
        vendor = self._vendor(0)
        for round, count in _FINALISTS.items():
            while not self._out_of_time():
                config = self._next_finalist(round, count)
                if config is None:
                    break
                self.tried[config] = self._record(self.runner.again(self.tried[config], round), repeated=True)
        return self._last_word(vendor) if not self._out_of_time() else vendor

    def _last_word(self, vendor: Trial) -> Trial:
        """The vendor's times, taken in turn with the winner's: what disturbs one disturbs the other. Of two looks at
        the winner the better one counts."""
        last = len(REPEATS) - 1
        finalists = {config: trial for config, trial in self.tried.items() if trial.ok}
        if not vendor.ok or vendor.round >= last or not finalists:
            return vendor
        config = min(finalists, key=lambda one: (-finalists[one].round, finalists[one].median))
        before = finalists[config]
        own, vendor = self.runner.against_vendor(before, last)
        if before.round < last or own.median < before.median:  # other work only slows a kernel down
            self.tried[config] = self._record(own, repeated=True)
        self.known[vendor.key] = vendor = self._record(vendor, repeated=True)
        return vendor

    def _next_finalist(self, round: int, count: int) -> Any:
        """Who is timed again in this round: the fastest of the round before while there are places, and then whoever
        still looks faster than the best of this round, so that no winner owes its place to a worse measurement."""
        medians = {config: trial.median for config, trial in self.tried.items() if trial.ok}
        through = [config for config in medians if self.tried[config].round >= round]
        waiting = [config for config in medians if self.tried[config].round == round - 1]
        if not waiting:
            return None
        first = min(waiting, key=lambda config: medians[config])
        fastest = min((medians[config] for config in through), default=medians[first])
        return first if medians[first] < (fastest if len(through) >= count else _CLOSE * fastest) else None

    def _vendor(self, round: int) -> Trial:
        known = next((trial for trial in self.known.values() if trial.is_vendor and trial.ok), None)
        if known and known.round >= round:
            return known
        trial = self._record(self.runner.vendor(round), repeated=round > 0)
        self.known[trial.key] = trial
        return trial

    def _record(self, trial: Trial, repeated: bool) -> Trial:
        """Remember a trial, unless it is faster than this device allows."""
        trial = judged(trial, self.space.device)
        if trial.status != DOUBTFUL:
            self.store.append(trial)
        self.observer.trial(trial, repeated)
        return trial

    def _out_of_time(self) -> bool:
        late = time.monotonic() > self.deadline
        self.complete = self.complete and not late
        return late


def facts(problem: Problem, backend: Any) -> dict[str, Any]:
    """What every trial of this session states: where, with what, when, and the roofline's limit."""
    ceilings = machine.known(backend.device)
    bound = roofline.time_bound(family_of(problem.operation).work.work(problem), ceilings)
    cuda = backend.name == "cuda"
    return {
        "bound": bound.seconds if ceilings.measured else None,  # no percentage of a limit nobody measured
        "device": backend.device.name,
        "arch": backend.device.arch,
        "driver": backend.driver.version() if cuda else f"{platform.system()} {platform.release()}",
        "compiler": f"nvrtc {nvrtc.version()}" if cuda else cxx.find_compiler()[1],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
    }
