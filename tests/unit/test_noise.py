"""Noise is not knowledge: busy machines are recognised, better ceilings stay, impossible results are not recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tune_cases import SMALL, FakeBackend, fake_trial, one_config

from mansard import cli, units
from mansard.backends import cpu
from mansard.bench import doubtful, rows, summary
from mansard.kernels.tall_skinny import gram
from mansard.machine import calibrate, info, machine, noise, roofline
from mansard.machine.calibrate_record import Record
from mansard.machine.machine import Machine
from mansard.machine.measure import Timing
from mansard.machine.noise import Shares
from mansard.machine.roofline import Work
from mansard.plan.explain import NOMINAL
from mansard.records import database
from mansard.records.trials import VENDOR, Store, Trial, store_path
from mansard.records.verdict import DOUBTFUL, interval, is_undecided, vendor_wins, was_doubtful
from mansard.tune import forget, session
from mansard.tune.session import TuningResult, tune_problem

H200 = NOMINAL["sm_90a"]
GOOD = Machine("a CPU", "measured 2026-01-01", 14e9, 12e9, 11e9, {"float32": 3e11, "float64": 1.5e11})
QUIET, STEADY = Shares(0.02, 0.0, 0.1), (0.020, 0.0201, 0.0199, 0.0202, 0.02)
UNSTEADY = (0.020, 0.035, 0.021, 0.052, 0.044)


@pytest.fixture(autouse=True)
def _own(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ceilings and records of a test belong to the test."""
    monkeypatch.setattr(database, "DATA", own_cache / "shipped")
    yield
    machine._load.cache_clear()


# --- Signs of a busy machine --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (QUIET, []),
        (Shares(0.65, 0.0, 3.0), ["other programs used 65 % of the processors"]),
        (Shares(0.0, 0.4, 0.0), ["the hypervisor gave 40 % of the time to others"]),
        (Shares(None, None, 3.2), ["other programs were running (load 3.2 on 2 threads)"]),
        (Shares(None, None, 0.3), []),
    ],
)
def test_other_programs_are_seen(shares: Shares, said: list[str]) -> None:
    assert noise.of_surroundings(shares, threads=2) == said


def test_a_watch_counts_other_programs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors for two seconds: three seconds busy, one of them ours; half a second stolen."""
    clock, ticks, own = iter([10.0, 12.0]), iter([[(5.0, 0.0), (7.0, 0.0)], [(6.0, 0.5), (9.0, 0.0)]]), iter([1.0, 2.0])
    monkeypatch.setattr(noise.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(noise, "_ticks", lambda: next(ticks))
    monkeypatch.setattr(noise, "_own_seconds", lambda: next(own))
    shares = noise.Watch().shares()
    assert shares.others == 0.5 and shares.stolen == 0.125


def test_the_system_tells_what_it_did() -> None:
    shares = noise.Watch().shares()
    assert shares.others is None or shares.others >= 0


@pytest.mark.parametrize(("samples", "count"), [(STEADY, 0), (UNSTEADY, 1)])
def test_samples_that_differ_are_seen(samples: tuple[float, ...], count: int) -> None:
    record = Record(1, fastest=True)
    record.add("read", "one stream", Timing(samples), 256e6)
    record.add("copy", "memcpy", Timing(STEADY), 256e6)
    said = noise.of_spread(record.results, "cpu")
    assert len(said) == count and all("read bandwidth differ by" in text for text in said)


def test_a_second_look_that_disagrees_is_seen() -> None:
    first = {"read_bandwidth": 14e9, "copy_bandwidth": 12e9}
    assert noise.of_second_look(first, {"read_bandwidth": 13.5e9, "copy_bandwidth": 12.2e9}) == []
    assert noise.of_second_look(first, {"read_bandwidth": 6e9, "copy_bandwidth": 12e9}) == [
        "the read bandwidth was 14 GB/s at first and 6 GB/s at a second look"
    ]


# --- Which ceilings stay ------------------------------------------------------------------------------------


def busy(one: Machine, **changes: Any) -> Machine:
    details = {"noise": ["other programs"]}
    return replace(one, origin="measured 2026-02-02 on a busy machine", details=details, **changes)


def test_quiet_ceilings_replace_what_is_not_better() -> None:
    nominal = machine.known(cpu.backend().device)
    better = replace(GOOD, origin="measured 2026-02-02", read_bandwidth=14.5e9)
    for stored in (nominal, busy(GOOD), GOOD):
        assert noise.settle(better, stored) == (better, True)


def test_disturbed_ceilings_do_not_replace_quiet_ones() -> None:
    kept, is_new = noise.settle(busy(GOOD, read_bandwidth=0.5e9), GOOD)
    assert not is_new and kept.read_bandwidth == 14e9 and "not kept" in kept.origin and kept.measured
    kept, is_new = noise.settle(busy(GOOD), GOOD)
    assert not is_new, "equal, and known to be disturbed"


def test_a_large_drop_is_noise_even_if_nothing_else_shows_it() -> None:
    kept, is_new = noise.settle(replace(GOOD, origin="measured 2026-02-02", copy_bandwidth=9e9), GOOD)
    assert not is_new and kept.copy_bandwidth == 12e9
    assert kept.details["not_kept"] == ["the copy bandwidth is 9 GB/s now and was 12 GB/s when it was stored"]


def test_of_two_disturbed_measurements_the_better_of_each_ceiling_counts() -> None:
    one, other = busy(GOOD, read_bandwidth=5e9), busy(GOOD, copy_bandwidth=4e9, fma={"float32": 1e11, "float64": 2e11})
    both, is_new = noise.settle(one, other)
    assert is_new and both.noise
    assert (both.read_bandwidth, both.copy_bandwidth, both.fma) == (14e9, 12e9, {"float32": 3e11, "float64": 2e11})


def probes(samples: dict[str, tuple[float, ...]], again: float) -> Any:
    """A module of probes whose clock is a list of samples; a second look finds the rate `again`."""

    def measure_all(backend: Any, progress: Any, quick: bool) -> tuple[Record, dict[str, Any]]:
        record = Record(1, progress, fastest=True)
        record.step("everything")
        for probe, seconds in samples.items():
            record.add(probe, "one stream", Timing(seconds), 256e6)
        rates = {f"{name}_bandwidth": record.best(name) for name in ("read", "copy", "scale")}
        return record, {**rates, "fma": dict(GOOD.fma)}

    def yardsticks(backend: Any, read: Any, copy: Any, held: ExitStack) -> dict[str, Any]:
        return {name: (name, 256e6) for name in ("read_bandwidth", "copy_bandwidth")}

    def look(run: Any, backend: Any, **how: Any) -> Timing:
        return Timing((256e6 / again,))

    return SimpleNamespace(measure_all=measure_all, yardsticks=yardsticks), look


def play(monkeypatch: pytest.MonkeyPatch, samples: tuple[float, ...], again: float, shares: Shares = QUIET) -> None:
    module, look = probes({name: samples for name in ("read", "copy", "scale")}, again)
    monkeypatch.setattr(calibrate, "_probes_of", lambda backend: module)
    monkeypatch.setattr(calibrate, "measure", look)
    monkeypatch.setattr(noise.Watch, "shares", lambda self: shares)


needs_compiler = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))


@needs_compiler
def test_a_slow_measurement_against_better_ceilings_end_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """14 GB/s are stored; a busy machine measures 0.5: the 14 stay, and the command says why."""
    device = cpu.backend().device
    path = machine.save(replace(GOOD, device=device.name), device)
    before = path.read_text()
    play(monkeypatch, (0.5, 0.9, 0.55, 1.4, 0.6), 0.2e9, Shares(0.8, 0.0, 5.0))
    assert cli.main(["info", "--remeasure", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert path.read_text() == before
    for text in (
        "14 GB/s", "a new measurement was not kept", "other programs used 80 % of the processors",
        "samples of the read bandwidth differ by", "at a second look",
        "the read bandwidth is 512 MB/s now and was 14 GB/s when it was stored", "mansard info --forget",
    ):  # fmt: skip
        assert text in shown, text
    assert cli.main(["info", "--forget", "--device", "cpu"]) == 0
    assert f"forgot the ceilings of {device.name}" in capsys.readouterr().out and not path.exists()
    assert cli.main(["info", "--forget"]) == 0 and "no ceilings are stored" in capsys.readouterr().out


@needs_compiler
def test_with_nothing_stored_disturbed_ceilings_serve_and_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, UNSTEADY, 12e9, Shares(0.8, 0.0, 5.0))
    assert cli.main(["info", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "on a busy machine)" in shown and "ceilings may be too low" in shown and "--remeasure" in shown
    stored = machine.known(cpu.backend().device)
    assert stored.measured and stored.noise
    play(monkeypatch, STEADY, 12.8e9)  # the next call measures again, and a quiet measurement replaces it
    assert cli.main(["info", "--device", "cpu"]) == 0
    assert "busy" not in capsys.readouterr().out and not machine.known(cpu.backend().device).noise
    play(monkeypatch, (9.0, 9.0), 1e6)  # and then stays without a question
    assert cli.main(["info", "--device", "cpu"]) == 0 and "12.86 GB/s" in capsys.readouterr().out


@needs_compiler
def test_ceilings_that_cannot_be_stored_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "/cache")

    play(monkeypatch, STEADY, 12.8e9)
    monkeypatch.setattr(machine, "save", refuse)
    assert cli.main(["info", "--remeasure", "--device", "cpu"]) == 0
    assert "not stored:" in capsys.readouterr().out


def test_old_ceilings_with_stolen_time_say_so() -> None:
    text = info.ceilings_text(replace(GOOD, details={"stolen": 0.3}))
    assert "gave 30 % of the time to others" in text


# --- Results above the limit --------------------------------------------------------------------------------

CURVE = ((1 << 16, 400e9), (1 << 21, 90e9), (1 << 25, 16e9), (1 << 28, 14e9))
CEILINGS = replace(GOOD, cache_bandwidth=CURVE)


@pytest.mark.parametrize(
    ("work", "seconds", "said"),
    [
        (Work(14 * 10**9, 0, 0, "float64"), 0.96, None),  # 104 %
        (Work(14 * 10**9, 0, 0, "float64"), 0.9, "impossible"),  # 111 %
        (Work(14 * 10**9, 0, 0, "float64"), 1 / 4.4, "impossible"),  # the 440 % of a busy machine
        (Work(14 * 10**9, 0, 0, "float64", spared=7 * 10**9), 0.55, "half of each matrix is not read"),
        (Work(14 * 10**9, 0, 0, "float64", spared=7 * 10**9), 0.4, "impossible"),
        (Work(10**6, 0, 3 * 10**11, "complex128"), 1.6, "three real products make a complex one"),
        (Work(10**6, 0, 3 * 10**11, "complex128"), 1.3, "impossible"),
        (Work(10**6, 0, 3 * 10**11, "float64"), 1.6, "impossible"),
        (Work(10**6, 0, 0, "float64"), 20e-6, "the operands fit a cache"),  # 50 GB/s
        (Work(10**6, 0, 0, "float64"), 1e-6, "impossible"),  # 1000 GB/s
        (Work(0, 12 * 10**9, 0, "float64"), 0.9, "results are written faster than a copy is made"),
    ],
)
def test_results_above_the_limit_need_a_reason(work: Work, seconds: float, said: str | None) -> None:
    found = roofline.excess(work, CEILINGS, seconds)
    assert (found is None) == (said is None)
    if found:
        assert said is not None and said in found.reason and found.is_doubtful == (said == "impossible")


def test_results_with_a_reason_are_not_doubted() -> None:
    """What the published tables have above the limit on the H200: Cholesky reads a triangle, complex64 products are
    three real ones."""
    h200 = replace(machine.nominal_for(H200), origin="measured", read_bandwidth=4.6e12, copy_bandwidth=4.19e12)
    from mansard.kernels.factor import cholesky
    from mansard.kernels.tall_skinny import tsmm

    square = cholesky.work.work(cholesky.spec.problem("float64", 24, 233016))
    found = roofline.excess(square, h200, roofline.time_bound(square, h200).seconds / 1.115)
    assert found is not None and not found.is_doubtful
    tall = tsmm.work.work(tsmm.spec.problem("complex64", 64, 64, 1 << 22))
    slow = replace(h200, fma={"float32": 20e12, "float64": 10e12}, tensor={})
    found = roofline.excess(tall, slow, roofline.time_bound(tall, slow).seconds / 1.098)
    assert found is not None and not found.is_doubtful


def test_the_benchmark_flags_them_everywhere() -> None:
    case = {"case": "gram", "operation": "gram", "set": "full", "dtype": "float64", "M": 4, "N": 4, "K": 1 << 24,
            "layout": "row", "same": False, "mode": "device", "temperature": "cold", "pins": ()}  # fmt: skip
    bound = (1 << 24) * 8 * 8 / 14e9
    row = rows.complete(rows.row(case, rows.OURS, [bound / 4.4] * 7), CEILINGS)
    fine = rows.complete(rows.row(case, "NumPy", [bound * 1.1] * 7), CEILINGS)
    assert row["doubtful"] and row["percent_limit"] == pytest.approx(440, rel=1e-3) and "above_limit" not in fine
    results = {"rows": [row, fine], "ceilings": None, "environment": {}}
    assert any("440.0 !" in cells for cells in summary.each(results, set()).cells)
    assert "(1 doubtful)" in summary.by_range(results, set()).cells[0][2]
    (table,) = [one for one in summary.tables(results, set()) if one.title == "Above 105 % of the limit"]
    assert table.bad == {0} and "impossible" in table.cells[0][3]
    assert any("1 result above 105 %" in text and bad for text, bad in doubtful.notes(results))
    assert any(text.startswith("doubtful: gram (Mansard): 440") for text in doubtful.lines(results))
    assert "above_limit" in rows.COLUMNS


# --- Tuning -------------------------------------------------------------------------------------------------


def trial(*seconds: float, vendor: bool = False, **changes: Any) -> Trial:
    config = VENDOR if vendor else gram.space.to_dict(one_config())
    return Trial(SMALL, config, "ok", seconds, **changes)


def test_intervals_are_quartiles_or_extremes() -> None:
    assert interval((3.0, 1.0)) == (1.0, 3.0)
    low, high = interval((1.0, 2.0, 3.0, 4.0, 100.0))
    assert 1.0 <= low < 3.0 < high < 100.0


@pytest.mark.parametrize(
    ("vendor", "own", "wins", "undecided"),
    [
        ((1.0, 1.01, 1.02), (2.0, 2.01, 2.02), True, False),  # clear
        ((1.0, 1.01, 2.5), (2.0, 2.01, 2.02), False, True),  # one sample of the vendor's was slow: overlap
        ((1.0, 1.01, 1.02), (0.99, 2.0, 2.02), False, True),
        ((1.0,), (1.02,), False, False),  # within the margin
        ((1.0,), (1.2,), True, False),  # a shipped table has medians alone
        ((2.0, 2.1), (1.0, 1.1), False, False),  # the kernel wins
    ],
)
def test_the_vendor_wins_only_beyond_the_spread_of_both(
    vendor: tuple[float, ...], own: tuple[float, ...], wins: bool, undecided: bool
) -> None:
    theirs, ours = trial(*vendor, vendor=True), trial(*own)
    assert vendor_wins(theirs, ours) is wins and is_undecided(theirs, ours) is undecided
    result = TuningResult(SMALL, None, [ours], theirs)
    assert result.vendor_wins is wins and ("no clear winner" in result.line()) is undecided
    assert vendor_wins(theirs, None) and not vendor_wins(None, ours)


@pytest.mark.parametrize(("samples", "wins"), [((1e-3, 1.01e-3, 0.99e-3), True), ((1e-3, 9e-3, 0.9e-3), False)])
def test_dispatch_asks_for_the_spread_too(samples: tuple[float, ...], wins: bool) -> None:
    config = one_config(device=H200)
    store = Store(store_path(H200, "gram"))
    store.append(replace(fake_trial(config, 2e-3, device=H200), seconds=(2e-3, 2.1e-3, 1.9e-3), round=2))
    store.append(trial(*samples, vendor=True, round=2, bound=1e-4, date="2026-01-02T00:00:00"))
    record = database.best(SMALL, H200, gram.FAMILY)
    assert record is not None and (record.config is None) == wins
    assert ("within the spread of both" in record.reason) == (not wins)


class Quick(FakeBackend):
    """Kernels that take a millisecond, on a device with stored ceilings."""

    def __init__(self) -> None:
        super().__init__(SMALL, seconds=lambda text: 1e-3)


def test_a_result_above_the_limit_never_becomes_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    backend = Quick()
    slow = replace(GOOD, read_bandwidth=1e6, copy_bandwidth=1e6)  # of a busy machine: the limit is 1.28 s
    machine.save(slow, backend.device)
    result = tune_problem(SMALL, backend, limit=1)
    assert result.winner is None and {one.status for one in result.trials} == {DOUBTFUL} and result.vendor is None
    assert list(Store(store_path(backend.device, "gram"))) == []
    assert "impossible" in result.line() and DOUBTFUL in result.failures()
    from mansard.tune import command

    command._conclude([result], [SMALL])
    assert "not recorded" in (text := capsys.readouterr().out) and "mansard info --remeasure" in text
    machine.save(GOOD, backend.device)  # once the machine is quiet, the same tune succeeds
    assert tune_problem(SMALL, backend, limit=1).winner is not None


def test_records_of_a_busy_day_are_not_served() -> None:
    config = one_config(device=H200)
    Store(store_path(H200, "gram")).append(fake_trial(config, 1e-3, device=H200, bound=4.4e-3))
    assert database.best(SMALL, H200, gram.FAMILY) is not None, "without ceilings nobody can tell"
    machine.save(replace(GOOD, read_bandwidth=4.6e12, copy_bandwidth=4.2e12), H200)
    assert database.best(SMALL, H200, gram.FAMILY) is None
    assert was_doubtful(fake_trial(config, 1e-3, device=H200, bound=4.4e-3), H200)
    assert not was_doubtful(fake_trial(config, 1e-3, device=H200, bound=0.9e-3), H200)


def test_the_winner_and_the_vendor_are_timed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disturbance during the vendor's first look, or the winner's, does not decide: the last samples alternate."""
    seen: list[str] = []
    time_one = session.DeviceRunner._time

    def listening(self: Any, call: Any, round: int, *rest: Any, **more: Any) -> Timing:
        seen.append("vendor" if "vendor" in getattr(call, "__qualname__", "") else "ours")
        return time_one(self, call, round, *rest, **more)

    monkeypatch.setattr(session.DeviceRunner, "_time", listening)
    result = tune_problem(SMALL, Quick(), limit=1)
    assert seen[-10:] == ["ours", "vendor"] * 5
    assert result.vendor is not None and result.vendor.round == 2 and len(result.vendor.seconds) == 15


# --- Forgetting ---------------------------------------------------------------------------------------------


def test_records_are_forgotten_by_operation_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    device, config = H200, one_config(device=H200)
    for _ in range(3):
        Store(store_path(device, "gram")).append(fake_trial(config, 1e-3, device=device))
    factors = store_path(device, "lu")
    lines = [{"problem": {"operation": "lu", "traits": {"want": want}}} for want in ("factor", "solve", "solve")]
    factors.write_text("".join(json.dumps(line) + "\n" for line in lines) + "cut short")
    assert cli.main(["tune", "--forget", "solve"]) == 0
    assert capsys.readouterr().out == "forgot 2 records of solve\n"
    assert len(factors.read_text().splitlines()) == 2
    assert forget.forget(("gram",), backend="cpu") == 0
    assert cli.main(["tune", "gram", "--forget"]) == 0
    assert capsys.readouterr().out == "forgot 3 records of gram\n" and not store_path(device, "gram").exists()
    assert cli.main(["tune", "--forget"]) == 0
    assert capsys.readouterr().out == "forgot 2 records of all operations\n" and not factors.exists()
    assert units.count(1, "record") == "1 record"
