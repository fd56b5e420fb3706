"""Operations on batches beside products of one size, and experiments, in `mansard bench batched`: cases, operands,
checks and peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_samples
import numpy as np
import pytest
from bench_batches import SHAPES, OnlyOne, routine

from mansard.bench import calls, cases, check, contenders, entries, operations, peers, rows, runner
from mansard.bench.batched import cases as batched_cases
from mansard.bench.batched import compiled_peers
from mansard.bench.batched import operations as batched_operations
from mansard.bench.build import sources
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.compile import cxx
from mansard.kernels import family_of
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import DTYPES, ITEMSIZE
from papers import EXTENSION

SIZE = bench_samples.SIZE
SETS = {**batched_cases.SETS, **EXTENSION.sets["batched"]}
PAPERS = Path(__file__).resolve().parents[3] / "papers"


# --- what is measured


def test_sets_hold_what_the_figures_and_the_targets_speak_of() -> None:
    for name, form in (("gemv", ""), ("gemvt", "T")):
        found = [case for case in batched_cases.SETS[name](SIZE) if case.dtype == "float64"]
        assert {case.form for case in found} == {form}
        shapes = {(case.M, case.inner or case.M) for case in found}
        assert {n for n, m in shapes if n == m} >= {4, 8, 16, 32, 64, 128, 256}
        assert {n for m, n in shapes if m > n} == {8, 16, 32} and {m for m, n in shapes if m < n} == {16, 32}
    assert {(case.form, case.M) for case in batched_cases.trsv(SIZE)} >= {
        (f, n) for f in ("", "U") for n in range(2, 33)
    }
    assert {case.N for case in batched_cases.trsm(SIZE)} == {2, 8, 32}
    ragged = {(case.dtype, case.M, case.N > 1) for case in batched_cases.ragged(SIZE)}
    assert {("float64", 32, True), ("float64", 128, True), ("complex128", 256, False)} <= ragged
    tiles = {dict(case.pins).get("BLK_M") for case in SETS["kernels"](SIZE)}
    assert tiles == {None, 32, 48, 64, 128} and {case.inner for case in SETS["kernels"](SIZE)} == {0, 8, 16, 32}
    assert {dict(case.pins).get("PER_BLOCK") for case in SETS["tba"](SIZE)} >= {1, 2, 4, 8, 16, 32, 64}


def test_most_pinned_kernels_are_legal_on_an_h200() -> None:
    gemm, device = family_of("gemm"), NOMINAL["sm_90a"]
    for name in ("tba", "readonly", "kernels"):
        refused, pinned = [], [case for case in SETS[name](SIZE) if case.pins]
        for case in pinned:
            problem = gemm.spec.problem("float64", case.M, case.N, case.inner or case.M, case.K)
            reason = gemm.space.illegal(problem, gemm.space.from_dict(dict(case.pins)), device)
            refused += [(case.key, reason)] if reason else []
        assert len(refused) <= len(pinned) / 4, refused


def test_experiments_are_for_gpus() -> None:
    size = Size("cpu", {dtype: (64 << 20) // item for dtype, item in ITEMSIZE.items()}, 64 << 20)
    found, refused = cases.select(SETS, size, SETS)
    assert set(refused) == {"tba", "readonly", "kernels", "streamed"}
    assert max(case.bytes for case in found) <= 2.01 * (256 << 20), "a result that is added to is moved twice"


def test_list_prints_the_sets_of_one_family(capsys: pytest.CaptureFixture[str]) -> None:
    from mansard import cli

    assert cli.main(["bench", "batched", "--list", "--with", str(PAPERS)]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in SETS) and "bench gram" not in text
    assert "[GPU]" in text.partition("streamed")[2]


# --- bytes, flops, bounds


def test_bytes_of_a_triangle_and_of_vectors() -> None:
    triangle = operations.work_of(routine("trsv", "float64", (8, 1, 10)).to_dict())
    assert triangle.read == 8 * 10 * (36 + 8) and triangle.written == 8 * 10 * 8 and triangle.flops == 10 * 64
    assert batched_operations.whole_bytes(routine("trsv", "float64", (8, 1, 10)).to_dict()) == 8 * 10 * (64 + 16)
    several = operations.work_of(routine("trsm", "complex128", (8, 3, 10), form="U").to_dict())
    assert several.bytes == 16 * 10 * (36 + 48) and several.flops == 4 * 10 * 64 * 3
    for form, (taken, made) in {"": (5, 3), "T": (3, 5)}.items():
        vector = operations.work_of(routine("gemv", "float32", (3, 1, 7), inner=5, form=form).to_dict())
        assert (vector.read, vector.written, vector.flops) == (4 * 7 * (15 + taken), 4 * 7 * made, 2 * 7 * 15)


@pytest.mark.parametrize(("columns", "power"), [(9, 3), (1, 2)])
def test_bytes_of_ragged_batches_are_those_of_their_matrices(columns: int, power: int) -> None:
    case = routine("ragged", "float64", (9, columns, 40))
    sizes = batched_operations.ragged_sizes(9, 40)
    found = operations.work_of(case.to_dict())
    assert set(sizes) <= set(range(1, 10)) and len(set(sizes)) > 5
    assert found.flops == 2 * sum(int(n) ** power for n in sizes)
    assert found.bytes == 8 * sum(3 * n * n if columns > 1 else n * n + 2 * n for n in map(int, sizes))
    assert 0.9 * found.bytes < case.uniform.bytes <= found.bytes
    assert (
        case.uniform.operation == ("gemm" if columns > 1 else "gemv")
        and round(float((sizes.astype(float) ** 2).mean()) ** 0.5) == case.uniform.M
    )


def test_percentages_are_of_the_read_bandwidth_for_vectors_and_of_a_copy_for_ragged_products() -> None:
    H200 = bench_samples.H200
    for name, sizes, memory in (
        ("gemv", (32, 1, 1000), H200.read_bandwidth),
        ("ragged", (9, 9, 50), H200.copy_bandwidth),
    ):
        case = routine(name, "float64", sizes)
        row = rows.complete(rows.row({**case.to_dict(), "case": case.key}, rows.OURS, [1e-3]), H200)
        assert row["percent_bandwidth"] == pytest.approx(100 * case.bytes / 1e-3 / memory)
        assert row["bound_gflops"] / row["gflops"] == pytest.approx(100 / row["percent_bandwidth"])
    case = routine("trsv", "float64", (32, 1, 1000))
    row = rows.complete(rows.row({**case.to_dict(), "case": case.key}, rows.OURS, [1e-3]), H200)
    assert H200.copy_bandwidth < case.bytes / 1e-3 / row["percent_bandwidth"] * 100 < H200.read_bandwidth


# --- operands


def test_systems_can_be_solved_and_the_other_triangle_matters() -> None:
    case = routine("trsv", "float64", (256, 1, 4))
    A, b = Operands("cpu", [case], 1 << 10).pair(case)
    assert (abs(np.diagonal(A, axis1=1, axis2=2)) >= 1).all() and (A != 0).all()
    for triangle in (np.tril, np.triu):
        assert np.linalg.cond(triangle(A)).max() < 100
    assert abs(np.linalg.solve(np.tril(A), b[..., None])[..., 0] - np.linalg.solve(A, b[..., None])[..., 0]).max() > 0.1


def test_ragged_operands_are_views_that_begin_on_16_bytes() -> None:
    case = routine("ragged", "float64", (9, 1, 60))
    operands = Operands("cpu", [case], 1 << 10)
    A, x = operands.pair(case)
    sizes = [(int(n), int(n)) for n in batched_operations.ragged_sizes(9, 60)]
    assert A.shapes == sizes and x.shapes == [(n, 1) for n, _ in sizes] == operands.empty(case).shapes
    assert all(each.layout.host()[2][i] % 2 == 0 for each in (A, x) for i in range(60))
    assert np.isfinite(A.buffer).all() and not np.shares_memory(A.buffer, x.buffer)
    equal = operands.pair(case.uniform)
    assert equal[0].shape == (case.uniform.K, case.uniform.M, case.uniform.M)


def test_kernels_are_compiled_for_the_problem_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """By looking at which sources the compiler is asked for while a case runs: only those that were built ahead."""
    backend, _ = runner.choose_backend("emulated")
    asked: list[str] = []
    original = cxx.compile_emulated
    monkeypatch.setattr(
        cxx, "compile_emulated", lambda source, sanitize: asked.append(source.text) or original(source, sanitize)
    )
    for name, sizes, more in (SHAPES[0], SHAPES[1], SHAPES[3], SHAPES[6]):
        case = routine(name, "float64", sizes, **more)
        ahead = {source.text for source in sources([case], backend)}
        operands = Operands("cpu", [case], 1 << 10)
        asked.clear()
        calls.ours(case, [operands.pair(case)], operands, backend)[0].run(0)
        assert ahead and set(asked) <= ahead, case.key


# --- right or wrong


def _compiled(case: Case) -> list[peers.Peer]:
    return [peer for peer in contenders.peers_for("cpu") if not peer.missing and peer.takes_part(case)]


def _spoilt(C: Any, value: float, last: bool) -> Any:
    """The result with one entry changed, of the first or the last matrix."""
    if hasattr(C, "buffer"):
        other = type(C)(C.buffer.copy(), *(table.copy() for table in C.layout.host()))
        other[len(C) - 1 if last else 0][-1, -1] += value
        return other
    spoilt = np.array(C)
    spoilt[(-1,) * C.ndim if last else (0,) * C.ndim] += value
    return spoilt


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "sizes", "more"), SHAPES)
def test_every_contender_is_right_and_wrong_results_are_found(
    name: str, sizes: tuple[int, int, int], more: dict[str, Any], dtype: str
) -> None:
    case = routine(name, dtype, sizes, **more)
    operands = Operands("cpu", [case], 1 << 10)
    pair = operands.pair(case)
    reference = check.reference_for(case, *pair)
    backend, _ = runner.choose_backend("cpu" if dtype == "float64" else "reference")
    found = [calls.ours(case, [pair], operands, backend)[0]]
    taking_part = _compiled(case)
    assert any(isinstance(peer, compiled_peers.BlasPeer) for peer in taking_part) or cxx.available()
    for peer in taking_part:
        for label in peer.spellings(case):
            given = [(*pair, operands.empty(case))]
            found.append(entries.enter(OnlyOne(peer, label), case, given, lambda run: 0.0))
    assert len(found) > 2
    for entry in found:
        for _ in range(2):  # a check begins afresh
            reference.prepare(entry.out, entry.in_place)
            C = entry.result()
            assert reference.error(C) <= 1, (entry.name, entry.spelling)
        for last, value in ((False, 1e-3), (True, 1e-3), (False, float("nan")), (True, float("nan"))):
            assert reference.error(_spoilt(C, value, last)) > 1, (entry.name, last, value)


def test_a_solver_that_reads_the_other_triangle_is_found() -> None:
    case = routine("trsm", "float64", (6, 3, 20))
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    reference = check.reference_for(case, A, B)
    assert reference.error(np.linalg.solve(np.tril(A), B)) <= 1 < reference.error(np.linalg.solve(A, B))
    assert reference.error(np.linalg.solve(np.triu(A), B)) > 1


def test_a_ragged_result_that_nobody_writes_is_found_outside_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mansard.bench.batched.check._RAGGED", 5)
    case = routine("ragged", "float64", (5, 5, 90))
    operands = Operands("cpu", [case], 1 << 10)
    (A, B), out = operands.pair(case), operands.empty(case)
    reference = check.reference_for(case, A, B)
    skipped = next(i for i in range(90) if i not in reference.expected)
    for missing in (None, skipped):
        reference.prepare(out)
        for i in range(90):
            if i != missing:
                out[i][...] = A[i] @ B[i]
        assert (reference.error(out) <= 1) == (missing is None)
    out[skipped][...] = 0
    out.buffer[:] = np.nan_to_num(out.buffer)  # what lies between matrices is nobody's to write
    assert reference.error(out) == float("inf")
