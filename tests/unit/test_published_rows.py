"""What reports say of published rows: their age, the bandwidth they are compared with, and the tables made from them.
No GPU, and no kernel is compiled."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_samples
import pytest

from mansard import cli
from mansard.bench import (
    cover,
    extremes,
    freshness,
    lines,
    readme,
    readme_sets,
    report,
    rows,
    runner,
    store,
    summary,
    yardstick,
)
from mansard.bench.cases import Case, select
from mansard.bench.operations import work_of
from mansard.kernels import family_of
from mansard.plan.explain import NOMINAL
from mansard.records.database import kernel_hash
from mansard.untrusted import Damaged

ROOT = Path(__file__).resolve().parents[2]
GRAM = Case("full", "float64", 8, 8, 1 << 25)
H200 = NOMINAL["sm_90a"]
PAGE = ROOT / "docs" / "performance.md"
LOADED = lru_cache(store.load)


@pytest.fixture
def journals_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of `results/` are read once for all tests that only look at them."""
    monkeypatch.setattr(store, "load", LOADED)


# --- kernels


def _measured(case: Case = GRAM, **changes: Any) -> rows.Row:
    """A row of ours by the kernel that an H200 would be given."""
    problem = case.problem()
    family = family_of(problem.operation)
    config = family.defaults.default(problem, H200)
    facts = {**case.to_dict(), "case": case.key, "date": ""}
    row = rows.row(facts, rows.OURS, [1e-3] * 7, config=family.space.to_dict(config), origin="model")
    source = family.emit.source(problem, config, "cuda")
    row["kernels"] = freshness.stamp(row, {source.text: source}, "cuda")
    assert row["kernels"][0]["kernel"] == kernel_hash(problem, config, H200, family), "the hash that records carry"
    return row | changes


def test_a_row_is_stale_when_its_kernel_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _measured()
    (ran,) = row["kernels"]
    assert ran["exact"] and ran["header"].startswith("kernels/tall_skinny/gram/kernel_")
    assert freshness.age(row, "cuda") == "current"
    assert freshness.age(row | {"kernels": [ran | {"kernel": "0" * 16}]}, "cuda") == "stale"
    config = {name: value for name, value in row["config"].items() if name != "STAGES"} | {"GONE": 1}
    assert freshness.age(row | {"config": config}, "cuda") == "stale", "a parameter that exists no more"
    assert freshness.age({name: value for name, value in row.items() if name != "kernels"}, "cuda") == "unknown"
    assert freshness.age(row | {"kernels": []}, "cuda") == "handed over"
    assert freshness.age(row | {"contender": "NumPy"}, "cuda") == ""


def test_rows_of_several_kernels_are_compared_by_their_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _measured()
    several = [each | {"exact": False, "kernel": "0"} for each in row["kernels"]] * 2
    assert freshness.age(row | {"kernels": several}, "cuda") == "current"
    changed = [several[0], several[1] | {"headers": "0"}]
    assert freshness.age(row | {"kernels": changed}, "cuda") == "stale"
    gone = [several[0] | {"header": "kernels/tall_skinny/gram/kernel_gone.cuh"}]
    assert freshness.age(row | {"kernels": gone}, "cuda") == "stale"


@pytest.mark.parametrize(
    "change", [{"header": "../../etc/passwd.h"}, {"exact": "yes"}, {"kernel": 3}, {"headers": None}]
)
def test_kernels_of_a_journal_are_checked(change: dict[str, Any]) -> None:
    row = _measured()
    assert lines.row(row) is row
    for kernels in ("x", [3], [{}], [row["kernels"][0] | change]):
        with pytest.raises(Damaged, match=r"kernels|header"):
            lines.row(row | {"kernels": kernels})


def test_launches_are_seen_and_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    class Launch:
        def __init__(self, text: str) -> None:
            self.kernel, self.calls = SimpleNamespace(source=SimpleNamespace(text=text)), 0

        def __call__(self, pointers: Any, scalars: Any, stream: int) -> None:
            self.calls += 1

    monkeypatch.setitem(freshness._LAUNCHES, "cuda", Launch)
    one, two, never = Launch("one"), Launch("two"), Launch("never")
    with freshness.launched("cuda") as seen:
        one((), (), 0)
        two((), (), 0)
        one((), (), 0)
    one((), (), 0)
    assert list(seen) == ["one", "two"] and (one.calls, two.calls, never.calls) == (3, 1, 0)
    assert Launch.__call__.__name__ == "__call__"


def _document(*measured: rows.Row) -> dict[str, Any]:
    environment = bench_samples.ENVIRONMENT | {"command": "mansard bench"}
    completed = rows.compare(rows.complete(row | {"run": 1}, bench_samples.H200) for row in measured)
    return {
        "environment": environment, "rows": completed, "runs": [{"run": 1, "environment": environment}],
        "missing": {}, "unfinished": [], "family": "gram", "ceilings": asdict(bench_samples.H200),
    }  # fmt: skip


def test_the_report_says_which_rows_are_old() -> None:
    stale = _measured(Case("full", "float64", 16, 16, 1 << 24))
    stale["kernels"][0]["kernel"] = "0" * 16
    unknown = _measured(Case("full", "float64", 4, 4, 1 << 26), seconds=[1e-3] * 3)
    del unknown["kernels"]
    results = freshness.mark(_document(_measured(), stale, unknown))
    tables = {table.title: table for table in summary.tables(results, set())}
    assert tables["Rows by age"].cells == [("gram", "1", "1", "1", "0")]
    every = summary.each(results, set())
    ends = [line[-1].partition(")")[2] for line in every.cells]
    assert ends == ["", ", stale", ", unknown"]
    (run,) = tables["Runs"].cells
    assert run[3:7] == ("not recorded", "0123456789ab, not verified", "3", "3 to 7")
    notes = [text for text, _ in report._notes(results, "")]
    assert "1 of our 3 rows are stale: their kernels have changed since." in notes
    assert "1 of our 3 rows have fewer than 7 samples." in notes
    assert any(text.startswith("1 of our 3 rows are of unknown age") for text in notes)


# --- yardsticks


@pytest.mark.parametrize(
    ("operation", "n", "name"),
    [("solve", 4, "read"), ("solve", 64, "read"), ("determinant", 8, "read"), ("lu", 8, "copy"), ("inverse", 8, "copy"),
     ("cholesky", 32, "copy"), ("gemm", 16, "copy"), ("trsv", 16, "read and copy"), ("gemv", 16, "read")],
)  # fmt: skip
def test_percentages_are_of_the_bandwidth_that_the_traffic_needs(operation: str, n: int, name: str) -> None:
    case = Case("x", "float64", n, n if operation == "gemm" else 1, 1 << 16, operation=operation)
    row = rows.complete(rows.row(case.to_dict(), rows.OURS, [1e-3]), bench_samples.H200)
    assert row["yardstick"] == name
    work, machine = work_of(row), bench_samples.H200
    memory = {"read": machine.read_bandwidth, "copy": machine.copy_bandwidth}.get(name)
    memory = memory or yardstick.bandwidth(operation, work, machine)
    assert row["percent_bandwidth"] == pytest.approx(100 * work.bytes / 1e-3 / memory)


def test_sparse_products_are_measured_by_the_read_bandwidth() -> None:
    case = Case("spmv", "float64", 7, 1, 1 << 20, operation="spmv", form="7pt")
    row = rows.complete(rows.row(case.to_dict(), rows.OURS, [1e-3]), bench_samples.H200)
    assert row["yardstick"] == "read"
    assert row["percent_bandwidth"] == pytest.approx(100 * work_of(row).bytes / 1e-3 / 4.5e12, rel=0.03)


# --- tables and pictures


@pytest.mark.slow
@pytest.mark.usefixtures("journals_once")
def test_the_page_shows_what_the_results_hold() -> None:
    """If this fails: `mansard report --readme`."""
    text = PAGE.read_text()
    assert readme.results_of(PAGE) == ROOT / "results"
    assert readme.filled(text, ROOT / "results") == text
    front = (ROOT / "README.md").read_text()
    assert readme.front(front, ROOT / "results") == front
    assert len(front.splitlines()) <= 80, "two screens"


def test_the_table_of_extremes_has_the_best_and_the_worst_row() -> None:
    """Of all dtypes and layouts; without doubtful rows, and with what a number rests on."""
    about = {"contender": rows.OURS, "status": "ok", "pins": {}, "operation": "gram", "mode": "device", "same": False,
             "temperature": "cold", "layout": "row", "dtype": "float64", "yardstick": "read"}  # fmt: skip

    def row(M: int, share: float, x_peer: float | None = None, **more: Any) -> dict[str, Any]:
        return about | {"M": M, "N": M, "percent_bandwidth": share, "x_peer": x_peer} | more

    made = [row(1, 99.0, 1.04), row(41, 63.4, 3.0, dtype="complex64"), row(64, 80.0, 0.826, layout="col"),
            row(65, 5.0, 0.1), row(2, 20.0, 0.5, layout="padded"), row(3, 10.0, 0.2, pins={"TILE": 1})]  # fmt: skip
    chosen = extremes._tall("gram")(made)
    best, worst = (extremes._end(chosen, "percent_bandwidth", pick, "cuda") for pick in (max, min))
    assert best == "99 % of read at 1; 3.0 x at 41 (complex64)"
    assert worst == "63 % at 41 (complex64); 0.83 x at 64 (column-major)"
    scaled = [row(4, 50.0, 90.0, peer_marks=["scaled"]), row(8, 40.0, 12.0)]
    assert extremes._end(scaled, "", max, "cuda") == "12 x at 8", "a scaled peer is no best case where there is another"
    assert extremes._end(scaled[:1], "", max, "cuda") == "90 x‡ at 4"
    assert "‡ the peer" in extremes._written([("some", "90 x‡ at 4", "")])


def test_a_page_without_markers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("# nothing\n")
    assert cli.main(["report", "--readme", str(tmp_path / "page.md")]) == 2
    assert "<!-- table gram" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("journals_once")
def test_the_cover_shows_best_and_worst_beside_the_best_peer() -> None:
    pytest.importorskip("matplotlib")
    axes = cover.draw(ROOT / "results" / "h200").axes
    assert len(axes) == len(cover.PANELS) == 8
    for axis in axes:
        ours, peer = (line for line in axis.lines if line.get_label() in ("Mansard", "best peer"))
        assert len(ours.get_xdata()) >= len(peer.get_xdata()) >= 30


def test_tables_mark_old_cells_and_show_the_worst_width() -> None:
    made = [_measured(Case("full", "float64", m, m, (1 << 28) // m)) for m in (1, 5, 8)]
    for row, seconds in zip(made, (1e-3, 2e-3, 1.1e-3), strict=True):
        row["seconds"] = [seconds] * 7
    made[2]["kernels"][0]["kernel"] = "0" * 16
    table, used = readme.tall(freshness.mark(_document(*made)))
    ours, peer = table.cells
    assert ours[-1].endswith(" at 5") and table.columns[-1] == "worst of 1 to 8"
    assert ours[WIDTH_1].endswith("**") and ours[WIDTH_8].endswith("**°") and set(peer[1:]) == {""}
    assert readme._status(used) == "3 rows of ours: 2 by the present kernels, 1 by kernels that have changed since (°)."


WIDTH_1, WIDTH_8 = (1 + readme_sets.WIDTHS.index(width) for width in (1, 8))


@pytest.mark.parametrize(("family", "count", "full"), [("gram", 63, "full"), ("matmul", 63, "full"),
                                                      ("batched", 12, "full"), ("factor", 45, None),
                                                      ("powers", 24, "spmv,powers")])  # fmt: skip
def test_the_sets_of_the_page_measure_what_it_shows(family: str, count: int, full: str | None) -> None:
    """Their rows replace those of the sets that have every size: the keys are the same."""
    sets, size = runner.CATALOGUES[family], bench_samples.SIZE
    chosen = {case.key for case in select(("readme",), size, sets)[0]}
    assert len(chosen) == count
    names = full.split(",") if full else ("cholesky", "lu", "qr", "solve", "inverse")
    assert chosen <= {case.key for case in select(names, size, sets)[0]}


def test_results_are_small_and_their_pictures_are_shown() -> None:
    """Journals are compressed (`mansard report --pack`); what can be made again is not kept (`make reports`)."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "results"], check=True, capture_output=True, text=True)
    kept = [ROOT / name for name in listed.stdout.splitlines()]
    kept = [path for path in kept if path.exists()]
    assert sum(path.stat().st_size for path in kept) < 12e6
    assert not {path.name for path in kept} & {store.JOURNAL, store.RESULTS, store.TABLE, "index.html"}
    pages = "".join(path.read_text() for path in (ROOT / "README.md", ROOT / "results" / "README.md"))
    pages += "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    for path in kept:
        if path.suffix in (".png", ".svg"):
            assert path.relative_to(ROOT / "results").as_posix() in pages, f"no page shows {path}"


@pytest.mark.slow
def test_every_row_of_the_results_can_be_aged() -> None:
    """Thousands of rows in a second or two: a text is written again, and headers are read once."""
    results = store.load(ROOT / "results" / "h200" / "batched")
    for row in results["rows"]:
        header = "kernels/batched/gemm/kernel_lanes.cuh"
        row["kernels"] = [{"kernel": "0", "header": header, "headers": "0", "exact": True}]
    begin = time.process_time()
    freshness.mark(results)
    assert time.process_time() - begin < 10
    assert {row["age"] for row in results["rows"]} <= {"stale", ""}
