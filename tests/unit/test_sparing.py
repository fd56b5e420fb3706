"""Slices of cases: two months of runs go through all, every run through every kind of kernel. Names of failures."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import sparing
from sparing import CPU_STEP, SHARE, STEP, crossed, every, on_backends, spared

TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Made:
    """A case with what tells kinds of cases apart."""

    VARIANT: str
    dtype: str
    number: int


CASES = [Made("rare" if i == 50 else "common", ("float32", "float64")[i % 2], i) for i in range(99)]


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whose seed may be changed."""
    monkeypatch.setattr(sparing, "takes_all", lambda: False)
    monkeypatch.setattr(SHARE, "seed", 0)


def test_slices_cover_all_cases_and_each_all_kinds(sliced: None) -> None:
    met: set[Made] = set()
    bounded: set[Made] = set()
    for seed in range(2 * STEP):
        SHARE.seed = seed
        chosen = spared(CASES)
        assert len(chosen) <= len(CASES) // STEP + 3
        assert {(case.VARIANT, case.dtype) for case in chosen} == {(case.VARIANT, case.dtype) for case in CASES}
        met |= set(chosen)
        bounded |= set(every(2, chosen))
        assert set(every(2, chosen)) | set(every(2, chosen, 1)) == set(chosen)
    assert met == bounded == set(CASES)


def test_pairs_cover_all_pairs(sliced: None) -> None:
    pairs: set[tuple[int, str]] = set()
    for seed in range(3):
        SHARE.seed = seed
        met = crossed(range(5), "abc")
        assert {one for one, _ in met} == set(range(5)) and {other for _, other in met} == set("abc")
        pairs |= set(met)
    assert len(pairs) == 15


def test_cpus_go_through_a_part_of_the_cases(sliced: None) -> None:
    met = on_backends(CASES)
    assert len([case for backend, case in met if backend == "emulated"]) == len(spared(CASES))
    assert [case for backend, case in met if backend == "cuda"] == CASES
    seen: set[Made] = set()
    for SHARE.seed in range(CPU_STEP):
        found = {case for backend, case in on_backends(CASES) if backend == "cpu"}
        assert len(found) <= len(CASES) // CPU_STEP + 3
        seen |= found
    assert seen == set(CASES)


@pytest.mark.parametrize("target, least, most", [("emulated", 160, 199), ("cpu", 125, 175)])
def test_tests_rest_in_turns(target: str, least: int, most: int, sliced: None) -> None:
    """Eleven twelfths of emulated ones at a time, three quarters of those for CPUs; those of slices never."""
    names = [f"test_{number}" for number in range(200)]
    rested = {}
    for SHARE.seed in range(36):
        rested[SHARE.seed] = {name for name in names if sparing.rests(name, target, [CASES])}
        assert least < len(rested[SHARE.seed]) < most
        assert not any(sparing.rests(name, target, [CASES, spared(CASES)]) for name in names)
        assert not any(sparing.rests(name, "cuda", [CASES]) for name in names)
    assert rested[0] == rested[2] and not set.intersection(*(rested[seed] for seed in range(0, 36, 3)))
    assert rested[0] | rested[3] == set(names)


def test_rotated_tests_run_once_in_so_many_runs(sliced: None) -> None:
    names = [f"test_{number}" for number in range(90)]
    for SHARE.seed in range(4):
        ran: dict[int, set[str]] = {turn: set() for turn in range(3)}
        for turn in ran:
            SHARE.seed += 1
            ran[turn] = {name for name in names if not sparing.is_rotated_out(name, 3)}
        assert set.union(*ran.values()) == set(names) and sum(map(len, ran.values())) == len(names)


def test_daily_runs_miss_no_slice() -> None:
    for hour in (0, 7, 23):
        seeds = {sparing.seed_of(3600 * (24 * day + hour)) % STEP for day in range(STEP + 1)}
        assert seeds == set(range(STEP))
    assert len({sparing.seed_of(3600 * hour) % STEP for hour in range(24)}) == min(24, STEP)


@pytest.mark.slow
@pytest.mark.skipif(sparing.takes_all(), reason="this run goes through all cases")
def test_workers_share_the_seed_and_the_summary_names_it() -> None:
    pytest.importorskip("xdist")
    command = [sys.executable, "-m", "pytest", "-q", "-n1", "-p", "no:cacheprovider", "--slice-seed", "1234567"]
    command += [f"{TESTS}/unit/test_sparing.py::test_a_case_of_the_slice"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=TESTS.parent)
    said = f"of {len(CASES)} chosen (slice {1234567 % STEP} of {STEP}, --slice-seed 1234567)"
    assert run.returncode == 0 and said in run.stdout, run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["one process", "a worker"])
def test_names_of_failures_are_printed_before_the_summary(workers: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_made.py").write_text("def test_wrong():\n    assert 1 == 2, 'one is\\nnot two'\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", *workers]
    command += ["--tb=no", "--no-summary", "."]
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert run.returncode == 1 and run.stdout.count("FAILED") == 1, run.stdout + run.stderr
    assert "\nFAILED test_made.py::test_wrong - AssertionError: one is\n" in run.stdout


@pytest.mark.parametrize("case", spared(CASES), ids=lambda case: str(case.number))
def test_a_case_of_the_slice(case: Made) -> None:
    assert case in spared(CASES)
