"""Record all problems in worker processes, then the public calls in a process of their own."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .journal import Journal

TESTS = Path(__file__).resolve().parent.parent
_QUEUED = 2  # problems per worker that are handed out ahead
_EVERY = 20  # problems between two lines of progress
_SETTINGS = {
    "MANSARD_LIBRARY_BELOW": "0", "MANSARD_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_THREAD_TIMEOUT": "4",
}  # fmt: skip
_UNSET = ("MANSARD_BACKEND", "MANSARD_SANITIZE", "MANSARD_EMULATED_ORDER", "MANSARD_GOAL")


def record(path: Path, entries: list[dict[str, Any]], jobs: int, seconds: float | None, cache: Path) -> bool:
    """Record what is missing in `path`; whether everything is there now. `seconds` limits when problems start."""
    deadline = time.monotonic() + seconds if seconds else float("inf")
    with _pool(1, cache) as pool:
        about = pool.submit(_about).result()
        call_names = pool.submit(_call_names).result()
    journal = Journal(path, about)
    missing = [entry for entry in entries if entry["name"] not in journal.lines]
    print(f"{len(entries)} problems, {len(entries) - len(missing)} of them recorded before", flush=True)
    if missing:
        _record_problems(journal, missing, jobs, deadline, cache)
    is_whole = all(entry["name"] in journal.lines for entry in entries)
    left = [name for name in call_names if name not in journal.lines]
    if is_whole and left and time.monotonic() < deadline:
        _record_calls(journal, left, cache)
    journal.finish()
    done = is_whole and all(name in journal.lines for name in call_names)
    print(f"{path}: {'complete' if done else 'not complete: run it again to go on'}", flush=True)
    return done


def _record_problems(
    journal: Journal, missing: list[dict[str, Any]], jobs: int, deadline: float, cache: Path
) -> None:  # fmt: skip
    started, done = time.monotonic(), 0
    waiting = iter(missing)
    pending: set[Future[dict[str, Any]]] = set()
    with _pool(jobs, cache) as pool:
        try:
            while True:
                while len(pending) < _QUEUED * jobs and time.monotonic() < deadline:
                    entry = next(waiting, None)
                    if entry is None:
                        break
                    pending.add(pool.submit(_outcomes, entry))
                if not pending:
                    return
                ready, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in ready:
                    journal.append(future.result())
                    done += 1
                    if done % _EVERY == 0 or done == len(missing):
                        _progress(done, len(missing), time.monotonic() - started)
        except KeyboardInterrupt:
            print("interrupted: problems under way are lost, others are recorded", flush=True)
            pool.shutdown(wait=False, cancel_futures=True)


def _record_calls(journal: Journal, names: list[str], cache: Path) -> None:
    with _pool(1, cache) as pool:
        for number, name in enumerate(names, 1):
            line = pool.submit(_call, name).result()
            journal.append(line)
            found = line["calls"] if "calls" in line else line["error"]
            print(f"[call {number}/{len(names)}] {name}: {found} Python calls", flush=True)


def _progress(done: int, total: int, seconds: float) -> None:
    left = seconds / done * (total - done)
    print(f"[{done}/{total}] {seconds / done:.2f} s per problem, {left / 60:.0f} min left", flush=True)


# ---- in the workers ---------------------------------------------------------------------------------------


def _pool(jobs: int, cache: Path) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(str(cache),))


def _begin(cache: str) -> None:
    """Settle what the library reads from the environment, before it is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(_SETTINGS, MANSARD_CACHE_DIR=cache)
    for name in _UNSET:
        os.environ.pop(name, None)
    from . import adapter

    adapter.prepare()


def _about() -> dict[str, Any]:
    """What a recording depends on besides the problems: the package's content and the compilers."""
    from . import adapter

    digest = hashlib.sha256()
    for path in sorted(adapter.PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(adapter.PACKAGE)}\0".encode() + path.read_bytes())
    return {"package": digest.hexdigest()[:16], "python": platform.python_version(), **adapter.versions()}


def _outcomes(entry: dict[str, Any]) -> dict[str, Any]:
    """One problem on all targets, with the seconds it took."""
    from . import adapter

    started = time.monotonic()
    found: dict[str, Any] = {}
    for target in adapter.TARGETS:
        try:
            found[target] = adapter.outcome(entry, target)
        except Exception as error:
            found[target] = {"error": type(error).__name__, "message": str(error)[:300]}
    line = {key: value for key, value in entry.items() if key != "config"}
    return {**line, "targets": found, "seconds": round(time.monotonic() - started, 2)}


def _call_names() -> list[str]:
    from . import calls

    return sorted(calls.names())


def _call(name: str) -> dict[str, Any]:
    from . import calls

    try:
        return {"name": name, "family": "calls", **calls.measured(name)}
    except Exception as error:
        return {"name": name, "family": "calls", "error": f"{type(error).__name__}: {str(error)[:300]}"}
