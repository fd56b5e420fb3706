"""Sparse matrices of other libraries, how they are stored and who multiplies, what is refused."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from conftest import UNAVAILABLE, needs_cpu
from sparse_cases import made, same, vectors

import mansard as ms
from mansard.arrays.kinds import kind_of
from mansard.errors import UnsupportedProblem
from mansard.operations.sparse import convert, matrix, storage
from mansard.operations.sparse import spmv_call as sparse_call
from mansard.operations.sparse.operand import Held, traits

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
    jax = pytest.importorskip("jax")
    A = made(60, 40, 5, "float32")
    x = jax.device_put(vectors(40, "float32"), jax.devices("cpu")[0])
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
        (lambda: ms.sparse.matrix(GOOD) @ object(), TypeError, "x is a builtins.object"),
        (lambda: ms.sparse.matrix(GOOD) @ 2.0, ValueError, r"use \* for numbers"),
        (lambda: ms.sparse.matrix(GOOD) @ np.ones(8, "f2"), UnsupportedProblem, "x has dtype float16"),
        (lambda: ms.sparse.matrix(GOOD) / np.ones(8), TypeError, "divided by numbers"),
        (lambda: ms.sparse.matrix(GOOD).product(np.ones(8, "f4"), out=np.ones(10, "f4")), TypeError, "out float32"),
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
    assert storage.pointers(counts, np).dtype == np.int64 and storage.pointers(counts[1:], np).dtype == np.int32
    A = made(60, 40, 5)
    wide = storage.Csr(A.shape, A.indptr.astype("int64"), A.indices, A.data)
    assert traits(wide)["wide"]
    if UNAVAILABLE["cpu"]() is None:
        x = vectors(40)
        assert np.array_equal(sparse_call.apply(kind_of(x, "x"), Held(wide, np, ("cpu", 0), False, None), x), A @ x)


def test_doctests() -> None:
    failures, tried = doctest.testmod(matrix)
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
