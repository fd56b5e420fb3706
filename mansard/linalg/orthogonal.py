"""Orthogonal factors: `qr`, `lstsq`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations import stacks, warm
from ..operations.factor import systems
from ..operations.factor.face import Operation, Part, answer, check_matrices, is_vector, scalar
from ..operations.factor.grouped import factor_ragged
from ..operations.factor.plan import factor
from ..operations.factor.quick import quick
from ..operations.factor.ragged_least_squares import least_squares_by_lapack, least_squares_ragged
from ..operations.factor.task import Sizes, Task
from ..operations.factor.tiny import LEAST_SQUARES

_MODES = ("reduced", "complete", "r", "raw")
_TASKS = {mode: Task("qr", mode) for mode in _MODES}
_DRIVERS = ("svd", "qr")


class QRResult(NamedTuple):
    """Orthonormal columns and a triangle."""

    Q: Matrices
    R: Matrices


class LstsqResult(NamedTuple):
    """Solutions, sums of squared residuals, ranks and singular values."""

    x: Matrices
    residuals: Matrices
    rank: Matrices
    s: Matrices


def qr(a: Matrices, mode: str = "reduced", *, backend: str | None = None) -> Matrices:
    """Factor every matrix of a batch as a = Q R by Householder reflections, as `numpy.linalg.qr`.

    Parameters
    ----------
    a : array (..., m, n), list of matrices, or Ragged. float32, float64, complex64 or complex128 of any
        strides; of NumPy arrays also integers
    mode : with k = min(m, n),
        `reduced`: Q (..., m, k) and R (..., k, n)
        `complete`: Q (..., m, m) and R (..., m, n)
        `r`: R (..., k, n) alone
        `raw`: h (..., n, m), which is transposed and holds R and LAPACK's reflectors, and tau (..., k)
    backend : as for `matmul`

    Returns
    -------
    QRResult(Q, R), R, or (h, tau), arrays of the same kind on the same device. The call does not wait for a GPU.
    Matrices with NaN give NaN.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> Q, R = ms.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> np.round(Q @ R, 12)
    array([[3., 1.],
           [4., 2.]])
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(map(repr, _MODES))}")
    task = _TASKS[mode]

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, ...]:
        check_matrices(given[0], "a")
        names = [part for part, place in zip(task.parts, places, strict=True) if place is not None]
        outs = {part: place for part, place in zip(task.parts, places, strict=True) if part in names}
        if mode == "raw" and outs:
            outs["F"] = [one.swapaxes(-1, -2) for one in outs["F"]]
        found = factor(task, kind, given[0], None, outs, backend)
        results = [found[part] for part in task.parts]
        if mode == "raw":
            results[0] = places[0] if outs else results[0].swapaxes(-1, -2)
        return tuple(results)

    parts = tuple(Part("row") if part == "TAU" else Part("matrix", _shape(task, part)) for part in task.parts)
    found = _known(task, backend, a)
    if found is None:
        options, ragged = (("mode", mode), ("backend", backend)), partial(factor_ragged, task, backend)
        found = answer(Operation(run, parts, ragged=ragged, name="qr", options=options), [a])
    return found[0] if mode == "r" else found if mode == "raw" else QRResult(*found)


def _known(task: Task, backend: str | None, a: Any) -> tuple[Any, ...] | None:
    known = quick(task, backend, a)
    if known is not None and task.want == "raw":
        known[0] = known[0].swapaxes(-1, -2)
    return None if known is None else tuple(known)


def _shape(task: Task, part: str) -> Any:
    def shape(a: tuple[int, int]) -> tuple[int, ...]:
        found = Sizes(*a).shape(task, part)
        return found[::-1] if task.want == "raw" else found

    return shape


def lstsq(
    a: Matrices, b: Matrices, rcond: float | None = None, *, driver: str = "svd", backend: str | None = None
) -> LstsqResult:  # fmt: skip
    """Least squares: x that minimises |b - a x|, as `numpy.linalg.lstsq`, for every matrix of a batch.

    Parameters
    ----------
    a : array (..., m, n), list of matrices, or Ragged
    b : one vector (m,), or (..., m, k) whose leading dimensions broadcast with those of a; list of matrices or of
        vectors, Ragged
    rcond : singular values below rcond times the largest count as zero; None: the precision times max(m, n)
    driver : `svd`: any rank, solutions of least norm, as NumPy does it.
        `qr`: a has full rank, which is not checked; many times as fast
    backend : as for `matmul`

    Returns
    -------
    LstsqResult(x, residuals, rank, s). residuals are the squared norms of the columns of b - a x; of one matrix, none
    where NumPy gives none (rank below n, or m <= n). On a GPU nothing waits for the rank: residuals are there unless
    m <= n. With `qr`, s is None.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> np.round(ms.linalg.lstsq(a, np.array([1.0, 3.0, 5.0]), driver="qr").x, 12)
    array([1., 2.])
    """
    if driver not in _DRIVERS:
        raise ValueError(f"driver={driver!r} is not one of {', '.join(map(repr, _DRIVERS))}")
    vector = is_vector(b)
    found = _least_squares(a, as_columns(b, "b") if vector else b, rcond, driver, backend)
    x, residuals, rank, s = found
    if vector:
        x = as_vectors(x)
        if stacks.is_list(residuals):
            residuals = [one[..., 0] for one in residuals]
        elif not _is_one(a):
            residuals = residuals[..., 0]
    if _is_one(a) and _is_one(x if not vector else x[..., None]):
        rows, columns = a.shape
        if rows <= columns or (_is_on_host(rank) and int(rank) < columns):
            residuals = residuals[:0]
    return LstsqResult(x, residuals, scalar(rank), s)


def _is_on_host(array: Any) -> bool:
    """Whether a value can be read without waiting for a GPU."""
    return "cpu" in str(getattr(array, "device", "cpu")).lower()


def _is_one(a: Any) -> bool:
    return len(getattr(a, "shape", ())) == 2


def _least_squares(a: Any, b: Any, rcond: float | None, driver: str, backend: str | None) -> tuple[Any, ...]:
    known = warm.recall((LEAST_SQUARES, backend), (a, b), None) if driver == "qr" else None
    if known is not None:
        return *known(a, b, None), None

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, ...]:
        rows, _ = check_matrices(given[0], "a")
        found = check_matrices(given[1], "b")[0]
        if rows != found:
            raise np.linalg.LinAlgError(f"a has {rows} rows and b {found}: both need the same number")
        results = list(systems.least_squares(kind, given[0], given[1], rcond, driver, backend))
        if places[0] is not None:
            for place, value in zip(places[0], results[0], strict=True):
                place[...] = value
            results[0] = places[0]
        return tuple(results[: len(parts)])

    parts: tuple[Part, ...] = (Part("matrix", lambda a, b: (a[1], b[1])), Part("row"), Part("value"), Part("row"))
    if driver == "svd":
        ragged = partial(least_squares_by_lapack, rcond, backend)
        return answer(Operation(run, parts, ("a", "b"), ragged=ragged), [a, b])
    parts = parts[:3]
    operation = Operation(run, parts, ("a", "b"), ragged=partial(least_squares_ragged, backend))
    return *answer(operation, [a, b]), None
