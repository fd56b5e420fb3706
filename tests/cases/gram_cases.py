"""Problems and configurations that between them reach every branch of the gram kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

import mansard as ms
from mansard import testing
from mansard.kernels.tall_skinny.gram import space, spec
from mansard.kernels.tall_skinny.gram.space import Config, Fragment, Ring, Simd, Tiled
from mansard.kernels.tall_skinny.gram.space_columns import Columns
from mansard.kernels.tall_skinny.gram.space_entries import Entries
from mansard.kernels.tall_skinny.gram.space_group import Group
from mansard.kernels.tall_skinny.gram.space_thirds import Thirds
from mansard.plan.problem import Problem

P = spec.problem


def column_major(dtype: str, M: int, N: int, K: int, padding: int = 0, **options: Any) -> Problem:
    """A problem whose operands are both column-major, `padding` elements between the columns."""
    pitch = K + padding
    return P(dtype, M, N, K, layout_a="col", layout_b="col", pitch_a=pitch, pitch_b=pitch, **options)


F = column_major

# (problem, configuration): odd widths and tails, every parameter away from its default at least once
CASES: list[tuple[Problem, Config]] = [
    # tiled: plain and transposed, leap-frog, unroll, ragged tiles, idle threads, all layouts and reductions
    (P("float64", 16, 16, 300), Tiled(4, 4)),
    (P("float64", 13, 7, 257), Tiled(4, 3, TRANSPOSED=False, LEAPFROG=True)),
    (P("float32", 13, 7, 257), Tiled(5, 2, UNROLL=2, REDUCE="sliced")),
    (P("complex128", 5, 9, 130), Tiled(2, 4, LEAPFROG=True, UNROLL=2, BLOCK=128)),
    (P("complex64", 1, 33, 99), Tiled(1, 8, TRANSPOSED=False)),
    (P("float64", 6, 5, 200, layout_a="col", layout_b="col"), Tiled(3, 5)),
    (P("complex128", 6, 5, 77, layout_a="any", layout_b="row"), Tiled(2, 2)),
    (P("float64", 11, 3, 140, deterministic=False), Tiled(4, 3, REDUCE="atomic")),
    (P("complex64", 4, 4, 140, deterministic=False), Tiled(2, 2, REDUCE="block", LEAPFROG=True)),
    (P("float32", 40, 24, 150, deterministic=False), Tiled(8, 8, REDUCE="block", TRANSPOSED=False)),
    (P("float64", 128, 128, 70), Tiled(8, 8, BLOCK=256, BLOCKS_PER_SM=1, REDUCE="sliced")),
    # fragment: layouts, vectors across and down, folds, reuse of A, several tiles per matrix
    (P("float64", 16, 16, 301), Fragment(2, 2, VECTOR=2)),
    (P("float64", 13, 7, 263), Fragment(2, 1)),
    (P("float64", 20, 12, 131, layout_a="col", layout_b="row", pitch_a=132), Fragment(4, 2, DEPTH=4, K_VECTOR=2)),
    (P("float64", 9, 17, 129, layout_a="col", layout_b="any"), Fragment(2, 3, DEPTH=2, WARPS_K=4)),
    (P("float32", 32, 32, 200), Fragment(4, 4, VECTOR=4, DEPTH=2)),
    (P("float32", 7, 5, 201, layout_a="col", layout_b="col", pitch_a=204, pitch_b=208), Fragment(2, 1, K_VECTOR=4)),
    (P("complex128", 9, 6, 150, layout_a="col", layout_b="any"), Fragment(4, 2, VECTOR=2, DEPTH=2)),
    (P("complex64", 8, 8, 150), Fragment(4, 4, VECTOR=4, DEPTH=2)),
    (P("float64", 4, 4, 997), Fragment(2, 2, VECTOR=2, FOLD=4)),
    (P("complex128", 3, 3, 333, same=True), Fragment(2, 2, VECTOR=2, FOLD=2)),
    (P("float64", 32, 32, 140, same=True), Fragment(4, 4, VECTOR=2, DEPTH=2)),
    (P("complex64", 17, 17, 90, same=True), Fragment(6, 6, VECTOR=2, DEPTH=1, WARPS_K=4)),
    (P("float64", 70, 50, 90), Fragment(4, 4, WARPS_M=2, WARPS_N=1, WARPS_K=4, DEPTH=2)),
    (P("complex128", 40, 128, 60), Fragment(4, 8, VECTOR=2, WARPS_M=2, WARPS_N=2, WARPS_K=2, DEPTH=1, REDUCE="sliced")),
    (P("float64", 19, 21, 100, deterministic=False), Fragment(4, 3, REDUCE="atomic")),
    # ring: both feeds, teams, splits of K, folds, paddings, instruction depths, units
    (P("float64", 16, 16, 1000), Ring()),
    (P("float64", 16, 16, 700), Ring(GROUPS=4, ROWS=64, FEED="producer", SPREAD="shift")),
    (P("float64", 13, 7, 1003), Ring(GROUPS=5, ROWS=16, STAGES=2)),
    (P("float64", 1, 1, 5000), Ring(FOLD=12, ROWS=64, STAGES=2)),
    (P("float64", 4, 3, 1501), Ring(FOLD=3, ROWS=32, FEED="producer")),
    (P("complex128", 2, 2, 777), Ring(FOLD=3, ROWS=32, GROUPS=6)),
    (P("complex128", 17, 9, 333), Ring(1, 2, 1, 4, 16, 3, "producer")),
    (P("float64", 33, 34, 500), Ring(1, 2, 1, 4, 16, 3, "producer", REDUCE="sliced")),
    (P("float64", 63, 63, 333), Ring(2, 2, 1, 3, 16, 4, "producer", REDUCE="sliced")),
    (P("float64", 64, 64, 400), Ring(2, 2, 2, 1, 64, 2, "own", "shift", REDUCE="sliced")),
    (P("float64", 31, 31, 450), Ring(2, 1, 4, 1, 64, 3, "own")),
    (P("float64", 24, 24, 450), Ring(3, 1, 1, 2, 16, 3, "own", KSTEP=8)),
    (P("float64", 20, 40, 500), Ring(1, 1, 1, 6, 32, 2, "own", KSTEP=16)),
    (P("float32", 33, 33, 600), Ring(1, 2, 1, 4, 32, 3, "producer")),
    (P("float32", 32, 16, 600), Ring(1, 1, 1, 8, 64, 2, "own")),
    (P("complex64", 17, 17, 400), Ring(3, 1, 1, 3, 32, 3, "own")),
    (P("float64", 15, 15, 400, pitch_a=16, pitch_b=18), Ring(GROUPS=4, ROWS=32)),
    (P("float64", 12, 12, 500, same=True), Ring(GROUPS=4)),
    (P("complex128", 16, 16, 300, same=True), Ring(GROUPS=4, ROWS=16, SPREAD="shift")),
    (P("float64", 64, 64, 200, same=True), Ring(GROUPS=6, ROWS=16, STAGES=2, REDUCE="sliced")),
    (P("complex64", 33, 33, 250, same=True), Ring(2, 2, 1, 2, 32, 2, "own", REDUCE="sliced")),
    (P("float32", 48, 33, 4133), Ring(3, 1, 1, 2, 64, 2, "own", KSTEP=8, UNIT="tf32x3", REDUCE="sliced")),
    (P("complex64", 16, 8, 4100), Ring(2, 1, 1, 3, 32, 2, "producer", KSTEP=8, UNIT="tf32x3")),
    (P("float64", 100, 128, 150), Ring(4, 4, 1, 1, 16, 3, "own", REDUCE="sliced")),
    # rows that clash in the banks, four and two at a time; odd numbers of slots; both at once
    (P("float64", 48, 48, 300), Ring(1, 1, 2, 2, 32, 2, "own", REDUCE="sliced")),
    (P("float64", 48, 16, 300), Ring(1, 1, 1, 4, 16, 2, "own", SPREAD="none")),
    (P("float64", 40, 24, 300), Ring(1, 1, 1, 6, 16, 2, "own", REDUCE="sliced")),
    (P("float64", 56, 48, 270), Ring(1, 2, 1, 3, 16, 2, "producer", REDUCE="sliced")),
    (P("float64", 1, 32, 700), Ring(GROUPS=6, ROWS=32)),
    (P("float64", 72, 8, 300), Ring(3, 1, 1, 2, 32, 2, "own", KSTEP=8)),
    (P("complex128", 36, 33, 150), Ring(3, 3, 1, 1, 16, 3, "producer", REDUCE="sliced")),
    (P("float32", 64, 32, 400), Ring(2, 1, 1, 3, 32, 2, "own", REDUCE="sliced")),
    (P("float32", 16, 48, 400), Ring(GROUPS=6)),
    (P("float64", 40, 40, 250, same=True), Ring(GROUPS=4, ROWS=16, REDUCE="sliced")),
    (P("complex64", 20, 20, 250, same=True), Ring(GROUPS=4, REDUCE="sliced")),
    (P("float64", 64, 64, 250, same=True), Ring(2, 1, 4, 1, 32, 2, "own", "shift", REDUCE="sliced", TRIANGLE=True)),
    (P("float64", 64, 64, 250, same=True), Ring(4, 1, 1, 2, 32, 2, "producer", "none", TRIANGLE=True)),
    (P("complex128", 33, 33, 150, same=True), Ring(5, 1, 2, 1, 32, 2, "own", KSTEP=8, TRIANGLE=True)),
    (P("complex128", 41, 41, 150, same=True), Ring(3, 1, 2, 1, 32, 2, "own", REDUCE="sliced", TRIANGLE=True)),
    (P("float32", 70, 70, 4133, same=True), Ring(5, 1, 2, 1, 32, 2, "own", KSTEP=8, UNIT="tf32x3", TRIANGLE=True)),
    (P("float32", 40, 24, 4200), Ring(1, 1, 1, 4, 64, 2, "own", KSTEP=8, UNIT="tf32x3", REDUCE="sliced")),
    (P("float64", 19, 21, 400, deterministic=False), Ring(GROUPS=3, ROWS=16, REDUCE="atomic")),
    # columns: all dtypes and steps, both feeds and spreads, teams and splits, skewed and padded pitches, folds
    (F("float64", 16, 16, 1024), Columns()),
    (F("float64", 16, 16, 1000, padding=2), Columns(1, 1, 2, 2, 64, 2, "producer")),
    (F("float64", 13, 7, 1002), Columns(1, 1, 4, 2, 64, 2, KSTEP=8)),
    (F("float64", 17, 33, 501, padding=3), Columns(1, 2, 2, 1, 64, 3, "producer", KSTEP=16, REDUCE="sliced")),
    (F("float64", 64, 64, 334), Columns(2, 2, 2, 1, 32, 2, "own", "none", REDUCE="sliced")),
    (F("float64", 128, 128, 98), Columns(2, 4, 1, 1, 32, 2, "own", "none", KSTEP=8, REDUCE="sliced")),
    (F("float64", 7, 128, 112), Columns(1, 4, 1, 1, 16, 3, "producer", REDUCE="sliced")),
    (F("float64", 40, 9, 300), Columns(4, 1, 1, 1, 32, 3)),
    (F("float32", 7, 13, 1004), Columns(1, 1, 2, 2, 64, 2)),
    (F("float32", 33, 64, 404), Columns(2, 2, 1, 1, 64, 2, "producer", "none", KSTEP=16, REDUCE="sliced")),
    (F("complex128", 13, 7, 333), Columns(1, 1, 4, 1, 32, 3, "producer")),
    (F("complex128", 33, 17, 203), Columns(3, 3, 1, 1, 16, 2, "own", KSTEP=16, REDUCE="sliced")),
    (F("complex128", 64, 1, 100), Columns(4, 1, 1, 1, 16, 3, "producer", "none")),
    (F("complex64", 17, 3, 402), Columns(3, 1, 2, 1, 64, 3, KSTEP=8)),
    (F("complex64", 1, 33, 402, padding=6, conj=False), Columns(1, 2, 2, 1, 32, 3, "own", "none")),
    (F("float64", 1, 1, 5000), Columns(1, 1, 2, 2, 256, 2, FOLD=8)),
    (F("float64", 3, 1, 1502, padding=2), Columns(1, 1, 4, 1, 128, 3, "producer", FOLD=2)),
    (F("complex128", 3, 4, 777), Columns(1, 1, 2, 2, 64, 2, FOLD=2)),
    (F("complex64", 2, 2, 1000, same=True), Columns(1, 1, 2, 1, 128, 3, FOLD=4)),
    (F("float64", 33, 33, 502, same=True), Columns(1, 1, 4, 1, 64, 3, REDUCE="sliced")),
    (F("complex128", 13, 13, 302, same=True), Columns(1, 1, 2, 2, 32, 2)),
    (F("float32", 24, 24, 404, same=True), Columns(3, 1, 2, 1, 64, 2)),
    (F("float64", 64, 64, 250, same=True), Columns(2, 1, 2, 1, 32, 2, "producer", REDUCE="sliced", TRIANGLE=True)),
    (F("complex128", 33, 33, 150, same=True), Columns(5, 1, 1, 1, 16, 2, KSTEP=8, REDUCE="sliced", TRIANGLE=True)),
    (F("float32", 33, 17, 4132), Columns(1, 1, 2, 1, 128, 2, KSTEP=8, UNIT="tf32x3", REDUCE="sliced")),
    (F("complex64", 13, 8, 4100), Columns(2, 1, 1, 2, 64, 2, "producer", "none", KSTEP=8, UNIT="tf32x3")),
    (F("float32", 40, 40, 4132, same=True), Columns(3, 1, 1, 2, 64, 2, KSTEP=8, UNIT="tf32x3", TRIANGLE=True)),
    (F("float64", 19, 21, 400, deterministic=False), Columns(1, 1, 2, 2, 32, 2, REDUCE="atomic")),
    # columns that start anywhere: odd K, odd pitches, matrices that begin between 16-byte boundaries
    (F("float64", 16, 16, 1001), Entries(1, 1, 4, 2, 64, 3)),
    (F("float64", 13, 7, 1003, aligned=False), Entries(1, 1, 4, 2, 64, 2, KSTEP=8)),
    (F("float64", 17, 33, 501, padding=2), Entries(1, 2, 2, 1, 64, 3, KSTEP=16, REDUCE="sliced")),
    (F("float64", 64, 64, 335), Entries(2, 2, 2, 1, 32, 2, "none", REDUCE="sliced")),
    (F("float64", 100, 128, 97), Entries(2, 4, 1, 1, 32, 2, "none", KSTEP=8, REDUCE="sliced")),
    (F("float64", 1, 1, 5001), Entries(1, 1, 2, 2, 256, 4, FOLD=8)),
    (F("float64", 33, 33, 503, same=True), Entries(1, 1, 4, 1, 64, 3, REDUCE="sliced")),
    (F("float64", 64, 64, 251, same=True), Entries(2, 1, 2, 1, 32, 2, REDUCE="sliced", TRIANGLE=True)),
    (F("float32", 33, 17, 4133), Entries(1, 1, 2, 1, 128, 2, KSTEP=8, UNIT="tf32x3", REDUCE="sliced")),
    (F("float32", 7, 13, 1005, aligned=False), Entries(1, 1, 2, 2, 64, 2)),
    (F("complex128", 13, 7, 333, aligned=False), Entries(1, 1, 4, 1, 32, 3)),
    (F("complex128", 13, 13, 302, same=True), Entries(1, 1, 2, 2, 32, 2)),
    (F("complex64", 13, 8, 4101), Entries(2, 1, 1, 2, 64, 2, "none", KSTEP=8, UNIT="tf32x3")),
    (F("complex64", 1, 33, 403, aligned=False, conj=False), Entries(1, 2, 2, 1, 32, 3, "none")),
    # thirds: widths of all remainders, both units, lying tiles, rows that clash four and two at a time, all feeds
    (P("complex128", 33, 33, 203), Thirds(2, 4, 1, 1, 32, 3)),
    (P("complex128", 64, 64, 150), Thirds(2, 4, 1, 1, 16, 2)),
    (P("complex128", 40, 24, 203, conj=False), Thirds(1, 3, 2, 1, 64, 2, "producer", KSTEP=4)),
    (P("complex128", 20, 12, 203), Thirds(1, 1, 2, 2, 32, 2, SPREAD="none", KSTEP=16, REDUCE="ticket")),
    (P("complex128", 48, 9, 203, pitch_a=50, pitch_b=10), Thirds(3, 1, 2, 1, 64, 2, "producer", "shift")),
    (P("complex64", 33, 40, 4203), Thirds(2, 2, 2, 1, 64, 2, UNIT="tf32x3")),
    (P("complex64", 64, 48, 4133, conj=False), Thirds(2, 3, 1, 1, 32, 2, "producer", UNIT="tf32x3")),
    (P("complex64", 17, 8, 403), Thirds(1, 1, 1, 4, 32, 2, REDUCE="ticket")),
    # warpgroups: one and two of a team, widths of all remainders, both spreads
    (P("float32", 64, 64, 4203), Group(2, 32, 2)),
    (P("float32", 33, 20, 4132), Group(1, 64, 3)),
    (P("float32", 7, 128, 4100), Group(2, 32, 2, REDUCE="ticket")),
    (P("float32", 128, 9, 4133), Group(1, 16, 4, SPREAD="shift")),
    (P("complex64", 64, 64, 4133), Group(1, 32, 2, "shift")),
    (P("complex64", 33, 17, 4203, conj=False), Group(1, 32, 3)),
    (P("complex64", 20, 40, 4203, pitch_a=22, pitch_b=41), Group(1, 32, 2)),
    (P("complex64", 48, 48, 4117, same=True), Group(1, 16, 3, "shift")),
]

# The same for the CPU kernel: narrow and wide vectors, both sides broadcast, edges, copies, prefetching, all layouts.
CPU_CASES: list[tuple[Problem, Config]] = [
    (P("float64", 5, 7, 301), Simd(2, 3, 2)),
    (P("float64", 16, 16, 301), Simd(4, 4, 2, PREFETCH=0)),
    (P("float64", 13, 9, 1003), Simd(4, 6, 1, UNROLL=2, ROWS=128)),
    (P("float64", 3, 3, 1003), Simd(2, 3, 2, UNROLL=2, ROWS=512)),
    (P("float64", 9, 13, 500), Simd(4, 3, 2, SWAP=True, PREFETCH=2)),
    (P("float64", 21, 19, 333), Simd(4, 5, 2, EDGE=True)),
    (P("float64", 21, 19, 333), Simd(4, 5, 2, SWAP=True, EDGE=True, PACK=True)),
    (P("float32", 33, 34, 200), Simd(4, 4, 3, ROWS=32)),
    (P("complex64", 11, 6, 200), Simd(4, 2, 3, EDGE=True)),
    (P("complex128", 17, 9, 150), Simd(2, 2, 3, SWAP=True)),
    (P("complex128", 32, 32, 170), Simd(2, 3, 2, ROWS=32, PACK=True)),
    (P("float64", 64, 64, 170), Simd(4, 6, 2, ROWS=64, PACK=True, PREFETCH=2)),
    (P("float64", 24, 24, 300, same=True), Simd(4, 4, 3, PACK=True)),
    (P("complex64", 13, 13, 300, same=True), Simd(4, 3, 2, EDGE=True)),
    (P("float64", 6, 5, 301, layout_a="col", layout_b="col"), Simd(4, 3, 2, UNROLL=2)),
    (P("complex128", 6, 5, 301, layout_a="col", layout_b="col"), Simd(2, 2, 1, PREFETCH=2)),
    (P("float32", 20, 21, 301, layout_a="col", layout_b="col"), Simd(4, 4, 2, EDGE=True, PACK=True)),
    (P("float64", 12, 10, 301, layout_a="col", layout_b="row"), Simd(4, 4, 2)),
    (P("complex64", 12, 10, 301, layout_a="row", layout_b="col"), Simd(4, 2, 2, SWAP=True)),
    (P("float64", 15, 15, 250, pitch_a=16, pitch_b=18), Simd(4, 5, 2, EDGE=True, PREFETCH=1)),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    number = (CPU_CASES if case in CPU_CASES else CASES).index(case)
    return f"{config.VARIANT}-{problem.dtype}-{problem.M}x{problem.N}x{problem.K}-{number}"


def run(problem: Problem, config: Config | None, backend: str, A: Any, B: Any, **options: Any) -> Any:
    """`ms.gram` with the configuration pinned, on the named backend."""
    pinned = space.to_dict(config) if config else {}
    with ms.pin(**pinned):
        return ms.gram(
            A,
            None if problem.same else B,
            conj=bool(problem.conj),
            deterministic=problem.deterministic,
            backend=None if backend == "cuda" else backend,
            **options,
        )


def exact(problem: Problem, config: Config | None, backend: str, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result."""
    A, B = testing.operands(problem, backend, seed, integers=True)
    C = run(problem, config, backend, A, B)
    expected = spec.reference(A, B, conj=bool(problem.conj))
    assert C.dtype.name == problem.dtype and C.shape == (problem.M, problem.N)
    wrong = np.argwhere(np.asarray(_host(C) != _host(expected)))
    assert len(wrong) == 0, f"{len(wrong)} entries differ, the first at {wrong[0].tolist()}: {problem} {config}"


def bounded(problem: Problem, config: Config | None, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis."""
    A, B = testing.operands(problem, backend, seed)
    C = run(problem, config, backend, A, B)
    assert testing.gram_error(C, A, B, conj=bool(problem.conj)) <= 1.0


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
