"""Gaussian processes: the evidence of hundreds of hyperparameters in one call

For every length and noise on a grid the covariance of the data is factored by `ms.linalg.cholesky`; determinants come
from the diagonals, and `cho_solve` gives the rest of the evidence. The best of them predicts.
"""

import numpy as np

import mansard as ms


def covariance(x, y, length):
    return np.exp(-0.5 * ((x[:, None] - y) / length) ** 2)


def run(points=24, grid=16):
    rng = np.random.default_rng(6)
    x = np.sort(rng.random(points)) * 6
    y = np.sin(2 * x) + 0.15 * rng.standard_normal(points)
    lengths, noises = np.geomspace(0.1, 3, grid), np.geomspace(0.02, 1, grid)
    smooth, noisy = [covariance(x, x, length) for length in lengths], [noise**2 * np.eye(points) for noise in noises]
    K = np.stack([one + other for one in smooth for other in noisy])
    L = ms.linalg.cholesky(K)
    weights = ms.linalg.cho_solve((L, True), np.tile(y[:, None], (len(K), 1, 1)))[..., 0]
    logdet = 2 * np.log(L.diagonal(axis1=1, axis2=2)).sum(1)
    evidence = -0.5 * (weights @ y + logdet + points * np.log(2 * np.pi))
    best = evidence.argmax()
    length, noise = lengths[best // grid], noises[best % grid]
    assert 0.05 < noise < 0.4

    at = np.linspace(0, 6, 200)
    across = covariance(at, x, length)
    mean = across @ weights[best]
    half = ms.linalg.solve_triangular(L[best], across.T, lower=True)
    spread = np.sqrt(np.maximum(1 - (half * half).sum(0), 0))
    assert np.abs(mean - np.sin(2 * at))[20:-20].mean() < 0.3
    return x, y, at, mean, spread, lengths, noises, evidence.reshape(grid, grid)


def draw(found):
    from _picture import axes

    x, y, at, mean, spread, lengths, noises, evidence = found
    figure, (left, right) = axes(2)
    left.fill_between(at, mean - 2 * spread, mean + 2 * spread, alpha=0.3)
    left.plot(at, mean)
    left.plot(x, y, "k.")
    left.set(title="the most likely one")
    picture = right.pcolormesh(noises, lengths, np.maximum(evidence, evidence.max() - 40), shading="nearest")
    right.set(xscale="log", yscale="log", xlabel="noise", ylabel="length", title="log evidence of 256")
    figure.colorbar(picture)
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
