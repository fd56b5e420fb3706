"""What becomes of the same operations and experiments: runs, targets, counters, tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_samples
import numpy as np
import pytest
from bench_batches import SHAPES, routine
from sparing import in_turn, rotated

from mansard.bench import cases, command, contest, operations, peers, report, rows, runner, yardstick
from mansard.bench.batched import (
    cases as batched_cases,
)
from mansard.bench.batched import (
    tables as batched_tables,
)
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.kernels import family_of
from mansard.kernels.batched.gemm.space import Readonly
from mansard.kernels.batched.gemm.space_lanes import Lanes
from mansard.plan.problem import ITEMSIZE
from papers import EXTENSION
from papers.dong import cases as dong_cases
from papers.dong import tables as dong_tables
from papers.masliah import counters
from papers.masliah import tables as masliah_tables

pytestmark = rotated(3)

SIZE = bench_samples.SIZE
SETS = {**batched_cases.SETS, **EXTENSION.sets["batched"]}
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 9), 1 << 20)


# --- runs


@pytest.mark.usefixtures("no_pictures")
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
    options = runner.Options(("quick",), "reference", tmp_path, seconds=12, most_elements=64, family="batched")
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
    return [text for _, text in EXTENSION.misses({"environment": {"backend": backend}, "rows": found})]


@pytest.mark.parametrize(("name", "sizes", "share"), [
    ("gemv", (4, 1, 1 << 20), 0.85), ("gemv", (256, 1, 1 << 12), 0.85), ("trsv", (2, 1, 1 << 20), 0.6),
    ("trsv", (32, 1, 1 << 20), 0.6),
])  # fmt: skip
def test_bandwidth_targets(name: str, sizes: tuple[int, int, int], share: float) -> None:
    case = routine(name, "float64", sizes)
    work = operations.work_of(case.to_dict())
    least = work.bytes / yardstick.bandwidth(name, work, bench_samples.H200)
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
    one = counters.cached_loads(2, Readonly(2, 2, 1))
    # a warp of 4 threads: two entries of a column of A (16 bytes of 32), a row of B (16 bytes of 32)
    assert one == pytest.approx(0.5)
    assert counters.cached_loads(2, Readonly(2, 2, 8)) == pytest.approx(0.5)
    assert counters.cached_loads(32, Readonly(32, 32, 1)) == pytest.approx((8 + 256) / (32 + 256))
    problem = family_of("gemm").spec.problem("float64", 3, 3, 3, 1000)
    assert counters.copied_loads(problem, Lanes(1, 1, 1, 1, "back", 4)) == 1.0
    alone = counters.copied_loads(problem, Lanes(8, 4, 1, 1, "back", 1))  # 72 bytes: 2.25 sectors
    assert alone == pytest.approx(72 / 32 / np.mean([3, 3, 3, 3])), "each group of 72 bytes touches three sectors"


# --- report


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    return bench_samples.written(tmp_path_factory, tuple(SETS), "batched")


@in_turn(1, 3)
def test_report_of_all_sets(everything: tuple[Path, dict[str, Any]]) -> None:
    folder, results = everything
    report.write_report(results, folder, EXTENSION)
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
    sets = {name: [case for case in make(SIZE) if case.mode == "device"] for name, make in SETS.items()}
    assert len(batched_tables.vectors(results, set()).cells) == len(sets["gemv"]) + len(sets["gemvt"])
    systems = batched_tables.systems(results, set())
    assert len(systems.cells) == len(sets["trsv"]) + len(sets["trsm"])
    eight = next(cells for cells in systems.cells if cells[:4] == ("trsv", "forward", "float64", "8"))
    assert eight[-2] == "36 of 64" and float(eight[-1]) > float(eight[8])
    ragged = batched_tables.ragged(results, set()).cells
    assert len(ragged) == len(sets["ragged"]) and all(float(cells[-1]) > 50 for cells in ragged)
    per_block = masliah_tables.per_block(results, set()).cells
    assert {cells[0] for cells in per_block} == {"readonly", "lanes"} and float(per_block[0][-1]) > 2
    assert len(masliah_tables.cached(results, set()).cells) == 31
    assert len(dong_tables.kernels(results, set()).cells) == 27
    assert len(dong_tables.streamed(results, set()).cells) == len(sets["streamed"])
    computed = masliah_tables.counters(results, set()).cells
    assert len(computed) == 2 * 31 and all(0 < int(cells[4]) <= 100 for cells in computed)


def test_labels_of_pinned_kernels_name_the_paper_s() -> None:
    found = {dong_cases.label(dict(case.pins)) for case in dong_cases.kernels(SIZE) if case.pins}
    assert {"block 32 x 24 (his 93)", "block 48 x 32 (his 111)", "tensor 64 x 64"} <= found and len(found) == 6


def test_pictures_have_their_panels_and_lines(everything: tuple[Path, dict[str, Any]]) -> None:
    from mansard.bench.batched import pictures as batched_pictures
    from mansard.bench.batched import ragged_pictures
    from papers.dong import pictures as dong_pictures
    from papers.masliah import pictures as masliah_pictures

    _, results = everything
    titles = [axis.get_title() for axis in batched_pictures.vectors(results).axes if axis.get_visible()]
    assert len(titles) == 18 and {"A x, tall, 8 columns", "A^T x, wide, 32 rows", "A x, square, complex128"} <= set(
        titles
    )
    forward, backward, *_ = batched_pictures.substitution(results).axes
    assert (forward.get_title(), backward.get_title()) == ("forward", "backward")
    labels = [line.get_label() for line in forward.lines]
    assert labels == ["Mansard", "CuPy (cuBLAS)", "PyTorch (cuBLAS)", "P_max"]
    pinned = [line.get_label() for line in dong_pictures.kernels(results).axes[2].lines]
    assert len(pinned) == 2 + 6 + 1 and "block 64 x 32 (his 116)" in pinned  # ours, cuBLAS, pinned kernels, the bound
    panels = masliah_pictures.per_block(results).axes
    assert [line.get_label() for line in panels[0].lines] == ["1", "2", "4", "8", "16", "32", "64", "P_max"]
    streams = dong_pictures.streamed(results).axes[0].lines
    assert "cuBLAS, one by one in streams" in [line.get_label() for line in streams]
    empty = {"rows": [], "environment": {"backend": "cuda"}}
    for module in (batched_pictures, ragged_pictures, dong_pictures, masliah_pictures):
        for name in ("sizes", "speed", "vectors", "substitution", "systems", "ragged", "per_block", "cached", "kernels",
                     "streamed", "counters"):  # fmt: skip
            if name in vars(module) and module.__name__ == vars(module)[name].__module__:
                assert getattr(module, name)(empty) is None, name
