"""Meshes of boxes: zones, nodes, and which nodes belong to which zone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tables import gauss_lobatto

_HALVES = (0.0, 0.5, 1.0)
# grid lines along each axis, before refinement
MESHES: dict[str, tuple[tuple[float, ...], ...]] = {
    "segment": (_HALVES,),
    "square": (_HALVES,) * 2,
    "cube": (_HALVES,) * 3,
    "rectangle": (tuple(map(float, range(8))), tuple(map(float, range(4)))),
    "box": ((0.0, 1.0, 3.0, 5.0, 7.0), (0.0, 1.5, 3.0), (0.0, 1.5, 3.0)),
    "vortex": ((-0.5, 0.0, 0.5),) * 2,
    "vortex-3d": ((-0.5, 0.0, 0.5),) * 2 + ((0.0, 0.5),),
    "column": ((0.0, 0.5), (-1.0, -0.5, 0.0, 0.5, 1.0)),
    "column-3d": ((0.0, 0.5), (-1.0, -0.5, 0.0, 0.5, 1.0), (0.0, 0.5)),
}
UNIT = {1: "segment", 2: "square", 3: "cube"}


@dataclass(frozen=True)
class Mesh:
    """Zones that are boxes at first. Along each axis, and in every numbering, x runs fastest."""

    lines: tuple[np.ndarray, ...]  # coordinates of the grid lines along each axis
    nodes: np.ndarray  # (nodes, dim): where they are at first
    zones: np.ndarray  # (zones, nodes of a zone): numbers of nodes
    free: np.ndarray  # (nodes, dim): 0 where a wall stops this component of the velocity, 1 elsewhere

    @property
    def dim(self) -> int:
        return len(self.lines)

    @property
    def counts(self) -> tuple[int, ...]:
        """Zones along each axis."""
        return tuple(len(lines) - 1 for lines in self.lines)


def build(name: str, refine: int, order: int, stacked: int = 1) -> Mesh:
    """A mesh by name, every interval halved `refine` times, with nodes for polynomials of degree `order`.

    `stacked` copies of the mesh follow each other along the last axis: as many times the zones, none of another size.
    """
    *others, last = (np.array(one) for one in MESHES[name])
    length = last[-1] - last[0]
    last = np.append(np.concatenate([last[:-1] + length * copy for copy in range(stacked)]), last[0] + length * stacked)
    lines = tuple(_halved(one, refine) for one in (*others, last))
    along = [_nodes(one, order) for one in lines]
    nodes = np.stack([grid.ravel(order="F") for grid in np.meshgrid(*along, indexing="ij")], axis=1)
    free = np.ones_like(nodes)
    for axis, one in enumerate(lines):
        free[(nodes[:, axis] == one[0]) | (nodes[:, axis] == one[-1]), axis] = 0
    return Mesh(lines, nodes, _zones([len(one) - 1 for one in lines], [len(one) for one in along], order), free)


def _halved(lines: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        lines = np.sort(np.concatenate([lines, (lines[1:] + lines[:-1]) / 2]))
    return lines


def _nodes(lines: np.ndarray, order: int) -> np.ndarray:
    """Gauss-Lobatto points of all intervals, those on grid lines once."""
    inner = lines[:-1, None] + np.diff(lines)[:, None] * gauss_lobatto(order + 1)[:-1]
    return np.append(inner.ravel(), lines[-1])


def _zones(counts: list[int], sizes: list[int], order: int) -> np.ndarray:
    """Node numbers of each zone: along an axis, zone i has the nodes order i to order (i + 1)."""
    zones = np.zeros((1, 1), np.int64)
    stride = 1
    for count, size in zip(counts, sizes, strict=True):
        along = (np.arange(count)[:, None] * order + np.arange(order + 1)) * stride  # (zones, nodes) of this axis
        zones = (along[:, None, :, None] + zones[None, :, None, :]).reshape(count * zones.shape[0], -1)
        stride *= size
    return zones
