"""Cases of `mansard bench factor`: batched factorizations, systems, inverses, determinants, eigenvalues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from ...plan.problem import DTYPES, ITEMSIZE
from ..batched.routines import count
from ..cases import Case, Sets, Size
from .operations import FACTORS, RAGGED, REDUCTIONS, SPECTRAL, TWO_SIDED

SIZES = (*range(2, 34), 40, 41, 48, 49, 56, 57, 64, 65, 80, 96, 97, 112, 128, 192, 256, 384, 512)
_SOME = (2, 4, 8, 13, 16, 24, 32, 48, 64, 128, 256)  # of other dtypes, unless they are asked for
_QUICK = (4, 8, 16, 32, 64, 128)
_OPERAND, _MOST = 1 << 30, 1 << 25  # bytes of the matrices on a GPU, and their number
_SMALL = ("solve", "determinant", "eigvalsh", "svdvals", *REDUCTIONS)  # operations whose results are no matrices
_OPERANDS = {"qrq": 3.0, "svd": 3.0} | dict.fromkeys(_SMALL, 1.0)  # of n x n
# matrices of a two-sided factorization on a GPU beyond 32 and 64 rows, for a thread each to hide its chain of steps
_IN_FLIGHT = ((64, 12_672), (32, 33_792))
# sizes of the set two_sided in the order in which they are measured: what a time limit leaves out comes last
_FIRST, _MORE, _LAST = (33, 64, 128, 96, 32, 16, 8, 4), (48, 40, 56, 80, 112, 24, 2, 3), (192, 256)
_REDUCED = (32, 64, 96, 128)
_FEW_SIZES, _OTHER_SIZES = (32, 64, 128, 16), (32, 64, 8, 128)
_BATCHES = (128, 1024, 8192, 1)
_ON_CHIP = 128  # rows of a matrix that one multiprocessor holds
_ON_CPUS = 1 << 25  # n^3 of all matrices of an eigenvalue problem on CPUs: tens of milliseconds on two cores
_ONE = 8
_LARGEST = 64  # of ragged batches


def batch(size: Size, dtype: str, operation: str, elements: float) -> int:
    """How many matrices of so many elements, out of cache: 1 GiB of them on GPUs; on CPUs, together with the results,
    four times the last cache."""
    if size.backend == "cuda":
        found = min(size.elements[dtype], _OPERAND // ITEMSIZE[dtype]) / elements
        least = next((count for rows, count in _IN_FLIGHT if elements > rows * rows), 0)
        if operation in SPECTRAL and size.elements[dtype] >= least * elements and elements <= _ON_CHIP**2:
            found = max(found, least)
    else:
        operands = _OPERANDS.get(operation, 2.0)
        found = count(size, dtype, operands * elements)
        found = min(found, int(_ON_CPUS / elements**1.5)) if operation in SPECTRAL else found
    return max(1, min(_MOST, int(found)))


def squares(
    name: str, size: Size, operations: Iterable[str], sizes: Iterable[int], dtypes: Iterable[str], **options: Any
) -> list[Case]:  # fmt: skip
    return [
        Case(name, dtype, n, 1, batch(size, dtype, operation, n * n), operation=operation, **options)
        for dtype, operation, n in product(dtypes, operations, sizes)
    ]


def quick(size: Size) -> list[Case]:
    """All operations on float64, the sizes that tell most."""
    return squares("quick", size, FACTORS, _QUICK, ("float64",))


def two_sided(size: Size) -> list[Case]:
    """Eigenvalues, singular values and reductions: 18 sizes of float64, others at four, and batches of 1 to 8192."""
    name, real = "two_sided", ("float64",)
    found = [one for n in _FIRST for one in squares(name, size, TWO_SIDED, (n,), real)]
    found += squares(name, size, REDUCTIONS, _REDUCED, real) + [replace(case, set=name) for case in few(size)]
    found += [one for n in _MORE for one in squares(name, size, TWO_SIDED, (n,), real)]
    found += squares(name, size, TWO_SIDED, _OTHER_SIZES, ("complex128", "float32"))
    return found + squares(name, size, SPECTRAL, _LAST, real)


def few(size: Size) -> list[Case]:
    """Eigenvectors and singular vectors of 1, 128, 1024 and 8192 matrices of 16 to 128 rows, which caches may hold."""
    return [
        Case("few", "float64", n, 1, count, temperature="hot", operation=operation)
        for count, n, operation in product(_BATCHES, _FEW_SIZES, ("eigh", "svd"))
        if count * n * n <= size.elements["float64"]
    ]  # fmt: skip


def one(size: Size) -> list[Case]:
    """One 8 x 8 system, called from Python: what a call costs."""
    return [Case("one", "float64", _ONE, 1, 1, mode="eager", temperature="hot", operation="solve")]


def ragged(size: Size) -> list[Case]:
    """Cholesky and solve of matrices of any size from 1 to 64, beside equal ones of the same work."""
    elements = (_LARGEST + 1) * (2 * _LARGEST + 1) / 6  # on average
    return [
        Case("ragged", "float64", _LARGEST, 1, batch(size, "float64", operation, elements), operation=operation,
             form=RAGGED)
        for operation in ("cholesky", "solve")
    ]  # fmt: skip


_ABOUT = {
    "cholesky": "Cholesky factors",
    "lu": "LU with partial pivoting: factors and pivots",
    "qr": "QR: R and reflectors",
    "qrq": "QR: Q and R",
    "solve": "General systems with one right-hand side, factors not kept",
    "inverse": "Inverses",
    "determinant": "Determinants",
    "eigh": "Eigenvalues and eigenvectors of Hermitian matrices",
    "eigvalsh": "Eigenvalues of Hermitian matrices",
    "svd": "Singular values and vectors",
    "svdvals": "Singular values",
    "tridiagonalize": "Diagonals of tridiagonal matrices",
    "bidiagonalize": "Diagonals of bidiagonal matrices",
}


def _set_of(operation: str) -> Callable[[Size], list[Case]]:
    """The set of an operation: float64 at every size, other dtypes at some, or at every one if they are asked for."""

    def cases(size: Size) -> list[Case]:
        others = [dtype for dtype in DTYPES if dtype != "float64"]
        found = squares(operation, size, (operation,), SIZES, ("float64",))
        return found + squares(operation, size, (operation,), SIZES if size.every else _SOME, others)

    cases.__name__ = operation
    cases.__doc__ = f"{_ABOUT[operation]}, every size from 2 to 32 and some to 512; other dtypes at fewer."
    return cases


SETS: Sets = {function.__name__: function for function in (quick, *map(_set_of, FACTORS), one, ragged, two_sided, few)}
