"""Products that the array library does in place: factors, gaps, transposes, several starts; integers are exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.arrays import kinds as arrays
from mansard.backends import cuda
from mansard.operations import stacks
from mansard.operations.batched import library as library_products
from mansard.operations.batched.gemm_call import Form, multiply

_DTYPES = ("float32", "float64", "complex64", "complex128")
_on_gpus = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")


def _integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    real = rng.integers(-3, 4, shape).astype(dtype)
    return real + 1j * rng.integers(-3, 4, shape).astype(dtype) if dtype.startswith("c") else real


def _operands(dtype: str, form: Form, turned: tuple[bool, ...], lead: tuple[int, ...] = (5,)) -> list[np.ndarray]:
    """A, B and C as parts of larger arrays; `turned` ones lie column by column."""
    rng, (m, n, k) = np.random.default_rng(3), (34, 36, 40)
    sizes = [(k, m) if form.trans_a else (m, k), (n, k) if form.trans_b else (k, n), (m, n)]
    found = []
    for (rows, columns), columnwise in zip(sizes, turned, strict=True):
        if columnwise:
            found.append(_integers(rng, (*lead, columns + 2, rows + 3), dtype)[..., 1:-1, 2:-1].swapaxes(-1, -2))
        else:
            found.append(_integers(rng, (*lead, rows + 2, columns + 3), dtype)[..., 1:-1, 2:-1])
    return found


def _expected(given: list[np.ndarray], form: Form, alpha: complex, beta: complex) -> np.ndarray:
    A, B, C = given
    A, B = (x.swapaxes(-1, -2) if t else x for x, t in ((A, form.trans_a), (B, form.trans_b)))
    return alpha * ((A.conj() if form.conj_a else A) @ (B.conj() if form.conj_b else B)) + beta * C


_CASES = [
    (dtype, Form(ta, ta and conj, tb, tb and conj), turned)
    for dtype, ta, tb, conj in product(_DTYPES, (False, True), (False, True), (False, True))
    for turned in ((False, False, False), (True, False, True), (False, True, True))
    if conj == dtype.startswith("c")
]


@pytest.mark.parametrize(("dtype", "form", "turned"), _CASES)
def test_baddbmm_where_tensors_lie(dtype: str, form: Form, turned: tuple[bool, ...]) -> None:
    torch = pytest.importorskip("torch")
    given = _operands(dtype, form, turned)
    wanted = _expected(given, form, 2.0, -1.0)
    A, B, C = (torch.from_numpy(x) for x in given)
    kind = arrays.kind_of(A, "A")
    a, b = stacks.operand_of(kind, A, "A", form.trans_a), stacks.operand_of(kind, B, "B", form.trans_b)
    batch = stacks.batch_of(a, b, stacks.operand_of(kind, C, "out"), (5,))
    problem = stacks.problem_of(batch, (form.conj_a, form.conj_b))
    run = kind.strided_gemm(library_products.described(problem, batch))
    assert run is not None
    run(A, B, C, 2.0, complex(-1.0))
    assert np.array_equal(C.numpy(), wanted)


def _on_gpu(library: str, given: list[np.ndarray]) -> list[Any]:
    """The same strides there."""
    found = []
    for x in given:
        base = x.base if x.base is not None else x
        while base.base is not None:
            base = base.base
        offset = (x.ctypes.data - base.ctypes.data) // x.itemsize
        if library == "torch":
            import torch

            steps = tuple(step // x.itemsize for step in x.strides)
            found.append(torch.from_numpy(base.copy()).cuda().as_strided(x.shape, steps, offset))
        else:
            import cupy

            whole = cupy.asarray(base).reshape(-1)[offset:]
            found.append(cupy.lib.stride_tricks.as_strided(whole, x.shape, x.strides))
    return found


@_on_gpus
@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.parametrize(("dtype", "form", "turned"), _CASES)
def test_on_gpus(library: str, dtype: str, form: Form, turned: tuple[bool, ...]) -> None:
    lead = (2, 5)
    given = _operands(dtype, form, turned, lead)
    alpha = 2.0 + 1j if dtype.startswith("c") else 2.0
    wanted = _expected(given, form, alpha, -1.0)
    A, B, C = _on_gpu(library, given)
    for beta, expected in ((-1.0, wanted), (0.0, _expected(given, form, alpha, 0.0))):
        assert multiply(A, B, C, alpha, beta, None, form) is C
        found = C.cpu().numpy() if library == "torch" else C.get()
        assert np.array_equal(found, expected)


@_on_gpus
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_what_lies_around_stays(library: str) -> None:
    given = _operands("float64", Form(), (False, False, False))
    A, B, _ = _on_gpu(library, given)
    before = np.array(given[2].base)
    (whole,) = _on_gpu(library, [before])
    multiply(A, B, whole[:, 1:-1, 2:-1], 1.0, 1.0, None)
    before[:, 1:-1, 2:-1] += given[0] @ given[1]
    assert np.array_equal(whole.cpu().numpy() if library == "torch" else whole.get(), before)


_TURNS = list(product((False, True), repeat=3))


def _fetched(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def _multiply_matrices(A: Any, B: Any, C: Any, given: list[np.ndarray], alpha: complex) -> None:
    """`matmul` of matrices none of which is skinny: into a part of an array, and into one of its own."""
    for beta in (-1.0, 0.0):
        wanted = _expected([*given[:2], _fetched(C).copy()], Form(), alpha, beta)
        assert ms.matmul(A, B, out=C, alpha=alpha, beta=beta) is C
        assert np.array_equal(_fetched(C), wanted)
    for factor in (1.0, alpha):
        assert np.array_equal(_fetched(ms.matmul(A, B, alpha=factor)), _expected(given, Form(), factor, 0.0))
    C[...] = float("nan")  # which times zero would be NaN still
    assert np.array_equal(_fetched(ms.matmul(A, B, out=C)), given[0] @ given[1])


@pytest.mark.parametrize("turned", _TURNS)
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_matrices(library: str, dtype: str, turned: tuple[bool, ...]) -> None:
    given = _operands(dtype, Form(), turned, ())
    A, B, C = given
    if library == "torch":
        torch = pytest.importorskip("torch")
        A, B, C = (torch.from_numpy(x) for x in given)
    _multiply_matrices(A, B, C, [given[0], given[1], given[2].copy()], 2.0 + 1j if dtype.startswith("c") else 2.0)


@_on_gpus
@pytest.mark.parametrize("turned", _TURNS)
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_matrices_on_gpus(library: str, dtype: str, turned: tuple[bool, ...]) -> None:
    given = _operands(dtype, Form(), turned, ())
    _multiply_matrices(*_on_gpu(library, given), given, 2.0 + 1j if dtype.startswith("c") else 2.0)


def test_factors_of_real_matrices_are_real() -> None:
    torch = pytest.importorskip("torch")
    A = torch.ones(20, 20)
    with pytest.raises(TypeError, match="alpha and beta must be real for float32"):
        ms.matmul(A, A, alpha=1j)
    assert (ms.matmul(A, A, alpha=2 + 0j) == 40).all()


@_on_gpus
@pytest.mark.parametrize(("m", "k", "n"), [(1, 70, 40), (40, 70, 1), (1, 70, 1), (33, 1, 40), (200, 300, 1)])
def test_thin_matrices_on_gpus(m: int, k: int, n: int) -> None:
    import cupy

    rng = np.random.default_rng(5)
    for a, b in product((rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, m)).T),
                        (rng.integers(-3, 4, (k, n)), rng.integers(-3, 4, (n, k)).T)):  # fmt: skip
        A, B = (cupy.asarray(x.astype("float64"), order="K") for x in (a, b))
        assert np.array_equal(ms.matmul(A, B).get(), a @ b)


@_on_gpus
def test_products_follow_the_callers_stream() -> None:
    """Behind half a second of other work there: a product on another stream would be over before its operand is."""
    import cupy

    A, stream = cupy.zeros((300, 300)), cupy.cuda.Stream(non_blocking=True)
    ones = cupy.ones((8000, 8000))
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(10):
            ones @ ones
        A[...] = 1.0
        C = ms.matmul(A, A)
    stream.synchronize()
    assert (C.get() == 300).all()


@_on_gpus
@pytest.mark.parametrize("dtype", _DTYPES)
def test_graph_holds_products(dtype: str) -> None:
    """CuPy does not let cuBLAS be captured; alone and in stacks."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    for lead in ((), (5,)):
        A, B, C = (cupy.asarray(x) for x in _operands(dtype, Form(), (False, False, False), lead))
        with stream:
            ms.matmul(A, B, out=C)  # as callers do before they capture
            stream.begin_capture()
            ms.matmul(A, B, out=C, alpha=2.0)
            graph = stream.end_capture()
        stream.synchronize()
        C[...] = 0
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert np.array_equal(C.get(), 2 * (A.get() @ B.get()))


@_on_gpus
@pytest.mark.parametrize("name", ["cholesky_ex", "lu_factor_ex"])
def test_graph_holds_blocked_factorizations(name: str) -> None:
    import cupy

    rng = np.random.default_rng(8)
    S = rng.standard_normal((5, 200, 200))
    S = cupy.asarray(S @ S.swapaxes(-1, -2) + 200 * np.eye(200))
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    wanted = getattr(ms.linalg, name)(S)[0].get()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        getattr(ms.linalg, name)(S)
        stream.synchronize()
        stream.begin_capture()
        found = getattr(ms.linalg, name)(S)[0]
        graph = stream.end_capture()
        found[...] = 0
        graph.launch(stream)
    stream.synchronize()
    assert np.allclose(found.get(), wanted, rtol=1e-12, atol=1e-12)
