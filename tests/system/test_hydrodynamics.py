"""The hydrodynamics example: published values, conservation, symmetry, checkpoints, and what it says when it stops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from examples.hydrodynamics import __main__ as program
from examples.hydrodynamics import tables, verify
from examples.hydrodynamics.arrays import Arrays
from examples.hydrodynamics.points import evaluate
from examples.hydrodynamics.problems import PROBLEMS
from examples.hydrodynamics.start import energies, prepare
from examples.hydrodynamics.steps import Progress, Stepper


def finished(stepper: Stepper, progress: Progress, final_time: float, steps: int | None = None) -> Progress:
    for _ in stepper.run(progress, final_time, steps):
        pass
    return progress


@pytest.mark.parametrize("problem", verify.CHECKS)
@pytest.mark.parametrize("dim", [2, 3])
def test_published_checks(problem: str, dim: int) -> None:
    found = verify.check(problem, dim, Arrays("numpy", "mansard"))
    assert len(found) == 2
    for step, ours, published in found:
        assert abs(ours / published - 1) < 1e-13, (step, ours, published)


def test_tables() -> None:
    for dim, order in ((1, 1), (2, 3), (3, 2)):
        made = tables.build(dim, order)
        assert np.allclose(made.kinematic.sum(1), 1) and np.allclose(made.thermal.sum(1), 1)
        assert np.allclose(made.gradients.sum(1), 0) and np.isclose(made.weights.sum(), 1)


def test_forces_balance_and_do_the_work_that_heats() -> None:
    flow = prepare(PROBLEMS["sedov"], 2, 1, 3)
    stepper = Stepper(flow)
    state = finished(stepper, Progress(flow.state), 1.0, 4).state
    points = evaluate(flow, state)
    of_zones = flow.tables.gradients.T @ points.stress
    assert np.abs(of_zones.sum(1)).max() < 1e-13 * np.abs(of_zones).max()  # of a zone: no net force
    work = (of_zones * state.v[flow.zones]).sum()
    assert np.isclose(work, (points.stress * points.slopes).sum(), rtol=1e-12)


def test_total_energy_stays() -> None:
    flow = prepare(PROBLEMS["triple-point"], 2, 1, 2)
    progress = finished(Stepper(flow, "rk2avg", tolerance=1e-14), Progress(flow.state), 0.3)
    before, after = (sum(energies(flow, one)) for one in (flow.state, progress.state))
    assert abs(after - before) < 1e-13 * before and np.isclose(before, 10.05)


def test_a_symmetric_blast_stays_symmetric() -> None:
    flow = prepare(PROBLEMS["sedov"], 2, 2, 2)
    v = finished(Stepper(flow), Progress(flow.state), 0.1).state.v
    side = round(len(v) ** 0.5)
    grid = v.reshape(side, side, 2)  # rows are y
    assert np.abs(grid[..., 0] - grid[..., 1].T).max() < 1e-12


@pytest.mark.parametrize("library", ["torch"])
def test_other_libraries_give_the_same(library: str) -> None:
    pytest.importorskip(library)
    for step, ours, published in verify.check("sedov", 2, Arrays(library, "mansard")):
        assert abs(ours / published - 1) < 1e-13, step


def test_a_restart_gives_the_same_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--problem", "sedov", "--refine", "1", "--final-time", "0.2", "--json", "--every", "7"]
    assert program.main(common) == 0
    whole = json.loads(capsys.readouterr().out.splitlines()[-1])
    held = ["--checkpoint", str(tmp_path / "held.npz")]
    assert program.main([*common, *held, "--steps", "9"]) == 0 and program.main([*common, *held]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(whole[name] == again[name] for name in ("steps", "dt", "energy_norm", "internal_energy"))


def test_what_cannot_be_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(b"PK\x03\x04 and no more")
    assert program.main(["--checkpoint", str(damaged)]) == 1
    assert "no whole checkpoint" in capsys.readouterr().err
    assert program.main(["--problem", "gresho", "--dim", "3"]) == 1
    assert "gresho is a problem in 2 dimensions" in capsys.readouterr().err
    assert program.main(["--problem", "sedov", "--refine", "0", "--cg-iterations", "2"]) == 1
    assert "after 2 iterations" in capsys.readouterr().err


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "flow.png"
    assert program.main(["--problem", "sedov", "--refine", "1", "--steps", "3", "--plot", str(picture)]) == 0
    assert picture.stat().st_size > 5000
