"""`mpiexec -n 2 python -m examples.hydrodynamics.ranks`: zones divided among ranks.

A rank has consecutive zones, slabs of the mesh, and the nodes of these zones. Nodes between slabs are on several ranks,
with the same values on each: what zones add to them is summed in the order of ranks, everywhere alike. An inner product
counts a node where its lowest rank has it, and sums travel in rank order. So runs are reproducible bit by bit, and
energies are the same to rounding on any number of ranks. Every rank prepares the whole mesh before it takes its part.

Messages: an exchange of shared nodes for every load and every iteration of conjugate gradients, two sums for each such
iteration, and one message for the time step. On GPUs values of shared nodes and sums travel through host memory, so
iterations of several ranks are no CUDA graphs. Rank r takes GPU r modulo their number: several ranks may share one.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mansard.distributed import Communicator

from .__main__ import parser
from .arrays import Array, Arrays
from .conjugate import ConjugateGradients
from .forces import Forces
from .mesh import Mesh
from .points import Points, TangledError, evaluate, longest_step
from .problems import PROBLEMS
from .start import Flow, State, assembly, components, energies, kinematic_mass, norm, prepare
from .steps import Progress, Stepper

_IGNORED = ("checkpoint", "plot")  # options of the program that a run over ranks has not


class Shared:
    """The nodes of this rank: which of them other ranks have, too, and sums over all that have them."""

    def __init__(self, comm: Communicator, zones: np.ndarray, ends: np.ndarray) -> None:
        self.comm = comm
        by_rank = [np.unique(zones[first:last]) for first, last in pairwise(ends)]
        self.nodes = by_rank[comm.rank]
        met = {q: np.intersect1d(self.nodes, one) for q, one in enumerate(by_rank) if q != comm.rank}
        places = {q: np.searchsorted(self.nodes, one) for q, one in met.items() if len(one)}
        self.every = np.unique(np.concatenate([np.zeros(0, np.int64), *places.values()]))  # that are shared
        self._places = {q: np.searchsorted(self.every, one) for q, one in places.items()}  # among these
        lower = [one for q, one in places.items() if q < comm.rank]
        self.is_own = np.ones(len(self.nodes), bool)  # where no lower rank has the node
        self.is_own[np.concatenate([np.zeros(0, np.int64), *lower])] = False

    def summed(self, mine: np.ndarray) -> np.ndarray:
        """Sums of all ranks at the shared nodes, in rank order, the same bits on each; `mine` are this rank's."""
        sends = {q: np.ascontiguousarray(mine[places]) for q, places in self._places.items()}
        receives = {q: np.empty_like(one) for q, one in sends.items()}
        self.comm.exchange(sends, receives).wait()
        total = np.zeros_like(mine)
        for q in sorted([*receives, self.comm.rank]):
            if q == self.comm.rank:
                total += mine
            else:
                total[self._places[q]] += receives[q]
        return total

    def add(self, field: np.ndarray) -> None:
        """Make partial sums at shared nodes (nodes, k) whole, in place."""
        if len(self.every):
            field[self.every] = self.summed(field[self.every])


class RankArrays(Arrays):
    """Arrays of one rank: products with matrices that sum at nodes, and inner products, are those of all ranks."""

    def __init__(self, shared: Shared, library: str = "numpy", engine: str = "mansard") -> None:
        super().__init__(library, engine)
        self.shared, self.records_graphs = shared, self.on_gpu and shared.comm.size == 1
        self._own, self._every = self.array(shared.is_own[:, None]), self.array(shared.every)

    def column_dots(self, a: Array, b: Array) -> Array:
        if self.shared.comm.size == 1:
            return super().column_dots(a, b)
        mine = super().column_dots(self.xp.where(self._own, a, 0.0), b)
        return self.array(self.shared.comm.sum(self.numpy(mine), "inner products"))

    def sparse(self, matrix: Any) -> Any:
        product, nodes = super().sparse(matrix), len(self.shared.nodes)

        def whole(x: Array, y: Array) -> None:
            product(x, y)
            if len(self._every):
                field = y.reshape(nodes, -1)
                field[self._every] = self.array(self.shared.summed(self.numpy(field[self._every])))

        return whole


class RankForces(Forces):
    """Forces of one rank's zones; the mass at shared nodes is that of all ranks."""

    def __init__(self, flow: Flow, tolerance: float, most: int) -> None:
        super().__init__(flow, tolerance, most)
        diagonal = flow.kinematic_mass.diagonal()[:, None]
        flow.arrays.shared.add(diagonal)
        scale = flow.arrays.array(flow.mesh.free / diagonal)
        self.solver = ConjugateGradients(flow.arrays, flow.kinematic_mass, scale, tolerance, most)

    @cached_property
    def _weight(self) -> Array:
        weight = (flow_mass := self.flow.kinematic_mass) @ np.ones((flow_mass.shape[1], 1))
        self.flow.arrays.shared.add(weight)
        return self.flow.arrays.array(weight[:, 0])


class RankStepper(Stepper):
    """Steps of all ranks together: the time step is the shortest that any rank allows."""

    def __init__(self, flow: Flow, comm: Communicator, first: int, *options: Any) -> None:
        super().__init__(flow, *options)
        self.comm, self._first = comm, first  # zone
        _, _, tolerance, most, *_ = options
        self.forces = RankForces(flow, tolerance, most)

    def _points(self, state: State) -> Points:
        points, zone, allowed = None, -1, float("inf")
        with self.clock.phase("points"):
            try:
                points = evaluate(self.flow, state)
            except TangledError as error:
                zone = error.zone + self._first
        with self.clock.phase("time step"):
            if points is not None:
                allowed = longest_step(self.flow, points, self.cfl)
            every = self.comm.gather(np.array([allowed, zone]), "time step")
            if every[:, 1].max() >= 0 or points is None:
                raise TangledError(int(every[:, 1].max()))
            self._allowed = min(self._allowed, float(every[:, 0].min()))
        self.evaluations += 1
        return points


def divided(flow: Flow, comm: Communicator) -> tuple[Flow, int]:
    """This rank's part of a flow that every rank has prepared, and its first zone."""
    count, mesh = len(flow.mesh.zones), flow.mesh
    ends = count * np.arange(comm.size + 1) // comm.size
    if count < comm.size:
        raise ValueError(f"{count} zones for {comm.size} ranks: refine the mesh, or take fewer ranks")
    shared = Shared(comm, mesh.zones, ends)
    first, last = int(ends[comm.rank]), int(ends[comm.rank + 1])
    nodes, part = shared.nodes, slice(first, last)
    zones = np.searchsorted(nodes, mesh.zones[part])
    dim, width = mesh.dim, flow.gathers.shape[1]
    places = components(zones, dim, width)
    own = Mesh(mesh.lines, mesh.nodes[nodes], zones, mesh.free[nodes])
    arrays = RankArrays(shared, flow.arrays.library, flow.arrays.engine)
    here = arrays.array(nodes)
    local = replace(
        flow, arrays=arrays, mesh=own, state=State(flow.state.x[here], flow.state.v[here], flow.state.e[part]),
        gathers=arrays.array(places), free=flow.free[here], gamma=flow.gamma[part], mass=flow.mass[part],
        inverse_start=flow.inverse_start[part], thermal_mass=flow.thermal_mass[part],
        kinematic_mass=_mass_of_zones(flow, own), to_nodes=assembly(places, nodes.size * dim, zones.shape[1]),
    )  # fmt: skip
    return local, first


def _mass_of_zones(flow: Flow, own: Mesh) -> Any:
    """The velocity mass matrix of the zones of one rank."""
    tables, corners = flow.tables, own.nodes[own.zones]
    transposed = (tables.gradients @ corners).reshape(len(corners), -1, flow.dim, flow.dim)
    density = flow.problem.density(tables.kinematic @ corners)
    return kinematic_mass(own, tables.weights * np.linalg.det(transposed) * density, tables)


def total_energies(flow: Flow, comm: Communicator, state: State) -> tuple[float, float, float]:
    """Internal and kinetic energy of all zones, and the norm of the energy's coefficients."""
    parts = np.array([*energies(flow, state), norm(flow, state) ** 2])
    internal, kinetic, squares = comm.sum(parts, "energies")
    return float(internal), float(kinetic), float(np.sqrt(squares))


def run(options: Any, comm: Communicator) -> dict[str, Any]:
    """A run of all ranks together: what came out, and the seconds of the slowest rank by phase."""
    with comm.call("hydrodynamics"):
        arrays = Arrays(options.backend, options.engine)
        arrays.use_device(comm.rank)
        whole = prepare(PROBLEMS[options.problem], options.dim, options.refine, options.order, arrays,
                        blast_energy=options.blast_energy)  # fmt: skip
        flow, first = divided(whole, comm)
    given = (options.integrator, options.cfl, options.cg_tolerance, options.cg_iterations)
    stepper = RankStepper(flow, comm, first, *given)
    progress, final = Progress(flow.state), options.final_time or flow.problem.final_time
    before = sum(total_energies(flow, comm, flow.state)[:2])
    comm.agree("start")
    waited, begin = comm.waiting, time.perf_counter()
    for _ in stepper.run(progress, final, options.steps):
        pass
    spent = [time.perf_counter() - begin, comm.waiting - waited, *stepper.clock.seconds.values()]
    slowest = comm.gather(np.array(spent), "seconds").max(axis=0).tolist()
    internal, kinetic, size = total_energies(flow, comm, progress.state)
    return {
        "ranks": comm.size, "steps": progress.step, "time": progress.time, "dt": progress.dt, "energy_norm": size,
        "internal_energy": internal, "kinetic_energy": kinetic, "total_energy_drift": internal + kinetic - before,
        "cg_iterations": stepper.forces.solver.iterations, "zones": len(whole.mesh.zones),
        "seconds": dict(zip(["all", "waiting", *stepper.clock.seconds], slowest, strict=True)),
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run on all ranks of the launch; rank 0 prints a line of JSON."""
    made = parser()
    made.prog = "python -m examples.hydrodynamics.ranks"
    options = made.parse_args(arguments)
    if given := [name for name in _IGNORED if getattr(options, name) is not None]:
        made.error(f"--{given[0]}: runs over ranks write none; leave it out, or run examples.hydrodynamics")
    comm = Communicator.of()
    try:
        found = run(options, comm)
    except (ValueError, RuntimeError, ImportError, MemoryError) as error:
        print(f"hydrodynamics: rank {comm.rank}: {error}", file=sys.stderr)
        return 1
    if comm.rank == 0:
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
