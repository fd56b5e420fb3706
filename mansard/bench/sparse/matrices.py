"""The matrices that sparse products and powers are measured with: those of Panzlaff's table 4.3 that can be generated,
at his sizes or scaled from them. Values are random, so that what memory carries looks like data and powers neither grow
nor vanish."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import UsageError
from ...sparse import io as matrices_file
from ...sparse import matrices


class Kind(NamedTuple):
    """How a matrix is made, its full size, and what is known about it beforehand."""

    make: Callable[..., Any]  # of its extents, dtype= and xp=
    shape: tuple[int, ...]
    entries: int  # of a row, about
    rows_each: float = 1.0  # rows per point of the shape
    slow: bool = False  # formed on the host, which takes a while
    regular: bool = True  # all rows inside are alike


def _scale(shape: tuple[int, ...], **more: Any) -> Any:
    """A Kronecker graph with the power of two that is nearest."""
    return matrices.kronecker(max(2, round(np.log2(shape[0]))), 16, seed=1, **more)


MATRICES: dict[str, Kind] = {
    "band-7": Kind(lambda shape, **more: matrices.band(shape[0], 7, **more), (1 << 24,), 7),
    "band-27": Kind(lambda shape, **more: matrices.band(shape[0], 27, **more), (1 << 22,), 27),
    "7pt": Kind(lambda shape, **more: matrices.stencil(7, shape, **more), (256, 256, 256), 7),
    "27pt": Kind(lambda shape, **more: matrices.stencil(27, shape, **more), (128, 128, 256), 27),
    "125pt": Kind(lambda shape, **more: matrices.stencil(125, shape, **more), (100, 100, 108), 125),
    "elasticity": Kind(lambda shape, **more: matrices.elasticity(shape, **more), (80, 80, 86), 81, rows_each=3.0),
    "HPCG": Kind(lambda shape, **more: matrices.hpcg(shape, **more)[0], (128, 128, 128), 27),
    "graphene": Kind(lambda shape, **more: matrices.graphene(*shape, **more), (4096, 4096), 13),
    "topological": Kind(
        lambda shape, **more: matrices.topological_insulator(shape, **more), (128, 128, 128), 12, rows_each=4.0
    ),
    "Anderson": Kind(lambda shape, **more: matrices.anderson(shape, seed=1, **more), (256, 256, 256), 7),
    "channel": Kind(lambda shape, **more: matrices.channel(shape, **more), (500, 98, 98), 18),
    "delaunay": Kind(
        lambda shape, **more: matrices.delaunay(shape[0], seed=1, **more), (1 << 21,), 6, slow=True, regular=False
    ),
    "Kronecker": Kind(_scale, (1 << 20,), 30, regular=False),
    "road": Kind(
        lambda shape, **more: matrices.roads(shape[0], seed=1, **more), (1448, 1448), 2, 4.0, slow=True, regular=False
    ),
}
# matrices of random problems besides: rows of random columns, few of them long, and blocks of three unknowns
_DRAWN: dict[str, Kind] = {
    "random": Kind(lambda shape, **more: _scattered(shape[0], 16, **more), (1 << 22,), 16, slow=True, regular=False),
    "power law": Kind(lambda shape, **more: _scattered(shape[0], 0, **more), (1 << 22,), 6, slow=True, regular=False),
    "blocks": Kind(lambda shape, **more: _blocks(shape, **more), (96, 96, 96), 21, rows_each=3.0, slow=True),
}
KINDS = MATRICES | _DRAWN
FULL = 1 << 27  # entries for which all have their full size, about


@cache
def kind_of(name: str) -> Kind:
    """The matrix of that name, or of a Matrix Market file, whose leading rows and columns stand for smaller ones."""
    if name in KINDS:
        return KINDS[name]
    read = cache(lambda: matrices_file.read(name).tocsr())
    rows, columns = read().shape
    if rows != columns:
        raise UsageError(f"--matrix {name}: powers need a square matrix, and this one is {rows} x {columns}")

    def leading(shape: tuple[int, ...], dtype: Any, xp: Any) -> Any:
        return read()[: shape[0], : shape[0]].astype(dtype)

    return Kind(leading, (rows,), round(read().nnz / max(1, rows)), slow=True, regular=False)


def is_file(name: str) -> bool:
    return name not in KINDS and Path(name).is_file()


def nominal_rows(name: str, entries: int) -> int:
    """Rows of the matrix, given how many entries the largest one may have; a file has as many as it has."""
    kind = kind_of(name)
    if name not in KINDS:
        return kind.shape[0]
    return max(1, round(prod(kind.shape) * kind.rows_each * min(1.0, entries / FULL)))


def make(name: str, rows: int, dtype: str, xp: Any) -> Any:
    """Generate the matrix with about `rows` rows as CSR, on the device of `xp`."""
    kind = kind_of(name)
    share = (rows / (prod(kind.shape) * kind.rows_each)) ** (1 / len(kind.shape))
    shape = tuple(max(3, round(extent * share)) for extent in kind.shape)
    A = kind.make(shape, dtype=np.dtype(dtype), xp=np if kind.slow else xp)
    if kind.slow and xp is not np:
        from cupyx.scipy.sparse import csr_matrix

        A = csr_matrix(A)
    return matrices.randomized(A, seed=3)


def _scattered(rows: int, entries: int, dtype: Any, xp: Any) -> Any:
    """Rows with random columns: `entries` in each, or, where that is 0, a number that follows a power law."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(1)
    counts = np.full(rows, entries) if entries else np.floor(2 * (1 - rng.random(rows)) ** (-1 / 1.5)).astype(np.int64)
    counts = np.minimum(counts, rows)
    of_row = np.repeat(np.arange(rows), counts)
    found = csr_matrix((np.ones(len(of_row), dtype), (of_row, rng.integers(0, rows, len(of_row)))), (rows, rows))
    found.sum_duplicates()
    return found


def _blocks(shape: tuple[int, ...], dtype: Any, xp: Any) -> Any:
    """A stencil of 7 points whose entries are 3 x 3 blocks, as of displacements in elasticity."""
    from scipy.sparse import kron

    points = matrices.stencil(7, shape, dtype=np.float64)
    return kron(points, np.ones((3, 3)), "csr").astype(dtype)
