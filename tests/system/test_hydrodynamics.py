"""The hydrodynamics example: published values, conservation, symmetry, checkpoints, and what it says when it stops."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from launching import MPIEXEC, environment
from sparing import rotated

from examples.hydrodynamics import __main__ as program
from examples.hydrodynamics import bench, mesh, ranks, scaling, tables, verify
from examples.hydrodynamics.arrays import ENGINES, Arrays
from examples.hydrodynamics.points import evaluate
from examples.hydrodynamics.problems import PROBLEMS
from examples.hydrodynamics.start import Flow, at_points, energies, norm, prepare
from examples.hydrodynamics.steps import Progress, Stepper
from mansard.backends import cuda
from mansard.bench import applications
from mansard.cli import main as cli
from mansard.errors import UsageError
from papers.dong import hydro

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("number", [3, 8, 1, 5])
def test_published_runs(number: int) -> None:
    """Steps, time step and eleven digits of the norm. One thread: for so small meshes, and other tests run beside."""
    single = {"MANSARD_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "examples.hydrodynamics.verify", "--runs", str(number)]
    done = subprocess.run(command, env={**os.environ, **single}, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["apart"] < 1e-11


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
    of_zones = stepper.forces.of_zones(points)
    assert np.abs(of_zones.sum(1)).max() < 1e-13 * np.abs(of_zones).max()  # of a zone: no net force
    work = (of_zones * np.take(state.v, flow.gathers)).sum()
    assert np.isclose(work, (points.stress * points.slopes).sum(), rtol=1e-12)


def test_looks_at_the_residual_may_be_rare() -> None:
    """A component that has converged keeps its bits while iterations go on, as they do between looks on a GPU."""
    flow = prepare(PROBLEMS["sedov"], 2, 1, 2)
    load, found = np.random.default_rng(5).standard_normal(flow.free.shape) * flow.free, []
    load[:, 1] *= 1e-3 * np.arange(len(load))  # components that take different numbers of iterations
    for look in (1, 4):
        solver = Stepper(flow).forces.solver
        solver._look = look
        found.append((solver.solve(load), solver.iterations))
    assert np.array_equal(found[0][0], found[1][0]) and found[0][1] == found[1][1] and found[0][1] % 4


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


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_other_libraries_give_the_same(library: str) -> None:
    pytest.importorskip(library)
    if library == "cupy" and (reason := cuda.unavailable()):
        pytest.skip(reason)
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
    assert program.main(["--problem", "gresho", "--dim", "1"]) == 1
    assert "gresho is a problem in 2 or 3 dimensions" in capsys.readouterr().err
    assert program.main(["--problem", "sedov", "--refine", "0", "--cg-iterations", "2"]) == 1
    text = capsys.readouterr().err
    said = re.search(r"after 2 iterations a residual is ([0-9.e+-]+) of the load's, beyond 1e-08", text)
    assert said and 1e-8 < float(said[1]) < 1


def test_the_residual_that_is_said_is_the_one_that_is_left() -> None:
    """In the norm of the preconditioner, by a residual that is computed anew; of the worst component."""
    flow = prepare(PROBLEMS["sedov"], 2, 1, 2, Arrays("numpy", "library"))
    solver = Stepper(flow, most=3).forces.solver
    load = np.random.default_rng(5).standard_normal(flow.free.shape) * flow.free
    with pytest.raises(RuntimeError, match="after 3 iterations a residual is") as caught:
        solver.solve(load)
    product = np.empty_like(load)
    solver._mass(solver.x, product)
    size = lambda r: (r * solver._scale * r).sum(0)  # noqa: E731
    left = np.sqrt(size(load - product) / size(load)).max()
    said = re.search(r"a residual is ([0-9.e+-]+) of", str(caught.value))
    assert said and float(said[1]) == pytest.approx(left, rel=0.06)  # two digits are said


# dim, order, integrator -> refinements, steps and norm of Sedov's blast at t = 0.1
ORDERS = {
    (3, 1, "rk4"): (1, 5, 6.878707923517764), (3, 1, "rk2avg"): (1, 5, 6.938152033578068),
    (3, 2, "rk4"): (1, 19, 34.87936484704527), (3, 2, "rk2avg"): (1, 19, 34.91081969140169),
    (3, 3, "rk4"): (0, 10, 18.51253592219371), (3, 3, "rk2avg"): (0, 10, 18.59755309872630),
    (3, 4, "rk4"): (0, 19, 39.00436786576073), (3, 4, "rk2avg"): (0, 19, 39.13113454897514),
}  # fmt: skip


@pytest.mark.parametrize(("order", "integrator"), [(1, "rk4"), (2, "rk2avg"), (3, "rk2avg"), (4, "rk2avg")])
def test_all_orders(order: int, integrator: str) -> None:
    refine, steps, size = ORDERS[3, order, integrator]
    flow = prepare(PROBLEMS["sedov"], 3, refine, order, Arrays("numpy", "library"))  # nothing is compiled for it
    progress = finished(Stepper(flow, integrator), Progress(flow.state), 0.1)
    assert progress.step == steps and abs(norm(flow, progress.state) / size - 1) < 1e-8  # conjugate gradients to 1e-8


@rotated(4)
def test_the_highest_order_by_our_own_kernels() -> None:
    refine, steps, size = ORDERS[3, 4, "rk2avg"]
    flow = prepare(PROBLEMS["sedov"], 3, refine, 4, Arrays("numpy", "mansard"))
    progress = finished(Stepper(flow, "rk2avg"), Progress(flow.state), 0.1)
    assert progress.step == steps and abs(norm(flow, progress.state) / size - 1) < 1e-8


@pytest.mark.parametrize("order", [1, 2, 3])
def test_refinement_converges_at_the_order_of_the_method(order: int) -> None:
    """Taylor and Green's vortex is steady: velocity and energy at moved points are the initial fields there."""
    velocity, energy = np.log2(np.array(_errors(1, order)) / _errors(2, order))
    assert velocity > order and energy > order - 0.2, (velocity, energy)


def _errors(refine: int, order: int) -> tuple[float, float]:
    """L2 errors of velocity and energy at t = 0.1."""
    flow = prepare(PROBLEMS["taylor-green"], 2, refine, order, Arrays("numpy", "library"))
    state, tables = finished(Stepper(flow), Progress(flow.state), 0.1).state, flow.tables
    x, v = (np.moveaxis(at_points(flow, field), 0, -1) for field in (state.x, state.v))
    volume = evaluate(flow, state).volume[..., None]
    wrong = v - flow.problem.velocity(x), (state.e @ tables.thermal.T - flow.problem.energy(x))[..., None]
    velocity, energy = (float(np.sqrt((volume * one**2).sum())) for one in wrong)
    return velocity, energy


def test_a_tangled_mesh_halves_the_step_or_stops_with_its_zone() -> None:
    flow, told = prepare(PROBLEMS["taylor-green"], 2, 0, 2), list[str]()
    progress = finished(Stepper(flow, tell=told.append), Progress(flow.state, dt=4.0), 8.0, 1)
    assert progress.step == 1 and "would be turned inside out; the time step is halved to 2" in told[0]
    mirrored = flow.state._replace(x=flow.state.x * [-1, 1])
    with pytest.raises(RuntimeError, match=r"zone [0-9]+ is turned inside out before the first step"):
        finished(Stepper(flow), Progress(mirrored), 8.0, 1)


def test_an_interrupted_run_keeps_its_last_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--problem", "sedov", "--refine", "1", "--final-time", "0.2", "--json", "--every", "7"]
    held = [*common, "--checkpoint", str(tmp_path / "held.npz")]
    assert program.main(common) == 0
    whole = json.loads(capsys.readouterr().out.splitlines()[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "summary", _interrupting(program.summary))
        assert program.main(held) == 130
    assert "(interrupted)" in capsys.readouterr().out
    assert program.main(held) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(whole[name] == again[name] for name in ("steps", "dt", "energy_norm", "internal_energy"))


def _interrupting(summary: Callable[..., str]) -> Callable[..., str]:
    calls = iter([summary])  # the first call is interrupted

    def shown(progress: Progress, flow: Flow) -> str:
        for _ in calls:
            raise KeyboardInterrupt
        return summary(progress, flow)

    return shown


def test_a_damaged_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = tmp_path / "held.npz"
    command = ["--problem", "sedov", "--refine", "1", "--steps", "2", "--checkpoint", str(held)]
    assert program.main(command) == 0
    good = held.read_bytes()
    for at in (len(good) // 4, len(good) // 2):  # one bit
        held.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert program.main(command) == 1 and "no whole checkpoint" in capsys.readouterr().err
    held.write_bytes(good)
    assert program.main([*command, "--cfl", "0.4"]) == 1 and "is of another run" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        program.main(["--every", "0"])


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "flow.png"
    assert program.main(["--problem", "sedov", "--refine", "1", "--steps", "3", "--plot", str(picture)]) == 0
    assert picture.stat().st_size > 5000


def test_the_benchmark_times_phases_and_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [bench.measure(bench.Case("sedov", 2, 2, 0), ("numpy", engine), 2, 5.0) for engine in ENGINES]
    for row in found:
        assert row["median"] > 0 and set(row["phases"]) == set(bench.PHASES) and row["unknowns_steps_per_second"] > 0
        for product in row["products"]:
            product["bound"] = product["seconds"] / 2
    assert "corner forces 50%" in bench.table(found).cells[0][-1]
    lines = "".join(json.dumps(row) + "\n" for row in found)
    (tmp_path / "hydro.jsonl").write_text(lines)
    assert hydro.main([tmp_path]) == 0 and "| 50% |" in (tmp_path / "summary.md").read_text()
    assert cli(["bench", "hydro", "--list"]) == 0 and "zones" in capsys.readouterr().out


def test_windows_of_joules_repeat_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps follow each other, and after so many the flow begins again at time zero."""
    monkeypatch.setattr(bench, "_AGAIN", 3)
    call = bench.work(bench.Case("sedov", 2, 2, 0), ("numpy", "library"))
    times = [call().time for _ in range(7)]
    assert 0 < times[0] < times[1] < times[2] and times[3:] == [*times[:3], times[0]]


def test_the_benchmark_says_what_a_wheel_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(applications.APPLICATIONS, "hydro", "examples.absent")
    with pytest.raises(UsageError, match="not of the wheel: run the command from a clone"):
        applications.load("hydro")


def test_stacked_meshes_have_zones_of_one_size() -> None:
    for name in ("square", "column-3d"):
        one, three = mesh.build(name, 1, 2), mesh.build(name, 1, 2, stacked=3)
        assert len(three.zones) == 3 * len(one.zones) and np.array_equal(three.zones[: len(one.zones)], one.zones)
        corners = three.nodes[three.zones].reshape(3, len(one.zones), -1, one.dim)
        moved = corners - corners[0]
        length = np.ptp(one.nodes[:, -1])
        assert np.array_equal(moved[..., :-1], 0 * moved[..., :-1])
        assert np.allclose(moved[..., -1], length * np.arange(3)[:, None, None], atol=1e-14)
        assert (three.free[:, -1] == 0).sum() == (one.free[:, -1] == 0).sum()  # walls are at the two ends alone


@pytest.mark.parametrize("on_gpu", [False, True])
def test_parts_of_ranks_are_those_of_the_whole(on_gpu: bool) -> None:
    """Points and sums at nodes, exactly; on GPUs rows of a zone's nodes are longer than the nodes."""
    arrays = Arrays("numpy", "library")
    arrays.on_gpu = on_gpu
    whole = prepare(PROBLEMS["triple-point"], 2, 1, 2, arrays)
    assert whole.gathers.shape[1] == (12 if on_gpu else 9)
    fields = np.random.default_rng(2).integers(-4, 5, whole.gathers.shape).astype(float)
    of_zones, total = fields.reshape(2, -1, fields.shape[1]), np.zeros(whole.mesh.nodes.shape)
    points = evaluate(whole, whole.state)
    for rank in range(3):
        part, first = ranks.divided(whole, SimpleNamespace(rank=rank, size=3))
        zones = slice(first, first + len(part.mesh.zones))
        assert np.array_equal(evaluate(part, part.state).volume, points.volume[zones])
        added = part.to_nodes @ of_zones[:, zones].reshape(-1)
        total[part.arrays.shared.nodes] += added.reshape(-1, 2)
    assert np.array_equal(total.reshape(-1), whole.to_nodes @ fields.reshape(-1))


@rotated(3)
@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not here: pip install 'mansard[mpi]'")
def test_ranks_take_arrays_of_other_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mpi4py")
    common = ["--refine", "1", "--steps", "3", "--engine", "library", "--json"]
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "examples.hydrodynamics.ranks", "--backend", "torch"]
    done = subprocess.run([*command, *common], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert program.main(common) == 0
    found, wanted = json.loads(done.stdout), json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["ranks"] == 2 and found["cg_iterations"] == wanted["cg_iterations"]
    for name in ("time", "dt", "energy_norm", "internal_energy", "kinetic_energy"):
        assert abs(found[name] / wanted[name] - 1) < 1e-13, name


def test_ranks_refuse_what_they_would_ignore(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--checkpoint", "--plot"):
        with pytest.raises(SystemExit):
            ranks.main([option, "file"])
        assert f"{option}: runs over ranks write none" in capsys.readouterr().err


@rotated(3)
@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not here: pip install 'mansard[mpi]'")
def test_weak_and_strong_scaling_are_measured_by_one_command(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    command = [sys.executable, "-m", "examples.hydrodynamics.scaling", "--ranks", "1,2,4", "--out", str(tmp_path)]
    command += ["--dim", "2", "--refine", "1", "--order", "1", "--steps", "2", "--samples", "1", "--engine", "library"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / scaling.ROWS).read_text().splitlines()]
    found = {(row["scaling"], row["ranks"]): row for row in rows}
    assert list(found) == [(name, count) for count in (1, 2, 4) for name in ("weak", "strong")]
    for (name, count), row in found.items():
        assert row["zones"] == 16 * (count if name == "weak" else 1) and (row["messages"] > 0) == (count > 1)
        assert row["seconds"][0] > row["waiting"][0] >= 0 and ("alone" in row) == (name == "weak")
    assert len({row["cg_iterations"] for row in rows if row["scaling"] == "strong"}) == 1  # the same flow
    assert "| strong | numpy, library | 4 | 16 |" in done.stdout


def test_efficiencies_of_scaling() -> None:
    """By medians: weak keeps its time, strong divides it; what ranks that run alone lose is not the messages' doing."""
    row = {"zones": 8, "waiting": [0.1], "cg_iterations": 1, "messages": 1}
    rows = [{**row, "scaling": "weak", "ranks": 1, "seconds": [1.0, 1.0, 9.0], "alone": [1.0]},
            {**row, "scaling": "strong", "ranks": 1, "seconds": [1.0]},
            {**row, "scaling": "weak", "ranks": 4, "seconds": [2.0], "alone": [1.5]},
            {**row, "scaling": "strong", "ranks": 4, "seconds": [0.5]}]  # fmt: skip
    cells = scaling.table(rows).cells
    assert [line[-2:] for line in cells] == [("100%", "100%"), ("100%", ""), ("50%", "75%"), ("50%", "")]
