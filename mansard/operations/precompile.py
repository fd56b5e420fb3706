"""Filling the cache of compiled kernels ahead: for problems as `ms.plan` takes them, or for a recorded file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .. import notices, settings, untrusted
from ..backends import cpu, cuda, emulated
from ..backends.base import Described
from ..errors import BackendUnavailable, MansardError, UsageError
from ..plan import pin
from ..plan.explain import Absent
from . import recording
from .launcher import LAUNCHER
from .planning import plan

_MOST_LINES = 100_000  # of a file, distinct ones: as many kernels take a day to compile
Task = tuple[str, Callable[[], object]]  # a name for people, and what compiles
Progress = Callable[[int, int, "Outcome"], None]  # (done, all, the one that is done)


class Outcome(NamedTuple):
    """What became of one problem: seconds that it took (compiled before: next to none), and what went wrong."""

    what: str
    seconds: float
    error: str = ""


def precompile(
    problems: str | os.PathLike[str] | Iterable[tuple[Any, ...]], *, threads: int | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:  # fmt: skip
    """Compile the kernels of `problems` ahead, several at once, so that no later call waits for a compiler.

    Parameters
    ----------
    problems : a file that `MANSARD_RECORD` has written, or tuples of `ms.plan`'s arguments: an operation, its operands
        (arrays of the right shape and dtype, of any content), and at the end, maybe, a dictionary of options
    threads : compilers side by side; as many as the process may use cores if left out
    progress : called with the number of problems that are done, the number of all, and the `Outcome` of the last one

    Returns
    -------
    An `Outcome` for each problem, in their order: what it is, seconds, and an error's text if there was one. Calls that
    the array library answers need no kernel, and nothing is compiled for them. Ctrl-C ends it; what has been compiled
    stays in the cache.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> A, b = np.empty((500, 6, 6)), np.empty((500, 6, 1))
    >>> [done.error for done in ms.precompile([("solve", A, b), ("gram", np.empty((50_000, 8)), {"conj": False})])]
    ['', '']
    """
    if pin.pins():
        raise UsageError("precompile compiles what calls without pins run: call it outside of ms.pin")
    tasks: list[Task]
    if isinstance(problems, str | os.PathLike):
        tasks = [(recording.title(line.problem), partial(_compile, line)) for line in recorded(Path(problems))]
    else:
        tasks = [_task(number, one) for number, one in enumerate(problems)]
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least one is needed")
    LAUNCHER.wait()
    return _side_by_side(tasks, threads or settings.current().threads, progress)


def recorded(path: Path) -> list[recording.Recorded]:
    """The distinct problems of a file; lines that hold none are skipped with one warning."""
    if not path.is_file():
        raise UsageError(f"{path} is no file: record one with MANSARD_RECORD={path}")
    found: dict[str, recording.Recorded] = {}
    for line in untrusted.each_line(path, recording.read):
        found.setdefault(repr(line), line)
        if len(found) > _MOST_LINES:
            raise UsageError(f"{path} holds more than {_MOST_LINES} problems: divide it")
    return list(found.values())


def _task(number: int, given: object) -> Task:
    """The name of a problem that is given as arguments of `ms.plan`, and the call that compiles its kernels."""
    if not isinstance(given, tuple | list) or len(given) < 2 or not isinstance(given[0], str):
        raise TypeError(f"problems[{number}] is no tuple of an operation's name and its operands")
    *operands, last = given[1:]
    options = last if isinstance(last, dict) else {}
    operands = operands if isinstance(last, dict) else [*operands, last]
    return str(given[0]), partial(plan, given[0], *operands, **options)


def _compile(line: recording.Recorded) -> None:
    backend = _backend_of(line)
    kernel = recording.kernel_of(line, backend.device)
    if kernel is not None:
        with notices.compiling(recording.title(line.problem)):
            backend.log(kernel.source)


def _backend_of(line: recording.Recorded) -> Described:
    """The backend that a recorded kernel is compiled for; a GPU that is not here by its description."""
    if line.backend == "cuda":
        if cuda.unavailable() is None and (line.device is None or cuda.backend().device.arch == line.device.arch):
            return cuda.backend()
        if line.device is None:
            raise BackendUnavailable("recorded for a GPU that it does not describe: record it again")
        return Absent(line.device)
    reason = emulated.unavailable() if line.backend == "emulated" else cpu.unavailable()
    if reason:
        raise BackendUnavailable(reason)
    return emulated.backend() if line.backend == "emulated" else cpu.backend()


def _side_by_side(
    tasks: list[Task], threads: int, progress: Progress | None
) -> list[Outcome]:  # fmt: skip
    """Run the tasks in a few threads: compilers are processes, or release the interpreter's lock."""
    outcomes: dict[int, Outcome] = {}
    pool = ThreadPoolExecutor(max(1, min(threads, len(tasks))))
    try:
        futures: dict[Future[Outcome], int] = {pool.submit(_outcome, *task): i for i, task in enumerate(tasks)}
        for done, future in enumerate(as_completed(futures), 1):
            outcomes[futures[future]] = future.result()
            if progress:
                progress(done, len(tasks), future.result())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # after Ctrl-C, what has begun is finished
    return [outcomes[i] for i in range(len(tasks))]


def _outcome(what: str, run: Callable[[], object]) -> Outcome:
    begun, error = time.perf_counter(), ""
    try:
        run()
    except (MansardError, ValueError, TypeError) as found:
        error = str(found).splitlines()[0]
    return Outcome(what, round(time.perf_counter() - begun, 3), error)
