"""All settings, read from the environment in this file and nowhere else.

| variable                | meaning                                                                       |
|-------------------------|-------------------------------------------------------------------------------|
| `MANSARD_CACHE_DIR`     | where compiled kernels, measured ceilings and tuning records live             |
| `MANSARD_BACKEND`       | run CPU arrays on this backend: `cpu` (default), `emulated` or `reference`    |
| `MANSARD_THREADS`       | CPU threads a kernel may use (default: those the process may run on)          |
| `MANSARD_CXX`           | the C++ compiler (default: `$CXX`, then g++, clang++, c++)                    |
| `MANSARD_SANITIZE`      | `1`: build emulated kernels with AddressSanitizer and UBSan                   |
| `MANSARD_EMULATED_ORDER`| thread order of the emulator: `forward`, `reverse`, `random`, `greedy` or `greedy-reverse` |
| `CUDA_PATH`             | a CUDA toolkit whose libnvrtc may be used                                     |
| `OPENBLAS_THREAD_TIMEOUT` | OpenBLAS's: how long its idle workers spin; the benchmark asks for 4         |
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """One reading of the environment; see the module's table for the meaning of each field."""

    cache_dir: Path
    backend: str
    threads: int
    cxx: str | None
    sanitize: bool
    emulated_order: str
    cuda_path: Path | None
    openblas_thread_timeout: str | None


def _threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(os.environ.get("MANSARD_THREADS") or os.environ.get("OMP_NUM_THREADS") or usable)


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
        cuda_path=Path(env("CUDA_PATH") or env("CUDA_HOME") or "/usr/local/cuda"),
        openblas_thread_timeout=env("OPENBLAS_THREAD_TIMEOUT"),
    )


def current() -> Settings:
    """The settings of this process; the environment is read once, at the first call."""
    return _read()


def still_openblas_environment() -> dict[str, str]:
    """This process's environment, for another one in which OpenBLAS's idle workers go to sleep at once, and JAX takes
    no more of a GPU's memory than it needs."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ, "OPENBLAS_THREAD_TIMEOUT": "4"}


def reread(**changes: object) -> Settings:
    """Read the environment again, for tests; `changes` replace fields of the result."""
    _read.cache_clear()
    settings = _read()
    return replace(settings, **changes) if changes else settings  # type: ignore[arg-type]
