"""NumPy's own BLAS by its C interface: products of arrays whose description is known, without NumPy's checks.

NumPy's extension module is linked to a BLAS, which the process has loaded. Its functions are looked up there, under the
names that builds of OpenBLAS give them; where none is found, NumPy multiplies as ever. A product formed this way is the
routine of `numpy.matmul`, in NumPy's threads, with NumPy's bits.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import c_double, c_float, c_int, c_int32, c_int64, c_void_p
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

Routine = Literal["gemm", "gemv", "syrk", "herk"]
ROW, COLUMN = 101, 102  # CBLAS_ORDER
PLAIN, TRANSPOSE, ADJOINT = 111, 112, 113  # CBLAS_TRANSPOSE
UPPER, LOWER = 121, 122  # CBLAS_UPLO
_ROUTINES = ("gemm", "gemv", "syrk", "herk")  # in the order of `native/blas.hpp`
_SPELLINGS = (("scipy_cblas_", "64_"), ("cblas_", "64_"), ("scipy_cblas_", ""), ("cblas_", ""))
_DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_REAL: dict[str, Any] = {"s": c_float, "d": c_double, "c": c_float, "z": c_double}
_EXTENSIONS = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")


class Side(NamedTuple):
    """An operand, or the result, as the routine is handed it. Strides and distances count numbers."""

    operand: int  # 0: A, 1: B, 2: the result
    pitch: int  # between rows or columns, or the increment of a vector
    step: int  # between the matrices of a stack
    gathered: bool  # it is copied before the product, or (the result) after it
    rows: int  # as it is copied: row after row, without gaps
    columns: int
    row: int
    column: int
    conjugated: bool  # while it is copied


class Request(NamedTuple):
    """Products as CBLAS is asked for them."""

    routine: Routine
    letter: str  # of the dtype
    options: tuple[int, int, int]  # gemm: order, two transpositions; gemv: order, one; others: order, triangle, one
    sizes: tuple[int, int, int]  # m, n, k; of gemv m, n of the matrix; of others n, k behind a zero
    sides: tuple[Side, Side, Side]
    batch: int
    triangle: int = 0  # that is written: 0: all, 1: the lower one, 2: the upper one
    mirrored: bool = False  # the other one is filled from it
    turned: bool = False  # what was written is conjugated
    work: float = 0.0  # multiply-adds


class CblasEntry(NamedTuple):
    """Products as data, for the native launcher (`native/blas.hpp`)."""

    backend: str  # "cblas"
    routine: int
    letter: str
    bits: int  # of an integer
    function: int  # address
    options: tuple[int, int, int]
    sizes: tuple[int, int, int]
    sides: tuple[Side, Side, Side]
    batch: int
    triangle: int
    mirrored: bool
    turned: bool
    work: float


class Library(NamedTuple):
    """A loaded BLAS, and how its functions are spelled."""

    handle: Any
    prefix: str
    suffix: str

    @property
    def integer(self) -> Any:
        return c_int64 if self.suffix else c_int32

    def function(self, routine: Routine, letter: str) -> Any:
        """The routine for a dtype, as ctypes calls it."""
        found = getattr(self.handle, f"{self.prefix}{letter}{routine}{self.suffix}")
        if found.argtypes is None:
            found.argtypes, found.restype = _arguments(routine, letter, self.integer), None
        return found


def _arguments(routine: Routine, letter: str, integer: Any) -> tuple[Any, ...]:
    """Types of the arguments: complex factors are passed by their addresses."""
    factor = _REAL[letter] if letter in "sd" or routine == "herk" else c_void_p
    place = (c_void_p, integer)
    if routine == "gemm":
        return (c_int, c_int, c_int, integer, integer, integer, factor, *place, *place, factor, *place)
    if routine == "gemv":
        return (c_int, c_int, integer, integer, factor, *place, *place, factor, *place)
    return (c_int, c_int, c_int, integer, integer, factor, *place, factor, *place)


@lru_cache(maxsize=1)
def library() -> Library | None:
    """The BLAS that NumPy is linked to; None where its functions are not found, or do not multiply as they should."""
    if not sys.platform.startswith("linux"):
        return None  # elsewhere symbols of a module's libraries are not found through the module
    module = next((sys.modules[name] for name in _EXTENSIONS if name in sys.modules), None)
    try:
        handle = ctypes.CDLL(getattr(module, "__file__", "") or "")
    except OSError:
        return None
    for prefix, suffix in _SPELLINGS:
        if hasattr(handle, f"{prefix}dgemm{suffix}"):
            found = Library(handle, prefix, suffix)
            return found if _has_all(found) else None
    return None


def _has_all(found: Library) -> bool:
    """Whether there are all routines, of all dtypes. herk of real numbers is syrk."""
    names = [(routine, letter) for routine in _ROUTINES for letter in ("cz" if routine == "herk" else "sdcz")]
    return all(hasattr(found.handle, f"{found.prefix}{letter}{routine}{found.suffix}") for routine, letter in names)


class CblasLaunch:
    """Products of arrays that lie alike: call it with the addresses of A, B and the result."""

    def __init__(self, blas: Library, request: Request) -> None:
        self._blas, self._request = blas, request
        self._function = blas.function(request.routine, request.letter)
        self._dtype = np.dtype(_DTYPES[request.letter])
        self._held = np.array([1, 0], self._dtype)
        by_address = request.letter in "cz" and request.routine != "herk"
        first = self._held.ctypes.data
        self._one: Any = first if by_address else 1.0
        self._zero: Any = first + self._dtype.itemsize if by_address else 0.0
        is_finished = not (request.mirrored or request.turned or any(side.gathered for side in request.sides))
        self._is_plain = request.routine == "gemm" and request.batch == 1 and is_finished

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        """Products with alpha = 1 and beta = 0."""
        if self._is_plain:
            self._function(*self._given([pointers[side.operand] for side in self._request.sides]))
            return
        for matrix in range(self._request.batch):
            self._multiply(pointers, matrix)

    def _multiply(self, pointers: tuple[int, ...], matrix: int) -> None:
        asked, item = self._request, self._dtype.itemsize
        at = [pointers[side.operand] + matrix * side.step * item for side in asked.sides]
        held: list[Any] = [None] * 3
        for i, side in enumerate(asked.sides):
            if side.gathered:
                here = self._array(at[i], side)
                held[i] = np.empty((side.rows, side.columns), self._dtype)
                if i < 2:
                    (np.conjugate if side.conjugated else np.positive)(here, out=held[i])
        places = [here if copy is None else int(copy.ctypes.data) for here, copy in zip(at, held, strict=True)]
        if asked.routine == "gemv":
            self._clear(places[2])
        self._function(*self._given(places))
        self._finish(at[2], held[2])

    def _given(self, places: list[int]) -> tuple[Any, ...]:
        """Arguments of the routine."""
        asked = self._request
        (o, p, q), (m, n, k), one, zero = asked.options, asked.sizes, self._one, self._zero
        a, b, c = ((place, side.pitch) for place, side in zip(places, asked.sides, strict=True))
        if asked.routine == "gemm":
            return o, p, q, m, n, k, one, *a, *b, zero, *c
        if asked.routine == "gemv":
            return o, p, m, n, one, *a, *b, zero, *c
        return o, p, q, n, k, one, *a, zero, *c

    def _clear(self, place: int) -> None:
        """Zeros in the place of a vector: some versions of OpenBLAS multiply what was there by beta, and NaN stays."""
        asked = self._request
        rows = asked.sizes[0] if asked.options[1] == PLAIN else asked.sizes[1]
        pitch = asked.sides[2].pitch
        self._array(place, Side(2, pitch, 0, False, 1, rows, 0, pitch, False))[...] = 0

    def _finish(self, place: int, held: Any) -> None:
        """Scatter a result, conjugate it, fill its other triangle: what was asked for."""
        asked = self._request
        if held is None and not (asked.mirrored or asked.turned):
            return
        to = self._array(place, asked.sides[2])
        found = to.copy() if held is None else held
        if not asked.triangle:
            to[...] = found
            return
        found = found.conj() if asked.turned else found
        rows, columns = np.tril_indices(len(to))
        if asked.triangle == 2:
            rows, columns = columns, rows
        to[rows, columns] = values = found[rows, columns]
        if asked.mirrored:
            other = rows != columns
            values = values.conj() if asked.routine == "herk" else values
            to[columns[other], rows[other]] = values[other]

    def _array(self, place: int, side: Side) -> Any:
        """The memory of a matrix as an array."""
        item = self._dtype.itemsize
        row, column = side.row * item, side.column * item
        low = min(0, row * (side.rows - 1)) + min(0, column * (side.columns - 1))
        high = max(0, row * (side.rows - 1)) + max(0, column * (side.columns - 1)) + item
        memory: Any = (ctypes.c_char * (high - low)).from_address(place + low)
        return np.ndarray((side.rows, side.columns), self._dtype, memory, -low, (row, column))

    @property
    def entry(self) -> CblasEntry:
        """The launch as data."""
        asked = self._request
        address = ctypes.cast(self._function, c_void_p).value or 0
        bits = 8 * ctypes.sizeof(self._blas.integer)
        return CblasEntry(
            "cblas", _ROUTINES.index(asked.routine), asked.letter, bits, address, asked.options, asked.sizes,
            asked.sides, asked.batch, asked.triangle, asked.mirrored, asked.turned, asked.work,
        )  # fmt: skip


def launch(request: Request) -> Callable[[tuple[int, ...], tuple[float, ...], int], None] | None:
    """Products by NumPy's BLAS; None where it is not found, or does not take integers as large as these."""
    found = library()
    if found is None:
        return None
    largest = max(*request.sizes, *(side.pitch for side in request.sides))
    if largest > (1 << 31) - 1 and found.integer is c_int32:
        return None
    return CblasLaunch(found, request)
