"""The benchmark's machinery: sets, operands, checks, statistics, journal, tables, pictures, report. No GPU needed."""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bench_samples

from mansard import cli
from mansard.backends import cuda
from mansard.bench import (
    build,
    cases,
    clock,
    command,
    contest,
    entries,
    peers,
    plots,
    report,
    rows,
    runner,
    store,
    summary,
    targets,
)
from mansard.bench.check import Reference, reference_for
from mansard.bench.data import Operands
from mansard.codegen.geometry import Device
from mansard.codegen.instantiate import Source
from mansard.compile import nvrtc
from mansard.families import tsmm
from mansard.plan.problem import DTYPES, ITEMSIZE

CPU_SIZE = cases.Size("cpu", {dtype: (1 << 22) // item for dtype, item in ITEMSIZE.items()}, 1 << 20)
TINY = 1 << 9


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with made-up results of every set, and its document."""
    folder = tmp_path_factory.mktemp("made")
    bench_samples.journal(folder)
    return folder, store.write_results(folder)


def options(folder: Path, **changes: Any) -> runner.Options:
    values = {"sets": ("quick",), "device": "reference", "out": folder, "repeats": 3, "most_elements": TINY}
    return runner.Options(**(values | changes))


# --- what is measured


def test_full_has_every_width() -> None:
    for size, dtypes in ((bench_samples.SIZE, DTYPES), (CPU_SIZE, ("float64", "complex128"))):
        found = {(case.dtype, case.M) for case in cases.full(size) if case.M == case.N}
        assert found == {(dtype, m) for dtype in dtypes for m in range(1, 65)}


def test_sizes_fill_the_operands() -> None:
    for case in cases.full(bench_samples.SIZE):
        assert (1 << 28) - case.M < case.K * case.M <= 1 << 28


def test_sets_cover_the_issue() -> None:
    pairs = {(case.M, case.N) for case in cases.rectangular(bench_samples.SIZE)}
    assert {(1, 32), (4, 64), (7, 13), (64, 3), (8, 16), (64, 16)} <= pairs
    short = {(case.mode, case.temperature, case.K, case.M) for case in cases.short(bench_samples.SIZE)}
    assert len(short) == 36 and ("graph", "cold", 100_000, 16) in short
    assert {case.layout for case in cases.layouts(bench_samples.SIZE)} == {"col", "padded", "unaligned"}
    assert {dict(case.pins)["REDUCE"] for case in cases.reduction(bench_samples.SIZE)} == {
        "ticket",
        "sliced",
        "block",
        "atomic",
    }
    flags = {(dict(case.pins)["LEAPFROG"], dict(case.pins)["TRANSPOSED"]) for case in cases.mapping(bench_samples.SIZE)}
    assert len(flags) == 4


def test_keys_are_unique_and_sets_share_cases() -> None:
    chosen, refused = cases.select(cases.SETS, bench_samples.SIZE)
    assert len({case.key for case in chosen}) == len(chosen) and not refused
    both, _ = cases.select(("quick", "full"), CPU_SIZE)
    assert len(both) == 128


def test_sets_for_gpus_are_refused_by_name_elsewhere() -> None:
    chosen, refused = cases.select(("tilesize", "same"), CPU_SIZE)
    assert refused == {"tilesize": "for GPUs only"} and all(case.same for case in chosen)
    with pytest.raises(ValueError, match="--set nonsense: there are quick"):
        cases.select(("nonsense",), CPU_SIZE)


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_have_the_layout_they_claim(dtype: str, layout: str) -> None:
    case = cases.Case("x", dtype, 5, 3, 40, layout)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    item, problem = ITEMSIZE[dtype], case.problem()
    assert A.shape == (40, 5) and B.shape == (40, 3) and A.dtype == dtype and np.isfinite(A).all()
    assert A.strides == ((item, 40 * item) if layout == "col" else (problem.pitch_a * item, item))
    assert (A.ctypes.data % 16 == 0) == (problem.aligned or (dtype == "complex128" and A.ctypes.data % 16 == 0))
    assert not np.shares_memory(A, B)


def test_cold_operands_rotate_through_more_than_the_cache() -> None:
    case = cases.Case("x", "float64", 4, 4, 100, mode="graph")
    operands = Operands("cpu", [case], cache_bytes=1 << 16)
    count = operands.sets(case)
    assert count * case.bytes >= 2 << 16
    first, last = operands.pair(case, 0)[0], operands.pair(case, count - 1)[0]
    assert last.shape == (100, 4) and not np.shares_memory(first, last)


# --- right or wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_check_accepts_right_and_finds_wrong(dtype: str) -> None:
    case = cases.Case("x", dtype, 3, 4, 5000)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    reference, C = Reference(A, B), A.conj().T @ B
    assert reference.error(C) <= 1
    for place in np.ndindex(C.shape):
        wrong = C.copy()
        wrong[place] += 0.6  # one row's product, about
        assert reference.error(wrong) > 1, place
    assert reference.error(np.full_like(C, np.nan)) == float("inf")
    assert reference.error(C[:2]) == float("inf")


def test_check_still_says_something_beyond_the_worst_case_bound() -> None:
    """The worst case allows floats an error of n u |A|^T |B|, here 6 % of the rows; a few hundred must be noticed."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((1 << 20, 1), dtype="float32") for _ in range(2))
    reference = Reference(A, B)
    whole = A.astype("float64").T @ B
    assert reference.error(A.T @ B) < 0.2 and reference.error(np.cumsum(A * B, dtype="float32")[-1:, None]) < 1
    assert reference.error(whole + 20.0) > 1


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "complex64"])
def test_every_spelling_of_every_peer_is_right(dtype: str, layout: str) -> None:
    case = cases.Case("x", dtype, 5, 3, 200, layout)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    for peer in peers.peers_for("cpu"):
        if peer.missing or not peer.takes_part(case):
            continue
        for label, spelled in peer.spellings(case).items():
            result = peer.give(spelled(peer.take(A), peer.take(B)))
            assert Reference(A, B).error(result) <= 1, (peer.name, label)


def test_the_fastest_spelling_is_measured() -> None:
    class Slow(peers.NumpyPeer):
        def spellings(self, case: cases.Case) -> dict[str, peers.Product]:
            return {"slow": lambda A, B: (2.0, len(A)), "fast": lambda A, B: (1.0, len(A)), "never": never}

    def never(A: Any, B: Any) -> tuple[float, int]:
        assert len(A) < 128, "was asked for all rows after losing on a share of them"
        return (9.0, len(A))

    race: Callable[[Any], float] = lambda run: run(0)[0]  # noqa: E731
    A = np.ones((128, 1))
    entry = entries.enter(Slow(), cases.Case("x", "float64", 1, 1, 128), [(A, A)], race)
    assert entry.spelling == "fast" and entry.result() == (1.0, 128)


# --- numbers


def test_statistics_come_from_the_raw_seconds(made: tuple[Path, dict[str, Any]]) -> None:
    document = json.loads((made[0] / store.RESULTS).read_text())
    read = document["ceilings"]["read_bandwidth"]
    assert read == statistics.median([4.5e12, 4.52e12, 4.48e12])
    checked = 0
    for row in document["rows"]:
        if not row["seconds"] or row["mode"] == "host":
            continue
        words = 2 if row["dtype"].startswith("complex") else 1
        columns = row["M"] + (0 if row["same"] else row["N"])
        moved = (row["K"] * columns + row["M"] * row["N"]) * ITEMSIZE[row["dtype"]]
        median = statistics.median(row["seconds"])
        assert row["median"] == median
        assert row["percent_bandwidth"] == pytest.approx(100 * moved / median / read, rel=0.01)  # a little is written
        products = row["M"] * (row["M"] + 1) / 2 if row["same"] else row["M"] * row["N"]
        assert row["gflops"] == pytest.approx((8 if words == 2 else 2) * products * row["K"] / median / 1e9)
        checked += 1
    assert checked > 1000


def test_x_peer_is_the_best_right_peer_over_ours() -> None:
    facts = {**cases.Case("x", "float64", 4, 4, 1000).to_dict(), "case": "one"}
    found = [
        rows.row(facts, rows.OURS, [1.0, 1.1, 0.9]),
        rows.row(facts, "slow", [3.0]),
        rows.row(facts, "good", [2.0]),
        rows.row(facts, "wrong", [0.1], status="wrong"),
        rows.row(facts, "absent", status="missing"),
    ]
    compared = rows.compare(rows.complete(row, bench_samples.H200) for row in found)
    assert compared[0]["x_peer"] == pytest.approx(2.0) and compared[0]["best_peer"] == "good"


def test_table_names_the_worst_width(made: tuple[Path, dict[str, Any]]) -> None:
    results = made[1]
    table = summary.by_range(results, set())
    assert [cells[1] for cells in table.cells[:5]] == ["1-8", "9-16", "17-32", "33-48", "49-64"]
    for cells in table.cells:
        low, high = map(int, cells[1].split("-"))
        inside = [
            row for row in summary.squares(results["rows"]) if row["dtype"] == cells[0] and low <= row["M"] <= high
        ]
        percents = {row["M"]: 100 * row["bound_seconds"] / statistics.median(row["seconds"]) for row in inside}
        worst = min(percents, key=lambda m: percents[m])
        assert len(inside) == high - low + 1
        assert cells[3:6] == (f"{percents[worst]:.1f}", f"{statistics.median(percents.values()):.1f}", f"M={worst}")


def test_misses_are_found() -> None:
    facts = {**cases.Case("full", "float64", 8, 8, 1 << 25).to_dict(), "case": "a"}
    least = 2 * 8 * 8 * (1 << 25) / 4.5e12
    results = {"environment": {"backend": "cuda"}, "rows": []}
    for share, missed in ((0.97, False), (0.90, True)):
        results["rows"] = [rows.complete(rows.row(facts, rows.OURS, [least / share]), bench_samples.H200)]
        assert bool(targets.misses(results)) == missed
    results["rows"] = [rows.row(facts, rows.OURS, status="wrong", error=7.0)]
    assert "wrong" in targets.misses(results)[0][1]


@pytest.mark.skipif(nvrtc.available() is not None, reason="NVRTC is not installed")
def test_the_clocks_kernels_compile() -> None:
    for text in (cuda._HOLD, clock._EMPTY):
        assert nvrtc.compile_cuda(Source("cuda", text, ()), "sm_90a").binary.stat().st_size > 0


def test_pinned_experiments_have_legal_configurations_on_a_gpu() -> None:
    """Most tiles must be drawn; each combination of figure 15 needs at least one at every width."""
    device = Device("cuda", "NVIDIA H200", "sm_90a", 132, 227 << 10, 228 << 10, 65536, 2048, 60 << 20)
    backend = SimpleNamespace(name="cuda", device=device)
    assert len(build.sources(cases.tilesize(bench_samples.SIZE), backend)) > 150
    assert len(build.sources(cases.reduction(bench_samples.SIZE), backend)) == 8
    for m, leapfrog, transposed in product((4, 32, 64), (True, False), (True, False)):
        wanted = {"LEAPFROG": leapfrog, "TRANSPOSED": transposed}
        chosen = [
            case
            for case in cases.mapping(bench_samples.SIZE)
            if m == case.M and wanted.items() <= dict(case.pins).items()
        ]
        assert build.sources(chosen, backend), (m, wanted)


# --- journal


def test_interrupted_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    genuine = contest.Contest.run

    def failing(self: contest.Contest, case: cases.Case) -> list[rows.Row]:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(case.key)
        return genuine(self, case)

    monkeypatch.setattr(contest.Contest, "run", failing)
    with pytest.raises(KeyboardInterrupt):
        runner.run(options(tmp_path))
    with open(tmp_path / store.JOURNAL, "a") as file:
        file.write('{"line": "row", "cut sho')  # the interruption may come while writing
        file.write("\n")
    partial = json.loads((tmp_path / store.RESULTS).read_text())
    assert len({row["case"] for row in partial["rows"]}) == 3 and len(partial["unfinished"]) == 17

    def rest(self: contest.Contest, case: cases.Case) -> list[rows.Row]:
        assert case.key not in measured, "measured twice"
        return genuine(self, case)

    monkeypatch.setattr(contest.Contest, "run", rest)
    results = runner.run(options(tmp_path))
    assert len({row["case"] for row in results["rows"]}) == 20 and not results["unfinished"]
    assert len(results["runs"]) == 1


def test_finished_run_is_measured_anew_and_other_sets_stay(tmp_path: Path) -> None:
    few = options(tmp_path, sets=("same",), peers=False, repeats=1)
    first = runner.run(few)
    second = runner.run(few)
    assert [run["run"] for run in second["runs"]] == [1, 2]
    assert {row["run"] for row in second["rows"]} == {2} and len(second["rows"]) == len(first["rows"])
    third = runner.run(options(tmp_path, sets=("overhead",), peers=False))
    assert {row["run"] for row in third["rows"]} == {2, 3}


def test_another_devices_results_are_kept_aside(tmp_path: Path) -> None:
    bench_samples.journal(tmp_path, ("overhead",))
    results = runner.run(options(tmp_path, sets=("overhead",)))
    assert len(list(tmp_path.glob("rows-*.jsonl"))) == 1
    found = {row["contender"].partition("(")[0] for row in results["rows"]}
    assert found >= {"cheapest launch", "plan", "plan.run", "ms.gram"}


def test_time_limit_names_what_is_left(tmp_path: Path) -> None:
    results = runner.run(options(tmp_path, seconds=1e-9))
    assert len(results["unfinished"]) == 20 and not results["rows"]
    assert "Out of time: 20 cases" in report.write_report(results, tmp_path).read_text()


def test_missing_peer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    results = runner.run(options(tmp_path, sets=("same",), repeats=1))
    assert results["missing"] == {"PyTorch": "PyTorch is not installed: pip install torch"}
    report.write_report(results, tmp_path)
    command.show(results)
    for text in (capsys.readouterr().out, (tmp_path / "summary.md").read_text(), (tmp_path / "index.html").read_text()):
        assert "PyTorch is not installed" in text


def test_csv_and_json_agree(made: tuple[Path, dict[str, Any]]) -> None:
    folder, results = made
    document = json.loads((folder / store.RESULTS).read_text())
    assert document == json.loads(json.dumps(results)) and document["format"] == store.FORMAT
    with open(folder / store.TABLE, newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(document["rows"])
    for line, row in zip(table, document["rows"], strict=True):
        assert (line["dtype"], int(line["M"]), line["contender"]) == (row["dtype"], row["M"], row["contender"])
        assert [float(value) for value in line["seconds"].split()] == row["seconds"]
        assert not row["seconds"] or float(line["median"]) == row["median"]


# --- report


def test_report_is_complete_and_needs_nothing_else(made: tuple[Path, dict[str, Any]]) -> None:
    folder, results = made
    page = report.write_report(results, folder).read_text()
    names = {path.stem for path in (folder / "plots").glob("*.png")}
    assert names == {path.stem for path in (folder / "plots").glob("*.svg")}
    assert names == {
        "percent_of_limit",
        "tile_size",
        "leapfrog_transposed",
        "reduction",
        "few_rows",
        "overhead",
        "roofline",
    }
    assert page.count("data:image/png;base64,") == len(names)
    assert not re.findall(r"""(?:src|href)=['"](?!data:)""", page) and "<script" not in page and "@import" not in page
    for text in (page, (folder / "summary.md").read_text()):
        assert "NVIDIA H200" in text and "Below target" in text and "4500.0 GB/s" in text
    assert "class=bad" in page


def test_report_without_matplotlib_says_so(
    made: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: Any) -> Any:
        raise ImportError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(plots, "draw_all", absent)
    page = report.write_report(made[1], tmp_path).read_text()
    assert "no pictures: matplotlib is not installed" in page and "<img" not in page


def test_command_measures_prints_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bench",
        "gram",
        "--device",
        "reference",
        "--elements",
        "512",
        "--repeats",
        "2",
        "--out",
        str(tmp_path),
    ]
    assert cli_main(arguments) == 0
    shown = capsys.readouterr().out
    assert "% of limit" in shown and "x peer" in shown and str(tmp_path / "index.html") in shown
    assert (tmp_path / "results.json").exists() and (tmp_path / "plots" / "percent_of_limit.svg").exists()
    assert cli_main(["report", str(tmp_path), "--to", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "summary.md").exists()
    assert cli_main(["report", str(tmp_path / "nowhere")]) == 1
    assert cli_main(["bench", "--set", "nonsense", "--out", str(tmp_path)]) == 2


def cli_main(arguments: list[str]) -> int:
    """The command line with only the two commands under test: the others belong to other modules."""
    wanted = {name: entry for name, entry in cli.COMMANDS.items() if name in ("bench", "report")}
    held = dict(cli.COMMANDS)
    try:
        cli.COMMANDS.clear()
        cli.COMMANDS.update(wanted)
        return cli.main(arguments)
    finally:
        cli.COMMANDS.update(held)


def test_emulated_kernel_goes_through_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU kernel, really executed: its configuration and origin arrive in the row."""
    case = cases.Case("same", "float64", 4, 4, 128, same=True)
    pinned = cases.Case("mapping", "float64", 4, 4, 64, pins=(("VARIANT", "tiled"), ("TILE_M", 99)), peers=False)
    monkeypatch.setattr(cases, "select", lambda names, size, sets: ([case, pinned], {}))
    results = runner.run(options(tmp_path, sets=("same",), device="emulated", repeats=1))
    ours = {row["case"]: row for row in results["rows"] if row["contender"] == rows.OURS}
    assert ours[case.key]["status"] == "ok" and ours[case.key]["config"]["VARIANT"] in ("ring", "fragment", "tiled")
    assert ours[case.key]["origin"] in ("model", "tuned") and ours[case.key]["x_peer"] > 0
    assert ours[pinned.key]["status"] == "illegal" and "larger than C" in ours[pinned.key]["note"]


def test_matmul_goes_through_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other family: its own sets, problem, spellings, reference and ceiling."""
    tall = [cases.Case("x", dtype, 3, 5, 200, layout, operation="tsmm") for dtype, layout in
            (("float64", "row"), ("complex64", "col"), ("float32", "padded"))]  # fmt: skip
    monkeypatch.setattr(cases, "select", lambda names, size, sets: (tall, {}))
    results = runner.run(options(tmp_path, sets=("quick",), device="emulated", repeats=1, family="matmul"))
    ours = [row for row in results["rows"] if row["contender"] == rows.OURS]
    assert len(ours) == 3 and all(row["status"] == "ok" and row["x_peer"] > 0 for row in ours)
    work = tsmm.work.work(tall[0].problem())
    assert ours[0]["gbytes_per_second"] * 1e9 * ours[0]["median"] == pytest.approx(work.bytes)
    assert results["family"] == "matmul"


def test_a_wrong_tall_product_is_found() -> None:
    A, C = np.arange(60.0).reshape(20, 3), np.arange(6.0).reshape(3, 2)
    W = A @ C
    reference = reference_for(cases.Case("x", "float64", 3, 2, 20, operation="tsmm"), A, C)
    assert reference.error(W) <= 1
    W[7, 1] += 1e-9
    assert reference.error(W) > 1
    assert reference.error(W[:-1]) == float("inf")
