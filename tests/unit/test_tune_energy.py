"""Tuning for energy with a backend whose kernels are NumPy and a counter that they advance: what is chosen and where it
is remembered. The counter is simulated: no joule here was measured."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune_cases import (
    SMALL,
    FakeBackend,
    with_own_cache,  # noqa: F401
)

import mansard as ms
from mansard import settings
from mansard.bench import energy_pictures
from mansard.errors import EnergyUnreadable, MansardError, UnsupportedProblem
from mansard.kernels.tall_skinny import gram
from mansard.machine import energy
from mansard.records import database
from mansard.records.trials import ENERGY, Store, Trial, goal_name, store_path
from mansard.tune import command, table
from mansard.tune import energy as tune_energy_module
from mansard.tune.cases import CASES
from mansard.tune.energy import tune_energy
from mansard.tune.forget import forget
from mansard.tune.search import search_space

IDLE = 10.0  # watts


class Counted:
    """A device whose second configuration is far slower and uses a third of the joules; calls advance its counter."""

    about = "simulated"

    def __init__(self) -> None:
        self.used = 0.0
        self.backend = FakeBackend(SMALL, self._behave, self._seconds)
        space = search_space(SMALL, self.backend.device, gram.FAMILY)
        self.texts: dict[str, int] = {}  # in the order in which kernels appear
        assert len(space.candidates) > 2

    def _behave(self, text: str) -> str:
        number = self.texts.setdefault(text, len(self.texts))
        self.used += (3.0, 1.0)[number] if number < 2 else 5.0
        return "right"

    def _seconds(self, text: str) -> float:
        return (1e-3, 5e-3)[self.texts[text]] if self.texts[text] < 2 else 2e-2

    def vendor(self) -> None:
        self.used += 9.0
        time.sleep(1.2e-3)

    def joules(self) -> dict[str, float]:
        return {energy.GPU: IDLE * time.perf_counter() + self.used}

    def state(self) -> dict[str, Any]:
        return {}


@pytest.fixture(name="device")
def _device(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(energy, "counter", lambda backend: made)
    monkeypatch.setattr(CASES["gram"], "vendor", lambda case: made.vendor)
    for name, value in (("WINDOW", 0.05), ("_IDLE", 0.02), ("_REST", 0.0), ("_CANDIDATES", 2), ("_CLOSE", 50.0)):
        monkeypatch.setattr(tune_energy_module, name, value)
    return made


def _chosen(goal: str, device: Counted, monkeypatch: pytest.MonkeyPatch) -> database.Record:
    monkeypatch.setenv("MANSARD_GOAL", goal)
    settings.reread()
    found = database.best(SMALL, device.backend.device, gram.FAMILY)
    assert found is not None
    return found


def test_both_goals_have_winners_of_their_own(device: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tune_energy(SMALL, device.backend, limit=2)
    assert result.goal == ENERGY and result.winner is not None and len(result.winner.joules) == 3
    assert result.winner.cost == pytest.approx(1.0, rel=0.2), "net of idle"
    assert " J in " in result.line()
    fast, frugal = _chosen("time", device, monkeypatch), _chosen("energy", device, monkeypatch)
    assert frugal.config == result.best != fast.config
    assert "tuned for energy" in frugal.reason and " J in " in frugal.reason and "energy" not in fast.reason


def test_a_second_tune_measures_nothing_again_and_records_are_forgotten(device: Counted) -> None:
    first = tune_energy(SMALL, device.backend, limit=2)
    store = Store(store_path(device.backend.device, goal_name("gram", ENERGY)))
    lines = len(list(store))
    again = tune_energy(SMALL, device.backend, limit=2)
    assert len(list(store)) == lines and again.best == first.best
    assert forget(("gram",)) > lines and not store.path.exists()


def test_a_table_of_winners_by_energy_is_a_file_of_its_own(device: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tune_energy(SMALL, device.backend, limit=2)
    path, count = table.export(device.backend.device, gram.FAMILY, goal=ENERGY)
    assert path.name == "gram.energy.jsonl" and count == 1
    assert next(iter(Store(path))).joules == (pytest.approx(result.winner and result.winner.cost, rel=1e-4),)
    forget()
    assert _chosen("energy", device, monkeypatch).config == result.best, "from the shipped table"


def test_the_trade_off_is_drawn_from_trials(device: Counted, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tune_energy(SMALL, device.backend, limit=2)
    assert energy_pictures.tradeoff(tmp_path) is None
    shutil.copy(store_path(device.backend.device, goal_name("gram", ENERGY)), tmp_path / energy_pictures.TRIALS)
    path = energy_pictures.tradeoff(tmp_path)
    assert path is not None and path.exists()


def test_time_that_is_over_leaves_a_result(device: Counted) -> None:
    result = tune_energy(SMALL, device.backend, limit=2, deadline=time.monotonic() + 1e-3)
    assert not result.complete


def test_lines_without_energies_are_refused() -> None:
    with pytest.raises(ValueError, match="joules="):
        Trial.from_line('{"problem": {}, "config": {}, "status": "ok", "seconds": [1.0], "joules": [-1.0]}')


def test_what_cannot_be_done_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    A = np.ones((64, 2))
    with pytest.raises(ValueError, match="goal='heat' is not one of time, energy"):
        ms.tune("gram", A, goal="heat")
    with pytest.raises(UnsupportedProblem, match="tuned for time alone"):
        ms.tune("matvec", np.eye(3), goal="energy")
    if reason := energy.unreadable(command.make_backend("cpu")):
        with pytest.raises(EnergyUnreadable, match="cannot be read here"):
            tune_energy(SMALL, command.make_backend("cpu"))
        with pytest.raises(MansardError, match="--goal energy"):
            command.run(_arguments("gram", "--m", "2", "--goal", "energy", "--device", "cpu"))
        assert "cannot be read here" in reason
    monkeypatch.setenv("MANSARD_GOAL", "heat")
    with pytest.raises(ValueError, match="MANSARD_GOAL='heat'"):
        settings.reread()


def _arguments(*words: str) -> Any:
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)
