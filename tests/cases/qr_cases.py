"""Problems and configurations that between them reach every branch of the qr kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import Stack
from kernel_cases import BACKENDS
from scipy.linalg import lapack

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.factor.qr import emit, space, spec
from mansard.kernels.factor.qr.space import Block, Config, Lanes, Tensor
from mansard.plan.problem import REAL, Problem

P = spec.problem
_STRIDED: dict[str, Any] = {"stack_a": "strided"}
_POINTERS: dict[str, Any] = {"stack_a": "pointers"}

LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes along rows and columns, ragged shares, groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 70), Lanes(1, 1)),
    (P("float64", 2, 2, 131), Lanes(1, 1, WARPS=2)),
    (P("float64", 3, 3, 67), Lanes(1, 1, 0, 2)),
    (P("float64", 4, 4, 33), Lanes(1, 4)),
    (P("float64", 5, 5, 31), Lanes(1, 4, 2, 2, 2)),
    (P("float64", 5, 3, 31), Lanes(2, 2)),
    (P("float64", 3, 7, 31), Lanes(1, 8)),
    (P("float64", 8, 8, 21), Lanes(1, 8)),
    (P("float64", 8, 8, 21), Lanes(1, 8, 4)),
    (P("float64", 9, 9, 9), Lanes(2, 4, 1)),
    (P("float64", 12, 10, 9), Lanes(4, 2)),
    (P("float64", 12, 10, 9), Lanes(4, 2, 1)),
    (P("float64", 16, 16, 9), Lanes(1, 8)),
    (P("float64", 16, 16, 9), Lanes(2, 8, 2)),
    (P("float64", 17, 17, 5), Lanes(1, 16, 4)),
    (P("float64", 20, 20, 3), Lanes(4, 8, 1)),
    (P("float64", 23, 14, 3), Lanes(8, 4, 1)),
    (P("float64", 14, 23, 3), Lanes(2, 16, 4, 2)),
    (P("float64", 32, 32, 2), Lanes(2, 16, 4)),
    (P("float64", 40, 3, 5), Lanes(8, 1, 1)),
    (P("float64", 64, 2, 3), Lanes(32, 1)),
    # the other dtypes
    (P("float32", 2, 2, 70), Lanes(1, 2)),
    (P("float32", 7, 7, 17), Lanes(1, 4)),
    (P("float32", 16, 16, 9), Lanes(2, 8, 1)),
    (P("float32", 31, 31, 3), Lanes(1, 16, 8)),
    (P("complex64", 3, 3, 50), Lanes(1, 1)),
    (P("complex64", 8, 5, 13), Lanes(2, 4)),
    (P("complex64", 5, 8, 13), Lanes(2, 4, 1)),
    (P("complex128", 2, 2, 50), Lanes(1, 1)),
    (P("complex128", 8, 8, 13), Lanes(1, 8)),
    (P("complex128", 17, 17, 3), Lanes(4, 8, 2)),
    (P("complex128", 18, 18, 3), Lanes(4, 4, 1, WARPS=1)),
    (P("complex128", 25, 25, 2), Lanes(2, 16, 1, WARPS=1)),
    (P("complex64", 14, 14, 9), Lanes(2, 2, 1, WARPS=1)),
    (P("complex64", 26, 26, 5), Lanes(2, 4, 1, WARPS=1)),
    (P("complex64", 29, 29, 3), Lanes(1, 16, 2, WARPS=1)),
    # layouts, pitches, stacks, alignment
    (P("float64", 8, 8, 9, layout_a="col"), Lanes(1, 8)),
    (P("float64", 7, 5, 9, layout_a="col", layout_f="row"), Lanes(2, 2)),
    (P("float32", 8, 6, 9, layout_f="col"), Lanes(2, 4, 2)),
    (P("complex128", 4, 3, 9, layout_a="any"), Lanes(2, 2)),
    (P("float64", 5, 3, 9, pitch_a=9, **_STRIDED), Lanes(2, 2)),
    (P("float64", 6, 6, 9, pitch_a=8, layout_a="col", **_STRIDED, stack_f="packed"), Lanes(1, 4)),
    (P("float64", 7, 7, 9, **_POINTERS), Lanes(1, 8)),
    (P("complex64", 8, 8, 9, stack_a="pointers", stack_f="strided"), Lanes(1, 8, 1, 2)),
    (P("float64", 5, 5, 9, aligned=False), Lanes(1, 4)),
    (P("float32", 6, 6, 9, aligned=False), Lanes(1, 2)),
    (P("complex128", 4, 3, 9, aligned=False), Lanes(2, 2)),
    # the other results
    (P("float64", 4, 4, 33, want="r"), Lanes(1, 4)),
    (P("float64", 9, 5, 9, want="r"), Lanes(2, 4, 2)),
    (P("complex64", 5, 9, 9, want="r", layout_f="col"), Lanes(2, 4)),
    (P("float64", 1, 1, 33, want="reduced"), Lanes(1, 1)),
    (P("float64", 3, 3, 33, want="reduced"), Lanes(1, 1)),
    (P("float64", 8, 8, 9, want="reduced"), Lanes(1, 8)),
    (P("float64", 11, 6, 9, want="reduced"), Lanes(2, 4, 1)),
    (P("float64", 6, 11, 9, want="reduced", layout_q="col"), Lanes(2, 4)),
    (P("float64", 16, 16, 5, want="reduced"), Lanes(2, 8, 4, 2)),
    (P("float32", 12, 12, 5, want="reduced", layout_a="col"), Lanes(4, 4, 1)),
    (P("complex128", 9, 7, 5, want="reduced"), Lanes(2, 8, 2)),
    (P("float64", 32, 32, 2, want="reduced"), Lanes(4, 8, 2)),
    (P("float64", 8, 3, 9, want="complete"), Lanes(2, 4)),
    (P("float64", 3, 8, 9, want="complete", stack_q="pointers", stack_f="strided"), Lanes(1, 4)),
    (P("complex64", 10, 4, 5, want="complete", layout_a="col", layout_f="row"), Lanes(4, 4, 1)),
    (P("float64", 4, 4, 33, want="solve", NRHS=1), Lanes(1, 4)),
    (P("float64", 1, 1, 33, want="solve", NRHS=1), Lanes(1, 1)),
    (P("float64", 9, 5, 9, want="solve", NRHS=3), Lanes(2, 4, 2)),
    (P("float32", 16, 16, 5, want="solve", NRHS=1, layout_a="col"), Lanes(1, 8)),
    (P("complex128", 7, 6, 9, want="solve", NRHS=2, layout_b="col", stack_b="strided", pitch_b=9), Lanes(2, 2, 1)),
    (P("complex64", 20, 12, 3, want="solve", NRHS=1, stack_b="pointers"), Lanes(8, 4, 1, 2)),
    (P("float64", 9, 5, 9, want="panel"), Lanes(2, 4, 2)),
    (P("complex64", 12, 8, 5, want="panel", layout_q="col"), Lanes(4, 8, 1)),
    (P("float64", 4, 4, 9, want="panel"), Lanes(1, 1)),
]  # fmt: skip

BLOCK: list[tuple[Problem, Config]] = [
    (P("float64", 33, 33, 3), Block(8, 8, 1, 1, 2)),
    (P("float64", 40, 40, 2), Block(4, 16, 4, 1, 2)),
    (P("float64", 64, 64, 1), Block(8, 16, 2)),
    (P("float64", 50, 20, 2), Block(16, 4, 1, 1, 2)),
    (P("float64", 20, 50, 2), Block(8, 16, 2, 2, 4)),
    (P("float64", 130, 9, 2), Block(32, 4, 1)),
    (P("float32", 36, 36, 2, layout_a="col"), Block(8, 8, 1, 1, 2)),
    (P("complex64", 35, 34, 2), Block(4, 16, 2, 1, 2)),
    (P("complex128", 33, 35, 2, pitch_a=37, **_STRIDED), Block(8, 16, 1)),
    (P("float64", 37, 37, 2, want="r"), Block(4, 16, 4, 1, 2)),
    (P("float64", 40, 33, 2, want="reduced"), Block(8, 16, 2)),
    (P("complex64", 33, 40, 2, want="reduced", layout_q="col"), Block(8, 8, 1, 1, 2)),
    (P("float64", 36, 5, 2, want="complete"), Block(8, 16, 1)),
    (P("float64", 50, 34, 2, want="solve", NRHS=3), Block(8, 16, 1)),
    (P("complex128", 40, 36, 2, want="solve", NRHS=1), Block(16, 8, 1)),
    (P("float64", 100, 32, 2, want="panel"), Block(32, 8, 1, 1, 8)),
    (P("float64", 90, 16, 2, want="panel", layout_a="col"), Block(32, 4, 1)),
    (P("complex64", 70, 20, 2, want="panel", **_POINTERS), Block(16, 8, 1)),
]  # fmt: skip

TENSOR: list[tuple[Problem, Config]] = [
    # rows and columns before the first ones, an odd block of columns, warps without a strip at the end
    (P("float64", 8, 8, 3), Tensor(1)),
    (P("float64", 17, 17, 3), Tensor(1)),
    (P("float64", 64, 64, 2, want="reduced"), Tensor(4)),
    (P("float64", 33, 33, 2), Tensor(1)),
    (P("float64", 40, 40, 2, want="reduced"), Tensor(2)),
    (P("float64", 57, 57, 2), Tensor(4)),
    (P("float64", 20, 40, 3, want="complete"), Tensor(2)),
    (P("float64", 40, 20, 3), Tensor(1)),
    (P("float64", 21, 37, 3, layout_a="col"), Tensor(1)),
    (P("float64", 32, 32, 3, want="reduced"), Tensor(2)),
    (P("float64", 29, 29, 3, want="reduced", layout_q="col"), Tensor(1)),
    (P("float64", 37, 21, 3, want="r", layout_f="any", **_POINTERS), Tensor(1)),
    (P("float64", 23, 23, 3, pitch_a=25, **_STRIDED), Tensor(2)),
    (P("float64", 72, 70, 1), Tensor(5)),
]  # fmt: skip
CASES = LANES + BLOCK + TENSOR


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    sizes = "x".join(str(size) for _, size in problem.sizes)
    return f"{config.VARIANT}-{problem.want}-{problem.dtype}-{sizes}-{CASES.index(case)}"


@dataclass
class Results:
    """What a kernel left: stacks of NumPy arrays, None where there is nothing."""

    F: Any = None
    tau: Any = None
    Q: Any = None
    X: Any = None


def stack_of(problem: Problem, operand: str, xp: Any, values: Any) -> Stack:
    """`values` as an operand; everything between the entries is NaN."""
    rows, columns = spec.shape(problem, operand)
    traits = {f"{trait}_c": getattr(problem, f"{trait}_{operand}") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, rows, columns, 1, problem.BATCH, aligned=problem.aligned, **traits)
    return gemm_cases.stack_of(alike, "c", xp, values)


def numbers(problem: Problem, operand: str, seed: int = 0, integers: bool = False) -> Any:
    rows, columns = spec.shape(problem, operand)
    flat = testing.random_matrix(np, problem.BATCH * rows, columns, problem.dtype, seed, integers)
    return flat.reshape(problem.BATCH, rows, columns)


def run(problem: Problem, config: Config, backend: str, A: Any, B: Any = None, in_place: bool = False) -> Results:
    """The kernel itself; results start as NaN, and nothing is written between their entries."""
    xp = testing.array_module(backend)
    where = BACKENDS[backend].backend()
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    stacks: dict[str, Stack] = {"a": stack_of(problem, "a", xp, xp.asarray(A))}
    for name in "fqx":
        if any(spec.shape(problem, name)):
            nothing = xp.full((problem.BATCH, *spec.shape(problem, name)), np.nan, problem.dtype)
            stacks[name] = stacks["a"] if in_place and name == "f" else stack_of(problem, name, xp, nothing)
    if B is not None:
        stacks["b"] = stack_of(problem, "b", xp, xp.asarray(B))
    tau = xp.full((problem.BATCH, min(problem.M, problem.N)), np.nan, problem.dtype)
    strides = tuple(
        stride for name in spec.OPERANDS for stride in (stacks[name].strides if name in stacks else (0,) * 3)
    )
    kernel = emit.kernel(problem, config, where.device, strides)
    at = {name: stacks[name].pointer if name in stacks else 0 for name in spec.OPERANDS}
    has_tau = problem.want in ("raw", "panel")
    pointers = (at["a"], at["f"], gemm_cases.address(tau) if has_tau else 0, at["q"], at["b"], at["x"])
    where.prepare(kernel)(pointers, (), 0)
    where.synchronize()
    found = {name: np.asarray(testing_copy(stacks[name].view)) for name in "fqx" if name in stacks}
    for name in "fqx":
        if name in stacks:
            stacks[name].view[...] = np.nan
            assert bool(xp.isnan(stacks[name].buffer).all()), f"written between the entries: {problem} {config}"
    return Results(found.get("f"), testing_copy(tau) if has_tau else None, found.get("q"), found.get("x"))


def testing_copy(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.get()


def geqrf(A: Any) -> tuple[Any, Any]:
    """LAPACK's, matrix by matrix."""
    routine = lapack.get_lapack_funcs("geqrf", (A[:1],))
    found = [routine(a)[:2] for a in A]
    return np.stack([f for f, _ in found]), np.stack([tau for _, tau in found])


def unpacked(F: Any, tau: Any) -> tuple[Any, Any]:
    """Q (all of its columns) and R of raw factors, in higher precision."""
    wide = F.astype(np.clongdouble if np.iscomplexobj(F) else np.longdouble)
    M, K = F.shape[-2], tau.shape[-1]
    Q = np.broadcast_to(np.eye(M, dtype=wide.dtype), (len(F), M, M)).copy()
    for k in reversed(range(K)):
        v = wide[:, :, k].copy()
        v[:, :k], v[:, k] = 0, 1
        along = np.einsum("bi,bij->bj", v.conj(), Q)
        Q -= tau[:, k, None, None] * v[:, :, None] * along[:, None, :]
    return Q, np.triu(wide)


def epsilon(problem: Problem) -> float:
    return float(np.finfo(REAL[problem.dtype]).eps)


def check_product(problem: Problem, A: Any, Q: Any, R: Any) -> None:
    """Column by column |A - Q R| <= c m eps |A|, and |Q^H Q - I| <= c m eps, entry by entry."""
    wide = np.clongdouble if problem.is_complex else np.longdouble
    A, Q, R = A.astype(wide), Q.astype(wide), R.astype(wide)
    bound = 4 * (problem.M + 4) * epsilon(problem)
    scale = abs(A).max(axis=(1, 2), keepdims=True)  # squares of tiny and huge columns stay in range
    scale[~(scale > 0)] = 1
    A, R = A / scale, R / scale
    length = np.sqrt((abs(A) ** 2).sum(axis=1))
    residual = np.sqrt((abs(A - Q @ R) ** 2).sum(axis=1))
    tiny = np.finfo(REAL[problem.dtype]).smallest_subnormal * problem.M / scale[:, 0]
    assert np.isfinite(residual).all() and bool((residual <= bound * length + tiny).all()), (
        residual / length
    ).max() / bound
    apart = abs(Q.conj().swapaxes(1, 2) @ Q - np.eye(Q.shape[2]))
    assert np.isfinite(apart).all() and bool((apart <= bound).all()), apart.max() / bound


def check(problem: Problem, config: Config, backend: str, A: Any, B: Any = None, in_place: bool = False) -> Results:
    """The kernel's results for A are right, whatever they are."""
    got = run(problem, config, backend, A, B, in_place)
    M, N = problem.M, problem.N
    if problem.want in ("raw", "panel"):
        Q, R = unpacked(got.F, got.tau)
        check_product(problem, A, Q, R)
        diagonal = np.diagonal(got.F, axis1=1, axis2=2)
        assert bool((diagonal.imag == 0).all()), "R has a real diagonal"
    elif problem.want in ("reduced", "complete"):
        check_product(problem, A, got.Q, got.F)
        assert bool((np.tril(got.F, -1) == 0).all())
    elif problem.want == "r":
        assert bool((np.tril(got.F, -1) == 0).all())
        check_triangle(problem, A, got.F)
    else:
        check_solution(problem, A, B, got.X)
    if problem.want == "panel":
        check_compact(problem, got)
    assert M >= 1 and N >= 1
    return got


def check_triangle(problem: Problem, A: Any, R: Any) -> None:
    """R^H R = A^H A: what is left of Q R where there is no Q."""
    wide = np.clongdouble if problem.is_complex else np.longdouble
    A, R = A.astype(wide), R.astype(wide)
    length = np.sqrt((abs(A) ** 2).sum(axis=1))
    error = abs(R.conj().swapaxes(1, 2) @ R - A.conj().swapaxes(1, 2) @ A)
    bound = 8 * (problem.M + 4) * epsilon(problem) * length[:, :, None] * length[:, None, :]
    assert bool((error <= bound).all()), (error / bound).max()


def check_solution(problem: Problem, A: Any, B: Any, X: Any) -> None:
    """As near to the solution in double precision or better as its condition allows."""
    wide = "complex128" if problem.is_complex else "float64"
    for a, b, x in zip(A.astype(wide), B.astype(wide), X, strict=True):
        exact = np.linalg.lstsq(a, b, rcond=None)[0]
        condition = np.linalg.cond(a)
        residual = np.linalg.norm(b - a @ exact, axis=0) / np.linalg.norm(a, 2)
        bound = 8 * (problem.M + 4) * epsilon(problem) * condition
        bound = bound * (np.linalg.norm(exact, axis=0) + condition * residual)
        error = np.linalg.norm(x - exact, axis=0)
        assert np.isfinite(error).all() and bool((error <= bound).all()), (error / bound).max()


def check_compact(problem: Problem, got: Results) -> None:
    """Q = I - V T V^H is the product of the reflections."""
    Q, _ = unpacked(got.F, got.tau)
    M, K = problem.M, min(problem.M, problem.N)
    V = np.tril(got.F[:, :, :K], -1).astype(Q.dtype) + np.eye(M, K)
    error = abs(np.eye(M) - V @ got.Q.astype(Q.dtype) @ V.conj().swapaxes(1, 2) - Q)
    assert bool((np.tril(got.Q, -1) == 0).all())
    assert np.isfinite(error).all() and bool((error <= 8 * (M + 4) * epsilon(problem)).all()), error.max()


def exact(problem: Problem, config: Config, backend: str) -> None:
    """Ordinary matrices, and triangles, which need the other way to factor: exact, since nothing is reflected."""
    B = numbers(problem, "b", 1) if problem.want == "solve" else None
    check(problem, config, backend, numbers(problem, "a"), B)
    A = np.triu(numbers(problem, "a", 2, integers=True))
    every = np.arange(min(problem.M, problem.N))
    A[:, every, every] = 1
    got = run(problem, config, backend, A, None if B is None else np.zeros_like(B))
    if problem.want == "solve":
        assert bool((got.X == 0).all())
    else:
        assert bool((A[:, : got.F.shape[1]] == got.F).all())
        assert got.Q is None or bool(((0 if problem.want == "panel" else np.eye(*got.Q.shape[1:])) == got.Q).all())
