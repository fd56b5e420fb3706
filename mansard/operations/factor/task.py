"""What factorizations are asked for and what they give: tasks, the parts of their results, shapes and dtypes.

A part is named by the operand of the kernels that receives it: F (a factor, an inverse, a determinant), X (a solution),
Q, PIVOTS, TAU and INFO.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...arrays.types import Array, Kind
from ...plan.problem import REAL

INTEGERS = ("PIVOTS", "INFO")
MATRICES = ("F", "X", "Q")
Found = dict[str, Array]  # parts of a result by name


class Task(NamedTuple):
    """What is wanted of every matrix of a batch."""

    family: str  # cholesky, lu or qr
    want: str = "factor"
    upper: bool = False  # cholesky: the upper triangle is read, and U given
    pivot: bool = True  # lu: rows are exchanged

    @property
    def parts(self) -> tuple[str, ...]:
        """The results, in the order in which callers get them."""
        return _PARTS[self.family, self.want]

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that are one number per matrix."""
        return {"determinant": ("F", "INFO"), "logdet": ("F", "X", "INFO")}.get(self.want, ("INFO",))


_PARTS = {
    ("cholesky", "factor"): ("F", "INFO"),
    ("cholesky", "solve"): ("X", "INFO"),
    ("lu", "factor"): ("F", "PIVOTS", "INFO"),
    ("lu", "solve"): ("X", "INFO"),
    ("lu", "inverse"): ("F", "INFO"),
    ("lu", "determinant"): ("F",),
    ("lu", "logdet"): ("F", "X"),
    ("lu", "swap"): ("F", "PIVOTS"),  # rows of A exchanged by pivots that are given
    ("qr", "raw"): ("F", "TAU"),
    ("qr", "panel"): ("F", "TAU", "Q"),  # Q is the T of I - V T V^H
    ("qr", "r"): ("F",),
    ("qr", "reduced"): ("Q", "F"),
    ("qr", "complete"): ("Q", "F"),
    ("qr", "solve"): ("X",),
}


class Sizes(NamedTuple):
    """Of each matrix, and of its right-hand side."""

    M: int
    N: int
    NRHS: int = 0

    def shape(self, task: Task, part: str) -> tuple[int, ...]:
        """Of a part, without the leading dimensions."""
        M, N, K = self.M, self.N, min(self.M, self.N)
        if part in task.numbers:
            return ()
        if part in ("PIVOTS", "TAU"):
            return (self.NRHS if task.want == "swap" else K,)
        if part == "X":
            return (N, self.NRHS)
        if part == "Q":
            return {"complete": (M, M), "panel": (K, K)}.get(task.want, (M, K))
        return (K, N) if task.want in ("r", "reduced") else (M, N)


# ---- what array libraries call things ---------------------------------------------------------------------


def library(kind: Kind) -> ModuleType:
    """The module of an array library."""
    return sys.modules[{"NumPy": "numpy", "CuPy": "cupy", "PyTorch": "torch"}[kind.name]]


def dtype_of(task: Task, part: str, dtype: str) -> str:
    """Of a part, if the matrices have this dtype."""
    if part in INTEGERS:
        return "int32"
    return REAL[dtype] if (task.want, part) == ("logdet", "X") else dtype


def empty(kind: Kind, shape: tuple[int, ...], dtype: str, like: Array) -> Array:
    """A new array beside `like`, of any dtype."""
    if kind.name == "PyTorch":
        return like.new_empty(shape, dtype=getattr(library(kind), dtype))
    if kind.name == "NumPy":
        return np.empty(shape, dtype)
    with like.device:
        return library(kind).empty(shape, dtype)


def zeros(kind: Kind, shape: tuple[int, ...], dtype: str, like: Array) -> Array:
    """The same, of zeros."""
    made = empty(kind, shape, dtype, like)
    made[...] = 0
    return made


def arange(kind: Kind, count: int, like: Array) -> Array:
    """0, 1, ... as indices, beside `like`."""
    if kind.name == "PyTorch":
        return library(kind).arange(count, device=like.device)
    if kind.name == "NumPy":
        return np.arange(count)
    with like.device:
        return library(kind).arange(count)


def identity(kind: Kind, shape: tuple[int, ...], dtype: str, like: Array) -> Array:
    """Ones along the diagonals of the last two dimensions."""
    made = zeros(kind, shape, dtype, like)
    set_diagonal(kind, made, 1)
    return made


def set_diagonal(kind: Kind, array: Array, value: complex | Array) -> None:
    """Of every matrix. By a view: lists of indices would have to be sent to a GPU, and some libraries wait for that."""
    if kind.name == "NumPy":  # whose own views of diagonals cannot be written to
        size = min(array.shape[-2:])
        np.einsum("...ii->...i", array[..., :size, :size])[...] = value
    else:
        array.diagonal(0, -2, -1)[...] = value


def along(kind: Kind, array: Array, index: Array, axis: int) -> Array:
    """Entries by index arrays, along an axis; other dimensions broadcast."""
    module = library(kind)
    if kind.name == "PyTorch":
        return module.take_along_dim(array, index, axis)
    return module.take_along_axis(array, index, axis)


def broadcast(kind: Kind, array: Array, shape: tuple[int, ...]) -> Array:
    """A view of this shape."""
    return array if tuple(array.shape) == shape else library(kind).broadcast_to(array, shape)


def copied(kind: Kind, array: Array) -> Array:
    """Memory of its own, row after row."""
    made = empty(kind, tuple(array.shape), kind.view(array, "a").dtype, array)
    made[...] = array
    return made


def as_int32(kind: Kind, array: Array) -> Array:
    """Pivots as kernels read them."""
    plain = kind.plain(array)
    return plain.int() if kind.name == "PyTorch" else plain.astype("int32", copy=False)


def stacked(kind: Kind, operand: Array) -> Array:
    """A list as one array; arrays as they are."""
    return library(kind).stack(list(operand)) if isinstance(operand, list | tuple) else operand


def triangle(kind: Kind, array: Array, lower: bool) -> Array:
    """A copy with zeros on the other side of the diagonal."""
    module = library(kind)
    return (module.tril if lower else module.triu)(array)
