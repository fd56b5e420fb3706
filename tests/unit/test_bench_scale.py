"""The model of messages behind `bench scale`, its table, and its picture, with a network that is made up."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mansard.bench.scale import model, report, runs

LATENCY, GAP, OVERHEAD = 2e-6, 2e-10, 3e-5
MACHINE = {"cores": 2, "read": [10e9, 15e9], "copy": [8e9, 16e9]}
SHARED = model.Shared(2, (10e9, 15e9), (8e9, 16e9))
KERNEL = 1e-3


def network(ranks: int) -> dict[str, Any]:
    if ranks == 1:
        return {"ranks": 1, "ping_pong": {}, "gather": 0.0, "exchange": {}, "machine": MACHINE}
    sizes = (8, 8192, 1048576)
    steps = {2: 1, 4: 2, 8: 3}[ranks]
    return {
        "ranks": ranks, "ping_pong": {str(size): LATENCY + GAP * size for size in sizes}, "gather_bytes": 8704,
        "gather": OVERHEAD + steps * LATENCY + (ranks - 1) * 8704 * GAP,
        "exchange": {str(size): 1e-5 + 4e-10 * size for size in sizes},
    }  # fmt: skip


def run(ranks: int, off: float = 1.0) -> dict[str, Any]:
    """Half of gram's time on one rank is reading; the sparse product never waits for memory."""
    rows = []
    for name, gathers, halo, read in (("gram", 1, 0, 5_000_000), ("sparse product", 0, 32768, 0)):
        for scaling in ("weak", "strong"):
            row = {"operation": name, "scaling": scaling, "kernel": KERNEL, "message": 0.0, "waiting": 0.0,
                   "gathers": gathers, "halo": halo, "repeated": 0.0, "share": 0.9, "read": read,
                   "written": 0}  # fmt: skip
            row["seconds"] = off * model.predicted(row, row, SHARED, model.fitted(network(ranks)), ranks, 8704)
            rows.append(row | {"kernel": row["seconds"]})  # what several ranks measure alone is no input of the model
    if ranks == 1:
        rows = [row | {"kernel": KERNEL} for row in rows]
    environment = {"device": "a device", "date": "2026-01-01"}
    return {"ranks": ranks, "environment": environment, "network": network(ranks), "rows": rows}


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_latency_gap_and_overhead_are_found(ranks: int) -> None:
    found = model.fitted(network(ranks))
    assert found.latency == pytest.approx(LATENCY) and found.gap == pytest.approx(GAP)
    assert found.overhead == pytest.approx(OVERHEAD) and found.exchange == pytest.approx(1e-5)
    assert found.gather(ranks, 8704) == pytest.approx(network(ranks)["gather"])


def test_kernels_share_memory_and_take_turns() -> None:
    """One core reads 10 GB/s and two read 15: what only reads takes 4/3 times as long, half of it 7/6 times."""
    for read, ranks, expected in (
        (0, 1, 1.0), (0, 2, 1.0), (0, 4, 2.0), (0, 6, 3.0),  # never waits for memory: turns alone
        (10e9, 1, 1.0), (10e9, 2, 4 / 3), (10e9, 4, 8 / 3),  # only reads: 20 GB by two at 15 GB/s, then twice that
        (5e9, 2, 7 / 6), (5e9, 3, 1.5 * 7 / 6), (30e9, 2, 4 / 3),  # more bytes than time for them: all of it is memory
    ):  # fmt: skip
        assert SHARED.slowed(1.0, read, 0, ranks) == pytest.approx(expected), (read, ranks)
    assert SHARED.slowed(1.0, 4e9, 4e9, 2) == 1.0  # copies: two cores get twice what one gets
    tight = SHARED._replace(copy=(8e9, 8e9))
    assert tight.slowed(1.0, 4e9, 4e9, 2) == pytest.approx(2.0) and tight.slowed(1.0, 8e9, 0, 2) != 2.0
    noisy = SHARED._replace(read=(10e9, 7e9))  # other work took the second core while bandwidth was measured
    assert noisy.slowed(1.0, 10e9, 0, 1) == 1.0 and noisy.slowed(1.0, 10e9, 0, 2) == pytest.approx(2.0)
    assert model.shared_of({"machine": MACHINE}) == SHARED and model.shared_of({}) is None


def test_bandwidth_of_threads_is_measured_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that take 20 ms each for their own numbers at the same time have twice the rate of one."""
    monkeypatch.setattr(runs, "_STREAM", 1000)
    monkeypatch.setattr(runs, "_STREAMING", 0.0)
    rates = [runs._rate(threads, lambda x, y: time.sleep(0.02), 8) for threads in (1, 2)]
    assert rates == pytest.approx([8 * 1000 / 0.02, 2 * 8 * 1000 / 0.02], rel=0.3)
    found = runs.machine()
    assert found["cores"] == os.cpu_count() and all(rate > 0 for name in ("read", "copy") for rate in found[name])


def test_time_of_an_operation() -> None:
    one = {"kernel": 1e-3, "read": 0, "written": 0}
    row = {"gathers": 2, "halo": 1000, "repeated": 0.5, "scaling": "weak", "kernel": 77.0}
    net = model.Network(LATENCY, GAP, OVERHEAD, 1e-5, 4e-10)
    assert model.predicted(row, one, SHARED, net, 1, 8704) == 1e-3
    messages = 2 * (OVERHEAD + 12 * LATENCY + 4095 * 8704 * GAP) + 1e-5 + 4e-7
    assert model.predicted(row, one, SHARED, net, 4096, 8704, beside=2) == pytest.approx(1.5e-3 + messages)
    strong = row | {"scaling": "strong"}
    assert model.predicted(strong, one, SHARED, net, 4096, 8704, 2) == pytest.approx(1.5e-3 / 4096 + messages)
    crowded = model.predicted(strong, one, SHARED, net, 4, 0) - model.predicted(strong, one, SHARED, net, 4, 0, 2)
    assert crowded == pytest.approx(1.5e-3 / 4)  # four ranks on two cores take turns


def test_the_model_knows_one_rank_alone() -> None:
    """Rows of several ranks with other kernel times have the same prediction; without one rank there is none."""
    runs = {1: run(1), 2: run(2)}
    before = [line[-2] for line in report.table(runs).cells]
    for row in runs[2]["rows"]:
        row["kernel"] *= 3
    assert [line[-2] for line in report.table(runs).cells] == before and before[:4] == [""] * 4 and all(before[4:])
    assert all(line[-2:] == ("", "") for line in report.table({2: runs[2]}).cells)
    del runs[1]["network"]["machine"]  # rows of earlier versions
    assert all(line[-2:] == ("", "") for line in report.table(runs).cells) and report.misses(runs) == ""


def test_table_marks_what_the_model_misses_and_the_picture_is_drawn(tmp_path: Path) -> None:
    for ranks, off in ((1, 1.0), (2, 1.1), (4, 1.3)):
        (tmp_path / f"ranks-{ranks}.json").write_text(json.dumps(run(ranks, off)))
    runs = report.load(tmp_path)
    table = report.table(runs)
    assert list(runs) == [1, 2, 4] and table.bad == frozenset(range(8, 12))
    assert [line[2] for line in table.cells] == ["1"] * 4 + ["2"] * 4 + ["4, on 2 cores"] * 4
    text = report.network_text(runs)
    assert "2 ranks: ping-pong 2.00 us and 5 GB/s" in text
    assert "machine: 2 cores; read 10.0 GB/s by one, 15.0 by all; copy 8.0 GB/s by one, 16.0 by all" in text
    said = report.misses(runs).splitlines()
    assert said == ["2 ranks: model off by 9 % in the median, 9 % at most; 4 of 4 within 15 %",
                    "4 ranks: model off by 23 % in the median, 23 % at most; 0 of 4 within 15 %"]  # fmt: skip
    pytest.importorskip("matplotlib")
    report.picture(runs, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 10_000
    report.picture({2: runs[2]}, tmp_path / "pair.png")  # points alone
    assert (tmp_path / "pair.png").stat().st_size > 10_000
