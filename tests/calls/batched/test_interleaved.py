"""Interleaved batches: there and back, products of every form, bad input by name."""

from __future__ import annotations

import doctest
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import H200
from ragged_cases import host
from sparing import sliced

import mansard as ms
from mansard import testing
from mansard.compile import nvrtc
from mansard.kernels.batched.gemm import interleaved, space, spec
from mansard.kernels.batched.gemm.space_lanes import Lanes
from mansard.plan.problem import DTYPES

APPLY = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.swapaxes(-1, -2).conj()}


def integers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape).astype(dtype)
    return (values + 1j * rng.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else values


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).asarray(array)


def test_examples() -> None:
    from mansard.operations.batched import interleaved as module

    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("leading", [(1,), (8,), (21,), (3, 5), (), (0,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(dtype: str, leading: tuple[int, ...]) -> None:
    a = integers((*leading, 3, 2), dtype, 1)
    x = ms.interleave(a)
    assert x.shape == a.shape and x.dtype == a.dtype and x.device == "cpu" and x.lanes == 64 // a.itemsize
    back = ms.deinterleave(x)
    assert back.shape == a.shape and back.dtype == a.dtype and (back == a).all()
    lanes = ms.interleave(a, lanes=4)
    assert lanes.lanes == 4 and (ms.deinterleave(lanes) == a).all() and lanes.buffer.shape[1:] == (3, 2, 4)


def test_entries_lie_side_by_side() -> None:
    a = integers((11, 2, 3), "float64", 2)
    x = ms.interleave(a)
    assert (x.buffer[0, 1, 2] == a[:8, 1, 2]).all() and (x.buffer[1, 1, 2, :3] == a[8:, 1, 2]).all()
    assert (x.buffer[1, :, :, 3:] == 0).all()  # places of matrices that do not exist
    assert (x[9] == a[9]).all() and (x[-1] == a[-1]).all() and len(x) == 11
    x[9][0, 0] = 77
    assert ms.deinterleave(x)[9, 0, 0] == 77
    pairs = ms.interleave(a[:10].reshape(5, 2, 2, 3))
    assert (pairs[3, 1] == a[7]).all() and repr(pairs) == "Interleaved((5, 2, 2, 3), float64, 8 lanes, cpu)"
    for index in (11, (0, 0)):
        with pytest.raises(IndexError):
            x[index]


def test_strided_stacks() -> None:
    a = integers((9, 4, 6), "float32", 3)
    assert (ms.deinterleave(ms.interleave(a[:, ::-1, ::2].swapaxes(1, 2))) == a[:, ::-1, ::2].swapaxes(1, 2)).all()


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    a, b = integers((9, 3, 4), "complex64", 4), integers((9, 4, 2), "complex64", 5)
    result = ms.matmul(ms.interleave(torch.from_numpy(a)), ms.interleave(torch.from_numpy(b)))
    back = ms.deinterleave(result)
    assert isinstance(back, torch.Tensor) and (back.numpy() == a @ b).all()


SIZES = [(1, 1, 1, 5), (3, 3, 3, 70), (5, 4, 2, 33), (9, 2, 11, 20), (17, 16, 3, 9)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_exact(dtype: str, sizes: tuple[int, ...], backend: str) -> None:
    m, n, k, batch = sizes
    A, B = integers((batch, m, k), dtype, 6), integers((batch, k, n), dtype, 7)
    x, y = (ms.interleave(moved(one, backend)) for one in (A, B))
    result = ms.matmul(x, y, backend=backend)
    assert isinstance(result, ms.Interleaved) and result.dtype == dtype
    assert (host(ms.deinterleave(result)) == A @ B).all()


@pytest.mark.parametrize("options", ["NC", "TN", "CT"])
@pytest.mark.parametrize("shared", ["", "a", "b"])
def test_forms(options: str, shared: str, backend: str) -> None:
    m, n, k, batch = 5, 3, 7, 19
    A = integers((batch, m, k) if options[0] == "N" else (batch, k, m), "complex128", 8)
    B = integers((batch, k, n) if options[1] == "N" else (batch, n, k), "complex128", 9)
    C = integers((batch, m, n), "complex128", 10)
    A, B = (A[0] if shared == "a" else A), (B[0] if shared == "b" else B)
    a, b = (moved(one, backend) for one in (A, B))
    x, y = (a if shared == "a" else ms.interleave(a, 4)), (b if shared == "b" else ms.interleave(b, 4))
    out = ms.interleave(moved(C, backend), 4)
    how = dict(trans_a=options[0], trans_b=options[1], backend=backend)
    product = APPLY[options[0]](A) @ APPLY[options[1]](B)
    assert ms.blas.gemm(x, y, alpha=2 - 1j, beta=3j, out=out, **how) is out
    assert (host(ms.deinterleave(out)) == (2 - 1j) * product + 3j * C).all()
    out.buffer[...] = np.nan  # with beta = 0 it is not read
    assert (host(ms.deinterleave(ms.blas.gemm(x, y, out=out, **how))) == product).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_keep_to_the_bound(dtype: str, backend: str) -> None:
    A, B = (testing.random_matrix(np, 40 * 6, 6, dtype, seed).reshape(40, 6, 6) for seed in (0, 1))
    x, y = (ms.interleave(moved(one, backend)) for one in (A, B))
    wide = "complex128" if dtype.startswith("complex") else "float64"
    bound = 2 * testing.gamma(dtype, 6) * (abs(A).astype("float64") @ abs(B).astype("float64"))
    assert (
        abs(host(ms.deinterleave(ms.matmul(x, y, backend=backend))) - A.astype(wide) @ B.astype(wide)) <= bound
    ).all()


def test_nothing_but_the_result_is_written(backend: str) -> None:
    """A group's unused lanes may hold anything afterwards; what lies around the buffer stays."""
    xp = testing.array_module(backend)
    A = integers((10, 3, 3), "float64", 11)
    x = ms.interleave(moved(A, backend))
    size = x.buffer.size
    around = xp.full(size + 32, 99.0)
    out = ms.Interleaved(around[16 : 16 + size].reshape(x.buffer.shape), (10,))
    assert (host(ms.deinterleave(ms.matmul(x, x, out=out, backend=backend))) == A @ A).all()
    assert (host(around)[:16] == 99).all() and (host(around)[16 + size :] == 99).all()


@pytest.mark.parametrize("shapes", [((0, 3, 2), (0, 2, 4)), ((5, 3, 0), (5, 0, 4)), ((5, 0, 3), (5, 3, 4))], ids=str)
def test_nothing_to_multiply(shapes: Any) -> None:
    A, B = (np.ones(shape) for shape in shapes)
    result = ms.deinterleave(ms.matmul(ms.interleave(A), ms.interleave(B)))
    assert result.shape == (A @ B).shape and not result.any()


def test_the_array_library_answers_too() -> None:
    A, B = integers((9, 3, 4), "complex64", 12), integers((9, 3, 5), "complex64", 13)
    x, y = ms.interleave(A), ms.interleave(B)
    out = ms.interleave(np.ones((9, 4, 5), "complex64"))
    ms.blas.gemm(x, y, trans_a="C", alpha=2, beta=1j, out=out, backend="reference")
    assert (ms.deinterleave(out) == 2 * (A.conj().swapaxes(1, 2) @ B) + 1j).all()


def test_bad_input() -> None:
    a, b = ms.interleave(np.ones((9, 3, 4))), ms.interleave(np.ones((9, 4, 2)))
    for call, error, message in (
        (lambda: ms.interleave(np.ones(3)), ValueError, "a has shape"),
        (lambda: ms.interleave(np.ones((2, 2), int)), TypeError, "dtype int64"),
        (lambda: ms.interleave(np.ones((2, 2)), lanes=3), ValueError, "lanes=3"),
        (lambda: ms.interleave(np.ones((2, 2)), lanes=1), ValueError, "lanes=1"),
        (lambda: ms.deinterleave(np.ones((2, 2))), TypeError, "x is a ndarray"),
        (lambda: ms.matmul(a, a), ValueError, "A has 4 columns and B 3 rows"),
        (lambda: ms.matmul(a, ms.interleave(np.ones((8, 4, 2)))), ValueError, "leading dimensions"),
        (lambda: ms.matmul(a, ms.interleave(np.ones((9, 4, 2)), 4)), ValueError, "lanes"),
        (lambda: ms.matmul(a, ms.interleave(np.ones((9, 4, 2), "float32"))), TypeError, "dtype"),
        (lambda: ms.matmul(a, np.ones((9, 4, 2))), TypeError, "pass one or a matrix"),
        (lambda: ms.matmul(a, b, out=np.ones((9, 3, 2))), TypeError, "need an Interleaved"),
        (lambda: ms.matmul(a, b, out=ms.interleave(np.ones((9, 3, 3)))), ValueError, "out has shape"),
        (lambda: ms.matmul(a, np.eye(4), out=a), ValueError, "out overlaps A"),
        (lambda: ms.matmul(a, b, beta=1.0), ValueError, "pass out"),
        (lambda: ms.matmul(a, b, alpha=1j), TypeError, "real"),
        (lambda: len(ms.interleave(np.ones((2, 2)))), TypeError, "no length"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_other_kernels_refuse_interleaved_stacks() -> None:
    problem = spec.problem("float64", 3, 3, 3, 64, stack_a="interleaved", stack_b="interleaved", stack_c="interleaved")
    assert "interleaved" in str(space.illegal(problem, Lanes(), H200))


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize(
    "dtype, sizes", sliced(list(product(DTYPES, [(2, 2, 2), (5, 1, 9), (8, 8, 8), (17, 23, 5)])), 5)
)
def test_compiles_without_spills(dtype: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    stacks = {f"stack_{side}": "interleaved" for side in "abc"}
    problem = spec.problem(dtype, m, n, k, 1 << 20, **stacks, pitch_c=32 * n, accumulate=m == 5, conj_a=n == 8)
    kernel = interleaved.kernel(problem, H200, (m * k * 32, k * 32, 32, k * n * 32, n * 32, 32, m * n * 32, n * 32, 32))
    entry = nvrtc.compile_cuda(kernel.source, "sm_90a")
    found = nvrtc.resources(entry.log)
    assert "warning" not in entry.log and found.spill_bytes == found.stack_bytes == 0, (problem, found)
