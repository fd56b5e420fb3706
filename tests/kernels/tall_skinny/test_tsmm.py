"""The tsmm kernels and `ms.matmul`: exact on integers, within bounds on random numbers, for all variants, layouts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import usable
from sparing import on_backends, turns
from tsmm_cases import CASES, bounded, case_id, exact, launch

import mansard as ms
from mansard import testing
from mansard.backends import cpu
from mansard.kernels.tall_skinny.tsmm import space_cpu, spec
from mansard.kernels.tall_skinny.tsmm.space import Config, Ring
from mansard.kernels.tall_skinny.tsmm.space_cpu import Simd
from mansard.plan.problem import DTYPES, Problem

WIDTHS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64)


WARPGROUPS = [case for case in CASES if case[1].VARIANT == "ring" and case[1].UNIT == "wgmma" and not case[0].in_place]
THIRDS = [case for case in CASES if getattr(case[1], "PRODUCTS", 4) == 3 and not case[0].in_place]


@pytest.mark.parametrize("case", THIRDS, ids=case_id)
def test_three_products_are_four_where_numbers_are_not_finite(case: tuple[Problem, Config], gpu_backend: str) -> None:
    """Infinities, NaNs and sums of parts that overflow; also: three products stay within the bound of four."""
    problem, config = case
    bounded(problem, config, gpu_backend)
    A, C = testing.tsmm_operands(problem, gpu_backend, integers=True)
    large = np.finfo(A.dtype).max * 0.75
    A[3, 1], A[11, 0], A[20, 5], C[5, :3] = np.inf, complex(1, np.nan), complex(large, large), 0
    found = []
    for products in (3, 4):
        W = testing.laid_out(C[:1].repeat(problem.K, 0), problem.layout_w, problem.pitch_w, problem.aligned)
        launch(problem, replace(config, PRODUCTS=products), gpu_backend, A, C, W, 1.0, 0.0)
        found.append(np.asarray(_host(W)))
    assert np.array_equal(*(np.isfinite(W) for W in found)) and np.array_equal(*(np.isinf(W.real) for W in found))
    finite = np.isfinite(found[0]).all(axis=1)
    assert np.array_equal(found[0][finite], found[1][finite])
    assert finite.sum() == problem.K - 3


@pytest.mark.parametrize("case", WARPGROUPS, ids=case_id)
def test_warpgroups_meet_numbers_that_are_not_finite(case: tuple[Problem, Config], gpu_backend: str) -> None:
    """They come out as those of double precision do, and stay in their rows."""
    problem, config = case
    A, C = testing.tsmm_operands(problem, gpu_backend, integers=True)
    A[3, 1], A[11, 0], A[20, 5], C[5, :3] = np.inf, np.nan, -np.inf, 0
    found = _with_and_without_warpgroups(problem, config, gpu_backend, A, C)
    assert np.array_equal(*found, equal_nan=True)
    assert np.isfinite(found[0]).all(axis=1).sum() == problem.K - 3


@pytest.mark.parametrize("case", WARPGROUPS, ids=case_id)
def test_warpgroups_meet_infinities_in_the_small_matrix(case: tuple[Problem, Config], gpu_backend: str) -> None:
    """They spoil a column, and are not taken for NaNs."""
    problem, config = case
    A, C = testing.tsmm_operands(problem, gpu_backend, integers=True)
    A[:, 2], C[2, 1] = 1, -np.inf
    found = _with_and_without_warpgroups(problem, config, gpu_backend, A, C)
    assert np.array_equal(*found, equal_nan=True)
    assert (found[0][:, 1].real == -np.inf).all() and np.isfinite(np.delete(found[0], 1, 1)).all()


def _with_and_without_warpgroups(problem: Problem, config: Config, backend: str, A: Any, C: Any) -> list[Any]:
    found = []
    for one in (config, Ring(2, 4, 1, 64, 2, config.OUT)):
        W = testing.laid_out(C[:1].repeat(problem.K, 0), problem.layout_w, problem.pitch_w, problem.aligned)
        launch(problem, one, backend, A, C, W, 1.0, 0.0)
        found.append(np.asarray(_host(W)))
    return found


def integers(backend: str, dtype: str, K: int, M: int, N: int) -> tuple[object, object]:
    xp = testing.array_module(backend)
    return tuple(
        testing.random_matrix(xp, *shape, dtype, seed, integers=True) for seed, shape in enumerate(((K, M), (M, N)))
    )  # type: ignore[return-value]


@pytest.mark.parametrize("backend, case", on_backends(list(product(WIDTHS, DTYPES)), 6), indirect=["backend"])
def test_matmul_by_width(case: tuple[int, str], backend: str) -> None:
    where, (width, dtype) = None if backend == "cuda" else backend, case
    number = WIDTHS.index(width) + DTYPES.index(dtype)
    for form in turns(backend, ("five", "square" if number % 2 else "in place"), number // 2):
        A, C = integers(backend, dtype, 16 * max(width, 5) + 13, width, 5 if form == "five" else width)
        expected = A @ C  # type: ignore[operator]
        W = ms.matmul(A, C, out=A if form == "in place" else None, backend=where)
        assert W.dtype.name == dtype and bool((expected == W).all())  # type: ignore[attr-defined]
        assert form != "in place" or W is A


@pytest.mark.parametrize("layout", ["row", "col"])
def test_conjugates_on_cpus(layout: str) -> None:
    usable("cpu")
    problem = spec.problem("complex64", 5, 3, 100, layout_a=layout, layout_w=layout, conj=True)
    exact(problem, space_cpu.default(problem, cpu.backend().device), "cpu", scaled=True)


@pytest.mark.parametrize("layout, pitch", [("row", 9), ("row", 12), ("col", 101)])
def test_results_that_pass_the_caches(layout: str, pitch: int) -> None:
    """W begins anywhere in a cache line, so that lines lie across two blocks; nothing around it is written."""
    usable("cpu")
    A, C = integers("cpu", "float64", 101, 5, 9)
    problem = spec.problem("float64", 5, 9, 101, layout_w=layout, pitch_w=pitch)
    config = Simd(layout == "col", LANES=2, TILE_K=2, TILE_N=2, ROWS=8, STREAM=True)
    for offset in range(8):
        memory = np.full(8 + 101 * 12, np.nan)
        lines = memory[offset:][: (9 if layout == "col" else 101) * pitch].reshape(-1, pitch)
        W = lines.T if layout == "col" else lines[:, :9]
        launch(problem, config, "cpu", A, C, W, 1.0, 0.0)
        assert bool((A @ C == W).all()) and np.isfinite(memory).sum() == W.size  # type: ignore[operator]


def test_a_transposed_view_finds_gram(backend: str) -> None:
    V, W = (integers(backend, "complex128", 500, 6, 6)[0] for _ in range(2))
    where = None if backend == "cuda" else backend
    with ms.pin(VARIANT="simd" if backend == "cpu" else "tiled"):
        assert bool((ms.matmul(V.T, W, backend=where) == V.T @ W).all())  # type: ignore[attr-defined]
    assert bool((ms.matmul(V.conj().T, W, backend=where) == V.conj().T @ W).all())  # type: ignore[attr-defined]


def test_alpha_beta_and_layouts(backend: str) -> None:
    xp = testing.array_module(backend)
    where = None if backend == "cuda" else backend
    A, C = integers(backend, "float64", 200, 6, 6)
    for left in (A, xp.asfortranarray(A), A[::-1], xp.repeat(A, 2, axis=1)[:, ::2]):  # type: ignore[index]
        for small in (C, C.T, C[::-1, ::-1]):  # type: ignore[attr-defined, index]
            for order in "CF":
                out = xp.asarray(xp.ones((200, 6)), order=order)
                assert ms.matmul(left, small, out=out, alpha=2.0, beta=3.0, backend=where) is out
                assert bool((out == 2 * (left @ small) + 3).all())


def test_nan_in_out_does_not_leak_and_nan_in_a_row_stays_there(backend: str) -> None:
    where = None if backend == "cuda" else backend
    A, C = integers(backend, "float64", 200, 3, 3)
    expected = A @ C  # type: ignore[operator]
    A[50, 1] = np.inf  # type: ignore[index]
    out = testing.array_module(backend).full((200, 3), np.nan)
    ms.matmul(A, C, out=out, backend=where)
    rows = np.arange(200) != 50
    assert bool((out[rows] == expected[rows]).all()) and not bool(np.isfinite(np.asarray(_host(out[50]))).all())


def _host(array: object) -> object:
    return array.get() if hasattr(array, "get") else array


def test_other_shapes_are_the_librarys() -> None:
    rng = np.random.default_rng(1)
    for a, b in (((30, 40), (40, 50)), ((300, 300), (300, 3)), ((2, 30, 4), (2, 4, 5)), ((7,), (7,)), ((7, 3), (3,))):
        A, B = rng.standard_normal(a), rng.standard_normal(b)
        assert np.allclose(ms.matmul(A, B), A @ B)
    assert (ms.matmul(np.arange(6).reshape(3, 2), np.arange(2).reshape(2, 1)) == np.array([[1], [3], [5]])).all()
    out = np.ones((30, 50))
    A, B = rng.standard_normal((30, 40)), rng.standard_normal((40, 50))
    assert ms.matmul(A, B, out=out, alpha=2.0, beta=1.0) is out and np.allclose(out, 2 * A @ B + 1)


def test_bad_input_is_named() -> None:
    A = np.ones((500, 4))
    with pytest.raises(ValueError, match="A has 4 columns and B 3 rows"):
        ms.matmul(A, np.ones((3, 3)))
    with pytest.raises(ValueError, match="out has shape"):
        ms.matmul(A, np.ones((4, 3)), out=np.ones((500, 4)))
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.matmul(A[1:], np.ones((4, 4)), out=A[:-1])
    square = np.eye(4)
    assert (ms.matmul(A[:-1], square, out=A[:-1]) == 1).all()  # exactly in place, whichever objects say so
    with pytest.raises(ValueError, match="out overlaps A"):  # and not a row beside it, planned before or not
        ms.matmul(A[1:], square, out=A[:-1])
    held = ms.plan("tsmm", A[:-1], square, out=A[:-1])
    with pytest.raises(ValueError, match="out overlaps A"):
        held(A[1:], square, A[:-1])
    with pytest.raises(ValueError, match="beta scales"):
        ms.matmul(A, np.ones((4, 4)), beta=1.0)
    with pytest.raises(TypeError, match="Mansard takes"):
        ms.matmul({1.0}, A)


@pytest.mark.parametrize("shape", [(0, 4, 4), (500, 0, 4), (500, 4, 0)])
def test_empty(shape: tuple[int, int, int], backend: str) -> None:
    K, M, N = shape
    xp = testing.array_module(backend)
    W = ms.matmul(xp.ones((K, M)), xp.ones((M, N)), backend=None if backend == "cuda" else backend)
    assert W.shape == (K, N) and not bool(W.any())
