"""Physics at the quadrature points: pressure, artificial viscosity, stress, and the longest stable time step.

All matrices are dim x dim, one per point. J is the derivative of positions along the axes of the reference zone; tables
give its transpose, and K = J^-T.
"""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Array
from .start import Flow, State

_TINY = 1e-12  # velocity gradients below this neither compress nor expand


class Points(NamedTuple):
    """Stress, velocity derivatives and volumes at the quadrature points, and the time step that they allow."""

    stress: Array  # (zones, points dim, dim): (w det J sigma J^-T)^T, the rows of a point together
    slopes: Array  # (zones, points dim, dim): transposed derivatives of the velocity along reference axes
    volume: Array  # (zones, points): w det J
    step: float  # the longest that is stable; 0 if a zone is turned inside out
    tangled: int | None  # such a zone


def derivatives(flow: Flow, field: Array) -> Array:
    """Transposed derivatives of a nodal vector field at all points: (zones, points, dim, dim)."""
    found = flow.arrays.matmul(flow.gradients, field[flow.zones])
    return found.reshape(len(found), -1, flow.dim, flow.dim)


def evaluate(flow: Flow, state: State, cfl: float) -> Points:
    """The points of a state."""
    a, gamma = flow.arrays, flow.gamma
    J, D = derivatives(flow, state.x), derivatives(flow, state.v)  # transposed, both
    det, K = a.det(J), a.inv(J)
    volume = flow.weights * det
    density = flow.mass / volume
    energy = a.at_least(a.matmul(state.e, flow.thermal.T), 0.0)
    pressure = (gamma - 1) * density * energy
    sound = (gamma * (gamma - 1) * energy) ** 0.5
    stress, viscosity = _stress(flow, J, K, D, density, sound)
    for axis in range(flow.dim):
        stress[..., axis, axis] -= pressure
    size = a.smallest_singular_value(J) / flow.order
    rate = sound / size + 2.5 * viscosity / (density * size * size)
    pushed = a.matmul(K.swapaxes(-1, -2), stress) * volume[..., None, None]
    tangled = None if bool((det > 0).all()) else int(a.numpy(det).min(-1).argmin())
    fastest = float(rate.max())
    step = 0.0 if tangled is not None or not fastest < float("inf") else cfl / fastest if fastest > 0 else float("inf")
    flat = (len(J), -1, flow.dim)
    return Points(pushed.reshape(flat), D.reshape(flat), volume, step, tangled)


def _stress(flow: Flow, J: Array, K: Array, D: Array, density: Array, sound: Array) -> tuple[Array, Array]:
    """Viscous stress and its coefficient: along the direction of strongest compression, by its length there."""
    a = flow.arrays
    if not flow.problem.viscous:
        return a.zeros_like(J), a.zeros_like(density)
    L = a.matmul(K, D)  # transposed velocity gradient in space
    weight = 1.0 if flow.problem.damps_vortices else _compression(L)
    L = (L + L.swapaxes(-1, -2)) / 2
    compression, along = a.smallest_eigenpair(L)
    stretched = a.matmul(a.matmul(along[..., None, :], flow.inverse_start), J)[..., 0, :]
    length = flow.length * (stretched * stretched).sum(-1) ** 0.5
    y = a.between((compression - _TINY) / (2 * _TINY), 0.0, 1.0)
    linear = weight * (1 - (3 - 2 * y) * y * y)  # off where the flow expands
    viscosity = density * length * (2 * length * abs(compression) + sound * linear / 2)
    return viscosity[..., None, None] * L, viscosity


def _compression(L: Array) -> Array:
    """|div v| / |grad v|: small where the flow only turns; 1 where it does not move."""
    size = (L * L).sum((-2, -1)) ** 0.5
    trace = abs(sum(L[..., i, i] for i in range(L.shape[-1])))
    still = size == 0
    return (trace + still) / (size + still)
