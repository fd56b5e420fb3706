"""Problems and configurations that between them reach every branch of the trmm kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_cases import launch_of, numbered
from scalars import factors_of
from trsm_cases import numbers, place_for_x, product, stack_of, triangles

from mansard import testing
from mansard.kernels.batched.trmm import emit, space, spec
from mansard.kernels.batched.trmm.space import Block, Config, Lanes, Tensor
from mansard.plan.problem import Problem

P = spec.problem
_STRIDED = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS = {"stack_a": "pointers", "stack_b": "pointers"}

LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes along rows and columns, ragged shares, groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 70), Lanes(1, 1)),
    (P("float64", 2, 1, 131), Lanes(1, 1, 4, 1, "own", WARPS=2)),
    (P("float64", 3, 1, 67, uplo="upper"), Lanes(1, 1)),
    (P("float64", 4, 4, 33), Lanes(1, 4, 2, 1, "back")),
    (P("float64", 5, 3, 31, uplo="upper", unit=True), Lanes(2, 2, 1, 2, "own", WARPS=2)),
    (P("float64", 8, 1, 40, uplo="upper"), Lanes(4, 1, 1, 3, "back", WARPS=2)),
    (P("float64", 8, 8, 40, trans="T"), Lanes(2, 4)),
    (P("float64", 9, 5, 23), Lanes(4, 2)),
    (P("float64", 12, 7, 9, unit=True), Lanes(1, 8, 1, 2, "own")),
    (P("float64", 16, 16, 7, uplo="upper"), Lanes(4, 8, 1, 1, "back", True)),
    (P("float64", 31, 2, 5), Lanes(16, 2)),
    (P("float64", 32, 10, 5), Lanes(8, 4, 1, 1, "back", True)),
    (P("float64", 32, 1, 9, uplo="upper", layout_a="col"), Lanes(8, 1, 1, 2, "own", True, WARPS=1, BLOCKS_PER_SM=1)),
    (P("float64", 40, 6, 3), Lanes(16, 2, 1, 1, "back", True, WARPS=1)),
    # triangles whose pieces lie across the ends of lines and matrices, groups that begin anywhere
    (P("float64", 17, 1, 11), Lanes(8, 1, 1, 1, "back", True)),
    (P("float64", 13, 2, 19, layout_a="col"), Lanes(4, 2, 1, 1, "own", True, WARPS=1)),
    (P("float64", 16, 1, 21, aligned=False), Lanes(8, 1, 1, 1, "back", True)),
    (P("float32", 11, 3, 23), Lanes(4, 1, 1, 1, "back", True)),
    (P("complex64", 7, 1, 23), Lanes(2, 1, 1, 1, "back", True)),
    # the other dtypes
    (P("float32", 2, 2, 70), Lanes(1, 2)),
    (P("float32", 8, 8, 17, uplo="upper"), Lanes(2, 4, 2, 2, "own", True)),
    (P("float32", 12, 3, 11, layout_a="col", uplo="upper"), Lanes(1, 2)),
    (P("float32", 16, 4, 11, layout_a="col", unit=True), Lanes(2, 4, 1, 1, "back", True)),
    (P("float32", 32, 5, 5), Lanes(16, 2)),
    (P("complex64", 8, 2, 13, trans="C", uplo="upper"), Lanes(4, 2)),
    (P("complex64", 17, 5, 5), Lanes(8, 4)),
    (P("complex128", 2, 2, 50, unit=True, trans="C"), Lanes(1, 1)),
    (P("complex128", 17, 3, 3, trans="C"), Lanes(8, 4)),
    # the other side, layouts
    (P("float64", 6, 4, 21, side="right"), Lanes(2, 2)),
    (P("float64", 7, 4, 21, side="right", uplo="upper", trans="T"), Lanes(2, 4)),
    (P("complex64", 6, 5, 21, side="right", trans="C"), Lanes(4, 2)),
    (P("complex128", 5, 2, 21, side="right", uplo="upper", trans="C", layout_a="col", unit=True), Lanes(2, 2)),
    (P("float64", 8, 6, 21, layout_a="col", uplo="upper", trans="T", layout_b="col", layout_x="row"), Lanes(2, 2)),
    (P("float32", 9, 4, 21, layout_x="col"), Lanes(4, 4, 1, 1, "back")),
    (P("complex128", 4, 3, 21, layout_a="any", layout_b="any"), Lanes(2, 2)),
    # pitches, stacks, alignment
    (P("float64", 5, 3, 21, pitch_a=9, pitch_b=4, **_STRIDED), Lanes(2, 2)),
    (P("float64", 6, 6, 21, pitch_a=8, pitch_b=6, **_STRIDED, uplo="upper"), Lanes(2, 2, 2, 2, "own", WARPS=2)),
    (P("float64", 7, 7, 21, **_POINTERS), Lanes(4, 2, 1, 2)),
    (P("complex64", 8, 2, 21, stack_a="pointers", stack_x="strided"), Lanes(4, 2, 1, 1, "own")),
    (P("float64", 8, 8, 21, stack_a="shared"), Lanes(2, 4, 1, 2, "back")),
    (P("complex128", 5, 2, 21, stack_b="shared"), Lanes(2, 2, 2, 1, "own")),
    (P("float32", 6, 6, 21, aligned=False), Lanes(2, 1)),
    (P("complex128", 4, 3, 21, aligned=False, uplo="upper"), Lanes(2, 1)),
]  # fmt: skip

BLOCK: list[tuple[Problem, Config]] = [
    # one block and several, ragged ends on either side, tiles of columns, a single column
    (P("float64", 33, 1, 5), Block(33, 1, 1, 32)),
    (P("float64", 40, 1, 5, uplo="upper"), Block(16, 1, 1, 32, 3)),
    (P("float64", 64, 16, 3), Block(64, 16, 4, 8)),
    (P("float64", 64, 33, 2, unit=True), Block(32, 32, 8, 16, 3)),
    (P("float64", 37, 9, 3), Block(16, 8, 4, 16, 2)),
    (P("float64", 45, 21, 3, uplo="upper"), Block(16, 16, 8, 8, 2)),
    (P("float64", 50, 14, 3, uplo="upper", layout_a="col"), Block(20, 8, 4, 8, 3)),
    (P("float64", 12, 40, 3), Block(12, 16, 8, 8)),
    (P("float32", 50, 10, 3, uplo="upper", unit=True), Block(8, 10, 4, 8, 4)),
    (P("float32", 129, 3, 2, trans="T"), Block(32, 4, 2, 32, 3)),
    (P("complex64", 36, 6, 3, trans="C"), Block(12, 4, 4, 8, 3)),
    (P("complex128", 35, 5, 3, trans="C", uplo="upper"), Block(16, 8, 4, 16, 2)),
    (P("complex128", 34, 1, 3), Block(34, 1, 1, 32)),
    (P("float64", 34, 6, 5, side="right", uplo="upper"), Block(16, 8, 4, 16, 3)),
    (P("float64", 48, 20, 3, side="right"), Block(48, 16, 4, 16)),
    (P("float64", 38, 6, 5, layout_a="col", layout_b="col", layout_x="row"), Block(16, 8, 4, 16, 3)),
    (P("float64", 38, 6, 5, layout_x="col", unit=True), Block(38, 4, 2, 16)),
    (P("complex128", 20, 3, 5, layout_a="any", layout_b="any", uplo="upper"), Block(8, 4, 4, 8, 2)),
    (P("float64", 34, 6, 5, pitch_a=36, pitch_b=7, **_STRIDED), Block(16, 8, 4, 16, 3)),
    (P("float32", 35, 6, 5, **_POINTERS, uplo="upper"), Block(16, 8, 4, 16, 3)),
    (P("float64", 33, 4, 5, stack_a="shared"), Block(16, 4, 2, 16, 3)),
    (P("float64", 33, 4, 5, stack_b="shared", uplo="upper"), Block(8, 4, 2, 16, 3)),
    (P("float32", 34, 3, 5, aligned=False), Block(16, 4, 4, 8, 3)),
    (P("complex128", 34, 3, 5, aligned=False, uplo="upper"), Block(16, 4, 4, 16, 3)),
    # a block row of X per block of threads
    (P("float64", 70, 9, 2), Block(32, 8, 4, 16, 2, True)),
    (P("float64", 70, 5, 2, uplo="upper"), Block(16, 8, 4, 8, 3, True)),
    (P("float32", 65, 6, 3, side="right", unit=True), Block(16, 8, 4, 8, 1, True)),
]  # fmt: skip
TENSOR: list[tuple[Problem, Config]] = [
    # one block and several, ragged ends on either side, tiles of columns, all layouts
    (P("float64", 64, 64, 2), Tensor()),
    (P("float64", 64, 32, 2, uplo="upper"), Tensor(64, 32, 2, 2)),
    (P("float64", 37, 9, 3), Tensor(37, 16, 1, 1)),
    (P("float64", 33, 20, 3, uplo="upper", unit=True), Tensor(33, 16, 1, 1)),
    (P("float64", 50, 24, 2, layout_a="col", unit=True), Tensor(50, 24, 2, 1)),
    (P("float64", 48, 18, 2, uplo="upper", layout_a="col", layout_b="col"), Tensor(48, 18, 1, 2)),
    (P("float64", 90, 20, 2), Tensor(32, 32, 2, 1, 3)),
    (P("float64", 100, 30, 2, uplo="upper"), Tensor(64, 32, 2, 2, 2)),
    (P("float64", 71, 17, 2, side="right", trans="T"), Tensor(32, 16, 1, 1, 2)),
    (P("float64", 40, 16, 3, side="right"), Tensor(40, 16, 1, 1)),
    (P("complex128", 40, 10, 2, trans="C"), Tensor(40, 16, 1, 1)),
    (P("complex128", 35, 18, 2, uplo="upper", unit=True), Tensor(16, 16, 1, 1, 2)),
    (P("complex128", 36, 12, 2, trans="C", side="right"), Tensor(48, 16, 3, 1)),
    (P("float64", 34, 12, 3, layout_a="any", layout_b="any"), Tensor(34, 16, 1, 1)),
    (P("float64", 36, 7, 3, pitch_a=38, pitch_b=9, **_STRIDED, uplo="upper"), Tensor(36, 16, 1, 1)),
    (P("float64", 35, 6, 3, **_POINTERS), Tensor(16, 16, 1, 1, 3)),
    (P("float64", 34, 6, 3, stack_a="shared"), Tensor(34, 16, 1, 1)),
    (P("float64", 34, 20, 3, aligned=False, uplo="upper"), Tensor(16, 16, 1, 2, 2)),
    (P("float64", 70, 40, 2), Tensor(32, 16, 2, 1, 2, True)),
    (P("float64", 9, 3, 3, uplo="upper"), Tensor(9, 16, 1, 1)),
]  # fmt: skip
CASES = LANES + BLOCK + TENSOR


case_id = numbered(CASES)


launch = launch_of(space, emit)


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Integers: every order of the sums gives the same. What is not referenced is NaN. Scaled, X is written where B
    was, if they lie alike. What lies between the entries stays as it is."""
    xp = testing.array_module(backend)
    clean, dirty = triangles(problem, xp, seed, True)
    B = numbers(problem, "b", xp, seed + 1, True)
    alpha = factors_of(problem, scaled)[0]
    expected = xp.broadcast_to(alpha * product(problem, clean, B), place_for_x(problem, xp).view.shape)
    traits = ("layout", "pitch", "stack")
    alike = all(getattr(problem, f"{trait}_b") == getattr(problem, f"{trait}_x") for trait in traits)
    right = stack_of(problem, "b", xp, B)
    in_place = scaled and alike and not getattr(config, "SPLIT", False)
    out = right if in_place else place_for_x(problem, xp)
    launch(problem, config, backend, [stack_of(problem, "a", xp, dirty), right, out], alpha)
    wrong = int((expected != out.view).sum())
    assert wrong == 0, f"{wrong} of {out.view.size} entries differ: {problem} {config}"
    out.view[...] = np.nan
    assert bool(xp.isnan(out.buffer).all()), f"written between the entries: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis, gamma |A| |B|."""
    xp = testing.array_module(backend)
    clean, dirty = triangles(problem, xp, seed, False)
    B = numbers(problem, "b", xp, seed + 1, False)
    out = place_for_x(problem, xp)
    launch(problem, config, backend, [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), out])
    wide = np.clongdouble if problem.is_complex else np.longdouble
    A, B, X = (np.asarray(array if xp is np else array.get()).astype(wide) for array in (clean, B, out.view))
    error = abs(X - product(problem, A, B))
    bound = 2 * testing.gamma(problem.dtype, problem.N) * product(problem, abs(A), abs(B))
    assert np.isfinite(error).all() and bool((error <= bound).all()), (problem, config)


__all__: list[Any] = [
    "BLOCK", "CASES", "LANES", "bounded", "case_id", "exact", "launch", "numbers", "place_for_x", "product",
    "stack_of", "triangles",
]  # fmt: skip
