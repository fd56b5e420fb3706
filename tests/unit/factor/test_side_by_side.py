"""`operations/factor/side_by_side.py` without a GPU: cuSOLVER played by LAPACK on host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import get_lapack_funcs

from mansard.arrays.kinds import KINDS
from mansard.backends import beside
from mansard.backends.cusolver import Cusolver
from mansard.errors import LaunchError
from mansard.operations.factor import side_by_side
from mansard.operations.factor.task import Task

NUMPY, STREAMS = KINDS["numpy"], [70, 71, 72]
LETTERS = {"S": "float32", "D": "float64", "C": "complex64", "Z": "complex128"}


def at(address: int, dtype: str, rows: int, columns: int) -> Any:
    """A matrix that lies column after column, in place."""
    memory = (ctypes.c_char * (rows * columns * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(columns, rows).T


class Library:
    """cuSOLVER's functions by their names. `calls` has the stream and the workspace of every factorization."""

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}
        self.calls: list[tuple[int, int]] = []
        self.status = 0

    def __getattr__(self, name: str) -> Any:
        letter, routine = name[len("cusolverDn")], name[len("cusolverDnX") :]

        def run(*arguments: Any) -> int:
            return self.status or getattr(self, f"_{routine}")(LETTERS[letter], *arguments) or 0

        run.argtypes = ()  # type: ignore[attr-defined]
        return run

    def cusolverDnCreate(self, handle: Any) -> int:
        handle._obj.value = 900 + len(self.streams)
        self.streams[handle._obj.value] = -1
        return 0

    def cusolverDnSetStream(self, handle: Any, stream: Any) -> int:
        self.streams[handle.value] = stream.value
        return 0

    def _getrf_bufferSize(self, dtype: str, handle: Any, m: int, n: int, A: int, lda: int, size: int) -> None:
        ctypes.c_int.from_address(size).value = 3 * n

    def _getrf(
        self, dtype: str, handle: Any, m: int, n: int, A: int, lda: int, work: int, rows: int, info: int
    ) -> None:
        self.calls.append((self.streams[handle.value], work))
        at(work, dtype, 3 * n, 1)[...] = 7
        F, pivots, bad = get_lapack_funcs(("getrf",), dtype=np.dtype(dtype))[0](at(A, dtype, n, n))
        at(A, dtype, n, n)[...], at(rows, "int32", n, 1)[:, 0], at(info, "int32", 1, 1)[...] = F, pivots + 1, bad

    def _getrs(
        self,
        dtype: str,
        handle: Any,
        trans: int,
        n: int,
        k: int,
        A: int,
        lda: int,
        rows: int,
        B: int,
        ldb: int,
        info: int,
    ) -> None:
        right, pivots = at(B, dtype, n, k), at(rows, "int32", n, 1)[:, 0] - 1
        right[...] = get_lapack_funcs(("getrs",), dtype=np.dtype(dtype))[0](at(A, dtype, n, n), pivots, right)[0]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    driver = SimpleNamespace(
        current_context=lambda: ctypes.c_void_p(), make_current=lambda _: None, captured=0,
        capture_id=lambda stream: driver.captured,
    )  # fmt: skip
    backend = SimpleNamespace(name="cuda", driver=driver, device=SimpleNamespace(ordinal=0))

    @contextmanager
    def several(_: Any, stream: int, launches: int, are_chains: bool = False) -> Iterator[list[int]]:
        assert are_chains
        yield STREAMS[:launches]

    monkeypatch.setattr(side_by_side, "select", lambda device, name: backend)
    monkeypatch.setattr(beside, "several", several)
    monkeypatch.setattr(side_by_side, "cusolver", lambda: Cusolver(found))
    found.driver = driver  # type: ignore[attr-defined]
    return found


def stack(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    real = rng.standard_normal(shape).astype(dtype)
    return real + 1j * rng.standard_normal(shape).astype(dtype) if dtype.startswith("c") else real


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", LETTERS.values())
def test_factors_solutions_and_inverses(library: Library, dtype: str, turned: bool) -> None:
    A, B = stack(dtype, 5, 9, 9), stack(dtype, 5, 9, 4)
    A = A.swapaxes(-1, -2) if turned else A
    before, close = A.copy(), 500 * np.finfo(dtype).eps
    X = side_by_side.factors(NUMPY, Task("lu", "solve"), A, B)
    inverse = side_by_side.factors(NUMPY, Task("lu", "inverse"), A)
    found = side_by_side.factors(NUMPY, Task("lu", "factor"), A)
    assert X and inverse and found and np.array_equal(A, before), "A is not overwritten"
    assert np.abs(A @ X["X"] - B).max() < close and np.abs(A @ inverse["F"] - np.eye(9)).max() < close
    L, U = np.tril(found["F"], -1) + np.eye(9), np.triu(found["F"])
    for i, rows in enumerate(found["PIVOTS"]):
        ordered = A[i].copy()
        for row, other in enumerate(rows):
            ordered[[row, other]] = ordered[[other, row]]
        assert np.abs(L[i] @ U[i] - ordered).max() < close
    assert not found["INFO"].any() and found["F"].flags.c_contiguous and X["X"].flags.c_contiguous


def test_matrices_of_one_stream_share_a_workspace_and_others_do_not(library: Library) -> None:
    side_by_side.factors(NUMPY, Task("lu", "solve"), stack("float64", 2, 4, 6, 6), stack("float64", 2, 4, 6, 2))
    assert [stream for stream, _ in library.calls] == [STREAMS[i % 3] for i in range(8)]
    rooms = {stream: {work for other, work in library.calls if other == stream} for stream in STREAMS}
    assert all(len(found) == 1 for found in rooms.values()) and len(set.union(*rooms.values())) == 3


def test_singular_matrices_are_reported(library: Library) -> None:
    A = stack("float64", 3, 6, 6)
    A[1] = 0
    found = side_by_side.factors(NUMPY, Task("lu", "factor"), A)
    assert found is not None and list(found["INFO"] > 0) == [False, True, False]


def test_what_is_left_to_the_array_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    factor, A = Task("lu", "factor"), stack("float64", 3, 6, 6)
    assert side_by_side.factors(NUMPY, factor, A[:1]) is None, "one matrix"
    assert side_by_side.factors(NUMPY, factor, A[:, :5]) is None, "not square"
    assert side_by_side.factors(NUMPY, Task("lu", "factor", pivot=False), A) is None
    assert side_by_side.factors(NUMPY, Task("cholesky", "factor"), A) is None
    library.driver.captured = 4  # type: ignore[attr-defined]
    assert side_by_side.factors(NUMPY, factor, A) is None, "a graph is being captured"
    library.driver.captured = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(side_by_side, "cusolver", lambda: None)
    assert side_by_side.factors(NUMPY, factor, A) is None and not library.calls


def test_failures_raise(library: Library) -> None:
    library.status = 6
    with pytest.raises(LaunchError, match="cusolverDnDgetrf_bufferSize: cuSOLVER status 6"):
        side_by_side.factors(NUMPY, Task("lu", "factor"), stack("float64", 3, 6, 6))
