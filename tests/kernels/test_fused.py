"""Bits that kernels promise do not depend on what a compiler would fuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import usable
from sparing import rotated

from mansard import settings
from mansard.compile import cxx

# As GCC 13 tunes for Sapphire Rapids: no sum that a loop carries is fused, unless the text says so.
UNWILLING = "--param=avoid-fma-max-bits=512"
PROMISES = """
import numpy as np, scipy.sparse as sp
import mansard as ms

rng = np.random.default_rng(0)
A = rng.standard_normal((19, 8, 8))
A = A @ A.swapaxes(1, 2) + np.eye(8)
dirty = A.copy()
dirty[3, :, 4:] = np.nan
kept = np.setdiff1d(np.arange(19), 3)
assert (ms.linalg.cholesky_ex(A)[0][kept] == ms.linalg.cholesky_ex(dirty)[0][kept]).all()

A = sp.random_array((700, 700), density=0.01, rng=rng, format="csr") + sp.eye_array(700).tocsr()
x = rng.standard_normal(700)
plain, grouped = (ms.matrix_powers(A, 2, execution=name, order="given")(x) for name in ("plain", "groups"))
stored = ms.sparse.matrix(A, format="csr")
assert (plain == grouped).all()
assert (plain[1] == stored @ x).all() and (plain[2] == stored @ (stored @ x)).all()
"""


@rotated(3)
def test_text_decides_what_is_fused(tmp_path: Path) -> None:
    usable("cpu")
    compiler, version = cxx.find_compiler()
    if "clang" in version or not Path(compiler).name.startswith(("g++", "c++")):
        pytest.skip("only GCC has an option that leaves sums unfused")
    unwilling = tmp_path / "unwilling-g++"
    unwilling.write_text(f'#!/bin/sh\nexec "{compiler}" {UNWILLING} "$@"\n')
    unwilling.chmod(0o755)
    known = {"PATH": "/usr/bin:/bin", "MANSARD_CXX": str(unwilling), "MANSARD_CACHE_DIR": str(tmp_path / "cache")}
    package = {"PYTHONPATH": str(Path(settings.__file__).parent.parent)}
    run = subprocess.run([sys.executable, "-c", PROMISES], env=known | package, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
