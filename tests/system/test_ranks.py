"""Several processes for real, through mpiexec: many checks in each launch (tests/cases/rank_checks.py)."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from launching import MPIEXEC, ROOT, environment

CHECKS = ROOT / "tests" / "cases" / "rank_checks.py"

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not here: pip install 'mansard[mpi]'")


def launched(ranks: int, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """A launch of the checks, and its seconds."""
    env = environment(MANSARD_THREADS="1", MANSARD_BACKEND="reference")
    begin = time.perf_counter()
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, str(CHECKS), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    return done, time.perf_counter() - begin


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_checks_pass(ranks: int) -> None:
    """Most of them run the array library's products, which compile nothing; kernels run in one."""
    done, _ = launched(ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"checks on {ranks} ranks" in done.stdout


@pytest.mark.parametrize(("fault", "message"), [("kill", "termin"), ("raise", "nobody catches this")])
def test_a_dead_rank_ends_the_others(fault: str, message: str) -> None:
    """They wait for it in a message; mpiexec ends them, and says so."""
    done, seconds = launched(2, fault)
    assert done.returncode != 0 and seconds < 30
    assert message in (done.stdout + done.stderr).lower()
