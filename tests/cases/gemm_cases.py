"""Problems and configurations that between them reach every branch of the gemm kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_cases import launch_of, numbered
from scalars import factors_of

from mansard import testing
from mansard.kernels.batched.gemm import emit, space, spec
from mansard.kernels.batched.gemm.space import Block, Config, Lanes, Readonly, Stream, Tensor
from mansard.plan.problem import REAL, Problem

P = spec.problem

LANES: list[tuple[Problem, Config]] = [
    # teams of 1 to 32 lanes, ragged shares, groups that do not begin on 16-byte boundaries, tails of the batch
    (P("float64", 1, 1, 1, 1), Lanes(1, 1)),
    (P("float64", 1, 1, 1, 129), Lanes(1, 1, 4, 2, "back", 2)),
    (P("float64", 2, 2, 2, 200), Lanes(1, 1, 1)),
    (P("float64", 2, 2, 2, 131), Lanes(1, 1, 4, 1, "back", 2)),
    (P("float64", 3, 3, 3, 67), Lanes(2, 2)),
    (P("float64", 4, 4, 4, 33), Lanes(2, 1)),
    (P("float64", 5, 5, 5, 31), Lanes(4, 1, 1, 2, "own", 2)),
    (P("float64", 8, 8, 8, 40), Lanes(2, 2, 1, 3, "back", 2)),
    (P("float64", 9, 9, 9, 23), Lanes(2, 2)),
    (P("float64", 12, 12, 12, 9), Lanes(4, 2, 1, 2, "own")),
    (P("float64", 16, 16, 16, 7), Lanes(8, 2)),
    (P("float64", 17, 17, 17, 5), Lanes(16, 2, 1, 2, "back", 2)),
    (P("float64", 31, 31, 31, 3), Lanes(8, 4)),
    (P("float64", 32, 32, 32, 3), Lanes(8, 4, 1, 1, "back", 2)),
    (P("float64", 7, 3, 11, 29), Lanes(4, 1)),
    (P("float64", 6, 13, 2, 29), Lanes(2, 4, 1, 1, "back")),
    (P("float64", 1, 8, 20, 29), Lanes(1, 8)),
    (P("float64", 33, 2, 5, 9), Lanes(8, 1)),
    # the other dtypes
    (P("float32", 2, 2, 2, 70), Lanes(1, 1)),
    (P("float32", 3, 3, 3, 70), Lanes(2, 1, 2, 2, "own")),
    (P("float32", 7, 7, 7, 17), Lanes(8, 4, 1, 2)),
    (P("float32", 8, 8, 8, 17), Lanes(4, 1)),
    (P("float32", 17, 6, 10, 17), Lanes(4, 2)),
    (P("float32", 24, 24, 24, 5), Lanes(8, 4)),
    (P("complex64", 3, 3, 3, 50), Lanes(1, 1)),
    (P("complex64", 8, 8, 8, 13, conj_a=True), Lanes(4, 2)),
    (P("complex64", 17, 5, 9, 13, conj_b=True), Lanes(8, 4)),
    (P("complex128", 2, 2, 2, 50, conj_a=True, conj_b=True), Lanes(1, 1)),
    (P("complex128", 6, 6, 6, 13), Lanes(2, 2, 1, 2)),
    (P("complex128", 17, 17, 17, 3, conj_b=True), Lanes(8, 4)),
    # layouts
    (P("float64", 6, 4, 8, 21, layout_a="col"), Lanes(2, 2)),
    (P("float64", 6, 4, 8, 21, layout_b="col"), Lanes(2, 2)),
    (P("float64", 6, 4, 8, 21, layout_c="col"), Lanes(2, 2)),
    (P("float64", 7, 5, 9, 21, layout_a="col", layout_b="col", layout_c="col"), Lanes(4, 2)),
    (P("float32", 8, 12, 4, 21, layout_a="col", layout_b="col"), Lanes(2, 1)),
    (P("complex64", 5, 4, 6, 21, layout_a="col", layout_c="col", conj_a=True), Lanes(2, 2)),
    (P("complex128", 3, 4, 5, 21, layout_a="any", layout_b="any", layout_c="any", conj_b=True), Lanes(2, 2)),
    (P("float64", 8, 8, 8, 9, layout_a="any", layout_c="col"), Lanes(4, 1, 1, 2)),
    # pitches, stacks, alignment
    (P("float64", 5, 6, 7, 21, pitch_a=9, pitch_b=8, pitch_c=10, stack_a="strided", stack_b="strided",
       stack_c="strided"), Lanes(2, 2)),
    (P("float64", 6, 6, 6, 21, pitch_a=8, pitch_b=7, stack_a="strided", stack_b="strided", stack_c="strided"),
     Lanes(2, 2, 2, 2, "own")),
    (P("float32", 5, 6, 7, 21, pitch_a=12, pitch_c=8, stack_a="strided", stack_b="pointers", stack_c="strided"),
     Lanes(4, 2)),
    (P("float64", 7, 7, 7, 21, stack_a="pointers", stack_b="pointers", stack_c="pointers"), Lanes(4, 2, 1, 2)),
    (P("float64", 8, 8, 8, 21, stack_a="shared"), Lanes(2, 2, 1, 2, "own")),
    (P("float64", 7, 5, 6, 21, stack_b="shared", layout_b="col"), Lanes(2, 2, 1, 1, "back")),
    (P("complex128", 5, 5, 5, 21, stack_a="shared", stack_b="shared", layout_c="col"), Lanes(2, 2, 2, 1, "own")),
    (P("float64", 5, 5, 5, 21, aligned=False), Lanes(4, 1, 1, 2)),
    (P("float64", 4, 4, 4, 21, aligned=False, stack_a="strided"), Lanes(2, 2)),
    (P("float32", 6, 6, 6, 21, aligned=False), Lanes(2, 1)),
    (P("complex64", 4, 4, 4, 21, aligned=False), Lanes(2, 1)),
    (P("complex128", 4, 3, 2, 21, aligned=False), Lanes(2, 1)),
]  # fmt: skip

PANELS: list[tuple[Problem, Config]] = [
    # block: whole matrices and tiles, one panel and several, ragged edges, all ways out, several teams
    (P("float64", 17, 17, 17, 5), Block(16, 8, 32, 32, 32, 1, 2, "back")),
    (P("float64", 33, 33, 33, 4), Block(16, 4, 64, 64, 16, 2, 2, "own")),
    (P("float64", 20, 24, 28, 7), Block(8, 4, 32, 32, 8, 3, 3, "direct")),
    (P("float64", 70, 50, 40, 3), Block(16, 8, 32, 32, 16)),
    (P("float64", 65, 67, 71, 3), Block(16, 8, 32, 64, 16)),
    (P("float64", 1, 40, 9, 7), Block(32, 1, 16, 64, 4, 2, 1, "back")),
    (P("float32", 33, 20, 45, 5), Block(16, 8, 32, 16, 16)),
    (P("float32", 48, 48, 48, 3), Block(16, 8, 64, 64, 16, 1, 2, "own")),
    (P("complex64", 19, 33, 21, 5, conj_a=True), Block(8, 8, 32, 64, 8, 1, 2, "back")),
    (P("complex128", 33, 33, 17, 3, conj_b=True), Block(16, 8, 32, 32, 8)),
    (P("float64", 34, 18, 22, 5, layout_a="col", layout_b="col"), Block(8, 4, 16, 32, 8, 2)),
    (P("float64", 35, 19, 23, 5, layout_a="col", layout_b="col", layout_c="col"), Block(8, 8, 16, 16, 8)),
    (P("complex128", 18, 17, 20, 5, layout_a="any", layout_b="any", layout_c="any"), Block(8, 8, 16, 16, 8)),
    (P("float64", 20, 22, 24, 5, pitch_a=26, pitch_b=23, pitch_c=24, stack_a="strided", stack_b="strided",
       stack_c="strided"), Block(8, 8, 32, 32, 16, 1, 2, "own")),
    (P("float64", 21, 22, 23, 5, stack_a="pointers", stack_b="shared", stack_c="pointers"), Block(8, 8, 16, 32, 8)),
    (P("float32", 22, 21, 20, 5, aligned=False), Block(8, 8, 16, 32, 8)),
    (P("float32", 22, 21, 20, 5, aligned=False), Block(8, 8, 32, 32, 32, 1, 2, "back")),
    (P("complex64", 22, 21, 20, 5, aligned=False), Block(8, 8, 16, 32, 8)),
    (P("complex128", 20, 21, 20, 5, aligned=False), Block(8, 8, 16, 32, 8)),
    # tensor: the same, and every choice of rows and columns against collisions
    (P("float64", 16, 16, 16, 9), Tensor(1, 1, 16, 16, 16, 8, 4, 2, "back")),
    (P("float64", 9, 9, 9, 9), Tensor(1, 1, 16, 16, 16, 4, 4, 1, "own")),
    (P("float64", 32, 32, 32, 9), Tensor(1, 1, 32, 32, 32, 16, 2, 1, "direct")),
    (P("float64", 31, 31, 31, 9), Tensor(1, 2, 32, 32, 32, 8, 2, 2, "back")),
    (P("float64", 33, 33, 33, 5), Tensor(2, 2, 64, 64, 64, 8, 1, 2, "own")),
    (P("float64", 64, 64, 64, 5), Tensor(2, 2, 64, 64, 64, 16, 1, 1, "back")),
    (P("float64", 64, 64, 64, 5), Tensor(2, 1, 64, 64, 16, 8, 2, 3, "direct")),
    (P("float64", 66, 62, 70, 3), Tensor(2, 2, 48, 32, 16, 8, 1, 3)),
    (P("float64", 67, 81, 71, 3), Tensor(2, 2, 32, 64, 16, 4, 1, 2)),
    (P("float64", 100, 36, 129, 2), Tensor(4, 1, 128, 48, 32, 8, 1, 2)),
    (P("float64", 1, 2, 3, 9), Tensor(1, 1, 16, 16, 4, 4, 2, 2)),
    (P("float64", 20, 34, 28, 5, layout_a="col", layout_b="col"), Tensor(1, 2, 32, 64, 16, 8)),
    (P("float64", 21, 35, 27, 5, layout_a="col", layout_b="col"), Tensor(1, 1, 32, 32, 8, 8, 2, 2)),
    (P("float64", 22, 38, 26, 5, layout_a="col"), Tensor(2, 1, 32, 48, 26, 4, 1, 1, "back")),
    (P("float64", 26, 40, 30, 5, layout_b="col", layout_c="col"), Tensor(1, 2, 48, 32, 32, 8, 1, 1, "own")),
    (P("complex128", 17, 17, 17, 5, conj_a=True), Tensor(1, 1, 32, 32, 32, 4, 2, 1, "back")),
    (P("complex128", 32, 32, 32, 3, conj_b=True), Tensor(2, 2, 32, 32, 32, 8, 1, 2, "direct")),
    (P("complex128", 34, 38, 36, 3, conj_a=True, conj_b=True), Tensor(2, 2, 48, 48, 16, 4, 1, 2, "own")),
    (P("complex128", 20, 21, 22, 3, layout_a="col", layout_b="col"), Tensor(1, 1, 32, 32, 8, 4, 2, 2)),
    (P("complex128", 22, 24, 21, 3, layout_a="col", layout_c="col"), Tensor(1, 2, 32, 32, 16, 4, 1, 2)),
    (P("float64", 20, 22, 24, 5, pitch_a=26, pitch_b=23, pitch_c=25, stack_a="strided", stack_b="strided",
       stack_c="strided"), Tensor(1, 2, 32, 32, 16, 8)),
    (P("float64", 21, 22, 23, 5, stack_a="shared", stack_b="pointers", stack_c="pointers"), Tensor(1, 2, 32, 32, 16)),
    (P("float64", 22, 21, 20, 5, aligned=False), Tensor(1, 1, 32, 32, 8, 4, 1, 2)),
    (P("float64", 24, 24, 24, 5, aligned=False), Tensor(1, 1, 32, 32, 24, 4, 1, 2, "own")),
    (P("complex128", 20, 21, 20, 5, aligned=False), Tensor(2, 1, 32, 32, 8, 4, 1, 2)),
]  # fmt: skip

STREAM: list[tuple[Problem, Config]] = [
    # whole operands and panels, tiles with ragged edges, every choice of rows and columns against collisions
    (P("float64", 33, 33, 33, 5), Stream(3, 1, 48, 48, 36, 8, 2)),
    (P("float64", 64, 64, 64, 4), Stream(2, 2, 64, 64, 16, 8, 3)),
    (P("float64", 67, 81, 71, 3), Stream(2, 2, 48, 48, 16, 4, 3)),
    (P("float64", 50, 38, 41, 3), Stream(2, 1, 64, 48, 16, 16, 2)),
    (P("float64", 100, 9, 3, 7), Stream(4, 1, 128, 16, 4, 4, 4)),
    (P("float32", 33, 35, 37, 5), Stream(3, 2, 48, 64, 40, 8, 2)),
    (P("float32", 64, 64, 64, 3), Stream(2, 2, 64, 64, 16, 8, 4)),
    (P("float32", 66, 34, 50, 3), Stream(5, 2, 80, 64, 16, 8, 3)),
    (P("float32", 64, 36, 46, 3), Stream(1, 3, 64, 48, 16, 8, 3)),
    (P("complex64", 33, 33, 21, 3, conj_a=True), Stream(3, 3, 48, 48, 8, 8, 3)),
    (P("complex64", 40, 36, 44, 3, conj_b=True), Stream(2, 3, 64, 48, 44, 8, 2)),
    (P("complex128", 34, 38, 36, 3, conj_a=True, conj_b=True), Stream(3, 3, 48, 48, 16, 4, 2)),
    # layouts, pitches, stacks, alignment; operands that serve all are copied once
    (P("float64", 35, 50, 27, 3, layout_a="col", layout_b="col"), Stream(3, 2, 48, 64, 16, 8, 2)),
    (P("float32", 38, 50, 27, 3, layout_a="col", layout_c="col"), Stream(2, 3, 64, 48, 28, 8, 2)),
    (P("float32", 36, 34, 25, 3, layout_b="col"), Stream(3, 3, 48, 48, 8, 8, 4)),
    (P("complex128", 18, 35, 20, 3, layout_a="any", layout_b="any", layout_c="any"), Stream(2, 3, 32, 48, 16, 4, 2)),
    (P("float64", 36, 34, 24, 3, pitch_a=26, pitch_b=35, pitch_c=37, stack_a="strided", stack_b="strided",
       stack_c="strided"), Stream(3, 1, 48, 48, 16, 8)),
    (P("float64", 21, 22, 23, 5, stack_a="shared", stack_b="pointers", stack_c="pointers"),
     Stream(1, 2, 32, 32, 24, 8, 2)),
    (P("float32", 20, 48, 48, 5, stack_b="shared", layout_b="col"), Stream(1, 2, 32, 64, 48, 8, 3)),
    (P("complex64", 34, 34, 34, 5, stack_a="shared", stack_b="shared"), Stream(3, 3, 48, 48, 34, 8, 2)),
    (P("float32", 34, 33, 40, 5, aligned=False), Stream(3, 3, 48, 48, 16, 8, 2)),
    (P("complex64", 34, 33, 20, 5, aligned=False), Stream(3, 3, 48, 48, 16, 8, 2)),
    (P("complex128", 20, 33, 20, 3, aligned=False), Stream(2, 3, 32, 48, 8, 4, 2)),
]  # fmt: skip

READONLY: list[tuple[Problem, Config]] = [
    (P("float64", 2, 2, 2, 37), Readonly(2, 2, 8)),
    (P("float32", 7, 9, 5, 11), Readonly(4, 2, 3)),
    (P("complex64", 17, 5, 6, 5, conj_a=True, layout_b="col"), Readonly(5, 8, 2)),
    (P("complex128", 4, 4, 4, 9, conj_b=True, stack_a="shared", stack_c="pointers", layout_c="col"), Readonly(4, 4, 4)),
    (P("float64", 33, 33, 33, 3, layout_a="any", pitch_b=40, stack_b="strided", aligned=False), Readonly(16, 16, 1, 2)),
]
CASES = LANES + PANELS + STREAM + READONLY


case_id = numbered(CASES)


@dataclass
class Stack:
    """A batch of matrices laid out as a problem describes it, in a buffer that holds nothing else."""

    view: Any  # (batch, rows, columns)
    buffer: Any
    strides: tuple[int, int, int]  # matrix, row, column, in elements
    addresses: Any = None  # of the matrices, where the stack is an array of them

    @property
    def pointer(self) -> int:
        return address(self.view if self.addresses is None else self.addresses)


def address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def strides_of(problem: Problem, side: str) -> tuple[int, int, int]:
    rows, columns = (getattr(problem, name) for name in spec.SHAPES[side])
    layout, stack = getattr(problem, f"layout_{side}"), getattr(problem, f"stack_{side}")
    row, column = (2 * columns + 1, 2) if layout == "any" else problem.strides(side)
    size = max(1, (rows - 1) * row + (columns - 1) * column + 1)
    if stack == "packed" and layout != "any":
        return rows * columns, row, column
    vector = 16 // problem.itemsize
    return (0 if stack == "shared" else (size // vector + 2) * vector), row, column


def stack_of(problem: Problem, side: str, xp: Any, values: Any) -> Stack:
    """`values` as operand `side`; everything between the entries is NaN. Unaligned ones start one real word off."""
    matrix, row, column = strides_of(problem, side)
    batch, rows, columns = values.shape
    dtype = np.dtype(problem.dtype)
    elements = max(1, batch - 1) * matrix * (batch > 1) + (rows - 1) * row + (columns - 1) * column + 1
    real = np.dtype(REAL[problem.dtype])
    whole = problem.aligned or xp is not np  # CuPy itself needs whole elements
    shift = 0 if problem.aligned else dtype.itemsize // real.itemsize if whole or not problem.is_complex else 1
    words = xp.full(max(0, elements) * (dtype.itemsize // real.itemsize) + shift, np.nan, real)
    buffer = words[shift:].view(dtype)
    view = xp.lib.stride_tricks.as_strided(
        buffer, values.shape, tuple(stride * dtype.itemsize for stride in (matrix, row, column))
    )
    view[...] = values
    stack = Stack(view, buffer, (matrix, row, column))
    if getattr(problem, f"stack_{side}") == "pointers":
        stack.addresses = xp.asarray([address(view) + i * matrix * dtype.itemsize for i in range(batch)], np.int64)
    return stack


def numbers(problem: Problem, side: str, xp: Any, seed: int, integers: bool) -> Any:
    rows, columns = (getattr(problem, name) for name in spec.SHAPES[side])
    batch = 1 if getattr(problem, f"stack_{side}") == "shared" else problem.BATCH
    flat = testing.random_matrix(xp, batch * rows, columns, problem.dtype, seed, integers)
    return flat.reshape(batch, rows, columns)


launch = launch_of(space, emit)


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, C starts as NaN. What lies
    between the entries of C stays as it is."""
    xp = testing.array_module(backend)
    A, B, C = (numbers(problem, side, xp, seed + i, True) for i, side in enumerate("abc"))
    alpha, beta = factors_of(problem, scaled)
    problem = problem.replace(accumulate=scaled)
    expected = spec.reference(A, B, C, alpha, beta, conj_a=problem.conj_a, conj_b=problem.conj_b)
    if not scaled:
        C.fill(np.nan)
    stacks = [stack_of(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    launch(problem, config, backend, stacks, alpha, beta)
    result = stacks[2].view.copy()
    wrong = int((expected != result).sum())
    assert wrong == 0, f"{wrong} of {expected.size} entries differ: {problem} {config}"
    stacks[2].view[...] = np.nan
    assert bool(xp.isnan(stacks[2].buffer).all()), f"written between the entries: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis, 2 gamma |A| |B|."""
    xp = testing.array_module(backend)
    A, B, C = (numbers(problem, side, xp, seed + i, False) for i, side in enumerate("abc"))
    stacks = [stack_of(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    launch(problem, config, backend, stacks, 1.0, 0.0)
    wide = "complex128" if problem.is_complex else "float64"
    expected = spec.reference(A.astype(wide), B.astype(wide), conj_a=problem.conj_a, conj_b=problem.conj_b)
    scale = xp.abs(A).astype("float64") @ xp.abs(B).astype("float64")
    error = xp.abs(stacks[2].view - expected)
    assert bool((error <= 2 * testing.gamma(problem.dtype, problem.K) * scale).all()), (problem, config)
