"""Runners: from configurations to trials. `DeviceRunner` compiles, verifies and times; `ReplayRunner` reads records.

Kernels of a batch are compiled in parallel and before any of them is timed, because compilers on all cores disturb
both CPU kernels and launches. A failure becomes a trial with its class; only a lost device stops the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_void_p
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .. import settings
from ..compile import nvrtc
from ..errors import CompileError, MansardError
from ..machine.measure import Timing, measure
from ..records.database import kernel_hash
from ..records.trials import VENDOR, Trial, config_key
from .cases import Case
from .verify import Verifier, Wrong

REPEATS = (3, 7, 15)  # samples per round: survivors of a round are timed again with more
TURNS = 5  # of the winner and the vendor's routine: a disturbance of some milliseconds does not decide
SAMPLE_SECONDS = 5e-4  # short kernels are called several times per sample
SLOW = 3.0  # a first call this many times slower than the best needs no repeats
PATIENCE = 20.0  # seconds a launch may take before it counts as hung
_NOT_READY = 600  # cuStreamQuery


class DeviceLost(MansardError, RuntimeError):
    """The device no longer answers in this process (a kernel faulted or hung). What was recorded is kept; tuning
    continues in a new process, which skips the culprit."""


class TimedOut(Exception):
    """A launch took longer than the patience of the runner."""


class Runner(Protocol):
    """Turns configurations into trials."""

    def run(self, configs: Iterable[Any]) -> Iterator[Trial]:
        """Try each configuration: the first, short round of timing. Yields as they end."""
        ...

    def again(self, trial: Trial, round: int) -> Trial:
        """Time a successful trial again with the repeats of `round`."""
        ...

    def vendor(self, round: int) -> Trial:
        """Time the array library's own routine."""
        ...

    def against_vendor(self, trial: Trial, round: int) -> tuple[Trial, Trial]:
        """Time a successful trial and the array library's own routine, in turn."""
        ...


@dataclass
class DeviceRunner:
    """Measures on the backend's device."""

    case: Case
    facts: dict[str, Any] = field(default_factory=dict)  # device, driver, compiler, ...: copied into every trial
    spills_allowed: bool = False
    predicted: Callable[[Any], float] | None = None
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        self.backend = self.case.backend
        self.verifier = Verifier(self.case)
        self.best = float("inf")

    def run(self, configs: Iterable[Any]) -> Iterator[Trial]:
        batch = list(configs)
        logs = self._compiled(batch)
        for config in batch:
            trial = self._try(config, logs[config])
            self.best = min(self.best, trial.median)
            yield trial
            if trial.status in ("runtime", "timeout"):
                self._check_device(trial)

    def again(self, trial: Trial, round: int) -> Trial:
        call, _written = self.call(trial)
        return trial.timed(self._time(call, round).seconds, round)

    def vendor(self, round: int) -> Trial:
        try:
            return self._vendor_trial().timed(self._time(self.case.vendor(), round).seconds, round)
        except Exception as error:  # it may need more memory than there is
            return replace(self._vendor_trial(), status="runtime", reason=f"{type(error).__name__}: {error}"[:500])

    def against_vendor(self, trial: Trial, round: int) -> tuple[Trial, Trial]:
        call, _written = self.call(trial)
        calls, samples = (call, self.case.vendor()), -(-REPEATS[round] // TURNS)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(TURNS):
            for one, taken in zip(calls, seconds, strict=True):
                taken += self._time(one, round, samples=samples).seconds
        own, vendor = (taken[: REPEATS[round]] for taken in seconds)
        return trial.timed(own, round), self._vendor_trial().timed(vendor, round)

    def call(self, trial: Trial) -> tuple[Callable[[], None], Any]:
        """A run of the trial's kernel, and the array it writes to: the run knows only its address, so hold on to it."""
        config, out = self.case.family.space.from_dict(trial.config), self.case.poisoned()
        return self.case.call(self.backend.prepare(self.case.kernel(config)), out), out

    def _vendor_trial(self) -> Trial:
        library = f"{self.case.xp.__name__} {self.case.xp.__version__}"
        return Trial(self.case.problem, VENDOR, "ok", **{**self.facts, "compiler": library})

    def _compiled(self, batch: list[Any]) -> dict[Any, str | Exception]:
        """Logs of the legal configurations of a batch, or what went wrong."""
        logs: dict[Any, str | Exception] = {}
        pool = ThreadPoolExecutor(max(1, settings.current().threads))
        try:
            work = {config: pool.submit(self._compile, config) for config in batch}
            for config, future in work.items():
                logs[config] = future.result()
        finally:  # an interruption must not wait for the rest of the queue
            pool.shutdown(wait=False, cancel_futures=True)
        return logs

    def _compile(self, config: Any) -> str | Exception:
        if self._illegal(config):
            return ""
        try:
            source = self.case.family.emit.source(self.case.problem, config, self.backend.device.backend)
            return str(self.backend.log(source))
        except CompileError as error:
            return error

    def _illegal(self, config: Any) -> str | None:
        return self.case.family.space.illegal(self.case.problem, config, self.backend.device)

    def _try(self, config: Any, log: str | Exception) -> Trial:
        """One candidate from its log to its first times; every way to fail has its class."""
        reason = self._illegal(config)
        if reason:
            values = self.case.family.space.to_dict(config)
            return Trial(self.case.problem, values, "constraints", reason=reason, **self.facts)
        trial = self._blank(config)
        if isinstance(log, CompileError):
            return replace(trial, status="compile", reason=_first_error(log.log))
        resources = nvrtc.resources(str(log))
        trial = replace(trial, registers=resources.registers)
        spilled = resources.spill_bytes + resources.stack_bytes
        if spilled and not self.spills_allowed:
            text = f"{resources.spill_bytes} bytes spilled, {resources.stack_bytes} bytes of stack"
            return replace(trial, status="spills", reason=text)
        try:
            return trial.timed(self._verified_times(config), 0)
        except Wrong as error:
            return replace(trial, status="correctness", reason=str(error))
        except TimedOut as error:
            return replace(trial, status="timeout", reason=str(error))
        except Exception as error:  # whatever a candidate breaks is this trial's result
            return replace(trial, status="runtime", reason=f"{type(error).__name__}: {error}"[:500])

    def _verified_times(self, config: Any) -> tuple[float, ...]:
        """Check, then time. Reproducible problems must give the same bits twice."""
        self.verifier.exact(config, self._wait)
        case = self.case
        launch, first, second = self.backend.prepare(case.kernel(config)), case.poisoned(), case.poisoned()
        case.call(launch, first)()
        self._wait()
        self.verifier.bounded(first)
        begin = time.perf_counter()
        case.call(launch, second)()
        self._wait()
        once = time.perf_counter() - begin
        if getattr(case.problem, "deterministic", True) and not bool(case.xp.all(first == second)):
            raise Wrong("two runs on the same operands differ, and a reproducible result was asked for")
        self.verifier.bounded(second)
        if once > SLOW * self.best + 1e-3:  # the clock of the host includes the launch
            return (once,)
        return self._time(case.call(launch, second), 0, once).seconds

    def _time(
        self, call: Callable[[], Any], round: int, once: float | None = None, samples: int | None = None
    ) -> Timing:
        if once is None:
            call()
            self.backend.synchronize(0)
            begin = time.perf_counter()
            call()
            self.backend.synchronize(0)
            once = time.perf_counter() - begin
        inner = max(1, min(50, round_up(SAMPLE_SECONDS / max(once, 1e-7))))
        return measure(call, self.backend, repeats=samples or REPEATS[round], warmup=1, inner=inner)

    def _blank(self, config: Any) -> Trial:
        values = self.case.family.space.to_dict(config)
        digest = kernel_hash(self.case.problem, config, self.backend.device, self.case.family)
        estimate = self.predicted(config) if self.predicted else None
        return Trial(self.case.problem, values, "ok", predicted=estimate, kernel=digest, **self.facts)

    def _wait(self) -> None:
        """Synchronize, but not for ever: a hung kernel cannot be stopped, only noticed."""
        if self.backend.name == "cuda":
            query, deadline = self.backend.driver.lib.cuStreamQuery, time.monotonic() + self.patience
            while query(c_void_p(0)) == _NOT_READY:
                if time.monotonic() > deadline:
                    raise TimedOut(f"not done after {self.patience:g} s")
        self.backend.synchronize(0)

    def _check_device(self, trial: Trial) -> None:
        """After a fault on a GPU every later call fails as well and would be blamed on innocent candidates."""
        if self.backend.name != "cuda":
            return
        if trial.status == "timeout":
            raise DeviceLost(f"a kernel hangs on {self.backend.device.name}: {trial.config}")
        try:
            self.backend.synchronize(0)
            self.case.xp.zeros(1).sum().item()
        except Exception as error:
            raise DeviceLost(f"{self.backend.device.name} is lost after {trial.config}: {error}") from error


@dataclass
class ReplayRunner:
    """Answers from recorded trials, so that strategies can be tested and compared without a device. A configuration
    that was never recorded fails as `runtime`."""

    trials: dict[str, Trial]  # by config_key
    to_dict: Callable[[Any], dict[str, Any]]
    template: Trial
    asked: list[str] = field(default_factory=list)

    @staticmethod
    def of(trials: Iterable[Trial], to_dict: Callable[[Any], dict[str, Any]]) -> ReplayRunner:
        by_key = {config_key(trial.config): trial for trial in trials}
        return ReplayRunner(by_key, to_dict, next(iter(by_key.values())))

    def run(self, configs: Iterable[Any]) -> Iterator[Trial]:
        for config in configs:
            values = self.to_dict(config)
            self.asked.append(config_key(values))
            missing = replace(self.template, config=values, status="runtime", seconds=(), reason="not recorded")
            yield replace(self.trials.get(config_key(values), missing), round=0)

    def again(self, trial: Trial, round: int) -> Trial:
        return replace(trial, round=round)

    def vendor(self, round: int) -> Trial:
        recorded = self.trials.get(config_key(VENDOR))
        return replace(recorded or replace(self.template, config=VENDOR, seconds=(1.0,), kernel=""), round=round)

    def against_vendor(self, trial: Trial, round: int) -> tuple[Trial, Trial]:
        return self.again(trial, round), self.vendor(round)


def round_up(value: float) -> int:
    return -int(-value // 1)


def _first_error(log: str) -> str:
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return (lines or log.splitlines() or ["no log"])[0][:500]
