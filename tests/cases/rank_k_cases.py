"""Problems and configurations that between them reach every branch of the rank-k kernels."""

from __future__ import annotations

from typing import Any

from gemm_cases import Stack, stack_of
from kernel_cases import launch_of, numbered
from scalars import factors_of

from mansard import testing
from mansard.kernels.batched.rank_k import emit, space, spec
from mansard.kernels.batched.rank_k.space import Config, Tensor, Tiles
from mansard.kernels.common import operands
from mansard.plan.problem import Problem

P = spec.problem

TILES: list[tuple[Problem, Config]] = [
    # one tile and many, ragged sets, groups that do not begin on 16-byte boundaries, tails of the batch
    (P("float64", 1, 1, 1), Tiles(1)),
    (P("float64", 1, 1, 129), Tiles(1, 64)),
    (P("float64", 2, 2, 131, part="lower"), Tiles(2, 64)),
    (P("float64", 3, 5, 67, part="upper"), Tiles(2, 10)),
    (P("float64", 4, 4, 33), Tiles(4, 32)),
    (P("float64", 5, 3, 31, part="lower"), Tiles(2, 7)),
    (P("float64", 8, 8, 21), Tiles(3, 5)),
    (P("float64", 9, 20, 9, part="upper"), Tiles(4, 4)),
    (P("float64", 17, 17, 5), Tiles(4, 2)),
    (P("float64", 31, 7, 3, part="lower"), Tiles(4)),
    (P("float64", 33, 16, 3), Tiles(6)),
    (P("float64", 40, 40, 2, part="upper"), Tiles(5, OUT="direct")),
    (P("float32", 2, 1, 70), Tiles(1, 16)),
    (P("float32", 4, 4, 70), Tiles(4, 32)),
    (P("float32", 7, 7, 17, part="lower"), Tiles(7, 9)),
    (P("float32", 16, 8, 9), Tiles(8, 4)),
    (P("float32", 24, 12, 5, part="upper"), Tiles(6, 2)),
    (P("float32", 77, 7, 2, part="lower"), Tiles(8)),
    (P("complex64", 3, 3, 50, conj_b=True), Tiles(3, 16)),
    (P("complex64", 8, 5, 15, part="lower", conj_a=True), Tiles(3, 5)),
    (P("complex64", 11, 4, 13, conj_a=True, conj_b=True), Tiles(4, 2)),
    (P("complex128", 1, 1, 50, conj_b=True), Tiles(1, 32)),
    (P("complex128", 6, 6, 16, part="upper", conj_b=True), Tiles(2, 3)),
    (P("complex128", 17, 9, 3, part="lower"), Tiles(4, 1, OUT="direct")),
    # panels, the last of which may be short
    (P("float64", 20, 40, 3), Tiles(4, 1, 1, 16, 2)),
    (P("float64", 21, 37, 3, part="lower"), Tiles(5, 1, 1, 8, 3)),
    (P("float64", 36, 33, 2, part="upper", layout_a="col"), Tiles(6, 1, 1, 8, 2, "direct")),
    (P("float32", 36, 50, 2, layout_a="col"), Tiles(8, 1, 1, 16, 3)),
    (P("float32", 40, 36, 2, part="lower"), Tiles(4, 1, 1, 16, 2)),
    (P("float32", 33, 35, 3, aligned=False), Tiles(4, 1, 1, 8, 2)),
    (P("complex128", 19, 12, 2, conj_b=True), Tiles(4, 1, 1, 4, 2)),
    (P("complex64", 18, 14, 2, part="lower", conj_a=True, layout_a="col"), Tiles(4, 1, 1, 4, 2)),
    # several blocks per matrix
    (P("float64", 20, 9, 3, part="lower"), Tiles(4, 1, 2, OUT="direct")),
    (P("float32", 37, 40, 2), Tiles(4, 1, 3, 16, 2, "direct")),
    (P("complex128", 21, 18, 2, part="upper", conj_b=True), Tiles(4, 1, 4, 8, 2, "direct")),
    # layouts, pitches, stacks, alignment
    (P("float64", 6, 4, 21, layout_a="col"), Tiles(2, 5)),
    (P("float64", 7, 5, 21, part="lower", layout_a="col", layout_c="col"), Tiles(3, 7)),
    (P("float32", 8, 3, 21, part="upper", layout_a="col"), Tiles(4, 9)),
    (P("complex64", 5, 4, 19, part="upper", layout_c="col", conj_a=True), Tiles(2, 5)),
    (P("complex128", 5, 3, 21, part="lower", layout_a="any", layout_c="any", conj_b=True), Tiles(2, 5)),
    (P("float64", 6, 5, 21, pitch_a=9, pitch_c=10, stack_a="strided", stack_c="strided"), Tiles(3, 10)),
    (P("float32", 8, 8, 21, part="lower", pitch_a=12, pitch_c=9, stack_a="strided", stack_c="strided"), Tiles(4, 10)),
    (P("float64", 7, 6, 21, part="lower", stack_a="pointers", stack_c="pointers"), Tiles(4, 8)),
    (P("float32", 9, 6, 21, stack_a="shared"), Tiles(3, 4)),
    (P("float64", 5, 5, 21, part="lower", aligned=False), Tiles(4, 8)),
    (P("complex64", 4, 4, 21, aligned=False, conj_b=True), Tiles(2, 8)),
    (P("complex128", 4, 3, 21, part="upper", aligned=False, conj_b=True), Tiles(2, 8)),
    # the batch last
    (P("float64", 4, 5, 37, part="lower", layout_a="any", layout_c="any", stack_a="strided", stack_c="strided"),
     Tiles(2, 8)),
    (P("complex64", 5, 2, 19, layout_a="any", stack_a="strided", conj_b=True), Tiles(3, 8)),
    # two factors
    (P("float64", 4, 4, 33, two=True), Tiles(4, 16)),
    (P("float64", 9, 7, 11, part="lower", two=True), Tiles(3, 5)),
    (P("float32", 12, 8, 11, part="upper", two=True, layout_a="col"), Tiles(4, 5)),
    (P("complex128", 5, 4, 11, two=True, conj_b=True), Tiles(2, 5)),
    (P("complex64", 6, 5, 11, part="lower", two=True, conj_a=True, layout_c="col"), Tiles(3, 5)),
    (P("complex64", 6, 5, 11, two=True, layout_b="row", layout_a="any"), Tiles(3, 5)),
    (P("float64", 20, 33, 3, two=True, stack_b="shared", layout_b="col"), Tiles(4, 1, 1, 8, 2)),
    (P("complex128", 10, 12, 3, part="upper", two=True, conj_b=True), Tiles(4, 1, 1, 4, 2, "direct")),
]  # fmt: skip
TENSOR: list[tuple[Problem, Config]] = [
    # squares of one tile and of several, ragged edges, whole matrices and panels, parts
    (P("float64", 16, 16, 3), Tensor(1, 1, 16384, 1)),
    (P("float64", 33, 17, 3, part="lower"), Tensor(1, 1, 16384, 1)),
    (P("float64", 34, 20, 2, part="lower"), Tensor(2, 1, 16384, 1, 4)),
    (P("float64", 40, 37, 2, part="upper"), Tensor(2, 1, 16, 2)),
    (P("float64", 50, 45, 2), Tensor(2, 1, 16, 3, 16)),
    (P("float64", 50, 24, 2), Tensor(2, 2, 8, 2)),
    (P("float64", 70, 22, 2, part="lower"), Tensor(2, 3, 8, 2, 4)),
    (P("float64", 3, 2, 9), Tensor(1, 1, 16384, 1, 4)),
    (P("float64", 36, 30, 2, layout_a="col"), Tensor(2, 1, 16, 2)),
    (P("float64", 35, 30, 2, part="upper", layout_a="col", layout_c="col"), Tensor(1, 2, 8, 2)),
    (P("float64", 48, 16, 2, part="lower", layout_a="col"), Tensor(3, 1, 16384, 1)),
    (P("float64", 34, 19, 3, aligned=False), Tensor(2, 1, 8, 2)),
    (P("float64", 20, 18, 3, part="lower", layout_a="any", layout_c="any", stack_a="pointers", stack_c="pointers"),
     Tensor(1, 1, 16384, 1)),
    (P("float64", 20, 24, 3, pitch_a=26, pitch_c=23, stack_a="strided", stack_c="strided"), Tensor(1, 1, 8, 2)),
    (P("float64", 32, 24, 3, stack_a="shared"), Tensor(2, 1, 16384, 1)),
    (P("complex128", 17, 9, 3, conj_b=True), Tensor(1, 1, 16384, 1, 4)),
    (P("complex128", 33, 18, 2, part="lower", conj_a=True, layout_a="col"), Tensor(1, 2, 8, 2, 4)),
    (P("complex128", 20, 14, 2, part="upper", conj_b=True, layout_c="col"), Tensor(1, 1, 4, 3, 4)),
    # squares that end at the last row, in a ring; fewer rows than a square has
    (P("float64", 70, 22, 2, part="upper"), Tensor(2, 1, 8, 3)),
    (P("complex128", 39, 10, 2, layout_a="col", conj_b=True), Tensor(2, 2, 4, 2, 4)),
    (P("float64", 49, 19, 2, aligned=False, layout_a="col"), Tensor(3, 1, 8, 2, 4)),
    (P("float64", 20, 14, 2, part="lower"), Tensor(2, 1, 16384, 1)),
    (P("complex128", 18, 12, 3, part="lower", aligned=False), Tensor(1, 1, 4, 2, 4)),
]  # fmt: skip
PIECES: list[tuple[Problem, Config]] = [
    # triangles that leave by pieces of 16 bytes: packed, unaligned, odd rows, lines with gaps, matrices with addresses
    (P("float64", 16, 6, 25, part="lower"), Tiles(4, 12)),
    (P("float32", 16, 6, 25, part="upper"), Tiles(4, 12)),
    (P("float32", 17, 5, 13, part="lower"), Tiles(3, 6)),
    (P("float32", 18, 3, 9, part="upper", aligned=False), Tiles(4, 4)),
    (P("complex64", 17, 4, 7, part="lower", conj_b=True), Tiles(3, 3)),
    (P("float64", 18, 4, 7, part="upper", pitch_c=20, stack_c="strided"), Tiles(4, 3)),
    (P("float32", 18, 4, 7, part="lower", pitch_c=20, stack_c="pointers"), Tiles(4, 3)),
    (P("float64", 19, 4, 7, part="lower", stack_a="pointers", stack_c="pointers"), Tiles(4, 3)),
    (P("float32", 22, 4, 5, part="upper", stack_c="strided", layout_c="col"), Tiles(4, 3)),
]
GATHERED: list[tuple[Problem, Config]] = [
    # tensor cores: C by way of an image, groups, a ring of groups with more of them than blocks, three TF32 products
    (P("float64", 33, 17, 3, part="lower"), Tensor(1, 1, 16384, 1, OUT="back")),
    (P("float64", 40, 37, 2), Tensor(2, 1, 16, 2, OUT="back")),
    (P("float64", 17, 9, 140, part="lower"), Tensor(2, 1, 16384, 2, 4, OUT="back")),
    (P("float64", 20, 16, 9, part="upper"), Tensor(2, 1, 16384, 1, GROUP=4)),
    (P("float32", 31, 18, 5, part="upper"), Tensor(2, 1, 16384, 1, GROUP=2, OUT="back")),
    (P("float32", 33, 19, 3, layout_a="col"), Tensor(1, 1, 16384, 2, OUT="back")),
    (P("float32", 19, 40, 3, part="lower", aligned=False), Tensor(1, 1, 16, 2, OUT="back")),
    (P("complex64", 18, 17, 3, part="lower", conj_b=True), Tensor(1, 1, 16384, 1, GROUP=2, OUT="back")),
]
CASES = TILES + TENSOR + PIECES + GATHERED


case_id = numbered(CASES)


def laid_out(problem: Problem, side: str, xp: Any, values: Any) -> Stack:
    """`values` as operand `side`, in a buffer with NaN between the entries; strided matrices whose entries are not
    adjacent lie with the batch last."""
    if getattr(problem, f"layout_{side}") == "any" and getattr(problem, f"stack_{side}") == "strided":
        buffer = xp.ascontiguousarray(xp.moveaxis(values, 0, -1))
        view = xp.moveaxis(buffer, -1, 0)
        return Stack(view, buffer, tuple(stride // view.itemsize for stride in view.strides))
    alone = operands.alone(problem, operands.of(problem, side), spec.shape(problem, side))
    return stack_of(alone, "c", xp, values)


def numbers(problem: Problem, side: str, xp: Any, seed: int, integers: bool) -> Any:
    rows, columns = spec.shape(problem, side)
    batch = 1 if getattr(problem, f"stack_{side}") == "shared" else problem.BATCH
    flat = testing.random_matrix(xp, batch * rows, columns, problem.dtype, seed, integers)
    return flat.reshape(batch, rows, columns)


launch = launch_of(space, emit)


def options(problem: Problem) -> dict[str, Any]:
    return {"conj_a": problem.conj_a, "conj_b": problem.conj_b, "part": problem.part}


def factors(problem: Problem, scaled: bool) -> tuple[complex, complex]:
    """alpha and beta; those of a Hermitian update are real, but for the alpha of two factors."""
    alpha, beta = factors_of(problem, scaled)
    if spec.is_hermitian(problem):
        beta = complex(beta).real
        alpha = alpha if problem.two else complex(alpha).real
    return alpha, beta if problem.part != "full" else 0.0


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, C starts as NaN. What is not of
    the triangle, and what lies between the entries of C, stays as it is."""
    xp = testing.array_module(backend)
    A, B, C = (numbers(problem, side, xp, seed + i, True) for i, side in enumerate("abc"))
    alpha, beta = factors(problem, scaled)
    problem = problem.replace(accumulate=beta != 0)
    expected = spec.reference(A, B if problem.two else None, C, alpha, beta, **options(problem))
    if beta == 0:
        inside = xp.tril(xp.ones(C.shape[1:])) if problem.part == "lower" else xp.triu(xp.ones(C.shape[1:]))
        C[:, xp.ones_like(inside, bool) if problem.part == "full" else inside > 0] = xp.nan
    stacks = [laid_out(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    if not problem.two:
        stacks[1] = stacks[0]
    launch(problem, config, backend, stacks, alpha, beta)
    result = stacks[2].view.copy()
    wrong = int((expected != result).sum())
    assert wrong == 0, f"{wrong} of {expected.size} entries differ: {problem} {config}"
    stacks[2].view[...] = xp.nan
    assert bool(xp.isnan(stacks[2].buffer).all()), f"written between the entries: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis, 2 gamma |A| |B|'."""
    xp = testing.array_module(backend)
    A, B, C = (numbers(problem, side, xp, seed + i, False) for i, side in enumerate("abc"))
    stacks = [laid_out(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    if not problem.two:
        stacks[1] = stacks[0]
    launch(problem, config, backend, stacks, 1.0, 0.0)
    wide = "complex128" if problem.is_complex else "float64"
    left, right = A.astype(wide), B.astype(wide) if problem.two else None
    expected = spec.reference(left, right, C, **options(problem))
    magnitudes = [None if one is None else xp.abs(one) for one in (left, right)]
    scale = spec.reference(*magnitudes)
    error = xp.abs(stacks[2].view - expected)
    terms = problem.K * (2 if problem.two else 1)
    assert bool((error <= 2 * testing.gamma(problem.dtype, terms) * scale).all()), (problem, config)
