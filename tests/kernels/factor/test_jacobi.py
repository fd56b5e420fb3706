"""The jacobi kernels: all kinds of matrices within bounds, on GPUs, their emulation and CPUs; reports of failure; tails
of batches; results that do not depend on other matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from exact_values import exact_singular_values
from jacobi_cases import KINDS, Result, bounded, exact, hostile, launch, matrix, ratios, stack
from linalg_cases import normal
from sparing import sliced

from mansard.backends.cpu import CpuBackend
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.factor.jacobi import defaults, emit, space, spec, work
from mansard.kernels.factor.jacobi.space import Block, Threads
from mansard.kernels.factor.jacobi.space_cpu import Ragged, Simd
from mansard.plan.problem import DTYPES, Problem

P = spec.problem
CPU = Device("cpu", "two cores", "x86_64", multiprocessors=2, vector_bytes=32)
ON_CPUS: list[Problem] = [
    P("float64", 3, 37), P("float32", 8, 33, want="svd"), P("complex128", 5, 19, uplo="upper"),
    P("float64", 7, 19, want="svd", layout_a="col"), P("complex64", 4, 35, want="svd"), P("float64", 1, 9, want="svd"),
    P("float32", 16, 18), P("complex128", 12, 9, want="svdvals"), P("float64", 2, 70, want="eigvalsh"),
    P("complex64", 9, 18, pitch_a=11, stack_a="strided"), P("float64", 16, 9, want="svd"),
    P("complex128", 3, 19, layout_a="any", want="svd", stack_a="strided"), P("float64", 6, 9, stack_a="pointers"),
    P("complex64", 6, 18, layout_a="col", uplo="lower"), P("complex64", 17, 9, method="any"),
]  # fmt: skip
# By way of a condensed form: few rows, whole and partial tiles of rows, tails of a batch
CONDENSED: list[Problem] = [
    P("float64", 17, 37, method="any"), P("float32", 13, 37, want="svd", method="any"),
    P("float64", 22, 37, want="svd", layout_a="col", method="any"),
    P("float32", 33, 18, uplo="upper", method="any"), P("float64", 32, 19, want="eigvalsh", method="any"),
    P("float64", 15, 37, want="svdvals", pitch_a=17, stack_a="strided", method="any"),
    P("complex128", 13, 37, uplo="upper", method="any"), P("complex64", 14, 37, want="svd", method="any"),
    P("complex64", 18, 37, layout_a="col", method="any"), P("complex128", 12, 37, want="svdvals", method="any"),
]  # fmt: skip


@pytest.mark.parametrize("problem", sliced(ON_CPUS, 2), ids=str)
def test_all_kinds_on_cpus(problem: Problem) -> None:
    exact(problem, None, "cpu")
    bounded(problem, None, "cpu")


@pytest.mark.parametrize("problem", sliced(CONDENSED, 3), ids=str)
def test_condensed_forms(problem: Problem) -> None:
    """All kinds of matrices in one batch; the same numbers among others."""
    config = defaults.default(problem, CpuBackend().device)
    assert isinstance(config, Simd) and config.METHOD == "condensed"
    bounded(problem, config, "cpu")
    A = stack(problem)
    whole, turned = launch(problem, config, "cpu", A), launch(problem, config, "cpu", np.ascontiguousarray(A[::-1]))
    for name in ("W", "Z", "VH", "info"):
        one, other = getattr(whole, name), getattr(turned, name)
        assert one is None or np.array_equal(one, other[::-1], True), name


def test_too_few_steps_on_condensed_forms_are_reported() -> None:
    """Blocks of two rows need a step or two each, the last one first, wherever it begins."""
    blocks = np.diag([2.0, 5, 1, 2, 7]) + np.diag([1.0, 0, 3, 0], 1) + np.diag([1.0, 0, 3, 0], -1)
    dense = matrix(np.random.default_rng(3), "random", 5, "float64", True)
    A = np.array([np.eye(5), dense, np.zeros((5, 5)), blocks])
    found = launch(P("float64", 5, 4, want="eigvalsh", method="any"), Simd(2, SWEEPS=1, METHOD="condensed"), "cpu", A)
    assert found.info.tolist() == [0, 5, 0, 0]
    assert np.allclose(found.W[3], np.linalg.eigvalsh(blocks), atol=1e-14)


def test_values_that_take_many_steps_do_not_drift() -> None:
    """Rounding errors of rotations have either sign: clustered values, and bidiagonal matrices without a shift."""
    rng = np.random.default_rng(5)
    nilpotent = 1e-9 * np.eye(32) + np.eye(32, k=1)
    A = np.stack([nilpotent, *(matrix(rng, "clustered", 32, "float64", False) for _ in range(15))])
    problem = P("float64", 32, 16, want="svd", method="any")
    found = launch(problem, defaults.default(problem, CpuBackend().device), "cpu", A)
    exact_values = exact_singular_values(A)
    off = (found.W - exact_values) / exact_values[:, :1] / np.finfo("float64").eps
    assert np.abs(off).max() <= 16 and abs(off[1:].mean()) <= 2, (np.abs(off).max(), off.mean())
    assert max(ratios(problem, A, found).values()) <= 1


@pytest.mark.parametrize("want", ["eigh", "svd"])
def test_the_smallest_condensed_forms(want: str) -> None:
    for dtype, n in (("float64", 2), ("complex128", 3)):
        exact(P(dtype, n, 19, want=want, method="any"), Simd(2, METHOD="condensed"), "cpu")


@pytest.mark.parametrize("want", ["eigh", "svd"])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_every_kind_alone(backend: str, want: str, gpu_backend: str) -> None:
    """One kind at a time: what stays within bounds in a mixed batch does so for a reason of its own."""
    backend, hermitian = (gpu_backend if backend == "gpu" else backend), want == "eigh"
    for kind in KINDS[:-2]:
        rng = np.random.default_rng(7)
        A = np.array([matrix(rng, kind, 4, "float64", hermitian) for _ in range(9)])
        problem = P("float64", 4, 9, want=want)
        got = launch(problem, None, backend, A)
        worst = ratios(problem, A, got)
        assert (got.info == 0).all() and max(worst.values()) <= 1, (kind, worst)


@pytest.mark.parametrize("batch", [0, 1, 31, 32, 33, 129])
def test_every_size_of_a_batch(batch: int, gpu_backend: str) -> None:
    problem, config = P("float64", 3, batch, want="svd"), Threads(64)
    exact(problem, config, gpu_backend) if batch else launch(problem, config, gpu_backend, np.zeros((0, 3, 3)))


@pytest.mark.parametrize("want", ["eigh", "svd"])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_results_do_not_depend_on_neighbours(backend: str, want: str, gpu_backend: str) -> None:
    """The same numbers in another place of another batch, and among matrices that converge earlier or later."""
    backend = gpu_backend if backend == "gpu" else backend
    A = stack(P("float64", 4, 37, want=want))
    A[18] = np.eye(4)
    A[18, 0, 1] = A[18, 1, 0] = 1e-16  # diagonal to rounding: any rotation would be by 45 degrees
    whole = launch(P("float64", 4, 37, want=want), None, backend, A)
    turned = launch(P("float64", 4, 37, want=want), None, backend, np.ascontiguousarray(A[::-1]))
    alone = launch(P("float64", 4, 1, want=want), None, backend, A[18:19])
    for name in ("W", "Z", "VH", "info"):
        one, other, part = (getattr(each, name) for each in (whole, turned, alone))
        if one is not None:
            assert np.array_equal(one, other[::-1], True) and np.array_equal(one[18:19], part, True), name


@pytest.mark.parametrize("want", ["eigh", "svd"])
def test_too_few_sweeps_are_reported(want: str, gpu_backend: str) -> None:
    rng = np.random.default_rng(3)
    A = np.array([matrix(rng, kind, 4, "float64", want == "eigh") for kind in ("random", "identity", "zero", "random")])
    problem = P("float64", 4, 4, want=want)
    configs = [(gpu_backend, Threads(32, SWEEPS=1)), ("cpu", Simd(2, SWEEPS=1))]
    configs += [(gpu_backend, Block(SWEEPS=1))] if want == "svd" else []
    for backend, config in configs:
        assert launch(problem, config, backend, A).info.tolist() == [4, 0, 0, 4]


@pytest.mark.parametrize("n", [9, 12])
def test_every_kind_alone_by_a_block(n: int, gpu_backend: str) -> None:
    for dtype, config in (("float64", Block(4)), ("complex64", Block(8))):
        rng = np.random.default_rng(n)
        A = np.array([matrix(rng, kind, n, dtype, False) for kind in KINDS[:-2]]).astype(dtype)
        for kind, one in zip(KINDS, A, strict=False):
            problem = P(dtype, n, 1, want="svd")
            got = launch(problem, config, gpu_backend, one[None])
            worst = ratios(problem, one[None], got)
            assert not got.info[0] and max(worst.values()) <= 1, (kind, worst)


@pytest.mark.parametrize("dtype, lanes", [("float64", 4), ("complex64", 8)])
def test_hostile_matrices_by_a_block(dtype: str, lanes: int, gpu_backend: str) -> None:
    made = hostile(np.random.default_rng(2), 9, dtype)
    A = np.array(list(made.values())).astype(dtype)
    problem = P(dtype, 9, len(A), want="svd")
    got = launch(problem, Block(lanes), gpu_backend, A)
    assert not got.info.any()
    for i, kind in enumerate(made):
        one = Result(*(part[i : i + 1] for part in (got.W, got.Z, got.VH, got.info)))
        worst = ratios(problem.replace(BATCH=1), A[i : i + 1], one)
        assert max(worst.values()) <= 1, (kind, worst)


def test_bad_entries_are_found_wherever_they_are_by_a_block(gpu_backend: str) -> None:
    """One entry that is not finite in every matrix but the first; the first has the bits that it has alone."""
    n, rng = 9, np.random.default_rng(4)
    A = np.repeat(normal(rng, (1, n, n), "float64"), n * n + 1, axis=0)
    for k, bad in zip(range(n * n), 27 * (np.nan, np.inf, -np.inf), strict=True):
        A[k + 1].flat[k] = bad
    got = launch(P("float64", n, len(A), want="svd"), Block(4), gpu_backend, A)
    alone = launch(P("float64", n, 1, want="svd"), Block(4), gpu_backend, A[:1])
    assert (got.info == [0, *(n * n) * [n + 1]]).all()
    for part, one in ((got.W, alone.W), (got.Z, alone.Z), (got.VH, alone.VH)):
        assert np.array_equal(part[:1], one) and np.isnan(part[1:]).all()


def test_columns_of_very_different_size_by_a_block(gpu_backend: str) -> None:
    """A = Q D: small values have small relative errors, and null columns leave the others alone."""
    rng, n = np.random.default_rng(11), 13
    D = np.ldexp(np.ones((3, n)), -9 * np.arange(n))
    D[1, 4] = D[2, 7:] = 0
    A = np.linalg.qr(rng.standard_normal((3, n, n)))[0] * D[:, None, :]
    values = -np.sort(-D)
    for want in ("svd", "svdvals"):
        problem = P("float64", n, 3, want=want)
        got = launch(problem, Block(4), gpu_backend, A)
        assert (np.abs(got.W - values) <= 1e-15 * n * values).all()
        assert max(ratios(problem, A, got).values()) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_numbers_are_scaled(dtype: str, gpu_backend: str) -> None:
    """Matrices of the smallest numbers: their values have as many bits as they have."""
    least = float(np.finfo(dtype).smallest_subnormal)
    for want in ("eigh", "svd"):
        A = np.array([[[3.0, 0], [0, 4]], [[2, 2], [2, 2]]]).astype(dtype) * np.asarray(least * 256, dtype)
        expected = np.array([[3, 4], [0, 4]])[:, :: 1 if want == "eigh" else -1]
        for config in (Threads(32), Block(4))[: 1 if want == "eigh" else 2]:
            W = launch(P(dtype, 2, 2, want=want), config, gpu_backend, A).W.astype(float) / least / 256
            assert abs(W - expected).max() <= 1 / 256


# --- choices -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [H200, A100, CPU], ids=lambda device: device.name)
@pytest.mark.parametrize("want", spec.WANTS)
def test_every_size_has_a_legal_choice(want: str, device: Device) -> None:
    for dtype in DTYPES:
        largest = spec.largest_on_cpu(P(dtype, 1, 1, want=want)) if device is CPU else spec.LARGEST_OF_THREAD
        for n in (*range(1, min(largest, 16) + 1), largest):
            problem = P(dtype, n, 1000, want=want)
            config = defaults.default(problem, device)
            assert config is not None and space.illegal(problem, config, device) is None, (problem, config)
            assert device is A100 or config in list(space.candidates(problem, device)), (problem, config)
        by_block = device is not CPU and want.startswith("svd")
        assert (defaults.default(P(dtype, largest + 1, 1000, want=want), device) is not None) == by_block


@pytest.mark.parametrize("want", ["svd", "svdvals"])
def test_blocks_take_as_many_rows_as_fit(want: str) -> None:
    for device in (H200, A100):
        for dtype in DTYPES:
            rows = [n for n in range(2, 260) if defaults.default(P(dtype, n, 100, want=want), device, "block")]
            assert rows[0] == spec.LARGEST_OF_THREAD + 1 and rows == list(range(rows[0], rows[-1] + 1))
            for n in (rows[0], 32, rows[-1]):
                problem = P(dtype, n, 100, want=want)
                config = defaults.default(problem, device)
                assert isinstance(config, Block) and config in list(space.candidates(problem, device))
    assert rows[-1] >= 64
    assert max(n for n in range(9, 200) if defaults.default(P("float64", n, 100, want="svd"), H200)) == 118


def test_what_is_not_possible_is_said() -> None:
    said = {
        "beyond 8": (P("float64", 9, 9), Threads()), "multiple of a warp": (P("float64", 3, 9), Threads(48)),
        "accumulates no": (P("float64", 3, 9, want="svdvals"), Threads(32, "shared")),
        "want='schur'": (P("float64", 3, 9, want="schur"), Threads()), "float16": (P("float16", 3, 9), Threads()),
        "stack_a='shared'": (P("float64", 3, 9, stack_a="shared"), Threads()),
        "uplo='both'": (P("float64", 3, 9, uplo="both"), Threads()),
        "not eigh": (P("float64", 9, 9), Block()), "LANES=6": (P("float64", 9, 9, want="svd"), Block(6)),
        "a pair of columns": (P("float64", 1, 9, want="svd"), Block()),
        "bytes of": (P("float64", 119, 9, want="svd"), Block(8, "shared")),
        "svdvals accumulates": (P("float64", 9, 9, want="svdvals"), Block(8, "shared")),
    }  # fmt: skip
    for words, (problem, config) in said.items():
        assert words in str(space.illegal(problem, config, H200))
    ragged = P("complex64", 3, 9, method="any", stack_a="ragged")
    assert "takes ragged batches" in str(space.illegal(ragged, Simd(2), CPU))
    assert "takes ragged batches" in str(space.illegal(P("float64", 3, 9, method="any"), Ragged(2), CPU))
    assert "was asked for" in str(space.illegal(P("float64", 3, 9, stack_a="ragged"), Ragged(2), CPU))
    assert "kernels of CPUs alone" in str(space.illegal(ragged, Threads(), H200))
    assert [type(one) for one in space.candidates(ragged, CPU)] == 2 * [Ragged]
    assert "was asked for" in str(space.illegal(P("float64", 3, 9), Simd(2, METHOD="condensed"), CPU))
    assert "beyond 128" in str(space.illegal(P("float64", 129, 9, method="any"), Simd(), CPU))
    assert "LANES=3" in str(space.illegal(P("float64", 3, 9), Simd(3), CPU))
    assert "beyond 16" in str(space.illegal(P("float64", 17, 9, want="svd"), Simd(), CPU))


def test_svd_reads_both_triangles_with_one_kernel() -> None:
    assert P("float64", 3, 9, want="svd", uplo="upper") == P("float64", 3, 9, want="svd")


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize(
    "problem",
    sliced([P(*size, 9, want="svd") for size in (
        ("float64", 16), ("float64", 33), ("float64", 64), ("float64", 118), ("float32", 128), ("complex128", 64),
        ("complex64", 80),
    )], 2), ids=str,
)  # fmt: skip
def test_blocks_compile_without_spills(problem: Problem) -> None:
    config: Any = defaults.default(problem, H200)
    resources = nvrtc.resources(nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch).log)
    assert resources.spill_bytes == 0 and resources.stack_bytes == 0
    assert 0.8 * resources.registers <= work.registers(problem, config) <= 1.3 * resources.registers


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize(
    "problem", sliced([P("float64", 4, 9), P("float64", 3, 9, want="svd"), P("complex64", 3, 9, want="eigvalsh")], 3),
    ids=str,
)  # fmt: skip
def test_choices_compile_without_spills(problem: Problem) -> None:
    config: Any = defaults.default(problem, H200)
    resources = nvrtc.resources(nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch).log)
    assert resources.spill_bytes == 0 and resources.stack_bytes == 0
    more = replace(config, BLOCKS_PER_SM=config.BLOCKS_PER_SM + 1)
    assert work.registers(problem, config) >= 0.6 * resources.registers and space.illegal(problem, more, H200)
