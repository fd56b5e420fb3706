"""Problems and configurations that between them reach every branch of the gemv kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from gemm_cases import Stack, numbers, stack_of
from kernel_cases import launch_of, numbered
from scalars import factors_of

from mansard import testing
from mansard.kernels.batched.gemv import emit, space, spec
from mansard.kernels.batched.gemv.space import Config, Lanes, Stream
from mansard.plan.problem import Problem

P = spec.problem

LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes, ragged shares, several tiles of rows, groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 1), Lanes(1, 1)),
    (P("float64", 1, 1, 129), Lanes(1, 1, 4, 2, 2)),
    (P("float64", 2, 2, 131), Lanes(2, 1, 2)),
    (P("float64", 3, 3, 67), Lanes(4, 1)),
    (P("float64", 3, 3, 67), Lanes(2, 2, 2, 2, 2)),
    (P("float64", 4, 4, 33), Lanes(4, 2, 1)),
    (P("float64", 5, 5, 31), Lanes(4, 4, 1, 2, 2)),
    (P("float64", 8, 8, 40), Lanes(4, 4)),
    (P("float64", 8, 8, 40), Lanes(1, 4, 2, 3, 2)),
    (P("float64", 9, 9, 23), Lanes(8, 1)),
    (P("float64", 16, 16, 7), Lanes(4, 8)),
    (P("float64", 17, 17, 5), Lanes(16, 2, 1, 2, 2)),
    (P("float64", 31, 31, 3), Lanes(8, 4)),
    (P("float64", 32, 32, 3), Lanes(1, 32, 1, 1, 2)),
    (P("float64", 33, 33, 3), Lanes(32, 1, 1, 2, 1)),
    (P("float64", 70, 3, 5), Lanes(2, 1, 1, 1, 1)),
    (P("float64", 2, 61, 5), Lanes(2, 16)),
    # columns that are adjacent
    (P("float64", 1, 1, 9, layout_a="col"), Lanes(1, 1)),
    (P("float64", 2, 2, 35, layout_a="col"), Lanes(1, 2)),
    (P("float64", 3, 3, 35, layout_a="col"), Lanes(2, 2, 2, 2, 2)),
    (P("float64", 4, 4, 35, layout_a="col"), Lanes(2, 4)),
    (P("float64", 7, 5, 21, layout_a="col"), Lanes(8, 2)),
    (P("float64", 8, 12, 9, layout_a="col"), Lanes(4, 4, 1, 2)),
    (P("float64", 17, 17, 5, layout_a="col"), Lanes(16, 2)),
    (P("float64", 40, 2, 5, layout_a="col"), Lanes(4, 1)),
    (P("float64", 2, 45, 5, layout_a="col"), Lanes(1, 32)),
    # the other dtypes
    (P("float32", 2, 2, 70), Lanes(2, 1)),
    (P("float32", 3, 3, 70), Lanes(4, 1, 2, 2)),
    (P("float32", 8, 8, 17), Lanes(8, 2)),
    (P("float32", 12, 20, 9, layout_a="col"), Lanes(2, 8)),
    (P("float32", 17, 6, 17), Lanes(8, 2)),
    (P("complex64", 3, 3, 50), Lanes(2, 1)),
    (P("complex64", 8, 8, 13, conj_a=True), Lanes(4, 4)),
    (P("complex64", 5, 9, 13, conj_b=True, layout_a="col"), Lanes(4, 2)),
    (P("complex128", 2, 2, 50, conj_a=True, conj_b=True), Lanes(2, 2)),
    (P("complex128", 6, 6, 13, layout_a="col", conj_a=True), Lanes(2, 2, 1, 2)),
    (P("complex128", 17, 17, 3, conj_b=True), Lanes(8, 4)),
    # strides, pitches, stacks, alignment
    (P("complex128", 3, 5, 21, layout_a="any", pitch_b=3, pitch_c=2, stack_b="strided", stack_c="strided"),
     Lanes(2, 2)),
    (P("float64", 5, 7, 21, pitch_a=9, stack_a="strided"), Lanes(4, 1)),
    (P("float64", 6, 8, 21, pitch_a=10, stack_a="strided", stack_b="strided", stack_c="strided"), Lanes(2, 4)),
    (P("float32", 7, 6, 21, layout_a="col", pitch_a=8, stack_a="strided", stack_b="pointers"), Lanes(4, 2)),
    (P("float64", 7, 7, 21, stack_a="pointers", stack_b="pointers", stack_c="pointers"), Lanes(8, 1, 1, 2)),
    (P("float64", 8, 8, 21, stack_a="shared"), Lanes(2, 4, 2, 2)),
    (P("float64", 7, 5, 21, stack_b="shared", layout_a="col"), Lanes(8, 1)),
    (P("complex128", 5, 5, 21, stack_a="shared", stack_b="shared"), Lanes(2, 2, 2)),
    (P("float64", 5, 5, 21, aligned=False), Lanes(4, 1, 1, 2)),
    (P("float64", 4, 4, 21, aligned=False, stack_a="strided"), Lanes(2, 2)),
    (P("float32", 6, 6, 21, aligned=False, layout_a="col"), Lanes(2, 1)),
    (P("complex64", 4, 4, 21, aligned=False), Lanes(2, 1)),
    (P("complex128", 4, 3, 21, aligned=False, layout_a="col"), Lanes(2, 1)),
]  # fmt: skip

STREAM: list[tuple[Problem, Config]] = [
    # whole matrices and parts of them, ragged edges both ways, one step and several, sums over lanes and over warps
    (P("float64", 1, 1, 1), Stream(1, 32, 1, 1, 1, 1, 1)),
    (P("float64", 3, 5, 9), Stream(8, 4, 2, 1)),
    (P("float64", 33, 33, 5), Stream(1, 32, 8, 2)),
    (P("float64", 64, 64, 5), Stream(1, 32, 8, 1)),
    (P("float64", 64, 48, 5), Stream(4, 8, 4, 3)),
    (P("float64", 40, 130, 3), Stream(2, 16, 4, 4, 2, 1, 2)),
    (P("float64", 129, 65, 2), Stream(1, 32, 4, 2, 4, 1, 1)),
    (P("float64", 100, 256, 2), Stream(1, 32, 4, 4)),
    (P("float64", 6, 515, 3), Stream(1, 32, 2, 2, 1, 4, 1)),
    (P("float64", 200, 4, 3), Stream(16, 2, 8, 1, 2, 1, 1)),
    (P("float64", 7, 300, 3), Stream(4, 8, 3, 5, 1, 2, 1)),
    (P("float64", 64, 64, 5, layout_a="col"), Stream(32, 1, 1, 8)),
    (P("float64", 65, 33, 5, layout_a="col"), Stream(32, 1, 3, 4)),
    (P("float64", 130, 70, 3, layout_a="col"), Stream(32, 1, 2, 4, 2, 1, 1)),
    (P("float64", 256, 60, 2, layout_a="col"), Stream(32, 1, 2, 4, 2, 4, 1)),
    (P("float64", 8, 200, 3, layout_a="col"), Stream(4, 8, 1, 8, 1, 2, 1)),
    (P("float64", 24, 30, 9, layout_a="col"), Stream(4, 8, 3, 2, 1, 1, 3)),
    # the other dtypes
    (P("float32", 64, 64, 5), Stream(2, 16, 8, 1)),
    (P("float32", 33, 70, 5), Stream(1, 32, 4, 2)),
    (P("float32", 34, 38, 5, layout_a="col"), Stream(32, 1, 1, 8)),
    (P("complex64", 40, 66, 3, conj_a=True), Stream(1, 32, 4, 2)),
    (P("complex64", 34, 20, 3, conj_b=True, layout_a="col"), Stream(16, 2, 2, 4)),
    (P("complex128", 33, 40, 3, conj_b=True), Stream(1, 32, 4, 2, 1, 2, 1)),
    (P("complex128", 45, 33, 3, conj_a=True, conj_b=True, layout_a="col"), Stream(32, 1, 2, 4)),
    # strides, pitches, stacks, alignment
    (P("complex128", 36, 35, 5, layout_a="any", pitch_b=2, pitch_c=3, stack_b="strided", stack_c="strided"),
     Stream(1, 32, 4, 2)),
    (P("float64", 35, 34, 5, pitch_a=37, stack_a="strided"), Stream(1, 32, 8, 2)),
    (P("float64", 36, 34, 5, pitch_a=40, stack_a="strided", stack_b="strided", stack_c="strided"), Stream(2, 16, 4, 2)),
    (P("float32", 36, 30, 5, layout_a="col", pitch_a=44, stack_a="strided", stack_b="pointers"), Stream(8, 4, 2, 4)),
    (P("float64", 37, 38, 5, stack_a="pointers", stack_b="pointers", stack_c="pointers"), Stream(1, 32, 8, 2)),
    (P("float64", 38, 36, 9, stack_a="shared"), Stream(1, 32, 4, 1, 1, 1, 3)),
    (P("float64", 39, 35, 5, stack_b="shared", layout_a="col"), Stream(32, 1, 2, 8)),
    (P("float64", 34, 36, 5, aligned=False), Stream(1, 32, 8, 2)),
    (P("float32", 33, 34, 5, aligned=False, layout_a="col"), Stream(32, 1, 2, 8)),
    (P("complex64", 33, 34, 5, aligned=False), Stream(1, 32, 8, 2)),
    (P("complex128", 33, 34, 5, aligned=False, layout_a="col"), Stream(16, 2, 2, 4)),
]  # fmt: skip
CASES = LANES + STREAM


case_id = numbered(CASES)


launch = launch_of(space, emit)


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, y starts as NaN. What lies
    between the entries of y stays as it is."""
    xp = testing.array_module(backend)
    A, x, y = (numbers(problem, side, xp, seed + i, True) for i, side in enumerate("abc"))
    alpha, beta = factors_of(problem, scaled)
    problem = problem.replace(accumulate=scaled)
    expected = spec.reference(A, x, y, alpha, beta, conj_a=problem.conj_a, conj_b=problem.conj_b)
    if not scaled:
        y.fill(np.nan)
    stacks = laid_out(problem, xp, A, x, y)
    launch(problem, config, backend, stacks, alpha, beta)
    result = stacks[2].view.copy()
    wrong = int((expected != result).sum())
    assert wrong == 0, f"{wrong} of {expected.size} entries differ: {problem} {config}"
    stacks[2].view[...] = np.nan
    assert bool(xp.isnan(stacks[2].buffer).all()), f"written between the entries: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis, 2 gamma |A| |x|."""
    xp = testing.array_module(backend)
    A, x, y = (numbers(problem, side, xp, seed + i, False) for i, side in enumerate("abc"))
    stacks = laid_out(problem, xp, A, x, y)
    launch(problem, config, backend, stacks, 1.0, 0.0)
    wide = "complex128" if problem.is_complex else "float64"
    expected = spec.reference(A.astype(wide), x.astype(wide), conj_a=problem.conj_a, conj_b=problem.conj_b)
    scale = xp.abs(A).astype("float64") @ xp.abs(x).astype("float64")
    error = xp.abs(stacks[2].view - expected)
    assert bool((error <= 2 * testing.gamma(problem.dtype, problem.K) * scale).all()), (problem, config)


def laid_out(problem: Problem, xp: Any, *values: Any) -> list[Stack]:
    return [stack_of(problem, side, xp, one) for side, one in zip("abc", values, strict=True)]
