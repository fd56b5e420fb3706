"""Many Kalman filters at once, compiled by jax.jit, and their likelihood differentiated.

Each track is an object in the plane, observed through noise. `jax.lax.scan` runs over the observations; covariances of
all tracks are stacks (tracks, 4, 4) and (tracks, 2, 2), which Mansard's kernels for batches multiply, factor and solve.
The gradient of the log-likelihood with respect to the noise goes through every step.

    python examples/kalman_filter_jax.py [tracks] [steps]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mansard as ms

DT = 0.1  # seconds between observations
F = jnp.eye(4) + DT * jnp.eye(4, k=2)  # position += velocity DT


def step(noise: Any, state: Any, z: Any) -> Any:
    """Predict and correct all tracks; the log-likelihood of the observed positions z adds up in the state."""
    x, P, likelihood = state
    x = x @ F.T
    P = ms.matmul(ms.matmul(F, P), F.T) + jnp.exp(noise[0]) * DT * jnp.eye(4)
    L = ms.linalg.cholesky(P[:, :2, :2] + jnp.exp(noise[1]) * jnp.eye(2))
    error = (z - x[:, :2])[..., None]
    solved = ms.linalg.cho_solve((L, True), jnp.concatenate([P[:, :2], error], -1))  # S^-1 (H P) and S^-1 error
    change = ms.matmul(P[..., :2], solved)  # the gain times H P, and times the error
    x, P = x + change[..., 4], P - change[..., :4]
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)).sum(-1)
    return (x, P, likelihood - 0.5 * ((error * solved[..., 4:]).sum((-2, -1)) + log_det + 2 * jnp.log(2 * jnp.pi))), x


@jax.jit
def run(noise: Any, observations: Any) -> Any:
    """Log-likelihoods (tracks,) and states (steps, tracks, 4) of observations (steps, tracks, 2)."""
    tracks = observations.shape[1]
    start = jnp.zeros((tracks, 4)), jnp.broadcast_to(10 * jnp.eye(4), (tracks, 4, 4)), jnp.zeros(tracks)
    (_, _, likelihood), states = jax.lax.scan(partial(step, noise), start, observations)
    return likelihood, states


def simulated(tracks: int, steps: int, seed: int = 0) -> Any:
    """True positions, and observations with a standard deviation of 0.3."""
    random = np.random.default_rng(seed)
    velocity = 1.0 + np.cumsum(random.normal(0, DT**0.5, (steps, tracks, 2)), 0)
    positions = np.cumsum(DT * velocity, 0).astype("float32")
    return positions, jnp.asarray(positions + random.normal(0, 0.3, positions.shape).astype("float32"))


def filtered(noise: Any, observations: Any) -> Any:
    """Run the filter in NumPy and float64, with one inverse per track and step: the reference for `run`."""
    steps, tracks, _ = observations.shape
    motion, H = np.eye(4) + DT * np.eye(4, k=2), np.eye(2, 4)
    x, P = np.zeros((tracks, 4)), np.broadcast_to(10 * np.eye(4), (tracks, 4, 4))
    likelihood, states = np.zeros(tracks), np.empty((steps, tracks, 4))
    for i, z in enumerate(np.asarray(observations, float)):
        x, P = x @ motion.T, motion @ P @ motion.T + np.exp(noise[0]) * DT * np.eye(4)
        S = H @ P @ H.T + np.exp(noise[1]) * np.eye(2)
        gain = P @ H.T @ np.linalg.inv(S)
        error = (z - x @ H.T)[..., None]
        likelihood -= 0.5 * (error * np.linalg.solve(S, error)).sum((-2, -1))
        likelihood -= 0.5 * np.log(np.linalg.det(S)) + np.log(2 * np.pi)
        states[i] = x = x + (gain @ error)[..., 0]
        P = P - gain @ H @ P
    return likelihood, states


def check(noise: Any, observations: Any, slope: Any) -> None:
    """Compare states, likelihoods and the gradient of their mean with those of NumPy's filter, to float32's digits."""
    noise, step = np.asarray(noise, float), 1e-4
    for found, expected in zip(run(jnp.asarray(noise), observations), filtered(noise, observations), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    ahead, behind = (
        [-filtered(noise + sign * step * unit, observations)[0].mean() for unit in np.eye(2)] for sign in (1, -1)
    )
    expected = np.subtract(ahead, behind) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


def main(tracks: int = 20, steps: int = 20) -> None:
    positions, observations = simulated(tracks, steps)
    noise = jnp.asarray([-3.0, 0.0])  # logarithms of the variances of motion and observation
    gradient = jax.jit(jax.value_and_grad(lambda noise: -run(noise, observations)[0].mean()))
    check(noise, observations, gradient(noise)[1])
    for _ in range(20):
        value, slope = gradient(noise)
        noise = noise - 0.2 * slope / jnp.maximum(1.0, jnp.abs(slope).max())
    _, states = run(noise, observations)
    error = np.abs(np.asarray(states)[steps // 2 :, :, :2] - positions[steps // 2 :]).mean()
    raw = np.abs(np.asarray(observations) - positions).mean()
    print(f"negative log-likelihood per track {value:.2f}, variance of observations {jnp.exp(noise[1]):.3f}")
    print(f"mean error of positions {error:.3f}, of observations {raw:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
