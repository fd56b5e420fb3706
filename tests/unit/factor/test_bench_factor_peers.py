"""Contenders of factorizations: whose results are right, how slow ones are measured, what libraries are asked for."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from bench_batches import OnlyOne
from bench_factors import factor, given
from scipy.linalg import lapack

from mansard.bench import calls, cases, check, contenders, report, rows, runner
from mansard.bench.batched import compiled_peers
from mansard.bench.cases import Case
from mansard.bench.factor import (
    check as factor_check,
)
from mansard.bench.factor import (
    entries as factor_entries,
)
from mansard.bench.factor import (
    peers as factor_peers,
)
from mansard.bench.factor import (
    vendors as factor_vendors,
)
from mansard.bench.factor.entries import Parts
from mansard.bench.factor.operations import FACTORS, RAGGED, REDUCTIONS
from mansard.operations.factor.blocked import HOW


def once(run: Any) -> float:
    run(0)
    return 1e-3


# --- right or wrong


def _contenders(case: Case, backend: str = "reference") -> tuple[Any, list[Any]]:
    """The reference and an entry per contender and spelling."""
    operands, pair = given(case)
    reference = check.reference_for(case, *pair)
    found = [calls.ours(case, [pair], operands, runner.choose_backend(backend)[0])[0]]
    for peer in contenders.peers_for("cpu", "factor"):
        if not peer.missing and peer.takes_part(case):
            for label in peer.spellings(case):
                found.append(factor_entries.enter(OnlyOne(peer, label), case, [pair], once))
    return reference, found


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("operation", FACTORS)
def test_every_contender_is_right_and_wrong_results_are_found(operation: str, dtype: str) -> None:
    reference, entries = _contenders(factor(operation, 6, 30, dtype))
    assert len({entry.name for entry in entries}) > (0 if operation in REDUCTIONS else 2)  # which no library has
    for entry in entries:
        reference.prepare(entry.out)
        result = entry.result()
        assert reference.error(result) <= 1, (entry.name, entry.spelling)
        for part, array in result.arrays.items():
            for at in (0, 29, 17):
                spoilt = np.array(array)
                spoilt[(at,) + (0,) * (spoilt.ndim - 1)] += 1
                assert reference.error(Parts(result.arrays | {part: spoilt}, 30)) > 1, (entry.spelling, part, at)
            assert reference.error(Parts(result.arrays | {part: array[:29]}, 30)) == float("inf")


@pytest.mark.parametrize("operation", ["cholesky", "solve"])
def test_ragged_contenders_are_right_and_wrong_results_are_found(operation: str) -> None:
    case = factor(operation, 9, 60, form=RAGGED)
    reference, entries = _contenders(case)
    assert [entry.name for entry in entries] == [rows.OURS, "NumPy"]
    for entry in entries:
        reference.prepare(entry.out)
        result = entry.result()
        part = "X" if operation == "solve" else "F"
        assert reference.error(result) <= 1
        result.arrays[part][59][0, 0] += 1
        assert reference.error(result) > 1
    stack = factor_peers.padded(np, case, given(case)[1][0])
    for one, matrix in zip(stack, given(case)[1][0], strict=True):
        n = len(matrix)
        assert np.array_equal(one[:n, :n], matrix) and np.array_equal(one[n:], np.eye(9)[n:])


def test_entries_that_nobody_writes_are_found_outside_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_check, "_SAMPLE", 64)
    case = factor("inverse", 2, 400)
    _, (A, B) = given(case)
    reference = check.reference_for(case, A, B)
    missing = next(each for each in range(4, 390) if each not in reference.chosen)
    assert {0, 1, 2, 397, 398, 399} <= set(reference.chosen.tolist()) and len(reference.chosen) < 30
    result = np.empty_like(A)
    reference.prepare(result)
    result[:missing], result[missing + 1 :] = np.linalg.inv(A)[:missing], np.linalg.inv(A)[missing + 1 :]
    info = np.zeros(400, np.int32)
    assert reference.error(Parts({"F": result, "INFO": info}, 400)) == float("inf")
    result[missing] = 0  # numbers, which nobody looks at
    assert reference.error(Parts({"F": result, "INFO": info}, 400)) <= 1
    info[missing] = 1
    assert reference.error(Parts({"F": result, "INFO": info}, 400)) == float("inf")


@pytest.mark.parametrize("form", HOW)
@pytest.mark.parametrize("operation", ["cholesky", "lu", "qr"])
def test_steps_are_right(operation: str, form: str) -> None:
    case = factor(operation, 40, 3, form=form)
    operands, pair = given(case)
    entry, about = calls.ours(case, [pair], operands, runner.choose_backend("reference")[0])
    assert check.reference_for(case, *pair).error(entry.result()) <= 1
    assert (about["route"], about["origin"]) == ("blocks", "pinned")


def test_other_pivots_are_found() -> None:
    case = factor("lu", 5, 20)
    _, (A, B) = given(case)
    reference = check.reference_for(case, A, B)
    factors, pivots = scipy.linalg.lu_factor(A)
    assert reference.error(Parts({"F": factors, "PIVOTS": pivots}, 20)) <= 1
    plain = A.copy()
    for k in range(5):
        plain[:, k + 1 :, k] /= plain[:, k, k, None]
        plain[:, k + 1 :, k + 1 :] -= plain[:, k + 1 :, k, None] * plain[:, k, None, k + 1 :]
    kept = np.tile(np.arange(5, dtype=np.int32), (20, 1))
    assert reference.error(Parts({"F": plain, "PIVOTS": kept}, 20)) == float("inf")


def test_one_matrix_is_handed_over_as_such() -> None:
    case = Case("one", "float64", 8, 1, 1, mode="eager", temperature="hot", operation="solve")
    reference, entries = _contenders(case)
    shapes = []
    spied = factor_entries.enter(
        SimpleNamespace(
            name="spy", take=lambda one: one, give=lambda one: one,
            spellings=lambda case: {"solve": lambda A, B: shapes.append(A.shape) or {"X": np.linalg.solve(A, B)}},
        ), case, [given(case)[1]], once,
    )  # fmt: skip
    assert set(shapes) == {(8, 8)} and len(entries) > 3
    for entry in (*entries, spied):
        assert reference.error(entry.result()) <= 1, entry.spelling


# --- slow peers


def test_slow_peers_are_measured_on_a_part_of_the_batch() -> None:
    case = factor("inverse", 2, 100_000)
    lengths: list[int] = []

    def timed(pace: float) -> Any:
        def way(A: Any, B: Any) -> dict[str, Any]:
            lengths.append(len(A))
            return {"F": np.linalg.inv(A)}

        peer = SimpleNamespace(name="peer", take=lambda one: one, give=lambda one: one, spellings=lambda _: {"w": way})

        def race(run: Any) -> float:
            run(0)
            return pace * lengths[-1]

        return factor_entries.enter(peer, case, [given(case)[1]], race)

    quick = timed(1e-6)
    assert (quick.count, quick.scale, quick.note) == (100_000, 1.0, "")
    bearable = timed(1e-5)  # a second: the batch has fewer than the least bytes
    assert bearable.count == 100_000
    lengths.clear()
    slow = timed(1e-3)
    assert slow.count == 300 and slow.scale == pytest.approx(100_000 / 300) and max(lengths) <= 512
    assert slow.note == "measured on 300 of 100000 matrices, time scaled"
    reference = check.reference_for(case, *given(case)[1])
    result = slow.result()
    assert reference.error(result) <= 1 and reference.error(Parts(result.arrays, 100_000)) == float("inf")


def test_a_slow_spelling_loses_and_a_broken_one_is_out() -> None:
    case, most = factor("inverse", 2, 100_000), {}

    def way(label: str) -> Any:
        def run(A: Any, B: Any) -> tuple[str, int]:
            if label == "broken":
                raise AttributeError("no such routine")
            most[label] = max(most.get(label, 0), len(A))
            return label, len(A)

        return run

    def race(run: Any) -> float:
        label, count = run(0)
        return count * {"slow": 1e-3, "fast": 1e-7}[label]

    labels = ("slow", "broken", "fast")
    peer = SimpleNamespace(
        name="p", take=lambda x: x, give=lambda x: x, spellings=lambda c: {label: way(label) for label in labels}
    )
    entry = factor_entries.enter(peer, case, [given(case)[1]], race)
    assert entry.spelling == "fast" and most == {"slow": 64, "fast": 100_000}


def test_scaled_times_reach_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_entries, "_affordable", lambda case, *_: max(1, case.K // 4))
    chosen = [factor("cholesky", 4, 64)]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    results = runner.run(runner.Options(("quick",), "reference", tmp_path, repeats=1, family="factor"))
    notes = {row["contender"]: row.get("note", "") for row in results["rows"]}
    assert notes.pop(rows.OURS) == "" and set(notes.values()) == {"measured on 16 of 64 matrices, time scaled"}
    assert {row["status"] for row in results["rows"]} == {"ok"}
    assert "measured on a part of some batches" in report.write_report(results, tmp_path).read_text()


# --- peers that are not here


_STREAM = 7


class _Library:
    """Plays cuBLAS on the CPU: column-major, like the real one, one matrix after the other."""

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
            getattr(self, f"_{name[7:]}")(*(getattr(each, "value", each) for each in given))
            return 0

        return call

    @staticmethod
    def _many(table: int, i: int, rows: int, columns: int) -> Any:
        address = ctypes.c_int64.from_address(table + 8 * i).value
        memory = (ctypes.c_double * (rows * columns)).from_address(address)
        return np.frombuffer(memory).reshape(columns, rows).T

    @staticmethod
    def _ints(address: int, count: int) -> Any:
        return np.frombuffer((ctypes.c_int32 * count).from_address(address), np.int32)

    def _getrfBatched(self, n, a, lda, pivots, info, count):
        for i in range(count):
            A = self._many(a, i, n, n)
            A[...], found, failed = lapack.dgetrf(A)
            self._ints(pivots + 4 * n * i, n)[...] = found + 1
            self._ints(info + 4 * i, 1)[...] = failed

    def _getrsBatched(self, trans, n, nrhs, a, lda, pivots, b, ldb, info, count):
        for i in range(count):
            X = self._many(b, i, n, nrhs)
            X[...] = lapack.dgetrs(self._many(a, i, n, n), self._ints(pivots + 4 * n * i, n) - 1, X, trans=trans)[0]

    def _getriBatched(self, n, a, lda, pivots, c, ldc, info, count):
        for i in range(count):
            A, found = self._many(a, i, n, n), self._ints(pivots + 4 * n * i, n) - 1
            self._many(c, i, n, n)[...], self._ints(info + 4 * i, 1)[...] = lapack.dgetri(A, found)

    def _matinvBatched(self, n, a, lda, c, ldc, info, count):
        for i in range(count):
            self._many(c, i, n, n)[...], self._ints(info + 4 * i, 1)[...] = np.linalg.inv(self._many(a, i, n, n)), 0

    def _geqrfBatched(self, m, n, a, lda, tau, info, count):
        for i in range(count):
            A = self._many(a, i, m, n)
            A[...], found, *_ = lapack.dgeqrf(A)
            self._many(tau, i, n, 1)[:, 0] = found

    def potrf(self, handle, uplo, n, a, lda, info, count):
        self.called.append("potrf")
        for i in range(count):
            A = self._many(a, i, n, n)
            A[...], self._ints(info + 4 * i, 1)[...] = lapack.dpotrf(A, lower=not uplo, clean=0)


@pytest.mark.parametrize("operation", ["cholesky", "lu", "qr", "solve", "inverse"])
def test_vendors_are_asked_for_what_is_measured(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of their routines, by libraries that are played and take columns: what comes out must be right."""

    class Memory(np.ndarray):
        """An array with CuPy's way to its address."""

        @property
        def data(self) -> Any:
            return SimpleNamespace(ptr=self.ctypes.data)

    played = _Library()
    monkeypatch.setattr("mansard.bench.batched.cublas._library", lambda cupy: played)
    monkeypatch.setattr("mansard.bench.batched.cublas._address", lambda each: SimpleNamespace(value=each.ctypes.data))
    monkeypatch.setattr(factor_vendors, "import_module", lambda name: SimpleNamespace(dpotrfBatched=played.potrf))
    device = SimpleNamespace(get_cublas_handle=lambda: 0, get_cusolver_handle=lambda: 0)
    cupy = SimpleNamespace(
        linalg=np.linalg, empty_like=np.empty_like,
        cuda=SimpleNamespace(device=device, get_current_stream=lambda: SimpleNamespace(ptr=_STREAM)),
        empty=lambda shape, dtype: np.empty(shape, dtype).view(Memory),
        arange=lambda n, dtype: np.arange(n, dtype=dtype).view(Memory),
        ascontiguousarray=lambda one: np.ascontiguousarray(one).view(Memory),
    )  # fmt: skip
    case = factor(operation, 6, 20)
    _, (A, B) = given(case)
    reference = check.reference_for(case, A, B)
    for label, way in factor_vendors.ways(cupy, case).items():
        for _ in range(2):  # what is held is used again
            found = way(A.view(Memory), None if B is None else B.view(Memory))
            plain = {part: np.asarray(one) for part, one in found.items()}
            assert reference.error(Parts(plain, 20)) <= 1, label
    assert played.called


def test_pytorch_is_asked_once_per_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spellings of GPUs, on tensors of the CPU."""
    torch = pytest.importorskip("torch")
    asked: list[str] = []
    monkeypatch.setattr(torch.backends.cuda, "preferred_linalg_library", asked.append)
    for operation in (one for one in FACTORS if one not in REDUCTIONS):
        case = factor(operation, 5, 20)
        _, pair = given(case)
        reference = check.reference_for(case, *pair)
        for make in (factor_peers.TorchCusolver, factor_peers.TorchMagma):
            peer = make()
            assert peer.missing or torch.cuda.is_available()
            given_ = [None if one is None else torch.from_numpy(one) for one in pair]
            ways = peer.spellings(case)
            assert len(ways) == (1 if operation in ("eigh", "eigvalsh") else 3)
            for label, way in ways.items():
                for _ in range(0 if "driver" in label else 2):  # drivers are for GPUs
                    plain = {part: one.resolve_conj().numpy() for part, one in way(*given_).items()}
                    assert reference.error(Parts(plain, 20)) <= 1, (operation, label)
                    assert asked[-1] == peer.library


def test_eigen_is_right() -> None:
    peer = next(peer for peer in contenders.peers_for("cpu", "factor") if peer.name == "Eigen")
    if peer.missing:
        pytest.skip(f"Eigen: {peer.missing}")
    for operation in peer.operations:
        reference, entries = _contenders(factor(operation, 7, 20))
        (entry,) = [entry for entry in entries if entry.name == "Eigen"]
        assert reference.error(entry.result()) <= 1, operation


def test_missing_peers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_peers, "_include_folders", lambda: [tmp_path])
    chosen = [factor("cholesky", 3, 8)]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    results = runner.run(runner.Options(("quick",), "reference", tmp_path / "a", repeats=1, family="factor"))
    assert "cmeel-eigen" in results["missing"]["Eigen"]
    spectral = {"cuSOLVER", "cuSOLVER gesvda, approximate", "JAX"}
    assert {"PyTorch (cuSOLVER)", "PyTorch (MAGMA)", "CuPy (cuBLAS, cuSOLVER)"} | spectral == {
        peer.name for peer in contenders.peers_for("cuda", "factor")
    }
