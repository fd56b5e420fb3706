"""Problems and configurations that between them reach every branch of the tsm2r kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scalars import factors_of

from mansard import testing
from mansard.backends import cuda, emulated
from mansard.kernels.tall_skinny.tsm2r import emit, space, spec
from mansard.kernels.tall_skinny.tsm2r.space import Config, Steps, Tensor
from mansard.kernels.tall_skinny.tsm2r.space_group import Group
from mansard.plan.problem import REAL, Problem

P = spec.problem
BACKENDS = {"cuda": cuda, "emulated": emulated}

STEPS: list[tuple[Problem, Config]] = [
    # all steps, dtypes and layouts; ragged rows, columns and K; several passes; shared K
    (P("float64", 100, 3, 75, layout_a="col"), Steps("inner", 64, 1, 1)),
    (P("float32", 70, 5, 40), Steps("inner", 32, 1, 1, 2)),
    (P("complex64", 90, 2, 33, layout_a="any", conj_a=True), Steps("inner", 32, 1, 1)),
    (P("float64", 100, 7, 75, layout_a="col"), Steps("outer", 64, 7, 1)),
    (P("complex128", 33, 4, 50, conj_b=True), Steps("outer", 32, 4, 1, 3)),
    (P("float32", 65, 16, 64, layout_a="any"), Steps("outer", 64, 16, 1)),
    (P("float64", 130, 8, 200, layout_a="col"), Steps("shared", 64, 4, 4)),
    (P("float32", 64, 9, 64, layout_b="col", layout_c="col"), Steps("shared", 32, 4, 8, 2)),
    (P("complex128", 40, 3, 70, layout_a="col", conj_a=True, conj_b=True), Steps("shared", 32, 3, 2)),
    (P("float64", 130, 8, 200, layout_a="col"), Steps()),
    (P("float64", 257, 5, 129, layout_a="col", pitch_a=300), Steps("prefetch", 128, 2, 4, 2)),
    (P("float32", 100, 16, 150, layout_a="any", layout_b="any", layout_c="any"), Steps("prefetch", 64, 16, 8)),
    (P("complex64", 70, 6, 90), Steps("prefetch", 32, 4, 16, 3)),
    (P("complex128", 70, 6, 90, layout_a="col", aligned=False), Steps("prefetch", 64, 6, 2, 2)),
    (P("float64", 1, 1, 1), Steps("prefetch", 32, 1, 1)),
]
TENSOR: list[tuple[Problem, Config]] = [
    # bulk, both layouts: one panel and several, parts of panels, ragged in every direction, padded pitches
    (P("float64", 256, 8, 256), Tensor(2, 1, 1, 2, 32, FEEDERS=1)),
    (P("float64", 300, 32, 330), Tensor(2, 1, 1, 2, 64, STAGES=3, FEEDERS=2)),
    (P("float64", 90, 13, 101, pitch_a=110), Tensor(1, 1, 2, 1, 32, KSTEP=4)),
    (P("float64", 70, 2, 50, layout_b="col", layout_c="col"), Tensor(2, 1, 2, 1, 32, SPREAD="none")),
    (P("float64", 33, 64, 131, pitch_a=132), Tensor(1, 1, 4, 1, 64)),
    (P("float64", 200, 17, 100, layout_a="col"), Tensor(2, 1, 1, 4, 32)),
    (P("float64", 131, 32, 90, layout_a="col", pitch_a=140), Tensor(2, 1, 2, 2, 32, STAGES=3, ONCE=False)),
    (P("float64", 75, 3, 77, layout_a="col", pitch_a=76), Tensor(2, 1, 1, 2, 16)),
    (P("float64", 48, 8, 64, layout_a="col"), Tensor(3, 1, 1, 1, 32)),
    (P("float64", 66, 9, 70, layout_a="col", layout_b="col"), Tensor(2, 1, 1, 4, 16, SPREAD="none", KSTEP=4)),
    (P("float32", 100, 12, 200), Tensor(2, 1, 2, 2, 64)),
    (P("float32", 130, 5, 130, layout_a="col", pitch_a=132), Tensor(1, 1, 2, 4, 64, FEEDERS=2)),
    (P("complex128", 40, 5, 60), Tensor(2, 1, 1, 1, 32)),
    (P("complex128", 70, 9, 33, conj_a=True), Tensor(1, 1, 1, 2, 32, STAGES=3)),
    (P("complex128", 40, 16, 50, layout_a="col", conj_b=True), Tensor(2, 2, 1, 4, 32)),
    (P("complex128", 45, 3, 41, layout_a="col", conj_a=True), Tensor(2, 1, 2, 1, 32)),
    (P("complex64", 40, 6, 90, conj_a=True, conj_b=True), Tensor(2, 1, 1, 2, 64)),
    (P("complex64", 40, 7, 60, layout_a="col"), Tensor(2, 1, 1, 2, 32, SPREAD="none")),
    (P("complex128", 30, 64, 40), Tensor(2, 2, 1, 1, 16)),
    (P("float64", 40, 63, 70, layout_a="col"), Tensor(1, 4, 2, 2, 32)),
    # three TF32 products
    (P("float32", 150, 32, 200), Tensor(4, 1, 1, 2, 64, UNIT="tf32x3")),
    (P("float32", 70, 17, 170, pitch_a=172), Tensor(2, 1, 2, 1, 64, UNIT="tf32x3")),
    (P("float32", 150, 32, 100, layout_a="col", pitch_a=152), Tensor(2, 2, 1, 4, 32, UNIT="tf32x3")),
    (P("float32", 150, 9, 100, layout_a="col", pitch_a=152), Tensor(2, 1, 2, 2, 32, UNIT="tf32x3", SPREAD="none")),
    (P("complex64", 50, 12, 70, conj_a=True), Tensor(1, 2, 1, 2, 64, UNIT="tf32x3")),
    (P("complex64", 50, 10, 70, layout_a="col"), Tensor(4, 1, 1, 1, 32, UNIT="tf32x3")),
    # straight into registers: vectors, single numbers of unaligned matrices
    (P("float64", 150, 8, 130), Tensor(2, 1, 1, 2, 32, "registers")),
    (P("float64", 77, 19, 131, aligned=False), Tensor(2, 1, 2, 1, 32, "registers")),
    (P("float64", 150, 8, 130, layout_a="col"), Tensor(2, 1, 1, 2, 16, "registers", KSTEP=4)),
    (P("float64", 77, 5, 61, layout_a="col", pitch_a=78), Tensor(1, 1, 2, 2, 16, "registers")),
    (P("float32", 130, 8, 96), Tensor(4, 1, 1, 2, 32, "registers")),
    (P("float32", 132, 8, 96, layout_a="col"), Tensor(2, 1, 1, 2, 16, "registers")),
    (P("float32", 101, 3, 50, layout_a="col"), Tensor(2, 1, 1, 1, 16, "registers")),
    (P("complex128", 60, 4, 50), Tensor(2, 1, 1, 1, 32, "registers")),
    (P("complex128", 60, 4, 50, layout_a="col", conj_a=True), Tensor(2, 1, 1, 1, 16, "registers")),
    (P("complex64", 60, 4, 50, layout_a="col", aligned=False), Tensor(2, 1, 1, 2, 16, "registers")),
    (P("float64", 1, 1, 1), Tensor(1, 1, 1, 1, 16, "registers")),
]
GROUP: list[tuple[Problem, Config]] = [
    # warpgroups: both layouts, ragged in every direction, padded pitches, chunks in parts, few columns and many
    (P("float32", 150, 32, 200), Group(1, 1, 64, 1, 2, 1)),
    (P("float32", 300, 17, 330, pitch_a=332), Group(2, 1, 128, 2, 2, 2)),
    (P("float32", 200, 24, 300, layout_b="col", layout_c="col"), Group(3, 1, 64, 1, 3, 4)),
    (P("float32", 70, 64, 131, pitch_a=132), Group(1, 2, 64, 2, 2, 4)),
    (P("float32", 260, 3, 70, pitch_a=72), Group(2, 1, 128, 4, 2, 2, ONCE=False)),
    (P("float32", 5, 9, 4), Group(4, 1, 64, 2, 2, 1)),
    (P("float32", 150, 32, 100, layout_a="col", pitch_a=152), Group(1, 2, 32, 1, 3, 1)),
    (P("float32", 150, 9, 100, layout_a="col", pitch_a=152), Group(1, 1, 32, 2, 2, 1)),
    (P("float32", 301, 20, 90, layout_a="col", layout_b="col", pitch_a=304), Group(1, 4, 16, 1, 2, 1)),
    (P("float32", 8, 40, 3, layout_a="col"), Group(2, 1, 64, 4, 2, 2)),
    (P("complex64", 50, 12, 70, conj_a=True), Group(1, 1, 64, 1, 2, 4)),
    (P("complex64", 90, 20, 34, conj_b=True), Group(1, 2, 32, 1, 2, 1)),
    (P("complex64", 40, 64, 40, conj_a=True, conj_b=True), Group(1, 1, 32, 1, 2, 1)),
    (P("complex64", 90, 10, 70, layout_a="col", conj_b=True), Group(1, 2, 32, 1, 2, 1)),
    (P("complex64", 90, 5, 70, layout_a="col", layout_b="col", conj_a=True), Group(2, 1, 16, 1, 2, 1)),
    (P("complex64", 33, 16, 70, layout_a="col", conj_a=True, conj_b=True, pitch_a=34), Group(2, 2, 64, 2, 2, 1)),
    # both halves of B in one instruction
    (P("float32", 300, 20, 330, pitch_a=332), Group(2, 1, 128, 2, 2, 2, JOINED=True)),
    (P("float32", 150, 9, 100, layout_a="col", pitch_a=152), Group(1, 2, 32, 1, 2, 2, JOINED=True)),
    (P("complex64", 90, 10, 70, conj_a=True), Group(1, 1, 64, 1, 2, 1, JOINED=True)),
]
CASES = STEPS + TENSOR + GROUP


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    kind = getattr(config, {"steps": "STEP", "tensor": "LOAD"}.get(config.VARIANT, "VARIANT"))
    return f"{kind}-{problem.dtype}-{problem.M}x{problem.N}x{problem.K}-{problem.layout_a}-{CASES.index(case)}"


def operands(problem: Problem, backend: str, seed: int, integers: bool) -> tuple[Any, Any, Any]:
    """A, B and an old C, laid out as the problem says."""
    xp = testing.array_module(backend)
    M, N, K = problem.M, problem.N, problem.K
    shapes = ((M, K, problem.layout_a), (K, N, problem.layout_b), (M, N, problem.layout_c))
    matrices = []
    for i, (rows, columns, layout) in enumerate(shapes):
        pitch = problem.pitch_a if i == 0 else columns if layout == "row" else rows
        matrix = testing.random_matrix(xp, rows, columns, problem.dtype, seed + i, integers)
        matrices.append(testing.laid_out(matrix, layout, pitch, problem.aligned or i > 0))
    return tuple(matrices)  # type: ignore[return-value]


def launch(
    problem: Problem, config: Config, backend: str, A: Any, B: Any, C: Any, alpha: complex, beta: complex
) -> None:
    """The kernel itself, on arrays laid out as the problem says."""
    where = BACKENDS[backend].backend()
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    strides = tuple(stride // problem.itemsize for array in (A, B, C) for stride in array.strides)
    pointers = tuple(array.ctypes.data if backend != "cuda" else array.data.ptr for array in (A, B, C))
    scalars = (complex(alpha).real, complex(alpha).imag, complex(beta).real, complex(beta).imag)
    where.prepare(emit.kernel(problem, config, where.device, strides))(pointers, scalars, 0)
    where.synchronize()


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, C starts as NaN."""
    A, B, C = operands(problem, backend, seed, integers=True)
    alpha, beta = factors_of(problem, scaled)
    if not scaled:
        C.fill(np.nan)
    expected = spec.reference(A, B, C.copy(), alpha, beta, problem.conj_a, problem.conj_b)
    launch(problem, config, backend, A, B, C, alpha, beta)
    wrong = int((expected != C).sum())
    assert wrong == 0, f"{wrong} of {expected.size} entries differ: {problem} {config}"


def error(problem: Problem, config: Config, A: Any, B: Any, C: Any) -> float:
    """The largest error of any entry of C, in units of its bound (2 gamma + split) |A| |B|; at most 1 is right.

    Three TF32 products: each operand loses 2^-22 of itself when it is split into two halves of 11 bits, and the product
    of the lower halves, another 2^-22, is left out.
    """
    xp = testing.array_module("cuda") if hasattr(C, "get") else np
    wide = "complex128" if problem.is_complex else "float64"
    exact = spec.reference(A.astype(wide), B.astype(wide), conj_a=problem.conj_a, conj_b=problem.conj_b)
    scale = xp.abs(A).astype("float64") @ xp.abs(B).astype("float64")
    split = 3 * 2.0**-22 if getattr(config, "UNIT", "") == "tf32x3" else 0.0
    bound = (2 * testing.gamma(problem.dtype, problem.K) + split) * scale + np.finfo(REAL[problem.dtype]).tiny
    return float(xp.max(xp.abs(C - exact) / bound))


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis."""
    A, B, C = operands(problem, backend, seed, integers=False)
    launch(problem, config, backend, A, B, C, 1.0, 0.0)
    assert error(problem, config, A, B, C) <= 1.0
