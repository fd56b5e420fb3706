"""`ms.sparse.matrix`: from other libraries and back without a difference, products of every kind, what is refused."""

from __future__ import annotations

import doctest
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from conftest import UNAVAILABLE, needs_cpu

import mansard as ms
import mansard.sparse.matrix
from mansard.api import sparse_call
from mansard.errors import UnsupportedProblem
from mansard.sparse import convert, storage
from mansard.sparse.operand import Held, traits


def made(rows: int, cols: int, mean: float, dtype: str = "float64", seed: int = 0, empty: bool = True) -> Any:
    """Small integers in rows of different lengths, some of them empty."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.integers(0 if empty else 1, round(2 * mean) + 1, rows), cols)
    indices = [np.sort(rng.choice(cols, length, replace=False)) for length in lengths]
    data = rng.integers(1, 4, lengths.sum()) * rng.choice([-1, 1], lengths.sum())
    if dtype.startswith("complex"):
        data = data + 1j * rng.integers(-3, 4, lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array(
        (data.astype(dtype), np.concatenate([*indices, []]).astype(int), indptr), (rows, cols)
    )


def vectors(shape: Any, dtype: str = "float64", seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    data = rng.integers(-3, 4, shape)
    return (data + 1j * rng.integers(-3, 4, shape) if dtype.startswith("complex") else data).astype(dtype)


def there(A: Any, backend: str) -> Any:
    """The matrix or the array where the backend works."""
    if backend != "cuda":
        return A
    import cupy
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse.csr_matrix(A) if scipy.sparse.issparse(A) else cupy.asarray(A)


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def same(one: Any, other: Any) -> bool:
    """The same pattern and values, entry by entry."""
    other = scipy.sparse.csr_array(other)
    parts = ("indptr", "indices", "data")
    return one.shape == other.shape and all(np.array_equal(getattr(one, p), getattr(other, p)) for p in parts)


# ---- storage --------------------------------------------------------------------------------------------------------

SHAPES = [(0, 0), (0, 5), (5, 0), (1, 1), (32, 32), (33, 70), (97, 300), (130, 200000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("C", [1, 4, 32])
def test_round_trips_are_exact(shape: tuple[int, int], C: int) -> None:
    for dtype, mean in (("float64", 4), ("complex64", 0), ("float32", 40)):
        A = made(*shape, min(mean, shape[1]), dtype)
        for sigma in (1, 64):
            for index in ("int32", "int64", "delta16"):
                fits = storage.fits_delta16(A, C, sigma)
                if index == "delta16" and not fits:
                    with pytest.raises(ValueError, match="use index='int32'"):
                        storage.sell_from_csr(A, C, sigma, index)
                    continue
                sell = storage.sell_from_csr(A, C, sigma, index)
                assert same(storage.csr_from_sell(sell), A)
                again = storage.sell_with_values(sell, A.indptr, 2 * A.data)
                assert same(storage.csr_from_sell(again), 2 * A) and same(storage.csr_from_sell(sell), A)
        assert same(storage.csr_from_ell(storage.ell_from_csr(A)), A)


@pytest.mark.parametrize("index", ["int32", "delta16"])
def test_the_layout_of_chunks(index: str) -> None:
    """As the documentation says, byte by byte."""
    A = made(70, 90, 5)
    sell = storage.sell_from_csr(A, 32, 1, index)
    lengths = np.diff(A.indptr)
    for chunk in range(3):
        rows = range(32 * chunk, min(32 * chunk + 32, 70))
        width = int(sell.widths[chunk])
        assert width == max(lengths[r] for r in rows) and sell.common[chunk] == min(lengths[r] for r in rows)
        start = int(sell.starts[chunk]) * 128
        bases, columns, end = storage.parts(width, 32, "float64", index)
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
    sell = storage.sell_from_csr(A, 8, 64)
    assert sorted(sell.permutation) == list(range(200))
    assert all(set(sell.permutation[i : i + 64]) == set(range(i, min(i + 64, 200))) for i in range(0, 200, 64))
    assert all((np.diff(sell.lengths[i : i + 64]) <= 0).all() for i in range(0, 200, 64))
    assert int(sell.widths.sum()) < int(storage.sell_from_csr(A, 8, 1).widths.sum())


def test_rows_of_one_length_have_no_lengths() -> None:
    A = scipy.sparse.diags_array([np.ones(100)] * 3, offsets=[0, 1, 2], shape=(100, 102)).tocsr()
    assert storage.sell_from_csr(A).lengths is None and storage.ell_from_csr(A).lengths is None


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


# ---- where matrices come from ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_all_formats_of_scipy(format: str) -> None:
    A = made(60, 40, 5)
    assert same(ms.sparse.matrix(A.asformat(format)).to_scipy(), A)
    assert same(ms.sparse.matrix(scipy.sparse.csr_matrix(A).asformat(format)).to_scipy(), A)


def test_unsorted_rows_and_duplicates() -> None:
    A = scipy.sparse.csr_array(
        (np.array([1.0, 2, 4, 8, 16]), np.array([3, 1, 3, 0, 0]), np.array([0, 3, 3, 5])), (3, 4)
    )
    expected = A.copy()
    expected.sum_duplicates()
    indices = A.indices.copy()
    for format in (None, "csr", "ell", "sell"):
        M = ms.sparse.matrix(A, format=format)
        assert same(M.to_scipy(), expected) and M.nnz == 3
    assert np.array_equal(A.indices, indices)
    # what is sorted already is not copied: the first column of a row may lie before the last of the row above
    assert np.shares_memory(convert.read(expected).rows.data, expected.data)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    A = made(60, 40, 5)
    T = torch.sparse_csr_tensor(torch.tensor(A.indptr), torch.tensor(A.indices), torch.tensor(A.data), A.shape)
    M = ms.sparse.matrix(T)
    assert same(M.to_scipy(), A) and same(ms.sparse.matrix(T.to_sparse_coo()).to_scipy(), A)
    x, X = torch.tensor(vectors(40)), torch.tensor(vectors((40, 6)))
    found = M @ x
    assert isinstance(found, torch.Tensor) and np.array_equal(found.numpy(), A @ x.numpy())
    assert np.array_equal((M @ X.T.contiguous().T).numpy(), A @ X.numpy())
    out = torch.ones((60, 6), dtype=torch.float64)
    assert M.product(X, out=out, beta=1) is out and np.array_equal(out.numpy(), A @ X.numpy() + 1)
    z = torch.tensor(vectors(40, "complex128"))
    assert np.array_equal((M @ z.conj()).numpy(), A @ z.conj().resolve_conj().numpy())
    with pytest.raises(TypeError, match="to_sparse_csr"):
        ms.sparse.matrix(T.to_dense())
    with pytest.raises(TypeError, match="x is a PyTorch array and out a NumPy array"):
        M.product(x, out=np.ones(60))


def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    A = made(60, 40, 5, "float32")
    x = jnp.asarray(vectors(40, "float32"))
    found = ms.sparse.matrix(A) @ x
    assert type(found) is type(x) and np.array_equal(np.asarray(found), A @ np.asarray(x))


# ---- choices --------------------------------------------------------------------------------------------------------


def test_formats_suit_the_rows() -> None:
    rng = np.random.default_rng(0)
    stencil = scipy.sparse.diags_array([np.ones(5000)] * 3, offsets=[-70, 0, 70], shape=(5000, 5000)).tocsr()
    M = ms.sparse.matrix(stencil)
    assert (M.format, M.index, M.storage.sigma) == ("sell", "delta16", 1)
    uneven = ms.sparse.matrix(made(5000, 5000, 6))
    assert uneven.format == "sell" and uneven.storage.sigma > 1
    lengths = np.where(np.arange(4000) % 500 == 0, 3000, 1)
    columns = np.concatenate([np.sort(rng.choice(4000, k, replace=False)) for k in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    skewed = ms.sparse.matrix(scipy.sparse.csr_array((np.ones(indptr[-1]), columns, indptr), (4000, 4000)))
    assert skewed.format == "csr" and skewed.held.skewed
    far = scipy.sparse.csr_array((np.ones(64), (np.arange(64), np.arange(64) * 70000)), (64, 64 * 70000))
    assert ms.sparse.matrix(far).index == "int32"
    assert ms.sparse.matrix(stencil, format="sell", threads=4).storage.C == 8
    assert ms.sparse.matrix(stencil, index="int64").index == "int64"


@needs_cpu
def test_plans_and_explanations() -> None:
    A = made(60, 40, 5)
    M, x = ms.sparse.matrix(A, format="sell"), vectors(40)
    plan = M.plan(x)
    assert np.array_equal(plan(x), A @ x) and "spmv_simd" in plan.source()
    assert "stored entries per entry" in M.explain() and "NVECS=5" in M.explain(5)
    with pytest.raises(ValueError, match="make another plan"):
        plan(vectors((40, 2)))
    for _ in range(3):
        M @ x
    assert len(M.held.plans) == 1
    threads = ms.sparse.matrix(A, format="csr", threads=8, backend="emulated")
    assert "VARIANT=csr THREADS=8" in threads.explain() and np.array_equal(threads @ x, A @ x)
    with ms.pin(VARIANT="merge", PER_THREAD=3):
        assert "PER_THREAD=3" in threads.explain() and np.array_equal(threads @ x, A @ x)
    with ms.pin(VARIANT="vendor"):
        assert np.array_equal(M @ x, A @ x) and np.array_equal(M @ vectors((40, 2)), A @ vectors((40, 2)))


def test_the_library_answers_without_kernels() -> None:
    A = made(60, 40, 5, "complex128")
    M = ms.sparse.matrix(A, backend="reference")
    x, y, out = vectors(40, "complex128"), vectors(60, "complex128"), vectors(60, "complex128", 5)
    assert np.array_equal(M @ x, A @ x) and np.array_equal(M.H @ y, A.conj().T @ y)
    assert np.array_equal(M.product(x, out=out.copy(), alpha=2j, beta=1j), 2j * (A @ x) + 1j * out)


# ---- what is refused ------------------------------------------------------------------------------------------------

GOOD = made(10, 8, 3)


def broken(**parts: Any) -> Any:
    """A matrix whose arrays were changed behind scipy's back."""
    A = made(10, 8, 3, empty=False)
    for name, (place, value) in parts.items():
        getattr(A, name)[place] = value
    return A


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ms.sparse.matrix(np.ones((3, 3))), TypeError, "A is a numpy.ndarray: pass a matrix of scipy.sparse"),
        (lambda: ms.sparse.matrix(GOOD.astype(int)), UnsupportedProblem, "A has dtype int64.*astype"),
        (lambda: ms.sparse.matrix(scipy.sparse.coo_array(np.ones(3))), ValueError, "A has 1 dimensions"),
        (lambda: ms.sparse.matrix(broken(indices=(4, 8))), ValueError, r"indices\[4\] = 8 in row \d: A has 8 columns"),
        (lambda: ms.sparse.matrix(broken(indices=(0, -1))), ValueError, r"indices\[0\] = -1 in row 0"),
        (lambda: ms.sparse.matrix(broken(indptr=(3, 0))), ValueError, "indptr falls from .* at row 2"),
        (lambda: ms.sparse.matrix(broken(indptr=(0, 1))), ValueError, "indptr runs from 1"),
        (lambda: ms.sparse.matrix(GOOD, format="coo"), ValueError, "format='coo' is not one of 'csr', 'ell', 'sell'"),
        (lambda: ms.sparse.matrix(GOOD, index="int16"), ValueError, "index='int16' is not one of"),
        (lambda: ms.sparse.matrix(GOOD, format="csr", index="delta16"), ValueError, "needs the chunks of"),
        (lambda: ms.sparse.matrix(GOOD, C=3), ValueError, "C=3 is not one of 1, 2, 4"),
        (lambda: ms.sparse.matrix(GOOD, threads=64), ValueError, "threads=64 is not one of"),
        (lambda: ms.sparse.matrix(GOOD, "sell", C=32, threads=4), ValueError, "fill a warp"),
        (lambda: ms.sparse.matrix(GOOD, sigma=0), ValueError, "sigma=0"),
        (lambda: ms.sparse.matrix(GOOD, values="complex64"), ValueError, "values='complex64'"),
        (lambda: ms.sparse.matrix(GOOD.astype("f4"), values="float64"), ValueError, "values='float64'"),
        (lambda: ms.sparse.matrix(GOOD * 1j, values="float64"), ValueError, "would drop the imaginary parts"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones(9), ValueError, "x has 9 entries .* and A 8 columns"),
        (lambda: ms.sparse.matrix(GOOD).T @ np.ones(8), ValueError, "x has 8 entries .* and A 10 columns"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones((8, 2, 2)), ValueError, r"x has shape \(8, 2, 2\)"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones((9, 70)), ValueError, "x has 9 entries"),
        (lambda: ms.sparse.matrix(GOOD) @ [1.0] * 8, TypeError, "x is a builtins.list"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones(8, "f4"), TypeError, "A holds float64 and x float32"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones(8, int), UnsupportedProblem, "x has dtype int64"),
        (lambda: ms.sparse.matrix(GOOD * 1j) @ np.ones(8), TypeError, "A holds complex128 and x float64"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones(8), out=np.ones(9)), ValueError, r"out has shape \(9,\)"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones(8), out=np.ones(10, "f4")), TypeError, "and out float32"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones(8), beta=1.0), ValueError, "beta scales .* pass out"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones((8, 70)), beta=1.0), ValueError, "beta scales .* pass out"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones(8), alpha=1j), TypeError, "must be real"),
        (lambda: ms.sparse.matrix(GOOD).recurrence(np.ones(8)), ValueError, "needs a square matrix"),
        (lambda: ms.sparse.matrix(made(8, 8, 3)).recurrence(np.ones(8), gamma=1.0), ValueError, "pass z"),
        (lambda: ms.sparse.matrix(made(8, 8, 3)).recurrence(np.ones(8), np.ones(8, "f4")), ValueError, "must agree"),
        (lambda: ms.sparse.matrix(GOOD, backend="cuda") @ np.ones(8), ValueError, "needs arrays on a GPU"),
    ],
)  # fmt: skip
def test_errors(run: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_overlaps() -> None:
    M, both = ms.sparse.matrix(made(8, 8, 3)), np.ones(20)
    for x, out in ((both[:8], both[:8]), (both[:8], both[7:15]), (both[5:13], both[:8])):
        with pytest.raises(ValueError, match="out overlaps x"):
            M.product(x, out=out)
    X = np.ones((8, 6))
    with pytest.raises(ValueError, match="out overlaps x"):
        M.product(X[:, :4], out=X[:, 2:])
    assert (both == 1).all() and (X == 1).all()


def test_more_entries_than_32_bits_count() -> None:
    """Places of rows beyond 2^31 are kept as 64-bit numbers; nothing is that large here, the arithmetic is."""
    counts = np.array([1 << 30, 1 << 30, 5])
    assert storage._pointers(counts, np).dtype == np.int64 and storage._pointers(counts[1:], np).dtype == np.int32
    A = made(60, 40, 5)
    wide = storage.Csr(A.shape, A.indptr.astype("int64"), A.indices, A.data)
    assert traits(wide)["wide"]
    if UNAVAILABLE["cpu"]() is None:
        x = vectors(40)
        assert np.array_equal(sparse_call.apply(Held(wide, np, ("cpu", 0), False, None), x), A @ x)


def test_doctests() -> None:
    failures, tried = doctest.testmod(sys.modules["mansard.sparse.matrix"])
    assert tried >= 4 and failures == 0


def test_short_rows_of_one_length_are_ellpack_on_gpus() -> None:
    """What is stored where; the device is only named."""
    wish = convert.Wish(None, 32, None, None, None)
    band = convert.read(scipy.sparse.diags_array([1.0, 2.0, 3.0], offsets=[-1, 0, 1], shape=(500, 500)).tocsr())
    wide = convert.read(scipy.sparse.csr_array(np.ones((40, 40))))
    ragged = convert.read(scipy.sparse.csr_array(np.tril(np.ones((8, 8)))))
    found = [convert.chosen_format(one.rows, wish, ("cuda", 0), np)[0] for one in (band, wide, ragged)]
    assert found[:2] == ["ell", "sell"] and found[2] != "ell"
    assert convert.chosen_format(band.rows, wish, ("cpu", 0), np)[0] == "sell"


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
