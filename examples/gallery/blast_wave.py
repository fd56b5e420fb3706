"""A blast wave on a mesh that moves with the gas

`examples/hydrodynamics` solves Euler's equations with finite elements whose zones follow the gas: tall products for
gradients at all points, small eigenvalue problems and inverses at each of them, a sparse solver for velocities. Here
all energy starts in one corner. RK2Avg keeps the total energy to the last digits while the shock runs out.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.hydrodynamics.arrays import Arrays
from examples.hydrodynamics.output import density
from examples.hydrodynamics.problems import PROBLEMS
from examples.hydrodynamics.start import energies, prepare
from examples.hydrodynamics.steps import Progress, Stepper

SAMPLES = 5  # of density along each axis of a zone


def run(refine=2, times=(0.1, 0.4), engine="mansard"):
    flow = prepare(PROBLEMS["sedov"], 2, refine, 2, Arrays("numpy", engine))
    stepper, progress, frames = Stepper(flow, "rk2avg", tolerance=1e-13), Progress(flow.state), []
    t = np.linspace(0, 1, SAMPLES)
    points = np.stack([one.ravel() for one in np.meshgrid(t, t)], axis=1)
    before = sum(energies(flow, flow.state))
    for end in times:
        for _ in stepper.run(progress, end):
            pass
        frames.append((end, progress.step, *density(flow, progress.state, points)))
    assert abs(sum(energies(flow, progress.state)) - before) < 1e-12 * before  # energy stays
    x, v = progress.state.x, progress.state.v
    side = round(len(x) ** 0.5)
    assert np.abs(v[:, 0].reshape(side, side) - v[:, 1].reshape(side, side).T).max() < 1e-9  # x and y are alike
    positions, rho = frames[-1][2:]
    peak = np.linalg.norm(positions.reshape(-1, 2)[rho.argmax()])
    assert 0.4 < peak < 0.8 and rho.max() > 2  # the gas is swept into a shell
    return frames


def draw(frames):
    from _picture import axes

    figure, panels = axes(len(frames) + 1)
    border = np.r_[0:SAMPLES, 2 * SAMPLES - 1 : SAMPLES**2 : SAMPLES, SAMPLES**2 - 2 : SAMPLES**2 - SAMPLES - 1 : -1]
    for panel, (time, step, positions, rho) in zip(panels, frames, strict=False):
        for zone, values in zip(positions, rho, strict=True):
            X, Y = (zone[:, axis].reshape(SAMPLES, SAMPLES) for axis in (0, 1))
            panel.pcolormesh(X, Y, values.reshape(SAMPLES, SAMPLES), shading="gouraud", vmin=0, vmax=4, rasterized=True)
            panel.plot(*zone[border].T, color="white", linewidth=0.4)
        panel.set(title=f"density, t = {time}, {step} steps", aspect="equal", xticks=[0, 1], yticks=[0, 1])
    time, _, positions, rho = frames[-1]
    panels[-1].plot(np.linalg.norm(positions, axis=2).ravel(), rho.ravel(), ".", markersize=2)
    panels[-1].set(title=f"t = {time}", xlabel="distance from the corner", ylabel="density", xlim=(0, 1.3))
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
