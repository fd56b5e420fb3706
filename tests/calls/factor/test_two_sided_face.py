"""What follows from singular values; forms of batches: stacks, lists, Ragged, Interleaved; all array libraries."""

from __future__ import annotations

import doctest
import importlib
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES
from conftest import wanted
from linalg_cases import adjoint, normal
from two_sided_cases import KINDS, LAPACK, check_eigh, check_svd, general, hermitian

import mansard as ms
from mansard.operations.factor.two_sided import library, loops, plan, shapes
from mansard.operations.factor.two_sided.task import Task
from mansard.operations.ragged_vectors import Vectors

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
RNG = np.random.default_rng(0)
STACK = normal(RNG, (5, 4, 3), "float64")


def close(found: Any, expected: Any, dtype: str = "float64") -> bool:
    tolerance = 1e3 * float(np.finfo(dtype).eps)
    return bool(np.allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance))


# ---- functions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_pinv_polar_procrustes(dtype: str) -> None:
    for shape in ((4, 4), (7, 3), (3, 7)):
        A, B = normal(RNG, (4, *shape), dtype), normal(RNG, (4, *shape), dtype)
        found = linalg.pinv(A)
        assert found.dtype == dtype and close(found, np.linalg.pinv(A, rtol=None), dtype)
        for side in ("right", "left"):
            u, p = linalg.polar(A, side)
            for i in range(4):
                expected = scipy.linalg.polar(A[i], side)
                assert close(u[i], expected[0], dtype) and close(p[i], expected[1], dtype)
        R, scale = linalg.procrustes(A, B)
        if shape[0] >= shape[1]:  # otherwise R is not determined
            for i in range(4):
                expected = scipy.linalg.orthogonal_procrustes(A[i], B[i])
                assert close(R[i], expected[0], dtype) and close(scale[i], expected[1], dtype)
    assert close(linalg.procrustes(A[0], B).scale, scale_of(A, B), dtype)


def scale_of(A: Any, B: Any) -> Any:
    return np.linalg.svd(adjoint(A[0]) @ B, compute_uv=False).sum(-1)


def test_pinv_of_deficient_matrices() -> None:
    A = np.stack([general(RNG, "deficient", 6, 4, "float32") for _ in range(3)])
    X = linalg.pinv(A)
    assert close(A @ X @ A, A, "float32") and close(X @ A @ X, X, "float32")
    H = np.stack([hermitian(RNG, "deficient", 5, "complex128") for _ in range(3)])
    assert close(linalg.pinv(H, hermitian=True), np.linalg.pinv(H, rtol=1e-10, hermitian=True))
    cutoffs = np.array([1e-12, 0.9, 2.0])
    assert close(linalg.pinv(H, cutoffs), np.linalg.pinv(H, cutoffs))
    assert linalg.pinv(np.zeros((2, 0, 3))).shape == (2, 3, 0)
    with pytest.raises(ValueError, match="can't be both set"):
        linalg.pinv(A, 0.1, rtol=0.1)
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\]"):
        linalg.pinv(np.array([[[1.0]], [[np.nan]]]))


def test_ranks_and_conditions() -> None:
    A = np.stack([general(RNG, kind, 5, 4, "float64") for kind in KINDS])
    assert (linalg.matrix_rank(A) == np.linalg.matrix_rank(A)).all()
    assert (linalg.matrix_rank(A, tol=0.5) == np.linalg.matrix_rank(A, tol=0.5)).all()
    assert (linalg.matrix_rank(A, rtol=1e-3) == np.linalg.matrix_rank(A, rtol=1e-3)).all()
    assert [linalg.matrix_rank(one) for one in (A[0], np.zeros(3), np.ones(3))] == [4, 0, 1]
    B = normal(RNG, (6, 4, 4), "complex64")
    B[2, 1], B[3, 0, 0] = B[2, 0], np.nan
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro"):
        found, sound = linalg.cond(B, p), [0, 1, 4, 5]
        assert found.dtype == np.float32 and np.isnan(found[3]) and (found[2] > 1e5 or p in (-2, -1, -np.inf))
        assert np.allclose(found[sound], np.linalg.cond(B[sound], p), rtol=1e-3)
        assert linalg.cond(B[:0], p).shape == (0,) and linalg.cond(B[:0], p).dtype == np.float32
    with pytest.raises(np.linalg.LinAlgError, match="no condition number"):
        linalg.cond(np.zeros((3, 0, 0)))


def test_norms() -> None:
    A = normal(RNG, (2, 3, 4), "complex128")
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for axis in ((-2, -1), (0, 2), (1, 0)):
            for keepdims in (False, True):
                assert close(linalg.norm(A, order, axis, keepdims), np.linalg.norm(A, order, axis, keepdims))
        assert close(linalg.norm(A[0], order), np.linalg.norm(A[0], order))
        assert close(linalg.norm(list(A), order), np.linalg.norm(A, order, (-2, -1)))
    for order in (None, 0, 1, 2, 3, -1, np.inf, -np.inf, 0.5):
        assert close(linalg.norm(A, order, axis=1), np.linalg.norm(A, order, axis=1))
        assert close(linalg.norm(A[0, 0], order), np.linalg.norm(A[0, 0], order))
    assert close(linalg.norm(A), np.linalg.norm(A)) and linalg.norm(np.arange(4)) == np.linalg.norm(np.arange(4))
    assert np.isnan(linalg.norm(np.array([[np.nan, 1], [1, 1]]), 2))
    with pytest.raises(ValueError, match="leave them out for a batch"):
        linalg.norm(list(A), 2, (0, 1))


# ---- forms of batches -------------------------------------------------------------------------------------


def test_ragged_batches() -> None:
    rng = np.random.default_rng(2)
    squares = [hermitian(rng, "random", n, "float64") for n in (3, 1, 4, 3, 0, 2)]
    batch = ms.Ragged.from_list(squares)
    w, z = linalg.eigh(batch)
    assert isinstance(w, Vectors) and isinstance(z, ms.Ragged) and z.shapes == batch.shapes
    Q, d, e = linalg.tridiagonalize(batch)
    for one, q, on, off in zip(squares, Q, d, e, strict=True):
        assert close(q @ (np.diag(on) + np.diag(off, 1) + np.diag(off, -1)) @ q.T.conj(), one)
    for one, values, vectors in zip(squares, w, z, strict=True):
        check_eigh(one, values, vectors, one.shape, LAPACK)
    many = [normal(rng, (3 + i % 2, 2), "complex128") for i in range(50)]
    U, s, Vh = linalg.svd(ms.Ragged.from_list(many), False)
    for one, *parts in zip(many, U, s, Vh, strict=True):
        check_svd(one, *parts, one.shape, LAPACK)
    assert close(linalg.cond(ms.Ragged.from_list(many)), [np.linalg.cond(one) for one in many])
    assert linalg.matrix_rank(ms.Ragged.from_list(many)).tolist() == [2] * 50
    assert linalg.eigh_ex(batch).info.tolist() == [0] * 6
    inverses = linalg.pinv(ms.Ragged.from_list(many))
    assert all(close(one, np.linalg.pinv(other)) for one, other in zip(inverses, many, strict=True))


def test_interleaved_batches() -> None:
    A = np.stack([hermitian(np.random.default_rng(i), "random", 3, "float64") for i in range(11)])
    w, z = linalg.eigh(ms.interleave(A))
    assert isinstance(z, ms.Interleaved) and z.lanes == ms.interleave(A).lanes
    check_eigh(A, w, ms.deinterleave(z), "interleaved", LAPACK)
    assert close(linalg.svdvals(ms.interleave(STACK)), np.linalg.svd(STACK, compute_uv=False))
    assert close(linalg.norm(ms.interleave(STACK), "nuc"), np.linalg.norm(STACK, "nuc", (-2, -1)))


# ---- array libraries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_other_array_libraries(name: str) -> None:
    """The same results, of the library's own type, as for NumPy arrays."""
    library = wanted(name)
    convert = library.numpy.asarray if name == "jax" else library.from_numpy
    squares = [hermitian(np.random.default_rng(i), "random", 3, "float32") for i in range(4)]
    S = np.stack(squares), STACK.astype("float32")
    symmetric, general_ = (convert(one.copy()) for one in S)
    for function, one in ((linalg.eigvalsh, symmetric), (linalg.svdvals, general_), (linalg.pinv, general_),
                          (linalg.cond, general_), (linalg.matrix_rank, general_)):  # fmt: skip
        found = function(one)
        assert type(found) is type(one) and close(found, function(np.asarray(one)), "float32")
    w, z = linalg.eigh(symmetric)
    assert type(z) is type(symmetric)
    check_eigh(S[0], *map(np.asarray, (w, z)), name, LAPACK)
    check_svd(S[1], *map(np.asarray, linalg.svd(general_)), name, LAPACK)
    for order in (None, "nuc", 2, 1, np.inf, "fro"):
        assert close(linalg.norm(general_, order, (-2, -1)), np.linalg.norm(S[1], order, (-2, -1)), "float32")
    assert close(linalg.norm(general_, 3, 0), np.linalg.norm(S[1], 3, 0), "float32")
    u, p = linalg.polar(general_)
    assert close(np.asarray(u) @ np.asarray(p), S[1], "float32")
    Q, d, e = linalg.tridiagonalize(symmetric)
    assert type(Q) is type(d) is type(e) is type(symmetric)


def test_conjugated_tensors() -> None:
    torch = wanted("torch")
    A = normal(RNG, (3, 4, 4), "complex128")
    for one in (torch.from_numpy(A).conj(), torch.from_numpy(A).mH):
        s = linalg.svdvals(one)
        assert close(s, np.linalg.svd(A, compute_uv=False))
        U, s, Vh = linalg.svd(one)
        check_svd(one.resolve_conj().numpy(), U.numpy(), s.numpy(), Vh.resolve_conj().numpy(), "conjugated", LAPACK)


# ---- libraries --------------------------------------------------------------------------------------------


def test_a_matrix_that_does_not_converge_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library raises for the whole stack; the others get their results."""

    quietly = loops.quietly

    def stubborn(loop: Any, A: Any, signature: str) -> Any:
        return None if (A[:, 0, 0] == 7).any() else quietly(loop, A, signature=signature)

    monkeypatch.setattr(loops, "quietly", stubborn)
    A = np.stack([np.eye(3)] * 9)
    A[[2, 7], 0, 0] = 7
    w, info = linalg.eigvalsh_ex(A)
    assert info.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0] and np.isnan(w[[2, 7]]).all() and (w[0] == 1).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[2\]"):
        linalg.eigvalsh(A)


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_stacks_have_the_bits_of_numpy(dtype: str) -> None:
    """Also in single precision, for which NumPy computes in double; and a neighbour that is not finite changes none."""
    random = np.random.default_rng(5)
    A, H = normal(random, (3, 4, 4), dtype), hermitian(random, "random", 4, dtype)[None]
    for ours, theirs, stack in (
        (linalg.svd, partial(np.linalg.svd, full_matrices=False), A),
        (linalg.svdvals, lambda A: (np.linalg.svd(A, compute_uv=False),), A),
        (linalg.eigh, np.linalg.eigh, H),
        (linalg.eigvalsh, lambda A: (np.linalg.eigvalsh(A),), H),
    ):
        expected, found = tuple(theirs(stack)), ours(stack, backend="reference")
        found = found if isinstance(found, tuple) else (found,)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and (one == other).all()
    beside = linalg.svd_ex(np.concatenate([A, A[:1] * np.nan]), backend="reference")
    for one, alone in zip(beside[:3], linalg.svd(A, backend="reference"), strict=True):
        assert (one[:3] == alone).all()


@pytest.mark.parametrize("want", ["eigh", "eigvalsh", "svd", "svdvals"])
def test_the_array_library_s_own_functions(want: str) -> None:
    """What answers on GPUs beyond our kernels, on PyTorch's CPU tensors: the values of LAPACK, and every `info`."""
    torch = wanted("torch")
    A = np.stack([hermitian(np.random.default_rng(i), "random", 5, "complex128") for i in range(4)])
    A[2, 3, 1] = np.nan
    kind = plan.arrays.kind_of(torch.zeros(1), "a")
    for task in (Task(want), Task(want, upper=True)):
        found = library.answer(kind, task, torch.from_numpy(A.reshape(2, 2, 5, 5)))
        bad = [[0, 0], [0 if task.is_hermitian and task.upper else 6, 0]]
        assert set(found) == set(task.parts) and found["INFO"].tolist() == bad
        exact = library.answer(plan.arrays.kind_of(A, "a"), task, A)
        sound = [0, 1, 3]
        assert close(found["W"].reshape(4, 5)[sound], exact["W"][sound])


def test_large_batches_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuSOLVER fails above 65535 matrices: what the library is handed at once is bounded."""
    torch = wanted("torch")
    handed: list[int] = []

    def counting(by: Any, task: Any, A: Any) -> tuple[Any, ...]:
        handed.append(len(A))
        return (torch.linalg.eigvalsh(A),)

    monkeypatch.setattr(library, "_torch", counting)
    A = torch.from_numpy(np.stack([np.eye(2) * i for i in range(10)]))
    kind = plan.arrays.kind_of(A, "A")
    monkeypatch.setattr(kind, "most_eigenproblems", 4)
    found = library.answer(kind, Task("eigvalsh"), A)
    assert handed == [4, 4, 2] and (found["W"][:, 0].numpy() == np.arange(10)).all()


def test_doctests() -> None:
    for name, least in (("eigen", 15), ("singular", 15), ("norms", 6), ("nearest", 7)):
        failures, tried = doctest.testmod(importlib.import_module(f"mansard.linalg.{name}"))
        assert tried >= least and failures == 0


def test_plans_explain_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_WORTH", 0)
    tall = normal(RNG, (4, 80, 10), "float64")
    for name in ("eigh", "svd", "svdvals", "pinv", "lstsq"):
        operands = (tall, tall) if name == "lstsq" else (tall,)
        if name == "eigh":
            operands = (np.stack([np.eye(3)] * 4),)
        plan = ms.plan(name, *operands, backend="reference")
        text = plan.explain()
        assert "runs" in text and "because" in text
        assert ("QR first" in text) == (name != "eigh")
        with pytest.raises(ValueError, match="a differs"):
            plan(*(one[:3] for one in operands))
    with pytest.raises(TypeError, match="has no out"):
        ms.plan("eigh", np.eye(3), out=np.eye(3))
