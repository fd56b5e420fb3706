"""The model of messages behind `bench scale`, its table, and its picture, with a network that is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.bench.scale import model, report

LATENCY, GAP, OVERHEAD = 2e-6, 2e-10, 3e-5


def network(ranks: int) -> dict[str, Any]:
    if ranks == 1:
        return {"ranks": 1, "ping_pong": {}, "gather": 0.0, "exchange": {}}
    sizes = (8, 8192, 1048576)
    steps = {2: 1, 4: 2, 8: 3}[ranks]
    return {
        "ranks": ranks, "ping_pong": {str(size): LATENCY + GAP * size for size in sizes}, "gather_bytes": 8704,
        "gather": OVERHEAD + steps * LATENCY + (ranks - 1) * 8704 * GAP,
        "exchange": {str(size): 1e-5 + 4e-10 * size for size in sizes},
    }  # fmt: skip


def run(ranks: int, off: float = 1.0) -> dict[str, Any]:
    rows = []
    for name, gathers, halo in (("gram", 1, 0), ("sparse product", 0, 32768)):
        for scaling in ("weak", "strong"):
            row = {"operation": name, "scaling": scaling, "kernel": 1e-3, "message": 0.0, "waiting": 0.0,
                   "gathers": gathers, "halo": halo, "repeated": 0.0, "share": 0.9}  # fmt: skip
            row["seconds"] = off * model.predicted(row, model.fitted(network(ranks)), ranks, 8704)
            rows.append(row)
    environment = {"device": "a device", "date": "2026-01-01"}
    return {"ranks": ranks, "environment": environment, "network": network(ranks), "rows": rows}


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_latency_gap_and_overhead_are_found(ranks: int) -> None:
    found = model.fitted(network(ranks))
    assert found.latency == pytest.approx(LATENCY) and found.gap == pytest.approx(GAP)
    assert found.overhead == pytest.approx(OVERHEAD) and found.exchange == pytest.approx(1e-5)
    assert found.gather(ranks, 8704) == pytest.approx(network(ranks)["gather"])


def test_time_of_an_operation() -> None:
    row = {"kernel": 1e-3, "gathers": 2, "halo": 1000, "repeated": 0.5}
    net = model.Network(LATENCY, GAP, OVERHEAD, 1e-5, 4e-10)
    assert model.predicted(row, net, 1, 8704) == 1e-3
    gather = OVERHEAD + 12 * LATENCY + 4095 * 8704 * GAP
    assert model.predicted(row, net, 4096, 8704) == pytest.approx(1.5e-3 + 2 * gather + 1e-5 + 4e-7)


def test_table_marks_what_the_model_misses_and_the_picture_is_drawn(tmp_path: Path) -> None:
    for ranks, off in ((1, 1.0), (2, 1.1), (4, 1.3)):
        (tmp_path / f"ranks-{ranks}.json").write_text(json.dumps(run(ranks, off)))
    runs = report.load(tmp_path)
    table = report.table(runs)
    assert list(runs) == [1, 2, 4] and table.bad == frozenset(range(8, 12))
    assert "2 ranks: ping-pong 2.00 us and 5 GB/s" in report.network_text(runs)
    pytest.importorskip("matplotlib")
    report.picture(runs, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 10_000
