"""Every family's cases under AddressSanitizer and UBSan, in three thread orders; and proof that the sanitizers look."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.compile import cxx

HERE = Path(__file__).parent
ORDERS = ("forward", "reverse", "random")
# Runs per family, and of how many cases each takes one: few, since sanitizers are slow to compile.
PARTS = {
    "gram": (1, 40),
    "tsmm": (1, 12),
    "tsm2r": (1, 30),
    "matmul_gram": (1, 2),
    "small_step": (1, 2),
    "gemm": (1, 21),
    "gemv": (1, 12),
    "trsm": (1, 33),
    "ragged": (1, 39),
    "cholesky": (1, 36),
    "lu": (1, 57),
    "qr": (1, 38),
    "spmv": (1, 12),
    "powers": (1, 8),
}


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
        "PYTHONPATH": f"{HERE.parent}:{HERE}",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(HERE / "sanitized_cases.py"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)


@pytest.mark.parametrize(
    ("family", "first", "step"), [(f, i, n) for f, (runs, n) in PARTS.items() for i in range(runs)]
)
def test_cases_are_clean(family: str, first: int, step: int) -> None:
    result = child(ORDERS[(first + list(PARTS).index(family)) % 3], family, str(first), str(step))
    assert result.returncode == 0 and "clean: " in result.stdout, result.stderr[-3000:]


def test_an_overrun_is_noticed() -> None:
    result = child("forward", "overrun")
    assert result.returncode != 0 and "heap-buffer-overflow" in result.stderr
    assert "kernel_tiled.cuh" in result.stderr  # at the line of the kernel
