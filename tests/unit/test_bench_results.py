"""What the benchmark leaves: its journal, tables, pictures and report. No GPU needed."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bench_samples
import numpy as np
import pytest
from sparing import rotated

from mansard import cli
from mansard.bench import cases, ceilings, command, contest, gallery, report, rows, runner, store
from mansard.bench.check import reference_for
from mansard.errors import MansardWarning
from mansard.kernels.tall_skinny import tsmm
from papers import EXTENSION

pytestmark = rotated(3)

TINY = 1 << 9


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    return bench_samples.written(tmp_path_factory)


def options(folder: Path, **changes: Any) -> runner.Options:
    values = {"sets": ("quick",), "device": "reference", "out": folder, "repeats": 3, "most_elements": TINY}
    return runner.Options(**(values | changes))


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


def test_a_packed_journal_grows_and_packs_again(tmp_path: Path) -> None:
    few = options(tmp_path, sets=("same",), peers=False, repeats=1)
    first = runner.run(few)
    store.pack(tmp_path)
    archive = store.packed(tmp_path / store.JOURNAL)
    assert archive.exists() and not (tmp_path / store.JOURNAL).exists()
    assert store.collect(tmp_path) == first == store.load(tmp_path)
    second = runner.run(options(tmp_path, sets=("overhead",), peers=False))
    assert (tmp_path / store.JOURNAL).exists() and {row["run"] for row in second["rows"]} == {1, 2}
    plain = (tmp_path / store.JOURNAL).read_bytes()
    assert cli_main(["report", str(tmp_path), "--pack"]) == 0
    assert store.collect(tmp_path) == second and not (tmp_path / store.JOURNAL).exists()
    held = archive.read_bytes()
    (tmp_path / store.JOURNAL).write_bytes(plain)  # as if packing had been interrupted before the last step
    assert store.collect(tmp_path) == second
    store.pack(tmp_path)
    assert archive.read_bytes() == held


def test_an_interrupted_run_behind_a_packed_journal_continues(tmp_path: Path) -> None:
    bench_samples.journal(tmp_path, ("overhead",))
    begun = store.Journal(tmp_path, bench_samples.ENVIRONMENT, {"sets": ["same"], "family": "gram"})
    begun.write("ceilings", machine=asdict(bench_samples.H200))
    store.pack(tmp_path)
    again = store.Journal(tmp_path, bench_samples.ENVIRONMENT, {"sets": ["same"], "family": "gram"})
    assert again.resumed and again.run == begun.run == 2 and again.ceilings


@pytest.mark.parametrize("damage", ["cut", "noise", "bomb"])
def test_a_damaged_packed_journal_is_read_as_far_as_it_goes(tmp_path: Path, damage: str) -> None:
    bench_samples.journal(tmp_path, ("overhead",))
    whole = store.collect(tmp_path)["rows"]
    store.pack(tmp_path)
    archive = store.packed(tmp_path / store.JOURNAL)
    content = archive.read_bytes()
    more = {"cut": b"", "noise": b"no gzip", "bomb": gzip.compress((b" " * 200_000 + b"\n") * 200)}[damage]
    archive.write_bytes(content[: -9 if damage == "cut" else None] + more)
    reasons = r"rows\.jsonl\.gz: (line \d+ is no JSON|cannot be unpacked|unpacks to more)"
    with pytest.warns(MansardWarning, match=reasons):
        assert store.collect(tmp_path)["rows"][: len(whole)] == whole


def test_a_folder_of_folders_is_reported_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gram", "again"):
        bench_samples.journal(tmp_path / "device" / name, ("overhead",))
    assert cli_main(["report", str(tmp_path), "--to", str(tmp_path / "to")]) == 0
    assert capsys.readouterr().out.count("report: ") == 2
    assert (tmp_path / "to" / "device" / "gram" / "index.html").exists()


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
    page = report.write_report(results, folder, EXTENSION).read_text()
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

    monkeypatch.setattr(gallery, "draw_all", absent)
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
    written = (tmp_path / "results.json").read_text()
    for name in ("results.json", "results.csv"):  # which are made from the journal as everything else is
        (tmp_path / name).unlink()
    assert cli_main(["report", str(tmp_path)]) == 0 and (tmp_path / "results.csv").exists()
    assert (tmp_path / "results.json").read_text() == written
    assert (tmp_path / "again" / "summary.md").exists()
    assert cli_main(["report", str(tmp_path / "nowhere")]) == 1
    assert cli_main(["bench", "--set", "nonsense", "--out", str(tmp_path)]) == 2


@pytest.mark.usefixtures("no_pictures")
def test_everything_is_measured_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder per family, one table, one page over all; the ceilings are measured once."""
    asked: list[Any] = []
    genuine = ceilings.measure
    monkeypatch.setattr(ceilings, "measure", lambda backend: (asked.append(backend), genuine(backend))[1])
    words = ["--device", "reference", "--elements", "512", "--repeats", "1", "--no-peers", "--out", str(tmp_path)]
    assert cli_main(["bench", *words]) == 0
    shown = capsys.readouterr().out
    assert "gram: 1 of 5, about 165 s left in all" in shown and "powers: 5 of 5" in shown and len(asked) == 1
    assert "linalg.solve" in shown and "matrix_powers" in shown and "blas.trsm" in shown
    page = (tmp_path / "index.html").read_text()
    for family in runner.CATALOGUES:
        assert (tmp_path / family / "index.html").exists() and f"{family}/index.html" in page
    (tmp_path / "index.html").unlink()
    assert cli_main(["report", str(tmp_path)]) == 0 and (tmp_path / "index.html").read_text() == page


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
    assert ours[case.key]["origin"] in ("rule", "tuned") and ours[case.key]["x_peer"] > 0
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
