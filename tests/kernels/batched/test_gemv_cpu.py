"""`gemv` on CPUs: every layout and length, vectors of other machines.

Run as a script, it multiplies matrices that end, or begin, at memory that must not be touched.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batched_cases import DTYPES
from conftest import needs_cpu
from gemv_cases import CASES, bounded, exact, laid_out, numbers
from sparing import rotated, spared
from test_gemm_cpu import guarded

from mansard.backends import cpu
from mansard.compile import cxx
from mansard.kernels.batched.gemv import emit, space_cpu, spec
from mansard.kernels.batched.gemv.space_cpu import Simd
from mansard.plan.problem import Problem

pytestmark = [pytest.mark.usefixtures("no_plans"), rotated(2)]

HERE = Path(__file__)
P = spec.problem


# ---- CPU kernel -------------------------------------------------------------------------------------------

CPU_CASES: list[tuple[Problem, Simd | None]] = [
    (problem, None) for problem, _ in CASES[::2] if problem.layout_a != "any"
]
CPU_CASES += [
    (P("float64", 17, 23, 40), Simd(2, 8)),
    (P("float64", 17, 23, 40, layout_a="col"), Simd(2, 8, 2, 4096)),
    (P("float64", 9, 5, 40), Simd(1, 1)),
    (P("float32", 30, 70, 40), Simd(4, 16, 1, 1024)),
    (P("complex64", 15, 21, 40, conj_a=True), Simd(2, 4)),
    (P("complex128", 15, 21, 40, layout_a="col", conj_b=True), Simd(2, 8)),
    (P("float64", 8, 8, 9000), None),  # several threads
    (P("complex64", 40, 50, 200, pitch_b=3, stack_b="strided", layout_a="col"), None),
]


def chosen(problem: Problem, config: Simd | None) -> Simd:
    return config or space_cpu.default(problem, cpu.backend().device)


@needs_cpu
@pytest.mark.parametrize("case", spared(CPU_CASES, 3), ids=lambda case: f"{case[0].dtype}-{CPU_CASES.index(case)}")
def test_cpu_is_exact(case: tuple[Problem, Simd | None]) -> None:
    problem, config = case[0], chosen(*case)
    exact(problem, config, "cpu")
    exact(problem, config, "cpu", scaled=True)
    bounded(problem, config, "cpu")


@needs_cpu
@pytest.mark.parametrize("layout", ["row", "col"])
def test_cpu_tails(layout: str) -> None:
    """All lengths around a vector and a tile, and a batch of any size."""
    sizes = (1, 2, 3, 4, 5, 7, 8, 9)
    for M, K in [(m, 5) for m in sizes] + [(3, k) for k in sizes]:
        exact(P("float64", M, K, 3, layout_a=layout), Simd(2, 4), "cpu")
    for batch in (0, 1, 2, 63):
        exact(P("float64", 3, 3, batch, layout_a=layout), Simd(2, 2), "cpu")


@needs_cpu
@pytest.mark.parametrize("march", ["haswell", "x86-64"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_cpu_with_other_vectors(march: str, dtype: str) -> None:
    if "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("not an x86 processor with fma")
    device = replace(cpu.backend().device, vector_bytes=32 if march == "haswell" else 16)
    for problem in (P(dtype, 7, 9, 21, accumulate=True), P(dtype, 7, 9, 21, layout_a="col", accumulate=True)):
        A, x, y = (numbers(problem, side, np, i, True) for i, side in enumerate("abc"))
        stacks = laid_out(problem, np, A, x, y)
        strides = tuple(stride for stack in stacks for stride in stack.strides)
        kernel = emit.kernel(problem, space_cpu.default(problem, device), device, strides)
        library = ctypes.CDLL(str(cxx.compile_cpu(kernel.source, (f"-march={march}",)).binary))
        cpu.CpuLaunch(library, kernel)(tuple(stack.pointer for stack in stacks), (2.0, 0.0, -1.0, 0.0), 0)
        assert (stacks[2].view == spec.reference(A, x, y, 2.0, -1.0)).all()


@needs_cpu
def test_cpu_space() -> None:
    device = cpu.backend().device
    for problem, config, reason in (
        (P("float64", 4, 4, 9, layout_a="any"), Simd(), "strides"),
        (P("float64", 4, 4, 9, stack_c="shared"), Simd(), "a place each"),
        (P("float64", 4, 4, 9), Simd(3), "LANES=3"),
        (P("complex128", 4, 4, 9), Simd(1), "LANES=1"),
        (P("float64", 4, 4, 9), Simd(2, 64), "64 vector sums"),
        (P("float64", 4, 4, 9), Simd(2, 3), "no power of two"),
    ):
        assert reason in (space_cpu.illegal(problem, config, device) or "legal")
    for vector_bytes in (16, 32, 64):
        other = replace(device, vector_bytes=vector_bytes)
        for dtype in DTYPES:
            for M, K in ((1, 1), (2, 2), (1, 9), (9, 1), (33, 31), (256, 256)):
                for layout in ("row", "col"):
                    problem = P(dtype, M, K, 1 << 20, layout_a=layout)
                    assert space_cpu.illegal(problem, space_cpu.default(problem, other), other) is None
    found = list(space_cpu.candidates(P("float64", 8, 8, 1 << 20), device))
    assert len(set(found)) == len(found) > 20 and found[-1] == space_cpu.default(P("float64", 8, 8, 1 << 20), device)


def touch_nothing_else(extra: int) -> None:
    """Operands between protected pages; with `extra` matrices more than there are, the process dies."""
    cases = [case for case in CPU_CASES if {"packed"} == {getattr(case[0], f"stack_{side}") for side in "abc"}]
    for problem, config in cases[:1] if extra else cases:
        told = problem.replace(BATCH=problem.BATCH + extra)
        kernel = emit.kernel(told, chosen(problem, config), cpu.backend().device, spec.strides(problem))
        run = cpu.backend().prepare(kernel)
        for at_end in (True, False):
            sizes = (problem.M * problem.K, problem.K, problem.M)
            held = [guarded(problem.BATCH * size * problem.itemsize, at_end) for size in sizes]
            run(tuple(array.ctypes.data for array, _ in held), (1.0, 0.0, 0.0, 0.0), 0)
    print(f"untouched: {len(cases)}")


@needs_cpu
@pytest.mark.parametrize("extra", [0, 1])
def test_cpu_touches_nothing_else(extra: int) -> None:
    command, paths = [sys.executable, str(HERE), str(extra)], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, env=paths, capture_output=True, text=True, timeout=300)
    assert (result.returncode == 0 and "untouched: " in result.stdout) != bool(extra), result.stderr[-2000:]
    if extra:
        assert result.returncode < 0  # a signal


if __name__ == "__main__":
    touch_nothing_else(int(sys.argv[1]))
