"""Several processes for real, through mpiexec: many checks in each launch (tests/cases/rank_checks.py)."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from conftest import needs_cpu
from launching import MPIEXEC, ROOT, environment
from sparing import rotated

CHECKS = ROOT / "tests" / "cases" / "rank_checks.py"

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not here: pip install 'mansard[mpi]'")


def launched(
    ranks: int, *arguments: str, backend: str = "reference"
) -> tuple[subprocess.CompletedProcess[str], float]:
    """A launch of the checks, and its seconds."""
    env = environment(MANSARD_THREADS="1", MANSARD_BACKEND=backend)
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


@rotated(3)
@needs_cpu
def test_tensors_on_two_ranks_by_kernels() -> None:
    pytest.importorskip("torch")
    done, _ = launched(2, "tensors", backend="cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"tensors: right on rank {rank} of 2" in done.stdout for rank in (0, 1))


def test_a_message_of_more_than_two_gigabytes(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all-cases"):
        pytest.skip("7 GB of memory: pytest --all-cases")
    done, _ = launched(2, "long")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"long: right on rank {rank} of 2" in done.stdout for rank in (0, 1))


@pytest.mark.parametrize(("fault", "message"), [("kill", "termin"), ("raise", "nobody catches this")])
def test_a_dead_rank_ends_the_others(fault: str, message: str) -> None:
    """They wait for it in a message; mpiexec ends them, and says so."""
    done, seconds = launched(2, fault)
    assert done.returncode != 0 and seconds < 30
    assert message in (done.stdout + done.stderr).lower()
