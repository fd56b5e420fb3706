"""The CPU kernels of gemm: exact on integers, within bounds on random numbers, nothing touched beyond the operands.

Run as a script, it multiplies matrices that end, or begin, at memory that must not be touched.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gemm_cases import bounded, exact, launch, numbers, stack_of
from sparing import spared

from mansard.backends import cpu
from mansard.compile import cxx
from mansard.kernels.batched.gemm import emit, runtime, space_cpu, spec
from mansard.kernels.batched.gemm.space_cpu import Simd
from mansard.plan.problem import DTYPES, Problem

P = spec.problem
HERE = Path(__file__)
pytestmark = pytest.mark.skipif(cpu.unavailable() is not None, reason=f"cpu: {cpu.unavailable()}")

# None stands for the default configuration.
CASES: list[tuple[Problem, Simd | None]] = [
    # every width once, in turn with dtypes and layouts; two threads, tails of vectors, tiles and the inner loop
    (P("float64", 1, 1, 1, 40), None),
    (P("float64", 2, 2, 2, 5003), None),
    (P("float64", 3, 3, 3, 5003), Simd(2, 2, 1, 2, True, 1)),
    (P("float64", 4, 4, 4, 37, layout_b="col"), None),
    (P("float64", 5, 5, 5, 37, layout_a="col", layout_b="col", layout_c="col"), Simd(2, 3, 2, 3, True, 2, 256)),
    (P("float64", 6, 6, 6, 37, layout_c="col"), None),
    (P("float64", 7, 7, 7, 37), Simd(2, 4, 3, 2, True)),
    (P("float64", 8, 8, 8, 37, layout_a="col"), None),
    (P("float64", 9, 9, 9, 37, layout_b="col"), Simd(2, 4, 2, 1, True, 1, 64)),
    (P("float64", 12, 12, 12, 21), None),
    # results that gather in lines: whole rows per tile, parts of them, columns, a batch that begins within a line
    (P("float64", 13, 13, 13, 301), Simd(2, 4, 7, 2, GATHER=True)),
    (P("float64", 11, 11, 11, 40, layout_c="col"), Simd(2, 3, 2, 1, GATHER=True)),
    (P("complex64", 5, 5, 5, 301, conj_a=True), Simd(4, 2, 3, 1, GATHER=True)),
    (P("float64", 7, 5, 3, 301, aligned=False), Simd(2, 7, 3, 3, GATHER=True, PREFETCH=1)),
    (P("float64", 17, 17, 17, 11, layout_b="col", layout_c="col"), None),
    (P("float64", 24, 24, 24, 5), Simd(2, 5, 5, 7)),
    (P("float64", 33, 33, 33, 3, layout_c="col"), None),
    (P("float64", 64, 64, 64, 2, layout_b="col"), None),
    (P("float32", 2, 2, 2, 37), None),
    (P("float32", 3, 3, 3, 501, layout_b="col"), None),
    (P("float32", 7, 7, 7, 37), Simd(4, 3, 2, 1, True)),
    (P("float32", 16, 16, 16, 9, layout_a="col"), None),
    (P("float32", 31, 31, 31, 3, layout_b="col"), None),
    (P("complex64", 1, 1, 1, 37, conj_a=True), None),
    (P("complex64", 3, 3, 3, 37, conj_b=True), None),
    (P("complex64", 6, 6, 6, 37, layout_b="col", conj_a=True, conj_b=True), Simd(4, 2, 2, 3, True)),
    (P("complex64", 17, 17, 17, 5, layout_c="col", conj_a=True), None),
    (P("complex128", 2, 2, 2, 37, conj_a=True, conj_b=True), None),
    (P("complex128", 5, 5, 5, 37, layout_b="col", layout_c="col", conj_b=True), Simd(2, 2, 3, 2, True, 1)),
    (P("complex128", 8, 8, 8, 37), None),
    (P("complex128", 32, 32, 32, 2, layout_b="col", conj_a=True), None),
    # rectangles; single rows and columns, which lanes may run along either way
    (P("float64", 7, 3, 11, 29), None),
    (P("float64", 2, 13, 5, 29, layout_a="col", layout_c="col"), None),
    (P("float64", 9, 1, 6, 29), None),
    (P("float32", 1, 10, 4, 29, layout_b="col", layout_c="col"), None),
    (P("complex64", 5, 1, 1, 29, layout_a="col", conj_a=True), None),
    (P("float64", 3, 256, 2, 3), None),
    (P("complex128", 40, 3, 130, 2, layout_b="col", conj_b=True), None),
    # stacks, pitches, alignment
    (P("float64", 5, 6, 7, 21, pitch_a=9, pitch_b=8, pitch_c=10, stack_a="strided", stack_b="strided",
       stack_c="strided"), None),
    (P("float64", 6, 6, 6, 21, layout_b="col", layout_c="col", stack_a="strided", stack_b="pointers",
       stack_c="pointers"), None),
    (P("complex64", 4, 5, 3, 21, pitch_a=5, stack_a="shared", stack_b="pointers", conj_b=True), None),
    (P("float32", 7, 5, 6, 21, stack_b="shared", layout_b="col"), None),
    (P("float64", 9, 1, 6, 21, pitch_c=3, stack_c="strided"), None),
    (P("complex128", 5, 5, 5, 21, stack_a="shared", stack_b="shared", layout_c="col", aligned=False), None),
    (P("float64", 5, 5, 5, 301, aligned=False), Simd(2, 5, 3, 5, True, 1)),
]  # fmt: skip


def case_id(case: tuple[Problem, Simd | None]) -> str:
    problem, _ = case
    return f"{problem.dtype}-{'x'.join(str(size) for _, size in problem.sizes)}-{CASES.index(case)}"


def chosen(problem: Problem, config: Simd | None) -> Simd:
    return config or space_cpu.default(problem, cpu.backend().device)


@pytest.mark.parametrize("case", spared(CASES, 3), ids=case_id)
def test_is_exact(case: tuple[Problem, Simd | None]) -> None:
    problem, config = case[0], chosen(*case)
    exact(problem, config, "cpu")
    bounded(problem, config, "cpu")


@pytest.mark.parametrize("case", spared(CASES, 3)[::3], ids=case_id)
def test_accumulates_exactly(case: tuple[Problem, Simd | None]) -> None:
    exact(case[0], replace(chosen(*case), STREAM=False, GATHER=False), "cpu", scaled=True)


@pytest.mark.parametrize("batch", [0, 1, 2, 63])
def test_batches_of_any_size(batch: int) -> None:
    for config in (Simd(2, 3, 2, 3), Simd(2, 3, 2, 3, True, 1), Simd(2, 3, 2, 3, GATHER=True)):
        exact(P("float64", 3, 3, 3, batch), config, "cpu")


def test_an_infinity_stays_in_its_row_and_its_matrix() -> None:
    problem = P("float64", 3, 3, 3, 50)
    stacks = [stack_of(problem, side, np, numbers(problem, side, np, i, True)) for i, side in enumerate("abc")]
    expected = stacks[0].view @ stacks[1].view
    stacks[0].view[20, 1, 2], stacks[1].view[20, 2] = np.inf, 1.0
    launch(problem, Simd(2, 3, 2, 3, True), "cpu", stacks, 1.0, 0.0)
    assert (stacks[2].view[20, 1] == np.inf).all()
    others = np.ones((50, 3), bool)
    others[20] = False
    assert (stacks[2].view[others] == expected[others]).all()


# ---- interleaved stacks -----------------------------------------------------------------------------------


def interleaved(matrices: Any, width: int) -> Any:
    """(groups, rows, columns, width); the places of matrices that are not there hold zeros."""
    batch, rows, columns = matrices.shape
    padded = np.zeros((-(-batch // width) * width, rows, columns), matrices.dtype)
    padded[:batch] = matrices
    return np.ascontiguousarray(padded.reshape(-1, width, rows, columns).transpose(0, 2, 3, 1))


INTERLEAVED = [
    (P("float64", 3, 3, 3, 1003), 8, Simd(2, 2, 3, 1)),
    (P("float64", 5, 4, 2, 45, accumulate=True), 16, None),
    (P("float32", 7, 7, 7, 45, stack_a="shared"), 16, None),
    (P("complex64", 2, 3, 4, 45, conj_a=True), 8, None),
    (P("complex128", 3, 2, 5, 45, conj_b=True, stack_b="shared", accumulate=True), 4, None),
    (P("float64", 8, 8, 8, 100), 8, Simd(2, 4, 4, 1, True)),
]


@pytest.mark.parametrize(("problem", "width", "config"), INTERLEAVED)
def test_interleaved_is_exact(problem: Problem, width: int, config: Simd | None) -> None:
    stacks = {f"stack_{side}": "interleaved" for side in "abc" if getattr(problem, f"stack_{side}") == "packed"}
    problem = problem.replace(**stacks, pitch_c=problem.N * width)
    device = cpu.backend().device
    config = chosen(problem, config)
    assert space_cpu.illegal(problem, config, device) is None
    alpha, beta = (2.0, -3.0 if problem.accumulate else 0.0)
    matrices = [numbers(problem, side, np, i, True) for i, side in enumerate("abc")]
    expected = spec.reference(*matrices, alpha, beta, conj_a=problem.conj_a, conj_b=problem.conj_b)
    arrays, strides = [], []
    for side, values in zip("abc", matrices, strict=True):
        together = width if getattr(problem, f"stack_{side}") == "interleaved" else 1
        rows, columns = values.shape[1:]
        arrays.append(interleaved(values, together))
        strides += [rows * columns * together, columns * together, together]
    run = cpu.backend().prepare(emit.kernel(problem, config, device, tuple(strides)))
    run(tuple(array.ctypes.data for array in arrays), (alpha, 0.0, beta, 0.0), 0)
    assert (arrays[2] == interleaved(expected, width)).all()


# ---- the space --------------------------------------------------------------------------------------------


def test_reasons() -> None:
    device = cpu.backend().device
    for problem, config, reason in (
        (P("float64", 4, 4, 4, 9, layout_a="any"), Simd(), "strides"),
        (P("float64", 4, 4, 4, 9, stack_c="shared"), Simd(), "a place each"),
        (P("float64", 4, 4, 4, 9, stack_a="interleaved"), Simd(), "interleaved"),
        (P("float64", 4, 4, 4, 9), Simd(3), "LANES=3"),
        (P("complex128", 4, 4, 4, 9), Simd(1), "LANES=1"),
        (P("float64", 4, 4, 4, 9), Simd(2, 12, 4), "48 vector sums"),
        (P("float64", 4, 4, 4, 9), Simd(2, 2, 2, 5), "UNROLL=5"),
        (P("float64", 4, 4, 4, 9, accumulate=True), Simd(2, STREAM=True), "past the caches"),
        (P("float64", 4, 4, 4, 9, accumulate=True), Simd(2, GATHER=True), "GATHER"),
        (P("float64", 4, 4, 4, 9), Simd(2, STREAM=True, GATHER=True), "without STREAM"),
    ):
        assert reason in (space_cpu.illegal(problem, config, device) or "legal")


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_defaults_are_legal(vector_bytes: int) -> None:
    device = replace(cpu.backend().device, vector_bytes=vector_bytes)
    shapes = ((1, 1, 1), (2, 2, 2), (3, 7, 5), (1, 9, 4), (9, 1, 4), (12, 12, 12), (33, 32, 31), (256, 256, 256))
    for dtype in DTYPES:
        for sizes in shapes:
            for layout in ("row", "col"):
                for batch in (10, 1 << 24):
                    problem = P(dtype, *sizes, batch, layout_c=layout)
                    config = space_cpu.default(problem, device)
                    assert space_cpu.illegal(problem, config, device) is None, (problem, config)
    found = list(space_cpu.candidates(P("float64", 8, 8, 8, 1 << 20), device))
    assert len(set(found)) > 20 and found[-1] == space_cpu.default(P("float64", 8, 8, 8, 1 << 20), device)


# ---- other processors, and the limits of the operands -----------------------------------------------------


def _flags() -> str:
    info = Path("/proc/cpuinfo")
    return info.read_text() if info.exists() and platform.machine() == "x86_64" else ""


@pytest.mark.parametrize(("march", "needs", "lanes"), [("haswell", "avx2", 4), ("x86-64", "sse2", 2)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_other_vectors(march: str, needs: str, lanes: int, dtype: str) -> None:
    if needs not in _flags() or "fma" not in _flags():
        pytest.skip(f"this processor has no {needs}")
    device = replace(cpu.backend().device, vector_bytes=lanes * 8)
    for n, accumulate in ((3, False), (7, True)):
        problem = P(dtype, n, n, n, 21, layout_b="col", accumulate=accumulate)
        config = space_cpu.default(problem, device)
        matrices = [numbers(problem, side, np, i, True) for i, side in enumerate("abc")]
        expected = spec.reference(*matrices, 2.0, -1.0 if accumulate else 0.0)
        stacks = [stack_of(problem, side, np, values) for side, values in zip("abc", matrices, strict=True)]
        kernel = emit.kernel(problem, config, device, tuple(stride for stack in stacks for stride in stack.strides))
        library = ctypes.CDLL(str(cxx.compile_cpu(kernel.source, (f"-march={march}",)).binary))
        run = cpu.CpuLaunch(library, kernel)
        run(tuple(stack.pointer for stack in stacks), (2.0, 0.0, -1.0 if accumulate else 0.0, 0.0), 0)
        assert (stacks[2].view == expected).all()


def guarded(size: int, at_end: bool) -> tuple[Any, Any]:
    """`size` bytes that end (or begin) where memory that must not be touched begins (or ends), and their owner."""
    page = mmap.PAGESIZE
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for edge in (start, start + (pages + 1) * page):
        assert protect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0) == 0
    first = page + (pages * page - size if at_end else 0)
    return np.frombuffer(memory, np.uint8, size, first), memory


def touch_nothing_else(extra: int) -> None:
    """Operands between protected pages; with `extra` matrices more than there are, the process dies."""
    cases = [case for case in CASES if {"packed"} == {getattr(case[0], f"stack_{side}") for side in "abc"}]
    for problem, config in cases[:1] if extra else cases:
        device = cpu.backend().device
        told = problem.replace(BATCH=problem.BATCH + extra)
        any_sizes = problem.dtype == "float64" and runtime.illegal(problem) is None
        for one in (chosen(problem, config), *([runtime.Runtime()] if any_sizes else [])):
            run = cpu.backend().prepare(emit.kernel(told, one, device, spec.strides(problem)))
            for at_end in (True, False):
                sizes = (problem.M * problem.K, problem.K * problem.N, problem.M * problem.N)
                held = [guarded(problem.BATCH * size * problem.itemsize, at_end) for size in sizes]
                run(tuple(array.ctypes.data for array, _ in held), (1.0, 0.0, 0.0, 0.0), 0)
    print(f"untouched: {len(cases)}")


@pytest.mark.parametrize("extra", [0, 1])
def test_nothing_else_is_touched(extra: int) -> None:
    command = [sys.executable, str(HERE), str(extra)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, env=paths, capture_output=True, text=True, timeout=300)
    assert (result.returncode == 0 and "untouched: " in result.stdout) != bool(extra), result.stderr[-2000:]
    if extra:
        assert result.returncode < 0  # a signal


if __name__ == "__main__":
    touch_nothing_else(int(sys.argv[1]))
