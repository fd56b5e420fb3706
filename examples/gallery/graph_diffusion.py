"""Diffusion on a graph, several steps per pass over the matrix

One step of heat on a Delaunay graph is x + h (A x - d x). `ms.matrix_powers` computes all steps between two pictures
in one call, in the shifted basis v_(k+1) = (I - h L) v_k.
"""

import numpy as np
import scipy.sparse

import mansard as ms


def run(side=40, steps=40, between=4):
    rng = np.random.default_rng(1)
    points = rng.random((side * side, 2))
    from scipy.spatial import Delaunay

    corners = Delaunay(points).simplices
    i, j = corners[:, [0, 1, 2]].ravel(), corners[:, [1, 2, 0]].ravel()
    ones = np.ones(2 * len(i))
    A = scipy.sparse.csr_array((ones, (np.r_[i, j], np.r_[j, i])), shape=(len(points),) * 2)
    A.data[:] = 1
    degree = np.asarray(A.sum(axis=0)).ravel()
    h = 0.9 / degree.max()
    walk = (scipy.sparse.diags_array(1 - h * degree) + h * A).tocsr()
    step = ms.matrix_powers(walk, between)
    x = (np.linalg.norm(points - 0.5, axis=1) < 0.08).astype(float)
    heat, frames = x.sum(), [x]
    for _ in range(steps):
        x = step(x)[-1]
        frames.append(x)
    assert np.isclose(x.sum(), heat) and x.min() >= 0  # heat is neither made nor lost
    return points, corners, frames


def draw(found):
    from _picture import axes

    points, corners, frames = found
    figure, panels = axes(3, sharex=True, sharey=True)
    for panel, at in zip(panels, (1, 10, len(frames) - 1), strict=True):
        panel.tripcolor(*points.T, corners, np.sqrt(frames[at]), shading="gouraud", cmap="inferno", rasterized=True)
        panel.set(title=f"after {4 * at} steps", aspect="equal", xticks=[], yticks=[])
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
