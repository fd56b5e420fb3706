"""All settings, read from the environment in this file and nowhere else.

| variable                | meaning                                                                       |
|-------------------------|-------------------------------------------------------------------------------|
| `MANSARD_CACHE_DIR`     | where compiled kernels, measured ceilings and tuning records live             |
| `MANSARD_BACKEND`       | run CPU arrays on this backend: `cpu` (default), `emulated` or `reference`    |
| `MANSARD_THREADS`       | CPU threads a kernel may use (default: the process' cores; of several ranks, a share) |
| `MANSARD_CXX`           | the C++ compiler (default: `$CXX`, then g++, clang++, c++)                    |
| `MANSARD_SANITIZE`      | `1`: build emulated kernels with AddressSanitizer and UBSan                   |
| `MANSARD_EMULATED_ORDER`| thread order of the emulator: `forward`, `reverse`, `random`, `greedy` or `greedy-reverse` |
| `MANSARD_GOAL`          | `time` (default) or `energy`: which of the tuner's winners calls take          |
| `MANSARD_LIBRARY_BELOW` | microseconds of work below which the array library answers on CPUs (default 20; 0: never) |
| `MANSARD_LAUNCHER`      | `python`: calls are launched by Python; the native launcher is neither compiled nor loaded |
| `MANSARD_QUIET`         | `1`: compilations that take longer than a second are not mentioned on stderr  |
| `MANSARD_RECORD`        | a file that receives every problem a kernel is prepared for (`mansard precompile`) |
| `CUDA_PATH`             | a CUDA toolkit whose libnvrtc may be used                                     |
| `OPENBLAS_THREAD_TIMEOUT` | OpenBLAS's: how long its idle workers spin; the benchmark asks for 4         |
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

# where launchers of MPI programs say how many ranks a node has: MPICH and its relatives, Open MPI, MVAPICH
_LOCAL_RANKS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
LIBRARY_BELOW = 20.0  # microseconds: 100 000 calls of the library's take as long as compiling one kernel, 2 s


@dataclass(frozen=True)
class Settings:
    """One reading of the environment; see the module's table for the meaning of each field."""

    cache_dir: Path
    backend: str
    threads: int
    cxx: str | None
    sanitize: bool
    emulated_order: str
    goal: str
    library_below: float
    native_launcher: bool
    quiet: bool
    record: Path | None
    cuda_path: Path | None
    openblas_thread_timeout: str | None
    launched_ranks: int  # ranks of this node, as a launcher of MPI programs says; 0: none has started this process


def _ranks() -> int:
    return next((int(text) for name in _LOCAL_RANKS if (text := os.environ.get(name, "")).isdigit()), 0)


def _threads() -> int:
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    ranks = max(1, _ranks())
    if usable > max(1, cores // ranks):  # else the launcher has bound every rank to its share
        usable = max(1, usable // ranks)
    return int(os.environ.get("MANSARD_THREADS") or os.environ.get("OMP_NUM_THREADS") or usable)


def _goal(text: str) -> str:
    if text not in ("time", "energy"):
        raise ValueError(f"MANSARD_GOAL={text!r} is neither 'time' nor 'energy'")
    return text


def _launcher(text: str) -> bool:
    if text not in ("native", "python"):
        raise ValueError(f"MANSARD_LAUNCHER={text!r} is neither 'native' nor 'python'")
    return text == "native"


def _not_negative(name: str, default: float) -> float:
    text = os.environ.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ValueError(f"{name}={text!r} is no number of microseconds: give 0 or more")
    return value


@lru_cache(maxsize=1)
def _read() -> Settings:
    env = os.environ.get
    home = Path(env("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Settings(
        cache_dir=Path(env("MANSARD_CACHE_DIR") or home / "mansard"),
        backend=env("MANSARD_BACKEND") or "cpu",
        threads=_threads(),
        cxx=env("MANSARD_CXX") or env("CXX"),
        sanitize=env("MANSARD_SANITIZE") == "1",
        emulated_order=env("MANSARD_EMULATED_ORDER") or "forward",
        goal=_goal(env("MANSARD_GOAL") or "time"),
        library_below=_not_negative("MANSARD_LIBRARY_BELOW", LIBRARY_BELOW),
        native_launcher=_launcher(env("MANSARD_LAUNCHER") or "native"),
        quiet=env("MANSARD_QUIET") == "1",
        record=Path(text) if (text := env("MANSARD_RECORD")) else None,
        cuda_path=Path(env("CUDA_PATH") or env("CUDA_HOME") or "/usr/local/cuda"),
        openblas_thread_timeout=env("OPENBLAS_THREAD_TIMEOUT"),
        launched_ranks=_ranks(),
    )


def current() -> Settings:
    """The settings of this process; the environment is read once, at the first call."""
    return _read()


def still_openblas_environment() -> dict[str, str]:
    """This process's environment, for another one in which OpenBLAS's idle workers go to sleep at once, and JAX takes
    no more of a GPU's memory than it needs."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ, "OPENBLAS_THREAD_TIMEOUT": "4"}


def cached_environment(folder: str) -> dict[str, str]:
    """This process's environment, for another one whose kernels are in `folder`, and which does not mention them."""
    return {**os.environ, "MANSARD_CACHE_DIR": folder, "MANSARD_QUIET": "1"}


def rank_environment() -> dict[str, str]:
    """This process's environment, for ranks that have one thread each."""
    single = dict.fromkeys(("MANSARD_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return still_openblas_environment() | single


def reread(**changes: object) -> Settings:
    """Read the environment again, for tests; `changes` replace fields of the result."""
    _read.cache_clear()
    settings = _read()
    return replace(settings, **changes) if changes else settings  # type: ignore[arg-type]
