"""All joules by one command: what runs in which order, what an interruption leaves, and what is not run again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mansard import settings
from mansard.bench import energy_sets, store
from mansard.tune import energy as tuner
from papers import joules
from papers.dong import application_power


def given(out: Path, *more: str) -> argparse.Namespace:
    return joules.parser().parse_args(["--out", str(out), "--commit", "0123abc", *more])


class Machine:
    """Runs nothing: writes what the commands would have written, and fails or stops where it is told to."""

    def __init__(self, out: Path, fails: str = "", unfinished: str = "") -> None:
        self.out, self.fails, self.unfinished, self.ran = out, fails, unfinished, list[str]()

    def __call__(self, command: list[str], seconds: float) -> int:
        text = " ".join(command)
        self.ran.append(text)
        if self.fails and self.fails in text:
            return 1
        if "bench" in command:
            sets = [command[command.index("--set") + 1]]
            used = {"window": 5.0, "trials": 3}
            journal = store.Journal(self.out / "factor", {"device": "d"}, {"sets": sets, "energy": used})
            if not (self.unfinished and self.unfinished in text):
                journal.write("finished")
        return 0


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    held = replace(settings.current(), cache_dir=cache)
    monkeypatch.setattr(settings, "current", lambda: held)
    return cache


def test_everything_runs_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert joules.measure(given(tmp_path), machine) == 0
    kinds = ["--engines mansard", "--set greenup", *joules.TUNED, "--engines library", "--set power"]
    assert len(machine.ran) == len(kinds) and all(kind in text for kind, text in zip(kinds, machine.ran, strict=True))
    windows = [text for text in machine.ran if "bench" in text]
    assert all("--energy-window 5 --energy-trials 3" in text and "--commit 0123abc" in text for text in windows)
    assert not any("--seconds" in text for text in machine.ran if "tune" in text)  # there is no limit
    assert joules.measure(given(tmp_path), machine) == 0 and len(machine.ran) == len(kinds)  # finished before
    ledger = [json.loads(line) for line in (tmp_path / joules.LEDGER).read_text().splitlines()]
    windows_of = {row["part"]: (row["window"], row["trials"]) for row in ledger}
    assert {windows_of[f"tune {problem}"] for problem in joules.TUNED} == {(tuner.WINDOW, tuner.TRIALS)}
    assert windows_of["factorizations"] == windows_of["application, mansard"] == (5.0, 3)


def test_the_ledger_says_which_windows_the_tuner_had() -> None:
    """Committed trials have as many windows as the ledger says; the part that was cut short is not in it."""
    folder = joules.ROOT / "results" / "h200-energy"
    ledger = {row["part"]: row for row in map(json.loads, (folder / joules.LEDGER).read_text().splitlines())}
    most: dict[str, int] = {}
    for trial in map(json.loads, (folder / "trials.jsonl").read_text().splitlines()):
        name = trial["problem"]["operation"]
        most[name] = max(most.get(name, 0), len(trial["joules"]))
    for problem in joules.TUNED:
        part, name = f"tune {problem}", problem.split()[0].removesuffix("_factor")
        assert (part in ledger) == (most[name] == tuner.TRIALS)
        assert part not in ledger or (ledger[part]["window"], ledger[part]["trials"]) == (tuner.WINDOW, most[name])


def test_the_same_command_continues(tmp_path: Path) -> None:
    """A part that fails and cases that are left are run again; a finished run with other windows is no end."""
    options = {"sets": ["greenup"], "energy": {"window": 2.0, "trials": 1}}
    store.Journal(tmp_path / "factor", {"device": "d"}, options).write("finished")
    first = Machine(tmp_path, fails="gram --m 32", unfinished="greenup")
    assert joules.measure(given(tmp_path, "--seconds", "270"), first) == 2
    assert sum("greenup" in text for text in first.ran) == 2  # before the tuner, for its share, and after it
    assert any("--set greenup --seconds 135" in text for text in first.ran)
    second = Machine(tmp_path)
    assert joules.measure(given(tmp_path, "--seconds", "270"), second) == 0
    assert [("gram --m 32" in text, "greenup" in text) for text in second.ran] == [(False, True), (True, False)]


def test_time_that_is_over_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def slow(command: list[str], seconds: float) -> int:
        assert seconds <= 0.2
        time.sleep(seconds)
        return 0

    assert joules.measure(given(tmp_path, "--seconds", "0.2"), slow) > 4
    assert "no time left, the same command continues" in capsys.readouterr().out


def test_trials_of_earlier_machines_are_kept(tmp_path: Path, own_cache: Path) -> None:
    out, folder = tmp_path / "out", own_cache / "tuning" / "cuda-0"
    out.mkdir()
    folder.mkdir(parents=True)
    (out / "trials.jsonl").write_text('{"a": 1}\n')
    (folder / "gram.energy.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    (folder / "gram.jsonl").write_text('{"time": 1}\n')
    joules.measure(given(out), Machine(out))
    assert (out / "trials.jsonl").read_text() == '{"a": 1}\n{"b": 2}\n'


def test_a_command_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joules, "_STOPPED", 0.1)
    monkeypatch.setattr(joules, "_KILLED", 0.5)
    begin = time.monotonic()
    ignores = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    assert joules.run([sys.executable, "-c", ignores], 0.3) < 0 and time.monotonic() - begin < 30
    assert joules.run([sys.executable, "-c", "raise SystemExit(3)"], 30.0) == 3


def test_factorizations_begin_with_those_that_say_most() -> None:
    size = SimpleNamespace(backend="cuda", elements=dict.fromkeys(("float64",), 1 << 27))
    cases = energy_sets.greenup(size)  # type: ignore[arg-type]
    assert [case.M for case in cases] == [32] * 3 + [16] * 3 + [64] * 3
    assert [case.operation for case in cases[:3]] == ["lu", "qr", "cholesky"]


def test_windows_of_the_application_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One window of another commit, one of this one: of two windows per part three are left."""
    out = tmp_path / "application.jsonl"
    about = {"case": "sedov Q2-Q1, 2^3 zones", "library": "numpy", "engine": "library", "window": 0.01}
    rows = [{**about, "part": "corner forces", "trial": 0, "commit": commit} for commit in ("new", "old")]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(application_power, "_REST", 0.0)
    command = ["--device", "cpu", "--refine", "0", "--seconds", "0.01", "--trials", "2", "--engines", "library"]
    assert application_power.main([*command, "--commit", "new", "--out", str(out)]) == 0
    found: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    measured = [(row["part"], row["trial"]) for row in found[2:]]
    assert measured == [("corner forces", 1), ("conjugate gradients", 0), ("conjugate gradients", 1)]
    assert all(row["case"] == about["case"] and row["calls"] > 0 for row in found[2:])
    assert application_power.main([*command, "--commit", "new", "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == len(found)


def test_some_parts_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert joules.measure(given(tmp_path, "--only", "application, lib", "power"), machine) == 0
    assert len(machine.ran) == 2 and "--engines library" in machine.ran[0] and "--set power" in machine.ran[1]
