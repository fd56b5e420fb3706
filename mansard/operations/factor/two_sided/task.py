"""What two-sided factorizations are asked for and what they give: tasks, the parts of their results, shapes, dtypes.

A part is named by the operand of the kernels that receives it: W (eigenvalues or singular values), Z (eigenvectors),
U and VH (singular vectors, or the factors of a bidiagonalization), Q, D and E (a tridiagonalization: Q, the diagonal
and what lies beside it), INFO.
"""

from __future__ import annotations

from typing import NamedTuple

from ....arrays.types import Array, Kind
from ....plan.problem import REAL
from ..task import Found, identity, zeros

VALUES = ("W", "D", "E")  # parts that are real, whatever the matrices are
DRIVERS = ("auto", "jacobi", "qr")
PADDED = "padded"  # auto, for stacks that are padded with zeros: no method that completes null columns of all rows
_PARTS = {
    "eigh": ("W", "Z", "INFO"),
    "eigvalsh": ("W", "INFO"),
    "svd": ("U", "W", "VH", "INFO"),
    "svdvals": ("W", "INFO"),
    "tridiagonalize": ("Q", "D", "E"),
    "tridiagonal": ("D", "E"),
    "bidiagonalize": ("U", "D", "E", "VH"),
    "bidiagonal": ("D", "E"),
}
HERMITIAN = ("eigh", "eigvalsh", "tridiagonalize", "tridiagonal")


class Task(NamedTuple):
    """What is wanted of every matrix of a batch."""

    want: str  # a public name; `tridiagonal` and `bidiagonal`: without the orthogonal factors
    upper: bool = False  # Hermitian matrices: the upper triangle is read
    full: bool = False  # svd: U and VH are square
    driver: str = "auto"

    @property
    def parts(self) -> tuple[str, ...]:
        """The results, in the order in which callers get them."""
        return _PARTS[self.want]

    @property
    def for_library(self) -> Task:
        """The task with a driver that libraries have."""
        return self._replace(driver="auto") if self.driver == PADDED else self

    @property
    def is_hermitian(self) -> bool:
        return self.want in HERMITIAN


class Sizes(NamedTuple):
    """Rows and columns of each matrix."""

    M: int
    N: int

    def shape(self, task: Task, part: str) -> tuple[int, ...]:
        """Shape of a part, without the leading dimensions."""
        M, N, K = self.M, self.N, min(self.M, self.N)
        if part == "U":
            return (M, M if task.full else K)
        if part == "VH":
            return (N if task.full else K, N)
        if part in ("Z", "Q"):
            return (N, N)
        return {"INFO": (), "E": (max(0, K - 1),)}.get(part, (K,))


def dtype_of(part: str, dtype: str) -> str:
    """Dtype of a part, if the matrices have this dtype."""
    return "int32" if part == "INFO" else REAL[dtype] if part in VALUES else dtype


def nothing(kind: Kind, task: Task, sizes: Sizes, lead: tuple[int, ...], dtype: str, like: Array) -> Found:
    """Parts of empty problems: orthogonal factors are columns of the unit matrix."""
    found = {}
    for part in task.parts:
        make = identity if part in ("U", "VH", "Z", "Q") else zeros
        found[part] = make(kind, (*lead, *sizes.shape(task, part)), dtype_of(part, dtype), like)
    return found


def adjoint(kind: Kind, array: Array) -> Array:
    """The conjugate transpose of every matrix; a view where entries are real."""
    turned = array.swapaxes(-1, -2)
    return kind.conj(turned) if "complex" in str(array.dtype) else turned
