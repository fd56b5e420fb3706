"""Density of states of graphene, by Chebyshev moments

The moments of random vectors, x^T T_k(H) x, give the density of eigenvalues without an eigenvalue. `ms.matrix_powers`
in the Chebyshev basis computes many terms per pass over the matrix.
"""

import numpy as np

import mansard as ms

TERMS = 8


def run(length=24, width=24, moments=96, vectors=16):
    H = ms.sparse.matrices.graphene(length, width)
    reach = abs(H).sum(axis=0).max() * 1.01  # eigenvalues lie within
    x = np.random.default_rng(7).choice([-1.0, 1.0], (H.shape[0], vectors))
    stored = ms.sparse.matrix(H)
    P = ms.matrix_powers(stored, TERMS, ("chebyshev", -reach, reach), columns=vectors)
    # T_(8 + k) = 2 T_8 T_k - T_(8 - k), so blocks of terms follow from the block before
    before, block = None, P(x)  # T_0 x .. T_8 x
    mu = [(x * one).sum() / x.size for one in block]
    while len(mu) < moments:
        high = P(block[TERMS])
        mirror = block[TERMS - 1 :: -1] if before is None else before
        block = np.concatenate([block[TERMS : TERMS + 1], 2 * high[1:] - mirror[:TERMS]])
        before = block[TERMS - 1 :: -1]
        mu += [(x * one).sum() / x.size for one in block[1:]]
    k, theta = np.arange(moments), np.linspace(0, np.pi, 402)[1:-1]
    angle = np.pi * k / moments
    jackson = ((moments - k) * np.cos(angle) + np.sin(angle) / np.tan(np.pi / moments)) / moments
    weights = jackson * mu[:moments] * np.where(k, 2, 1)
    density = weights @ np.cos(np.outer(k, theta)) / (np.pi * np.sin(theta) * reach)
    energy = reach * np.cos(theta)
    exact = np.linalg.eigvalsh(H.toarray())
    assert abs(mu[2] - (2 * (exact / reach) ** 2 - 1).mean()) < 0.02
    assert abs(-np.trapezoid(density, energy) - 1) < 0.01
    return energy, density, exact


def draw(found):
    from _picture import axes

    energy, density, exact = found
    figure, axis = axes()
    axis.hist(exact, 60, density=True, color="0.8", label="eigenvalues")
    axis.plot(energy, density, label="96 moments")
    axis.set(xlabel="energy", title="density of states", xlim=(exact[0] - 0.3, exact[-1] + 0.3))
    axis.legend()
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
