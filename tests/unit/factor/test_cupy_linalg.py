"""`arrays/cupy_linalg.py` without a GPU: CuPy's arrays played by NumPy's, cuSOLVER and cuBLAS's batches by LAPACK."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import get_lapack_funcs, solve_triangular

from mansard.arrays.cupy_linalg import CupyLinalg
from mansard.operations.factor import library
from mansard.operations.factor.by_library import quick_on_gpu
from mansard.operations.factor.task import Task

LETTERS = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}


class Played(np.ndarray):
    """A NumPy array with CuPy's attributes for addresses."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


def played(array: Any) -> Any:
    return np.ascontiguousarray(array).view(Played)


def at(address: int, dtype: str, rows: int, columns: int, lead: int) -> Any:
    """A matrix that lies column after column, in place."""
    item = np.dtype(dtype).itemsize
    memory = (ctypes.c_char * (lead * columns * item)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(columns, lead).T[:rows]


class Solver:
    """cuSOLVER's routines by their names, as CuPy binds them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        dtype, routine = LETTERS[name[0]], name[1:]
        if routine.endswith("_bufferSize"):
            return lambda *arguments: 5
        self.calls.append(routine)
        return lambda *arguments: getattr(self, f"_{routine.replace('un', 'or')}")(dtype, *arguments)

    def _getrf(self, dtype: str, _: int, m: int, n: int, A: int, lda: int, work: int, pivots: int, info: int) -> None:
        F, p, i = get_lapack_funcs(("getrf",), dtype=np.dtype(dtype))[0](at(A, dtype, m, n, lda))
        if not pivots:
            F = at(A, dtype, m, n, lda).copy()
            for k in range(min(m, n)):
                F[k + 1 :, k] /= F[k, k]
                F[k + 1 :, k + 1 :] -= np.outer(F[k + 1 :, k], F[k, k + 1 :])
        else:
            at(pivots, "int32", min(m, n), 1, min(m, n))[:, 0] = p + 1
        at(A, dtype, m, n, lda)[...] = F
        at(info, "int32", 1, 1, 1)[...] = i

    def _getrs(
        self, dtype: str, _: int, trans: int, n: int, k: int, A: int, lda: int, pivots: int, B: int, ldb: int, info: int
    ) -> None:
        right, p = at(B, dtype, n, k, ldb), at(pivots, "int32", n, 1, n)[:, 0] - 1
        right[...] = get_lapack_funcs(("getrs",), dtype=np.dtype(dtype))[0](at(A, dtype, n, n, lda), p, right)[0]

    def _potrf(self, dtype: str, _: int, fill: int, n: int, A: int, lda: int, work: int, size: int, info: int) -> None:
        F, i = get_lapack_funcs(("potrf",), dtype=np.dtype(dtype))[0](at(A, dtype, n, n, lda), lower=fill == 0, clean=0)
        at(A, dtype, n, n, lda)[...] = F
        at(info, "int32", 1, 1, 1)[...] = i

    def _potrs(
        self, dtype: str, _: int, fill: int, n: int, k: int, A: int, lda: int, B: int, ldb: int, info: int
    ) -> None:
        right = at(B, dtype, n, k, ldb)
        potrs = get_lapack_funcs(("potrs",), dtype=np.dtype(dtype))[0]
        right[...] = potrs(at(A, dtype, n, n, lda), right, lower=fill == 0)[0]

    def _geqrf(
        self, dtype: str, _: int, m: int, n: int, A: int, lda: int, tau: int, work: int, size: int, info: int
    ) -> None:
        F, t, _, _ = get_lapack_funcs(("geqrf",), dtype=np.dtype(dtype))[0](at(A, dtype, m, n, lda))
        at(A, dtype, m, n, lda)[...] = F
        at(tau, dtype, min(m, n), 1, min(m, n))[:, 0] = t

    def _orgqr(
        self, dtype: str, _: int, m: int, n: int, k: int, A: int, lda: int, tau: int, work: int, size: int, info: int
    ) -> None:
        name = "ungqr" if dtype.startswith("c") else "orgqr"
        Q = get_lapack_funcs((name,), dtype=np.dtype(dtype))[0](at(A, dtype, m, n, lda), at(tau, dtype, k, 1, k)[:, 0])
        at(A, dtype, m, n, lda)[...] = Q[0]


def _as_played(function: Any) -> Any:
    return lambda *arguments, **options: function(*arguments, **options).view(Played)


@pytest.fixture
def by() -> Any:
    """The bindings, on memory of the CPU."""
    made = CupyLinalg.__new__(CupyLinalg)
    names = ("triu", "tril", "ascontiguousarray", "broadcast_to", "where", "empty", "zeros", "arange", "eye")
    module = {name: _as_played(getattr(np, name)) for name in names}
    handles = SimpleNamespace(get_cusolver_handle=lambda: 0, get_cublas_handle=lambda: 0)
    made.cupy = SimpleNamespace(**module, cuda=SimpleNamespace(device=handles))
    made.cusolver = Solver()
    made.cublas = SimpleNamespace(CUBLAS_FILL_MODE_LOWER=0, CUBLAS_FILL_MODE_UPPER=1, CUBLAS_OP_N=0)
    made.solve_triangular = lambda A, B, lower: played(
        np.stack([solve_triangular(a, b, lower=lower) for a, b in zip(A, B, strict=True)])
    )  # type: ignore[method-assign]
    return made


def normal(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return played((values + 1j * rng.standard_normal(shape) if dtype.startswith("c") else values).astype(dtype))


def parts(by: Any, task: Task, A: Any, B: Any = None) -> Any:
    kind: Any = SimpleNamespace(
        linalg=by, conj=np.conj, matmul=np.matmul, module=np, astype=lambda a, dtype: a.astype(dtype),
        arange=lambda n, like: np.arange(n), view=lambda a, name: SimpleNamespace(dtype=a.dtype.name),
    )  # fmt: skip
    return library.answer(kind, task, A, B)


CASES = [("float64", (2,)), ("complex128", (1,)), ("float32", ()), ("complex64", (2, 3))]


@pytest.mark.parametrize("dtype, lead", CASES)
def test_each_matrix_is_factored_in_its_place(by: Any, dtype: str, lead: tuple[int, ...]) -> None:
    eps = 3000 * float(np.finfo(dtype).eps)
    for shape in ((70, 70), (80, 66), (66, 80)):
        A = normal((*lead, *shape), dtype)
        found = parts(by, Task("lu"), A)
        for where in np.ndindex(lead):
            F, p, _ = get_lapack_funcs(("getrf",), dtype=np.dtype(dtype))[0](A[where])
            assert np.allclose(found["F"][where], F, atol=eps) and (found["PIVOTS"][where] == p).all()
        assert not found["INFO"].any() and found["INFO"].shape == lead
        for want, rows in (("reduced", min(shape)), ("complete", shape[0])):
            made = parts(by, Task("qr", want), A)
            assert made["Q"].shape == (*lead, shape[0], rows) and made["F"].shape == (*lead, rows, shape[1])
            assert np.allclose(made["Q"] @ made["F"], A, atol=eps) and not np.tril(made["F"], -1).any()
            assert np.allclose(np.conj(made["Q"]).swapaxes(-1, -2) @ made["Q"], np.eye(rows), atol=eps)
        assert np.array_equal(parts(by, Task("qr", "r"), A)["F"], parts(by, Task("qr", "reduced"), A)["F"])
        raw = parts(by, Task("qr", "raw"), A)
        assert raw["F"].shape == A.shape and raw["TAU"].shape == (*lead, min(shape))
    assert not [name for name in by.cusolver.calls if "Batched" in name]


@pytest.mark.parametrize("dtype, lead", CASES)
def test_systems_inverses_and_determinants(by: Any, dtype: str, lead: tuple[int, ...]) -> None:
    eps, n = 3000 * float(np.finfo(dtype).eps), 67
    A, B = normal((*lead, n, n), dtype) + played(9 * np.eye(n, dtype=dtype)), normal((*lead, n, 3), dtype, 1)
    assert np.allclose(A @ parts(by, Task("lu", "solve"), A, B)["X"], B, atol=eps)
    assert np.allclose(A @ parts(by, Task("lu", "inverse"), A)["F"], np.eye(n), atol=eps)
    found, expected = parts(by, Task("lu", "logdet"), A), np.linalg.slogdet(A)
    assert np.allclose(found["F"], expected[0], atol=eps) and np.allclose(found["X"], expected[1], rtol=eps)
    bare = parts(by, Task("lu", pivot=False), A)
    assert (bare["PIVOTS"] == np.arange(n)).all()
    assert np.allclose((np.tril(bare["F"], -1) + np.eye(n)) @ np.triu(bare["F"]), A, atol=100 * eps)
    H = played(A @ np.conj(A).swapaxes(-1, -2) + (200 * np.eye(n)).astype(dtype))
    assert np.allclose(H @ parts(by, Task("cholesky", "solve"), H, B)["X"], B, atol=100 * eps)
    for upper in (False, True):
        half = played(np.where(np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool), H, np.nan))
        F = parts(by, Task("cholesky", upper=upper), half)["F"]
        product = np.conj(F).swapaxes(-1, -2) @ F if upper else F @ np.conj(F).swapaxes(-1, -2)
        assert np.allclose(product, H, atol=100 * eps)
    if lead:
        tall, right = normal((*lead, 80, n), dtype)[0], normal((*lead, 80, 2), dtype, 2)[0]
        if tall.ndim == 3:
            X = parts(by, Task("qr", "solve"), tall, right)["X"]
            assert np.allclose(
                X, np.stack([np.linalg.lstsq(a, b)[0] for a, b in zip(tall, right, strict=True)]), atol=eps
            )


def test_singular_and_indefinite_matrices_are_told(by: Any) -> None:
    A = normal((3, 70, 70), "float64")
    A[1, :, 5] = 0
    for want in ("solve", "inverse", "factor"):
        assert list(parts(by, Task("lu", want), A, A)["INFO"]) == [0, 6, 0]
    H = played(A @ A.swapaxes(1, 2) + np.eye(70))
    H[2, 9, 9] = -1
    for want in ("solve", "factor"):
        assert list(parts(by, Task("cholesky", want), H, A)["INFO"]) == [0, 0, 10]


def test_small_matrices_of_a_batch_stay_together(by: Any) -> None:
    assert by._one_by_one(normal((1, 8, 8), "float64")) and by._one_by_one(normal((9, 65, 8), "float64"))
    assert not by._one_by_one(normal((2, 64, 64), "float64"))


def test_later_calls_take_the_way_of_the_first() -> None:
    """Parts in their order, vectors as columns, and a place that may overlap what is read."""
    seen = []

    def way(A: Any, B: Any, outs: dict[str, Any]) -> dict[str, Any]:
        seen.append((A.shape, None if B is None else B.shape, outs))
        return {"INFO": np.zeros(2, np.int32), "X": 2 * (A if B is None else B)}

    A, b = np.ones((2, 3, 3)), np.arange(6.0).reshape(2, 3)
    matrices, vectors = (quick_on_gpu(way, ("X", "INFO"), one) for one in (False, True))
    assert [part.shape for part in matrices(A, None, None) or ()] == [(2, 3, 3), (2,)]
    found = vectors(A, b, None)
    assert found is not None and np.array_equal(found[0], 2 * b)
    twice = 2 * b
    found = vectors(A, b, b)
    assert found is not None and found[0] is b and np.array_equal(b, twice)
    assert seen == [((2, 3, 3), None, {}), *[((2, 3, 3), (2, 3, 1), {})] * 2]
