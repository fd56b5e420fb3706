"""Numbers of Dong's chapters 4 and 5 about energy and the application: units, and verdicts that rows can take away."""

from __future__ import annotations

from typing import Any

import pytest

from papers.dong import application, hydro, powers, scaling


def _factored(n: int, contender: str, joules: float, net: float, watts: float, **more: Any) -> dict[str, Any]:
    return {"operation": "qr", "M": n, "K": 100, "contender": contender, "gross_joules": joules, "joules": net,
            "average_watts": watts, **more}  # fmt: skip


def test_joules_of_qr_have_one_unit_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joules, watts and their ratio with idle power; net of idle in columns of their own, with their own ratio."""
    rows = [_factored(16, "Mansard", 2.0, 1.0, 600.0, greenup=3.0, net_greenup=4.0),
            _factored(16, "peer", 6.0, 4.0, 400.0)]  # fmt: skip
    monkeypatch.setattr(powers, "results", lambda folder: {"rows": rows})
    found = powers.qr_joules()
    (line,) = (dict(zip(found.columns, cells, strict=True)) for cells in found.cells)
    assert line["J, Mansard"] == "2.00" and line["J, fastest peer"] == "6.00" and line["times less"] == "3.0"
    assert line["J net of idle, Mansard"] == "1.00" and line["J net of idle, peer"] == "4.00"
    assert line["times less, net"] == "4.0" and line["W, Mansard"] == "600" and line["W, peer"] == "400"
    assert found.holds and (found.values["joules"], found.values["watts"], found.values["saved"]) == (2.0, 600.0, 3.0)
    rows[0]["net_greenup"] = 0.9
    assert not powers.qr_joules().holds


def test_committed_joules_of_qr_agree_with_their_ratios() -> None:
    found = powers.qr_joules()
    assert len(found.cells) == 3
    for cells in found.cells:
        line = dict(zip(found.columns, cells, strict=True))
        for ours, peer, times in (("J, Mansard", "J, fastest peer", "times less"),
                                  ("J net of idle, Mansard", "J net of idle, peer", "times less, net")):  # fmt: skip
            assert float(line[peer]) / float(line[ours]) == pytest.approx(float(line[times]), rel=0.03)


def _step(case: str, dim: int, order: int, forces: float, library: str = "numpy", engine: str = "mansard") -> Any:
    phases = {"points": forces, "time step": 0.0, "forces": 0.0, "conjugate gradients": 1 - forces}
    return {"case": case, "dim": dim, "order": order, "library": library, "engine": engine, "phases": phases,
            "median": 1.0, "zones": 8}  # fmt: skip


@pytest.mark.parametrize(("flat", "solid", "holds"), [(0.7, 0.6, True), (0.7, 0.4, False), (0.9, 0.6, False)])
def test_shares_of_corner_forces_are_those_of_a_cpu(
    flat: float, solid: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """His claim is about CPUs: what a GPU's rows say is in the table and changes no verdict."""
    cpu = [_step("a", 2, 4, flat), _step("b", 2, 3, 0.7), _step("c", 3, 2, solid), _step("d", 3, 4, 0.99)]
    cpu.append({**_step("e", 2, 3, 0.1), "zones": 4})  # a smaller mesh of the same method counts in the table alone
    gpu = [_step("c", 3, 2, 0.1, "cupy")]
    monkeypatch.setattr(application, "lines", lambda path: gpu if "h200" in path else cpu)
    found = application.profile()
    assert found.holds == holds and len(found.cells) == 6
    assert f"{flat:.0%} with 2-D Q4-Q3 (his 76%)" in found.values["shares"]
    assert f"{solid:.0%} with 3-D Q2-Q1 (his 55%)" in found.values["shares"]


@pytest.mark.parametrize(("seconds", "holds"), [(1.0, True), (0.09, False)])
def test_a_gpu_is_compared_with_our_kernels_on_cores(
    seconds: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's own routines are a thousand times slower in both: that alone supports nothing."""
    case = "sedov Q2-Q1, 16^3 zones"
    gpu = [{**_step(case, 3, 2, 0.5, *who), "median": median} for who, median in (
        (("cupy", "mansard"), 0.1), (("cupy", "library"), 1.0), (("numpy", "library"), 100.0))]  # fmt: skip
    cpu = [{**_step("sedov Q2-Q1, 8^3 zones", 3, 2, 0.5), "median": seconds}]
    monkeypatch.setattr(application, "lines", lambda path: gpu if "h200" in path else cpu)
    found = application.application()
    assert found.holds == holds and found.values["eight"] == pytest.approx(seconds * 8 / 4 / 0.1)


def _window(part: str, engine: str, joules: float, watts: float, seconds: float = 5.0) -> dict[str, Any]:
    return {"part": part, "engine": engine, "calls": 10, "seconds": seconds, "joules": joules, "commit": "0123abcdef",
            "net_joules": joules / 2, "watts": watts, "idle_watts": 100.0}  # fmt: skip


@pytest.mark.parametrize(("watts", "joules", "draws", "saves"), [
    (300.0, 30.0, True, True), (500.0, 30.0, False, True), (300.0, 9.0, False, False),
])  # fmt: skip
def test_powers_of_the_application_are_compared_in_windows_of_the_protocol(
    watts: float, joules: float, draws: bool, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours take 10 J in every window at 400 W; windows of 2 s do not count."""
    rows = [_window(part, "mansard", 10.0, 400.0) for part in powers._PARTS]
    rows += [_window(part, "library", joules, watts) for part in powers._PARTS]
    rows += [_window(part, "mansard", 1.0, 900.0, 2.0) for part in powers._PARTS]
    factored = [_factored(16, "Mansard", 2.0, 1.0, 600.0, greenup=3.0, powerup=0.5)]
    monkeypatch.setattr(powers, "lines", lambda path: rows)
    monkeypatch.setattr(powers, "results", lambda folder: {"rows": factored})
    found = powers.powers_drawn()
    assert found.holds == draws and len(found.cells) == 4
    assert found.values["forces"] == 400 and found.values["gradients_saved"] == pytest.approx(joules / 10)
    ratios = powers.greenup_of_application()
    assert ratios.holds == saves and ratios.values["forces"] == pytest.approx(joules / 10)
    assert len(ratios.cells) == 2 and all(len(line) == len(ratios.columns) for line in ratios.cells)


def _ranks(kind: str, ranks: int, seconds: float) -> dict[str, Any]:
    return {"scaling": kind, "ranks": ranks, "zones": 64, "seconds": [seconds] * 3, "waiting": [0.1 * seconds] * 3,
            "gradients": [0.5 * seconds] * 3, "alone": [0.02] * 3, "cg_iterations": 90.0,
            "messages": 300.0 * (ranks > 1)}  # fmt: skip


@pytest.mark.parametrize(("eight", "holds"), [(0.2, True), (0.005, False)])
def test_ranks_that_share_a_gpu_are_beside_one(eight: float, holds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_ranks(kind, ranks, seconds) for kind in ("weak", "strong")
            for ranks, seconds in ((1, 0.01), (2, 0.1), (8, eight))]  # fmt: skip
    monkeypatch.setattr(scaling, "lines", lambda path: rows)
    found = scaling.shared()
    assert found.holds == holds and found.values["gpu_most"] == pytest.approx(1e3 * eight)
    assert found.values["gpu_waiting"] == pytest.approx(0.1) and found.values["gpu_gradients"] == pytest.approx(0.5)
    assert len(found.cells) == 6 and all(len(line) == len(found.columns) for line in found.cells)


def test_of_several_measurements_of_a_step_the_last_counts() -> None:
    rows = [{"case": "a", "device": "x", "library": "cupy", "engine": "mansard", "median": value} for value in (2, 1)]
    rows.insert(1, {**rows[0], "library": "torch"})
    assert [row["median"] for row in hydro.latest(rows)] == [1, 2]
