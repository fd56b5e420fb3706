"""`mansard bench model`: problems drawn at random, choices compared with a search, a journal that is continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import needs_cpu

from mansard import cli
from mansard.backends import cpu
from mansard.bench.choices.command import tables
from mansard.bench.choices.draw import FAMILIES, problems
from mansard.codegen.geometry import Device
from mansard.kernels import family_of

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20)


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_are_the_familys_and_always_the_same(family: str) -> None:
    drawn = list(problems(family, 3, 6, 1 << 26, H200))
    assert len(drawn) == 6 and len(set(drawn)) > 3 and drawn[:2] == list(problems(family, 3, 2, 1 << 26, H200))
    assert all(one.operation == family and family_of(family).spec.refusal(one) is None for one in drawn)
    assert drawn != list(problems(family, 4, 6, 1 << 26, H200))


def test_tables_name_the_worst_and_mark_what_misses_the_goals() -> None:
    line = {"problem": "a problem", "origin": "model", "choice": {"TILE_M": 4}, "best": {"TILE_M": 2}}
    found = [{**line, "family": "gram", "share": share} for share in (1.0, 0.95, 0.4)]
    found += [{**line, "family": "lu", "share": 0.93}]
    shares, worst = tables(found)
    assert shares.cells == [("gram", "3", "95 %", "40 %", "40 %"), ("lu", "1", "93 %", "93 %", "93 %")]
    assert shares.bad == {0} and worst.cells[0][2:] == ("40 %", "TILE_M=4", "TILE_M=2")


@needs_cpu
def test_command_compares_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "model", "--device", "cpu", "--operations", "gemv", "--elements", "2^10", "--candidates", "2"]
    assert cli.main([*command, "--cases", "1", "--out", str(tmp_path)]) == 0
    (row,) = map(json.loads, (tmp_path / "model" / "rows.jsonl").read_text().splitlines())
    assert row["family"] == "gemv" and 0 < row["share"] <= 1 and row["best_seconds"] <= row["choice_seconds"]
    assert row["tried"] in (2, 3) and row["device"].startswith(cpu.backend().device.name)
    assert "1 of 1:" in capsys.readouterr().out
    assert cli.main([*command, "--cases", "1", "--out", str(tmp_path)]) == 0
    assert "1 of 1:" not in capsys.readouterr().out, "the journal holds it"
    assert cli.main([*command, "--operations", "gram,spvm", "--out", str(tmp_path)]) == 2
