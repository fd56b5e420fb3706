"""Physics at the quadrature points: pressure, artificial viscosity, stress, and the longest stable time step.

All matrices are dim x dim, one per point: J, the derivative of positions along the axes of the reference zone, and what
is made of it. Derivatives of all zones come from one tall product, (dim zones, nodes) times a table (nodes, points
dim): component a of the field, then points, then direction b. The matrices of points, [point, a, b], are views of that.
"""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Array
from .start import Flow, State

_TINY = 1e-12  # velocity gradients below this neither compress nor expand


class Points(NamedTuple):
    """Stress, velocity derivatives and volumes at the quadrature points, and what limits the time step."""

    stress: Array  # (dim zones, points dim): w det J sigma J^-T, as derivatives are stored
    slopes: Array  # (dim zones, points dim): derivatives of the velocity along reference axes
    volume: Array  # (zones, points): w det J
    jacobian: Array  # (all points, dim, dim): J
    sound: Array  # (zones, points): speed of sound
    diffusion: Array  # (zones, points): artificial viscosity by density


class TangledError(Exception):
    """A zone is turned inside out: det J is not positive at one of its points."""

    def __init__(self, zone: int) -> None:
        super().__init__(f"zone {zone} is turned inside out")
        self.zone = zone


def derivatives(flow: Flow, field: Array) -> Array:
    """Derivatives of a nodal vector field at all points: (dim zones, points dim)."""
    return flow.arrays.matmul(flow.arrays.gather(field, flow.gathers), flow.gradients)


def matrices(flow: Flow, fields: Array) -> Array:
    """The matrices [point, component, direction] of an array like that of `derivatives`; a view."""
    return fields.reshape(flow.dim, -1, flow.dim).swapaxes(0, 1)


def evaluate(flow: Flow, state: State) -> Points:
    """The points of a state; TangledError where it has none."""
    a, gamma = flow.arrays, flow.gamma
    slopes = derivatives(flow, state.v)
    J, D = matrices(flow, derivatives(flow, state.x)), matrices(flow, slopes)
    det = a.det(J).reshape(flow.mass.shape)
    if not float(det.min()) > 0:
        raise TangledError(int(a.numpy(det).min(-1).argmin()))
    inverse = a.inv(J)
    energy = a.at_least(a.matmul(state.e, flow.thermal.T), 0.0)
    sound = (gamma * (gamma - 1) * energy) ** 0.5
    stress, diffusion = _viscous(flow, J, inverse, D, sound)
    pull = ((gamma - 1) * flow.mass * energy).reshape(-1)  # pressure times volume
    for axis in range(flow.dim):
        diagonal = stress[:, axis, axis]
        diagonal -= pull
    pushed = a.xp.empty_like(slopes)
    a.matmul_into(stress, inverse.swapaxes(-1, -2), matrices(flow, pushed))
    return Points(pushed, slopes, flow.weights * det, J, sound, diffusion)


def longest_step(flow: Flow, points: Points, cfl: float) -> float:
    """The time step within which neither sound nor viscosity passes a zone; 0 where numbers are no longer finite."""
    size = flow.arrays.smallest_singular_value(points.jacobian).reshape(points.sound.shape) / flow.order
    fastest = float((points.sound / size + 2.5 * points.diffusion / (size * size)).max())
    if not fastest < float("inf"):
        return 0.0
    return cfl / fastest if fastest > 0 else float("inf")


def _viscous(flow: Flow, J: Array, inverse: Array, D: Array, sound: Array) -> tuple[Array, Array]:
    """Viscous stress times volume, and viscosity by density. The viscosity acts along the direction of strongest
    compression and grows with the length of the zone in this direction."""
    a, shape = flow.arrays, sound.shape
    if not flow.problem.viscous:
        return a.zeros_like(inverse), a.zeros_like(sound)
    L = a.matmul(D, inverse)  # velocity gradient in space
    weight = 1.0 if flow.problem.damps_vortices else _compression(flow, L).reshape(shape)
    twice = a.plus_transposed(L, D, inverse)
    compression, along = a.smallest_eigenpair(twice)
    compression = compression.reshape(shape) / 2
    at_start = a.matmul(along.reshape(*shape, -1), flow.inverse_start)  # the same direction in the zone as it was
    stretched = a.matmul(J, at_start.reshape(len(J), -1, 1))[..., 0]
    length = flow.length * a.row_dots(stretched, stretched).reshape(shape) ** 0.5
    y = a.between((compression - _TINY) / (2 * _TINY), 0.0, 1.0)
    linear = weight * (1 - (3 - 2 * y) * y * y)  # off where the flow expands
    diffusion = length * (2 * length * abs(compression) + sound * linear / 2)
    scaled = (diffusion * flow.mass / 2).reshape(-1, 1) * twice.reshape(len(J), -1)
    return scaled.reshape(twice.shape), diffusion


def _compression(flow: Flow, L: Array) -> Array:
    """|div v| / |grad v|: small where the flow only turns; 1 where it does not move."""
    flat = L.reshape(len(L), -1)
    size = flow.arrays.row_dots(flat, flat) ** 0.5
    trace = abs(sum(L[:, i, i] for i in range(flow.dim)))
    still = size == 0
    return (trace + still) / (size + still)
