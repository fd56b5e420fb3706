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
    """Stress, velocity derivatives and volumes at the quadrature points, and what limits the time step."""

    stress: Array  # (zones, points dim, dim): (w det J sigma J^-T)^T, the rows of a point together
    slopes: Array  # (zones, points dim, dim): transposed derivatives of the velocity along reference axes
    volume: Array  # (zones, points): w det J
    jacobian: Array  # (zones, points, dim, dim): J^T
    sound: Array  # (zones, points): speed of sound
    diffusion: Array  # (zones, points): artificial viscosity by density


class TangledError(Exception):
    """A zone is turned inside out: det J is not positive at one of its points."""

    def __init__(self, zone: int) -> None:
        super().__init__(f"zone {zone} is turned inside out")
        self.zone = zone


def derivatives(flow: Flow, field: Array) -> Array:
    """Transposed derivatives of a nodal vector field at all points: (zones, points, dim, dim)."""
    found = flow.arrays.matmul(flow.gradients, flow.arrays.gather(field, flow.zones))
    return found.reshape(len(found), -1, flow.dim, flow.dim)


def evaluate(flow: Flow, state: State) -> Points:
    """The points of a state; TangledError where it has none."""
    a, gamma = flow.arrays, flow.gamma
    J, D = derivatives(flow, state.x), derivatives(flow, state.v)  # transposed, both
    det = a.det(J)
    if not float(det.min()) > 0:
        raise TangledError(int(a.numpy(det).min(-1).argmin()))
    K = a.inv(J)
    volume = flow.weights * det
    energy = a.at_least(a.matmul(state.e, flow.thermal.T), 0.0)
    sound = (gamma * (gamma - 1) * energy) ** 0.5
    stress, diffusion = _viscous(flow, J, K, D, sound)
    pull = (gamma - 1) * flow.mass * energy  # pressure times volume
    for axis in range(flow.dim):
        stress[..., axis, axis] -= pull
    flat = (len(J), -1, flow.dim)
    pushed = a.matmul(K.swapaxes(-1, -2), stress)
    return Points(pushed.reshape(flat), D.reshape(flat), volume, J, sound, diffusion)


def longest_step(flow: Flow, points: Points, cfl: float) -> float:
    """The time step within which neither sound nor viscosity passes a zone; 0 where numbers are no longer finite."""
    size = flow.arrays.smallest_singular_value(points.jacobian) / flow.order
    fastest = float((points.sound / size + 2.5 * points.diffusion / (size * size)).max())
    if not fastest < float("inf"):
        return 0.0
    return cfl / fastest if fastest > 0 else float("inf")


def _viscous(flow: Flow, J: Array, K: Array, D: Array, sound: Array) -> tuple[Array, Array]:
    """Viscous stress times volume, and viscosity by density. The viscosity acts along the direction of strongest
    compression and grows with the length of the zone in this direction."""
    a = flow.arrays
    if not flow.problem.viscous:
        return a.zeros_like(J), a.zeros_like(sound)
    L = a.matmul(K, D)  # transposed velocity gradient in space
    weight = 1.0 if flow.problem.damps_vortices else _compression(L)
    twice = a.plus_transposed(L, K, D)
    compression, along = a.smallest_eigenpair(twice)
    compression = compression / 2
    at_start = a.matmul(along, flow.inverse_start)  # the same direction in the zone as it was
    stretched = a.matmul(at_start[..., None, :], J)[..., 0, :]
    length = flow.length * a.row_dots(stretched, stretched) ** 0.5
    y = a.between((compression - _TINY) / (2 * _TINY), 0.0, 1.0)
    linear = weight * (1 - (3 - 2 * y) * y * y)  # off where the flow expands
    diffusion = length * (2 * length * abs(compression) + sound * linear / 2)
    scaled = (diffusion * flow.mass / 2)[..., None] * twice.reshape(*sound.shape, -1)
    return scaled.reshape(twice.shape), diffusion


def _compression(L: Array) -> Array:
    """|div v| / |grad v|: small where the flow only turns; 1 where it does not move."""
    size = (L * L).sum((-2, -1)) ** 0.5
    trace = abs(sum(L[..., i, i] for i in range(L.shape[-1])))
    still = size == 0
    return (trace + still) / (size + still)
