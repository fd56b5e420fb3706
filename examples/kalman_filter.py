"""Kalman filters for many targets at once: every step is a handful of products and one solve per target.

Few targets are work for the array library, and nothing is compiled; for many, kernels for just these sizes are. Run it
with `MANSARD_RECORD=kalman.jsonl` once, and `mansard precompile kalman.jsonl` has them ready on another machine.
"""

import sys
import time

import numpy as np

import mansard as ms

STATES, SEEN = 6, 3  # position and velocity in space; positions are seen
STEP = 0.1  # seconds
STEPS = 100


def model():
    """Transition F, observation H, and the covariances Q and R of their noise."""
    F = np.eye(STATES) + STEP * np.eye(STATES, k=SEEN)
    H = np.eye(SEEN, STATES)
    return F, H, 1e-3 * np.eye(STATES), 0.05 * np.eye(SEEN)


def observed(targets, rng):
    """True tracks (steps, targets, states), and noisy positions (steps, targets, seen)."""
    F, H, Q, R = model()
    truth = np.empty((STEPS, targets, STATES))
    x = rng.standard_normal((targets, STATES))
    for k in range(STEPS):
        x = x @ F.T + rng.multivariate_normal(np.zeros(STATES), Q, targets)
        truth[k] = x
    return truth, truth @ H.T + rng.multivariate_normal(np.zeros(SEEN), R, (STEPS, targets))


def filtered(seen):
    """States estimated from positions, (steps, targets, states), and the last covariances."""
    F, H, Q, R = model()
    targets = seen.shape[1]
    x, P = np.zeros((targets, STATES, 1)), np.tile(np.eye(STATES), (targets, 1, 1))
    found = np.empty((*seen.shape[:2], STATES))
    for k, z in enumerate(seen):
        x = ms.matmul(F, x)
        P = ms.matmul(ms.matmul(F, P), F.T) + Q
        HP = ms.matmul(H, P)
        K = ms.linalg.solve(ms.matmul(HP, H.T) + R, HP).swapaxes(-1, -2)  # gain: P H^T S^-1, of symmetric P and S
        x += ms.matmul(K, z[..., None] - ms.matmul(H, x))
        P -= ms.matmul(K, HP)
        found[k] = x[..., 0]
    return found, P


if __name__ == "__main__":
    targets = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    truth, seen = observed(targets, np.random.default_rng(0))
    start = time.perf_counter()
    found, P = filtered(seen)
    first = time.perf_counter() - start
    start = time.perf_counter()
    filtered(seen)
    took = time.perf_counter() - start
    before, after = (np.abs(one - truth[..., :SEEN])[STEPS // 2 :].mean() for one in (seen, found[..., :SEEN]))
    print(f"{targets} targets: mean error of positions {after:.3f}, of observations {before:.3f}")
    print(f"asymmetry of covariances {np.abs(P - P.swapaxes(-1, -2)).max():.1e}")
    print(f"first run {first:.2f} s, the next {took:.2f} s")
