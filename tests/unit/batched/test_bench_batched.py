"""The sets of `mansard bench batched`: what they hold, how batches are called, checked, judged and drawn."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_samples
import numpy as np
import pytest
from sparing import rotated

from mansard.bench import calls, cases, check, command, contenders, operations, report, rows, runner, store
from mansard.bench.batched import cases as batched_cases
from mansard.bench.batched import summary as batched_summary
from mansard.bench.batched.operations import BATCHED
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.bench.entries import enter
from mansard.operations.batched.gemm_call import plan_gemm
from mansard.plan.batched_rules import SMALL
from mansard.plan.problem import DTYPES, ITEMSIZE
from papers import EXTENSION

pytestmark = rotated(2)

SIZE = bench_samples.SIZE
SETS = {**batched_cases.SETS, **EXTENSION.sets["batched"]}
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 9), 1 << 20)


def batch(dtype: str, M: int, N: int, inner: int, count: int, **more: Any) -> Case:
    return Case("x", dtype, M, N, count, operation="gemm", inner=inner, **more)


# --- what is measured


@pytest.mark.parametrize("size", [SIZE, TINY], ids=["H200", "tiny"])
@pytest.mark.parametrize("name", SETS)
def test_sets_have_cases_of_their_own(name: str, size: Size) -> None:
    found = SETS[name](size)
    assert found and len({case.key for case in found}) == len(found)
    for case in found:
        assert case.set == name and case.operation in BATCHED and case.bytes > 0 and case.K > 0
        if case.operation == "gemm" and (case.mode, case.temperature) == ("device", "cold") and size is SIZE:
            # all operands together, and no more than the last matrix short
            elements = case.bytes // ITEMSIZE[case.dtype] - case.accumulate * case.K * case.M * case.N
            assert 0.999 * 3 * (1 << 28) < elements <= 3 << 28


def test_sets_hold_what_the_targets_speak_of() -> None:
    found = {(case.dtype, case.M) for case in batched_cases.full(SIZE)}
    assert found == {(dtype, n) for dtype in DTYPES for n in (*range(2, 33), 40, 48, 64, 96, 128)}
    assert {case.M for case in batched_cases.quick(SIZE)} == {2, 4, 8, 16, 32}
    assert {case.M for case in batched_cases.accumulate(SIZE) if case.accumulate} == set(range(2, 33))
    shapes = {(case.M, case.N, case.inner) for case in batched_cases.rectangular(SIZE)}
    assert len(shapes) == 12 and max(map(max, shapes)) == 32 and not any(m == n == k for m, n, k in shapes)
    small = {(case.operation, case.mode, case.K, case.M) for case in batched_cases.small(SIZE)}
    assert small == {(name, mode, 100, 16) for name in ("gemm", "gemv", "trsv") for mode in ("graph", "eager")}


def test_a_batch_is_four_times_the_last_cache_of_a_cpu() -> None:
    size = Size("cpu", {dtype: (64 << 20) // item for dtype, item in ITEMSIZE.items()}, 64 << 20)
    for case in batched_cases.full(size):
        assert 0.99 * (256 << 20) < case.bytes <= 256 << 20


def test_help_names_every_set() -> None:
    text = command._sets_text().partition("`mansard bench batched`")[2]
    assert all(f"\n  {name} " in text for name in batched_cases.SETS)


def test_other_cases_keep_their_names() -> None:
    """Results on disk are found by them."""
    assert Case("full", "float64", 8, 8, 100).key == "float64 8x8 K100 row device cold"
    assert batch("float64", 2, 3, 4, 5, accumulate=True).key == "gemm float64 2x3 K5 row device cold inner=4 beta=1"


# --- operands, problems and calls


def test_operands_are_stacks_that_do_not_overlap() -> None:
    case = batch("complex64", 3, 5, 4, 11, mode="eager")
    operands = Operands("cpu", [case], 1 << 12)
    pairs = [operands.pair(case, index) for index in range(operands.sets(case))]
    assert len(pairs) > 1 and operands.empty(case).shape == (11, 3, 5)
    for A, B in pairs:
        assert A.shape == (11, 3, 4) and B.shape == (11, 4, 5) and A.flags.c_contiguous and B.flags.c_contiguous
        assert np.isfinite(A).all() and A.dtype == B.dtype == "complex64" and not np.shares_memory(A, B)
    assert not np.shares_memory(pairs[0][0], pairs[1][0]) and not np.shares_memory(pairs[0][1], pairs[1][1])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2, 0), (3, 5, 4), (32, 32, 32), (1, 8, 8), (40, 40, 40)])
def test_kernels_are_built_for_the_problem_that_is_planned(sizes: tuple[int, int, int], accumulate: bool) -> None:
    case = batch("float64", *sizes, 9, accumulate=accumulate)
    operands = Operands("cpu", [case], 1 << 10)
    planned = plan_gemm(*operands.pair(case), operands.empty(case), "reference").problem
    wanted = (planned.replace(accumulate=True), planned) if accumulate else (planned,)
    assert case.problems() == (wanted if max(sizes) <= SMALL else ())


def test_work_counts_every_operand_once() -> None:
    plain, added = (operations.work_of(batch("float64", 2, 3, 4, 10, accumulate=x).to_dict()) for x in (False, True))
    assert plain.bytes == 8 * 10 * (8 + 12 + 6) and plain.flops == added.flops == 2 * 10 * 24
    assert added.bytes == plain.bytes + 8 * 10 * 6 and added.written == plain.written == 8 * 10 * 6


# --- right or wrong


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_contender_is_right_and_wrong_results_are_found(dtype: str, accumulate: bool) -> None:
    case = batch(dtype, 3, 5, 4, 50, accumulate=accumulate)
    operands = Operands("cpu", [case], 1 << 10)
    pair = operands.pair(case)
    reference = check.reference_for(case, *pair)
    backend, _ = runner.choose_backend("cpu" if dtype == "float64" else "reference")
    entries = [calls.ours(case, [pair], operands, backend)[0]]
    for peer in contenders.peers_for("cpu"):
        if not peer.missing:
            entries.append(enter(peer, case, [(*pair, operands.empty(case))], lambda run: 0.0))
    assert len(entries) > 1
    for entry in entries:
        entry.run(0)  # whatever is there, a check begins afresh
        reference.prepare(entry.out)
        C = entry.result()
        assert reference.error(C) <= 1, entry.name
        for at in ((0, 0, 0), (49, 2, 4), (17, 1, 3)):
            for value in (1e-3, float("nan")):
                spoilt = np.array(C)
                spoilt[at] += value
                assert reference.error(spoilt) > 1, (entry.name, at, value)
        assert reference.error(np.array(C)[:, :, ::-1]) > 1 and reference.error(C[:49]) == float("inf")


def test_entries_that_nobody_writes_are_found_outside_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mansard.bench.batched.check._SAMPLE", 64)
    case = batch("float64", 2, 2, 2, 400)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    reference = check.reference_for(case, A, B)
    missing = next(each for each in range(1, 399) if each not in reference.chosen)
    out = np.empty((400, 2, 2))
    reference.prepare(out)
    np.matmul(A, B, out=out)
    assert len(reference.chosen) == 16 and 399 not in reference.chosen and reference.error(out) <= 1
    out[-1, 0, 0] *= 1 + 1e-14  # the last matrix is compared whether it is drawn or not
    assert reference.error(out) > 1
    reference.prepare(out)
    out[:missing], out[missing + 1 :] = (A @ B)[:missing], (A @ B)[missing + 1 :]
    assert reference.error(out) == float("inf")


def test_what_is_added_to_differs_from_neighbour_to_neighbour() -> None:
    case = batch("float64", 4, 4, 4, 8, accumulate=True)
    reference = check.reference_for(case, *Operands("cpu", [case], 1 << 10).pair(case))
    out = np.empty((8, 4, 4))
    reference.prepare(out)
    assert np.array_equal(out, reference._start(np.arange(8)))
    for axis in range(3):
        assert np.diff(out, axis=axis).all()


# --- runs


def _some(wanted: Callable[[Case], bool]) -> list[Case]:
    found = [case for make in batched_cases.SETS.values() for case in make(TINY) if wanted(case)]
    return list({case.key: case for case in found}.values())


@pytest.mark.parametrize(("device", "keys"), [
    ("reference", {"quick": (2, 32), "accumulate": (2, 7), "rectangular": (1, 12), "small": (16,), "full": (3, 40)}),
    ("emulated", {"quick": (4,), "accumulate": (5,), "rectangular": (7,), "small": (16,)}),
])  # fmt: skip
@pytest.mark.usefixtures("no_pictures")
def test_batches_run_in_miniature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, keys: dict[str, tuple[int, ...]]
) -> None:
    """From the command to the report; on the emulator the GPU's kernels are executed."""
    chosen = _some(lambda case: case.M in keys.get(case.set, ()))
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    options = runner.Options(("quick",), device, tmp_path, repeats=1, most_elements=1 << 9, family="batched")
    results = runner.run(options)
    assert {row["status"] for row in results["rows"]} == {"ok"} and not results["unfinished"]
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == len(chosen) and {row["set"] for row in ours} == set(keys)
    assert len(results["rows"]) >= 2 * len(ours)
    if device == "emulated":
        assert all(row["config"] for row in ours)
    with open(tmp_path / store.TABLE) as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(results["rows"]) and all(float(line["bound_gflops"]) > 0 for line in lines)
    assert {line["inner"] for line in lines} >= {"0"} and {line["accumulate"] for line in lines} == {"True", "False"}
    assert report.write_report(results, tmp_path).exists()
    command.show(results)


def test_other_families_keep_their_columns(tmp_path: Path) -> None:
    runner.run(runner.Options(("same",), "reference", tmp_path, repeats=1, most_elements=64, peers=False))
    assert (tmp_path / store.TABLE).read_text().splitlines()[0] == ",".join(rows.COLUMNS)


# --- numbers


def _row(case: Case, seconds: float, peer: float | None = None, name: str = "PyTorch (cuBLAS)") -> list[rows.Row]:
    facts = {**case.to_dict(), "case": case.key}
    found = [rows.row(facts, rows.OURS, [seconds])]
    found += [rows.row(facts, name, [peer])] if peer else []
    return rows.compare(rows.complete(row, bench_samples.H200) for row in found)


def _missed(found: list[rows.Row], backend: str = "cuda") -> list[str]:
    return [text for _, text in EXTENSION.misses({"environment": {"backend": backend}, "rows": found})]


@pytest.mark.parametrize("n", [2, 16, 31])
def test_the_bound_is_that_of_the_paper(n: int) -> None:
    (row,) = _row(batch("float64", n, n, n, 1000, accumulate=True), 1e-3)
    bound = n * bench_samples.H200.copy_bandwidth / 16
    assert row["bound_gflops"] == pytest.approx(bound / 1e9)
    assert row["percent_bandwidth"] == pytest.approx(100 * row["gflops"] / row["bound_gflops"])


@pytest.mark.parametrize(("case", "share"), [
    (batch("float64", 2, 2, 0, 1 << 20), 0.97), (batch("float64", 18, 18, 0, 1 << 20), 0.97),
    (batch("float64", 19, 19, 0, 1 << 20), 0.91), (batch("float64", 31, 31, 0, 1 << 20), 0.91),
    (batch("complex64", 2, 2, 0, 1 << 20), 0.88), (batch("float32", 31, 31, 0, 1 << 20), 0.88),
    (batch("float64", 8, 8, 0, 1 << 20, accumulate=True), 0.88),
    (batch("float64", 32, 32, 0, 1 << 20, accumulate=True), 0.88), (batch("float64", 4, 32, 8, 1 << 20), 0.85),
    (batch("float64", 8, 8, 16, 1 << 20), 0.85),
])  # fmt: skip
def test_bandwidth_targets(case: Case, share: float) -> None:
    least = case.bytes / bench_samples.H200.copy_bandwidth
    assert not _missed(_row(case, least / (share + 0.005))) and _missed(_row(case, least / (share - 0.005)))


@pytest.mark.parametrize("n", [32, 40, 128])
def test_large_ones_are_not_slower_than_the_best_peer(n: int) -> None:
    case = batch("float64", n, n, 0, 1000)
    assert not _missed(_row(case, 1.0)) and not _missed(_row(case, 1.02e-3, peer=1e-3))
    assert _missed(_row(case, 1.04e-3, peer=1e-3)) == ["0.96 x PyTorch (cuBLAS), target 1"]


def test_small_batches_have_a_time() -> None:
    for case in batched_cases.small(SIZE):
        assert not _missed(_row(case, 11.9e-6)) and _missed(_row(case, 12.1e-6)) == ["12.1 us, target 12"]


def test_targets_of_cpus() -> None:
    for n, share in ((2, 0.95), (8, 0.95)):
        case = batch("float64", n, n, 0, 1 << 20)
        least = case.bytes / bench_samples.H200.copy_bandwidth
        assert not _missed(_row(case, least / (share + 0.005)), "cpu") and _missed(_row(case, least / 0.945), "cpu")
    for name in ("NumPy", "PyTorch"):
        case = batch("float64", 11, 11, 0, 1 << 20)
        assert not _missed(_row(case, 1.0, 5.01, name), "cpu")
        assert _missed(_row(case, 1.0, 4.99, name), "cpu") == [f"4.99 x {name}, target 5"]
    assert not _missed(_row(case, 1.0, 0.9, "Eigen"), "cpu"), "the others have no such target"
    for n in (12, 32):
        case = batch("float64", n, n, 0, 1 << 20)
        least = _row(case, 1.0)[0]["bound_seconds"]
        assert not _missed(_row(case, least / 0.76), "cpu") and _missed(_row(case, least / 0.74), "cpu")
    assert not _missed(_row(batch("float64", 17, 17, 0, 1 << 20), 1e-3, 4e-3, "NumPy"), "cpu")


# --- report


def test_report_of_products(tmp_path: Path) -> None:
    sets = ("quick", "full", "accumulate", "rectangular", "small")
    bench_samples.journal(tmp_path, sets, "batched")
    results = store.write_results(tmp_path)
    missed = {id(row) for row, _ in EXTENSION.misses(results)}
    text = report.write_report(results, tmp_path, EXTENSION).read_text()
    assert {path.stem for path in (tmp_path / "plots").glob("*.png")} == {"batched", "batched_speed", "counters"}
    page = (tmp_path / "summary.md").read_text()
    for title in ("Batches by size", batched_summary.EVERY, "Few matrices", "share of the copy bandwidth", "P_max"):
        assert title in page and title in text
    assert "By width" not in page and "Few rows" not in page, "batches have tables of their own"
    every = batched_summary.every(results, missed)
    assert len(every.cells) == 36 * 4 + 31 + 12 and all(float(cells[10]) > 0 for cells in every.cells)
    by_range = batched_summary.by_range(results, missed)
    assert sum(int(cells[3]) for cells in by_range.cells) == len(every.cells) and by_range.bad and every.bad
    cells = batched_summary.few(results, missed).cells
    assert [line[0] for line in cells] == ["gemm", "gemm", "gemv", "gemv", "trsv", "trsv"]
    assert cells[0][4:7] != cells[1][4:7] and cells[0][6] == "missing"


def test_the_picture_has_a_panel_per_dtype_and_a_line_per_contender(tmp_path: Path) -> None:
    from mansard.bench.batched import pictures as batched_pictures

    bench_samples.journal(tmp_path, ("quick", "accumulate"), "batched")
    drawn = batched_pictures.sizes(store.collect(tmp_path))
    titles = [axis.get_title() for axis in drawn.axes if axis.get_visible()]
    assert titles == ["float64, A B", "float64, A B + C"]
    assert [line.get_label() for line in drawn.axes[0].lines[:3]] == ["Mansard", "CuPy (cuBLAS)", "PyTorch (cuBLAS)"]
    assert [int(x) for x in drawn.axes[0].lines[0].get_xdata()] == [2, 4, 8, 16, 32]
    assert batched_pictures.sizes({"rows": []}) is None
