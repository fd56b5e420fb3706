"""A wave packet meets a wall with a slit

exp(-i t H) x by a Chebyshev series, eight powers of H per pass over the matrix (`ms.sparse.linalg.expm_multiply`).
"""

import numpy as np
import scipy.sparse

import mansard as ms


def run(side=64, steps=3, time=9.0):
    kinetic = ms.sparse.matrices.stencil(5, (side, side)).astype(complex)
    x, y = np.meshgrid(np.arange(side), np.arange(side))  # the first extent is adjacent in memory
    wall = (abs(x - side // 2) < 2) & (abs(y - side // 2) > 3)
    H = (kinetic + scipy.sparse.diags_array(20.0 * wall.ravel())).tocsr()
    packet = np.exp(-((x - side / 4) ** 2 + (y - side / 2) ** 2) / 60 + 1.1j * x).ravel()
    packet /= np.linalg.norm(packet)
    frames = [packet]
    for _ in range(steps):
        frames.append(ms.sparse.linalg.expm_multiply(H, frames[-1], t=-1j * time, tol=1e-8))
    assert all(abs(np.linalg.norm(frame) - 1) < 1e-6 for frame in frames)
    return wall, [abs(frame.reshape(side, side)) for frame in frames]


def draw(found):
    from _picture import axes

    wall, frames = found
    figure, panels = axes(3)
    for panel, frame in zip(panels, frames[1:], strict=True):
        panel.imshow(np.where(wall, np.nan, frame), cmap="magma", origin="lower")
        panel.set(xticks=[], yticks=[])
    panels[0].set(title="exp(-i t H) x")
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
