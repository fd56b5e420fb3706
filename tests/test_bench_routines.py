"""Operations on batches beside products of one size, and experiments, in `mansard bench batched`: cases, checks, peers,
targets, tables and pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bench_samples
from bench_batches import SHAPES, OnlyOne, routine

from mansard.bench import (
    batched_cases,
    batched_counters,
    batched_experiments,
    batched_operations,
    batched_tables,
    calls,
    cases,
    check,
    command,
    compiled_peers,
    contest,
    entries,
    operations,
    peers,
    report,
    rows,
    runner,
    store,
    targets,
)
from mansard.bench.build import sources
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.compile import cxx
from mansard.families import family_of
from mansard.families.gemm.space import Readonly
from mansard.families.gemm.space_lanes import Lanes
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import DTYPES, ITEMSIZE

SIZE = bench_samples.SIZE
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 9), 1 << 20)


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
    tiles = {dict(case.pins).get("BLK_M") for case in batched_cases.kernels(SIZE)}
    assert tiles == {None, 32, 48, 64, 128} and {case.inner for case in batched_cases.kernels(SIZE)} == {0, 8, 16, 32}
    assert {dict(case.pins).get("PER_BLOCK") for case in batched_cases.tba(SIZE)} >= {1, 2, 4, 8, 16, 32, 64}


def test_most_pinned_kernels_are_legal_on_an_h200() -> None:
    gemm, device = family_of("gemm"), NOMINAL["sm_90a"]
    for name in ("tba", "readonly", "kernels"):
        refused, pinned = [], [case for case in batched_cases.SETS[name](SIZE) if case.pins]
        for case in pinned:
            problem = gemm.spec.problem("float64", case.M, case.N, case.inner or case.M, case.K)
            reason = gemm.space.illegal(problem, gemm.space.from_dict(dict(case.pins)), device)
            refused += [(case.key, reason)] if reason else []
        assert len(refused) <= len(pinned) / 4, refused


def test_experiments_are_for_gpus() -> None:
    size = Size("cpu", {dtype: (64 << 20) // item for dtype, item in ITEMSIZE.items()}, 64 << 20)
    found, refused = cases.select(batched_cases.SETS, size, batched_cases.SETS)
    assert set(refused) == {"tba", "readonly", "kernels", "streamed"}
    assert max(case.bytes for case in found) <= 2.01 * (256 << 20), "a result that is added to is moved twice"


def test_list_prints_the_sets_of_one_family(capsys: pytest.CaptureFixture[str]) -> None:
    from mansard import cli

    assert cli.main(["bench", "batched", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in batched_cases.SETS) and "bench gram" not in text
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
    return [peer for peer in peers.peers_for("cpu") if not peer.missing and peer.takes_part(case)]


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
    monkeypatch.setattr("mansard.bench.batched_check._RAGGED", 5)
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


# --- runs


def test_every_operation_runs_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command to the report."""
    chosen = [routine(name, "float64", sizes, **more) for name, sizes, more in SHAPES]
    chosen += [case for case in batched_cases.small(TINY) if case.mode == "eager"]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    options = runner.Options(("quick",), "cpu", tmp_path, repeats=2, most_elements=1 << 9, family="batched")
    results = runner.run(options)
    assert {row["status"] for row in results["rows"]} == {"ok"} and not results["unfinished"]
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == len(chosen) and len(results["rows"]) > 2 * len(ours)
    for row in ours:
        assert row["bound_gflops"] > 0 and row["x_peer"] > 0
        assert (row.get("percent_uniform", 0) > 0) == (row["operation"] == "ragged")
    assert not any(row.get("uniform") for row in results["rows"] if row["contender"] != rows.OURS)
    assert report.write_report(results, tmp_path).exists()
    command.show(results)


def test_cases_without_time_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case is not begun that would not end in time, by how long the last ones took."""
    clock = [100.0]
    monkeypatch.setattr("mansard.bench.runner.time.monotonic", lambda: clock[0])

    def run(self: Any, case: Case) -> list[rows.Row]:
        clock[0] += 4.0
        return [rows.row({**case.to_dict(), "case": case.key}, rows.OURS, [1e-3])]

    monkeypatch.setattr(contest.Contest, "run", run)
    options = runner.Options(("quick",), "reference", tmp_path, seconds=11, most_elements=64, family="batched")
    results = runner.run(options)
    assert len(results["rows"]) == 2 and len(results["unfinished"]) == 3
    report.write_report(results, tmp_path)
    page = (tmp_path / "summary.md").read_text()
    assert all(name in page for name in results["unfinished"]) and "3 cases were not measured" in page


def test_a_peer_far_behind_is_sampled_once_and_peers_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _ = runner.choose_backend("reference")
    held = contest.Contest(backend, Operands("cpu", [], 1 << 10), [], 5)
    counts = {rows.OURS: 0, "near": 0, "far": 0}

    def sampler(name: str, seconds: float) -> Any:
        def sample() -> float:
            counts[name] += 1
            return seconds

        return sample

    seconds, _ = held._take_turns({rows.OURS: sampler(rows.OURS, 0.5), "near": sampler("near", 1.1),
                                   "far": sampler("far", 3.0)}, 5)  # fmt: skip
    assert counts["far"] == 1 and seconds["far"] == [3.0] and len(seconds["near"]) == len(seconds[rows.OURS]) == 3
    late = contest.Contest(backend, Operands("cpu", [], 1 << 10), [], 5, deadline=0.0)
    assert [len(each) for each in late._take_turns({rows.OURS: lambda: 0.01}, 5)[0].values()] == [1]
    case = routine("gemv", "float64", (4, 1, 20))
    late.peers, late.operands = [peers.NumpyPeer()], Operands("cpu", [case], 1 << 10)
    assert late._peers(case, [late.operands.pair(case)]) == ([], {"NumPy": "out of time"})


# --- targets


def _missed(case: Case, seconds: float, peer: float | None = None, backend: str = "cuda", **more: Any) -> list[str]:
    facts = {**case.to_dict(), "case": case.key}
    found = [rows.row(facts, rows.OURS, [seconds], **more)] + ([rows.row(facts, "cuBLAS", [peer])] if peer else [])
    found = rows.compare(rows.complete(row, bench_samples.H200) for row in found)
    return [text for _, text in targets.misses({"environment": {"backend": backend}, "rows": found})]


@pytest.mark.parametrize(("name", "sizes", "share"), [
    ("gemv", (4, 1, 1 << 20), 0.85), ("gemv", (256, 1, 1 << 12), 0.85), ("trsv", (2, 1, 1 << 20), 0.6),
    ("trsv", (32, 1, 1 << 20), 0.6),
])  # fmt: skip
def test_bandwidth_targets(name: str, sizes: tuple[int, int, int], share: float) -> None:
    case = routine(name, "float64", sizes)
    work = operations.work_of(case.to_dict())
    least = work.bytes / batched_operations.memory(name, work, bench_samples.H200)
    assert not _missed(case, least / (share + 0.005))
    assert _missed(case, least / (share - 0.005))[0].endswith(f"target {100 * share:.0f}")


def test_other_targets() -> None:
    assert not _missed(routine("gemv", "float64", (3, 1, 100)), 1.0), "below 4 there is none"
    case = routine("trsv", "float64", (8, 1, 1 << 20))
    least = case.bytes / bench_samples.H200.read_bandwidth
    assert not _missed(case, least, peer=1.51 * least) and len(_missed(case, least, peer=1.49 * least)) == 1
    case = routine("ragged", "float64", (32, 32, 1000))
    for share, missed in ((0.86, False), (0.84, True)):
        equal = {"bytes": case.uniform.bytes, "seconds": [case.uniform.bytes / case.bytes * share]}
        assert bool(_missed(case, 1.0, uniform=equal)) == missed
    for name in ("gemv", "trsv"):
        case = next(each for each in batched_cases.small(SIZE) if each.operation == name)
        assert not _missed(case, 11.9e-6) and _missed(case, 12.1e-6) == ["12.1 us, target 12"]
    case = routine("gemv", "float64", (8, 1, 1 << 20))
    assert not _missed(case, 1.0, 1.0, "cpu") and _missed(case, 1.0, 0.9, "cpu") == ["0.90 x cuBLAS, target 1"]


# --- computed counters


def test_occupancy_and_loads_are_computed() -> None:
    one = batched_counters.cached_loads(2, Readonly(2, 2, 1))
    # a warp of 4 threads: two entries of a column of A (16 bytes of 32), a row of B (16 bytes of 32)
    assert one == pytest.approx(0.5)
    assert batched_counters.cached_loads(2, Readonly(2, 2, 8)) == pytest.approx(0.5)
    assert batched_counters.cached_loads(32, Readonly(32, 32, 1)) == pytest.approx((8 + 256) / (32 + 256))
    problem = family_of("gemm").spec.problem("float64", 3, 3, 3, 1000)
    assert batched_counters.copied_loads(problem, Lanes(1, 1, 1, 1, "back", 4)) == 1.0
    alone = batched_counters.copied_loads(problem, Lanes(8, 4, 1, 1, "back", 1))  # 72 bytes: 2.25 sectors
    assert alone == pytest.approx(72 / 32 / np.mean([3, 3, 3, 3])), "each group of 72 bytes touches three sectors"


# --- report


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("report")
    bench_samples.journal(folder, tuple(batched_cases.SETS), "batched")
    return folder, store.write_results(folder)


def test_report_of_all_sets(everything: tuple[Path, dict[str, Any]]) -> None:
    folder, results = everything
    report.write_report(results, folder)
    drawn = {path.stem for path in (folder / "plots").glob("*.png")}
    assert drawn == {"batched", "batched_speed", "gemv", "trsv", "trsm", "ragged", "tba", "readonly", "kernels",
                     "streamed", "counters"}  # fmt: skip
    page = (folder / "summary.md").read_text()
    for title in (batched_tables.VECTORS, batched_tables.SYSTEMS, "Ragged batches", "Matrices per block",
                  "Through the read-only cache", "Kernels for updates", "Batched and one by one",
                  "Occupancy and loads, computed"):  # fmt: skip
        assert f"## {title}" in page
    assert "Few rows" not in page and "By width" not in page


def test_tables_have_a_line_per_case(everything: tuple[Path, dict[str, Any]]) -> None:
    _, results = everything
    sets = {name: [case for case in make(SIZE) if case.mode == "device"] for name, make in batched_cases.SETS.items()}
    assert len(batched_tables.vectors(results, set()).cells) == len(sets["gemv"]) + len(sets["gemvt"])
    systems = batched_tables.systems(results, set())
    assert len(systems.cells) == len(sets["trsv"]) + len(sets["trsm"])
    eight = next(cells for cells in systems.cells if cells[:4] == ("trsv", "forward", "float64", "8"))
    assert eight[-2] == "36 of 64" and float(eight[-1]) > float(eight[8])
    ragged = batched_tables.ragged(results, set()).cells
    assert len(ragged) == len(sets["ragged"]) and all(float(cells[-1]) > 50 for cells in ragged)
    per_block = batched_tables.per_block(results, set()).cells
    assert {cells[0] for cells in per_block} == {"readonly", "lanes"} and float(per_block[0][-1]) > 2
    assert len(batched_tables.cached(results, set()).cells) == 31
    assert len(batched_tables.kernels(results, set()).cells) == 27
    assert len(batched_tables.streamed(results, set()).cells) == len(sets["streamed"])
    counters = batched_tables.counters(results, set()).cells
    assert len(counters) == 2 * 31 and all(0 < int(cells[4]) <= 100 for cells in counters)


def test_labels_of_pinned_kernels_name_the_paper_s() -> None:
    found = {batched_experiments.label(dict(case.pins)) for case in batched_cases.kernels(SIZE) if case.pins}
    assert {"block 32 x 24 (his 93)", "block 48 x 32 (his 111)", "tensor 64 x 64"} <= found and len(found) == 6


def test_pictures_have_their_panels_and_lines(everything: tuple[Path, dict[str, Any]]) -> None:
    from mansard.bench import batched_experiment_pictures, batched_pictures

    _, results = everything
    titles = [axis.get_title() for axis in batched_pictures.vectors(results).axes if axis.get_visible()]
    assert len(titles) == 18 and {"A x, tall, 8 columns", "A^T x, wide, 32 rows", "A x, square, complex128"} <= set(
        titles
    )
    forward, backward, *_ = batched_pictures.substitution(results).axes
    assert (forward.get_title(), backward.get_title()) == ("forward", "backward")
    labels = [line.get_label() for line in forward.lines]
    assert labels == ["Mansard", "CuPy (cuBLAS)", "PyTorch (cuBLAS)", "P_max"]
    pinned = [line.get_label() for line in batched_experiment_pictures.kernels(results).axes[2].lines]
    assert len(pinned) == 3 + 6 + 1 and "block 64 x 32 (his 116)" in pinned
    panels = batched_experiment_pictures.per_block(results).axes
    assert [line.get_label() for line in panels[0].lines] == ["1", "2", "4", "8", "16", "32", "64", "P_max"]
    streams = batched_experiment_pictures.streamed(results).axes[0].lines
    assert "cuBLAS, one by one in streams" in [line.get_label() for line in streams]
    empty = {"rows": [], "environment": {"backend": "cuda"}}
    for module in (batched_pictures, batched_experiment_pictures):
        for name in ("sizes", "speed", "vectors", "substitution", "systems", "ragged", "per_block", "cached", "kernels",
                     "streamed", "counters"):  # fmt: skip
            if name in vars(module) and module.__name__ == vars(module)[name].__module__:
                assert getattr(module, name)(empty) is None, name
