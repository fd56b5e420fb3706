"""Finite elements: element matrices by a batched product, one sparse matrix, conjugate gradients

The stiffness matrix of each triangle is area * G G^T, with the gradients of its three linear functions in G. All of
them are one call. The solve is `ms.sparse.linalg.cg` on the stored matrix.
"""

import numpy as np
import scipy.sparse
from scipy.spatial import Delaunay

import mansard as ms


def run(nodes=2500):
    rng = np.random.default_rng(5)
    angle = np.linspace(0, 2 * np.pi, 150, endpoint=False)
    r, phi = 0.985 * np.sqrt(rng.random(nodes)), 2 * np.pi * rng.random(nodes)
    rim = np.stack([np.cos(angle), np.sin(angle)], 1)
    points = np.vstack([rim, np.stack([r * np.cos(phi), r * np.sin(phi)], 1)])
    triangles = Delaunay(points).simplices

    corner = points[triangles]  # (triangles, 3, 2)
    edges = corner[:, [1, 2]] - corner[:, :1]
    area = ms.linalg.det(edges) / 2
    gradients = np.array([[-1.0, -1], [1, 0], [0, 1]]) @ ms.linalg.inv(edges).swapaxes(-1, -2)
    local = ms.blas.gemm(gradients, gradients, trans_b="T") * abs(area)[:, None, None]

    i, j = np.repeat(triangles, 3, axis=1), np.tile(triangles, 3)
    K = scipy.sparse.coo_array((local.ravel(), (i.ravel(), j.ravel()))).tocsr()
    load = np.bincount(triangles.ravel(), np.repeat(abs(area) / 3, 3))  # of a constant force
    inside = np.arange(len(rim), len(points))
    u = np.zeros(len(points))
    u[inside], info = ms.sparse.linalg.cg(K[inside][:, inside].tocsr(), load[inside], rtol=1e-10)
    assert info == 0
    exact = (1 - (points**2).sum(1)) / 4  # of a disc
    assert abs(u - exact).max() < 0.01
    return points, triangles, u, u - exact


def draw(found):
    from _picture import axes

    points, triangles, u, error = found
    figure, (left, right) = axes(2)
    for panel, values, name in ((left, u, "a loaded membrane"), (right, error, "error")):
        picture = panel.tripcolor(*points.T, triangles, values, shading="gouraud", rasterized=True)
        panel.triplot(*points.T, triangles, lw=0.1, color="w")
        panel.set(title=name, aspect="equal", xticks=[], yticks=[])
        figure.colorbar(picture)
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
