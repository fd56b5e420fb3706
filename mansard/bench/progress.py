"""Progress with time left: a bar on a terminal, a line every few seconds elsewhere (logs, notebooks, CI)."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

_EVERY = 10.0  # seconds between plain lines


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """If what is inside takes longer, show on the standard error where it is, again and again; it goes on."""
    try:
        faulthandler.dump_traceback_later(seconds, repeat=True)
    except (OSError, ValueError, RuntimeError, AttributeError):  # no file behind sys.stderr, as in notebooks
        yield
        return
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Progress:
    """Counts steps of one stage. `deadline` (of `time.monotonic`) shortens the time left that is shown."""

    def __init__(self, title: str, total: int, deadline: float | None = None) -> None:
        self.title, self.total, self.done = title, total, 0
        self._deadline = deadline
        self._begin = self._last = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[now]}"),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, now="")
        elif self.total:
            self._line("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if self.total and (self._bar or self.done):
            spent = time.monotonic() - self._begin
            print(f"{self.title}: {self.done} of {self.total} in {spent:.0f} s", file=sys.stderr, flush=True)

    def step(self, now: str = "") -> None:
        self.done += 1
        if self._bar:
            self._bar.update(self._task, advance=1, now=now)
        elif time.monotonic() - self._last > _EVERY:
            self._line(now)

    def tell(self, now: str) -> None:
        """Say what goes on within a step."""
        if self._bar:
            self._bar.update(self._task, now=now)
        elif time.monotonic() - self._last > _EVERY:
            self._line(now)

    def left(self) -> float:
        """Seconds left, by the pace so far."""
        now = time.monotonic()
        pace = (now - self._begin) / self.done if self.done else 0.0
        left = pace * (self.total - self.done)
        return min(left, max(0.0, self._deadline - now)) if self._deadline else left

    def _line(self, now: str) -> None:
        self._last = time.monotonic()
        left = f", about {self.left():.0f} s left" if self.done else ""
        print(f"{self.title}: {self.done} of {self.total}{left}  {now}", file=sys.stderr, flush=True)
