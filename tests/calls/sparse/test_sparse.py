"""`ms.sparse.matrix`: back to other libraries without a difference, and products of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from conftest import needs_cpu
from sparse_cases import host, made, same, there, vectors

import mansard as ms
from mansard.operations.sparse import chunked, storage

# ---- storage --------------------------------------------------------------------------------------------------------

SHAPES = [(0, 0), (0, 5), (5, 0), (1, 1), (32, 32), (33, 70), (97, 300), (130, 200000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("C", [1, 4, 32])
def test_round_trips_are_exact(shape: tuple[int, int], C: int) -> None:
    for dtype, mean in (("float64", 4), ("complex64", 0), ("float32", 40)):
        A = made(*shape, min(mean, shape[1]), dtype)
        for sigma in (1, 64):
            for index in ("int32", "int64", "delta16"):
                fits = chunked.fits_delta16(A, C, sigma)
                if index == "delta16" and not fits:
                    with pytest.raises(ValueError, match="use index='int32'"):
                        chunked.sell_from_csr(A, C, sigma, index)
                    continue
                sell = chunked.sell_from_csr(A, C, sigma, index)
                assert same(chunked.csr_from_sell(sell), A)
                again = chunked.sell_with_values(sell, A.indptr, 2 * A.data)
                assert same(chunked.csr_from_sell(again), 2 * A) and same(chunked.csr_from_sell(sell), A)
        assert same(storage.csr_from_ell(storage.ell_from_csr(A)), A)


@pytest.mark.parametrize("index", ["int32", "delta16"])
def test_the_layout_of_chunks(index: str) -> None:
    """As the documentation says, byte by byte."""
    A = made(70, 90, 5)
    sell = chunked.sell_from_csr(A, 32, 1, index)
    lengths = np.diff(A.indptr)
    for chunk in range(3):
        rows = range(32 * chunk, min(32 * chunk + 32, 70))
        width = int(sell.widths[chunk])
        assert width == max(lengths[r] for r in rows) and sell.common[chunk] == min(lengths[r] for r in rows)
        start = int(sell.starts[chunk]) * 128
        bases, columns, end = chunked.parts(width, 32, "float64", index)
        assert start + end == int(sell.starts[chunk + 1]) * 128 and bases % 16 == columns % 16 == 0
        values = sell.buffer[start : start + bases].view("float64")
        kind = "int32" if index == "int32" else "uint16"
        stored = sell.buffer[start + columns : start + columns + width * 32 * np.dtype(kind).itemsize].view(kind)
        base = sell.buffer[start + bases : start + columns].view("int32")
        for place, row in enumerate(rows):
            for j in range(width):
                column = int(stored[j * 32 + place]) + (int(base[j]) if index == "delta16" else 0)
                entry = A.indptr[row] + j
                if j < lengths[row]:
                    assert values[j * 32 + place] == A.data[entry] and column == A.indices[entry]
                else:
                    assert values[j * 32 + place] == 0 and 0 <= column < 90


def test_rows_are_sorted_within_windows() -> None:
    A = made(200, 300, 20)
    sell = chunked.sell_from_csr(A, 8, 64)
    assert sorted(sell.permutation) == list(range(200))
    assert all(set(sell.permutation[i : i + 64]) == set(range(i, min(i + 64, 200))) for i in range(0, 200, 64))
    assert all((np.diff(sell.lengths[i : i + 64]) <= 0).all() for i in range(0, 200, 64))
    assert int(sell.widths.sum()) < int(chunked.sell_from_csr(A, 8, 1).widths.sum())


def test_rows_of_one_length_have_no_lengths() -> None:
    A = scipy.sparse.diags_array([np.ones(100)] * 3, offsets=[0, 1, 2], shape=(100, 102)).tocsr()
    assert chunked.sell_from_csr(A).lengths is None and storage.ell_from_csr(A).lengths is None


# ---- products -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"format": "csr"}, {"format": "ell"}, {"format": "sell", "index": "int64"},
    {"format": "sell", "C": 8, "sigma": 32, "index": "delta16"},
], ids=str)  # fmt: skip
def test_products(options: dict[str, Any], backend: str) -> None:
    A = made(100, 70, 6)
    M = ms.sparse.matrix(there(A, backend), **options, backend=None if backend == "cuda" else backend)
    x, X, y = vectors(70), vectors((70, 4)), vectors((100, 3))
    assert M.shape == (100, 70) and M.nnz == A.nnz and M.dtype == np.float64 and same(M.to_scipy(), A)
    assert np.array_equal(host(M @ there(x, backend)), A @ x)
    assert np.array_equal(host(M @ there(X, backend)), A @ X)
    assert np.array_equal(host(M.T @ there(y, backend)), A.T @ y)
    out = there(vectors(100, seed=3), backend)
    expected = 2 * (A @ x) - 3 * host(out)
    assert M.product(there(x, backend), out=out, alpha=2, beta=-3) is out
    assert np.array_equal(host(out), expected)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_transposed_and_conjugated(dtype: str) -> None:
    A = made(60, 40, 5, dtype)
    M = ms.sparse.matrix(A)
    x, y = vectors(40, dtype), vectors((60, 2), dtype)
    assert np.array_equal(M.H @ y, A.conj().T @ y) and np.array_equal(M.T @ y, A.T @ y)
    assert np.array_equal(M.H.T @ x, A.conj() @ x) and np.array_equal(M.T.T @ x, A @ x)
    assert M.H.shape == (40, 60) and M.H.H.shape == (60, 40) and same(M.H.to_scipy(), A.conj().T.tocsr())
    assert np.array_equal(M.H.H @ x, A @ x) and np.array_equal(M.T.H @ x, A.conj() @ x) and same(M.H.H.to_scipy(), A)
    assert np.array_equal(M.H.T.H @ y, A.T @ y) and np.array_equal(M.H.H.H @ y, A.conj().T @ y)


@needs_cpu
def test_values_narrower_than_vectors() -> None:
    A = made(60, 40, 5)
    A.data[:] = A.data / 7
    M = ms.sparse.matrix(A, values="float32")
    x = vectors(40)
    assert M.dtype == np.float64 and M.storage.values_dtype == "float32" and (M @ x).dtype == np.float64
    assert np.array_equal(M.to_scipy().data, A.data.astype("float32").astype("float64"))
    assert np.allclose(M @ x, A.astype("float32").astype("float64") @ x, rtol=1e-14)
    real = ms.sparse.matrix(made(60, 40, 5))
    z = vectors(40, "complex128")
    assert np.array_equal(real @ z, made(60, 40, 5) @ z) and (real @ z).dtype == np.complex128


@needs_cpu
@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 130])
def test_any_number_of_vectors(count: int) -> None:
    A = made(50, 40, 5)
    M, X, out = ms.sparse.matrix(A), vectors((40, count)), vectors((50, count), seed=4)
    expected = A @ X + 2 * out
    assert np.array_equal(M @ X, A @ X)
    assert np.array_equal(M.product(X, out=out, beta=2.0), expected)


@needs_cpu
def test_strides() -> None:
    """Whatever lies between entries: it is not read, not written, or copied."""
    A = made(50, 40, 5)
    M = ms.sparse.matrix(A)
    wide = vectors((80, 12))
    for X in (wide[::2, :6], wide[:40, 1:4], wide[40:, ::3], np.asfortranarray(wide[:40, :5]), wide[39::-1, :1]):
        assert np.array_equal(M @ X, A @ X)
    assert np.array_equal(M @ wide[::2, 3], A @ wide[::2, 3])
    for columns in (slice(2, 6), slice(1, 2), slice(0, 9, 3)):
        Y = np.full((50, 12), np.nan)
        part = Y[:, columns]
        X = vectors((40, part.shape[1]))
        assert M.product(X, out=part) is part and np.array_equal(part, A @ X)
        part[...] = np.nan
        assert np.isnan(Y).all()
    both = np.zeros((50, 8))
    square = ms.sparse.matrix(made(50, 50, 5))
    both[:, :4] = vectors((50, 4))
    square.product(both[:, :4], out=both[:, 4:])
    assert np.array_equal(both[:, 4:], made(50, 50, 5) @ both[:, :4])


def test_recurrences(backend: str) -> None:
    A = made(60, 60, 5)
    M = ms.sparse.matrix(there(A, backend), backend=None if backend == "cuda" else backend)
    x, z = vectors(60), vectors(60, seed=2)
    step = M.recurrence(there(x, backend), there(z, backend), alpha=2.0, beta=-1.0, gamma=3.0)
    assert np.array_equal(host(step), 2 * (A @ x) - x + 3 * z)
    last = there(z.copy(), backend)
    assert M.recurrence(there(x, backend), last, out=last, gamma=-1.0) is last
    assert np.array_equal(host(last), A @ x - z)
    z[3], x[5] = np.nan, np.inf  # factors that are zero multiply nothing
    with np.errstate(invalid="ignore"):
        assert np.array_equal(host(M.recurrence(there(x, backend), there(z, backend))), A @ x, equal_nan=True)


def test_real_factors_keep_infinities_apart(backend: str) -> None:
    """Nothing is multiplied with imaginary parts that are zero: infinity times zero would be NaN."""
    A = scipy.sparse.eye_array(40, format="csr")
    M = ms.sparse.matrix(there(A, backend), backend=None if backend == "cuda" else backend)
    x = np.full(40, complex(np.inf, 1))
    expected = np.full(40, complex(np.inf, 3))
    assert np.array_equal(host(M.recurrence(there(x, backend), beta=2.0)), expected)
    out = there(x.copy(), backend)
    assert np.array_equal(host(M.product(there(x, backend), out=out, beta=2.0)), expected)


@needs_cpu
def test_with_values() -> None:
    A = made(60, 40, 5)
    x = vectors(40)
    for format in ("csr", "ell", "sell"):
        M = ms.sparse.matrix(A, format=format)
        y = M.T @ vectors(60)
        N = M.with_values(3 * A.data)
        assert np.array_equal(N @ x, 3 * (A @ x)) and np.array_equal(M @ x, A @ x)
        assert np.array_equal(N.T @ vectors(60), 3 * y)
    with pytest.raises(ValueError, match=r"data has shape \(3,\), the pattern"):
        M.with_values(np.ones(3))
    with pytest.raises(TypeError, match="data has dtype complex128"):
        M.with_values(A.data * 1j)
    with pytest.raises(ValueError, match="of the matrix itself"):
        M.T.with_values(A.data)


@needs_cpu
def test_a_matrix_is_a_copy() -> None:
    A = made(60, 40, 5)
    before = A.copy()
    for format in ("csr", "sell", "ell"):
        M = ms.sparse.matrix(A, format=format)
        A.data[:] = 0
        assert same(M.to_scipy(), before)
        M.to_scipy().data[:] = 7
        assert same(M.to_scipy(), before)
        A = before.copy()


@needs_cpu
def test_empty_matrices() -> None:
    for shape in ((0, 0), (0, 4), (4, 0), (4, 4)):
        M = ms.sparse.matrix(scipy.sparse.csr_array(shape))
        assert np.array_equal(M @ np.ones(shape[1]), np.zeros(shape[0]))
        assert (M @ np.ones((shape[1], 3))).shape == (shape[0], 3)
        out = np.full(shape[0], 2.0)
        assert np.array_equal(M.product(np.ones(shape[1]), out=out, beta=3.0), np.full(shape[0], 6.0))
        out[:] = np.nan
        assert np.array_equal(M.product(np.ones(shape[1]), out=out), np.zeros(shape[0]))
        assert np.array_equal(M.T @ np.ones(shape[0]), np.zeros(shape[1]))
    square = ms.sparse.matrix(scipy.sparse.csr_array((4, 4)))
    assert np.array_equal(square.recurrence(np.ones(4), np.full(4, 2.0), beta=5.0, gamma=2.0), np.full(4, 9.0))


@pytest.mark.parametrize("C", [8, 16, 32])
@pytest.mark.parametrize("index", ["int32", "delta16"])
def test_few_short_rows_are_summed_by_themselves(index: str, C: int, backend: str) -> None:
    """One or two rows of a chunk that end before the others, as at the faces of a grid: what lies behind their ends is
    multiplied, by whatever x has there, but is not part of the sums."""
    rows, width, rng = 200, 7, np.random.default_rng(2)
    A = scipy.sparse.diags_array(
        rng.integers(1, 4, (width, rows)).astype(float), offsets=range(width), shape=(rows, 220)
    )
    A = A.tolil()
    short = [3, 5, 40, 77, 150]
    for row in short:
        A[row, row + 3 :] = 0
    A = A.tocsr()
    A.eliminate_zeros()
    M = ms.sparse.matrix(there(A, backend), format="sell", C=C, index=index, backend=backend)
    for at in (None, 0, 5, 43, 219):
        x = rng.integers(-4, 5, 220).astype(float)
        if at is not None:
            x[at] = np.inf
        with np.errstate(invalid="ignore"):
            assert np.array_equal(host(M @ there(x, backend)), A @ x, equal_nan=True)
