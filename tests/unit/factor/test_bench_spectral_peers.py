"""cuSOLVER's batched eigenvalues and singular values as the benchmark calls them, by a library that is played."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench_factors import factor, given

from mansard.bench import check, rows
from mansard.bench.factor import cusolver
from mansard.bench.factor.entries import Parts, effort_of
from mansard.bench.factor.operations import MOST, SPECTRAL
from mansard.bench.factor.spectral import Approximate, CusolverSpectral, JaxSpectral
from mansard.plan.problem import REAL

_LETTERS = {"D": "float64", "Z": "complex128"}


class _Played:
    """cuSOLVER on the CPU: columns, operands overwritten, workspaces as long as it asked for."""

    def __getattr__(self, name: str) -> Any:
        def call(handle: Any, *given: Any) -> int:
            plain = [getattr(one, "value", one) for one in given]
            if name.endswith("_bufferSize"):
                for place in given:
                    if hasattr(place, "_obj"):
                        place._obj.value = 24
            elif name != "cusolverDnSetStream":
                routine = name[10:] if name[10] == "X" else name[11:]
                getattr(self, routine)(_LETTERS.get(name[10], ""), *plain)
            return 0

        return call

    @staticmethod
    def _memory(address: int, dtype: str, *shape: int) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)

    def XsyevBatched(self, _, params, job, uplo, n, kind, a, lda, kind_w, w, computed, room, size, host, size_h, info,
                     count):  # fmt: skip
        dtype = {1: "float64", 5: "complex128"}[kind]
        assert kind_w == 1 and computed == kind and size == 24 and lda == n and uplo == 1
        A, W = self._memory(a, dtype, count, n, n), self._memory(w, "float64", count, n)
        W[...], Z = np.linalg.eigh(A.swapaxes(1, 2), "U")
        A[...] = Z.swapaxes(1, 2) if job else np.nan
        self._memory(info, "int32", count)[...] = 0

    def _svd(self, dtype, job, n, a, s, u, v, count):
        A = self._memory(a, dtype, count, n, n)
        U, S, VH = np.linalg.svd(A.swapaxes(1, 2))
        self._memory(s, REAL[dtype], count, n)[...] = S
        if job:
            self._memory(u, dtype, count, n, n)[...] = U.swapaxes(1, 2)
            self._memory(v, dtype, count, n, n)[...] = VH.conj()
        return A

    def gesvdjBatched(self, dtype, job, m, n, a, lda, s, u, ldu, v, ldv, room, size, info, params, count):
        self._svd(dtype, job, n, a, s, u, v, count)[...] = np.nan
        self._memory(info, "int32", count)[...] = 0

    def gesvdaStridedBatched(self, dtype, job, rank, m, n, a, lda, step, s, step_s, u, ldu, step_u, v, ldv, step_v,
                             room, size, info, residuals, count):  # fmt: skip
        assert (rank, m, lda, step, step_s, step_u, step_v, residuals) == (n, n, n, n * n, n, n * n, n * n, None)
        self._svd(dtype, job, n, a, s, u, v, count)

    def _condensed(self, dtype, values, n, d, e):
        """A matrix with these values: a diagonal one."""
        self._memory(d, REAL[dtype], n)[...] = values
        self._memory(e, REAL[dtype], n - 1)[...] = 0

    def gebrd(self, dtype, m, n, a, lda, d, e, tau, tau_p, room, size, info):
        self._condensed(dtype, np.linalg.svd(self._memory(a, dtype, n, n), compute_uv=False), n, d, e)

    def sytrd(self, dtype, uplo, n, a, lda, d, e, tau, room, size, info):
        assert uplo == 1
        self._condensed(dtype, np.linalg.eigvalsh(self._memory(a, dtype, n, n).T, "U"), n, d, e)

    hetrd = sytrd


class _Memory(np.ndarray):
    """An array with CuPy's way to its address."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("operation", SPECTRAL)
def test_cusolver_is_asked_for_what_is_measured(
    operation: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(cusolver, "_opened", lambda cupy: (_Played(), 1, 2, 3))
    stream = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0))
    cupy = SimpleNamespace(
        cuda=stream, empty_like=np.empty_like, empty=lambda shape, dtype: np.empty(shape, dtype).view(_Memory)
    )
    case = factor(operation, 6, 9, dtype)
    A = given(case)[1][0]
    made, before = cusolver.Cusolver(cupy, dtype), A.copy()
    ways = made.ways(operation, 6)
    if operation in ("svd", "svdvals"):
        ways |= {"approximate": made.approximate(operation == "svd")}
    for label, way in ways.items():
        for _ in range(2):  # what is held is used again
            found = {part: np.asarray(one) for part, one in way(A.view(_Memory), None).items()}
            assert check.reference_for(case, A, None).error(Parts(found, 9)) <= 1, label
        assert np.array_equal(A, before), label


def test_who_takes_part() -> None:
    made = [object.__new__(kind) for kind in (CusolverSpectral, Approximate, JaxSpectral)]
    takes = lambda *case, **more: [peer.takes_part(factor(*case, **more)) for peer in made]  # noqa: E731
    assert takes("eigh", 32, dtype="float64") == [True, False, True] and takes("eigh", 33) == [True, False, False]
    assert takes("svd", 32) == [True, True, True] and takes("svdvals", 33) == [False, True, False]
    assert takes("bidiagonalize", 64) == [True, False, False] and takes("cholesky", 8) == [False, False, False]
    assert made[2].effort(factor("eigh", 8, 10**6)).most == 512
    assert effort_of(factor("eigh", 64)).first < effort_of(factor("eigh", 8)).first
    assert effort_of(factor("svd", 2)).most == MOST


def test_approximate_peers_are_compared_apart() -> None:
    about = {"case": "a", "operation": "svd", "mode": "device", "status": "ok"}
    found = rows.compare([
        about | {"contender": rows.OURS, "median": 1.0},
        about | {"contender": "CuPy (cuBLAS, cuSOLVER)", "median": 9.0},
        about | {"contender": Approximate.name, "median": 2.0, "status": "approximate"},
    ])  # fmt: skip
    assert found[0]["x_peer"] == 9.0 and found[0]["x_approximate"] == 2.0
