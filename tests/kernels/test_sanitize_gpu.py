"""The driver of compute-sanitizer, without a GPU: what it draws, how it reads reports, and what a killed run leaves."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import sanitize_gpu
from contract import CONTRACTS
from sanitize_gpu import FAMILIES, PER_PROCESS, Batch, Run, batches, bounded_output, described
from sanitize_report import BEGIN, END, Row, parse, read, table, write

MEMCHECK = f"""\
========= COMPUTE-SANITIZER
{BEGIN} 7
========= Invalid __global__ read of size 8 bytes
=========     at void mansard::lu_tile<Params>(T1 const&)+0x70 in kernel.cu:44
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f00 is out of bounds
========= Invalid __global__ read of size 8 bytes
=========     at kernel+0x90
{END} 7 3.2 right
{BEGIN} 9
{END} 9 1.5 wrong result: 3 entries differ
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = f"""\
========= COMPUTE-SANITIZER
{BEGIN} 1
{END} 1 0.5 right
{BEGIN} 2
========= Error: Race reported between Write access at kernel+0x70 and Read access at kernel+0x90 [4 hazards]
=========     at kernel+0x70
"""


def test_reports_belong_to_their_case() -> None:
    seen = parse(MEMCHECK)
    assert list(seen) == [7, 9]
    assert (seen[7].errors, seen[7].outcome, seen[7].seconds) == (2, "right", 3.2)
    assert seen[7].report.startswith("Invalid __global__ read of size 8 bytes in ")
    assert (seen[9].errors, seen[9].outcome, seen[9].report) == (0, "wrong result", "3 entries differ")
    seen = parse(RACECHECK)
    assert (seen[1].errors, seen[2].errors, seen[2].outcome) == (0, 1, "not finished")
    assert "Race reported" in seen[2].report
    assert parse("========= Error: no device\n") == {}


def test_every_family_and_kind_comes_first() -> None:
    assert {*FAMILIES} == {one.family for one in CONTRACTS}
    made = list(batches(list(FAMILIES), 1))
    assert [batch.family for batch in made[: len(FAMILIES)]] == list(FAMILIES)
    assert all(len(batch.numbers) <= PER_PROCESS for batch in made)
    for family in FAMILIES:
        numbers = [number for batch in made if batch.family == family for number in batch.numbers]
        assert sorted(numbers) == list(range(len(sanitize_gpu.cases_of(family))))
        kinds = [described(family, number)[:2] for number in numbers]
        assert len(set(kinds[: len(set(kinds))])) == len(set(kinds))
    assert made != list(batches(list(FAMILIES), 2))


def test_tables_are_written_and_read(tmp_path: Path) -> None:
    rows = [
        Row("lu", "tile", "float64", "40x40", 3, "memcheck", 0, "right", 1.5),
        Row("lu", "lanes", "float32", "4x4", 5, "memcheck", 2, "right", 0.5, "Invalid read | of size 8"),
    ]
    path = tmp_path / "some" / "table.md"
    assert read(path) == []
    write(path, rows, "NVIDIA H200")
    back = read(path)
    assert back[0] == rows[0] and back[1].key == rows[1].key and back[1].errors == 2 and not back[1].clean
    assert "| lu | memcheck | 2 | lanes, tile | float32, float64 | 2 | 0 |" in table(rows, "NVIDIA H200")


def test_a_case_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process so far is in the table; another one takes the cases after the one that hung."""
    asked: list[tuple[int, ...]] = []

    def output(self: Run, batch: Batch, tool: str) -> tuple[str, bool]:
        asked.append(batch.numbers)
        if 1 in batch.numbers:
            return f"{BEGIN} 0\n{END} 0 1.0 right\n{BEGIN} 1\n", True
        return "".join(f"{BEGIN} {number}\n{END} {number} 1.0 right\n" for number in batch.numbers), False

    monkeypatch.setattr(Run, "_output", output)
    out = tmp_path / "table.md"
    run = Run(out, "NVIDIA H200", time.monotonic() + 600, "compute-sanitizer", [])
    run.watch(Batch("lu", (0, 1, 2, 3)), "racecheck")
    assert asked == [(0, 1, 2, 3), (2, 3)]
    assert [(row.case, row.outcome) for row in read(out)] == [(0, "right"), (1, "timeout"), (2, "right"), (3, "right")]
    run.deadline = time.monotonic()
    run.watch(Batch("lu", (4,)), "racecheck")
    assert len(asked) == 2, "time is up"


def test_processes_are_killed_with_their_children() -> None:
    begin = time.monotonic()
    program = "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '60'])"
    said, killed = bounded_output([sys.executable, "-c", program], 3)
    assert killed and "begun" in said and time.monotonic() - begin < 30
    assert bounded_output([sys.executable, "-c", "print(5)"], 60) == ("5\n", False)


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sanitize_gpu.main(["--tools", "magic"])
    assert "magic not among memcheck" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sanitize_gpu.main(["--families", "lu,jacobi", "--variants", "magic"])
    assert "no case of lu, jacobi is magic" in capsys.readouterr().err


def test_variants_choose_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert sanitize_gpu.main(["--families", "jacobi,gradients", "--variants", "block,columns", "--list"]) == 0
    listed = [line.split()[:3:2] for line in capsys.readouterr().out.splitlines()]
    assert {tuple(one) for one in listed} == {("jacobi", "block"), ("gradients", "columns")}
    assert listed.count(["jacobi", "block"]) > 9
