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
        """The routine for a dtype, as ctypes calls it with objects of its own: conversions would take a microsecond."""
        found = getattr(self.handle, f"{self.prefix}{letter}{routine}{self.suffix}")
        found.restype = None
        return found


@lru_cache(maxsize=1)
def library() -> Library | None:
    """The BLAS that NumPy is linked to; None where its functions, or the size of their integers, are not known."""
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
            return found if _has_all(found) and (suffix or not _says_wide()) else None
    return None


def _says_wide() -> bool:
    """Whether NumPy was built for a BLAS of 64-bit integers, which some libraries give no suffix."""
    try:
        built = str(np.show_config(mode="dicts")).lower()
    except TypeError:  # an older NumPy prints it
        return False
    return "ilp64" in built or "use64bitint" in built


def _has_all(found: Library) -> bool:
    """Whether there are all routines, of all dtypes. herk of real numbers is syrk."""
    names = [(routine, letter) for routine in _ROUTINES for letter in ("cz" if routine == "herk" else "sdcz")]
    return all(hasattr(found.handle, f"{found.prefix}{letter}{routine}{found.suffix}") for routine, letter in names)


def _entries(request: Request) -> int:
    """Numbers of gemv's result. They are set to zero first: some versions of OpenBLAS multiply what was there by beta,
    and NaN stays."""
    return request.sizes[0] if request.options[1] == PLAIN else request.sizes[1]


def _seen(side: Side, item: int) -> tuple[tuple[int, int], tuple[int, int], int, Any]:
    """Shape and strides of a matrix, the byte where it begins, counted from its first entry, and a type of its size."""
    row, column = side.row * item, side.column * item
    reaches = row * (side.rows - 1), column * (side.columns - 1)
    low, high = (sum(pick(0, reach) for reach in reaches) for pick in (min, max))
    return (side.rows, side.columns), (row, column), low, ctypes.c_char * (high - low + item)


@lru_cache(maxsize=16)
def _triangle(order: int, lower: bool) -> Any:
    """True in the lower or upper triangle, diagonal included."""
    return np.tri(order, dtype=bool) if lower else np.tri(order, dtype=bool).T


class CblasLaunch:
    """Products of arrays that lie alike: call it with the addresses of A, B and the result."""

    def __init__(self, blas: Library, request: Request) -> None:
        self._blas, self._request = blas, request
        self._function = blas.function(request.routine, request.letter)
        self._dtype = np.dtype(_DTYPES[request.letter])
        self._held = np.array([1, 0], self._dtype)
        first, integer = self._held.ctypes.data, blas.integer
        if request.letter in "cz" and request.routine != "herk":  # complex factors are passed by their addresses
            self._one, self._zero = c_void_p(first), c_void_p(first + self._dtype.itemsize)
        else:
            self._one, self._zero = (_REAL[request.letter](factor) for factor in (1.0, 0.0))
        self._pitches = tuple(integer(side.pitch) for side in request.sides)
        self._operands = tuple(side.operand for side in request.sides)
        self._steps = tuple(side.step * self._dtype.itemsize for side in request.sides)
        self._seen = [_seen(side, self._dtype.itemsize) for side in request.sides]
        is_finished = not (request.mirrored or request.turned or any(side.gathered for side in request.sides))
        self._cleared = _entries(request) if request.routine == "gemv" else 0  # numbers of the result, before a product
        self._is_straight = is_finished and (not self._cleared or request.sides[2].pitch == 1)
        self._has_b = request.routine in ("gemm", "gemv")
        self._head = self._numbers()

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        """Products with alpha = 1 and beta = 0."""
        a, b, c = self._operands
        left, right, to = pointers[a], pointers[b], pointers[c]
        first, second, third = self._steps
        for matrix in range(self._request.batch):
            at = left + matrix * first, right + matrix * second, to + matrix * third
            if not self._is_straight:
                self._multiply(at)
                continue
            if self._cleared:
                ctypes.memset(at[2], 0, self._cleared * self._dtype.itemsize)
            self._call(*at)

    def _call(self, left: int, right: int, to: int) -> None:
        p, q, r = self._pitches
        if self._has_b:
            self._function(*self._head, c_void_p(left), p, c_void_p(right), q, self._zero, c_void_p(to), r)
        else:
            self._function(*self._head, c_void_p(left), p, self._zero, c_void_p(to), r)

    def _multiply(self, at: tuple[int, int, int]) -> None:
        """A product of which something is gathered, scattered or mirrored."""
        asked = self._request
        held: list[Any] = [None] * 3
        for i, side in enumerate(asked.sides):
            if side.gathered:
                here = self._array(at[i], i)
                held[i] = np.empty((side.rows, side.columns), self._dtype)
                if i < 2:
                    (np.conjugate if side.conjugated else np.positive)(here, out=held[i])
        places = [here if copy is None else int(copy.ctypes.data) for here, copy in zip(at, held, strict=True)]
        if self._cleared:
            (self._array(places[2], 2) if held[2] is None else held[2])[...] = 0
        self._call(*places)
        self._finish(at[2], held[2])

    def _numbers(self) -> tuple[Any, ...]:
        """The first arguments of the routine, alpha included."""
        options = tuple(map(c_int, self._request.options))
        m, n, k = map(self._blas.integer, self._request.sizes)
        if self._request.routine == "gemm":
            return *options, m, n, k, self._one
        if self._request.routine == "gemv":
            return *options[:2], m, n, self._one
        return *options, n, k, self._one

    def _finish(self, place: int, held: Any) -> None:
        """Scatter a result, conjugate it, fill its other triangle: what was asked for."""
        asked = self._request
        if held is None and not (asked.mirrored or asked.turned):
            return
        to = self._array(place, 2)
        found = to if held is None else held
        if not asked.triangle:
            to[...] = found
            return
        written = _triangle(len(to), asked.triangle == 1)
        if asked.turned or held is not None:
            np.copyto(to, found.conj() if asked.turned else found, where=written)
        if asked.mirrored:
            np.copyto(to, to.T.conj() if asked.routine == "herk" else to.T.copy(), where=~written)

    def _array(self, place: int, side: int) -> Any:
        """The memory of a matrix as an array."""
        shape, strides, low, memory = self._seen[side]
        return np.ndarray(shape, self._dtype, memory.from_address(place + low), -low, strides)

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
