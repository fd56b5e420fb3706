"""The page of a device: counts, comparison of two results, and what the page holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mansard.bench import store
from mansard.bench.page import statistics
from mansard.bench.page.points import points
from mansard.bench.page.write import write

_RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"


def _point(number: int, **more: Any) -> dict[str, Any]:
    return {"op": "gram", "who": "Mansard", "pinned": False, "case": str(number), "dtype": "float64",
            "size": f"{number} x 4", "k": 9, "us": 100.0, "spread": 1.0, "limit": float(number), "peer": None,
            "age": "", "doubtful": False, **more}  # fmt: skip


def test_overview_has_median_fifth_percentile_and_worst() -> None:
    cases = [_point(n, peer=n / 10) for n in range(1, 42)] + [_point(200, doubtful=True), _point(1, pinned=True)]
    (line,) = statistics.overview(cases).cells
    assert line == ("gram", "42", "21.0", "3.00", "1.00", "float64 1 x 4", "2.10", "0.30", "0.10", "float64 1 x 4", "")


@pytest.mark.parametrize(("least", "marked"), [(0.94, {0}), (0.96, set())])
def test_operations_below_the_peer_are_marked(least: float, marked: set[int]) -> None:
    assert statistics.overview([_point(1, peer=least), _point(2, peer=3.0)]).bad == marked


def test_stale_rows_are_counted_and_peers_are_not() -> None:
    cases = [_point(1, age="stale"), _point(2, age="current"), _point(3, who="cuBLAS", age="stale")]
    assert statistics.overview(cases).cells[0][-1] == "1"


def test_worst_cases_are_those_beside_the_best_peer() -> None:
    cases = [_point(n, peer=n / 10, set="full", best="cuBLAS", kernel="ring") for n in range(1, 42)]
    table = statistics.worst([*cases, _point(1, peer=0.01, pinned=True), _point(1)])
    assert [line[5] for line in table.cells] == [f"{n / 10:.2f}" for n in range(1, 1 + statistics.WORST)]
    assert table.bad == set(range(9))


def test_changes_are_those_beyond_both_spreads_slowest_first() -> None:
    before = [_point(n) for n in range(4)]
    now = [_point(0, us=103.9), _point(1, us=104.1), _point(2, us=90.0), _point(3, us=130.0), _point(7, us=500.0)]
    table = statistics.changes(now, before)
    assert [line[-1] for line in table.cells] == ["1.30", "1.04", "0.90"]
    assert table.bad == {0, 1}
    assert table.title == "Changes: 3 cases of 4"


def test_page_of_committed_results_is_small_complete_and_needs_no_network(tmp_path: Path) -> None:
    documents = {name: store.load(_RESULTS / name) for name in ("batched", "powers")}
    text = write(documents, tmp_path, documents).read_text()
    assert len(text) < 2_000_000
    assert not re.search(r"https?://", text)
    assert "Changes: 0 cases of" in text
    (packed,) = re.findall(r"<script id='data' type='application/json'>(.*?)</script>", text, re.DOTALL)
    data = json.loads(packed)
    found = points(documents)
    assert {len(column) for column in data["columns"].values()} == {len(found)}
    assert [data["words"][n] for n in data["columns"]["case"]] == [point["case"] for point in found]
    assert data["columns"]["us"] == [point["us"] for point in found]
    assert data["roofs"]["read"] > 4e12


def _drawn(page: Path) -> dict[str, Any]:
    """What the script of a page draws, by Node.js, with every choice of its lists."""
    script = Path(__file__).parents[1] / "cases" / "page_dom.js"
    done = subprocess.run(["node", str(script), str(page)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: nothing runs the script")


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("device", sorted(path.name for path in _RESULTS.parent.iterdir() if path.is_dir()))
def test_page_of_all_committed_results_is_small_and_drawn_fast(device: str, tmp_path: Path) -> None:
    """Every folder of a device on one page, those of its energy included, as the site has it."""
    folders = [path for path in _RESULTS.parent.glob(f"{device}*") if path.is_dir()]
    documents = {
        str(one.relative_to(_RESULTS.parent)): store.load(one) for path in folders for one in store.folders(path)
    }
    shown = {name: results for name, results in documents.items() if results["family"] != "random"}
    page = write(shown, tmp_path)
    found = _drawn(page)
    assert len(shown) > 0 and page.stat().st_size < 8_000_000
    assert found["seconds"] < 3  # of a processor, for the first drawing
    assert found["sections"] and all(seen["broken"] == 0 for seen in found["sections"].values())
    assert sum(seen["marks"] for seen in found["sections"].values()) > 0


@needs_node
def test_script_of_the_page_draws_every_section(tmp_path: Path) -> None:
    """All of the choices of every section; nothing is undefined, and names show their own marks alone."""
    documents = {name: store.load(_RESULTS / name) for name in ("gram", "powers")}
    factor = store.load(_RESULTS.parent / "h200-energy" / "factor")
    page = write({**documents, "factor": factor}, tmp_path)
    found = _drawn(page)
    assert set(found["sections"]) == {"roofline", "by-size", "tuning-landscape", "model-against-measurement", "energy"}
    for name, seen in found["sections"].items():
        assert seen["marks"] > 0 and seen["svgs"] >= max(1, seen["choices"]) and seen["broken"] == 0, (name, seen)
        assert name == "tuning-landscape" or (seen["hidden"] > 0 and seen["shown"]), name  # it has no names to press
    assert found["sections"]["roofline"]["choices"] > 3  # dtypes, those without a ceiling of their own as well
    assert found["sections"]["tuning-landscape"]["tables"] > 0
    assert " us +- " in found["told"] and found["hides"]
    assert found["seconds"] < 3 and page.stat().st_size < 8_000_000
