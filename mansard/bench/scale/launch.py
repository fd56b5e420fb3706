"""mpiexec: start a program on several ranks of this machine, each with one thread."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from ... import settings
from ...errors import BackendUnavailable, UsageError


def counts_of(text: str) -> list[int]:
    """The numbers of ranks that `--ranks` names."""
    try:
        counts = [int(one) for one in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"--ranks {text}: a comma list of numbers of ranks such as 1,2,4")
    return counts


def launch(count: int, program: list[str], seconds: float) -> None:
    """Run a program on `count` ranks, for so many seconds at most; mpiexec beside this Python comes first."""
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        raise BackendUnavailable("scaling needs mpiexec: pip install 'mansard[mpi]'")
    try:
        done = subprocess.run([mpiexec, "-n", str(count), *program], env=settings.rank_environment(), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"mpiexec -n {count} was ended after {seconds:.0f} s") from None
    if done.returncode:
        raise BackendUnavailable(f"mpiexec -n {count} ended with status {done.returncode}")
