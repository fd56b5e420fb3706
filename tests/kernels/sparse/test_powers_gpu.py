"""What only a GPU can say of persistent launches: that they repeat, and that a race checker finds nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mansard as ms
from mansard.backends import cuda
from mansard.sparse import matrices

pytestmark = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")


@pytest.mark.parametrize("gather", ["stale", "relaxed"])
def test_a_thousand_repetitions_are_equal(gather: str) -> None:
    import cupy as cp

    A = matrices.randomized(matrices.stencil(27, (24, 24, 64), dtype=np.dtype("float64"), xp=cp), seed=5)
    x = cp.random.default_rng(2).standard_normal(A.shape[0])
    want = ms.matrix_powers(A, 5, execution="plain", order="none")(x)
    with ms.pin(GATHER=gather):
        P = ms.matrix_powers(A, 5, execution="persistent")
        out = cp.empty_like(want)
        different = cp.zeros((), dtype=bool)
        for _ in range(1000):
            out.fill(np.nan)
            P(x, out=out)
            different |= (out != want).any()
    assert not bool(different)


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed")
def test_race_checker_is_silent() -> None:
    program = Path(__file__).resolve().parents[2] / "cases" / "racecheck_powers.py"
    command = ["compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "9", sys.executable, str(program)]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=paths)
    said = done.stdout + done.stderr
    assert "equal to products" in said, said[-2000:]
    assert done.returncode == 0 and "RACECHECK SUMMARY: 0 hazards" in said, said[-2000:]


@pytest.mark.parametrize("basis", ["monomial", ("chebyshev", -3.0, 3.0)])
def test_powers_of_skewed_rows_are_cusparse_s(basis: object) -> None:
    import cupy as cp

    A = matrices.kronecker(14, xp=cp)
    x = cp.random.default_rng(2).standard_normal(A.shape[0])
    P = ms.matrix_powers(A, 3, basis)
    assert P.choice.execution == "plain" and "array library" in P.explain()
    want = ms.matrix_powers(A.get(), 3, basis, backend="cpu")(x.get())
    with cp.cuda.Stream(non_blocking=True):
        found = P(x).get()
    scale = abs(want).max(axis=1, keepdims=True)
    assert (abs(found - want) <= 1e-11 * scale).all()
