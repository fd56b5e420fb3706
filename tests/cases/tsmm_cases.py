"""Problems and configurations that between them reach every branch of the tsmm kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scalars import factors_of

from mansard import testing
from mansard.backends import cpu, cuda, emulated
from mansard.kernels.tall_skinny.tsmm import emit, space, spec
from mansard.kernels.tall_skinny.tsmm.space import Config, Fragment, Ring, Threads
from mansard.kernels.tall_skinny.tsmm.space_columns import Columns
from mansard.plan.problem import Problem

P = spec.problem
BACKENDS = {"cpu": cpu, "cuda": cuda, "emulated": emulated}


def column_major(dtype: str, M: int, N: int, K: int, padding: int = 0, **options: Any) -> Problem:
    """A problem whose A is column-major, `padding` elements between the columns."""
    return P(dtype, M, N, K, layout_a="col", pitch_a=K + padding, **options)


F = column_major

CASES: list[tuple[Problem, Config]] = [
    # threads: both mappings, all sources of C, ragged shares, unrolled rows, all layouts, in place
    (P("float64", 4, 4, 300), Threads()),
    (P("float64", 5, 7, 300), Threads(2, False, 2, "registers", 64, 2)),
    (P("complex128", 6, 5, 130), Threads(4, True, 1, "shared", 128, 2)),
    (P("float32", 33, 20, 90), Threads(3, False, 1, "shared", 128, 2)),
    (P("float32", 9, 9, 200, in_place=True), Threads(8, True, 1, "cache", 64, 2)),
    (P("complex64", 5, 3, 100, layout_a="col", layout_w="col", conj=True), Threads(1, True, 4, "shared", 128, 1)),
    (P("float64", 6, 8, 77, layout_a="any", layout_w="col"), Threads(2, True, 1, "cache", 96, 1)),
    (P("complex128", 3, 4, 77, layout_a="row", layout_w="any", conj=True), Threads(1, True, 2, "registers", 64, 1)),
    (P("float64", 7, 7, 99, aligned=False), Threads(7, True, 1, "cache", 128, 2)),
    # ring: narrow and wide, odd widths, rows that clash in the banks, both sources of C, teams, stores of its own
    (P("float64", 16, 16, 1000), Ring()),
    (P("float64", 16, 16, 1000, in_place=True), Ring()),
    (P("float64", 13, 7, 1003), Ring(1, 1, 4, 32, 2, 1, "registers")),
    (P("float64", 1, 1, 1003), Ring(1, 1, 4, 64, 2, 2, "registers")),
    (P("float64", 3, 2, 777), Ring(1, 1, 4, 64, 2, 2)),
    (P("float64", 2, 9, 500), Ring(2, 1, 3, 64, 3, 2)),
    (P("float64", 64, 64, 300), Ring(2, 2, 1, 32, 2, 1)),
    (P("float64", 48, 40, 300), Ring(1, 2, 2, 32, 2, 1)),
    (P("float64", 24, 24, 300), Ring(2, 1, 2, 32, 2, 2)),
    (P("float64", 128, 100, 100), Ring(1, 4, 1, 16, 2, 1)),
    (P("complex128", 16, 16, 300), Ring(1, 2, 2, 32, 2, 2)),
    (P("complex128", 17, 9, 300, conj=True), Ring(1, 1, 2, 32, 2, 2)),
    (P("complex128", 40, 40, 100, in_place=True), Ring(1, 4, 1, 16, 2, 1)),
    (P("float32", 32, 32, 400), Ring(2, 1, 2, 64, 2, 2)),
    (P("float32", 33, 17, 400), Ring(1, 1, 3, 32, 2, 2)),
    (P("float32", 8, 8, 400), Ring(1, 1, 4, 32, 2, 2, "registers")),
    (P("complex64", 8, 12, 400), Ring(1, 1, 3, 32, 2, 2)),
    (P("float64", 15, 15, 400, pitch_a=16, pitch_w=18), Ring(1, 1, 3, 32, 2, 0)),
    (P("float64", 6, 6, 5), Ring(1, 1, 3, 32, 2, 2)),
    # passes, results back into their stages, lanes with whole rows, three TF32 products; warps without columns
    (P("float64", 12, 9, 1003), Ring(2, 1, 2, 256, 2, 2, "shared", 4)),
    (P("float64", 32, 30, 500), Ring(1, 2, 2, 32, 2, 0)),
    (P("float64", 32, 32, 500, in_place=True), Ring(2, 2, 1, 64, 3, 0)),
    (P("complex128", 33, 33, 200), Ring(1, 4, 1, 32, 2, 0)),
    (P("complex128", 24, 24, 200, in_place=True), Ring(1, 4, 2, 16, 2, 0)),
    (P("float32", 3, 3, 1003), Ring(2, 1, 2, 256, 2, 2, "registers", 4, "fma")),
    (P("float32", 4, 5, 1003), Ring(1, 1, 4, 64, 2, 1, "registers", 2, "fma")),
    (P("float64", 1, 1, 2003), Ring(4, 1, 1, 512, 2, 2, "registers", 2, "fma")),
    (P("float64", 7, 7, 503, pitch_a=8, pitch_w=9), Ring(1, 1, 4, 64, 2, 0, "registers", 2, "fma")),
    (P("complex64", 3, 2, 503), Ring(2, 1, 2, 128, 2, 2, "registers", 2, "fma")),
    (P("complex128", 2, 2, 503, in_place=True, conj=True), Ring(1, 1, 4, 32, 2, 0, "registers", 1, "fma")),
    (P("float32", 64, 64, 300), Ring(1, 2, 2, 32, 2, 1, "shared", 1, "tf32x3")),
    (P("float32", 33, 20, 403), Ring(2, 1, 2, 128, 2, 2, "shared", 2, "tf32x3")),
    (P("complex64", 32, 33, 203), Ring(1, 2, 2, 32, 2, 1, "shared", 1, "tf32x3")),
    (P("complex64", 19, 17, 203, conj=True), Ring(1, 4, 1, 64, 2, 0, "shared", 1, "tf32x3")),
    (P("float64", 20, 20, 203), Ring(1, 4, 1, 32, 2, 1)),
    # transposed tiles
    (P("float64", 20, 20, 203), Ring(1, 4, 1, 32, 2, 1, TURNED=True)),
    (P("float64", 13, 7, 403), Ring(2, 1, 2, 128, 2, 2, PASSES=2, TURNED=True)),
    (P("float64", 64, 64, 203, in_place=True), Ring(1, 2, 2, 32, 2, 0, TURNED=True)),
    (P("complex128", 33, 33, 103), Ring(1, 4, 2, 32, 2, 0, TURNED=True)),
    (P("complex128", 16, 5, 203, conj=True), Ring(2, 1, 2, 32, 2, 1, TURNED=True)),
    (P("float32", 24, 40, 203), Ring(1, 2, 2, 32, 2, 1, TURNED=True)),
    (P("complex64", 12, 12, 203, pitch_w=14), Ring(1, 1, 4, 32, 2, 0, TURNED=True)),
    # few rows
    (P("float64", 8, 8, 300), Fragment()),
    (P("float64", 13, 7, 203, in_place=False), Fragment(2, 1)),
    (P("float64", 16, 16, 203, in_place=True), Fragment(1, 4)),
    (P("float64", 15, 15, 101, pitch_a=16, pitch_w=18), Fragment(2, 2)),
    (P("float64", 9, 12, 101, aligned=False), Fragment()),
    (P("float32", 33, 64, 101), Fragment(1, 1)),
    (P("complex128", 17, 9, 101, conj=True), Fragment(1, 2)),
    (P("complex64", 5, 3, 203, aligned=False), Fragment(2, 2)),
    # three products per complex one
    (P("complex64", 24, 40, 203), Ring(1, 2, 2, 32, 2, 1, UNIT="tf32x3", PRODUCTS=3)),
    (P("complex64", 19, 17, 403), Ring(1, 1, 3, 64, 2, 2, PASSES=2, UNIT="tf32x3", PRODUCTS=3)),
    (P("complex64", 20, 20, 203, conj=True, pitch_w=22), Ring(1, 1, 2, 32, 2, 0, UNIT="tf32x3", PRODUCTS=3)),
    (P("complex64", 64, 64, 103, in_place=True), Ring(1, 2, 2, 32, 2, 0, UNIT="tf32x3", PRODUCTS=3)),
    (P("complex64", 33, 33, 203), Ring(2, 2, 1, 64, 2, 1, UNIT="tf32x3", PRODUCTS=3)),
    # warpgroups
    (P("float32", 64, 64, 403), Ring(4, 1, 2, 64, 2, 1, UNIT="wgmma")),
    (P("float32", 33, 20, 403), Ring(4, 1, 1, 128, 2, 2, PASSES=2, UNIT="wgmma")),
    (P("float32", 19, 128, 203), Ring(4, 1, 1, 64, 3, 1, UNIT="wgmma")),
    (P("complex64", 48, 48, 303), Ring(4, 1, 2, 64, 2, 1, UNIT="wgmma")),
    (P("complex64", 17, 33, 203, conj=True), Ring(4, 1, 1, 64, 2, 2, UNIT="wgmma")),
    (P("complex64", 18, 5, 203, pitch_a=20, pitch_w=7), Ring(4, 1, 3, 64, 2, 0, UNIT="wgmma")),
    (P("complex64", 64, 64, 303, in_place=True), Ring(4, 1, 1, 64, 3, 0, UNIT="wgmma")),
    # columns that start anywhere: odd K, odd pitches, matrices that begin between boundaries; all units, teams, results
    (F("float64", 13, 13, 1003), Columns()),
    (F("float64", 16, 16, 300), Columns(GROUPS=4)),
    (F("float64", 13, 7, 1003, padding=4, aligned=False), Columns(1, 4, 16, 8, 3)),
    (F("float64", 45, 45, 301), Columns(2, 2, 32, 8, 2, 16)),
    (F("float64", 64, 64, 203), Columns(1, 2, 32, 16, 3, ORDER="tickets")),
    (F("float64", 100, 128, 77), Columns(2, 2, 16, 16, 3, ROLLED=True)),
    (F("float64", 9, 6, 204, pitch_w=8), Columns(1, 2, 32, 8, 2, 0)),
    (F("float64", 16, 16, 301, layout_w="col", in_place=True), Columns(2, 4, 32, 16, 2, 0)),
    (F("float64", 1, 1, 2003), Columns(1, 4, 256, 1, 4, 0, "fma")),
    (F("float64", 5, 4, 2003), Columns(1, 4, 64, 2, 4, 64, "fma")),
    (F("float64", 7, 8, 999), Columns(1, 4, 64, 4, 3, 64, "fma", ORDER="tickets")),
    (F("float32", 33, 20, 403), Columns(1, 4, 32, 16, 3)),
    (F("float32", 33, 20, 403), Columns(1, 4, 32, 16, 3, 32, "tf32x3")),
    (F("float32", 64, 64, 403, aligned=False), Columns(2, 2, 32, 8, 3, 8, "tf32x3", True)),
    (F("float32", 3, 5, 403), Columns(1, 4, 64, 4, 3, 0, "fma")),
    (F("complex128", 17, 9, 203, conj=True), Columns(1, 4, 16, 8, 3)),
    (F("complex128", 40, 33, 203, aligned=False), Columns(2, 2, 16, 4, 3, 16)),
    (F("complex128", 3, 2, 503), Columns(1, 4, 32, 4, 3, 32, "fma")),
    (F("complex64", 18, 20, 203, conj=True, aligned=False), Columns(1, 4, 32, 8, 3)),
    (F("complex64", 45, 45, 203, conj=True), Columns(1, 2, 32, 8, 3, 8, "tf32x3")),
    (F("complex64", 32, 32, 204, layout_w="col", in_place=True), Columns(2, 2, 32, 4, 2, 0, "tf32x3")),
    (F("complex64", 5, 3, 204, conj=True, aligned=False, layout_w="any"), Columns(1, 2, 32, 4, 2, 0, "fma")),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.dtype}-{problem.M}x{problem.N}x{problem.K}-{CASES.index(case)}"


def launch(
    problem: Problem, config: Config, backend: str, A: Any, C: Any, W: Any, alpha: complex, beta: complex
) -> None:
    """The kernel itself, on arrays laid out as the problem says."""
    where = BACKENDS[backend].backend()
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    strides = tuple(stride // problem.itemsize for array in (A, C, W) for stride in array.strides)
    pointers = tuple(array.ctypes.data if backend != "cuda" else array.data.ptr for array in (A, C, W))
    scalars = (complex(alpha).real, complex(alpha).imag, complex(beta).real, complex(beta).imag)
    where.prepare(emit.kernel(problem, config, where.device, strides))(pointers, scalars, 0)
    where.synchronize()


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, W starts as NaN."""
    xp = testing.array_module(backend)
    A, C = testing.tsmm_operands(problem, backend, seed, integers=True)
    alpha, beta = factors_of(problem, scaled)
    W = testing.random_matrix(xp, problem.K, problem.N, problem.dtype, seed + 2, integers=True)
    if not scaled:
        W.fill(np.nan)
    if problem.in_place:
        W = A
    elif not (problem.layout_w == "row" and problem.pitch_w == problem.N and problem.aligned):
        W = testing.laid_out(W, problem.layout_w, problem.pitch_w, problem.aligned)
    expected = spec.reference(A, C, W.copy(), alpha, beta, conj=problem.conj)
    launch(problem, config, backend, A, C, W, alpha, beta)
    wrong = int((expected != W).sum())
    assert wrong == 0, f"{wrong} of {expected.size} entries differ: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis."""
    A, C = testing.tsmm_operands(problem, backend, seed)
    W = testing.laid_out(
        testing.random_matrix(testing.array_module(backend), problem.K, problem.N, problem.dtype, seed + 2),
        problem.layout_w, problem.pitch_w, problem.aligned,
    )  # fmt: skip
    old = A.copy()
    W = A if problem.in_place else W
    launch(problem, config, backend, A, C, W, 1.0, 0.0)
    assert testing.tsmm_error(W, old, C, conj=problem.conj) <= 1.0
