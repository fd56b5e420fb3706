"""Problems and configurations that between them reach every branch of the Cholesky kernels."""

from __future__ import annotations

from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import Stack
from kernel_cases import BACKENDS

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.factor.cholesky import emit, space, spec
from mansard.kernels.factor.cholesky.space import Block, Config, Lanes, Tile
from mansard.plan.problem import REAL, Problem

P = spec.problem
_STRIDED = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS = {"stack_a": "pointers", "stack_b": "pointers"}


def S(dtype: str, N: int, NRHS: int, BATCH: int, **traits: Any) -> Problem:
    return P(dtype, N, BATCH, NRHS=NRHS, want="solve", **traits)


LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes, ragged shares, groups that begin anywhere, tails of the batch
    (P("float64", 1, 70), Lanes(1)),
    (P("float64", 2, 131), Lanes(1, WARPS=2)),
    (P("float64", 3, 67, uplo="upper"), Lanes(1)),
    (P("float64", 4, 33), Lanes(2)),
    (P("float64", 5, 31, uplo="upper"), Lanes(4, WARPS=2)),
    (P("float64", 8, 40), Lanes(1, True)),
    (P("float64", 9, 23), Lanes(4)),
    (P("float64", 12, 9, uplo="upper"), Lanes(1)),
    (P("float64", 16, 21), Lanes(8, True)),
    (P("float64", 16, 5, uplo="upper"), Lanes(8, True, WARPS=1)),
    (P("float64", 17, 9), Lanes(8, WARPS=2)),
    (P("float64", 24, 9), Lanes(8)),
    (P("float64", 31, 5), Lanes(16)),
    (P("float64", 32, 5, uplo="upper"), Lanes(32)),
    # the other dtypes
    (P("float32", 2, 70), Lanes(1)),
    (P("float32", 7, 17), Lanes(4)),
    (P("float32", 16, 17, uplo="upper"), Lanes(8, True)),
    (P("float32", 32, 5), Lanes(16)),
    (P("float32", 27, 9), Lanes(8, WARPS=2)),
    (P("complex64", 3, 50, uplo="upper"), Lanes(1)),
    (P("complex64", 17, 5), Lanes(8)),
    (P("complex128", 2, 50), Lanes(1)),
    (P("complex128", 9, 13, uplo="upper"), Lanes(8)),
    (P("complex128", 16, 5), Lanes(16, True)),
    # layouts, pitches, stacks, alignment
    (P("float64", 6, 21, layout_a="col"), Lanes(2)),
    (P("float64", 7, 21, layout_f="col", uplo="upper"), Lanes(4)),
    (P("complex64", 5, 21, layout_a="any", layout_f="any", uplo="upper"), Lanes(2)),
    (P("float64", 6, 21, pitch_a=9, stack_a="strided"), Lanes(2)),
    (P("float32", 8, 21, pitch_a=12, stack_a="strided", stack_f="packed"), Lanes(4)),
    (P("float64", 7, 21, stack_a="pointers"), Lanes(1)),
    (P("float64", 5, 21, aligned=False), Lanes(4)),
    (P("complex128", 4, 21, aligned=False, uplo="upper"), Lanes(1)),
    # solutions
    (S("float64", 1, 1, 40), Lanes(1)),
    (S("float64", 2, 1, 131), Lanes(1)),
    (S("float64", 5, 2, 67, uplo="upper"), Lanes(1)),
    (S("float64", 8, 1, 33), Lanes(8)),
    (S("float64", 13, 3, 9), Lanes(4)),
    (S("float64", 16, 1, 9, uplo="upper"), Lanes(8, True)),
    (S("float64", 31, 1, 5), Lanes(16)),
    (S("float32", 17, 4, 9, layout_b="col"), Lanes(8)),
    (S("complex64", 6, 2, 21, uplo="upper"), Lanes(1)),
    (S("complex128", 9, 2, 13, uplo="upper", layout_x="col"), Lanes(8)),
    (S("complex128", 10, 1, 13, layout_a="col"), Lanes(16)),
    (S("float64", 7, 2, 21, pitch_a=9, pitch_b=4, **_STRIDED), Lanes(2)),
    (S("float64", 6, 3, 21, **_POINTERS, stack_x="packed"), Lanes(4)),
    (S("float32", 5, 1, 21, aligned=False), Lanes(2)),
]  # fmt: skip

TILE: list[tuple[Problem, Config]] = [
    (P("float64", 32, 5), Tile(8, 4, True)),
    (P("float64", 33, 5, uplo="upper"), Tile(8, 4)),
    (P("float64", 40, 5), Tile(8, 4, WARPS=2)),
    (P("float64", 47, 3, layout_a="col"), Tile(16, 2)),
    (P("float64", 64, 3), Tile(8, 4, True)),
    (P("float64", 3, 3), Tile(8, 4)),
    (P("float64", 17, 7), Tile(8, 2)),
    (P("float64", 20, 5, uplo="upper"), Tile(8, 2, True, WARPS=2)),
    (P("complex128", 13, 5), Tile(4, 4)),
    (S("float64", 18, 2, 5), Tile(8, 2)),
    (S("complex64", 11, 1, 7, uplo="upper"), Tile(8, 1)),
    (P("float32", 50, 3, uplo="upper"), Tile(8, 4)),
    (P("float32", 80, 2), Tile(8, 4)),
    (P("complex64", 35, 3, uplo="upper"), Tile(8, 4)),
    (P("complex128", 33, 3), Tile(8, 4)),
    (P("complex128", 20, 3, uplo="upper", layout_f="row", layout_a="any"), Tile(16, 2)),
    (P("float64", 34, 3, pitch_a=36, stack_a="strided", stack_f="pointers"), Tile(8, 4)),
    (P("float32", 33, 3, aligned=False), Tile(8, 4)),
    (S("float64", 33, 1, 5), Tile(8, 4)),
    (S("float64", 56, 2, 3, uplo="upper"), Tile(8, 4, True)),
    (S("float64", 40, 3, 3, layout_b="col"), Tile(16, 2)),
    (S("float32", 45, 1, 3), Tile(8, 4)),
    (S("complex64", 36, 2, 3, uplo="upper", layout_x="col"), Tile(8, 4)),
    (S("complex128", 34, 1, 3, uplo="upper", **_POINTERS), Tile(8, 4)),
    # triangles without their other half: orders that do not fill bands, odd ones, columns, two warps
    (P("float64", 57, 3), Tile(8, 4, True)),
    (P("float64", 27, 9, uplo="upper"), Tile(8, 2, True, WARPS=2)),
    (P("float32", 46, 3), Tile(8, 4, True)),
    (P("float32", 37, 3, aligned=False), Tile(8, 2, True)),
    (P("complex64", 36, 3, layout_a="col"), Tile(8, 4, True)),
    (P("complex128", 21, 3), Tile(8, 2, True)),
    (P("complex128", 52, 3), Tile(8, 8, True, WARPS=2)),
    (P("float64", 61, 3, uplo="upper"), Tile(16, 4, True, WARPS=2)),
    (P("float64", 44, 3, layout_f="col"), Tile(8, 4, True)),
    # without images
    (P("float64", 57, 5), Tile(8, 4, DIRECT=True)),
    (P("float32", 45, 5), Tile(8, 4, DIRECT=True)),
    (P("float64", 33, 5, aligned=False), Tile(8, 2, DIRECT=True)),
    (P("complex128", 27, 3), Tile(8, 2, DIRECT=True)),
    (P("complex64", 29, 5), Tile(8, 2, DIRECT=True)),
    (P("float64", 41, 5), Tile(8, 4, DIRECT=True)),
    (P("float64", 34, 7), Tile(8, 2, DIRECT=True, WARPS=2)),
    (P("float64", 49, 3, uplo="upper"), Tile(8, 4, DIRECT=True)),
    (P("float64", 64, 3), Tile(8, 4, DIRECT=True)),
    (P("float64", 35, 3, uplo="upper", layout_a="col"), Tile(8, 2, DIRECT=True)),
    (P("float32", 57, 5), Tile(8, 2, DIRECT=True)),
    (P("float64", 21, 3, layout_a="any", layout_f="row"), Tile(16, 2, DIRECT=True)),
    (P("complex64", 26, 5, uplo="upper", stack_a="pointers"), Tile(8, 2, DIRECT=True)),
    (P("float32", 22, 9, aligned=False), Tile(4, 2, DIRECT=True)),
    (P("complex128", 19, 3), Tile(8, 2, DIRECT=True)),
    (P("float64", 30, 3, pitch_a=33, stack_a="strided", stack_f="packed"), Tile(8, 4, DIRECT=True)),
    (P("complex128", 12, 3, layout_f="col"), Tile(4, 4, DIRECT=True)),
]

BLOCK: list[tuple[Problem, Config]] = [
    (P("float64", 5, 3), Block(1)),
    (P("float64", 16, 3), Block(2)),
    (P("float64", 33, 3, uplo="upper"), Block(1)),
    (P("float64", 65, 3), Block(4)),
    (P("float64", 100, 2, layout_a="col"), Block(2)),
    (P("float64", 128, 2), Block(4)),
    (P("float64", 129, 2, uplo="upper", layout_f="col"), Block(2)),
    (P("float64", 200, 1), Block(8)),
    (P("float32", 70, 2, uplo="upper"), Block(4)),
    (P("float32", 128, 2), Block(2)),
    (P("complex64", 49, 2), Block(2)),
    (P("complex64", 66, 2, uplo="upper"), Block(4)),
    (P("complex128", 48, 2, uplo="upper"), Block(4)),
    (P("complex128", 67, 2), Block(4)),
    (P("float64", 34, 3, layout_a="any", layout_f="any"), Block(2)),
    (P("float64", 36, 3, pitch_a=38, stack_a="strided", stack_f="pointers"), Block(2)),
    (P("float64", 35, 3, pitch_a=36, stack_a="strided"), Block(2)),
    (P("complex128", 35, 3, aligned=False), Block(2)),
    (P("float32", 36, 3, aligned=False), Block(2)),
    (S("float64", 65, 1, 3), Block(4)),
    (S("float64", 80, 3, 2, uplo="upper"), Block(2)),
    (S("float64", 60, 16, 2, layout_b="col"), Block(4)),
    (S("float32", 47, 1, 3), Block(1)),
    (S("complex64", 50, 2, 2, uplo="upper"), Block(2)),
    (S("complex128", 36, 5, 2, layout_x="col"), Block(2)),
    (S("complex128", 33, 1, 3, uplo="upper", **_POINTERS), Block(2)),
]
CASES = LANES + TILE + BLOCK


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    sizes = "x".join(str(size) for _, size in problem.sizes)
    return f"{config.VARIANT}-{problem.dtype}-{problem.want}-{sizes}-{CASES.index(case)}"


def stack_of(problem: Problem, operand: str, xp: Any, values: Any) -> Stack:
    """`values` as an operand; everything between the entries is NaN."""
    rows, columns = spec.shape(problem, operand)
    traits = {f"{trait}_c": getattr(problem, f"{trait}_{operand}") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, rows, columns, 1, problem.BATCH, aligned=problem.aligned, **traits)
    return gemm_cases.stack_of(alike, "c", xp, values)


def numbers(problem: Problem, rows: int, columns: int, xp: Any, seed: int, integers: bool) -> Any:
    flat = testing.random_matrix(xp, problem.BATCH * rows, columns, problem.dtype, seed, integers)
    return flat.reshape(problem.BATCH, rows, columns)


def factors(problem: Problem, xp: Any, seed: int) -> Any:
    """Lower triangles of small integers, with powers of two on the diagonal: all sums on the way are exact."""
    N = problem.N
    L = numbers(problem, N, N, xp, seed, True)
    L = xp.where(xp.asarray(np.tri(N, k=-1, dtype=bool)), L, 0).astype(problem.dtype)
    diagonal = np.random.default_rng(seed).choice([1, 2, 4], (problem.BATCH, N))
    every = xp.arange(N)
    L[:, every, every] = xp.asarray(diagonal.astype(problem.dtype))
    return L


def definite(problem: Problem, xp: Any, seed: int) -> Any:
    """Random, positive definite, moderately conditioned; diagonals are real."""
    N = problem.N
    G = numbers(problem, N, N, xp, seed, False)
    A = (G @ G.conj().swapaxes(-1, -2)) / N + xp.eye(N) / 4
    every = xp.arange(N)
    A[:, every, every] = A[:, every, every].real
    return A.astype(problem.dtype)


def one_triangle(problem: Problem, xp: Any, A: Any) -> Any:
    """NaN where nothing is read, imaginary parts of the diagonal included."""
    referenced = np.tri(problem.N, dtype=bool)
    referenced = referenced if problem.uplo == "lower" else referenced.T
    dirty = xp.where(xp.asarray(referenced), A, np.nan).astype(problem.dtype)
    if problem.is_complex:
        every = xp.arange(problem.N)
        dirty.imag[:, every, every] = np.nan
    return dirty


def result_of(problem: Problem) -> str:
    return "f" if problem.want == "factor" else "x"


def empty_result(problem: Problem, xp: Any) -> Stack:
    name = result_of(problem)
    shape = (int(problem.BATCH), *spec.shape(problem, name))
    return stack_of(problem, name, xp, xp.full(shape, np.nan, problem.dtype))


def launch(problem: Problem, config: Config, backend: str, A: Stack, B: Stack | None, out: Stack) -> Any:
    """The kernel itself, on stacks laid out as the problem says; `info`."""
    where = BACKENDS[backend].backend()
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    xp = testing.array_module(backend)
    info = xp.full(max(1, problem.BATCH), -7, np.int32)
    parts = {"a": A, "b": B, result_of(problem): out}
    stacks = [parts.get(name) for name in spec.SHAPES]
    strides = tuple(stride for stack in stacks for stride in (stack.strides if stack else (0, 0, 0)))
    kernel = emit.kernel(problem, config, where.device, strides)
    address = info.ctypes.data if xp is np else info.data.ptr
    where.prepare(kernel)((*(stack.pointer if stack else 0 for stack in stacks), address), (), 0)
    where.synchronize()
    return info[: problem.BATCH]


def alike(problem: Problem, one: str, other: str) -> bool:
    return all(getattr(problem, f"{trait}_{one}") == getattr(problem, f"{trait}_{other}")
               for trait in ("layout", "pitch", "stack"))  # fmt: skip


def exact(problem: Problem, config: Config, backend: str, in_place: bool = False, seed: int = 0) -> None:
    """Integer factors: every order gives the same, exact result. In place, where operands lie alike, results are
    written over them. What lies between the entries stays as it is."""
    xp = testing.array_module(backend)
    L = factors(problem, xp, seed)
    A = L @ L.conj().swapaxes(-1, -2)
    expected = L if problem.uplo == "lower" else L.conj().swapaxes(-1, -2)
    given = stack_of(problem, "a", xp, one_triangle(problem, xp, A))
    right, over = None, given
    if problem.want == "solve":
        expected = numbers(problem, problem.N, problem.NRHS, xp, seed + 1, True)
        over = right = stack_of(problem, "b", xp, A @ expected)
    lie_alike = alike(problem, "a", "f") if problem.want == "factor" else alike(problem, "b", "x")
    out = over if in_place and lie_alike else empty_result(problem, xp)
    info = launch(problem, config, backend, given, right, out)
    wrong = int((expected != out.view).sum())
    assert wrong == 0, f"{wrong} of {out.view.size} entries differ: {problem} {config}"
    assert not bool(info.any())
    out.view[...] = np.nan
    assert bool(xp.isnan(out.buffer).all()), f"written between the entries: {problem} {config}"


def on_host(array: Any, wide: Any) -> Any:
    return np.asarray(array if isinstance(array, np.ndarray) else array.get()).astype(wide)


def unit(dtype: str) -> float:
    return float(np.finfo(REAL[dtype]).eps) / 2


def factor_error(problem: Problem, A: Any, F: Any) -> float:
    """The largest |A - L L^H| of any entry of the triangle, in units of its bound gamma_{N+5} |L| |L^H|: inverse roots
    and products with them are off by some units more than a division."""
    wide = np.clongdouble if problem.is_complex else np.longdouble
    A, F = on_host(A, wide), on_host(F, wide)
    L = F if problem.uplo == "lower" else F.conj().swapaxes(-1, -2)
    assert not np.triu(L, 1).any() and np.isfinite(L).all() and not np.diagonal(L, 0, -2, -1).imag.any()
    terms = (problem.N + 5) * (4 if problem.is_complex else 1)
    error = np.tril(abs(A - L @ L.conj().swapaxes(-1, -2)))
    return float((error / (terms * unit(problem.dtype) * (abs(L) @ abs(L).swapaxes(-1, -2)))).max())


def solve_error(problem: Problem, A: Any, B: Any, X: Any) -> float:
    """The largest |A X - B| of any entry, in units of the bound gamma_{3N+8} |L| |L^H| |X|."""
    wide = np.clongdouble if problem.is_complex else np.longdouble
    L = abs(np.linalg.cholesky(on_host(A, np.complex128 if problem.is_complex else np.float64)))
    A, B, X = (on_host(array, wide) for array in (A, B, X))
    assert np.isfinite(X).all()
    terms = (3 * problem.N + 8) * (4 if problem.is_complex else 1)
    return float((abs(A @ X - B) / (terms * unit(problem.dtype) * (L @ L.swapaxes(-1, -2) @ abs(X)))).max())


def bounded(problem: Problem, config: Config, backend: str, A: Any = None, seed: int = 1) -> None:
    """Random numbers: every entry of the residual within the bound of the error analysis."""
    xp = testing.array_module(backend)
    A = definite(problem, xp, seed) if A is None else A
    given, out = stack_of(problem, "a", xp, one_triangle(problem, xp, A)), empty_result(problem, xp)
    if problem.want == "factor":
        info = launch(problem, config, backend, given, None, out)
        error = factor_error(problem, A, out.view)
    else:
        B = numbers(problem, problem.N, problem.NRHS, xp, seed + 1, False)
        info = launch(problem, config, backend, given, stack_of(problem, "b", xp, B), out)
        error = solve_error(problem, A, B, out.view)
    assert not bool(info.any()) and error <= 1, (problem, config, error)
