"""Corner forces: the acceleration of nodes and the rate of the energy.

The matrix of corner forces of a zone, F = A Be with A from the stress and the gradients, is never formed: both products
with it that the method needs act on the stress at the points.
"""

from __future__ import annotations

from functools import cached_property
from math import pi

from .arrays import Array
from .conjugate import ConjugateGradients
from .points import Points, derivatives
from .start import Flow, State, at_points


class Forces:
    """Rates of velocity and energy from the stress at the points."""

    def __init__(self, flow: Flow, tolerance: float = 1e-8, most: int = 300) -> None:
        a, self.flow = flow.arrays, flow
        scale = flow.mesh.free / flow.kinematic_mass.diagonal()[:, None]
        self.solver = ConjugateGradients(a, flow.kinematic_mass, a.array(scale), tolerance, most)
        self._sum, self._load, self._against = a.sparse(flow.to_nodes), a.zeros_like(flow.free), -flow.free
        self._solve_thermal = a.solver(a.array(flow.thermal_mass))

    @cached_property
    def _weight(self) -> Array:
        """M_V times one, which gravity pulls at."""
        flow = self.flow
        return flow.arrays.array(flow.kinematic_mass @ (0 * flow.mesh.nodes[:, 0] + 1))

    def of_zones(self, points: Points) -> Array:
        """F 1 of every zone: (dim zones, nodes of a zone)."""
        return self.flow.arrays.matmul(points.stress, self.flow.to_forces)

    def load(self, points: Points) -> Array:
        """-F 1 summed at the nodes, without what the walls bear: (nodes, dim)."""
        flow, total = self.flow, self._load
        self._sum(self.of_zones(points).reshape(-1), total.reshape(-1))
        if flow.problem.gravity:
            pulled = total[:, 1]
            pulled += self._weight
        total *= self._against
        return total

    def acceleration(self, load: Array) -> Array:
        """dv/dt = M_V^-1 load, all components at once."""
        return self.solver.solve(load)

    def heating(self, state: State, points: Points, velocity: Array | None = None) -> Array:
        """de/dt = M_E^-1 F^T v; of another velocity than the state's, if one is given."""
        flow = self.flow
        a = flow.arrays
        slopes = points.slopes if velocity is None else derivatives(flow, velocity)
        rows = (-1, flow.dim)
        by_component = a.row_dots(points.stress.reshape(rows), slopes.reshape(rows)).reshape(flow.dim, -1)
        work = sum(by_component).reshape(points.volume.shape)
        if flow.problem.heated and flow.dim == 2:
            X, Y = pi * at_points(flow, state.x)
            cos = a.xp.cos
            work = work + points.volume * (3 / 8 * pi) * (cos(3 * X) * cos(Y) - cos(X) * cos(3 * Y))
        return self._solve_thermal(a.matmul(work, flow.thermal))
