"""Products that cuBLAS is called for directly, by Python and by the native launcher: operands of every layout, streams,
workspaces, captures. The library is played by host memory; integers are exact."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from played_cublas import Played

import mansard as ms
from mansard import native
from mansard.arrays.kinds import KINDS
from mansard.arrays.types import StreamSource
from mansard.errors import LaunchError
from mansard.operations import library_launch
from mansard.operations.batched.gemm_call import Form, multiply
from mansard.operations.launcher import LAUNCHER
from mansard.operations.plans import PLANS
from mansard.operations.tall_skinny import gram
from mansard.operations.tall_skinny.pair import Pair
from mansard.plan import first_calls

NATIVE = LAUNCHER.wait()
DTYPES = ("float32", "float64", "complex64", "complex128")
natively = pytest.mark.skipif(not NATIVE, reason=f"calls are launched by {native.state()}")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Every product that a library would answer is one of the played cuBLAS."""
    found = Played()
    monkeypatch.setattr(library_launch, "launch_of", lambda kind, gemm, device: found.launch(gemm))
    monkeypatch.setattr(first_calls, "too_little", lambda *_: "the library is to answer")
    PLANS.forget()
    yield found
    PLANS.forget()


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    real = rng.integers(-3, 4, shape).astype(dtype)
    return real + 1j * rng.integers(-3, 4, shape).astype(dtype) if dtype.startswith("c") else real


def matrix(rng: np.random.Generator, lead: tuple[int, ...], rows: int, columns: int, dtype: str, turned: bool) -> Any:
    """A part of a larger array; `turned`: column by column."""
    if turned:
        return matrix(rng, lead, columns, rows, dtype, False).swapaxes(-1, -2)
    return integers(rng, (*lead, rows + 2, columns + 3), dtype)[..., 1:-1, 2:-1]


CASES = list(product(DTYPES, product((False, True), repeat=3)))


@pytest.mark.parametrize(("dtype", "turned"), CASES)
def test_matrices_of_every_layout(played: Played, dtype: str, turned: tuple[bool, ...]) -> None:
    rng = np.random.default_rng(1)
    A, B = matrix(rng, (), 34, 40, dtype, turned[0]), matrix(rng, (), 40, 36, dtype, turned[1])
    C = matrix(rng, (), 34, 36, dtype, turned[2])
    around = C.base.copy() if C.base is not None else None
    for _ in range(4):  # by Python, then natively
        C[...] = np.nan
        assert ms.matmul(A, B, out=C) is C
        assert np.array_equal(C, A @ B) and np.array_equal(ms.matmul(A, B), A @ B)
    assert played.lib.calls and {name for name, _ in played.lib.calls} == {"gemm"}
    assert around is not None
    assert np.array_equal(ms.matmul(A, B, alpha=2.0), 2 * (A @ B)), "factors are the library's"


FORMS = [Form(ta, ta and conj, tb, tb and conj) for ta, tb, conj in product((False, True), repeat=3)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_stacks(played: Played, dtype: str, form: Form) -> None:
    rng, lead = np.random.default_rng(2), (3,)
    A = matrix(rng, lead, 9, 7, dtype, False) if form.trans_a else matrix(rng, lead, 7, 9, dtype, True)
    B = matrix(rng, lead, 5, 9, dtype, False) if form.trans_b else matrix(rng, lead, 9, 5, dtype, False)
    a, b = (x.swapaxes(-1, -2) if turned else x for x, turned in ((A, form.trans_a), (B, form.trans_b)))
    wanted = (a.conj() if form.conj_a else a) @ (b.conj() if form.conj_b else b)
    for _ in range(3):
        assert np.array_equal(multiply(A, B, None, 1.0, 0.0, None, form), wanted)
    assert {name for name, _ in played.lib.calls} == {"stack"}


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_adjoints_of_tall_matrices_are_never_copied(played: Played, dtype: str, turned: tuple[bool, bool]) -> None:
    """Beyond the widths of our kernels. Where only a conjugate without transposing would do, the library answers."""
    rng = np.random.default_rng(3)
    A, B = matrix(rng, (), 300, 130, dtype, turned[0]), matrix(rng, (), 300, 7, dtype, turned[1])
    for _ in range(3):
        assert np.array_equal(ms.gram(A, B), A.conj().T @ B)
        assert np.array_equal(ms.gram(A, B, conj=False), A.T @ B)
        assert np.array_equal(ms.gram(A), A.conj().T @ A)
    one_sided = dtype.startswith("c") and turned[0]  # the result lies row by row
    assert len(played.lib.calls) == (3 if one_sided else 6)


@pytest.mark.parametrize(
    ("dtype", "turned", "same", "left"),
    [
        ("complex128", False, False, True), ("float64", True, False, True), ("complex128", False, True, False),
        ("complex64", False, False, False), ("complex128", True, False, False),
    ],
)  # fmt: skip
def test_wide_gram_products_may_be_left_to_cublas(
    played: Played, monkeypatch: pytest.MonkeyPatch, dtype: str, turned: bool, same: bool, left: bool
) -> None:
    """Where it sums as exactly as a kernel, for two matrices, and conjugates no copy of A."""
    asked: list[bool] = []
    real = Pair.plan
    monkeypatch.setattr(Pair, "plan", lambda *given: asked.append(given[6]) or real(*given))
    A = matrix(np.random.default_rng(7), (), 300, 100, dtype, turned)
    gram.plan_gram(A, None if same else A.copy(), None, None)
    assert asked == [left]


def test_systems_are_not_taken_for_products(played: Played) -> None:
    """Triangular systems, and matrices times vectors, have problems without conj_a or conj_b."""
    rng = np.random.default_rng(4)
    A = np.tril(rng.integers(1, 3, (2, 9, 9))).astype(float) + 8 * np.eye(9)
    B = rng.integers(-3, 4, (2, 9, 4)).astype(float)
    for _ in range(3):
        assert np.allclose(A @ ms.blas.trsm(A, B), B) and not played.launches
        assert np.allclose(ms.linalg.solve(A, B), np.linalg.solve(A, B)) and not played.launches
    x = rng.integers(-3, 4, (2, 9)).astype(float)
    for _ in range(3):
        assert np.array_equal(ms.blas.gemv(A, x), (A @ x[..., None])[..., 0])
    assert played.lib.calls


def test_places_that_overlap_are_refused(played: Played) -> None:
    whole = np.ones((80, 40))
    for _ in range(3):
        ms.matmul(whole[:40], whole[:40], out=whole[40:])
    for _ in range(2):
        with pytest.raises(ValueError, match="out overlaps"):
            ms.matmul(whole[:40], whole[:40], out=whole[30:70])


# ---- streams, captures and contexts, natively -------------------------------------------------------------------


class Gpu:
    """NumPy's arrays as if they were on a GPU, on the stream that the test names."""

    package, cublas_dtypes, written = "numpy", DTYPES, None

    def __init__(self) -> None:
        of = KINDS["numpy"]
        self.address, self.empty, self.maker, self.stream = of.address, of.empty, of.maker, 64

    def stream_of(self, device: tuple[str, int]) -> Any:
        return lambda: self.stream

    def stream_source(self, device: tuple[str, int]) -> StreamSource:
        return StreamSource(lambda: self.stream)


class Call:
    """Products of two matrices on a played GPU; the first call is Python's, later ones are native."""

    def __init__(self, A: np.ndarray, B: np.ndarray) -> None:
        from mansard.operations.operation import Operation

        self.played, self.gpu, self.A, self.B = Played(), Gpu(), A, B
        views = [KINDS["numpy"].view(x, "x") for x in (A, B, np.empty((A.shape[0], B.shape[1]), A.dtype))]
        gemm = library_launch.of_matrices(*views, [("row", x.shape[1]) for x in views])
        launch = self.played.launch(gemm)
        place = library_launch.Place(self.gpu, ("cuda", 0), views[2].shape, views[2].dtype, ((0, 0), (0, 0)))  # type: ignore[arg-type]
        assert launch is not None
        path = library_launch.fast_path(place, launch, lambda *given: "general")

        class Planned:
            run = staticmethod(path)

        self.operation = Operation("played", lambda *given: Planned, lists=False)  # type: ignore[arg-type, return-value]

    def __call__(self) -> Any:
        from mansard.operations.operation import call

        return call(self.operation, self.A, self.B, None, 1.0, 0.0, None, None)


def made() -> Call:
    rng = np.random.default_rng(6)
    found = Call(integers(rng, (4, 5), "complex128"), integers(rng, (5, 3), "complex128"))
    assert np.array_equal(found(), found.A @ found.B)  # by Python
    found.played.lib.told.clear(), found.played.lib.calls.clear()
    return found


@needs_cpu
@natively
def test_streams_have_workspaces_of_their_own() -> None:
    call = made()
    for stream in (64, 64, 65, 65, 64):
        call.gpu.stream = stream
        assert np.array_equal(call(), call.A @ call.B)
    told = [(what, value) for what, _, value in call.played.lib.told]
    first, second = told[1][1], told[3][1]
    of_64, of_65 = [("stream", 64), ("workspace", first)], [("stream", 65), ("workspace", second)]
    assert told == [*of_64, *of_65, *of_64]
    assert first != second and first and len({handle for _, handle in call.played.lib.calls}) == 1


@needs_cpu
@natively
@pytest.mark.parametrize("trouble", ["capturing", "context", "streams"])
def test_python_multiplies_by_another_handle(trouble: str) -> None:
    """On a captured stream, without a workspace; in another context; on more streams than the launcher knows."""
    call = made()
    call()
    lib, native_handle = call.played.lib, call.played.lib.calls[-1][1]
    if trouble == "streams":
        for call.gpu.stream in range(100, 107):
            call()
        call.gpu.stream = 200
    else:
        lib.capturing = call.played.driver.captured = int(trouble == "capturing")
        lib.context = 12 if trouble == "context" else 11
    lib.told.clear()
    assert np.array_equal(call(), call.A @ call.B)
    assert lib.calls[-1][1] != native_handle
    assert (lib.told[-1][2] == 0) == (trouble == "capturing")
    assert lib.context == (12 if trouble == "context" else 11), "the caller's context stays"


@needs_cpu
@natively
def test_failures_raise() -> None:
    call = made()
    call()
    call.played.lib.status = 13
    with pytest.raises(LaunchError, match=r"cublasZgemm: cuBLAS status 13"):
        call()
    call.played.lib.status = 0
    assert np.array_equal(call(), call.A @ call.B)


@needs_cpu
@natively
def test_threads_take_turns() -> None:
    call, wrong = made(), []
    wanted = call.A @ call.B

    def work() -> None:
        for _ in range(200):
            if not np.array_equal(call(), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_cpu
@natively
def test_products_that_are_none_are_refused() -> None:
    entry = list(made().played.launches[0].entry)
    assert LAUNCHER.module is not None
    maker = (np.empty, ((2, 2),), None, False)
    for place, value in ((9, ((3, 5, 0), (0, 5, 0), (2, 5, 0))), (10, 0), (11, b"short")):
        other = (*entry[:place], value, *entry[place + 1 :])
        told = (0, (0, 1, 2), (maker,), False, 0, 0, 0, (), other, None, (), len, len, None)
        with pytest.raises((TypeError, ValueError)):
            LAUNCHER.module.make_run(told)
