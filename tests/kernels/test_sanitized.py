"""Every family's cases under AddressSanitizer and UBSan, in all thread orders; and proof that the sanitizers look."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sparing import SHARE, sliced

from mansard.backends.emulated import ORDERS
from mansard.compile import cxx

TESTS = Path(__file__).resolve().parents[1]
# Of so many cases of a family one runs: few, since sanitizers are slow to compile.
STEPS = {
    "gram": 40, "tsmm": 12, "tsm2r": 30, "matmul_gram": 2, "small_step": 2, "gemm": 21, "gemv": 12, "trsm": 33,
    "ragged": 39, "cholesky": 36, "lu": 57, "qr": 38, "spmv": 12, "powers": 8,
}  # fmt: skip


def sanitizer() -> str | None:
    """Path of the AddressSanitizer library that goes with the compiler, None if there is none."""
    if cxx.available():
        return None
    found = subprocess.run([cxx.find_compiler()[0], "-print-file-name=libasan.so"], capture_output=True, text=True)
    path = found.stdout.strip()
    return path if Path(path).is_file() else None


pytestmark = pytest.mark.skipif(sanitizer() is None, reason="the compiler has no AddressSanitizer library")


def child(order: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {
        "LD_PRELOAD": str(sanitizer()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "MANSARD_SANITIZE": "1",
        "MANSARD_EMULATED_ORDER": order,
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}:{TESTS / 'cases'}",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(TESTS / "cases" / "sanitized_cases.py"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)


@pytest.mark.parametrize("family", sliced(list(STEPS), 2))
def test_cases_are_clean(family: str) -> None:
    """Half of the families in a run, of each another slice and another thread order from run to run."""
    step, turn = STEPS[family], SHARE.seed // 2
    order = ORDERS[(turn + list(STEPS).index(family)) % len(ORDERS)]
    result = child(order, family, str(turn % step), str(step))
    assert result.returncode == 0 and "clean: " in result.stdout, result.stderr[-3000:]


def test_an_overrun_is_noticed() -> None:
    result = child("forward", "overrun")
    assert result.returncode != 0 and "heap-buffer-overflow" in result.stderr
    assert "kernel_tiled.cuh" in result.stderr  # at the line of the kernel
