"""Hamiltonians: graphene, a topological insulator, Anderson's model of localisation, spin chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, prod
from typing import Any

import numpy as np

from ..arrays.types import SparseMatrix
from .matrices_grid import grid, joined, uniform

_T1, _T2, _T3 = -1.0, -0.1 / 2.78, -0.095 / 2.78  # graphene: first, second and third neighbours, of 2.78 eV


def graphene(
    length: int, width: int, *, disorder: float = 0.0, seed: int = 0, dtype: Any = np.float64, xp: Any = np
) -> SparseMatrix:
    """Tight-binding model of a graphene ribbon with hops to third neighbours: 13 entries a row, open boundaries.

    Site (l, w) is row l * width + w; `disorder` adds a potential uniform in [-disorder, disorder].

    >>> import mansard as ms
    >>> H = ms.sparse.matrices.graphene(16, 16)
    >>> H.shape, int((H.indptr[1:] - H.indptr[:-1]).max())
    ((256, 256), 13)
    """
    even = {(0, 0): 3 * _T3, (1, 0): _T1, (-1, 0): _T1, (2, 0): _T2, (-2, 0): _T2}
    even |= dict.fromkeys([(1, 1), (-1, 1), (1, -1), (-1, -1)], _T2)
    odd = even | {(0, -1): _T3, (0, 1): _T1, (2, 1): _T3, (-2, 1): _T3}
    even |= {(0, -1): _T1, (0, 1): _T3, (2, -1): _T3, (-2, -1): _T3}
    offsets = sorted(even | odd)
    table = [[hops.get(offset, 0.0) for offset in offsets] for hops in (even, odd)]
    present = [[offset in hops for offset in offsets] for hops in (even, odd)]
    return grid(
        (width, length), offsets, table, present=present, kind=lambda place: (place[0] + place[1]) & 1,
        diagonal=_potential(xp, disorder, seed), dtype=dtype, xp=xp,
    )  # fmt: skip


def anderson(
    shape: Sequence[int], *, disorder: float = 16.5, hop: float = 1.0, periodic: bool = False, seed: int = 0,
    dtype: Any = np.float64, xp: Any = np,
) -> SparseMatrix:  # fmt: skip
    """Anderson's model of localisation: -hop between nearest neighbours of a grid, a random potential on the diagonal.

    The potential is uniform in [-disorder, disorder].

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.anderson((4, 4), disorder=2.0)
    >>> A.shape, A[0, 1], bool(abs(A.diagonal()).max() <= 2)
    ((16, 16), np.float64(-1.0), True)
    """
    axes = len(shape)
    offsets = np.concatenate([np.zeros((1, axes), int), np.eye(axes, dtype=int), -np.eye(axes, dtype=int)])
    table = [0.0, *[-hop] * (2 * axes)]
    potential = _potential(xp, disorder, seed)
    return grid(shape, offsets, table, periodic=periodic, diagonal=potential, dtype=dtype, xp=xp)


def topological_insulator(
    shape: Sequence[int], *, mass: float | None = None, disorder: float = 0.0, seed: int = 0, hop: float = 1.0,
    dtype: Any = np.complex128, xp: Any = np,
) -> SparseMatrix:  # fmt: skip
    """A three-dimensional topological insulator: four orbitals a site, hops -hop (G1 -+ i G_j) / 2, open boundaries.

    The orbitals of a site are adjacent, then its first axis. With `mass` or `disorder` there is a diagonal of
    mass * G1 + V; without there is none. A real dtype takes the sum of real and imaginary part of every hop forward and
    its transpose backward: the same pattern, symmetric.

    >>> import mansard as ms
    >>> H = ms.sparse.matrices.topological_insulator((3, 3, 3), mass=1.0)
    >>> H.shape, bool(abs(H - H.conj().T).max() == 0)
    ((108, 108), True)
    """
    if len(shape) != 3:
        raise ValueError(f"shape {tuple(shape)}: the model has three dimensions")
    real = np.dtype(dtype).kind != "c"
    first, others = _gammas()
    hops: dict[tuple[int, ...], Any] = {}
    for axis, gamma in enumerate(others):
        forward = -hop * (first - 1j * gamma) / 2
        forward = (forward.real + forward.imag).astype(complex) if real else forward
        step = [0, 0, 0]
        step[axis] = -1  # rows take from the site behind what came forward from there
        hops[tuple(step)] = forward
        step[axis] = 1
        hops[tuple(step)] = forward.conj().T
    onsite = mass is not None or disorder != 0
    if onsite:
        hops[0, 0, 0] = (mass or 0.0) * first
    offsets = [(delta, *step) for step, delta in product(hops, range(-3, 4))]
    table = np.zeros((4, len(offsets)), complex)
    present = np.zeros(table.shape, bool)
    for orbital, (k, (delta, *step)) in product(range(4), enumerate(offsets)):
        if 0 <= orbital + delta < 4:
            table[orbital, k] = hops[tuple(step)][orbital, orbital + delta]
            present[orbital, k] = table[orbital, k] != 0 or not any((delta, *step))
    return grid(
        (4, *shape), offsets, table.real if real else table, present=present, kind=lambda place: place[0],
        diagonal=_potential(xp, disorder, seed, 4) if onsite else None, dtype=dtype, xp=xp,
    )  # fmt: skip


def spin_chain(
    sites: int, up: int, *, coupling: float = 1.0, anisotropy: float = 1.0, dtype: Any = np.float64, xp: Any = np
) -> SparseMatrix:
    """Heisenberg's XXZ chain of `sites` spins, open ends, in the sector with `up` spins up.

    Off the diagonal coupling / 2 exchanges two neighbours that differ. The diagonal is anisotropy * coupling / 4 times
    the number of equal neighbours less that of different ones.

    >>> import mansard as ms
    >>> ms.sparse.matrices.spin_chain(2, 1).toarray()
    array([[-0.25,  0.5 ],
           [ 0.5 , -0.25]])
    """
    if not 0 <= up <= sites <= 40:
        raise ValueError(f"sites={sites}, up={up}: 0 <= up <= sites <= 40")
    states = xp.asarray(_states(sites, up))
    slab = max(1, (1 << 22) // max(1, sites))
    pieces = [
        _spin_rows(xp, states, begin, min(begin + slab, len(states)), sites, coupling, anisotropy)
        for begin in range(0, len(states), slab)
    ]
    return joined(xp, pieces, len(states), np.dtype(dtype))


def _spin_rows(
    xp: Any, states: Any, begin: int, end: int, sites: int, coupling: float, anisotropy: float
) -> tuple[Any, Any, Any]:
    """Entries per row, columns and values of rows begin to end."""
    some, bonds = states[begin:end], range(sites - 1)
    unequal = [((some >> bond) ^ (some >> (bond + 1))) & 1 for bond in bonds]
    own = coupling * anisotropy / 4 * (sites - 1 - 2 * sum(unequal, xp.zeros_like(some)))
    valid = xp.stack([xp.ones_like(some), *unequal], axis=1).astype(bool)
    columns = xp.stack(
        [xp.arange(begin, end), *(xp.searchsorted(states, some ^ (3 << bond)) for bond in bonds)], axis=1
    )
    values = xp.stack([own, *(xp.full(end - begin, coupling / 2) for _ in bonds)], axis=1)
    order = xp.argsort(xp.where(valid, columns, len(states)), axis=1)  # neighbours that are none come last
    columns, values, valid = (xp.take_along_axis(array, order, axis=1) for array in (columns, values, valid))
    return valid.sum(axis=1), columns[valid], values[valid]


def graphene_entries(length: int, width: int) -> int:
    """Number of entries of `graphene(length, width)`.

    >>> import mansard as ms
    >>> ms.sparse.matrices.graphene_entries(8, 8) == ms.sparse.matrices.graphene(8, 8).nnz
    True
    """
    third = sum(
        max(0, width - 2) // 2 + (max(0, width - 2) % 2) * ((line + first) % 2 == parity)
        for line in range(length)
        for parity, inside in ((0, line >= 1), (1, line < length - 1))
        for first in (0, 2)
        if inside
    )
    hops = (2 * max(0, width - 1) + 2 * max(0, width - 2)) * length
    return length * width + hops + (4 * max(0, width - 1) + 2 * width) * (length - 1) + third


def topological_insulator_entries(shape: Sequence[int]) -> int:
    """Number of entries of `topological_insulator(shape)` without a diagonal.

    >>> import mansard as ms
    >>> matrices = ms.sparse.matrices
    >>> matrices.topological_insulator_entries((3, 3, 3)) == matrices.topological_insulator((3, 3, 3)).nnz
    True
    """
    return sum(16 * prod(shape) // extent * (extent - 1) for extent in shape)


def spin_chain_entries(sites: int, up: int) -> int:
    """Number of entries of `spin_chain(sites, up)`.

    >>> import mansard as ms
    >>> ms.sparse.matrices.spin_chain_entries(8, 4) == ms.sparse.matrices.spin_chain(8, 4).nnz
    True
    """
    unequal = 2 * comb(sites - 2, up - 1) if 1 <= up <= sites - 1 else 0
    return comb(sites, up) + (sites - 1) * unequal


def _potential(xp: Any, disorder: float, seed: int, orbitals: int = 1) -> SparseMatrix:
    if not disorder:
        return None

    def potential(begin: int, end: int) -> SparseMatrix:
        first = begin // orbitals
        drawn = uniform(xp, -(-end // orbitals) - first, seed, first)
        return disorder * (2 * xp.repeat(drawn, orbitals)[begin - first * orbitals :][: end - begin] - 1)

    return potential


def _gammas() -> tuple[Any, list[Any]]:
    """Four anticommuting Hermitian 4 x 4 matrices; the first one is diagonal."""
    x, y, z = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])
    return np.kron(z, np.eye(2)), [np.kron(x, pauli) for pauli in (x, y, z)]


def _states(sites: int, up: int) -> SparseMatrix:
    """All bit patterns with `up` bits set, ascending."""
    counts = {0: np.zeros(1, np.int64)}  # patterns of the sites so far, by number of bits
    for site in range(sites):
        without = counts
        counts = {}
        for bits in range(max(0, up - (sites - site - 1)), min(up, site + 1) + 1):
            parts = [without[bits]] if bits in without else []
            parts += [without[bits - 1] | (1 << site)] if bits - 1 in without else []
            counts[bits] = np.concatenate(parts)
    return counts[up]
