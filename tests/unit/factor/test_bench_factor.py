"""The sets of `mansard bench factor`: what they hold, how contenders are called, checked, judged and drawn."""

from __future__ import annotations

import csv
from pathlib import Path

import bench_factors
import bench_samples
import numpy as np
import pytest
from bench_factors import factor, given
from sparing import in_turn, rotated

from mansard.bench import cases, command, labels, operations, report, rows, runner, store
from mansard.bench.cases import Case, Size
from mansard.bench.factor import (
    cases as factor_cases,
)
from mansard.bench.factor import (
    pictures as factor_pictures,
)
from mansard.bench.factor import (
    summary as factor_summary,
)
from mansard.bench.factor.operations import FACTORS, ONE_SIDED, RAGGED, SHORT, SPECTRAL, uniform_sizes
from mansard.kernels import family_of
from mansard.operations.factor.blocked import HOW
from mansard.plan.problem import DTYPES, ITEMSIZE
from papers import EXTENSION
from papers.dong import pictures as dong_pictures
from papers.dong import reductions as dong_reductions
from papers.dong import tables as dong_tables

pytestmark = rotated(2)

SIZE = bench_samples.SIZE
SETS = {**factor_cases.SETS, **EXTENSION.sets["factor"]}
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 9), 1 << 20)


# --- what is measured


@pytest.mark.parametrize("size", [SIZE, TINY], ids=["H200", "tiny"])
@pytest.mark.parametrize("name", SETS)
def test_sets_have_cases_of_their_own(name: str, size: Size) -> None:
    found = SETS[name](size)
    assert found and len({case.key for case in found}) == len(found)
    for case in found:
        measured = (*FACTORS, "gemv") if name in ("alignment", "settings") else FACTORS
        assert case.set == name and case.operation in measured and case.bytes > 0 and 0 < case.K <= 1 << 25
        large = (case.mode, case.temperature) == ("device", "cold") and not case.form and case.operation in FACTORS
        if size is SIZE and large:
            matrices = case.K * case.M**2 * ITEMSIZE[case.dtype]
            in_flight = case.operation in SPECTRAL and case.K in (12_672, 33_792)  # a thread per matrix hides its chain
            assert case.K == 1 << 25 or in_flight or 0.99 * (1 << 30) < matrices <= 1 << 30


def test_sets_hold_what_the_targets_speak_of() -> None:
    every = [*range(2, 34), 40, 41, 48, 49, 56, 57, 64, 65, 80, 96, 97, 112, 128, 192, 256, 384, 512]
    for name in FACTORS:
        found = factor_cases.SETS[name](SIZE)
        assert [case.M for case in found if case.dtype == "float64"] == every
        others = {dtype: [case.M for case in found if case.dtype == dtype] for dtype in DTYPES if dtype != "float64"}
        assert all(2 < len(sizes) < len(every) for sizes in others.values())
        asked = factor_cases.SETS[name](Size("cuda", SIZE.elements, SIZE.cache_bytes, every=True))
        assert {(case.dtype, case.M) for case in asked} == {(dtype, n) for dtype in DTYPES for n in every}
    assert {case.operation for case in factor_cases.quick(SIZE)} == set(FACTORS)
    (one,) = factor_cases.one(SIZE)
    assert (one.operation, one.M, one.K, one.mode) == ("solve", 8, 1, "eager")
    assert {case.form for case in SETS["steps"](SIZE)} == {"", *HOW}


def test_the_quick_set_of_gram_has_none_of_them() -> None:
    assert not set(FACTORS) & {case.operation for case in cases.quick(SIZE)}
    assert "mansard bench factor" in command._sets_text()


@pytest.mark.parametrize(("operation", "wanted"), [
    ("cholesky", 16 * 64 + 4), ("lu", 16 * 64 + 4 * 8 + 4), ("qr", 16 * 64 + 8 * 8), ("solve", 8 * 64 + 16 * 8 + 4),
    ("inverse", 16 * 64 + 4), ("qrq", 24 * 64), ("determinant", 8 * 64 + 8 + 4),
])  # fmt: skip
def test_bytes_are_those_that_must_move_once(operation: str, wanted: int) -> None:
    case = factor(operation, 8, 10)
    assert case.bytes == 10 * wanted
    for problem in case.problems():
        assert family_of(problem.operation).work.work(problem).bytes == case.bytes


@pytest.mark.parametrize(("operation", "leading"), [
    ("cholesky", 1 / 3), ("lu", 2 / 3), ("qr", 4 / 3), ("qrq", 8 / 3), ("solve", 2 / 3), ("inverse", 2.0),
    ("determinant", 2 / 3),
])  # fmt: skip
def test_flops_are_those_of_lapack(operation: str, leading: float) -> None:
    real, complex_ = (operations.work_of(factor(operation, 500, 3, d).to_dict()).flops for d in DTYPES[1::2])
    assert real == pytest.approx(3 * leading * 500**3, rel=0.01) and complex_ == pytest.approx(4 * real, rel=0.01)
    if operation == "cholesky":  # by hand: a root, a division, a product and a difference
        assert operations.work_of(factor(operation, 2, 1).to_dict()).flops == 5


def test_equal_matrices_have_the_work_of_a_ragged_batch() -> None:
    case = factor("solve", 64, 20000, form=RAGGED)
    assert (
        case.is_ragged and not case.uniform.is_ragged and uniform_sizes(64, 20000) == (case.uniform.M, case.uniform.K)
    )
    work, equal = (operations.work_of(each.to_dict()) for each in (case, case.uniform))
    assert equal.bytes == pytest.approx(work.bytes, rel=0.03) and equal.flops == pytest.approx(work.flops, rel=0.03)


# --- operands, problems and calls


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_are_what_they_should_be(dtype: str) -> None:
    for operation in FACTORS:
        case = factor(operation, 6, 40, dtype)
        _, (A, B) = given(case)
        assert A.shape == (40, 6, 6) and A.dtype == dtype and (B is not None) == (operation == "solve")
        if operation == "cholesky":
            assert np.allclose(A, A.conj().swapaxes(1, 2)) and np.linalg.eigvalsh(A).min() >= 5.9
    case = factor("cholesky", 9, 40, dtype, form=RAGGED)
    operands, (A, B) = given(case)
    assert B is None and min(np.linalg.eigvalsh(one).min() for one in A) > 0.9
    assert operands.empty(case).shapes == A.shapes


def test_determinants_neither_overflow_nor_vanish() -> None:
    for dtype, n in (("float32", 256), ("float64", 512)):
        _, (A, _) = given(factor("determinant", n, 2, dtype))
        assert (abs(np.log(abs(np.linalg.det(A)))) < 10).all()


@pytest.mark.parametrize("n", [8, 32])
@pytest.mark.parametrize("operation", SPECTRAL)
def test_kernels_of_chains_are_built_for_what_is_planned(operation: str, n: int) -> None:
    from mansard.arrays import kinds as arrays
    from mansard.operations.factor.two_sided import chain, chunked, task
    from mansard.operations.stacks import operand_of

    case = factor(operation, n, 9)
    A = given(case)[1][0]
    a, wanted = operand_of(arrays.kind_of(A, "A"), A, "a"), task.Task(SHORT.get(operation, operation))
    for on_cpu in (False, True):
        (method, *_) = chain.methods(wanted, "float64", n, on_cpu)
        links = chunked.problems_of(method, a, chunked.layout_of(a, on_cpu), 9)
        assert {link.problem for link in links} <= set(case.problems())


@pytest.mark.parametrize("operation", ONE_SIDED)
def test_kernels_are_built_for_the_problem_that_is_planned(operation: str) -> None:
    from mansard.arrays import kinds as arrays
    from mansard.backends import select
    from mansard.bench.factor.operations import WANTS
    from mansard.operations.factor import kernel as factor_kernel
    from mansard.operations.factor.task import Sizes, Task
    from mansard.operations.stacks import operand_of

    case = factor(operation, 8, 9)
    if not case.problems():
        pytest.skip(f"there are no kernels for {operation} here")
    operands, (A, B) = given(case)
    kind, task = arrays.kind_of(A, "A"), Task(*WANTS[operation])
    places = {} if operation in ("qr", "qrq", "determinant") else {task.parts[0]: operands.empty(case)}
    described = {part: operand_of(kind, one, "out") for part, one in places.items()}
    both = {"A": operand_of(kind, A, "a")} | ({} if B is None else {"B": operand_of(kind, B, "b")})
    backend = select.ReferenceBackend(runner.choose_backend("reference")[0].device)
    run = factor_kernel.KernelRun(kind, task, Sizes(8, 8, 0 if B is None else 1), both, described, backend)
    assert case.problem() == run.problem


# --- runs


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_factorizations_run_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """From the command to the report."""
    chosen = [case for case in factor_cases.quick(TINY) if case.M in ((4, 32) if device == "reference" else (4,))]
    chosen += [factor_cases.one(TINY)[0], *factor_cases.ragged(TINY)]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    options = runner.Options(("quick",), device, tmp_path, repeats=1, most_elements=1 << 9, family="factor")
    if device == "cpu":  # its ceilings take longer than all the rest
        monkeypatch.setattr("mansard.bench.ceilings.measure", lambda backend: bench_samples.H200)
        monkeypatch.setattr("mansard.bench.ceilings.Beside.runs", {})
    results = runner.run(options)
    statuses = {(row["contender"], row["case"]): (row["status"], row.get("note", "")) for row in results["rows"]}
    assert {status for status, _ in statuses.values()} == {"ok"}, statuses
    assert not results["unfinished"]
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == len(chosen) and len(results["rows"]) >= 2 * len(ours)
    assert all(row["percent_uniform"] > 0 for row in ours if row["form"] == RAGGED)
    with open(tmp_path / store.TABLE) as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(results["rows"]) and all(float(line["gflops"]) > 0 for line in lines)
    text = report.write_report(results, tmp_path).read_text()
    assert "Factorizations by size" in text and "One system, called from Python" in text
    command.show(results)


def test_wrong_results_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mansard as ms

    right = ms.linalg.inv_ex
    monkeypatch.setattr(ms.linalg, "inv_ex", lambda A, **more: right(A.swapaxes(1, 2), **more))
    chosen = [factor("inverse", 4, 20)]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    results = runner.run(runner.Options(("quick",), "reference", tmp_path, repeats=1, peers=False, family="factor"))
    assert [row["status"] for row in results["rows"]] == ["wrong"] and results["rows"][0]["error"] > 1
    assert EXTENSION.misses(results)[0][1].startswith("wrong: error")


# --- numbers


def _row(case: Case, seconds: float, peer: float | None = None, name: str = "PyTorch (cuSOLVER)") -> list[rows.Row]:
    facts = {**case.to_dict(), "case": case.key}
    found = [rows.row(facts, rows.OURS, [seconds])]
    found += [rows.row(facts, name, [peer])] if peer else []
    return rows.compare(rows.complete(row, bench_samples.H200) for row in found)


def _missed(found: list[rows.Row], backend: str = "cuda") -> list[str]:
    return [text for _, text in EXTENSION.misses({"environment": {"backend": backend}, "rows": found})]


@pytest.mark.parametrize(("operation", "n", "percent", "times"), [
    ("cholesky", 2, 86, 15), ("cholesky", 3, 92, 15), ("cholesky", 9, 92, 8), ("cholesky", 32, 92, 8),
    ("cholesky", 33, 88, 8), ("cholesky", 65, 0, 3), ("cholesky", 512, 0, 1.1), ("lu", 8, 90, 2.8), ("lu", 16, 86, 2.8),
    ("lu", 17, 58, 2.2), ("lu", 64, 30, 4), ("lu", 128, 0, 3), ("lu", 129, 0, 1.3), ("qr", 2, 85, 6), ("qr", 9, 85, 8),
    ("qr", 32, 50, 10), ("qr", 33, 0, 6), ("qr", 128, 0, 6), ("qr", 256, 0, 4), ("solve", 8, 90, 15),
    ("solve", 9, 55, 7), ("solve", 32, 35, 5.5), ("solve", 64, 0, 5), ("solve", 65, 0, 3), ("solve", 512, 0, 1.3),
    ("inverse", 8, 80, 10), ("inverse", 16, 0, 5), ("inverse", 17, 0, 3), ("inverse", 64, 0, 4),
    ("inverse", 128, 0, 2.5), ("inverse", 192, 0, 1.1),
])  # fmt: skip
def test_targets_of_gpus(operation: str, n: int, percent: float, times: float) -> None:
    case = factor(operation, n, 1 << 10)
    least = case.bytes / bench_samples.H200.copy_bandwidth
    if percent:
        assert not _missed(_row(case, 100 * least / (percent + 0.5)))
        (text,) = _missed(_row(case, 100 * least / (percent - 0.5)))
        assert text.endswith(f"% of the copy bandwidth, target {percent}")
        other = factor(operation, n, 1 << 10, "float32")
        least32 = other.bytes / bench_samples.H200.copy_bandwidth
        assert not _missed(_row(other, 100 * least32 / (0.8 * percent + 0.5)))
        assert _missed(_row(other, 100 * least32 / (0.8 * percent - 0.5)))
    else:
        assert not _missed(_row(case, 1000 * least))
    assert not _missed(_row(case, least, peer=(times + 0.01) * least))
    assert _missed(_row(case, least, peer=(times - 0.01) * least)) == [
        f"{times - 0.01:.2f} x PyTorch (cuSOLVER), target {times:g}"
    ]
    assert not _missed(_row(factor(operation, n, 1 << 10, "complex64"), least / 9, peer=least / 9))


def test_other_targets_of_gpus() -> None:
    case = factor("qrq", 32, 1 << 10)
    assert not _missed(_row(case, 1.0, 50.1)) and _missed(_row(case, 1.0, 49.9, "PyTorch (MAGMA)"))
    assert not _missed(_row(case, 1.0, 1.0, "CuPy (cuBLAS, cuSOLVER)")) and not _missed(
        _row(factor("qrq", 33), 1.0, 2.0)
    )
    (one,) = factor_cases.one(SIZE)
    assert not _missed(_row(one, 14.9e-6)) and _missed(_row(one, 15.1e-6)) == ["15.1 us, target 15"]
    ragged = factor("cholesky", 64, 1000, form=RAGGED)
    for share, good in ((81, True), (79, False)):
        (row,) = _row(ragged, 1.0)
        row["percent_uniform"] = share
        assert (not _missed([row])) == good
    assert not _missed(_row(factor("lu", 64, 2000, form="classic"), 1.0, 1e-3)), "an experiment has no target"
    assert not _missed(_row(factor("determinant", 8), 1.0, 1e-3))


def test_targets_of_cpus() -> None:
    for name in ("NumPy", "PyTorch"):
        assert not _missed(_row(factor("solve", 32), 1.0, 4.01, name), "cpu")
        assert _missed(_row(factor("solve", 32), 1.0, 3.99, name), "cpu") == [f"3.99 x {name}, target 4"]
        assert not _missed(_row(factor("solve", 33), 1.0, 0.5, name), "cpu")
    assert not _missed(_row(factor("lu", 16), 1.0, 2.01, "Eigen"), "cpu")
    assert _missed(_row(factor("lu", 16), 1.0, 1.99, "Eigen"), "cpu") == ["1.99 x Eigen, target 2"]
    assert not _missed(_row(factor("lu", 17), 1.0, 0.5, "Eigen"), "cpu")


# --- report


@in_turn(2, 3)
def test_report_of_factorizations(tmp_path: Path) -> None:
    bench_factors.journal(tmp_path, ("cholesky", "solve", "qrq", "one", "ragged", "steps"))
    results = store.write_results(tmp_path)
    missed = {id(row) for row, _ in EXTENSION.misses(results)}
    text = report.write_report(results, tmp_path, EXTENSION).read_text()
    drawn = {path.stem for path in (tmp_path / "plots").glob("*.png")}
    assert drawn == {"factor", "factor_speedup", "factor_dtypes", "factor_steps"}
    page = (tmp_path / "summary.md").read_text()
    for title in ("Factorizations by size", factor_summary.EVERY, "ragged batches", "One system", dong_tables.STEPS):
        assert title in page and title in text
    assert "By width" not in page and "Few matrices" not in page, "factorizations have tables of their own"
    every, ranges = factor_summary.every(results, missed), factor_summary.by_range(results, missed)
    assert len(every.cells) == 3 * (len(factor_cases.SIZES) + 3 * len(factor_cases._SOME)) and every.bad and ranges.bad
    assert sum(int(cells[3]) for cells in ranges.cells) == len(every.cells)
    assert ranges.cells[0][:3] == ("Cholesky", "float64", "1-8") and ranges.cells[0][-1] == "92 %, 15 x"
    steps = dong_tables.steps(results, missed)
    assert len(steps.cells) == 30 and steps.columns[3:] == (*HOW, "chosen", "best peer")
    assert len(factor_summary.ragged(results, missed).cells) == 2


def test_pictures_of_reductions(tmp_path: Path) -> None:
    bench_factors.journal(tmp_path, ("alignment", "settings", "gebrd", "two_sided", "phases"))
    results = store.collect(tmp_path)
    alignment, settings, gebrd, breakdown = (draw(results) for _, draw in dong_reductions.PICTURES.values())
    assert [len(axis.lines) for axis in alignment.axes] == [3, 3]
    assert [line.get_label() for line in settings.axes[0].lines] == ["chosen", *dong_reductions._SETTINGS]
    assert gebrd.axes[0].lines[-1].get_label() == "2 / (1 / gemv + 1 / gemm)"
    assert [axis.get_title() for axis in breakdown.axes] == ["eigh", "svd"]
    assert all(draw({"rows": []}) is None for _, draw in dong_reductions.PICTURES.values())
    large = next(row for row in results["rows"] if row["operation"] == "eigh" and row["M"] == 64)
    assert large["limit"] == "back transformation" and large["percent_limit"] > 0


def test_shares_of_phases_are_of_the_same_batches() -> None:
    """Each function does what the one before it does, and more; rows of other sets have other batches."""
    taken = {"tridiagonalize": 2.0, "eigvalsh": 3.0, "eigh": 4.0}
    facts = {"contender": rows.OURS, "status": "ok", "dtype": "float64", "M": 32, "K": 10}
    found = [{**facts, "set": "phases", "operation": name, "median": 10 * each} for name, each in taken.items()]
    others = [{**each, "set": "two_sided", "median": 99.0} for each in found]
    assert dong_reductions.shares_of({"rows": [*found, *others]}, "eigh") == {32: (0.5, 0.25, 0.25)}
    assert dong_reductions.shares_of({"rows": others}, "eigh") == {}


def test_pictures_have_a_panel_per_operation_and_a_line_per_contender(tmp_path: Path) -> None:
    bench_factors.journal(tmp_path, ("quick",))
    results = store.collect(tmp_path)
    EXTENSION.misses(results)
    drawn = factor_pictures.share(results)
    titles = [axis.get_title() for axis in drawn.axes if axis.get_visible()]
    assert titles == list(factor_summary.NAMES.values())
    found = [line.get_label() for line in drawn.axes[0].lines[:5]]
    cholesky = (labels.RENAMED if name == labels.MAGMA else name for name in bench_factors.PEERS)
    assert found == ["Mansard", *sorted(cholesky), "target"]
    assert labels.MAGMA in [line.get_label() for line in drawn.axes[1].lines[:5]], "of LU"
    assert [int(x) for x in drawn.axes[0].lines[0].get_xdata()] == [4, 8, 16, 32, 64, 128]
    targets_drawn = dict(zip(*drawn.axes[0].lines[4].get_data(), strict=True))
    assert targets_drawn == {4: 92, 8: 92, 16: 92, 32: 92, 64: 88}
    assert factor_pictures.share({"rows": []}) is None and factor_pictures.dtypes(results) is None
    assert factor_pictures.speedup({"rows": []}) is None and dong_pictures.steps({"rows": []}) is None
    assert not any("wanted" in row for row in results["rows"] if row["operation"] == "determinant")
    plain = factor_pictures.share(store.collect(tmp_path))
    assert "target" not in [line.get_label() for line in plain.axes[0].lines], "users see no targets of ours"
