"""Stiff chemistry in a thousand cells: implicit steps with small Jacobians

Robertson's reaction has rates that differ by nine orders of magnitude. Every cell has its own temperature, hence its
own rates. A step of implicit Euler is a few Newton iterations, each one batched solve of 3 x 3 systems.
"""

import numpy as np

import mansard as ms


def rates(y, k):
    """dy/dt and its Jacobian, for all cells."""
    slow, fast, back = k[0] * y[:, 0], k[1] * y[:, 1] ** 2, k[2] * y[:, 1] * y[:, 2]
    f = np.stack([-slow + back, slow - back - fast, fast], 1)
    J = np.zeros((len(y), 3, 3))
    J[:, 0, 0], J[:, 0, 1], J[:, 0, 2] = -k[0], k[2] * y[:, 2], k[2] * y[:, 1]
    J[:, 2, 1] = 2 * k[1] * y[:, 1]
    J[:, 1] = -J[:, 0] - J[:, 2]
    return f, J


def run(cells=1000, steps=60):
    heat = np.linspace(0.5, 2, cells)  # relative speed of the first reaction
    k = (0.04 * heat, np.full(cells, 3e7), np.full(cells, 1e4))
    y = np.tile([1.0, 0, 0], (cells, 1))
    times, history = np.geomspace(1e-4, 1e4, steps), [y]
    before = 0.0
    for now in times:
        h, new = now - before, y.copy()
        for _ in range(8):  # Newton: (I - h J) d = y + h f - new
            f, J = rates(new, k)
            d = ms.linalg.solve(np.eye(3) - h * J, (y + h * f - new)[..., None])[..., 0]
            new += d
            if abs(d).max() < 1e-12:
                break
        y, before = new, now
        history.append(y)
    assert np.allclose(y.sum(1), 1) and y.min() > -1e-12  # mass is kept
    return times, np.array(history[1:])


def draw(found):
    from _picture import axes

    times, history = found
    figure, (left, right) = axes(2)
    for at, scale, name in ((0, 1, "A"), (1, 1e4, "10000 B"), (2, 1, "C")):
        left.semilogx(times, scale * history[:, 500, at], label=name)
    left.set(xlabel="time", title="one cell")
    left.legend(loc="center left", bbox_to_anchor=(0, 0.68))
    picture = right.pcolormesh(times, np.linspace(0.5, 2, history.shape[1]), history[:, :, 0].T, cmap="viridis")
    right.set(xscale="log", xlabel="time", ylabel="rate", title="A in 1000 cells")
    figure.colorbar(picture)
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
