"""Nearest orthogonal matrices: `polar`, `procrustes`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays.types import Matrices
from ..operations.factor.face import Operation, Part, answer, check_matrices, scalar
from ..operations.factor.two_sided import derived
from ..operations.factor.two_sided.call import answer_parts, refuse_unconverged


class PolarResult(NamedTuple):
    """Orthonormal columns (or rows), and a positive semi-definite matrix."""

    u: Matrices
    p: Matrices


class ProcrustesResult(NamedTuple):
    """The rotation, and the sum of the singular values of a^H b."""

    R: Matrices
    scale: Matrices


def polar(a: Matrices, side: str = "right", *, backend: str | None = None) -> PolarResult:
    """Polar decomposition a = u p of every matrix of a batch, as `scipy.linalg.polar`: u^H u = 1, p semi-definite.

    Parameters
    ----------
    a : array (..., m, n), list of matrices of one shape, Ragged or Interleaved
    side : `right`: a = u p with p (..., n, n); `left`: a = p u with p (..., m, m)
    backend : as for `matmul`

    Returns
    -------
    PolarResult(u, p); u (..., m, n) is the matrix with orthonormal columns (m < n: rows) nearest to a. LinAlgError as
    for `svd`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> u, p = ms.linalg.polar(np.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> np.round(u, 12) + 0.0, np.round(p, 12) + 0.0
    (array([[ 0., -1.],
           [ 1.,  0.]]), array([[3., 0.],
           [0., 2.]]))
    """
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r} is not one of 'right' and 'left'")

    def run(kind: Any, A: Any) -> tuple[Any, Any, Any]:
        check_matrices(A, "a")
        return derived.polar(kind, A, side, backend)

    def order(a: tuple[int, int]) -> tuple[int, int]:
        return (a[1], a[1]) if side == "right" else (a[0], a[0])

    u, p, info = answer_parts(run, (Part("matrix", lambda a: a), Part("matrix", order), Part("info")), a)
    refuse_unconverged(info, "polar")
    return PolarResult(u, p)


def procrustes(a: Matrices, b: Matrices, *, backend: str | None = None) -> ProcrustesResult:
    """Orthogonal R that minimises |a R - b|, as `scipy.linalg.orthogonal_procrustes`, for every pair of a batch.

    Parameters
    ----------
    a, b : arrays (..., m, n) whose leading dimensions broadcast, lists of matrices of one shape, or Ragged
    backend : as for `matmul`

    Returns
    -------
    ProcrustesResult(R, scale): (..., n, n), and the sum of the singular values of a^H b, which divided by the squared
    norm of a is the factor that brings a R nearest to b. LinAlgError as for `svd`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> R, scale = ms.linalg.procrustes(a, a @ np.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> np.round(R, 12) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """

    def run(kind: Any, given: list[Any], places: list[Any]) -> list[Any]:
        shapes = [check_matrices(one, name) for one, name in zip(given, ("a", "b"), strict=True)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"a has matrices of {shapes[0]} and b of {shapes[1]}: both need the same shape")
        found = list(derived.procrustes(kind, given[0], given[1], backend))
        if places[0] is not None:
            for place, value in zip(places[0], found[0], strict=True):
                place[...] = value
            found[0] = places[0]
        return found

    parts = (Part("matrix", lambda a, b: (a[1], a[1])), Part("value"), Part("info"))
    R, scale, info = answer(Operation(run, parts, ("a", "b")), [a, b])
    refuse_unconverged(info, "procrustes")
    return ProcrustesResult(R, scalar(scale))
