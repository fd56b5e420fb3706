"""Batches of products: the description of operands, and the kernels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from batched_cases import (
    DTYPES,
    Played,
    arranged,
    integers,
    play_products,  # noqa: F401
)

import mansard as ms
from mansard import testing
from mansard.operations import stacks
from mansard.operations.batched import gemm_call, rank_blas

pytestmark = pytest.mark.usefixtures("no_plans")

FORMS = [  # leading dimensions of A and B
    ((7,), (7,)),
    ((7,), ()),
    ((), (7,)),
    ((1,), (7,)),
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),  # two launches
    ((12, 1), (1, 12)),  # addresses
    ((70, 1), (2,)),  # two launches of 70
]


def moved(array: Any, backend: str) -> Any:
    """A copy where the backend wants it."""
    return testing.array_module(backend).array(array)


def turned(array: Any, trans: bool, conj: bool) -> Any:
    array = array.swapaxes(-1, -2) if trans else array
    return array.conj() if conj else array


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


# ---- the description of operands --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_any_stacks(seed: int, played: Played) -> None:
    """Shapes, strides, dtypes and results at random; the played kernel refuses a description that is not true."""
    rng = np.random.default_rng(seed)
    for backend in ("cpu", "emulated") * 4:
        m, k, n = (int(size) for size in rng.integers(1, 6, 3))
        dtype = str(rng.choice(DTYPES))
        full = tuple(int(size) for size in rng.integers(1, 5, rng.integers(0, 4)))
        lead = [tuple(1 if rng.random() < 0.3 else s for s in full)[rng.integers(0, len(full) + 1) :] for _ in "ab"]
        form = gemm_call.Form(*(bool(flag) for flag in rng.integers(0, 2, 4)))
        A = arranged(rng, integers(rng, (*lead[0], *((k, m) if form.trans_a else (m, k))), dtype))
        B = arranged(rng, integers(rng, (*lead[1], *((n, k) if form.trans_b else (k, n))), dtype))
        if rng.random() < 0.2 and len(lead[1]) <= len(lead[0]):
            A = np.broadcast_to(A, (3, *A.shape))
        expected = turned(A, form.trans_a, form.conj_a) @ turned(B, form.trans_b, form.conj_b)
        assert (gemm_call.multiply(A, B, None, 1.0, 0.0, backend, form) == expected).all()
        out = arranged(rng, integers(rng, expected.shape, dtype))
        alpha, beta = (2 - 1j, 3j) if dtype.startswith("complex") else (2, -3)
        expected = alpha * expected + beta * out
        assert gemm_call.multiply(A, B, out, alpha, beta, backend, form) is out and (out == expected).all()


@pytest.mark.parametrize("seed", range(10))
def test_any_lists(seed: int, played: Played) -> None:
    rng = np.random.default_rng(seed)
    for backend in ("cpu", "emulated"):
        m, k, n, count = (int(size) for size in rng.integers(1, 6, 4))
        dtype = str(rng.choice(DTYPES))
        A, B, out = (list(integers(rng, (count, *s), dtype)) for s in ((m, k), (k, n), (m, n)))
        if seed % 2:
            A, B, out = ([arranged(rng, x) for x in many] for many in (A, B, out))
        expected = [a @ b for a, b in zip(A, B, strict=True)]
        result = gemm_call.multiply(A, tuple(B), None, 1.0, 0.0, backend)
        assert type(result) is list and all((x == y).all() for x, y in zip(result, expected, strict=True))
        for one in (B[0], np.stack(B), np.stack(B)[:1]):
            found = gemm_call.multiply(A, one, None, 1.0, 0.0, backend)
            assert (np.stack(found) == np.stack(A) @ one).all()
        expected = [2 * x - y for x, y in zip(expected, out, strict=True)]
        assert gemm_call.multiply(A, B, out, 2, -1, backend) is out
        assert all((x == y).all() for x, y in zip(out, expected, strict=True))
        stack = np.empty((count, m, n), dtype)
        assert gemm_call.multiply(A, B, stack, 1, 0, backend) is stack and (stack == np.stack(A) @ np.stack(B)).all()


def test_launches_are_few(played: Played) -> None:
    for a, b, launches in (
        ((7,), (7,), 1),
        ((2, 3), (2, 3), 1),
        ((2, 3), (), 1),
        ((5, 2, 3), (2, 3), 5),
        ((12, 1), (12,), 1),
        ((100, 1), (1, 30), 30),
        ((20, 20), (20, 1), 1),
    ):
        played.launches = 0
        A, B = np.ones((*a, 2, 3)), np.ones((*b, 3, 2))
        assert gemm_call.multiply(A, B, None, 1, 0, "cpu").shape == (*np.broadcast_shapes(a, b), 2, 2)
        assert played.launches == launches, (a, b)


def test_what_serves_all_is_read_once(played: Played) -> None:
    A, B = np.ones((9, 2, 3)), np.ones((3, 2))
    for b in (B, B[None], np.broadcast_to(B, (9, 3, 2))):
        problem = gemm_call.plan_gemm(A, b, None, "cpu").problem
        assert (problem.stack_a, problem.stack_b, problem.BATCH) == ("packed", "shared", 9)


def test_copies_do_not_repeat_what_broadcasting_repeats() -> None:
    A = np.broadcast_to(np.ones((4, 6))[::-2, ::-2], (1000, 2, 3))
    kind = stacks.kind_of(A, "A")
    operand = stacks.operand_of(kind, A, "A")
    copy = stacks.copy(kind, A, operand)
    assert copy.shape == (1, 2, 3) == (*operand.copied().shape, 2, 3) and operand.copied().layout == ("row", 3)


def test_alignment(played: Played) -> None:
    A, B = np.ones((9, 3, 3)), np.ones((9, 3, 3))
    assert gemm_call.plan_gemm(A, B, None, "cpu").problem.aligned
    assert not gemm_call.plan_gemm(A[1:], B[1:], None, "cpu").problem.aligned  # 72 bytes off
    assert gemm_call.plan_gemm(A[2:], B[2:], None, "cpu").problem.aligned
    assert not gemm_call.plan_gemm(np.ones((9, 3, 5))[:, :, :3], B, None, "cpu").problem.aligned  # matrices at 15 i
    two = np.ones((2, 5, 3, 3))[:, :4]  # launches of four, of which the second begins at 45
    assert not gemm_call.plan_gemm(two, B[:8].reshape(2, 4, 3, 3), None, "cpu").problem.aligned


# ---- the kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_broadcasting(form: tuple[Any, Any], backend: str) -> None:
    rng = np.random.default_rng(1)
    A, B = integers(rng, (*form[0], 3, 4)), integers(rng, (*form[1], 4, 5))
    result = ms.matmul(moved(A, backend), moved(B, backend), backend=backend)
    assert result.shape == (A @ B).shape and (host(result) == A @ B).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, backend: str) -> None:
    rng = np.random.default_rng(2)
    A, B = integers(rng, (30, 4, 4), dtype), integers(rng, (30, 4, 4), dtype)
    a, b = moved(A, backend), moved(B, backend)
    result = ms.matmul(a, b, backend=backend)
    assert result.dtype == dtype and (host(result) == A @ B).all()
    random = [testing.random_matrix(np, 120, 4, dtype, seed).reshape(30, 4, 4) for seed in (0, 1)]
    result = host(ms.matmul(*(moved(x, backend) for x in random), backend=backend))
    wide = [x.astype("complex128" if dtype.startswith("complex") else "float64") for x in random]
    bound = 2 * testing.gamma(dtype, 4) * (abs(wide[0]) @ abs(wide[1]))
    assert (abs(result - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2), lambda x: x),
        (lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]], lambda x: x[::-1].copy()[::-1]),
        (lambda x: x[:, ::-1].copy()[:, ::-1], lambda x: np.repeat(x, 2, 2)[:, :, ::2]),
        (lambda x: np.asfortranarray(x), lambda x: x),
    ],
    ids=["transposed", "padded", "backwards", "fortran"],
)
def test_layouts(left: Any, right: Any, backend: str) -> None:
    if backend == "cuda":
        pytest.skip("arrays keep their strides only on the CPU; gemm's own tests have them all")
    rng = np.random.default_rng(3)
    A, B = integers(rng, (8, 4, 4)), integers(rng, (8, 4, 4))
    a, b = left(A), right(B)
    assert (ms.matmul(a, b, backend=backend) == a @ b).all()


def test_rows_that_overlap(backend: str) -> None:
    """Hankel matrices, one row for all, rows backwards: views of little memory."""
    if backend == "cuda":
        pytest.skip("arrays keep their strides only on the CPU; gemm's own tests have them all")
    rng = np.random.default_rng(15)
    line, B = integers(rng, (40,)), integers(rng, (8, 4, 4))
    hankel = np.lib.stride_tricks.as_strided(line, (8, 4, 4), (32, 8, 8))
    for A in (hankel, np.broadcast_to(line[:4], (8, 4, 4)), B[:, ::-1]):
        assert (ms.matmul(A, B, backend=backend) == A @ B).all()
        assert (ms.matmul(B, A.swapaxes(1, 2), backend=backend) == B @ A.swapaxes(1, 2)).all()


def test_out_and_scaling(backend: str) -> None:
    rng = np.random.default_rng(4)
    A, B, C = (integers(rng, (9, 4, 4)) for _ in range(3))
    a, b, out = (moved(x, backend) for x in (A, B, C))
    assert ms.matmul(a, b, out=out, alpha=2, beta=-3, backend=backend) is out
    assert (host(out) == 2 * (A @ B) - 3 * C).all()
    out.fill(np.nan)
    assert (host(ms.matmul(a, b, out=out, alpha=-1, backend=backend)) == -(A @ B)).all()
    wide = moved(np.full((9, 4, 6), 7.0), backend)
    ms.matmul(a, b, out=wide[:, :, 1:5], backend=backend)
    expected = np.full((9, 4, 6), 7.0)
    expected[:, :, 1:5] = A @ B
    assert (host(wide) == expected).all()


def test_lists(backend: str) -> None:
    rng = np.random.default_rng(5)
    A, B = [integers(rng, (4, 4)) for _ in range(6)], [integers(rng, (4, 4)) for _ in range(6)]
    a, b = [moved(x, backend) for x in A], [moved(x, backend) for x in B]
    result = ms.matmul(a, b, backend=backend)
    assert type(result) is list and type(result[0]) is type(a[0])
    assert all((host(x) == y @ z).all() for x, y, z in zip(result, A, B, strict=True))
    out = [moved(np.zeros((4, 4)), backend) for _ in range(6)]
    assert ms.matmul(tuple(a), b, out=out, backend=backend) is out
    assert all((host(x) == y @ z).all() for x, y, z in zip(out, A, B, strict=True))
    assert (host(ms.matmul(a, b[0], backend=backend)[5]) == A[5] @ B[0]).all()
    assert ms.matmul([], [], backend=backend) == []


@pytest.mark.parametrize("options", ["NC", "CT"])
def test_blas_gemm(options: str, backend: str) -> None:
    rng = np.random.default_rng(6)
    apply = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.swapaxes(-1, -2).conj()}
    A, B, C = (integers(rng, (5, 3, 3), "complex128") for _ in range(3))
    a, b, out = (moved(x, backend) for x in (A, B, C))
    how = dict(trans_a=options[0], trans_b=options[1], alpha=1 + 1j, beta=2j, backend=backend)
    expected = (1 + 1j) * (apply[options[0]](A) @ apply[options[1]](B)) + 2j * C
    assert ms.blas.gemm(a, b, out=out, **how) is out
    assert (host(out) == expected).all()
    outs = [moved(x, backend) for x in C]
    ms.blas.gemm(list(a), list(b), out=outs, **how)
    assert all((host(x) == y).all() for x, y in zip(outs, expected, strict=True))


@pytest.mark.parametrize("name", ["syrk", "herk", "syr2k", "her2k"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_numpy_matrices_are_updated_by_blas(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the kernels: every layout, the triangle that was asked for and nothing else, NaN in `out` without beta."""
    asked: list[str] = []
    routine = rank_blas._routine
    monkeypatch.setattr(rank_blas, "_routine", lambda *which: asked.append(which[0]) or routine(*which))
    rng, two = np.random.default_rng(len(name) + len(dtype)), name.endswith("2k")
    hermitian = name.startswith("her")
    update, factor = getattr(ms.blas, name), 2.0 - 1.0j if two and dtype.startswith("complex") else 2.0
    for case, (trans, lead) in enumerate(product(("N", "C" if hermitian else "T"), ((), (2,)))):
        n, k = (170 if lead else 7), 5
        a, b = (integers(rng, (*lead, *((n, k) if trans == "N" else (k, n))), dtype) for _ in "ab")
        left = [turned(one, trans != "N", trans == "C") for one in (a, b)]
        half = left[0] @ turned(left[1] if two else left[0], True, hermitian)
        for uplo, by_columns, (alpha, beta) in product("LU", (False, True), ((1.0, 0.0), (factor, -1.0))):
            inner = alpha * half + (turned(alpha * half, True, hermitian) if two else 0)
            given = [np.asfortranarray(one) if (case + by_columns) % 2 and not lead else one for one in (a, b)]
            out = integers(rng, (*lead, n, n), dtype) if beta else np.full((*lead, n, n), np.nan, dtype)
            if hermitian:
                out[..., range(n), range(n)] = out.diagonal(0, -2, -1).real
            out = out.swapaxes(-1, -2) if by_columns else out
            before, expected = out.copy(), inner + (beta * out if beta else 0)
            found = update(*given[: 1 + two], alpha=alpha, beta=beta, uplo=uplo, trans=trans, out=out)
            part = (np.tri(n, dtype=bool) if uplo == "L" else np.tri(n, dtype=bool).T) & np.ones((*lead, 1, 1), bool)
            assert found is out and (out[part] == expected[part]).all()
            assert np.array_equal(out[~part], before[~part], equal_nan=True)
    real = name.replace("her", "syr") if "float" in dtype else name
    assert asked and set(asked) == {real}


@pytest.mark.parametrize("name", ["syrk", "her2k"])
def test_tensors_on_cpus_are_updated_like_numpy_arrays(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(3)
    for n in (7, 70):
        given = [integers(rng, (n, 5), "complex128") for _ in range(2 if name == "her2k" else 1)]
        out = integers(rng, (n, n), "complex128")
        out[range(n), range(n)] = out.diagonal().real
        tensors, place = [torch.from_numpy(one) for one in given], torch.from_numpy(out.copy())
        version, update = place._version, getattr(ms.blas, name)
        for _ in range(2):
            assert update(*tensors, beta=2.0, out=place) is place
            update(*given, beta=2.0, out=out)
        assert np.array_equal(place.numpy(), out) and place._version > version
        conjugated = [one.conj() for one in tensors]
        assert np.array_equal(update(*conjugated, out=place).numpy(), update(*(one.conj() for one in given), out=out))
        leaf = torch.zeros((n, n), dtype=place.dtype, requires_grad=True)
        with torch.no_grad():
            update(*tensors, out=leaf)
        assert np.array_equal(np.tril(leaf.detach().numpy()), np.tril(update(*given)))


def test_hermitian_updates_without_a_place_are_hermitian() -> None:
    a = integers(np.random.default_rng(1), (70, 9), "complex128")
    found = ms.blas.herk(a)
    assert (found == a @ a.conj().T).all() and not found.diagonal().imag.any()
    wide = np.full((70, 140), np.nan, "complex128")  # rows with gaps: a product answers
    assert (np.tril(ms.blas.herk(a, out=wide[:, ::2])) == np.tril(found)).all() and np.isnan(wide[:, 1::2]).all()


@pytest.mark.parametrize("shape", [(6, 3, 4), (3, 4)], ids=str)
@pytest.mark.parametrize("name", ["syrk", "herk"])
def test_rank_k(name: str, shape: tuple[int, ...], backend: str) -> None:
    rng, function = np.random.default_rng(7), getattr(ms.blas, name)
    A = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if len(shape) == 2 and backend != "cpu":
        pytest.skip("one matrix is the array library's")
    other = A.conj() if name == "herk" else A
    a, options = moved(A, backend), dict(backend=backend)
    for trans, expected in (("N", A @ other.swapaxes(-1, -2)), ("TC"[name == "herk"], other.swapaxes(-1, -2) @ A)):
        result = host(function(a, trans=trans, **options))
        assert np.allclose(result, expected)
        mirrored = result.swapaxes(-1, -2)
        assert (result == (mirrored.conj() if name == "herk" else mirrored)).all()
    n = shape[-2]
    lower = np.tril(np.ones((n, n), bool))
    old = rng.standard_normal((*shape[:-1], n)) + 0j
    for uplo, triangle in (("L", lower), ("U", lower.T)):
        out = moved(np.where(triangle, old, 77), backend)
        assert function(a, alpha=2.0, beta=-1.0, uplo=uplo, out=out, **options) is out
        assert (host(out)[..., ~triangle] == 77).all()
        product = 2 * (A @ other.swapaxes(-1, -2)) - old
        assert np.allclose(host(out)[..., triangle], product[..., triangle])


def test_rank_k_of_lists() -> None:
    A = [integers(np.random.default_rng(i), (3, 4)) for i in range(4)]
    assert all((x == a @ a.T).all() for x, a in zip(ms.blas.syrk(A), A, strict=True))
    out = [np.full((3, 3), 9.0) for _ in A]
    assert ms.blas.syrk(A, out=out, uplo="U") is out
    assert all((np.triu(x) == np.triu(a @ a.T)).all() and x[1, 0] == 9 for x, a in zip(out, A, strict=True))
