"""Products of NumPy's arrays by the BLAS that NumPy has loaded: every layout, transposed and conjugated, into given
places, by Python and natively with the same bits. Integers are exact in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from test_launcher import by_python, entered

import mansard as ms
from mansard import native, settings
from mansard.arrays import host_products
from mansard.arrays.gemm import Gemm
from mansard.backends import cblas
from mansard.operations.launcher import LAUNCHER
from mansard.operations.plans import PLANS

NATIVE = LAUNCHER.wait()
pytestmark = [
    pytest.mark.skipif(not NATIVE, reason=f"calls are launched by {native.state()}"),
    pytest.mark.skipif(cblas.library() is None, reason="NumPy's BLAS is not found"),
]
__all__ = ["by_python"]  # a fixture
RNG = np.random.default_rng(17)
DTYPES = ("float32", "float64", "complex64", "complex128")
LAYOUTS = ("row", "column", "padded", "every other", "backwards", "shifted")
TRANS = ("N", "T", "C")


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Libraries answer for it, as they do for users."""
    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    settings.reread()
    PLANS.forget()
    yield
    monkeypatch.undo()
    settings.reread()
    PLANS.forget()


def laid_out(shape: tuple[int, ...], dtype: str, layout: str, integers: bool = True) -> Any:
    """An array of this layout, of small integers or of random numbers."""
    *lead, last = shape
    if layout == "column":
        return laid_out((*shape[:-2], *shape[:-3:-1]), dtype, "row", integers).swapaxes(-1, -2)
    if layout == "padded":
        return laid_out((*lead, last + 3), dtype, "row", integers)[..., 1:-2]
    if layout == "every other":
        return laid_out((*lead, 2 * last), dtype, "row", integers)[..., ::2]
    if layout == "backwards":
        return laid_out(shape, dtype, "row", integers)[..., ::-1]
    if layout == "shifted":
        return laid_out((int(np.prod(shape)) + 1,), dtype, "row", integers)[1:].reshape(shape)

    def numbers() -> Any:
        return (RNG.integers(-3, 4, shape) if integers else RNG.standard_normal(shape)).astype(dtype)

    return numbers() + np.array(1j, dtype) * numbers() if dtype.startswith("complex") else numbers()


def op(A: Any, trans: str) -> Any:
    turned = A if trans == "N" else A.swapaxes(-1, -2)
    return turned.conj() if trans == "C" else turned


def by_blas(monkeypatch: pytest.MonkeyPatch) -> list[cblas.Request]:
    """The launches of BLAS that are planned from now on."""
    found: list[cblas.Request] = []
    real = cblas.launch
    monkeypatch.setattr(cblas, "launch", lambda request: found.append(request) or real(request))
    return found


# ---- values -------------------------------------------------------------------------------------------------------

SIZES = [(4, 3, 5), (1, 4, 5), (4, 1, 5), (1, 1, 5), (3, 4, 1)]  # m, n, k
LEADS: list[tuple[int, ...]] = [(), (1,), (3,)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS)
def test_products_of_every_layout(monkeypatch: pytest.MonkeyPatch, lead: tuple[int, ...], dtype: str) -> None:
    """Four calls each: planned, by the plan, natively; the last ones into a given place full of NaN."""
    planned, places = by_blas(monkeypatch), ("row", "column", "every other", "backwards")
    for number, (a, b, ta, tb) in enumerate(product(LAYOUTS, LAYOUTS, TRANS, TRANS)):
        m, n, k = SIZES[number % len(SIZES)]
        A = laid_out((*lead, k, m) if ta != "N" else (*lead, m, k), dtype, a)
        B = laid_out((*lead, n, k) if tb != "N" else (*lead, k, n), dtype, b)
        wanted, C = op(A, ta) @ op(B, tb), laid_out((*lead, m, n), dtype, places[number % 4])
        around = None if C.base is None else C.base.size - C.size
        for _ in range(3):
            assert np.array_equal(ms.blas.gemm(A, B, trans_a=ta, trans_b=tb), wanted), (a, b, ta, tb, m, n, k)
            C[...] = np.nan
            assert ms.blas.gemm(A, B, trans_a=ta, trans_b=tb, out=C) is C
            assert np.array_equal(C, wanted), (a, b, ta, tb, m, n, k)
        assert around is None or not np.isnan(C.base).any()
    assert {one.routine for one in planned} == {"gemm", "gemv"} and any(
        side.gathered for one in planned for side in one.sides
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_times_vectors_of_every_layout(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    planned = by_blas(monkeypatch)
    for lead, a, of_x, trans in product(LEADS, LAYOUTS, ("row", "every other", "backwards"), TRANS):
        A = laid_out((*lead, 5, 4), dtype, a)
        x = laid_out((*lead, 4 if trans == "N" else 5), dtype, of_x)
        y = laid_out((*lead, 5 if trans == "N" else 4), dtype, of_x)
        wanted = (op(A, trans) @ x[..., None])[..., 0]
        for _ in range(3):
            assert np.array_equal(ms.blas.gemv(A, x, trans=trans), wanted)
            y[...] = np.nan
            assert ms.blas.gemv(A, x, trans=trans, out=y) is y and np.array_equal(y, wanted)
            columns = ms.matmul(op(A, trans), x[..., None])
            assert columns.shape == (*wanted.shape, 1) and np.array_equal(columns[..., 0], wanted)
    assert {one.routine for one in planned} == {"gemv"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("update", [ms.blas.syrk, ms.blas.herk])
def test_updates_write_one_triangle(monkeypatch: pytest.MonkeyPatch, update: Any, dtype: str) -> None:
    """Without `out` both, exactly Hermitian; with it the other triangle stays as it was, NaN in it or not."""
    planned, other = by_blas(monkeypatch), "T" if update is ms.blas.syrk else "C"
    for lead, layout, trans, uplo in product(((), (1,)), LAYOUTS, ("N", other), "LU"):
        A = laid_out((*lead, 6, 4), dtype, layout)
        wanted = A @ op(A, other) if trans == "N" else op(A, other) @ A
        C = laid_out(wanted.shape, dtype, layout)
        part = np.tril(np.ones(C.shape, bool)) if uplo == "L" else np.triu(np.ones(C.shape, bool))
        for _ in range(3):
            assert np.array_equal(update(A, trans=trans, uplo=uplo), wanted)
            C[...] = np.nan
            assert update(A, trans=trans, uplo=uplo, out=C) is C
            assert np.array_equal(C[part], wanted[part]) and np.isnan(C[~part]).all()
    hermitian = update is ms.blas.herk and dtype.startswith("complex")
    assert ("herk" if hermitian else "syrk") in {one.routine for one in planned}


@pytest.mark.parametrize("dtype", DTYPES)
def test_gram_products(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    planned = by_blas(monkeypatch)
    for layout, conj in product(LAYOUTS, (True, False)):
        A, B = laid_out((40, 5), dtype, layout), laid_out((40, 3), dtype, "row")
        left = A.conj().T if conj else A.T
        C, D = laid_out((5, 5), dtype, layout), laid_out((5, 3), dtype, layout)
        for _ in range(3):
            for found, wanted in (
                (ms.gram(A, conj=conj), left @ A), (ms.gram(A, out=C, conj=conj), left @ A),
                (ms.gram(A, B, conj=conj), left @ B), (ms.gram(A, B, out=D, conj=conj), left @ B),
            ):  # fmt: skip
                assert np.array_equal(found, wanted)
    assert {one.routine for one in planned} >= {"gemm", "syrk"}


def test_updates_of_many_rows_are_exactly_hermitian() -> None:
    """Larger than the tiles in which the other triangle is filled."""
    for dtype, layout in product(("float64", "complex64"), ("row", "column", "every other")):
        A = laid_out((75, 40), dtype, layout, integers=False)
        for _ in range(3):
            for C in (ms.blas.herk(A), ms.gram(A[:6])):
                assert np.array_equal(C, C.conj().T) and not np.iscomplex(C.diagonal()).any()
            assert np.allclose(ms.blas.herk(A), A @ A.conj().T, atol=1e-3)


# ---- the two launchers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_both_launchers_give_the_same_bits(dtype: str, by_python: Callable[[], None]) -> None:
    """For sums whose rounding depends on how they are formed."""
    calls = []
    for layout, lead in product(LAYOUTS, ((), (2,))):
        A, B = (laid_out((*lead, 11, 11), dtype, layout, integers=False) for _ in range(2))
        x = laid_out((*lead, 11), dtype, "row", integers=False)
        for trans in TRANS:
            calls += [
                lambda A=A, B=B, trans=trans: ms.blas.gemm(A, B, trans_a=trans, out=np.full_like(A, np.nan)),
                lambda A=A, x=x, trans=trans: ms.blas.gemv(A, x, trans=trans),
            ]
        calls += [lambda A=A: ms.blas.herk(A), lambda A=A, B=B: ms.matmul(A, B)]
        calls += [] if lead else [lambda A=A, B=B: ms.gram(A, B), lambda A=A: ms.gram(A)]
    natively = [[call() for _ in range(3)][-1] for call in calls]
    by_python()
    for call, expected in zip(calls, natively, strict=True):
        assert np.array_equal(call(), expected)


def test_named_arguments_enter_one_function() -> None:
    """The exported one: what it is told by name is read natively, and a launch follows."""
    A, B, C = (laid_out((6, 6), "complex128", layout) for layout in ("padded", "every other", "column"))
    S, x, y = laid_out((3, 6, 6), "float64", "column"), laid_out((3, 6), "float64", "row"), np.empty((3, 6))
    calls: list[Callable[[], Any]] = [
        lambda: ms.matmul(A, B, out=C),
        lambda: ms.matmul(A, B, out=C, alpha=1.0, beta=0.0, backend=None),
        lambda: ms.gram(A, out=C, conj=False),
        lambda: ms.gram(A, B, out=C, deterministic=True),
        lambda: ms.blas.gemm(A, B, trans_a="C", trans_b="T"),
        lambda: ms.blas.gemm(S, S, trans_b="T", out=np.empty((3, 6, 6))),
        lambda: ms.blas.gemv(S, x, trans="T", out=y),
        lambda: ms.blas.herk(A, uplo="U", trans="C", out=C),
        lambda: ms.blas.syrk(A),
    ]
    for call in calls:
        for _ in range(3):
            call()
        assert entered(call) == ["call"]
    assert np.array_equal(ms.blas.gemm(A, B, trans_a="C", trans_b="T", alpha=2.0), 2 * (A.conj().T @ B.T))
    assert "gemm" not in entered(lambda: ms.blas.gemm(A, B, trans_a="C", trans_b="T", alpha=2.0))


def test_other_arguments_are_pythons() -> None:
    A = laid_out((6, 6), "float64", "row")
    ones = np.ones((6, 6))
    for _ in range(3):
        ms.blas.gemm(A, A, trans_a="T", out=ones), ms.blas.syrk(A)
    for _ in range(2):
        with pytest.raises(ValueError, match="trans_a='t' is not one of"):
            ms.blas.gemm(A, A, trans_a="t")
        with pytest.raises(ValueError, match="trans_a="):
            ms.blas.gemm(A, A, trans_a="".join("X"))
        with pytest.raises(TypeError):
            ms.blas.gemm(A, A, trans_a=[])
        with pytest.raises(TypeError, match="unexpected keyword"):
            ms.matmul(A, A, trans_a="T")
        with pytest.raises(ValueError, match="beta scales the content of out"):
            ms.blas.gemm(A, A, beta=1.0)
        with pytest.raises(ValueError, match="uplo='X' is neither"):
            ms.blas.syrk(A, uplo="X")
        with pytest.raises(TypeError, match="positional"):
            ms.blas.syrk(A, A)
        assert np.array_equal(ms.blas.gemm(A, A, alpha=2, trans_a="T", out=ones, beta=0), 2 * A.T @ A)
        assert np.array_equal(ms.matmul(A, A, **{"".join(["o", "ut"]): ones}), A @ A)
        assert np.array_equal(ms.gram(A, conj=1), A.T @ A)


# ---- places -------------------------------------------------------------------------------------------------------


def test_places_are_looked_at_in_every_call() -> None:
    memory = laid_out((200,), "float64", "row")
    A, B = memory[:36].reshape(6, 6), memory[40:76].reshape(6, 6)
    fixed = np.zeros((6, 6))
    fixed.flags.writeable = False
    calls: list[Callable[[Any], Any]] = [
        lambda out: ms.matmul(A, B, out=out), lambda out: ms.blas.gemm(A, B, trans_a="T", out=out),
        lambda out: ms.gram(A, B, out=out), lambda out: ms.blas.syrk(A, out=out),
        lambda out: ms.blas.gemm(A[None], B[None], out=out[None]),
    ]  # fmt: skip
    for call in calls:
        for _ in range(3):
            call(np.empty((6, 6)))
        call(memory[76:112].reshape(6, 6))
        for _ in range(2):
            with pytest.raises(ValueError, match=r"out overlaps [Aa]"):
                call(memory[30:66].reshape(6, 6)[:6])
            with pytest.raises(ValueError, match="read-only"):
                call(fixed)
            with pytest.raises(ValueError, match=r"out has shape .*5"):
                call(np.empty((5, 6)))
            with pytest.raises(ValueError, match="share one place"):
                call(np.lib.stride_tricks.as_strided(np.zeros(6), (6, 6), (0, 8)))
        assert not fixed.any()


def test_a_square_product_may_be_formed_in_place() -> None:
    A, B = laid_out((6, 6), "float64", "row"), laid_out((6, 6), "float64", "row")
    for _ in range(3):
        place, wanted = A.copy(), A @ B
        assert ms.matmul(place, B, out=np.empty((6, 6))) is not place
        assert ms.matmul(place, B, out=place) is place and np.array_equal(place, wanted)


# ---- where BLAS is not called -------------------------------------------------------------------------------------


def test_numpy_answers_where_its_blas_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cblas, "library", lambda: None)
    A, C = laid_out((6, 6), "complex64", "every other"), np.empty((6, 6), "complex64")
    for _ in range(3):
        assert np.array_equal(ms.matmul(A, A, out=C), A @ A)
        assert np.array_equal(ms.blas.gemm(A, A, trans_a="C"), A.conj().T @ A)
        assert np.array_equal(ms.blas.gemv(A[None], A[:1], out=C[:1]), (A @ A[0])[None])
        assert np.array_equal(ms.blas.herk(A), A @ A.conj().T)
        assert np.array_equal(ms.gram(A), A.conj().T @ A)


def test_numpy_answers_for_arrays_between_two_numbers_and_for_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = by_blas(monkeypatch)
    between = np.zeros(8 * 36 + 4, np.uint8)[4:].view(np.float64).reshape(6, 6)
    between[...] = laid_out((6, 6), "float64", "row")
    for _ in range(3):
        assert np.array_equal(ms.matmul(between, between), between @ between)
        plain = between.copy()
        for found in (ms.matmul(plain, plain, backend="reference"), ms.blas.gemm(plain, plain, backend="reference")):
            assert np.array_equal(found, plain @ plain)
        assert np.array_equal(ms.gram(plain, backend="reference"), plain.T @ plain)
    assert not planned


def test_what_blas_is_not_asked_for() -> None:
    """Empty products, large outer ones, several launches, large copies."""

    def asked(m: int, k: int, n: int, **more: Any) -> Any:
        shapes = ((m, k), (k, n), (m, n))
        strides = tuple((columns, 1) for _, columns in shapes)
        layouts = tuple(("row", columns) for _, columns in shapes)
        given = {"steps": (0, 0, 0), "starts": ((0, 0, 0),), "batch": 1, "strides": strides} | more
        return host_products.launch(Gemm("float64", shapes, layouts, conjugated=(False, False), **given))

    assert asked(3, 4, 5) is not None and asked(64, 1, 64) is not None
    for none in (
        asked(0, 4, 5),
        asked(3, 0, 5),
        asked(65, 1, 65),
        asked(1, 1, 1, batch=4097),
        asked(3, 4, 5, starts=((0, 0, 0), (1, 1, 1))),
    ):
        assert none is None
    spread = ((4000, 2), (3, 1), (3, 1))
    assert asked(600, 2000, 3, strides=spread) is None and asked(500, 2000, 3, strides=spread) is not None


@pytest.mark.parametrize("entry", [("cblas",), ("cblas", 9, "d", 64, 1, (0, 0, 0), (1, 1, 1))])
def test_descriptions_that_are_no_product_are_refused(entry: tuple[Any, ...]) -> None:
    assert LAUNCHER.module is not None
    told = (0, (0, 1, 2), ((np.empty, ((2, 2), np.dtype(float)), None, False),), False, 0, 0, 0, (), entry, None, (),
            print, print, None)  # fmt: skip
    with pytest.raises((TypeError, ValueError)):
        LAUNCHER.module.make_run(told)
