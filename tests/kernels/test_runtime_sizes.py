"""The CPU kernels whose sizes are arguments: exact for all sizes and layouts, and with the bits of the kernels whose
sizes are constants, so that nobody can tell which of them answered."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import gemm_cases
import lu_cases
import numpy as np
import pytest
from conftest import usable
from factor_cpu_cases import LU, SMALL
from sparing import SHARE

from mansard import testing
from mansard.backends import cpu
from mansard.codegen.geometry import Device, Kernel
from mansard.compile import cxx
from mansard.kernels.batched import gemm, gemv
from mansard.kernels.batched.gemm import runtime, space_cpu
from mansard.kernels.batched.gemm.runtime import Runtime
from mansard.kernels.batched.gemv import space_cpu as gemv_cpu
from mansard.kernels.factor import lu
from mansard.kernels.factor.lu import runtime as lu_runtime
from mansard.kernels.factor.lu import space_cpu as lu_cpu
from mansard.plan.problem import Problem

P = gemm.spec.problem
# two kernels are compiled for each dtype: those that other tests compile as well, and another dtype in every run
DTYPES = ("float64", ("float32", "complex64", "complex128")[SHARE.seed % 3])
FACTORS = [problem for problem, _ in (*LU, *SMALL) if lu_runtime.illegal(problem) is None]
STRIDED = {"pitch_a": 40, "pitch_b": 41, "pitch_c": 43, **{f"stack_{side}": "strided" for side in "abc"}}
FORMS: tuple[dict[str, Any], ...] = (
    {}, STRIDED, {"stack_a": "shared"}, {"stack_b": "shared", "conj_a": True}, {"conj_b": True, "aligned": False},
)  # fmt: skip


@pytest.fixture(autouse=True)
def on_cpus() -> None:
    usable("cpu")


# ---- products ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_every_layout_are_exact(dtype: str) -> None:
    layouts = product(("row", "col"), repeat=3)
    sizes = ((1, 1, 1), (1, 4, 3), (5, 1, 4), (3, 7, 1), (6, 9, 5), (17, 13, 11), (9, 32, 20), (31, 2, 32))
    for (a, b, c), (M, N, K), form in product(layouts, sizes, FORMS):
        problem = P(dtype, M, N, K, 9, layout_a=a, layout_b=b, layout_c=c, **form)
        gemm_cases.exact(problem, Runtime(), "cpu", scaled=(M + N + K) % 2 == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_entry_has_the_same_bits_in_products_of_all_sizes(dtype: str) -> None:
    """Every entry is its row times its column, computed alone."""
    every = range(1, 17)
    turn = SHARE.seed % 24
    sizes = [(M, N, K) for M, N, K in product(every, repeat=3) if turn == (M * 7 + N * 3 + K) % 24]
    for M, N, K in sizes:
        A, B = (testing.random_matrix(np, *shape, dtype, M + i, False) for i, shape in enumerate(((M, K), (K, N))))
        whole = _product(P(dtype, M, N, K, 1), A[None], B[None])[0]
        rows, columns = np.repeat(A, N, axis=0)[:, None], np.tile(B.T, (M, 1))[:, :, None]
        alone = _product(P(dtype, 1, 1, K, M * N), rows, columns).reshape(M, N)
        assert (whole == alone).all(), (M, N, K)


@pytest.mark.parametrize("accumulate", [False, True])
def test_products_have_the_bits_of_constant_sizes(accumulate: bool) -> None:
    """Of kernels that other tests compile: rows, columns and vectors among them."""
    device = cpu.backend().device
    problems = [P("float64", 6, 6, 6, 200), P("float64", 3, 3, 3, 37), P("float64", 24, 24, 24, 5)]
    problems += [P("complex64", 6, 6, 6, 37, layout_b="col", conj_a=True, conj_b=True)]
    for problem in problems[SHARE.seed % 2 :: 2]:
        problem = problem.replace(accumulate=accumulate)
        A, B, C = (gemm_cases.numbers(problem, side, np, i, False) for i, side in enumerate("abc"))
        config = replace(space_cpu.default(problem, device), STREAM=False, GATHER=False)
        own, shared = (_product(problem, A, B, C, one) for one in (config, Runtime()))
        assert (own == shared).all(), problem


def _product(problem: Problem, A: Any, B: Any, C: Any = None, config: Any = None) -> Any:
    """alpha A B + beta C for factors that are no integers; A B where there is no C."""
    empty = np.full((problem.BATCH, problem.M, problem.N), np.nan, problem.dtype)
    given = (A, B, empty if C is None else C)
    stacks = [gemm_cases.stack_of(problem, side, np, values) for side, values in zip("abc", given, strict=True)]
    factors = (1.0, 0.0) if C is None else (0.7, 0.3 if problem.accumulate else 0.0)
    gemm_cases.launch(problem, config or Runtime(), "cpu", stacks, *factors)
    return stacks[2].view


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_with_gaps(dtype: str) -> None:
    """Matrices times vectors, whose entries lie anywhere."""
    for M, K, layout, gap in (
        (6, 6, "row", 1),
        (3, 7, "col", 2),
        (1, 5, "row", 3),
        (9, 1, "col", 1),
        (17, 20, "row", 1),
    ):
        A = testing.random_matrix(np, 8 * M, K, dtype, 3, True).reshape(8, M, K)
        x = testing.random_matrix(np, 8, K, dtype, 4, True)
        A = A if layout == "row" else np.ascontiguousarray(A.swapaxes(1, 2)).swapaxes(1, 2)
        given, y = np.zeros((8, gap * K), dtype), np.full((8, gap * M), 7, dtype)
        given[:, ::gap] = x
        vectors = {"layout_b": "any", "layout_c": "any"} if gap > 1 else {}
        problem = gemv.spec.problem(dtype, M, K, 8, layout_a=layout, **vectors)
        steps = (A.strides[0], *A.strides[1:], given.strides[0], gap * A.itemsize, 0, y.strides[0], gap * A.itemsize, 0)
        assert gemv.space.illegal(problem, gemv_cpu.Runtime(), cpu.backend().device) is None
        kernel = gemv.emit.kernel(
            problem, gemv_cpu.Runtime(), cpu.backend().device, tuple(s // A.itemsize for s in steps)
        )
        cpu.backend().prepare(kernel)(tuple(one.ctypes.data for one in (A, given, y)), (1.0, 0.0, 0.0, 0.0), 0)
        assert (y[:, ::gap] == (A @ x[..., None])[..., 0]).all(), (M, K, layout, gap)
        y[:, ::gap] = 7
        assert (y == 7).all()


# ---- factorizations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_and_what_follows_are_exact(dtype: str) -> None:
    for problem in (one for one in FACTORS if one.dtype == dtype):
        lu_cases.exact(problem, lu_runtime.Runtime(), "cpu")
        lu_cases.exact(problem, lu_runtime.Runtime(), "cpu", seed=2, spoil=True)
        if problem.want in ("factor", "solve", "inverse"):
            lu_cases.bounded(problem, lu_runtime.Runtime(), "cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_of_all_orders(dtype: str) -> None:
    """Orders on both sides of what selects rows and what gathers them, and of whole vectors."""
    for order, right in ((1, 8), (2, 1), (8, 3), (9, 3), (13, 1), (16, 2), (32, 7)):
        for want in ("solve", "inverse"):
            problem = lu.spec.problem(dtype, order, order, 19, NRHS=right if want == "solve" else 0, want=want)
            lu_cases.bounded(problem, lu_runtime.Runtime(), "cpu")


def test_systems_have_the_bits_of_constant_sizes() -> None:
    """Where pivots are ordinary numbers, a matrix in registers is factored and solved with by the same operations."""
    device = cpu.backend().device
    lanes = lu_cpu.small(lu.spec.problem("float64", 3, 3, 1), device).LANES
    wants = (("solve", 1), ("inverse", 0), ("factor", 0))
    want, right = wants[SHARE.seed % 3]
    problem = lu.spec.problem("float64", 3, 3, 70, NRHS=right, want=want)
    A = np.random.default_rng(1).standard_normal((70, 3, 3))
    B = np.random.default_rng(2).standard_normal((70, 3, 1)) if right else None
    found = [lu_cases.launch(problem, config, "cpu", A, B) for config in (lu_cpu.Small(lanes), lu_runtime.Runtime())]
    for name in ("F", "X", "pivots", "info"):
        one, other = (getattr(each, name) for each in found)
        assert one is None or (one == other).all(), (want, name)


# ---- other processors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gemm", "lu"])
def test_other_vectors(family: str) -> None:
    """Compiled for vectors of 32 or of 16 bytes, in turn."""
    march, needs, vector_bytes = (("haswell", "avx2", 32), ("x86-64", "sse2", 16))[SHARE.seed % 2]
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() and platform.machine() == "x86_64" else ""
    if needs not in flags or "fma" not in flags:
        pytest.skip(f"this processor has no {needs}")
    device = replace(cpu.backend().device, vector_bytes=vector_bytes)
    make = _products_for if family == "gemm" else _systems_for
    cases = [make(device, *sizes) for sizes in ((1, 1), (3, 5), (7, 2), (13, 9))]
    binary = cxx.compile_cpu(cases[0][0].source, (f"-march={march}",)).binary
    for kernel, pointers, is_right in cases:
        cpu.CpuLaunch(ctypes.CDLL(str(binary)), kernel)(pointers, (1.0, 0.0, 0.0, 0.0) if family == "gemm" else (), 0)
        assert is_right(), kernel.fixed


Case = tuple[Kernel, tuple[int, ...], Callable[[], bool]]


def _products_for(device: Device, n: int, more: int) -> Case:
    problem = P("float64", n, more, n, 21, layout_b="col")
    A, B, C = (gemm_cases.numbers(problem, side, np, i, True) for i, side in enumerate("abc"))
    stacks = [gemm_cases.stack_of(problem, side, np, one) for side, one in zip("abc", (A, B, C), strict=True)]
    steps = tuple(step for stack in stacks for step in stack.strides)
    kernel = gemm.emit.kernel(problem, Runtime(), device, steps)
    return kernel, tuple(stack.pointer for stack in stacks), lambda: bool((stacks[2].view == A @ B).all())


def _systems_for(device: Device, n: int, more: int) -> Case:
    problem = lu.spec.problem("float64", n, n, 11, NRHS=more, want="solve")
    A, B = (np.random.default_rng(n).standard_normal((11, n, columns)) for columns in (n, more))
    X, pivots, info = np.full_like(B, np.nan), np.zeros((11, n), np.int32), np.zeros(11, np.int32)
    pointers = tuple(one.ctypes.data for one in (A, A, pivots, B, X, info))
    kernel = lu.emit.kernel(problem, lu_runtime.Runtime(), device, lu.spec.strides(problem))
    return kernel, pointers, lambda: np.allclose(A @ X, B, atol=1e-9)


def test_reasons() -> None:
    assert "distances" in (runtime.illegal(P("float64", 3, 3, 3, 9, stack_a="pointers")) or "")
    assert "strides" in (runtime.illegal(P("float64", 3, 3, 3, 9, layout_b="any")) or "")
    assert "first cache" in (runtime.illegal(P("float64", 33, 3, 3, 9)) or "")
    assert "a place each" in (runtime.illegal(P("float64", 3, 3, 3, 9, stack_c="shared")) or "")
    make = lu.spec.problem
    assert "distances" in (lu_runtime.illegal(make("float64", 3, 3, 9, stack_a="pointers")) or "")
    assert "adjacent" in (lu_runtime.illegal(make("float64", 3, 3, 9, layout_a="any")) or "")
    assert "first cache" in (lu_runtime.illegal(make("float64", 33, 33, 9)) or "")
    assert "want" in (lu_runtime.illegal(make("float64", 3, 3, 9, NRHS=3, want="swap")) or "")
