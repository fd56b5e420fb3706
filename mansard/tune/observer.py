"""Observers watch a tune: progress for people, nothing for programs. They never influence it."""

from __future__ import annotations

import sys
import time
from typing import Any

from .. import units
from ..plan.problem import Problem
from ..records.trials import Trial


class Observer:
    """Watches and does nothing; override what is of interest."""

    def started(self, problem: Problem, trials: int) -> None:
        """A problem begins; about so many trials follow."""

    def trial(self, trial: Trial, repeated: bool) -> None:
        """A trial ended. `repeated`: it was already recorded, or is timed again in a later round."""

    def finished(self, result: Any) -> None:
        """A problem is done; `result` is its TuningResult."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Lines(Observer):
    """One line per problem, with the time that is left: for logs and terminals without colours."""

    def __init__(self, problems: int, stream: Any = None) -> None:
        self.problems, self.done, self.begin = problems, 0, time.monotonic()
        self.stream = stream or sys.stdout

    def finished(self, result: Any) -> None:
        self.done += 1
        left = (time.monotonic() - self.begin) / self.done * (self.problems - self.done)
        print(f"[{self.done}/{self.problems}, {left:.0f} s left] {result.line()}", file=self.stream, flush=True)


class Bar(Observer):
    """A bar over all problems with the time left, and the best so far of the current one."""

    def __init__(self, problems: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns)
        self._task = self._progress.add_task("tuning", total=problems)
        self._steps, self._done, self._fraction = 1, 0, 0.0
        self._best: float = float("inf")
        self._problem = ""

    def __enter__(self) -> Bar:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.__exit__(*error)  # type: ignore[arg-type]

    def started(self, problem: Problem, trials: int) -> None:
        sizes = " ".join(f"{name}={value}" for name, value in problem.sizes)
        self._steps, self._fraction, self._best = max(1, trials), 0.0, float("inf")
        self._problem = f"{problem.operation} {problem.dtype} {sizes}"
        self._show()

    def trial(self, trial: Trial, repeated: bool) -> None:
        self._best = min(self._best, trial.median)
        self._fraction = min(0.99, self._fraction + 1 / self._steps)
        self._show()

    def finished(self, result: Any) -> None:
        self._done, self._fraction = self._done + 1, 0.0
        self._show()

    def _show(self) -> None:
        best = "" if self._best == float("inf") else f"  {units.duration(self._best)}"
        self._progress.update(self._task, completed=self._done + self._fraction, description=self._problem + best)


def for_terminal(problems: int) -> Observer:
    """A bar where a person watches and rich is installed, plain lines elsewhere."""
    if not sys.stdout.isatty():
        return Lines(problems)
    try:
        return Bar(problems)
    except ImportError:
        return Lines(problems)
