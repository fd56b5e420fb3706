"""What factorizations are asked for and what they give: tasks, the parts of their results, shapes and dtypes.

A part is named by the operand of the kernels that receives it: F (a factor, an inverse, a determinant), X (a solution),
Q, PIVOTS, TAU, SQUARES (squared residuals) and INFO.
"""

from __future__ import annotations

from typing import NamedTuple

from ...arrays.types import Array, Kind
from ...plan.problem import REAL

INTEGERS = ("PIVOTS", "INFO")
MATRICES = ("F", "X", "Q")
NUMBERS = ("determinant", "logdet")  # what is wanted is one number per matrix
Found = dict[str, Array]  # parts of a result by name


class Task(NamedTuple):
    """What is wanted of every matrix of a batch."""

    family: str  # cholesky, lu, qr or systems
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
        given = ("X", "SQUARES") if self.family == "systems" else ()
        return {"determinant": ("F", "INFO", *given), "logdet": ("F", "X", "INFO", *given)}.get(self.want, ("INFO",))


_PARTS = {
    ("cholesky", "factor"): ("F", "INFO"),
    ("cholesky", "solve"): ("X", "INFO"),
    ("lu", "factor"): ("F", "PIVOTS", "INFO"),
    ("lu", "solve"): ("X", "INFO"),
    ("lu", "inverse"): ("F", "INFO"),
    ("lu", "determinant"): ("F",),
    ("lu", "logdet"): ("F", "X"),
    ("lu", "swap"): ("F", "PIVOTS"),  # rows of A exchanged by pivots that are given
    ("systems", "solve"): ("X", "INFO"),  # tiny ones, with any number of right-hand sides
    ("systems", "positive"): ("X", "INFO"),
    ("systems", "lu"): ("X", "PIVOTS"),  # by factors and pivots that are given, as the next two
    ("systems", "transposed"): ("X", "PIVOTS"),
    ("systems", "adjoint"): ("X", "PIVOTS"),
    ("systems", "cholesky"): ("X",),
    ("systems", "residuals"): ("X", "SQUARES", "INFO"),  # of solutions X that are given
    ("systems", "determinant"): ("X", "PIVOTS", "INFO"),  # from factors, pivots and info that are given, as the next
    ("systems", "logdet"): ("X", "SQUARES", "PIVOTS", "INFO"),
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
        if part == "SQUARES":
            return (self.NRHS,)
        if part == "Q":
            return {"complete": (M, M), "panel": (K, K)}.get(task.want, (M, K))
        return (K, N) if task.want in ("r", "reduced") else (M, N)


def dtype_of(task: Task, part: str, dtype: str) -> str:
    """Of a part, if the matrices have this dtype."""
    if part in INTEGERS:
        return "int32"
    return REAL[dtype] if part == "SQUARES" or (task[:2], part) == (("lu", "logdet"), "X") else dtype


# ---- arrays of any library --------------------------------------------------------------------------------


def zeros(kind: Kind, shape: tuple[int, ...], dtype: str, like: Array) -> Array:
    """Allocate a zero-filled array of `shape` and `dtype` on the device of `like`."""
    made = kind.allocate(shape, dtype, like)
    made[...] = 0
    return made


def identity(kind: Kind, shape: tuple[int, ...], dtype: str, like: Array) -> Array:
    """Ones along the diagonals of the last two dimensions."""
    made = zeros(kind, shape, dtype, like)
    kind.diagonals(made)[...] = 1
    return made


def broadcast(kind: Kind, array: Array, shape: tuple[int, ...]) -> Array:
    """A view of this shape."""
    return array if tuple(array.shape) == shape else kind.module.broadcast_to(array, shape)


def copied(kind: Kind, array: Array) -> Array:
    """Memory of its own, row after row."""
    made = kind.allocate(tuple(array.shape), kind.view(array, "a").dtype, array)
    made[...] = array
    return made


def stacked(kind: Kind, operand: Array) -> Array:
    """A list as one array; arrays as they are."""
    return kind.module.stack(list(operand)) if isinstance(operand, list | tuple) else operand
