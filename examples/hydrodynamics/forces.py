"""Corner forces: the acceleration of nodes and the rate of the energy.

The matrix of corner forces of a zone, F = A Be with A from the stress and the gradients, is never formed: both products
with it that the method needs act on the stress at the points.
"""

from __future__ import annotations

from functools import cached_property
from math import pi

from .arrays import Array
from .points import Points, derivatives
from .start import Flow, State


class Forces:
    """Solves for the rates of velocity and energy. Iterations are counted; `seconds` belong to whoever keeps time."""

    def __init__(self, flow: Flow, tolerance: float = 1e-8, most: int = 300) -> None:
        a, self.flow, self.tolerance, self.most = flow.arrays, flow, tolerance, most
        self.iterations = 0
        self._mass = a.sparse(flow.kinematic_mass)
        self._sum = a.sparse(flow.to_nodes)
        self._inverse_diagonal = a.array(1 / flow.kinematic_mass.diagonal())[:, None]
        self._solve_thermal = a.solver(a.array(flow.thermal_mass))
        self._transposed = a.array(flow.tables.gradients.T.copy())

    @cached_property
    def _weight(self) -> Array:
        """M_V times one, which gravity pulls at."""
        flow = self.flow
        return flow.arrays.array(flow.kinematic_mass @ (0 * flow.mesh.nodes[:, 0] + 1))

    def load(self, points: Points) -> Array:
        """-F 1 summed at the nodes, without what the walls bear: (nodes, dim)."""
        flow = self.flow
        of_zones = flow.arrays.matmul(self._transposed, points.stress)
        total = -self._sum(of_zones.reshape(-1, flow.dim))
        if flow.problem.gravity:
            total[:, 1] -= self._weight
        return total * flow.free

    def acceleration(self, load: Array) -> Array:
        """dv/dt = M_V^-1 load by conjugate gradients, all components at once, each with its own steps.

        A component stops when its residual has fallen by the tolerance, in the norm of the diagonal; the ones after it
        go on. Steps of one that has stopped are zero, so that a look at the residuals every few iterations suffices.
        """
        free, scale = self.flow.free, self._inverse_diagonal
        x, r = self.flow.arrays.zeros_like(load), load
        z = scale * r
        d, size = z, (z * r).sum(0)
        stop = size * self.tolerance**2
        for iteration in range(1, self.most + 1):
            going = size > stop
            q = self._mass(d) * free
            step = going * size / ((d * q).sum(0) + ~going)
            x = x + step * d
            r = r - step * q
            z = scale * r
            after = (r * z).sum(0)
            d = z + (after / (size + ~going)) * d
            size = after * going
            if iteration % _LOOK == 0 and not bool((size > stop).any()):
                break
        else:
            if bool((size > stop).any()):
                worst = float((size / (stop + (stop == 0))).max()) ** 0.5 * self.tolerance
                raise RuntimeError(
                    f"conjugate gradients: after {self.most} iterations a residual is {worst:.1e} of the load's, "
                    f"beyond {self.tolerance:.0e}; a longer --cg-iterations or a looser --cg-tolerance may do"
                )
        self.iterations += iteration
        return x

    def heating(self, state: State, points: Points, velocity: Array | None = None) -> Array:
        """de/dt = M_E^-1 F^T v; of another velocity than the state's, if one is given."""
        flow = self.flow
        a = flow.arrays
        slopes = points.slopes if velocity is None else derivatives(flow, velocity).reshape(points.slopes.shape)
        work = (points.stress * slopes).reshape(len(slopes), -1, flow.dim * flow.dim).sum(-1)
        if flow.problem.heated and flow.dim == 2:
            x = a.matmul(flow.values, state.x[flow.zones])
            X, Y = x[..., 0] * pi, x[..., 1] * pi
            cos = a.xp.cos
            work = work + points.volume * (3 / 8 * pi) * (cos(3 * X) * cos(Y) - cos(X) * cos(3 * Y))
        return self._solve_thermal(a.matmul(work, flow.thermal))


_LOOK = 4  # iterations between two looks at the residuals: a device is waited for then
