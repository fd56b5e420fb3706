"""k-means with skinny products

Distances from a million points to 16 centres are one product of a tall matrix with a small one; sums over the members
of each cluster are `ms.gram` of the membership and the points. Both are one pass over memory.
"""

import numpy as np

import mansard as ms

CENTRES, FEATURES = 16, 16


def run(points=20_000, steps=25):
    rng = np.random.default_rng(3)
    true = 8 * rng.standard_normal((CENTRES, FEATURES))
    X = true[rng.integers(CENTRES, size=points)] + rng.standard_normal((points, FEATURES))
    norms = (X * X).sum(1)
    C, history = X[[0]], []
    while len(C) < CENTRES:  # the farthest point is the next centre
        distance = norms[:, None] - 2 * X @ C.T + (C * C).sum(1)
        C = np.vstack([C, X[distance.min(1).argmax()]])
    for _ in range(steps):
        distance = (C * C).sum(1) - 2 * ms.matmul(X, np.ascontiguousarray(C.T))
        nearest = distance.argmin(1)
        history.append((norms + distance[np.arange(points), nearest]).mean())
        member = np.zeros((points, CENTRES))
        member[np.arange(points), nearest] = 1
        count = member.sum(0)
        C = ms.gram(member, X) / count[:, None]
    assert history[-1] < 1.05 * FEATURES  # the noise itself has FEATURES
    return X, nearest, C, history


def draw(found):
    from _picture import axes

    X, nearest, C, history = found
    axis = np.linalg.eigh(ms.gram(X - X.mean(0)))[1][:, -2:]
    figure, (left, right) = axes(2)
    left.scatter(*(X[::20] @ axis).T, c=nearest[::20], s=3, cmap="tab20")
    left.plot(*(C @ axis).T, "k+", ms=9)
    left.set(title="16 clusters in 16 dimensions, two of them", xticks=[], yticks=[])
    right.plot(history, ".-")
    right.set(xlabel="step", title="mean squared distance", ylim=0)
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
