"""The Cholesky kernels: exact where roots are, within bounds on random numbers, for all variants and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cholesky_cases import (
    P,
    S,
    bounded,
    definite,
    empty_result,
    exact,
    factors,
    launch,
    numbers,
    on_host,
    one_triangle,
    stack_of,
)
from devices import A100, H200
from sparing import crossed, spared

from mansard import testing
from mansard.compile import nvrtc
from mansard.kernels.factor.cholesky import defaults, emit, space, spec, work
from mansard.kernels.factor.cholesky.space import Block, Config, Lanes, Tile
from mansard.plan.problem import DTYPES, Problem

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
KERNELS: list[Any] = [Lanes(1), Lanes(4, WARPS=2), Tile(8, 2), Block(2)]
KERNEL = pytest.mark.parametrize("config", KERNELS, ids=lambda config: f"{config.VARIANT}-{KERNELS.index(config)}")
DIRECT = Tile(8, 2, DIRECT=True)
FACTORS = pytest.mark.parametrize("config", [*KERNELS, DIRECT], ids=["alone", "lanes", "tile", "block", "direct"])

FACTORS_AND_DTYPES = pytest.mark.parametrize("config, dtype", crossed([*KERNELS, DIRECT], DTYPES, 2), ids=str)


@KERNEL
def test_every_size_of_a_batch(config: Any, gpu_backend: str) -> None:
    """None, one, one less and one more than a warp and a block take at a time."""
    for batch in (0, 1, 2, 7, 8, 9, 31, 32, 33, 65):
        exact(P("float64", 6, batch), config, gpu_backend)
    exact(S("float64", 6, 2, 35), config, gpu_backend)
    for batch in (0, 1, 3, 5):
        exact(P("float64", 6, batch), DIRECT, gpu_backend)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@FACTORS
def test_bad_matrices_say_so_and_spoil_only_themselves(config: Any, dtype: str, gpu_backend: str) -> None:
    """Pivots that are negative, zero, NaN: the order of the first such minor, as LAPACK has it."""
    xp = testing.array_module(gpu_backend)
    problem = P(dtype, 9, 40)
    L = factors(problem, xp, 3)
    A = L @ L.conj().swapaxes(-1, -2)
    expected = np.zeros(40, np.int32)
    for matrix, order, pivot in ((3, 1, -1), (11, 5, 0), (12, 5, -4), (17, 9, np.nan), (30, 2, np.nan), (39, 9, 0)):
        removed = abs(L[matrix, order - 1, order - 1]) ** 2
        A[matrix, order - 1, order - 1] += pivot - removed
        expected[matrix] = order
    out = empty_result(problem, xp)
    info = launch(problem, config, gpu_backend, stack_of(problem, "a", xp, one_triangle(problem, xp, A)), None, out)
    assert np.array_equal(on_host(info, np.int32), expected)
    F, sound = out.view, expected == 0
    assert bool((F[sound] == L[sound]).all())
    for matrix in np.flatnonzero(expected):
        assert bool(xp.isnan(F[matrix, expected[matrix] - 1, expected[matrix] - 1]))


@KERNEL
def test_solutions_of_bad_matrices(config: Any, gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    problem = S("float64", 7, 2, 33)
    L = factors(problem, xp, 4)
    A, X = L @ L.swapaxes(-1, -2), numbers(problem, 7, 2, xp, 5, True)
    B = A @ X
    A[20, 3, 3] = -1
    out = empty_result(problem, xp)
    stacks = [stack_of(problem, name, xp, values) for name, values in (("a", A), ("b", B))]
    info = launch(problem, config, gpu_backend, *stacks, out)
    others = [i for i in range(33) if i != 20]
    assert int(info[20]) == 4 and not bool(info[others].any())
    assert bool((out.view[others] == X[others]).all()) and bool(xp.isnan(out.view[20]).any())


@FACTORS_AND_DTYPES
def test_tiny_and_huge_matrices_are_exact(config: Any, dtype: str, gpu_backend: str) -> None:
    """Powers of four scale factors by powers of two, though pivots are subnormal or near the largest number."""
    xp = testing.array_module(gpu_backend)
    problem = P(dtype, 8 if dtype == "complex128" else 10, 5)
    L = factors(problem, xp, 6)
    A = L @ L.conj().swapaxes(-1, -2)
    wide = dtype in ("float64", "complex128")
    for power in (-530, -515, 507) if wide else (-70, -64, 58):
        out = empty_result(problem, xp)
        scaled = xp.asarray(
            (on_host(A, dtype) * 2.0**power * 2.0**power).astype(dtype)
        )  # CuPy has no subnormal numbers
        given = stack_of(problem, "a", xp, one_triangle(problem, xp, scaled))
        info = launch(problem, config, gpu_backend, given, None, out)
        assert not bool(info.any()) and bool((out.view == (L * 2.0**power).astype(dtype)).all()), power


@pytest.mark.parametrize("uplo", ["lower", "upper"])
@FACTORS_AND_DTYPES
def test_graded_and_nearly_singular_matrices(config: Any, dtype: str, uplo: str, gpu_backend: str) -> None:
    """Every entry's residual stays within its own bound, however much rows differ, and close to singularity."""
    xp = testing.array_module(gpu_backend)
    wide = dtype in ("float64", "complex128")
    N = 8 if dtype == "complex128" else 10
    problem = P(dtype, N, 4, uplo=uplo)
    scales = xp.asarray(np.logspace(0, -60 if wide else -8, N))
    A = definite(problem.replace(dtype="complex128" if problem.is_complex else "float64"), xp, 7)
    bounded(problem, config, gpu_backend, (A * scales[:, None] * scales).astype(dtype))
    turned = np.linalg.qr(np.random.default_rng(8).standard_normal((4, N, N)))[0]
    lean = turned * np.logspace(0, -6 if wide else -2.5, N)
    near = xp.asarray(lean @ lean.swapaxes(-1, -2)).astype(dtype)
    bounded(problem, config, gpu_backend, (near + near.swapaxes(-1, -2)) / 2)


def test_infinite_pivots_are_positive(gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    problem = P("float64", 4, 2)
    A = xp.asarray(np.stack([np.eye(4) * 4] * 2))
    A[1, 1, 1] = np.inf
    out = empty_result(problem, xp)
    info = launch(problem, Lanes(1), gpu_backend, stack_of(problem, "a", xp, A), None, out)
    assert not bool(info.any()) and bool((out.view[0] == 2 * xp.eye(4)).all()) and float(out.view[1, 3, 3]) == 2


@pytest.mark.parametrize("uplo", ["lower", "upper"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reference(dtype: str, uplo: str) -> None:
    problem = S(dtype, 6, 2, 5, uplo=uplo)
    A, B = definite(problem, np, 1), numbers(problem, 6, 2, np, 2, False)
    F, info = spec.reference(A, uplo=uplo)
    X, _ = spec.reference(A, B, uplo)
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-12
    L = np.linalg.cholesky(A)
    assert not info.any() and abs(F - (L if uplo == "lower" else L.conj().swapaxes(-1, -2))).max() < tolerance
    assert abs(A @ X - B).max() < tolerance * 10
    A[2, 3, 3] = -1
    assert list(spec.reference(A, uplo=uplo)[1]) == [0, 0, 4, 0, 0]
    assert np.isnan(spec.reference(A, B, uplo)[0][2]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rhs", [0, 1, 3, 16])
def test_there_is_a_default_for_every_order(dtype: str, rhs: int) -> None:
    """On both GPUs; right-hand sides take some of the room."""
    most = spec.WIDEST[P(dtype, 1, 1).itemsize]
    seen = set()
    for N in range(1, most + 1):
        problem = S(dtype, N, rhs, 100_000) if rhs else P(dtype, N, 100_000)
        config = defaults.default(problem, H200)
        assert config is not None and space.illegal(problem, config, H200) is None, N
        seen.add(config.VARIANT)
        if N <= 128:
            assert defaults.default(problem, A100) is not None or dtype == "complex128", N
    assert seen == {"lanes", "tile", "block"}


def test_defaults_follow_the_lines() -> None:
    """Without images where orders are no multiples of eight, with those of a triangle where they are; half a warp as
    long as it has the registers, two warps where one has not."""
    for N in range(26, 65):
        config = defaults.default(P("float64", N, 100_000), H200)
        assert isinstance(config, Tile) and (N % 8 == 0, N % 8 != 0) == (config.TRIANGLE, config.DIRECT), N
        assert (2 if N <= 36 else 4) == config.LANES_N, N
    for N, lanes in ((24, (8, 2)), (32, (8, 4)), (48, (8, 4)), (49, (8, 8)), (64, (8, 8))):
        config = defaults.default(P("complex128", N, 100_000), H200)
        assert isinstance(config, Tile) and config.TRIANGLE and lanes == (config.LANES_M, config.LANES_N), N
    for N, warps in ((65, 4), (80, 4), (96, 3), (97, 8), (128, 8), (160, 12), (208, 12)):
        config = defaults.default(P("float64", N, 100_000), H200)
        assert isinstance(config, Block) and warps == config.WARPS, N


@needs_nvrtc
@pytest.mark.parametrize("problem", spared([
    *(P("float64", N, 1 << 20) for N in (2, 3, 4, 8, 9, 12, 16, 17, 24, 28, 31, 32, 33, 48, 49, 61, 64, 65, 128)),
    P("float64", 16, 1 << 20, uplo="upper"), P("float64", 64, 1 << 20, uplo="upper"),
    P("float32", 12, 1 << 20), P("float32", 32, 1 << 20), P("float32", 80, 1 << 20),
    P("complex64", 16, 1 << 20), P("complex64", 64, 1 << 20),
    P("complex128", 8, 1 << 20), P("complex128", 24, 1 << 20), P("complex128", 32, 1 << 20),
    P("complex128", 48, 1 << 20), P("complex128", 64, 1 << 20),
    S("float64", 8, 1, 1 << 20), S("float64", 16, 1, 1 << 20), S("float64", 32, 1, 1 << 20),
    S("float64", 8, 8, 1 << 20), S("complex64", 100, 2, 1 << 20),
], 6), ids=lambda problem: f"{problem.dtype}-{problem.want}-{problem.uplo}-{problem.N}-{problem.NRHS}")  # fmt: skip
def test_default_does_not_spill(problem: Problem) -> None:
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    resources, estimate = nvrtc.resources(entry.log), work.registers(problem, config)
    assert "warning" not in entry.log, entry.log
    # which costs less than a kernel without, or than a block less
    spills = {"lanes": 64 if problem.N >= 16 else 0, "block": 96 if problem.dtype == "float64" else 0}
    spills = spills.get(config.VARIANT, 0)
    assert resources.spill_bytes <= spills and resources.stack_bytes <= spills
    assert 0.6 * resources.registers - 16 <= estimate <= 1.8 * resources.registers + 24


@needs_nvrtc
@pytest.mark.parametrize("config", [Lanes(8), Tile(8, 4), Block(4)], ids=str)
def test_compiles_for_sm_80(config: Config) -> None:
    problem = P("float64", 16, 1000)
    assert space.illegal(problem, config, A100) is None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), A100.arch)
    assert "warning" not in entry.log and nvrtc.resources(entry.log).spill_bytes == 0


def test_refusals() -> None:
    assert spec.too_large(P("float64", 208, 5)) is None
    assert "order 209" in str(spec.too_large(P("float64", 209, 5)))
    assert "17 right-hand sides" in str(spec.refusal(S("float64", 8, 17, 5)))
    assert "nothing to solve" in str(spec.refusal(S("float64", 8, 0, 5)))
    assert "float16" in str(spec.refusal(P("float16", 8, 5)))
    assert "inverse" in str(spec.refusal(P("float64", 8, 5).replace(want="inverse")))


@pytest.mark.parametrize(
    ("problem", "config", "reason"),
    [
        (P("float64", 8, 5), Lanes(3), "does not divide"),
        (P("float64", 33, 5), Lanes(8), "at most 32"),
        (P("float64", 8, 5), Lanes(8, WARPS=0), "0 warps"),
        (P("float64", 8, 5), Tile(4, 8), "wider than tall"),
        (P("float64", 16, 5, stack_a="pointers"), Lanes(8, True), "packed stack"),
        (P("float64", 5, 5), Lanes(4, True), "pieces of 16 bytes"),
        (P("float64", 64, 5), Tile(8, 4, BLOCKS_PER_SM=16), "registers"),
        (P("float64", 176, 5), Block(4, BLOCKS_PER_SM=2), "shared memory"),
        (P("float64", 64, 5), Tile(8, 4, BLOCKS_PER_SM=7), "shared memory"),
        (P("float64", 64, 5), Tile(8, 8, True), "does not divide"),
        (P("float64", 64, 5), Tile(8, 8, WARPS=2), "does not divide"),
        (P("float64", 34, 5), Tile(8, 4, True, DIRECT=True), "without TRIANGLE"),
        (S("float64", 34, 1, 5), DIRECT, "only for factors"),
        (P("complex128", 16, 5, aligned=False), DIRECT, "boundaries"),
        (P("float64", 300, 5), Block(4), "order 300"),
    ],
)
def test_illegal_configurations_say_why(problem: Problem, config: Config, reason: str) -> None:
    assert reason in str(space.illegal(problem, config, H200))


@pytest.mark.parametrize("problem", [P("float64", 2, 50), P("complex64", 20, 50), S("float32", 33, 2, 50)], ids=str)
def test_candidates_are_legal_and_stored_faithfully(problem: Problem) -> None:
    found = list(space.candidates(problem, H200))
    assert len(found) > 5 and len(set(found)) == len(found)
    for config in found:
        assert space.illegal(problem, config, H200) is None
        assert space.from_dict(space.to_dict(config)) == config


def test_bytes_and_flops() -> None:
    least = work.work(P("float64", 10, 3))
    assert least.bytes == 3 * (16 * 100 + 4) and least.flops == 3 * 385
    least = work.work(S("complex64", 10, 2, 3, stack_b="pointers"))
    assert least.bytes == 3 * (8 * 100 + 2 * 8 * 20 + 4 + 16) and least.flops == 4 * 3 * (385 + 400)
