"""Linear elasticity on a box of trilinear finite elements: three unknowns per node, 81 entries in a row inside.

Integrals over a box are products of integrals along its axes, so the stiffness matrix is a sum of Kronecker products of
tridiagonal matrices: mass, stiffness, and the one that differentiates only one of its two functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..arrays.types import SparseMatrix
from .matrices_grid import checked_shape, grid

# Integrals over [0, 1] of products of the two linear functions of an element, or of their derivatives; [row][column].
_MASS = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6
_STIFFNESS = np.array([[1.0, -1.0], [-1.0, 1.0]])
_SLOPE = np.array([[-0.5, -0.5], [0.5, 0.5]])  # the row's function differentiated, the column's not


def elasticity(shape: Sequence[int], *, poisson: float = 0.3, dtype: Any = np.float64, xp: Any = np) -> SparseMatrix:
    """The stiffness matrix of a free elastic body: a box of trilinear elements (unit cubes) with nx x ny x nz nodes.

    Displacement c (x, y, z) of node (i, j, k) is row 3 (i + nx (j + ny k)) + c. Young's modulus is 1. All 81 couplings
    of a node with its neighbours are entries, also those that vanish by symmetry. The matrix is symmetric and positive
    semidefinite; translations and small rotations of the body, six vectors, span its null space.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.elasticity((3, 3, 3))
    >>> A.shape, int((A.indptr[1:] - A.indptr[:-1]).max())
    ((81, 81), 81)
    """
    shape = _nodes(shape)
    if not -1.0 < poisson < 0.5:
        raise ValueError(f"poisson={poisson}: a ratio is between -1 and 0.5")
    steps = list(product((-1, 0, 1), repeat=3))
    offsets = [(delta, *step) for step in steps for delta in range(-2, 3)]
    blocks = _blocks(poisson)
    table = np.zeros((27, 3, len(steps), 5))
    for row, column in product(range(3), repeat=2):
        table[:, row, :, column - row + 2] = blocks[row, column]

    def kind(place: list[Any]) -> Any:
        states = [(at > 0) + (at == extent - 1) * 1 for at, extent in zip(place[1:], shape, strict=True)]
        return ((states[0] * 3 + states[1]) * 3 + states[2]) * 3 + place[0]

    return grid((3, *shape), offsets, table.reshape(81, -1), kind=kind, dtype=dtype, xp=xp)


def elasticity_entries(shape: Sequence[int]) -> int:
    """Number of entries of `elasticity(shape)`.

    >>> import mansard as ms
    >>> ms.sparse.matrices.elasticity_entries((3, 4, 5)) == ms.sparse.matrices.elasticity((3, 4, 5)).nnz
    True
    """
    return 9 * prod(3 * extent - 2 for extent in _nodes(shape))


def _nodes(shape: Sequence[int]) -> tuple[int, ...]:
    shape = checked_shape(shape)
    if len(shape) != 3 or min(shape) < 2:
        raise ValueError(f"shape {shape}: elements need at least two nodes along each of three axes")
    return shape


def _along(element: Any) -> Any:
    """Rows of the assembled tridiagonal matrix [state][step]: the node at the low end, one inside, one at the high."""
    low, high = np.array([0.0, *element[0]]), np.array([*element[1], 0.0])
    return np.array([low, low + high, high])


def _blocks(poisson: float) -> Any:
    """Entries [row's component][column's][node's state, of 27][step, of 27]; states and steps count x slowest."""
    lame, shear = poisson / ((1 + poisson) * (1 - 2 * poisson)), 1 / (2 * (1 + poisson))
    mass, stiffness = _along(_MASS), _along(_STIFFNESS)
    slopes = _along(_SLOPE), _along(_SLOPE.T)

    def integral(row: int, column: int) -> Any:
        """Of d/d(row) of the row's function times d/d(column) of the column's."""
        axes = [mass, mass, mass]
        if row == column:
            axes[row] = stiffness
        else:
            axes[row], axes[column] = slopes
        return np.einsum("ai,bj,ck->abcijk", *axes).reshape(27, 27)

    gradients = shear * sum(integral(axis, axis) for axis in range(3))
    found = np.empty((3, 3, 27, 27))
    for row, column in product(range(3), repeat=2):
        found[row, column] = lame * integral(row, column) + shear * integral(column, row)
        found[row, column] += gradients if row == column else 0.0
    return found
