"""Initial fields, masses and mass matrices of a flow: all that is computed once, at time zero."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
import scipy.sparse

from . import mesh as meshes
from . import tables as spaces
from .arrays import Array, Arrays
from .problems import Problem

_ALIGNED = 4  # entries of a row, 32 bytes: cuBLAS is slower with rows that start elsewhere


class State(NamedTuple):
    """The unknowns."""

    x: Array  # (nodes, dim) positions
    v: Array  # (nodes, dim) velocities
    e: Array  # (zones, functions) Bernstein coefficients of the specific internal energy

    def moved(self, by: float, rates: State) -> State:
        """The state plus a multiple of rates."""
        return State(*(one + by * rate for one, rate in zip(self, rates, strict=True)))


@dataclass(frozen=True)
class Flow:
    """A problem on a mesh, as arrays of one library.

    Fields of a zone have `width` places: its nodes, and on GPUs up to three zeros, so that rows of tall matrices start
    at multiples of 32 bytes.
    """

    arrays: Arrays
    problem: Problem
    order: int
    mesh: meshes.Mesh
    tables: spaces.Tables
    state: State  # at time zero
    gathers: Array  # (dim zones, width): places of the zones' nodes in a flat field, component by component
    free: Array  # (nodes, dim)
    values: Array  # (width, points): table of values, on the device
    gradients: Array  # (width, points dim): table of derivatives
    to_forces: Array  # (points dim, width): the same, transposed
    thermal: Array  # (points, functions)
    weights: Array
    gamma: Array  # (zones, 1)
    mass: Array  # (zones, points): density times volume, which moves with the points
    inverse_start: Array  # (zones, dim, dim): J^-T at time zero, one for all points of a zone, which is a box then
    length: float  # of a zone, by one degree
    kinematic_mass: scipy.sparse.csr_matrix  # M_V of one component
    thermal_mass: np.ndarray  # (zones, functions, functions): M_E
    to_nodes: scipy.sparse.csr_matrix  # (nodes dim, dim zones width): sums over the zones that share a node

    @property
    def dim(self) -> int:
        return self.mesh.dim


def prepare(
    problem: Problem, dim: int = 2, refine: int = 0, order: int = 2, arrays: Arrays | None = None, mesh: str = "",
    blast_energy: float = 1.0, stacked: int = 1,
) -> Flow:  # fmt: skip
    """The flow at time zero; on `stacked` meshes, one above the other."""
    arrays = arrays or Arrays()
    grid = meshes.build(mesh or problem.mesh_name(dim), refine, order, stacked)
    tables = spaces.build(grid.dim, order)
    corners = grid.nodes[grid.zones]  # (zones, nodes, dim)
    sampled = np.einsum("pi,zia->zpa", tables.to_points, corners)
    if problem.blast:
        energy = _blast(grid, order - 1, blast_energy / 2**grid.dim)
    else:
        energy = problem.energy(sampled) @ tables.to_bernstein.T
    transposed = (tables.gradients @ corners).reshape(len(corners), -1, grid.dim, grid.dim)  # J^T at all points
    volume = tables.weights * np.linalg.det(transposed)
    density = problem.density(sampled) @ tables.to_bernstein.T @ tables.thermal.T
    exact = volume * problem.density(tables.kinematic @ corners)
    put, nodes = arrays.array, grid.zones.shape[1]
    width = -(-nodes // _ALIGNED) * _ALIGNED if arrays.on_gpu else nodes
    places = components(grid.zones, grid.dim, width)
    gradients = _padded(tables.gradients.T, width)
    return Flow(
        arrays, problem, order, grid, tables,
        State(put(grid.nodes), put(problem.velocity(grid.nodes) * grid.free), put(energy)),
        gathers=put(places), free=put(grid.free), values=put(_padded(tables.kinematic.T, width)),
        gradients=put(gradients), to_forces=put(gradients.T.copy()), thermal=put(tables.thermal),
        weights=put(tables.weights),
        gamma=put(problem.gamma(np.einsum("i,zia->za", tables.centre, corners))[:, None]),
        mass=put(volume * density), inverse_start=put(np.linalg.inv(transposed[:, 0])),
        length=float((volume.sum() / len(corners)) ** (1 / grid.dim) / order),
        kinematic_mass=kinematic_mass(grid, exact, tables), to_nodes=assembly(places, grid.nodes.size, nodes),
        thermal_mass=np.einsum("zq,qi,qj->zij", exact, tables.thermal, tables.thermal, optimize=True),
    )  # fmt: skip


def _blast(grid: meshes.Mesh, degree: int, energy: float) -> np.ndarray:
    """Sedov: one coefficient, that of the corner at the origin, in each zone that has this corner."""
    nearest = [int(np.argmin(np.abs(lines))) for lines in grid.lines]
    found, volume = np.zeros((prod(grid.counts), (degree + 1) ** grid.dim)), 0.0
    for upper in product((0, 1), repeat=grid.dim):  # the origin is the lower or the upper end along each axis
        at = [near - up for near, up in zip(nearest, upper, strict=True)]
        if all(0 <= i < count for i, count in zip(at, grid.counts, strict=True)):
            zone = int(np.ravel_multi_index(at, grid.counts, order="F"))
            found[zone, sum(up * degree * (degree + 1) ** axis for axis, up in enumerate(upper))] = 1
            volume += prod((lines[i + 1] - lines[i]) / (degree + 1) for lines, i in zip(grid.lines, at, strict=True))
    return found * (energy / volume)


def components(zones: np.ndarray, dim: int, width: int) -> np.ndarray:
    """Places of the zones' nodes in a flat field (nodes dim): (dim zones, width), component by component."""
    padded = np.pad(zones, ((0, 0), (0, width - zones.shape[1])))
    return (padded * dim + np.arange(dim)[:, None, None]).reshape(-1, width)


def _padded(table: np.ndarray, rows: int) -> np.ndarray:
    """A table with rows of zeros appended."""
    return np.pad(table, ((0, rows - len(table)), (0, 0)))


def assembly(places: np.ndarray, unknowns: int, nodes: int) -> scipy.sparse.csr_matrix:
    """The transpose of the gather: fields of zones, summed at the nodes."""
    rows = places[:, :nodes].ravel()
    columns = np.arange(places.size).reshape(places.shape)[:, :nodes].ravel()
    return scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(unknowns, places.size))


def kinematic_mass(grid: meshes.Mesh, density: np.ndarray, tables: spaces.Tables) -> scipy.sparse.csr_matrix:
    blocks = np.matmul(tables.kinematic.T * density[:, None, :], tables.kinematic)  # (zones, nodes, nodes)
    zones = grid.zones.astype(np.int32)  # SciPy sorts short integers in half the time
    rows, columns = (np.broadcast_to(zones[index], blocks.shape) for index in (np.s_[:, :, None], np.s_[:, None, :]))
    return scipy.sparse.csr_matrix(
        (blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(len(grid.nodes),) * 2
    )  # fmt: skip


def energies(flow: Flow, state: State) -> tuple[float, float]:
    """Internal and kinetic energy."""
    a = flow.arrays
    internal = (flow.mass * a.matmul(state.e, flow.thermal.T)).sum()
    v = at_points(flow, state.v)
    return float(internal), float((flow.mass * sum(one * one for one in v)).sum() / 2)


def at_points(flow: Flow, field: Array) -> Array:
    """Values of a nodal vector field at all points: (dim, zones, points), by one tall product."""
    a = flow.arrays
    return a.matmul(a.gather(field, flow.gathers), flow.values).reshape(flow.dim, *flow.mass.shape)


def norm(flow: Flow, state: State) -> float:
    """Euclidean norm of the energy's coefficients, by which codes of this method are compared."""
    e = flow.arrays.numpy(state.e)
    return float(np.sqrt(np.vdot(e, e)))
