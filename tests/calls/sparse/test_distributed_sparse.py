"""Sparse matrices over 2 and 4 ranks, for real: one launch of mpiexec runs every check of distributed_sparse_checks."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import MPIEXEC, ROOT, environment
from sparing import rotated

pytest.importorskip("mpi4py")

CASES = Path(__file__).resolve().parents[2] / "cases" / "distributed_sparse_checks.py"
CHECKS = [
    node.id
    for one in ast.parse(CASES.read_text()).body
    if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == "CHECKS"
    for node in ast.walk(one.value)
    if isinstance(node, ast.Name)
]


@pytest.fixture(scope="module", params=[2, 4])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, str]]]:
    """What each rank found, by check."""
    if MPIEXEC is None:
        pytest.skip("no mpiexec: pip install mpich")
    folder = tmp_path_factory.mktemp("ranks")
    command = [MPIEXEC, "-n", str(request.param), sys.executable, str(CASES), str(folder)]
    env = environment(MANSARD_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT, env=env)
    files = [folder / f"{rank}.json" for rank in range(request.param)]
    assert all(file.exists() for file in files), done.stdout + done.stderr
    yield [json.loads(file.read_text()) for file in files]


@rotated(3)
def test_scaling_is_measured_by_one_command(tmp_path: Path) -> None:
    if MPIEXEC is None:
        pytest.skip("no mpiexec: pip install mpich")
    command = [sys.executable, "-m", "mansard", "bench", "scale", "--ranks", "2,4", "--elements", "4096"]
    command += ["--seconds", "0.1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    for ranks in (2, 4):
        document = json.loads((tmp_path / "scale" / f"ranks-{ranks}.json").read_text())
        assert document["ranks"] == document["network"]["ranks"] == ranks and document["network"]["ping_pong"]
        assert len(document["rows"]) == 10 and {row["scaling"] for row in document["rows"]} == {"weak", "strong"}
        assert f"{ranks} ranks: ping-pong" in done.stdout
    page = (tmp_path / "scale" / "scale.md").read_text()
    assert page.count("strong") == page.count("weak") == 10  # five operations on two and on four ranks


@pytest.mark.parametrize("check", CHECKS)
def test_on_ranks(found: list[dict[str, str]], check: str) -> None:
    for rank, results in enumerate(found):
        assert results.get(check, "was not reached") == "ok", f"rank {rank}: {results.get(check)}"
