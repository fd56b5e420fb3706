"""Lowest eigenvalues of a sparse matrix by a filtered subspace

A block of 16 vectors is multiplied by a Chebyshev polynomial of the matrix, orthonormalised by `ms.cholesky_qr`, and
rotated to Ritz vectors of the small matrix V^H A V. Everything tall is one pass over memory.
"""

import numpy as np

import mansard as ms

BLOCK, DEGREE = 16, 8


def run(side=24, steps=20):
    A = ms.sparse.matrices.stencil(5, (side, side + 1))  # Laplacian: eigenvalues within (0, 8)
    stored = ms.sparse.matrix(A)
    V = np.random.default_rng(0).standard_normal((A.shape[0], BLOCK))
    cut, history = 0.5, []
    for _ in range(steps):
        powers = ms.matrix_powers(stored, DEGREE, ("chebyshev", cut, 8.0), columns=BLOCK, output="last")
        V, _ = ms.cholesky_qr(powers(V))  # wanted directions grow, those in [cut, 8] do not
        AV = stored @ V
        values, rotation = np.linalg.eigh(ms.gram(V, AV))
        V, AV = ms.matmul(V, rotation), ms.matmul(AV, rotation)
        history.append(np.sqrt(ms.gram(AV - V * values).diagonal()))
        cut = values[-1]
    assert history[-1][:8].max() < 1e-8
    ends = [2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1)) for n in (side, side + 1)]
    exact = np.sort(np.add.outer(*ends).ravel())[:BLOCK]
    assert np.allclose(values[:8], exact[:8])
    return np.array(history), values, exact


def draw(found):
    from _picture import axes

    history, values, exact = found
    figure, (left, right) = axes(2)
    left.semilogy(history[:, :8])
    left.set(xlabel="step", ylabel="residual", title="eight wanted vectors")
    right.plot(exact, "o", mfc="none", label="exact")
    right.plot(values, ".", label="Ritz values")
    right.set(xlabel="index", title="eigenvalues")
    right.legend()
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
