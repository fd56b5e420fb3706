"""Gradients of tiny matrices that are exact, and how launches of the gradients kernels are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import address
from kernel_cases import BACKENDS, numbered
from lu_cases import exact_matrices
from scipy.linalg import solve_triangular
from systems_cases import adjoint, integers

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.factor.gradients import emit, space, spec
from mansard.kernels.factor.gradients.shapes import of_lu
from mansard.kernels.factor.gradients.space import Columns, Config, Products, Solution, Tensor
from mansard.plan.problem import Problem

P = spec.problem
CASES: list[tuple[Problem, Config]] = [
    (P("float64", 16, 7), Tensor(1, 4)),
    (P("float32", 16, 5), Products(8, 2, 4)),
    (P("float64", 16, 5, want="cholesky"), Columns(16, 2)),
    (P("float64", 16, 9, want="solution", NRHS=1, layout_a="col"), Solution(8)),
    (P("complex128", 5, 9), Products(4, 1, 2)),
    (P("complex128", 5, 9, want="cholesky", layout_a="col"), Columns(8, 2)),
    (P("complex128", 5, 9, want="solution", NRHS=2), Solution(4)),
    (P("float64", 8, 11, want="congruence", layout_a="col", layout_g="col"), Tensor(4, 2)),
    (P("float64", 13, 6, want="inverse", layout_a="col", aligned=False), Tensor(2, 1)),
    (P("complex64", 8, 10, want="congruence", layout_g="col"), Products(2, 2, 1)),
    (P("float32", 7, 12, want="cholesky", aligned=False), Columns(8, 4)),
    (P("float32", 3, 40, want="solution", NRHS=3, layout_a="col", aligned=False), Solution(1, WARPS=4)),
    (P("float64", 17, 3, want="congruence", layout_a="any", stack_a="strided"), Tensor(1, 2)),
    (P("float64", 32, 3), Tensor(1, 1)),
    (P("complex64", 17, 3, layout_a="col", pitch_a=20, stack_a="strided"), Products(8, 4, 2)),
    (P("complex64", 9, 5, want="cholesky", layout_g="any", stack_g="strided"), Columns(32, 1)),
    (P("float64", 32, 2, want="cholesky", pitch_a=36, stack_a="strided"), Columns(32, 1)),
    (P("float64", 20, 3, want="solution", NRHS=1, stack_y="strided", pivot=False), Solution(8, True, VIA="shared")),
    (P("complex64", 2, 33, want="solution", NRHS=1, layout_a="any", stack_a="strided"), Solution(2)),
    (P("float64", 1, 37), Tensor(8, 1)),
    (P("float32", 1, 70, want="cholesky"), Columns(1, 1)),
    (P("float32", 2, 50, want="congruence", layout_a="any", stack_a="strided"), Products(1, 1, 1)),
    (P("float64", 6, 10, want="solution", NRHS=8, layout_g="col", layout_y="col"), Solution(4, WARPS=2)),
]  # fmt: skip
case_id = numbered(CASES)


@dataclass
class Made:
    """Operands, and the exact answers: F, and W of solutions."""

    A: Any
    G: Any
    Y: Any
    F: Any
    W: Any = None


def made(problem: Problem, seed: int = 0) -> Made:
    """Operands whose products, eliminations and substitutions do not round: what is divided by are powers of two."""
    rng, dtype, N, batch = np.random.default_rng(seed), problem.dtype, problem.N, int(problem.BATCH)
    if problem.want == "solution":
        A = exact_matrices(of_lu(problem), seed).A
        W, Y = (integers(rng, (batch, N, problem.NRHS), dtype) for _ in range(2))
        return Made(A.conj(), A @ W, Y, -W @ adjoint(Y), W)
    A, G = (integers(rng, (batch, N, N), dtype) for _ in range(2))
    if problem.want != "cholesky":
        return Made(A, G, None, spec.reference(problem.want, A, G))
    half = N // 2
    A = np.tril(A, -1)
    A[:, :half, :half] *= np.eye(half, k=-1, dtype=dtype)  # inverses of two diagonals and a block below them
    A[:, half:, half:] *= 0
    A[:, range(N), range(N)] = rng.choice([0.5, 1, 2], (batch, N))
    A = A / (1 << half) if dtype.startswith("float32") and half > 8 else A
    return Made(A.astype(dtype), G, None, _of_factor(A, G).astype(dtype))


def _of_factor(A: Any, G: Any) -> Any:
    """The gradient by SciPy's triangular solves."""
    P = np.tril(adjoint(A) @ np.tril(G)) / 2
    P = P - P * np.eye(P.shape[-1]) / 2
    found = []
    for one, other in zip(A, P, strict=True):
        half = solve_triangular(one, other, trans="C", lower=True)
        found.append(adjoint(solve_triangular(one, adjoint(half), trans="C", lower=True)))
    S = np.array(found)
    return S + adjoint(S)


def stack_of(problem: Problem, operand: str, xp: Any, values: Any) -> Any:
    """`values` as an operand; everything between the entries is NaN."""
    rows, columns = spec.shape(problem, operand)
    traits = {f"{trait}_c": getattr(problem, f"{trait}_{operand}") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, rows, columns, 1, problem.BATCH, aligned=problem.aligned, **traits)
    return gemm_cases.stack_of(alike, "c", xp, xp.asarray(values))


def launch(problem: Problem, config: Config, backend: str, given: Made) -> tuple[Any, Any]:
    """F and W, which begin as NaN, as NumPy arrays."""
    where, xp, batch = BACKENDS[backend].backend(), testing.array_module(backend), int(problem.BATCH)
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    stacks = [stack_of(problem, name, xp, values) if values is not None else None
              for name, values in zip("agy", (given.A, given.G, given.Y), strict=True)]  # fmt: skip
    strides = tuple(step for one in stacks for step in ((0, 0, 0) if one is None else one.strides))
    F = xp.full((batch, problem.N, problem.N), np.nan, problem.dtype)
    W = xp.full((batch, problem.N, max(1, problem.NRHS)), np.nan, problem.dtype)
    pointers = (*(0 if one is None else one.pointer for one in stacks), address(W), address(F))
    where.prepare(emit.kernel(problem, config, where.device, strides))(pointers, (), 0)
    where.synchronize()
    return tuple(one if backend == "emulated" else one.get() for one in (F, W))


def exact(problem: Problem, config: Config, backend: str, seed: int = 0) -> None:
    """Sums of small integers, and of these over powers of two. What is above the diagonal of a factor, and of its
    gradient, is not read."""
    given = made(problem, seed)
    expected = given.F
    if problem.want == "cholesky":
        above = np.triu_indices(problem.N, 1)
        given.G[:, above[0], above[1]] = np.nan
    F, W = launch(problem, config, backend, given)
    assert np.array_equal(F, expected)
    assert np.array_equal(W, given.W) if given.W is not None else np.isnan(W).all()


def bounded(problem: Problem, config: Config, backend: str) -> None:
    """Random matrices: entry by entry within the rounding errors of products and substitutions."""
    rng, dtype, N, batch = np.random.default_rng(5), problem.dtype, problem.N, int(problem.BATCH)
    wide, eps = "complex128" if problem.is_complex else "float64", float(np.finfo(dtype).eps)

    def normal(columns: int) -> Any:
        values = rng.standard_normal((batch, N, columns))
        return (values + 1j * rng.standard_normal(values.shape) if problem.is_complex else values).astype(dtype)

    A, G = normal(N), normal(spec.shape(problem, "g")[1])
    if problem.want == "solution":
        A = A + 4 * N * np.eye(N, dtype=dtype) * (not problem.pivot)
        Y = normal(problem.NRHS)
        F, W = launch(problem, config, backend, Made(A, G, Y, None))
        size = abs(A) @ abs(W) + abs(G)
        assert (abs(A.conj().astype(wide) @ W - G) <= 8 * N**2 * eps * size.max(-2, keepdims=True)).all()
        assert (abs(F + W.astype(wide) @ adjoint(Y)) <= 4 * (problem.NRHS + 1) * eps * abs(W) @ abs(adjoint(Y))).all()
        return
    if problem.want == "cholesky":
        A = np.tril(A, -1) / N
        A[:, range(N), range(N)] = 1 + rng.random((batch, N))
    F = launch(problem, config, backend, Made(A, G, None, None))[0]
    exactly, gradient = A.astype(wide), G.astype(wide)
    if problem.want == "cholesky":
        expected, inverse = _of_factor(exactly, gradient), abs(np.linalg.inv(exactly))
        grown = inverse @ abs(A) @ inverse  # what a substitution makes of errors: |L^-1| |L| |x|
        size = grown.swapaxes(-1, -2) @ abs(adjoint(A)) @ abs(np.tril(G)) @ grown
        size = size + size.swapaxes(-1, -2)
    else:
        expected = spec.reference(problem.want, exactly, gradient)
        left = abs(A) if problem.want == "congruence" else abs(adjoint(A))
        size = left @ abs(G) @ abs(adjoint(A))
    assert (abs(F - expected) <= 8 * (N + 1) * eps * size).all()
