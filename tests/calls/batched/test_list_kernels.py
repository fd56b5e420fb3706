"""Products of lists of NumPy matrices that differ in shape: one launch, which reads the arrays where they are. And the
compiled loop that describes and copies lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from ragged_cases import integers

import mansard as ms
from mansard.arrays import numpy_lists
from mansard.operations.batched import list_run, ragged_run
from mansard.operations.batched.list_products import choice_of_loop

pytestmark = needs_cpu
RNG = np.random.default_rng(0)
# (m, k, n): empty ones, one column, parts of vectors and of register tiles, and matrices beyond the kernel's widest
SIZES = [(3, 2, 4), (1, 1, 1), (5, 0, 2), (0, 3, 2), (2, 7, 0), (9, 8, 1), (25, 17, 49), (6, 200, 3), (210, 5, 1)]
DTYPES = ["float64", "complex64"]
COUNT = len(SIZES)


def matrices(sizes: list[tuple[int, int]], dtype: str) -> list[Any]:
    """Integers; rows of one matrix are not adjacent, another one begins in the middle of its memory."""
    found = [integers(RNG, shape, dtype) for shape in sizes]
    found[0] = np.asfortranarray(found[0])
    found[-1] = np.repeat(found[-1], 2, 0)[::2]
    return found


def operands(dtype: str) -> tuple[list[Any], list[Any]]:
    return matrices([(m, k) for m, k, _ in SIZES], dtype), matrices([(k, n) for _, k, n in SIZES], dtype)


def same(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(found, expected, strict=True)
    )


@pytest.fixture(autouse=True)
def no_copies(monkeypatch: pytest.MonkeyPatch, no_plans: None) -> None:
    """Kernels answer lists of any length (conftest.py), and none goes the way of ragged batches."""
    assert choice_of_loop(None, 1) is None
    monkeypatch.setattr(ragged_run.RaggedRun, "run", lambda *_: pytest.fail("a list was copied into a ragged batch"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_in_place(dtype: str) -> None:
    A, B = operands(dtype)
    expected = [a @ b for a, b in zip(A, B, strict=True)]
    plain = [np.ascontiguousarray(one) for one in A]
    for given in (A, plain, tuple(plain)):
        assert same(ms.matmul(given, B), expected)
    vectors = [integers(RNG, (k, 1), dtype)[:, 0].copy() for _, k, _ in SIZES]
    assert same(ms.blas.gemv(plain, vectors), [a @ x for a, x in zip(A, vectors, strict=True)])
    many = [integers(RNG, (m, 3), dtype) for m in (1, 4, 30)]
    assert same(ms.matmul(many, many[0].T.copy()), [one @ many[0].T for one in many])


def test_transposed_matrices_times_vectors() -> None:
    """Lanes run along the rows of A, or along the result."""
    A = operands("float64")[0]
    vectors = [integers(RNG, (len(a), 1), "float64")[:, 0].copy() for a in A]
    assert same(ms.blas.gemv(A, vectors, trans="T"), [a.T @ x for a, x in zip(A, vectors, strict=True)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_places(dtype: str) -> None:
    """Results are added, read before they are written, and written nowhere if one of them does not fit."""
    A, B = operands(dtype)
    held = np.zeros((COUNT, 210, 49), dtype)
    out = [np.ones((m, n), dtype) for m, _, n in SIZES]
    assert ms.blas.gemm(A, B, alpha=2.0, beta=-1.0, out=out) is out
    assert same(out, [2 * (a @ b) - np.ones_like(a @ b) for a, b in zip(A, B, strict=True)])
    squares = [integers(RNG, (n, n), dtype) for n in (2, 3)]
    expected = [one @ one for one in squares]
    assert same(ms.blas.gemm(squares, squares, out=squares), expected)
    parts = [held[0, :2, :2].copy(), held[1, :3, :2].copy()]
    with pytest.raises(ValueError, match=r"out\[1\]"):
        ms.blas.gemm(squares, squares, out=parts)
    twice = np.zeros((2, 2), dtype)
    with pytest.raises(ValueError, match="an array twice"):
        ms.blas.gemm([twice + 1, twice[:, :1] + 1], [twice + 1, twice[:1] + 1], out=[twice, twice])
    assert not any(one.any() for one in (*parts, twice))


@pytest.mark.parametrize("trans", ["N", "T"])
def test_one_triangle_of_places_is_read_and_written(trans: str) -> None:
    A = operands("float64")[0]
    products = [a @ a.T if trans == "N" else a.T @ a for a in A]
    assert same(ms.blas.syrk(A, trans=trans), products)
    for uplo, part, other in (("U", np.triu, np.tril), ("L", np.tril, np.triu)):
        out = [part(np.ones_like(one)) + other(np.full_like(one, np.nan), 1 if uplo == "L" else -1) for one in products]
        ms.blas.syrk(A, trans=trans, uplo=uplo, alpha=2.0, beta=3.0, out=out)
        for found, product in zip(out, products, strict=True):
            assert np.array_equal(part(np.nan_to_num(found)), part(2 * product + 3))
            beyond = np.triu_indices(len(found), 1) if uplo == "L" else np.tril_indices(len(found), -1)
            assert np.isnan(found[beyond]).all()


@pytest.mark.parametrize("side, uplo, trans, diag", [("L", "L", "N", "N"), ("R", "U", "N", "U"), ("L", "U", "T", "U")])
def test_triangles(side: str, uplo: str, trans: str, diag: str) -> None:
    """What lies beyond the diagonal, and on one of ones, is NaN and is not read."""
    orders = [3, 0, 1, 8, 17, 201]
    part = np.tril if uplo == "L" else np.triu
    whole = [part(integers(RNG, (n, n), "float64")) for n in orders]
    given = [np.where(part(np.ones_like(one)) > 0, one, np.nan) for one in whole]
    for one, other in zip(whole, given, strict=True):
        if diag == "U":
            np.fill_diagonal(one, 1)
            np.fill_diagonal(other, np.nan)
    op = [one if trans == "N" else one.T for one in whole]
    B = [integers(RNG, (len(one), 3) if side == "L" else (3, len(one)), "float64") for one in op]
    expected = [2 * (a @ b if side == "L" else b @ a) for a, b in zip(op, B, strict=True)]
    options: Any = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "alpha": 2.0}
    assert same(ms.blas.trmm(given, B, **options), expected)
    assert ms.blas.trmm(given, B, out=B, **options) is B and same(B, expected)


def test_lists_that_no_loop_describes() -> None:
    one, other = np.zeros((2, 3)), np.zeros(3)

    class Kept(np.ndarray[Any, Any]):
        """A subclass, whose results may have to be of its class."""

    odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    for wrong in ([], [one, other], [one, one.astype("float32")], [one, one.astype(">f8")], [one, one.view(Kept)],
                  [one, 3.0], [one.astype(int)], [np.zeros((1, 1, 1))], [odd]):  # fmt: skip
        assert numpy_lists.describe(wrong) is None
    found = numpy_lists.describe([one.T, other[None]])
    assert found is not None and not found.is_plain
    fixed = one.copy()
    fixed.flags.writeable = False
    assert list_run.place([fixed]) is None and list_run.place([one, one[:1]]) is None
    memory = np.zeros(8)
    assert list_run.place([memory[:4].reshape(2, 2), memory[3:7].reshape(2, 2)]) is None
    assert list_run.place([memory[:4].reshape(2, 2), memory[4:].reshape(2, 2)]) is not None


def test_copies_of_parts() -> None:
    A = [np.arange(12.0).reshape(3, 4), np.arange(6.0).reshape(3, 2).T]
    listed, places = numpy_lists.describe(A), np.array([1, 14])
    assert listed is not None
    for part, wanted in (("lower", np.tril), ("upper", np.triu),
                         ("unit_lower", lambda a: np.tril(a, -1) + np.eye(*a.shape))):  # fmt: skip
        buffer = np.full(21, np.nan)
        numpy_lists.gather(listed, buffer, places, part)  # type: ignore[arg-type]
        assert np.array_equal(buffer[1:13].reshape(3, 4), wanted(A[0]))
        assert np.array_equal(buffer[14:20].reshape(2, 3), wanted(A[1])) and np.isnan(buffer[[0, 13, 20]]).all()
    numpy_lists.scatter(listed, np.full(21, 50.0), places, "upper")
    assert np.array_equal(A[0], [[50, 50, 50, 50], [4, 50, 50, 50], [8, 9, 50, 50]])
    assert np.array_equal(A[1], [[50, 50, 50], [1, 50, 50]])
