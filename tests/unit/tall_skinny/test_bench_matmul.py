"""The sets of `mansard bench matmul`: what they hold, how each operation is called, checked, judged and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_samples
import numpy as np
import pytest
from sparing import in_turn, rotated

import mansard as ms
from mansard.backends import emulated
from mansard.bench import (
    build,
    calls,
    cases,
    check,
    command,
    contenders,
    contest,
    entries,
    operations,
    peers,
    report,
    rows,
    runner,
    store,
)
from mansard.bench.cases import Case, Size
from mansard.bench.data import Operands
from mansard.bench.tall_skinny import grid_cases, matmul_cases, matmul_summary
from mansard.errors import IllegalConfig, LaunchError
from mansard.plan.explain import NOMINAL
from mansard.plan.pin import pin
from mansard.plan.problem import ITEMSIZE
from mansard.plan.tall_skinny_rules import family_for
from papers import EXTENSION
from papers.ernst.pictures import best_by
from papers.tsm2 import cases as tsm2_cases
from papers.tsm2 import tables as tsm2_tables
from papers.tsm2.choices import choices, step_of

pytestmark = rotated(3)

SIZE = bench_samples.SIZE
SETS = {**matmul_cases.SETS, **EXTENSION.sets["matmul"]}
TINY = Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 9), 1 << 20)
H200 = SimpleNamespace(name="cuda", device=NOMINAL["sm_90a"])


def options(folder: Path, **changes: Any) -> runner.Options:
    values = {"out": folder, "repeats": 2, "most_elements": 1 << 9, "family": "matmul", "device": "reference"}
    return runner.Options(**(values | changes))


# --- what is measured


@pytest.mark.slow
@pytest.mark.parametrize("size", [SIZE, TINY], ids=["H200", "tiny"])
@pytest.mark.parametrize("name", SETS)
def test_sets_have_cases_of_their_own(name: str, size: Size) -> None:
    found = SETS[name](size)
    assert found and len({case.key for case in found}) == len(found)
    assert all(case.set == name for case in found)
    for case in found[:20]:
        assert case.bytes > 0 and min(case.M, case.N, case.K) > 0


def test_sets_cover_the_papers_sizes() -> None:
    assert {case.M for case in matmul_cases.full(SIZE)} == set(range(1, 65))
    found = {(case.dtype, case.M, case.K, case.N, case.layout) for case in matmul_cases.tsm2r(SIZE)}
    for side in (10240, 15360, 20480, 25600, 30720):
        for n in (2, 4, 8, 16, 32):
            assert {(d, side, side, n, where) for d in ("float64", "float32") for where in ("row", "col")} <= found
    assert ("float64", 10240, 10240, 3, "row") in found
    tall = {(case.mode, case.temperature, case.K, case.M) for case in matmul_cases.tsm2l(SIZE)}
    assert {(mode, "cold", k, m) for mode in ("graph", "eager") for k in (10**4, 10**5, 10**7) for m in (8, 16)} <= tall
    assert {("device", "cold", 10**7, 8), ("graph", "hot", 10**4, 8)} <= tall
    found = {(case.operation, case.K, case.condition) for case in matmul_cases.orthogonal(SIZE)}
    assert {("cholesky_qr", 10**7, 1e12), ("cholesky_qr", 10**7, 1e7), ("project", 10**7, 0.0)} <= found


def test_grid_has_more_than_200_shapes_of_all_kinds() -> None:
    found = grid_cases.shapes(SIZE, "float32")
    assert len(found) >= 200 and len(set(found)) == len(found)
    assert {(m, m, m, "row") for m in (64, 127, 1000, 4096)} <= set(found)
    routes = {family_for("float32", m, k, n) for m, k, n, _ in found}
    assert routes == {"gram", "tsmm", "tsm2r", None} and {layout for *_, layout in found} >= {"row", "col", "row-col"}
    assert {case.mode for case in matmul_cases.grid(SIZE)} == {"eager", "device"}


def test_sets_for_gpus_are_refused_on_cpus() -> None:
    names = ("tsm2r", "steps", "tsm2model", "source", "unroll", "threads")
    chosen, refused = cases.select(names, cases.Size("cpu", SIZE.elements, 1), SETS)
    assert not chosen and set(refused) == set(names)


def test_help_names_every_set() -> None:
    text = command._sets_text(added=EXTENSION)
    for name in (*cases.SETS, *SETS):
        assert f"\n  {name} " in text


# --- operands and calls


@pytest.mark.parametrize(("layout", "strides"), [
    ("row", ((7, 1), (3, 1))), ("col", ((1, 5), (3, 1))), ("row-col", ((7, 1), (1, 7))), ("col-col", ((1, 5), (1, 7))),
])  # fmt: skip
@pytest.mark.parametrize("operation", ["matmul", "tsm2r"])
def test_operands_of_products(operation: str, layout: str, strides: tuple[tuple[int, int], ...]) -> None:
    case = Case("x", "float64", 5, 3, 7, layout, operation=operation)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    assert A.shape == (5, 7) and B.shape == (7, 3)
    assert tuple(tuple(stride // 8 for stride in array.strides) for array in (A, B)) == strides
    assert not np.shares_memory(A, B)


@pytest.mark.parametrize("condition", [1.0, 1e7, 1e12])
def test_blocks_have_the_condition_they_claim(condition: float) -> None:
    case = Case("x", "float64", 8, 8, 20_000, operation="cholesky_qr", condition=condition)
    V, nothing = Operands("cpu", [case], 1 << 10).pair(case)
    assert nothing is None and np.linalg.cond(V) == pytest.approx(condition, rel=0.1)


@pytest.mark.parametrize(("m", "k", "n"), [
    (5, 200, 7), (64, 1024, 64), (300, 4, 4), (2048, 128, 128), (2048, 2048, 2), (64, 64, 64), (129, 2100, 129),
    (2047, 2048, 2), (2048, 2048, 33), (15, 1, 1),
])  # fmt: skip
def test_kernels_are_built_for_who_answers(m: int, k: int, n: int) -> None:
    """The rule by which kernels are built ahead is that of `ms.matmul`, and the problem the one it hands on."""
    for layout in ("row", "col", "row-col"):
        case = Case("x", "float32", m, n, k, layout, operation="matmul")
        operands = Operands("cpu", [case], 1 << 10)
        A, B = operands.pair(case)
        family = calls.answering(A, B, operands.empty(case), "reference")
        assert family == (family_for("float32", m, k, n) or "vendor")
        if family != "vendor" and min(m, n, k) > 1:
            left, more = (A.T, {"conj": False}) if family == "gram" else (A, {})
            plan = ms.plan(family, left, B, out=operands.empty(case), backend="reference", **more)
            assert case.problems() == (plan.problem,)


def test_passes_of_the_fused_operations_are_counted() -> None:
    block = 1000 * 32 * 8
    assert operations.work("matmul_gram", "float64", 32, 32, 1000).bytes == 2 * block
    assert operations.work("project", "float64", 32, 32, 1000).bytes == 5 * block
    for condition, passes in ((1.0, 3), (1e7, 5), (1e12, 7)):
        assert operations.work("cholesky_qr", "float64", 32, 32, 1000, condition=condition).bytes == passes * block


# --- right or wrong


@pytest.mark.parametrize("operation", ["matmul_gram", "project", "cholesky_qr", "matmul", "tsm2r"])
def test_every_peer_is_right_and_wrong_results_are_found(operation: str) -> None:
    case = Case("x", "float64", 6, 6, 600, operation=operation, condition=1e7 * (operation == "cholesky_qr"))
    operands = Operands("cpu", [case], 1 << 10)
    A, B = operands.pair(case)
    reference = check.reference_for(case, A, B)
    into = () if operation == "cholesky_qr" else (operands.empty(case),)
    for peer in contenders.peers_for("cpu"):
        if peer.missing or not (peer.own or isinstance(peer, peers.TorchPeer)):
            continue
        entry = entries.enter(peer, case, [(A, B, *into)], lambda run: 0.0)
        result = entry.result()
        assert reference.error(result) <= 1, peer.name
        parts = [np.array(part) for part in (result if isinstance(result, tuple) else (result,))]
        for part in parts:
            held = part[3, 4]
            part[3, 4] += 1e-6 * max(1.0, abs(part).max())
            assert reference.error(tuple(parts) if len(parts) > 1 else parts[0]) > 1
            part[3, 4] = np.nan
            assert reference.error(tuple(parts) if len(parts) > 1 else parts[0]) == float("inf")
            part[3, 4] = held


def test_matmul_is_compared_with_the_library_of_its_arrays_alone(tmp_path: Path) -> None:
    results = runner.run(options(tmp_path, sets=("grid",), repeats=1))
    assert {row["contender"] for row in results["rows"]} == {rows.OURS, "NumPy"}
    assert all(row["status"] == "ok" for row in results["rows"])
    counts = matmul_summary.grid(results, set())
    assert sum(int(cells[3]) for cells in counts.cells) == len(results["rows"]) // 2
    assert len(matmul_summary.worst(results, set()).cells) == 10


@pytest.mark.parametrize("name", ["orthogonal", "tsm2l"])
def test_sets_run_in_miniature(tmp_path: Path, name: str) -> None:
    results = runner.run(options(tmp_path, sets=(name,)))
    assert {row["status"] for row in results["rows"]} == {"ok"} and not results["unfinished"]
    assert {row["contender"] for row in results["rows"]} >= {rows.OURS, "NumPy"}
    for row in results["rows"]:
        assert ("passes" in row) == (row["operation"] in operations.ORTHOGONAL)
        assert ("departure" in row) == (row["operation"] == "cholesky_qr")


def _few(name: str, wanted: Any) -> Iterator[Case]:
    yield from (case for case in SETS[name](Size("emulated", dict.fromkeys(ITEMSIZE, 1 << 10), 1 << 16))
                if wanted(case))  # fmt: skip


def test_emulated_kernels_go_through_every_kind_of_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU kernels, really executed: families, pins, modes and roles arrive in the rows."""
    chosen = [
        *_few("tsm2r", lambda case: case.N == 3 and case.dtype == "float64"),
        *_few("steps", lambda case: case.N == 8 and case.dtype == "float64"),
        *_few("tsm2model", lambda case: case.N == 4 and case.dtype == "float64" and dict(case.pins)["T3"] in (4, 32)),
        *_few("orthogonal", lambda case: case.condition in (0.0, 1e12)),
        *_few("tsm2l", lambda case: case.dtype == "float64" and case.M == 8),
        *_few("grid", lambda case: case.dtype == "float64" and (case.M, case.N) in ((4, 4), (8, 8), (17, 13))),
        *_few("source", lambda case: case.M == 4 and dict(case.pins)["UNROLL"] == 1),
    ]
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (chosen, {}))
    results = runner.run(options(tmp_path, sets=("grid",), device="emulated", repeats=1))
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == len(chosen)
    assert {row["status"] for row in ours if not row["pins"]} == {"ok"}
    assert {row.get("family") for row in matmul_summary.grid_rows(results["rows"])} >= {"gram", "vendor"}
    (choice,) = choices(results["rows"])
    assert 0 < choice.share <= 1 and choice.tried > 3
    assert set(map(step_of, rows.of_set(results["rows"], "steps"))) == {
        "inner", "outer", "shared", "prefetch", "tensor",
    }  # fmt: skip
    assert set(best_by(results["rows"], "source", lambda row: row["pins"]["SOURCE"])) == {
        "registers", "shared", "cache",
    }  # fmt: skip
    assert report.write_report(results, tmp_path, EXTENSION).exists()


@pytest.mark.slow
def test_experiments_have_legal_configurations_on_a_gpu() -> None:
    """Every step, every choice of the model and, at every width, every value of an experiment can be drawn."""

    def legal(case: Case) -> bool:
        try:
            with pin(**dict(case.pins)):
                return build.dispatch.choose(case.problem(), H200.device).config is not None
        except IllegalConfig:
            return False

    assert all(map(legal, tsm2_cases.steps(SIZE)))
    assert all(legal(case) for case in tsm2_cases.tsm2model(SIZE) if case.role == "model")
    assert sum(map(legal, tsm2_cases.tsm2model(SIZE))) > 900
    # 64 x 64 from registers and 64 results of one thread are too many, as in the paper
    for name, parameter, missing in (("source", "SOURCE", 1), ("unroll", "UNROLL", 0), ("threads", "PER_ROW", 1)):
        found: dict[tuple[int, Any], bool] = {}
        for case in SETS[name](SIZE):
            place = (case.M, dict(case.pins)[parameter])
            found[place] = found.get(place, False) or legal(case)
        assert sum(not any_legal for any_legal in found.values()) <= missing, (name, found)


def test_a_model_choice_is_rounded_to_a_kernel() -> None:
    model = tsm2_cases.Tsm2Model(NOMINAL["sm_90a"], bench_samples.H200)
    for n in (2, 4, 8, 16):
        t1, t2, t3, split = tsm2_cases.choice(model, "float64", 10240, n)
        assert t1 % t3 == 0 and 1 <= t2 <= n and split >= 1


# --- failures


def test_a_failing_case_is_a_row_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = calls.ours

    def failing(case: Case, *more: Any) -> Any:
        if case.operation == "project":
            raise RuntimeError("out of luck")
        return genuine(case, *more)

    monkeypatch.setattr(calls, "ours", failing)
    results = runner.run(options(tmp_path, sets=("orthogonal",), peers=False))
    status = {row["operation"]: (row["status"], row.get("note", "")) for row in results["rows"]}
    assert status["project"] == ("failed", "RuntimeError: out of luck") and status["cholesky_qr"][0] == "ok"
    assert not results["unfinished"]


def test_a_lost_device_ends_the_run_which_goes_on_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(calls, "ours", lambda *arguments: 1 / 0)
        patched.setattr(contest.Contest, "_lost", lambda self: "illegal address")
        with pytest.raises(LaunchError, match="illegal address"):
            runner.run(options(tmp_path, sets=("orthogonal",), peers=False))
    results = runner.run(options(tmp_path, sets=("orthogonal",), peers=False))
    assert [row["status"] for row in results["rows"]] == ["failed"] + ["ok"] * 5


# --- numbers


def _row(case: Case, seconds: float, peer: float | None = None, **more: Any) -> list[rows.Row]:
    facts = {**case.to_dict(), "case": case.key}
    found = [rows.row(facts, rows.OURS, [seconds], **more)]
    found += [rows.row(facts, "PyTorch (cuBLAS)", [peer])] if peer else []
    return rows.compare(rows.complete(row, bench_samples.H200) for row in found)


def _missed(found: list[rows.Row]) -> list[str]:
    return [text for _, text in EXTENSION.misses({"environment": {"backend": "cuda"}, "rows": found})]


@pytest.mark.parametrize(("case", "ceiling", "share"), [
    (Case("tsm2r", "float64", 10240, 4, 10240, operation="tsm2r"), 4.5e12, 0.92),
    (Case("tsm2r", "float32", 10240, 4, 10240, "col", operation="tsm2r"), 4.5e12, 0.90),
    (Case("tsm2l", "float32", 16, 16, 10**7, operation="tsmm"), 4.3e12, 0.92),
])  # fmt: skip
def test_bandwidth_targets(case: Case, ceiling: float, share: float) -> None:
    least = case.bytes / ceiling
    assert not _missed(_row(case, least / (share + 0.01))) and _missed(_row(case, least / (share - 0.01)))
    assert _missed(_row(case, least / 0.99, peer=0.9 * least))


def test_time_targets() -> None:
    graph = Case("tsm2l", "float64", 8, 8, 10**4, mode="graph", operation="tsmm")
    assert not _missed(_row(graph, 6.9e-6, peer=10e-6)) and _missed(_row(graph, 7.1e-6, peer=10e-6))
    eager = Case("tsm2l", "float64", 8, 8, 10**5, mode="eager", operation="tsmm")
    assert not _missed(_row(eager, 9.9e-6, peer=10e-6)) and _missed(_row(eager, 10.1e-6, peer=10e-6))
    product = Case("grid", "float64", 512, 512, 512, mode="eager", operation="matmul")
    assert not _missed(_row(product, 10.2e-6, peer=10e-6)) and _missed(_row(product, 10.4e-6, peer=10e-6))


@pytest.mark.parametrize(("condition", "passes"), [(1.0, 5), (1e7, 5), (1e12, 8)])
def test_passes_of_cholesky_qr(condition: float, passes: int) -> None:
    case = Case("orthogonal", "float64", 32, 32, 10**7, operation="cholesky_qr", condition=condition)
    one = 32 * 8e7 / bench_samples.H200.copy_bandwidth
    (row,) = _row(case, 1.09 * passes * one)
    assert row["passes"] == pytest.approx(1.09 * passes) and not _missed([row])
    assert _missed(_row(case, 1.11 * passes * one))


def test_the_models_choice_is_judged() -> None:
    def tried(t3: int, seconds: float, role: str = "") -> list[rows.Row]:
        pins = (("VARIANT", "steps"), ("STEP", "prefetch"), ("T1", 128), ("T2", 4), ("T3", t3), ("SPLIT", 1))
        case = Case("tsm2model", "float64", 10240, 4, 10240, "col", pins=pins, role=role, operation="tsm2r")
        return _row(case, seconds)

    good = [*tried(4, 1.05e-3, "model"), *tried(8, 1e-3)]
    assert not _missed(good) and choices(good)[0].share == pytest.approx(1 / 1.05)
    bad = [*tried(4, 1.2e-3, "model"), *tried(8, 1e-3)]
    assert "83.3% of the speed of t1=128 t2=4 t3=8 split=1, target 90%" in _missed(bad)[0]
    lost = rows.row(tried(4, 1.0, "model")[0] | {"seconds": []}, rows.OURS, status="illegal", note="no room")
    assert "no room" in _missed([lost])[0]


# --- report


@in_turn(0, 3)
@pytest.mark.slow
def test_report_of_all_sets(tmp_path: Path) -> None:
    sets = ("tsm2l", "tsm2r", "grid", "orthogonal", "steps", "tsm2model", "source", "unroll", "threads")
    bench_samples.journal(tmp_path, sets, "matmul")
    results = store.write_results(tmp_path)
    text = report.write_report(results, tmp_path, EXTENSION).read_text()
    drawn = {path.stem for path in (tmp_path / "plots").glob("*.png")}
    assert drawn == {"few_rows", "roofline", "skinny", "steps", "model", "grid", "source", "unroll", "threads"}
    page = (tmp_path / "summary.md").read_text()
    titles = ("Large A times skinny B", "The steps of TSM2", "TSM2's model against the search", "matmul on 226 shapes",
              "The 10 worst shapes", "Fused passes and Cholesky QR", "Few rows")  # fmt: skip
    assert all(title in page and title in text.replace("&#x27;", "'") for title in titles)
    assert "By width" not in page, "other sets have no place in the table of widths"
    table = tsm2_tables.model(results, set())
    assert len(table.cells) == 24 and all(float(cells[-1]) <= 100 for cells in table.cells)


def test_size_knows_its_device() -> None:
    assert cases.size_for(emulated.backend()).device is emulated.backend().device
