"""A thousand Kalman filters at once

Every target has a state of position and velocity, four numbers, and is seen with noise. Prediction and update of all
filters are batched products, and one batched solve for the gains.
"""

import numpy as np

import mansard as ms

DT, DRIFT, NOISE = 0.1, 0.2, 0.5


def run(targets=1000, steps=60):
    rng = np.random.default_rng(2)
    F = np.eye(4) + DT * np.eye(4, k=2)  # x, y, vx, vy
    H = np.eye(2, 4)
    Q, R = DT * DRIFT**2 * np.diag([0.0, 0, 1, 1]), NOISE**2 * np.eye(2)
    truth = np.concatenate([rng.standard_normal((targets, 2)), rng.standard_normal((targets, 2))], 1)[..., None]
    x, P = np.zeros((targets, 4, 1)), np.tile(4 * np.eye(4), (targets, 1, 1))
    path, seen, errors = [], [], []
    for _ in range(steps):
        truth = F @ truth
        truth[:, 2:] += np.sqrt(DT) * DRIFT * rng.standard_normal((targets, 2, 1))
        z = H @ truth + NOISE * rng.standard_normal((targets, 2, 1))
        x = ms.matmul(F, x)
        P = ms.matmul(ms.matmul(F, P), F.T) + Q
        HP = ms.matmul(H, P)
        S = HP[..., :2] + R
        K = ms.linalg.solve(S, HP, assume_a="pos").swapaxes(-1, -2)  # K = P H^T S^-1
        x = x + ms.matmul(K, z - x[:, :2])
        P = P - ms.matmul(K, HP)
        errors.append([np.sqrt(((one - truth[:, :2]) ** 2).sum(1).mean()) for one in (z, x[:, :2])])
        path.append((truth[0, :2, 0], x[0, :2, 0]))
        seen.append(z[0, :, 0])
    assert errors[-1][1] < 0.6 * errors[-1][0]  # the filter knows more than the measurement
    return np.array(path), np.array(seen), np.array(errors)


def draw(found):
    from _picture import axes

    path, seen, errors = found
    figure, (left, right) = axes(2)
    left.plot(*seen.T, ".", color="0.6", label="measured")
    left.plot(*path[:, 0].T, label="true")
    left.plot(*path[:, 1].T, label="filtered")
    left.set(title="one target", aspect="equal", adjustable="datalim")
    left.legend()
    right.plot(errors, label=("measured", "filtered"))
    right.set(xlabel="step", ylabel="position error", title="1000 targets, root mean square", ylim=0)
    right.legend()
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
