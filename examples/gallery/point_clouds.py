"""Procrustes: turn a thousand point clouds onto a model

Every cloud is the model, rotated and disturbed. `ms.linalg.procrustes` finds all orthogonal matrices with the least
distance in one call.
"""

import numpy as np

import mansard as ms


def run(clouds=1000, points=16, noise=0.05):
    rng = np.random.default_rng(9)
    angle = np.linspace(0, 4 * np.pi, points)
    model = np.stack([np.cos(angle), np.sin(angle), angle / 6 - 1], 1)  # a helix
    turned, _ = np.linalg.qr(rng.standard_normal((clouds, 3, 3)))
    seen = model @ turned + noise * rng.standard_normal((clouds, points, 3))
    R = ms.linalg.procrustes(seen, np.tile(model, (clouds, 1, 1)))[0]
    back = ms.matmul(seen, R)
    assert np.allclose(ms.blas.gemm(R, R, trans_a="T"), np.eye(3), atol=1e-12)
    error = np.sqrt(((back - model) ** 2).sum((1, 2)) / points)
    assert error.max() < 4 * noise
    return model, seen, back


def draw(found):
    from _picture import axes

    model, seen, back = found
    figure, panels = axes(2, sharex=True, sharey=True)
    for panel, clouds, name in ((panels[0], seen, "as they came"), (panels[1], back, "turned onto the model")):
        for cloud in clouds[:40]:
            panel.plot(cloud[:, 0], cloud[:, 2], lw=0.5, alpha=0.6)
        panel.plot(model[:, 0], model[:, 2], "k", lw=2)
        panel.set(title=name, aspect="equal", xticks=[], yticks=[])
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
