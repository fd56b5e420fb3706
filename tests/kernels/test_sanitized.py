"""Every family's cases under AddressSanitizer and UBSan, in all thread orders; and proof that the sanitizers look."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract import SANITIZED
from sparing import SHARE, sliced

from mansard.backends.emulated import ORDERS
from mansard.compile import cxx

TESTS = Path(__file__).resolve().parents[1]


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


@pytest.mark.parametrize("family", sliced(list(SANITIZED), 8))
def test_cases_are_clean(family: str) -> None:
    """A quarter of the families in a run, of each another slice and another thread order from run to run."""
    step, turn = SANITIZED[family], SHARE.seed // 4
    order = ORDERS[(turn + list(SANITIZED).index(family)) % len(ORDERS)]
    result = child(order, family, str(turn % step), str(step))
    assert result.returncode == 0 and "clean: " in result.stdout, result.stderr[-3000:]


def test_an_overrun_is_noticed() -> None:
    result = child("forward", "overrun")
    assert result.returncode != 0 and "heap-buffer-overflow" in result.stderr
    assert "kernel_tiled.cuh" in result.stderr  # at the line of the kernel
