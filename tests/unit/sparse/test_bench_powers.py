"""The sets of `mansard bench powers`: what they hold, how contenders are called, checked, judged and drawn."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_samples
import bench_sparse
import numpy as np
import pytest
from bench_sparse import sparse
from sparing import rotated

from mansard.bench import cases, command, operations, report, rows, runner, store
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.bench.sparse import (
    calls as powers_calls,
)
from mansard.bench.sparse import (
    cases as powers_cases,
)
from mansard.bench.sparse import (
    check as powers_check,
)
from mansard.bench.sparse import (
    matrices as powers_matrices,
)
from mansard.bench.sparse import (
    peers as powers_peers,
)
from mansard.bench.sparse import (
    pictures as powers_pictures,
)
from mansard.bench.sparse import (
    summary as powers_summary,
)
from mansard.bench.sparse.calls import DELTA16, INT32, ONE_THREAD, OWN_SPMV, PLAIN
from mansard.bench.sparse.entries import Result, enter
from mansard.bench.sparse.gains import allowed, by_case, gain, preparing
from mansard.bench.sparse.matrices import FULL, MATRICES
from mansard.bench.sparse.operations import SPARSE, storage_of
from mansard.machine import spmv
from mansard.plan.problem import ITEMSIZE
from mansard.sparse import matrices
from papers import EXTENSION, panzlaff

pytestmark = rotated(2)

SIZE = bench_samples.SIZE
SETS = {**powers_cases.SETS, **EXTENSION.sets["powers"]}
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 11), 1 << 20)


# --- what is measured


@pytest.mark.parametrize("size", [SIZE, TINY], ids=["H200", "tiny"])
@pytest.mark.parametrize("name", SETS)
def test_sets_have_cases_of_their_own(name: str, size: Size) -> None:
    found = SETS[name](size)
    assert found and len({case.key for case in found}) == len(found)
    for case in found:
        assert case.set == name and case.operation in SPARSE and case.form in MATRICES and case.bytes > 0
        assert case.problems() == () and (case.inner > 0) == (case.operation == "powers")


def test_sets_hold_what_the_targets_speak_of() -> None:
    assert {case.form for case in powers_cases.spmv(SIZE)} == set(MATRICES)
    assert {case.N for case in powers_cases.spmmv(SIZE)} == {4, 16}
    found = {(case.form, case.inner) for case in powers_cases.powers(SIZE)}
    assert found >= {(matrix, p) for matrix in MATRICES for p in (2, 5)}
    swept = ("band-27", "7pt", "27pt", "graphene", "delaunay")
    assert found >= {(matrix, p) for matrix in swept for p in (2, 3, 4, 5, 8)}
    pinned = [dict(case.pins) for case in SETS["formats"](SIZE)]
    assert {pins.get("C") for pins in pinned} >= {1, 2, 4, 8, 16, 32} and {pins["format"] for pins in pinned} == {
        "csr", "sell", "ell",
    }  # fmt: skip
    assert "mansard bench powers" in command._sets_text() and not set(SPARSE) & {
        case.operation for case in cases.quick(SIZE)
    }


def test_matrices_of_a_gpu_are_those_of_the_thesis() -> None:
    """Table 4.3: rows and entries, which the generators say without making them."""
    rows_of = {name: powers_matrices.nominal_rows(name, FULL) for name in MATRICES}
    assert (rows_of["band-7"], rows_of["band-27"]) == (16777216, 4194304)
    assert (rows_of["7pt"], rows_of["27pt"], rows_of["HPCG"]) == (16777216, 4194304, 2097152)
    assert rows_of["channel"] == 4802000
    assert matrices.stencil_entries(27, MATRICES["27pt"].shape) == 111777784
    assert matrices.stencil_entries(7, MATRICES["7pt"].shape) == 117047296


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_are_made_at_any_size(name: str) -> None:
    for wanted in (300, 3000):
        A = powers_matrices.make(name, wanted, "float64", np)
        assert A.shape[0] == A.shape[1] and wanted / 2.5 < A.shape[0] < 2.5 * wanted
        assert A.has_sorted_indices and len(np.unique(A.data)) > A.nnz // 2
        assert A.nnz / A.shape[0] < 1.3 * MATRICES[name].entries + 1


# --- bytes, flops, models


@pytest.mark.parametrize("form", [{"format": "csr"}, {"format": "ell"}, {"format": "sell", "index": "int32"},
                                  {"format": "sell", "index": "delta16"}])  # fmt: skip
def test_bytes_are_those_of_the_model(form: dict[str, Any]) -> None:
    import mansard as ms

    csr = matrices.band(640, 5)
    A = ms.sparse.matrix(csr, **form)
    stored = storage_of(A.storage, "float64")
    row = sparse("spmv", "band-7", 640, 5).to_dict() | {"rows": 640, "nnz": csr.nnz, "storage": stored}
    work = operations.work_of(row)
    assert work.flops == 2 * csr.nnz and work.written == 8 * 640
    entry = (8 + {"csr": 4, "ell": 4}.get(form["format"], 4 if form.get("index") == "int32" else 2)) * csr.nnz
    assert entry <= work.read - 8 * 640 <= 1.05 * entry + 4 * 640


def test_powers_move_the_matrix_once() -> None:
    one, five = (operations.work_of(sparse("powers", inner=p).to_dict()) for p in (1, 5))
    assert five.written == 5 * one.written and five.read == one.read and five.flops == 5 * one.flops


def test_rows_say_what_the_models_expect() -> None:
    found = bench_sparse.contest(sparse("powers", inner=5), np.random.default_rng(0))
    ours = rows.complete(found[0], bench_sparse.H200)
    ratio = spmv.cached_bandwidth(bench_sparse.H200, 3e7) / 4.5e12
    assert ours["predicted_speedup"] == pytest.approx(spmv.powers_speedup(5, ratio), rel=0.1)
    assert 1 < ours["passes"] < 5
    launched = rows.complete(found[0] | {"launches": 320}, bench_sparse.H200)
    assert launched["predicted_seconds"] > ours["predicted_seconds"]
    assert "predicted_speedup" not in rows.complete(found[0] | {"footprint": None}, bench_sparse.H200)
    case = by_case(rows.complete(row, bench_sparse.H200) for row in found)[ours["case"]]
    own = min(case[PLAIN]["median"], case[OWN_SPMV]["median"])
    assert gain(case) == pytest.approx(own / case[rows.OURS]["median"])
    rate = (1e6 / 1.4e-6) / (ours["nnz"] * 5 / own)
    assert allowed(case) == pytest.approx(spmv.powers_speedup(5, rate))
    assert preparing(case) == (0.4, pytest.approx(0.4 * 5 / own))


# --- contenders and checks


def _given(case: Case) -> tuple[Any, Any]:
    return Operands("cpu", [case], 1 << 10).pair(case)


def test_library_of_a_gpu_played_by_numpy() -> None:
    """Every spelling gives the product, and the powers."""
    peer = powers_peers.CupySparsePeer.__new__(powers_peers.CupySparsePeer)

    def spmv_into(A: Any, x: Any, y: Any) -> Any:
        y[...] = A @ x
        return y

    peer.cupy, peer.cusparse = np, SimpleNamespace(spmv=spmv_into, spmm=lambda A, x: A @ x)  # type: ignore[assignment]
    peer.missing = ""
    for case in (sparse("spmv", rows=300), sparse("spmv", rows=300, N=4), sparse("powers", rows=300, inner=3)):
        given, x = _given(case)
        reference = powers_check.reference_for(case, given, x)
        ways = peer.ways(case, given, x)
        assert len(ways) == 2
        for way in ways.values():
            reference.prepare(way.out)
            made = way.run()
            assert reference.error(Result(way.give(way.out if made is None else made), False)) <= 1
        entry = enter(peer, case, [(given, x)], lambda run: (run(0), 1.0)[1])
        assert entry.facts["nnz"] == given.csr.nnz and entry.facts["storage"]["format"] == "csr"


def test_each_library_takes_part_in_what_it_can() -> None:
    names = [peer.name for peer in powers_peers.peers_for("cuda")]
    assert {"CuPy (cuSPARSE)", "PyTorch (cuSPARSE)", "Mansard persistent", PLAIN, INT32} <= set(names)
    assert {peer.name for peer in powers_peers.peers_for("reference")} == {"SciPy", "PyTorch"}
    for peer in powers_peers.peers_for("cpu"):
        taking = peer.takes_part(sparse("spmv")), peer.takes_part(sparse("powers", inner=2))
        own = peer.name.startswith("Mansard ")
        assert any(taking) and (own != all(taking)), peer.name


@pytest.mark.parametrize("operation", SPARSE)
def test_wrong_numbers_are_found(operation: str) -> None:
    case = sparse(operation, rows=300, inner=3 if operation == "powers" else 0)
    given, x = _given(case)
    reference = powers_check.reference_for(case, given, x)
    right = reference.exact.copy()
    if operation == "powers":
        right = given.powers(3, "plain", "none")(x)
    assert reference.error(Result(right, True)) <= 1
    for place, wrong in ((-1, np.nan), (5, right.flat[5] + 1e-9), (0, np.inf)):
        spoiled = right.copy()
        spoiled.flat[place] = wrong
        assert reference.error(Result(spoiled, False)) > 1
    assert reference.error(Result(right[:-1], False)) > 1
    if operation == "powers":  # a bit is enough where rows are summed up in the same order
        spoiled = right.copy()
        spoiled[-1, 7] = np.nextafter(spoiled[-1, 7], 9)
        assert reference.error(Result(spoiled, False)) <= 1 and reference.error(Result(spoiled, True)) == np.inf


def test_results_in_the_order_of_the_matrix_are_brought_back() -> None:
    case = sparse("powers", "delaunay", rows=400, width=6, inner=2)
    given, x = _given(case)
    reference = powers_check.reference_for(case, given, x)
    way = powers_calls.powers(given, x, case, "plain", permuted=True)
    way.run()
    assert reference.error(Result(way.give(way.out), way.own_bits)) <= 1
    straight = sparse("powers", "band-7", rows=400, width=7, inner=2)
    with pytest.raises(ValueError, match="stay where they are"):
        powers_calls.powers(*_given(straight), straight, None, permuted=True)


def test_formats_that_would_be_mostly_padding_are_refused() -> None:
    given, _ = _given(sparse("spmv", "Kronecker", rows=1 << 10, width=30))
    with pytest.raises(ValueError, match="stored entries per entry"):
        given.matrix(format="ell")
    assert given.matrix(format="sell").storage.sigma > 1


def test_level_groups_follow_the_budget() -> None:
    case = sparse("powers", rows=4000, inner=3)
    given, x = _given(case)
    few, many = (given.powers(3, "groups", budget=budget) for budget in (1e9, 2e5))
    assert len(few.choice.ranges) < len(many.choice.ranges)
    assert (few(x) == many(x)).all()


# --- runs


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_sparse_sets_run_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """From the command to the report."""
    one = powers_cases.one
    chosen = [one("quick", TINY, "spmv", "7pt"), *(one("quick", TINY, "powers", "27pt", inner=p) for p in (2, 3))]
    if device == "cpu":
        chosen += [one("spmmv", TINY, "spmv", "27pt", N=4), SETS["cache"](TINY)[0],
                   *(case for case in SETS["formats"](TINY) if dict(case.pins) == {"format": "ell"})]  # fmt: skip
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    monkeypatch.setattr("mansard.bench.ceilings.measure", lambda backend: bench_sparse.H200)
    monkeypatch.setattr("mansard.bench.ceilings.Beside.runs", {})
    options = runner.Options(("quick",), device, tmp_path, repeats=1, most_elements=1 << 11, family="powers")
    results = runner.run(options)
    found = {(row["contender"], row["case"]): (row["status"], row.get("note", "")) for row in results["rows"]}
    assert {status for status, _ in found.values()} <= {"ok", "missing"}, found
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == len(chosen) and all(row["status"] == "ok" and row["percent_limit"] > 0 for row in ours)
    assert all(row["nnz"] > 0 for row in results["rows"] if row["status"] == "ok")
    names = {row["contender"] for row in results["rows"] if row["status"] == "ok"}
    assert "SciPy" in names and (device == "reference" or {PLAIN, OWN_SPMV, INT32, ONE_THREAD} <= names)
    assert all("SciPy" in row.get("best_peer", "SciPy PyTorch") or row["best_peer"] == "PyTorch" for row in ours)
    with open(tmp_path / store.TABLE) as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(results["rows"]) and {line["form"] for line in lines} == {"7pt", "27pt", "band-27"} - (
        {"band-27"} if device == "reference" else set()
    )
    text = report.write_report(results, tmp_path).read_text()
    assert powers_summary.PRODUCTS in text and powers_summary.POWERS in text
    command.show(results)


# --- numbers


def _misses(found: list[rows.Row], backend: str = "cuda") -> list[str]:
    done = rows.compare(rows.complete(row, bench_sparse.H200) for row in found)
    return [text for _, text in EXTENSION.misses({"environment": {"backend": backend}, "rows": done})]


def _rows(case: Case, times: dict[str, float], **more: Any) -> list[rows.Row]:
    facts = {**case.to_dict(), "case": case.key, "rows": case.K, "nnz": case.M * case.K, "storage": {}}
    return [rows.row(facts, name, [seconds], **more) for name, seconds in times.items()]


def test_targets_of_products_on_gpus() -> None:
    case = sparse("spmv")
    least = rows.complete(_rows(case, {rows.OURS: 1.0})[0], bench_sparse.H200)["bound_seconds"]
    right = {rows.OURS: 0.9 * least, INT32: least / 0.91, DELTA16: least / 0.91 / 1.13, "CuPy (cuSPARSE)": 1.6 * least}
    assert _misses(_rows(case, right)) == []
    assert _misses(_rows(case, right | {INT32: least / 0.89, DELTA16: 0.9 * least})) == [
        "32-bit columns: 89.0 % of the bound, target 90"
    ]
    assert _misses(_rows(case, right | {DELTA16: least / 0.91 / 1.1})) == [
        "16-bit columns: 1.10 x those of 32 bits, target 1.12"
    ]
    slow = _misses(_rows(case, right | {"CuPy (cuSPARSE)": 0.8 * least}))
    assert slow == ["32-bit columns: 0.73 x CuPy (cuSPARSE), target 1.4", "0.89 x CuPy (cuSPARSE), target 1"]
    other = sparse("spmv", "Kronecker", width=30)
    assert _misses(_rows(other, {rows.OURS: 2.0, "CuPy (cuSPARSE)": 1.9})) == ["0.95 x CuPy (cuSPARSE), target 1"]
    block = sparse("spmv", N=4)
    assert _misses(_rows(block, {rows.OURS: 1.0, "PyTorch (cuSPARSE)": 2.9})) == ["2.90 x PyTorch (cuSPARSE), target 3"]


@pytest.mark.parametrize(("matrix", "p", "wanted"), [
    ("27pt", 5, 2.0), ("band-27", 5, 2.0), ("7pt", 5, 1.5), ("27pt", 4, 0.98), ("road", 5, 0.98),
    ("Kronecker", 8, 0.98),
])  # fmt: skip
def test_targets_of_powers_on_gpus(matrix: str, p: int, wanted: float) -> None:
    case = sparse("powers", matrix, inner=p)
    ways = {PLAIN: 1.0, OWN_SPMV: 1.1, "PyTorch (cuSPARSE)": 4.0}
    assert _misses(_rows(case, {rows.OURS: 1 / (wanted + 0.01), **ways})) == []
    assert _misses(_rows(case, {rows.OURS: 1 / (wanted - 0.01), **ways})) == [
        f"{wanted - 0.01:.2f} x our own products, target {wanted:g}"
    ]


def test_targets_of_powers_over_cusparse_and_of_preparing() -> None:
    case = sparse("powers", inner=5)
    times = {rows.OURS: 0.4, PLAIN: 1.0, "CuPy (cuSPARSE)": 1.1}
    assert _misses(_rows(case, times)) == ["2.75 x CuPy (cuSPARSE), target 3"]
    times = {rows.OURS: 0.4e-3, PLAIN: 1e-3, "CuPy (cuSPARSE)": 2e-3}
    assert _misses(_rows(case, times, preparing=4.9)) == []
    assert _misses(_rows(case, times, preparing=6.0)) == ["prepared in 6.0 s, 30000 products, target 60, or 5 s"]


def test_one_irregular_matrix_must_gain() -> None:
    def pair(delaunay: float, graphene: float) -> list[str]:
        found = []
        for matrix, seconds in (("delaunay", delaunay), ("graphene", graphene)):
            found += _rows(sparse("powers", matrix, inner=5), {rows.OURS: seconds, PLAIN: 1.0})
        return _misses(found)

    assert pair(1.0, 1 / 1.31) == [] and pair(1 / 1.31, 1.0) == []
    assert pair(1.0, 1 / 1.2) == ["1.20 x our own products, the best of delaunay and graphene, target 1.3"]


def test_targets_of_cpus() -> None:
    case = sparse("spmv")
    least = rows.complete(_rows(case, {rows.OURS: 1.0})[0], bench_sparse.H200)["bound_seconds"]
    right = {rows.OURS: least / 0.81, ONE_THREAD: 1.0, "SciPy": 1.26}
    assert _misses(_rows(case, right), "cpu") == []
    assert _misses(_rows(case, right | {rows.OURS: least / 0.79}), "cpu") == ["79.0 % of the bound, target 80"]
    assert _misses(_rows(case, right | {"SciPy": 1.2}), "cpu") == ["one thread: 1.20 x SciPy, target 1.25"]
    powers = sparse("powers", inner=5)
    inside = {"entries": 27 << 22, "seconds": [0.1]}  # twice as fast in the cache
    most = spmv.powers_speedup(5, 2.0)
    assert _misses(_rows(powers, {rows.OURS: 1 / (0.81 * most), PLAIN: 1.0}, in_cache=inside), "cpu") == []
    (text,) = _misses(_rows(powers, {rows.OURS: 1 / (0.79 * most), PLAIN: 1.0}, in_cache=inside), "cpu")
    assert text.endswith("79% of what equation 4.8 allows, target 80%")
    assert "target 0.98" in _misses(_rows(powers, {rows.OURS: 1.1, PLAIN: 1.0}), "cpu")[0]


# --- tables and pictures


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("powers")
    bench_sparse.journal(folder, tuple(SETS))
    return store.write_results(folder)


def test_tables_hold_every_case(made: dict[str, Any]) -> None:
    tables = {maker.__name__: maker(made, set()) for maker in (*powers_summary.MAKERS, *panzlaff.EXTENSION.tables)}
    assert len(tables["products"].cells) == 14 + 2 + 10 and len(tables["powers"].cells) == 5 * 5 + 9 * 2
    assert tables["ramp"].cells and len(tables["budget"].cells) == 10
    for table in tables.values():
        assert table.cells and all(len(cells) == len(table.columns) for cells in table.cells), table.title
    line = dict(zip(tables["powers"].columns, tables["powers"].cells[0], strict=True))
    assert float(line["x own"]) > 0 and float(line["by equation 4.8"]) > 1 and float(line["passes"]) > 0
    shown = dict(cells[:2] for cells in tables["streams"].cells)
    assert shown["triad"] == "4100.0 GB/s" and shown["small kernels"] == "1.30 us + bytes / 5100 GB/s"
    others = made | {"family": "gram"}
    assert not panzlaff.tables.streams(others, set()).cells


def test_pictures_show_what_there_is(made: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    bars = powers_pictures.bound(made).axes[0]
    assert [tick.get_text() for tick in bars.get_xticklabels()] == list(MATRICES)
    panels = [panel for panel in powers_pictures.speedup(made).axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == list(MATRICES)
    labels = {line.get_label() for line in panels[0].lines}
    assert {"Mansard", "Mansard persistent", "CuPy (cuSPARSE)", "equation 4.8"} <= labels
    assert len(panzlaff.pictures.formats(made).axes) == 3 and len(panzlaff.pictures.ramp(made).axes) == 2
    nothing = made | {"rows": []}
    for draw in (powers_pictures.bound, powers_pictures.speedup, panzlaff.pictures.formats, panzlaff.pictures.ramp):
        assert draw(nothing) is None
    bare = made | {"ceilings": None, "rows": made["rows"]}
    assert not panzlaff.pictures.ramp(bare).axes[1].lines


def test_a_row_names_its_matrix(made: dict[str, Any]) -> None:
    row = next(row for row in made["rows"] if row["operation"] == "powers")
    assert powers_summary.sizes(row) == f"{row['form']}, p = {row['inner']}"
    assert replace(sparse("spmv"), N=4).key != sparse("spmv").key
