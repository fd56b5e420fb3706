"""Problems and configurations that between them reach every branch of the trsm kernels."""

from __future__ import annotations

from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import Stack
from kernel_cases import launch_of, numbered
from scalars import factors_of

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.batched.trsm import emit, space, spec
from mansard.kernels.batched.trsm.space import Blocked, Config, Lanes, Stream, Tensor
from mansard.plan.problem import Problem

P = spec.problem
_STRIDED = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS = {"stack_a": "pointers", "stack_b": "pointers"}

LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes along rows and columns, ragged shares, groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 70), Lanes(1, 1)),
    (P("float64", 2, 1, 131), Lanes(1, 1, 4, 1, "back", WARPS=2)),
    (P("float64", 3, 1, 67, uplo="upper"), Lanes(1, 1)),
    (P("float64", 4, 4, 33), Lanes(1, 4)),
    (P("float64", 5, 3, 31, uplo="upper", unit=True), Lanes(2, 2, 1, 2, "own", WARPS=2)),
    (P("float64", 8, 1, 40, uplo="upper"), Lanes(4, 1, 1, 3, "back", WARPS=2)),
    (P("float64", 8, 8, 40, trans="T"), Lanes(2, 4)),
    (P("float64", 9, 5, 23), Lanes(4, 2)),
    (P("float64", 12, 7, 9, unit=True), Lanes(1, 8, 1, 2, "own")),
    (P("float64", 16, 1, 21), Lanes(8, 1, 1, 1, "back", True)),
    (P("float64", 16, 16, 7, uplo="upper"), Lanes(1, 16, 1, 1, "back", True)),
    (P("float64", 17, 1, 9, uplo="upper"), Lanes(16, 1, 1, 2, "back", WARPS=2)),
    (P("float64", 31, 2, 5), Lanes(16, 2)),
    (P("float64", 32, 1, 5), Lanes(32, 1, 1, 1, "back", True)),
    (P("float64", 32, 1, 9, uplo="upper", layout_a="col"), Lanes(8, 1, 1, 2, "own", True, WARPS=1, BLOCKS_PER_SM=1)),
    (P("float64", 32, 32, 3), Lanes(2, 16)),
    # triangles whose pieces lie across the ends of lines and matrices, groups that begin anywhere
    (P("float64", 17, 1, 11), Lanes(8, 1, 1, 1, "back", True)),
    (P("float64", 19, 1, 9, uplo="upper"), Lanes(32, 1, 1, 1, "back", True, WARPS=2)),
    (P("float64", 13, 2, 19, layout_a="col"), Lanes(4, 2, 1, 1, "own", True, WARPS=1)),
    (P("float64", 21, 1, 7, layout_a="col", uplo="upper"), Lanes(16, 1, 1, 1, "back", True, WARPS=1)),
    (P("float64", 16, 1, 21, aligned=False), Lanes(8, 1, 1, 1, "back", True)),
    (P("float32", 11, 1, 23), Lanes(4, 1, 1, 1, "back", True)),
    (P("float32", 9, 3, 23, uplo="upper"), Lanes(2, 2, 1, 2, "own", True)),
    (P("complex64", 7, 1, 23), Lanes(2, 1, 1, 1, "back", True)),
    # the other dtypes
    (P("float32", 2, 2, 70), Lanes(1, 2)),
    (P("float32", 7, 1, 17, unit=True), Lanes(4, 1)),
    (P("float32", 8, 8, 17, uplo="upper"), Lanes(2, 4, 2, 2, "own", True)),
    (P("float32", 12, 3, 11, layout_a="col", uplo="upper"), Lanes(1, 2)),
    (P("float32", 16, 4, 11, layout_a="col"), Lanes(1, 4, 1, 1, "back", True)),
    (P("float32", 32, 5, 5), Lanes(16, 2)),
    (P("complex64", 3, 3, 50, trans="C"), Lanes(1, 1)),
    (P("complex64", 8, 2, 13, trans="C", uplo="upper"), Lanes(4, 2)),
    (P("complex64", 17, 5, 5), Lanes(8, 4)),
    (P("complex128", 2, 2, 50, unit=True, trans="C"), Lanes(1, 1)),
    (P("complex128", 8, 1, 13, uplo="upper"), Lanes(4, 1, 1, 2, "back", True)),
    (P("complex128", 17, 3, 3, trans="C"), Lanes(8, 4)),
    # the other side, layouts
    (P("float64", 6, 4, 21, side="right"), Lanes(2, 2)),
    (P("float64", 7, 4, 21, side="right", uplo="upper", trans="T"), Lanes(2, 4)),
    (P("complex64", 6, 5, 21, side="right", trans="C"), Lanes(4, 2)),
    (P("complex128", 5, 2, 21, side="right", uplo="upper", trans="C", layout_a="col", unit=True), Lanes(2, 2)),
    (P("float64", 8, 5, 21, layout_a="col", layout_b="col"), Lanes(1, 4)),
    (P("float64", 8, 6, 21, layout_a="col", uplo="upper", trans="T", layout_b="col", layout_x="row"), Lanes(2, 2)),
    (P("float32", 9, 4, 21, layout_x="col"), Lanes(4, 4, 1, 1, "back")),
    (P("float64", 6, 4, 21, layout_x="col"), Lanes(1, 4, 1, 1, "back")),
    (P("complex128", 4, 3, 21, layout_a="any", layout_b="any"), Lanes(2, 2)),
    (P("float64", 6, 1, 21, side="right", layout_b="col"), Lanes(2, 1)),
    # pitches, stacks, alignment
    (P("float64", 5, 3, 21, pitch_a=9, pitch_b=4, **_STRIDED), Lanes(2, 2)),
    (P("float64", 6, 6, 21, pitch_a=8, pitch_b=6, **_STRIDED, uplo="upper"), Lanes(2, 2, 2, 2, "own", WARPS=2)),
    (P("float32", 7, 1, 21, pitch_b=3, **_STRIDED), Lanes(4, 1)),
    (P("float64", 7, 7, 21, **_POINTERS), Lanes(4, 2, 1, 2)),
    (P("complex64", 8, 2, 21, stack_a="pointers", stack_x="strided"), Lanes(4, 2, 1, 1, "own")),
    (P("float64", 8, 8, 21, stack_a="shared"), Lanes(2, 4, 1, 2, "back")),
    (P("float64", 6, 5, 21, stack_a="shared", uplo="upper", layout_a="col"), Lanes(2, 2)),
    (P("complex128", 5, 2, 21, stack_b="shared"), Lanes(2, 2, 2, 1, "own")),
    (P("float64", 5, 1, 21, aligned=False), Lanes(4, 1, 1, 2)),
    (P("float32", 6, 6, 21, aligned=False), Lanes(2, 1)),
    (P("complex128", 4, 3, 21, aligned=False, uplo="upper"), Lanes(2, 1)),
    # inverted diagonals
    (P("float64", 8, 3, 21), Lanes(2, 2, INVERT=True)),
    (P("complex64", 9, 3, 21, uplo="upper"), Lanes(4, 2, INVERT=True)),
]  # fmt: skip

BLOCKED: list[tuple[Problem, Config]] = [
    # one block and several, ragged ends on either side, tiles of columns, a single column
    (P("float64", 33, 1, 5), Blocked(32, 1, 1, 32, 3)),
    (P("float64", 40, 1, 5, uplo="upper"), Blocked(16, 1, 1, 32, 2)),
    (P("float64", 64, 1, 3, uplo="upper", layout_a="col"), Blocked(32, 1, 1, 32, 4)),
    (P("float64", 37, 9, 3), Blocked(16, 8, 4, 16, 3)),
    (P("float64", 45, 21, 3, uplo="upper"), Blocked(16, 16, 8, 8, 2)),
    (P("float64", 64, 33, 2, unit=True), Blocked(32, 32, 8, 16, 3)),
    (P("float64", 12, 40, 3), Blocked(16, 16, 8, 8, 2)),
    (P("float32", 50, 10, 3, uplo="upper", unit=True), Blocked(8, 10, 4, 8, 4)),
    (P("float32", 129, 3, 2, trans="T"), Blocked(32, 4, 2, 32, 3)),
    (P("complex64", 36, 6, 3, trans="C"), Blocked(8, 4, 4, 8, 3)),
    (P("complex128", 35, 5, 3, trans="C", uplo="upper"), Blocked(16, 8, 4, 16, 2)),
    (P("complex128", 34, 1, 3), Blocked(16, 1, 1, 32, 3)),
    (P("float64", 34, 6, 5, side="right", uplo="upper"), Blocked(16, 8, 4, 16, 3)),
    (P("float64", 38, 6, 5, layout_a="col", layout_b="col", layout_x="row"), Blocked(16, 8, 4, 16, 3)),
    (P("complex128", 20, 3, 5, layout_a="any", layout_b="any", uplo="upper"), Blocked(8, 4, 4, 8, 2)),
    (P("float64", 34, 6, 5, pitch_a=36, pitch_b=7, **_STRIDED), Blocked(16, 8, 4, 16, 3)),
    (P("float32", 35, 6, 5, **_POINTERS, uplo="upper"), Blocked(16, 8, 4, 16, 3)),
    (P("float64", 33, 4, 5, stack_a="shared"), Blocked(16, 4, 2, 16, 3)),
    (P("float64", 33, 4, 5, stack_b="shared", uplo="upper"), Blocked(8, 4, 2, 16, 3)),
    (P("float32", 34, 3, 5, aligned=False), Blocked(16, 4, 4, 8, 3)),
    (P("complex128", 34, 3, 5, aligned=False, uplo="upper"), Blocked(16, 4, 4, 16, 3)),
    (P("float64", 70, 5, 3), Blocked(32, 8, 4, 32, 3, INVERT=True)),
]  # fmt: skip
STREAM: list[tuple[Problem, Config]] = [
    # one block of rows and several, ragged ends on either side, both layouts; lines on 16-byte boundaries
    (P("float64", 64, 1, 9), Stream()),
    (P("float64", 64, 1, 3, uplo="upper"), Stream(1, 2, 16, 2)),
    (P("float64", 64, 1, 3, layout_a="col"), Stream(1, 1, 8, 4)),
    (P("float64", 96, 1, 2, layout_a="col", uplo="upper"), Stream(1, 4, 32, 2)),
    (P("float64", 40, 1, 5), Stream()),
    (P("float64", 50, 1, 5, uplo="upper"), Stream(1, 2, 8, 3)),
    (P("float64", 38, 1, 5, layout_a="col"), Stream()),
    (P("float64", 44, 1, 5, layout_a="col", uplo="upper"), Stream(1, 4, 4, 5)),
    (P("float64", 20, 1, 7, uplo="upper", unit=True), Stream()),
    (P("float64", 5, 1, 3), Stream(1, 1, 2, 2)),
    (P("float64", 1, 1, 3, uplo="upper"), Stream()),
    # lines that begin anywhere
    (P("float64", 33, 1, 7), Stream()),
    (P("float64", 37, 1, 7, uplo="upper"), Stream(1, 3, 16, 3)),
    (P("float64", 65, 1, 3, layout_a="col", unit=True), Stream(1, 2, 8, 3)),
    (P("float64", 51, 1, 3, layout_a="col", uplo="upper"), Stream()),
    (P("float64", 64, 1, 3, aligned=False), Stream()),
    (P("float32", 64, 1, 3, aligned=False, uplo="upper"), Stream(1, 2, 32, 3)),
    (P("float32", 35, 1, 3), Stream(1, 2, 32, 2)),
    (P("float32", 41, 1, 3, layout_a="col"), Stream(1, 2, 8, 4)),
    (P("float32", 46, 1, 3, layout_a="col", uplo="upper"), Stream()),
    (P("complex64", 39, 1, 3, uplo="upper", trans="C"), Stream()),
    (P("float64", 33, 1, 5, pitch_a=34, uplo="upper", **_STRIDED), Stream()),
    (P("float64", 33, 1, 5, pitch_a=37, **_STRIDED), Stream()),
    # several warps per matrix: too many and few, and pieces that do not go round
    (P("float64", 128, 1, 5), Stream(2, 2, 16, 3)),
    (P("float64", 160, 1, 3, uplo="upper"), Stream(4, 1, 16, 2)),
    (P("float64", 170, 1, 2, layout_a="col"), Stream(3, 2, 8, 3)),
    (P("float64", 131, 1, 3, layout_a="col", uplo="upper"), Stream(2, 1, 32, 2)),
    (P("float32", 200, 1, 3, unit=True), Stream(8, 1, 32, 2)),
    (P("complex128", 97, 1, 3, trans="C"), Stream(2, 2, 8, 3)),
    (P("float64", 40, 1, 3), Stream(4, 1)),
    (P("float64", 70, 1, 3), Stream(8, 1)),
    # the other dtypes
    (P("float32", 64, 1, 5), Stream(1, 4, 32, 3)),
    (P("float32", 36, 1, 5, uplo="upper"), Stream(1, 4, 4, 3)),
    (P("complex64", 40, 1, 5, trans="C"), Stream()),
    (P("complex64", 48, 1, 3, uplo="upper", layout_a="col"), Stream(1, 2, 16, 3)),
    (P("complex128", 35, 1, 3), Stream(1, 4, 8, 3)),
    (P("complex128", 42, 1, 3, uplo="upper", unit=True), Stream(1, 4, 8, 3)),
    (P("complex128", 34, 1, 3, layout_a="col", trans="C"), Stream(1, 2, 8, 3)),
    # sides, strides, stacks
    (P("float64", 40, 1, 5, side="right"), Stream()),
    (P("float64", 35, 1, 5, side="right", layout_b="col", uplo="upper", trans="T"), Stream()),
    (P("float64", 36, 1, 5, layout_a="any", layout_b="any"), Stream()),
    (P("complex128", 33, 1, 5, layout_a="any", layout_b="any", uplo="upper"), Stream(1, 2, 8, 3)),
    (P("complex128", 34, 1, 5, aligned=False), Stream(1, 2, 8, 3)),
    (P("complex64", 34, 1, 5, aligned=False, uplo="upper"), Stream()),
    (P("float32", 40, 1, 5, pitch_a=44, pitch_b=3, **_STRIDED), Stream()),
    (P("float64", 48, 1, 9, **_POINTERS), Stream(1, 2)),
    (P("float64", 35, 1, 9, **_POINTERS, uplo="upper"), Stream(1, 2)),
    (P("float64", 100, 1, 5, stack_a="pointers", stack_x="strided"), Stream(2, 2)),
    (P("float64", 40, 1, 9, stack_a="shared"), Stream(1, 2)),
    (P("complex64", 40, 1, 5, stack_b="shared", layout_a="col"), Stream(1, 2)),
    (P("float64", 48, 1, 5), Stream(INVERT=True)),
    (P("complex64", 37, 1, 5, uplo="upper"), Stream(INVERT=True)),
]  # fmt: skip
TENSOR: list[tuple[Problem, Config]] = [
    # whole blocks and ragged ones on either side, tiles of columns, idle warps; pairs of entries and single ones
    (P("float64", 40, 33, 3), Tensor(2, 3)),
    (P("float64", 37, 16, 3, uplo="upper"), Tensor(1, 2)),
    (P("float64", 64, 20, 2, side="right", trans="C"), Tensor(2)),
    (P("float64", 33, 5, 4, side="right", uplo="upper", unit=True), Tensor(2)),
    (P("float64", 128, 64, 1, unit=True), Tensor()),
    (P("float64", 24, 50, 3, layout_a="col", layout_b="col"), Tensor(2)),
    (P("float64", 42, 18, 3, layout_a="col", uplo="upper", layout_b="col", layout_x="row"), Tensor(2)),
    (P("float64", 34, 9, 3, layout_a="any", layout_b="any"), Tensor(1, 9)),
    (P("float64", 34, 17, 3, trans="T", layout_b="col", aligned=False), Tensor(2)),
    (P("float64", 36, 6, 5, pitch_a=38, pitch_b=7, **_STRIDED), Tensor(1)),
    (P("float64", 36, 6, 5, pitch_a=41, pitch_b=38, layout_b="col", **_STRIDED), Tensor(1)),
    (P("float64", 34, 6, 5, **_POINTERS, uplo="upper"), Tensor(1)),
    (P("float64", 40, 6, 5, stack_a="shared"), Tensor(1)),
    (P("float64", 33, 16, 5, stack_b="shared", uplo="upper"), Tensor(1)),
    (P("float64", 70, 40, 2, layout_a="col"), Tensor(4, 3)),  # a warp without columns
    (P("float64", 9, 1, 5), Tensor(1)),
    (P("float64", 3, 40, 5, uplo="upper"), Tensor(3)),
    (P("float64", 48, 12, 3), Tensor(1, 5, INVERT=True)),
    # other numbers of columns per warp, the last ones partly or altogether beyond the last column
    (P("float64", 37, 41, 3, uplo="upper"), Tensor(2, 2, 4)),
    (P("float64", 40, 16, 3, layout_b="col"), Tensor(1, 3, 5)),
    (P("float64", 34, 11, 3), Tensor(2, 3, 1)),
    # blocks that stay: more matrices than places, tiles of columns that change with the matrix
    (P("float64", 17, 37, 61), Tensor(1, 3, BLOCKS_PER_SM=1)),
]  # fmt: skip
CASES = LANES + BLOCKED + STREAM + TENSOR


case_id = numbered(CASES)


def stack_of(problem: Problem, operand: str, xp: Any, values: Any) -> Stack:
    """`values` as an operand; everything between the entries is NaN."""
    rows, columns = spec.shape(problem, operand)
    traits = {f"{trait}_c": getattr(problem, f"{trait}_{operand}") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, rows, columns, 1, problem.BATCH, aligned=problem.aligned, **traits)
    return gemm_cases.stack_of(alike, "c", xp, values)


def batch_of(problem: Problem, operand: str) -> int:
    return 1 if getattr(problem, f"stack_{operand}") == "shared" else int(problem.BATCH)


def numbers(problem: Problem, operand: str, xp: Any, seed: int, integers: bool) -> Any:
    rows, columns = spec.shape(problem, operand)
    batch = batch_of(problem, operand)
    flat = testing.random_matrix(xp, batch * rows, columns, problem.dtype, seed, integers)
    return flat.reshape(batch, rows, columns)


def triangles(problem: Problem, xp: Any, seed: int, integers: bool) -> tuple[Any, Any]:
    """Triangular matrices: with zeros and ones where nothing is referenced, and with NaN there. Diagonals of integer
    ones are powers of two times a unit, of random ones between 1 and 2."""
    N, batch = problem.N, batch_of(problem, "a")
    A = numbers(problem, "a", xp, seed, integers)
    rng = np.random.default_rng(seed)
    if integers:
        diagonal = rng.choice([1, -1, 2, -2, 4], (batch, N)).astype(problem.dtype)
        if problem.is_complex:
            diagonal = diagonal * rng.choice([1, 1j], (batch, N))
    else:
        A = A / N
        diagonal = rng.uniform(1, 2, (batch, N)).astype(problem.dtype)
        if problem.is_complex:
            diagonal = diagonal * rng.choice([1, 1j, 0.6 - 0.8j], (batch, N))
    every = xp.arange(N)
    referenced = xp.asarray(np.tri(N, k=-1, dtype=bool))
    referenced = referenced if problem.uplo == "lower" else referenced.T
    clean = xp.where(referenced, A, 0).astype(problem.dtype)
    dirty = xp.where(referenced, A, np.nan).astype(problem.dtype)
    clean[:, every, every] = 1 if problem.unit else xp.asarray(diagonal.astype(problem.dtype))
    if not problem.unit:
        dirty[:, every, every] = clean[:, every, every]
    return clean, dirty


def product(problem: Problem, A: Any, X: Any) -> Any:
    """op(A) X or X op(A)."""
    op = A if problem.trans == "N" else A.swapaxes(-1, -2)
    op = op.conj() if problem.trans == "C" else op
    return op @ X if problem.side == "left" else X @ op


launch = launch_of(space, emit)


def place_for_x(problem: Problem, xp: Any) -> Stack:
    """X before the call: NaN everywhere."""
    shape = (int(problem.BATCH), *spec.shape(problem, "x"))
    return stack_of(problem, "x", xp, xp.full(shape, np.nan, problem.dtype))


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Integers, and diagonals that divide without a remainder: every order gives the same, exact result. Scaled, X is
    written where B was, if they lie alike. What lies between the entries stays as it is."""
    xp = testing.array_module(backend)
    clean, dirty = triangles(problem, xp, seed, True)
    expected = numbers(problem.replace(stack_x=problem.stack_b), "x", xp, seed + 1, True)
    if problem.stack_b == "shared" and problem.stack_a != "shared":  # one right-hand side for different matrices
        expected = xp.zeros_like(expected)  # of which only zero is sure to have an exact solution
    B = product(problem, clean, expected)
    alpha = factors_of(problem, scaled)[0]
    traits = ("layout", "pitch", "stack")
    alike = all(getattr(problem, f"{trait}_b") == getattr(problem, f"{trait}_x") for trait in traits)
    right = stack_of(problem, "b", xp, B)
    out = right if scaled and alike else place_for_x(problem, xp)
    launch(problem, config, backend, [stack_of(problem, "a", xp, dirty), right, out], alpha)
    wrong = int((alpha * expected != out.view).sum())
    assert wrong == 0, f"{wrong} of {out.view.size} entries differ: {problem} {config}"
    out.view[...] = np.nan
    assert bool(xp.isnan(out.buffer).all()), f"written between the entries: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry of the residual within the bound of the error analysis, 2 gamma |A| |X|."""
    xp = testing.array_module(backend)
    clean, dirty = triangles(problem, xp, seed, False)
    B = numbers(problem, "b", xp, seed + 1, False)
    out = place_for_x(problem, xp)
    launch(problem, config, backend, [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), out])
    wide = np.clongdouble if problem.is_complex else np.longdouble
    A, B, X = (np.asarray(array if xp is np else array.get()).astype(wide) for array in (clean, B, out.view))
    residual = abs(product(problem, A, X) - B)
    bound = 2 * testing.gamma(problem.dtype, problem.N) * product(problem, abs(A), abs(X))
    assert np.isfinite(residual).all() and bool((residual <= bound).all()), (problem, config)
