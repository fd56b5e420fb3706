"""The peers of batches: what is compiled for them, what cuBLAS is asked for, and who is missing."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_samples
import numpy as np
import pytest
from bench_batches import SHAPES, OnlyOne, routine

from mansard.backends import cuda
from mansard.bench import check, entries, peers, runner
from mansard.bench.batched import cases as batched_cases
from mansard.bench.batched import compiled_peers
from mansard.bench.batched import peers as batched_peers
from mansard.bench.cases import Case
from mansard.bench.data import Operands
from papers import EXTENSION
from papers.dong import streamed_peer

SIZE = bench_samples.SIZE


def test_a_spelling_that_fails_is_out_and_the_others_race() -> None:
    class Half(peers.NumpyPeer):
        def batched(self, case: Case) -> dict[str, peers.Product]:
            def broken(A: Any, B: Any, out: Any) -> Any:
                raise AttributeError("no such routine")

            return {"broken": broken} | super().batched(case)

    case = routine("gemv", "float64", (4, 1, 20))
    operands = Operands("cpu", [case], 1 << 10)
    given = [(*operands.pair(case), operands.empty(case))]
    entry = entries.enter(Half(), case, given, lambda run: run(0) is None or 1.0)
    assert entry.spelling != "broken"


def test_slow_spellings_lose_on_a_share_of_the_matrices() -> None:
    lengths: list[int] = []

    class Slow(peers.NumpyPeer):
        def batched(self, case: Case) -> dict[str, peers.Product]:
            return {"slow": lambda A, B, out: lengths.append(len(A)) or 9.0, "fast": lambda A, B, out: 1.0}

    case = routine("gemv", "float64", (2, 1, 6400))
    operands = Operands("cpu", [case], 1 << 10)
    given = [(*operands.pair(case), operands.empty(case))]
    assert entries.enter(Slow(), case, given, lambda run: float(run(0))).spelling == "fast" and set(lengths) == {100}


def test_missing_peers_are_named_where_they_would_have_taken_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_peers, "_include_folders", lambda: [tmp_path])
    assert "cmeel-eigen" in compiled_peers.EigenPeer().missing and "libxsmm.h" in compiled_peers.XsmmPeer().missing
    options = runner.Options(("same",), "reference", tmp_path / "a", repeats=1, most_elements=64)
    assert "Eigen" not in runner.run(options)["missing"]
    options = runner.Options(("quick",), "reference", tmp_path / "b", repeats=1, most_elements=64, family="batched")
    assert {"Eigen", "libxsmm"} <= set(runner.run(options)["missing"])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_eigen_is_right(dtype: str) -> None:
    peer = compiled_peers.EigenPeer()
    if peer.missing:
        pytest.skip(f"Eigen: {peer.missing}")
    for sizes in ((3, 5, 4), (8, 1, 8), (1, 8, 2), (70, 70, 70)):
        for added in (False, True):
            case = routine("gemm", dtype, (*sizes[:2], 30), inner=sizes[2], accumulate=added)
            operands = Operands("cpu", [case], 1 << 10)
            pair = operands.pair(case)
            reference = check.reference_for(case, *pair)
            for label in peer.spellings(case):
                given = [(*pair, operands.empty(case))]
                entry = entries.enter(OnlyOne(peer, label), case, given, lambda run: 0.0)
                reference.prepare(entry.out)
                assert reference.error(entry.result()) <= 1, (label, sizes)


def test_libxsmm_is_right() -> None:
    peer = compiled_peers.XsmmPeer()
    if peer.missing:
        pytest.skip(f"libxsmm: {peer.missing}")
    for added in (False, True):
        case = routine("gemm", "float64", (3, 5, 30), inner=4, accumulate=added)
        operands = Operands("cpu", [case], 1 << 10)
        pair = operands.pair(case)
        reference = check.reference_for(case, *pair)
        entry = entries.enter(peer, case, [(*pair, operands.empty(case))], lambda run: 0.0)
        reference.prepare(entry.out)
        assert reference.error(entry.result()) <= 1


_STREAM = 7


class _Library:
    """Plays cuBLAS on the CPU: column-major, like the real one, one call after the other."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.stream = 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        self.stream = stream.value
        return 0

    def __getattr__(self, name: str) -> Any:
        def call(handle: Any, *given: Any) -> int:
            assert self.stream == _STREAM, "the current stream is not what the handle had"
            self.called.append(name)
            values = [getattr(each, "value", each) for each in given]
            getattr(self, f"_{name[7:]}")(*values)
            return 0

        return call

    @staticmethod
    def _at(address: int, rows: int, columns: int) -> Any:
        """A column-major matrix of doubles."""
        memory = (ctypes.c_double * (rows * columns)).from_address(address)
        return np.frombuffer(memory).reshape(columns, rows).T

    def _gemmStridedBatched(self, ta, tb, m, n, k, one, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, count):
        assert (lda, ldb, ldc) == (m, k, m)
        for i in range(count):
            self._at(c + 8 * i * sc, m, n)[...] += self._at(a + 8 * i * sa, m, k) @ self._at(b + 8 * i * sb, k, n)

    def _gemvStridedBatched(self, t, m, n, one, a, lda, sa, x, ix, sx, zero, y, iy, sy, count):
        for i in range(count):
            A = self._at(a + 8 * i * sa, m, n)
            A = A.T if t else A
            self._at(y + 8 * i * sy, A.shape[0], 1)[...] = A @ self._at(x + 8 * i * sx, A.shape[1], 1)

    def _trsmBatched(self, side, uplo, t, diag, m, n, one, a, lda, b, ldb, count):
        assert (side, t, diag, lda, ldb) == (1, 0, 0, n, m)
        for i in range(count):
            X = self._at(self._pointer(b, i), m, n)
            A = self._at(self._pointer(a, i), n, n)
            X[...] = np.linalg.solve((np.triu if uplo else np.tril)(A).T, X.T).T

    def _pointer(self, table: int, i: int) -> int:
        return ctypes.c_int64.from_address(table + 8 * i).value

    def _gemmBatched(self, ta, tb, m, n, k, one, a, lda, b, ldb, zero, c, ldc, count):
        for i in range(count):
            A, B, C = (self._at(self._pointer(*place), *shape) for place, shape in
                       (((a, i), (m, k)), ((b, i), (k, n)), ((c, i), (m, n))))  # fmt: skip
            C[...] = A @ B

    def _gemmGroupedBatched(self, ta, tb, ms, ns, ks, one, a, lda, b, ldb, zero, c, ldc, groups, counts):
        first = 0
        for g in range(groups):
            m, n, k, count = (ctypes.c_int32.from_address(table + 4 * g).value for table in (ms, ns, ks, counts))
            self._gemmBatched(0, 0, m, n, k, one, a + 8 * first, m, b + 8 * first, k, zero, c + 8 * first, m, count)
            first += count


@pytest.mark.parametrize(("name", "sizes", "more"), [*SHAPES, ("gemm", (3, 5, 50), {"inner": 4, "accumulate": True})])
def test_cublas_is_asked_for_what_is_measured(
    name: str, sizes: tuple[int, int, int], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arguments of its routines, by a library that is played and takes columns: what comes out must be right."""

    class Memory(np.ndarray):
        """An array with CuPy's way to its address."""

        @property
        def data(self) -> Any:
            return SimpleNamespace(ptr=self.ctypes.data)

    played = _Library()
    monkeypatch.setattr("mansard.bench.batched.cublas._library", lambda cupy: played)
    monkeypatch.setattr("mansard.bench.batched.cublas._address", lambda each: SimpleNamespace(value=each.ctypes.data))
    device = SimpleNamespace(get_cublas_handle=lambda: 0)
    cupy = SimpleNamespace(
        arange=lambda n, dtype: np.arange(n, dtype=dtype).view(Memory), asarray=np.asarray, matmul=np.matmul,
        cuda=SimpleNamespace(device=device, get_current_stream=lambda: SimpleNamespace(ptr=_STREAM)),
    )  # fmt: skip
    case = routine(name, "float64", sizes, **more)
    operands = Operands("cpu", [case], 1 << 10)
    A, B = operands.pair(case)
    reference = check.reference_for(case, A, B)
    ways = batched_peers.cupy_ways(cupy, case)
    for label, way in ways.items():
        out = operands.empty(case)
        reference.prepare(out, label.startswith(batched_peers.IN_PLACE))
        if name == "ragged":
            given = [SimpleNamespace(buffer=each.buffer.view(Memory), layout=each.layout) for each in (A, B, out)]
        else:
            given = [each.view(Memory) for each in (A, B, out)]
        way(*given)
        assert reference.error(out) <= 1, label
    assert played.called


def test_padded_matrices_are_those_of_the_batch() -> None:
    for columns in (9, 1):
        case = routine("ragged", "float64", (9, columns, 60))
        A, B = Operands("cpu", [case], 1 << 10).pair(case)
        for given, wide in ((A, 9), (B, columns)):
            stack = batched_peers.padded(np, case, given, wide)
            for i, matrix in enumerate(given):
                assert np.array_equal(stack[i, : matrix.shape[0], : matrix.shape[1]], matrix)
                assert np.count_nonzero(stack[i]) == np.count_nonzero(matrix)


def test_streams_take_part_where_they_are_asked_for() -> None:
    peer = streamed_peer.StreamedPeer()
    sets = {**batched_cases.SETS, **EXTENSION.sets["batched"]}
    found = [case for make in sets.values() for case in make(SIZE) if peer.takes_part(case)]
    assert {case.set for case in found} == {"streamed"}
    assert bool(peer.missing) == (cuda.unavailable() is not None)
