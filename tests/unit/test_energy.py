"""Energy: counters of the powercap folder, windows and what rows make of them. Simulated counters test the arithmetic
alone; real ones are read where they can be, and the skip says why where they cannot."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import bench_samples
import pytest

from mansard import cli
from mansard.backends import cpu, cuda
from mansard.bench import applications, energy_sets, greenup, lines, rows, store
from mansard.bench import energy as bench_energy
from mansard.bench.cases import Case
from mansard.bench.contest import Contest
from mansard.bench.energy import Contender, Joules, Metered, metered
from mansard.bench.table import Table
from mansard.errors import EnergyUnreadable
from mansard.machine import energy, meter, nvml
from mansard.machine.meter import Effort, Meter
from mansard.untrusted import Damaged
from papers.dong import energy as dong

COMMAND = ["bench", "cholesky", "--m", "4", "--batch", "64", "--device", "reference", "--no-peers", "--repeats", "3"]
CASE = Case("lu", "float64", 32, 1, 1000, operation="lu")


class Simulated:
    """A device with a counter that advances every `step` seconds: `idle` watts, and `busy` more per second of calls."""

    about = "simulated"

    def __init__(self, idle: float = 100.0, busy: float = 400.0, step: float = 0.1) -> None:
        self.now, self.worked, self._idle, self._busy, self._step = 0.0, 0.0, idle, busy, step
        self._seen, self._next = 0.0, 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.worked += seconds

    def joules(self) -> dict[str, float]:
        if self.now >= self._next:
            self._seen = self._idle * self.now + self._busy * self.worked
            self._next = self.now + self._step
        return {energy.GPU: self._seen}

    def state(self) -> dict[str, Any]:
        return {"mhz": 1980, "celsius": 40}

    def chunks(self, each: float, count: int = 10) -> Iterator[int]:
        while True:
            self.work(each * count)
            yield count


def _meter(device: Simulated) -> Meter:
    return Meter(device, device.clock, device.sleep)


# --- counters of the powercap folder


def _zone(folder: Path, place: str, name: str, microjoules: int, most: int = 1000_000_000) -> Path:
    zone = folder / place
    zone.mkdir()
    (zone / "name").write_text(f"{name}\n")
    (zone / "energy_uj").write_text(f"{microjoules}\n")
    (zone / "max_energy_range_uj").write_text(f"{most}\n")
    return zone


def test_packages_and_memory_count_and_nothing_counts_twice(tmp_path: Path) -> None:
    _zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    _zone(tmp_path, "intel-rapl:0:0", "core", 4_000_000)
    _zone(tmp_path, "intel-rapl:0:1", "dram", 1_000_000)
    _zone(tmp_path, "intel-rapl:1", "package-1", 2_000_000)
    _zone(tmp_path, "intel-rapl:2", "psys", 90_000_000)
    _zone(tmp_path, "intel-rapl-mmio:0", "package-0", 5_000_000)
    assert energy.Cpu(tmp_path).joules() == {"package-0": 5.0, "dram-0": 1.0, "package-1": 2.0}


def test_a_counter_that_starts_again_goes_on(tmp_path: Path) -> None:
    zone = _zone(tmp_path, "intel-rapl:0", "package-0", 999_000_000)
    counter = energy.Cpu(tmp_path)
    begin = counter.joules()["package-0"]
    for reading in (500_000, 999_500_000, 1_500_000):  # around twice
        (zone / "energy_uj").write_text(str(reading))
        end = counter.joules()["package-0"]
    assert end - begin == pytest.approx(1002.5)


def test_the_reason_is_said_where_nothing_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnergyUnreadable, match=r"cannot be read here: this kernel has no .*powercap"):
        energy.Cpu(tmp_path / "powercap")
    with pytest.raises(EnergyUnreadable, match="no zone of a processor"):
        energy.Cpu(tmp_path)
    _zone(tmp_path, "intel-rapl:0", "package-0", 1)

    def refuse(self: energy.Zone) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(energy.Zone, "_read", refuse)
    with pytest.raises(EnergyUnreadable, match="Permission denied: run as root"):
        energy.Cpu(tmp_path)
    assert "is no device" in energy.unreadable(SimpleNamespace(name="emulated"))


def _without_nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU's backend on a machine whose driver has no NVML."""

    def absent(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(nvml, "ctypes", SimpleNamespace(CDLL=absent))
    library = SimpleNamespace(cuDeviceGetPCIBusId=lambda place, size, ordinal: 0)
    return SimpleNamespace(name="cuda", driver=SimpleNamespace(lib=library), device=SimpleNamespace(ordinal=0))


@pytest.mark.usefixtures("naps")
def test_missing_nvml_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a benchmark of several contenders, which measures their times all the same."""
    backend = _without_nvml(monkeypatch)
    assert energy.unreadable(backend).startswith("cannot be read here: no NVML (libnvidia-ml.so.1)")
    monkeypatch.setattr(applications, "choose_backend", lambda device: (backend, {}))
    assert cli.main(["bench", "hydro", "--out", str(tmp_path), "--energy"]) == 0
    assert capsys.readouterr().out.count("no NVML") == 1
    assert len((tmp_path / "hydro.jsonl").read_text().splitlines()) == 4


class _Texts:
    """NVML's function that puts an error into words."""

    restype: Any = None

    def __call__(self, status: int) -> bytes:
        return b"Not Supported"


def test_what_nvml_refuses_is_said_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = _without_nvml(monkeypatch)

    class Library:
        def __init__(self, name: str) -> None:
            self.nvmlErrorString = _Texts()

        nvmlInit_v2 = staticmethod(lambda: 0)
        nvmlDeviceGetHandleByPciBusId_v2 = staticmethod(lambda place, handle: 0)
        nvmlDeviceGetTotalEnergyConsumption = staticmethod(lambda handle, count: 3)

    monkeypatch.setattr(nvml, "ctypes", SimpleNamespace(CDLL=Library))
    assert energy.unreadable(backend) == "cannot be read here: NVML: the total energy counter: Not Supported"


# --- windows


def test_windows_begin_and_end_at_steps_of_the_counter() -> None:
    device = Simulated()
    window = _meter(device).window(device.chunks(1e-3), 5.0)
    assert 5.0 <= window.seconds <= 5.2
    assert window.calls == pytest.approx(window.seconds / 1e-3)
    assert window.watts()[energy.GPU] == pytest.approx(500.0, rel=1e-6)
    assert window.state == {"mhz": 1980, "celsius": 40}
    curve = window.power[energy.GPU]
    assert 10 < len(curve) <= 60 and all(watts == pytest.approx(500.0, rel=1e-3) for _, watts in curve)


def test_joules_are_net_of_idle() -> None:
    device = Simulated(idle=120.0, busy=300.0)
    take = _meter(device)
    idle = take.idle(1.0)
    assert idle.watts() == {energy.GPU: pytest.approx(120.0)} and idle.calls == 0
    used = take.usage(lambda: device.chunks(2e-3), Effort(1.0, 3, 0.5), idle)
    assert used.per_call() == pytest.approx([0.6] * 3, rel=1e-6), "300 W for 2 ms"
    stored = used.to_dict()
    assert [bool(trial["power"]) for trial in stored["trials"]] == [True, False, False]
    assert stored["idle"][energy.GPU] == pytest.approx(120.0)


def test_steps_cost_short_windows_little() -> None:
    """Half a second, steps of 100 ms and chunks of 10 ms: 4 % at most, whichever way the steps fall."""
    for offset in (0.0, 0.013, 0.027, 0.061, 0.093):
        device = Simulated(step=0.1)
        device.sleep(offset)
        window = _meter(device).window(device.chunks(1e-3), 0.5)
        assert window.joules[energy.GPU] / window.calls == pytest.approx(0.5, rel=0.04)


def test_a_counter_that_stands_still_is_given_up() -> None:
    device = Simulated(step=1e9)
    with pytest.raises(EnergyUnreadable, match="stood still"):
        _meter(device).window(device.chunks(1e-2), 1.0)


def test_calls_of_a_host_are_counted() -> None:
    done = []
    running = meter.chunks(lambda: done.append(time.sleep(1e-3)), SimpleNamespace(name="cpu"))
    counted = sum(next(running) for _ in range(3))
    assert counted == len(done) - 4, "four calls tell how many make a chunk"


def test_a_gpu_is_never_idle_while_its_counter_is_read() -> None:
    """Chunks are queued ahead: at every reading two are left to run, and at the end all are waited for."""
    told: list[str] = []
    driver = SimpleNamespace(
        event=lambda: len(told), record=lambda event: told.append("record"), wait=lambda event: told.append("wait"),
        synchronize=lambda: told.append("synchronize"),
    )  # fmt: skip
    backend = SimpleNamespace(name="cuda", driver=driver, synchronize=lambda: None)
    running = meter.chunks(lambda: time.sleep(1e-3), backend)
    for _ in range(4):
        assert next(running) > 0 and told.count("record") == told.count("wait") + 2
    running.close()
    assert told[-1] == "synchronize"


# --- rows


def _used(joules: float, seconds: float = 5.0, calls: int = 1000, idle: float = 100.0, **more: Any) -> dict[str, Any]:
    trials = [{"seconds": seconds, "calls": calls, "joules": {"gpu": joules * factor}, "state": {}, "power": {}}
              for factor in (0.99, 1.0, 1.02)]  # fmt: skip
    return {
        "trials": trials,
        "idle": {"gpu": idle},
        "about": "simulated",
        "window": 5.0,
        "calls": 1,
        "scale": 1.0,
        **more,
    }


def _row(contender: str, used: dict[str, Any] | None, **more: Any) -> rows.Row:
    facts = {**CASE.to_dict(), "case": CASE.key, "date": ""}
    return rows.row(facts, contender, [1e-3] * 7, **({"energy": used} if used else {}), **more)


def _completed(*made: rows.Row) -> list[rows.Row]:
    return rows.compare(rows.complete(row, bench_samples.H200) for row in made)


def test_rows_have_joules_and_greenup() -> None:
    ours, peer, old = _completed(
        _row(rows.OURS, _used(2500.0)), _row("cuBLAS", _used(4000.0, calls=500)), _row("PyTorch", None)
    )
    assert ours["joules"] == pytest.approx((2500 - 500) / 1000) and ours["gross_joules"] == pytest.approx(2.5)
    assert ours["joules_spread"] == pytest.approx(0.03 * 2500 / 2 / 2000)
    assert ours["average_watts"] == pytest.approx(500.0) and ours["idle_watts"] == 100.0
    assert ours["gflop_per_joule"] == pytest.approx(greenup.work_of(ours).flops / 2.0 / 1e9)
    assert ours["speedup"] == pytest.approx(2.0) and ours["powerup"] == pytest.approx(1.6)
    assert ours["greenup"] == pytest.approx(ours["speedup"] * ours["powerup"]) == pytest.approx(3.2)
    assert ours["green_peer"] == "cuBLAS" and ours["net_greenup"] == pytest.approx(3.5)
    assert "joules" not in old and "greenup" not in peer
    shown = greenup.table({"rows": [ours, peer, old]}, set())
    assert len(shown.cells) == 2 and shown.cells[0][-2:] == ("3.20", "3 x 5 s") and shown.cells[1][-2] == ""


def test_the_copy_of_a_call_in_place_is_subtracted_and_parts_are_scaled() -> None:
    copies = [{"seconds": 5.0, "calls": 5000, "joules": {"gpu": 2500.0}}]
    (row,) = _completed(_row("cuBLAS", _used(2500.0, restore=copies, scale=4.0)))
    assert row["gross_joules"] == pytest.approx(4 * (2.5 - 0.5)) and row["joules"] == pytest.approx(4 * (2.0 - 0.4))
    assert row["call_seconds"] == pytest.approx(4 * (5e-3 - 1e-3)) and row["average_watts"] == pytest.approx(500.0)


def test_damaged_energy_of_a_journal_costs_its_row_alone(tmp_path: Path) -> None:
    good, bad = _row(rows.OURS, _used(2500.0)), _row("cuBLAS", {"trials": [{"seconds": 0}]})
    with pytest.raises(Damaged, match="energy="):
        lines.row(good | {"energy": [1]})
    made = store.Journal(tmp_path, bench_samples.ENVIRONMENT, {"sets": ["lu"], "family": "factor"})
    made.write("ceilings", machine=bench_samples.asdict(bench_samples.H200))
    made.rows([good, bad])
    with pytest.warns(Warning, match="a row of"):
        document = store.collect(tmp_path)
    assert [row["contender"] for row in document["rows"]] == [rows.OURS]


def test_a_gpu_is_compared_with_a_cpu_per_matrix_and_with_all_its_parts() -> None:
    (gpu,) = _completed(_row(rows.OURS, _used(2500.0)))
    host = _used(5000.0, calls=10, idle=20.0)
    for trial in (*host["trials"], host):
        trial["joules" if "joules" in trial else "idle"] = {"package-0": 900.0, "dram-0": 100.0}
    (cpu_row,) = _completed(_row(rows.OURS, host) | {"K": 100})
    alone = greenup.over({"rows": [gpu]}, {"rows": [cpu_row]})
    assert alone.cells == [("lu", "float64", "32 x 32", "0.4", "1e+03", "400", "GPU alone")]
    both = gpu | {"energy": _used(2500.0)}
    for trial in both["energy"]["trials"]:
        trial["joules"] = {"gpu": 2000.0, "package-0": 500.0}
    both["energy"]["idle"] = {"gpu": 100.0, "package-0": 10.0}
    assert greenup.over({"rows": [both]}, {"rows": [cpu_row]}).cells[0][-2:] == ("400", "GPU and CPU")


def test_pictures_and_tables_come_from_rows_with_windows() -> None:
    pytest.importorskip("matplotlib")
    curve = {"gpu": [(0.1 * i, 480.0 + i) for i in range(1, 50)], "package-0": [(0.1 * i, 90.0) for i in range(1, 50)]}
    used = _used(2500.0)
    used["trials"][0]["power"], used["idle"]["package-0"] = curve, 40.0
    made = _completed(_row(rows.OURS, used), _row("cuBLAS", _used(4000.0, calls=500)))
    document = {"environment": bench_samples.ENVIRONMENT, "rows": []}
    powered = document | {"rows": [row | {"set": "power"} for row in made]}
    powered["rows"][1]["energy"]["trials"][0]["power"] = {"gpu": curve["gpu"]}
    for draw in (dong.qr, dong.parts, dong.components):
        assert draw(powered) is not None and draw(document) is None
    drawn = dong.qr(powered).axes[0].lines
    assert max(drawn[0].get_xdata()) < 2.6 < max(drawn[3].get_xdata()), "half as long for the same work"
    assert dong.greenup(powered, set()).cells[0][-4:] == ("1.60", "2.00", "3.20", "3.50")
    cpu_run, gpu_run = Metered(seconds=10.0, parts={"package-0": 1000.0}), Metered(seconds=5.0, parts={"gpu": 800.0})
    assert dong.of_blocks({"Q2-Q1": (cpu_run, gpu_run)}).cells == [("Q2-Q1", "0.62", "2.00", "1.25")]


def test_the_set_for_energy_has_factorizations() -> None:
    assert [case.M for case in energy_sets.greenup(bench_samples.SIZE)] == [32] * 3 + [16] * 3 + [64] * 3


def test_a_report_compares_with_another_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, used in (("gpu", _used(2500.0)), ("cpu", None)):
        made = store.Journal(tmp_path / name, bench_samples.ENVIRONMENT, {"sets": ["lu"], "family": "factor"})
        made.write("ceilings", machine=bench_samples.asdict(bench_samples.H200))
        made.rows([_row(rows.OURS, used, config={}, origin="rule")])
    for other, text in (("gpu", "| lu | float64 | 32 x 32 | 1 | 1 | 1 | GPU alone |"), ("cpu", "no case has joules")):
        assert (
            cli.main(["report", str(tmp_path / "gpu"), "--to", str(tmp_path / "to"), "--over", str(tmp_path / other)])
            == 0
        )
        assert text in capsys.readouterr().out


# --- contests


def _simulate(monkeypatch: pytest.MonkeyPatch, **options: float) -> None:
    """A counter for the CPU by the system's clock: 50 W, always."""

    class Wall(Simulated):
        def joules(self) -> dict[str, float]:
            self.now = time.perf_counter()
            return super().joules()

    monkeypatch.setattr(energy, "counter", lambda backend: Wall(idle=50.0, busy=0.0, step=0.01, **options))


def test_peers_are_chosen_and_a_deadline_leaves_some_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _simulate(monkeypatch)
    backend = SimpleNamespace(name="cpu")
    joules = Joules(backend, Effort(0.05, 1, 0.0, 0.05), best_peer=True)
    medians = {rows.OURS: 3.0, "slow": 2.0, "fast": 1.0}
    assert joules.chosen(medians, rows.OURS) == {rows.OURS, "fast"}
    joules.best_peer = False
    assert joules.chosen(medians, rows.OURS) == set(medians)
    monkeypatch.setattr(bench_energy, "_SETTLE", 0.0)
    said: list[str] = []
    joules.say, late = said.append, iter([False, True])
    both = [Contender(name, lambda: time.sleep(1e-3), restore=lambda: None) for name in ("one", "two")]
    found = joules.usage(both, lambda: next(late))
    assert set(found) == {"one"} and len(found["one"]["restore"]) == 1
    assert said == ["energy, idle", "one: energy, trial 1 of 1", "one, restoring: energy, trial 1 of 1"]


def test_a_case_whose_joules_are_cut_short_is_left_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    contest = object.__new__(Contest)
    for measured, is_cut in (({"one": {}}, True), ({"one": {}, "two": {}}, False)):
        contest.joules = SimpleNamespace(  # type: ignore[assignment]
            why="", chosen=lambda medians, ours: set(medians), usage=lambda contenders, is_over, found=measured: found
        )
        monkeypatch.setattr(contest, "_repeated", lambda case, entry, pairs: entry, raising=False)
        entries: Any = [SimpleNamespace(name=name, scale=1.0) for name in ("one", "two")]
        assert contest._energy(CASE, entries, 1, {"one": [1.0], "two": [2.0]}) == measured
        assert contest._cut == is_cut


def test_bench_stores_energy_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _simulate(monkeypatch)
    options = ["--energy", "--energy-window", "0.2", "--energy-trials", "2"]
    assert cli.main([*COMMAND, "--out", str(tmp_path), *options]) == 0
    (row,) = store.load(tmp_path)["rows"]
    assert len(row["energy"]["trials"]) == 2 and row["energy"]["about"] == "simulated"
    assert row["average_watts"] == pytest.approx(50.0, rel=0.2) and row["energy_window"] == 0.2
    assert "Energy" in capsys.readouterr().out and "## Energy" in (tmp_path / "summary.md").read_text()


def test_bench_says_once_that_energy_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, "--out", str(tmp_path), "--energy"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("cannot be read here") == 1
    document = store.load(tmp_path)
    assert "energy" not in document["rows"][0] and "cannot be read here" in document["missing"]["energy"]
    assert cli.main([*COMMAND, "--out", str(tmp_path), "--energy", "--energy-window", "0.01"]) != 0


class Application:
    """An application of two engines, whose steps are naps."""

    SETS: ClassVar = {"quick": "one case"}
    NAPS: ClassVar = {"mansard": 1e-3, "mansard, otherwise": 2e-3, "library": 4e-3, "slow": 5e-3}

    def cases(self, name: str, device: str) -> list[Any]:
        return [SimpleNamespace(name="nap")]

    def contenders(self, device: str, peers: bool) -> list[tuple[str, str]]:
        libraries = ("numpy", "torch")
        return [("numpy", "mansard"), ("numpy", "mansard, otherwise"), *((one, "library") for one in libraries)]

    def measure(self, case: Any, contender: tuple[str, str], steps: int, seconds: float) -> dict[str, Any]:
        nap = self.NAPS["slow" if contender[0] == "torch" else contender[1]]
        return {"case": case.name, "library": contender[0], "median": nap, "products": []}

    def work(self, case: Any, contender: tuple[str, str]) -> Any:
        nap = self.measure(case, contender, 1, 1.0)["median"]
        return lambda: time.sleep(nap)

    def table(self, rows: list[dict[str, Any]]) -> Table:
        return Table("Naps", ("case",), [(row["case"],) for row in rows])


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "load", lambda name: Application())
    monkeypatch.setattr(applications, "choose_backend", lambda device: (SimpleNamespace(name="cpu"), {}))
    monkeypatch.setattr(applications.environment, "describe", lambda backend, commit: {})
    monkeypatch.setattr(applications.ceilings, "measure", lambda backend: bench_samples.H200)
    monkeypatch.setattr(bench_energy, "_SETTLE", 0.0)


@pytest.mark.usefixtures("naps")
@pytest.mark.parametrize("best", [False, True])
def test_applications_have_joules(
    best: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _simulate(monkeypatch)
    options = ["--energy", "--energy-window", "0.2", "--energy-trials", "2", *(["--energy-best"] if best else [])]
    assert cli.main(["bench", "hydro", "--out", str(tmp_path), *options]) == 0
    text = capsys.readouterr().out
    assert "Energy of a step or a solve" in text and "2 x 0.2 s" in text
    ours, other, peer, slow = (json.loads(line) for line in (tmp_path / "hydro.jsonl").read_text().splitlines())
    assert len(ours["energy"]["trials"]) == 2 and ours["average_watts"] == pytest.approx(50.0, rel=0.2)
    assert ours["gross_joules"] == pytest.approx(50.0 * ours["call_seconds"], rel=0.2)
    assert ours["green_peer"] == peer["contender"] == "numpy, library" and ours["greenup"] > 2
    assert "joules" in other and "greenup" not in other and "greenup" not in peer
    assert ("joules" in slow) == (not best)


@pytest.mark.usefixtures("naps")
def test_applications_say_once_that_energy_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(energy, "unreadable", lambda backend: "cannot be read here: no counter")
    assert cli.main(["bench", "hydro", "--out", str(tmp_path), "--energy"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("energy cannot be read here: no counter") == 1 and "Energy of" not in shown
    rows_written = [json.loads(line) for line in (tmp_path / "hydro.jsonl").read_text().splitlines()]
    assert len(rows_written) == 4 and not any("joules" in row for row in rows_written)


@pytest.mark.parametrize("name", ["scale", "model", "random"])
def test_benchmarks_without_joules_refuse_the_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", name, "--energy"]) != 0
    assert f"bench {name} --energy: " in capsys.readouterr().err


def test_a_run_with_energy_does_not_continue_one_without(tmp_path: Path) -> None:
    options = {"sets": ["lu"], "dtypes": ["float64"]}
    assert not store.Journal(tmp_path, bench_samples.ENVIRONMENT, options).resumed
    assert store.Journal(tmp_path, bench_samples.ENVIRONMENT, options | {"energy": None}).resumed, "of former versions"
    assert not store.Journal(tmp_path, bench_samples.ENVIRONMENT, options | {"energy": {"window": 5.0}}).resumed


# --- blocks of code


def test_a_block_of_code_is_metered(monkeypatch: pytest.MonkeyPatch) -> None:
    _simulate(monkeypatch)
    with metered("cpu", idle=0.05) as used:
        time.sleep(0.1)
    assert not used.why and 0.1 <= used.seconds < 1.0
    assert used.watts == pytest.approx(50.0, rel=0.1) and used.idle_watts == pytest.approx(50.0, rel=0.2)
    assert used.joules == pytest.approx(50.0 * used.seconds, rel=0.5) and used.power[energy.GPU]
    assert abs(used.net_joules) < used.joules


def test_a_block_of_code_runs_where_nothing_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "unreadable", lambda backend: "cannot be read here: no counter")
    with metered("cpu") as used:
        done = True
    assert done and used.why == "cannot be read here: no counter" and used.joules == 0.0
    with pytest.raises(ValueError, match="device='tpu'"), metered("tpu"):
        pass


# --- real counters


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_real_counter_advances(device: str) -> None:
    if device == "cuda" and (reason := cuda.unavailable()):
        pytest.skip(reason)
    backend: Any = cuda.backend() if device == "cuda" else cpu.backend()
    if reason := energy.unreadable(backend):
        pytest.skip(f"energy of {backend.device.name} {reason}")
    window = Meter(energy.counter(backend)).idle(1.0)
    assert 0.1 < meter.own(window.watts()) < 5000.0
    assert device != "cuda" or 0 < window.state["celsius"] < 120
