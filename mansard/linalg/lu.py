"""LU factorizations: `lu_factor`, `lu_factor_ex`, `lu_solve`, `det`, `slogdet`."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

from scipy.linalg import LinAlgWarning

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations import warm
from ..operations.factor import systems, warm_solves
from ..operations.factor.face import (
    Operation,
    Part,
    answer,
    check_matrices,
    check_rows,
    first_bad,
    is_vector,
    named,
    scalar,
)
from ..operations.factor.grouped import factor_ragged
from ..operations.factor.plan import factor
from ..operations.factor.quick import quick
from ..operations.factor.ragged_solves import lu_factors, solve_with
from ..operations.factor.task import Task
from ..operations.factor.tiny import BY_LU


class SlogdetResult(NamedTuple):
    """Sign (or phase) and logarithm of the absolute value of determinants."""

    sign: Matrices
    logabsdet: Matrices


_DETERMINANT, _LOGDET = Task("lu", "determinant"), Task("lu", "logdet")
_FACTORS = {pivot: Task("lu", pivot=pivot) for pivot in (True, False)}


def lu_factor(
    a: Matrices,
    *,
    pivot: bool = True,
    out: Matrices = None,
    backend: str | None = None,
) -> tuple[Matrices, Matrices]:
    """Factor every matrix of a batch as a = P L U with partial pivoting, as `scipy.linalg.lu_factor`.

    Parameters
    ----------
    a : array (..., m, n), list of matrices, or Ragged. float32, float64, complex64 or complex128 of any
        strides; of NumPy arrays also integers
    pivot : False: rows stay where they are, which is faster, and only for matrices that are known to allow it
    out : receives the factors; it may be a itself
    backend : as for `matmul`

    Returns
    -------
    lu : (..., m, n), U and, below its diagonal, L without its unit diagonal
    piv : int32 (..., min(m, n)), row i was exchanged with row piv[i]; of a Ragged, a sequence of arrays

    A singular matrix is factored all the same; a warning (scipy.linalg.LinAlgWarning) names the first one, and waits
    for a GPU. `lu_factor_ex` does not.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> lu, piv = ms.linalg.lu_factor(np.array([[1.0, 2.0], [2.0, 8.0]]))
    >>> lu
    array([[ 2. ,  8. ],
           [ 0.5, -2. ]])
    >>> piv
    array([1, 1], dtype=int32)
    """
    factors, pivots, info = lu_factor_ex(a, pivot=pivot, out=out, backend=backend)
    bad = first_bad(info)
    if bad:
        at, column = bad
        text = f"{named('a', at)} is singular: diagonal entry {column - 1} of U is zero"
        warnings.warn(text, LinAlgWarning, stacklevel=2)
    return factors, pivots


def lu_factor_ex(
    a: Matrices, *, pivot: bool = True, out: Matrices = None, backend: str | None = None
) -> tuple[Matrices, Matrices, Matrices]:  # fmt: skip
    """Factor as `lu_factor` does, and return LAPACK's `info` of every matrix instead of warning.

    `info` (int32, of the leading dimensions) is 0, or the number, counted from one, of the first diagonal entry of U
    that is exactly zero. Nothing waits for a GPU.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.lu_factor_ex(np.array([[[1.0, 2.0], [2.0, 8.0]], [[1.0, 2.0], [2.0, 4.0]]]))[2]
    array([0, 2], dtype=int32)
    """
    task = _FACTORS[bool(pivot)]
    known = quick(task, backend, a, None, out)
    if known is not None:
        return known[0], known[1], known[2]

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, Any, Any]:
        check_matrices(given[0], "a")
        outs = {} if places[0] is None else {"F": places[0]}
        found = factor(task, kind, given[0], None, outs, backend)
        return found["F"], found["PIVOTS"], found["INFO"]

    parts = (Part("matrix", lambda a: a), Part("row"), Part("info"))
    return answer(Operation(run, parts, ragged=partial(factor_ragged, task, backend)), [a], out)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def lu_solve(
    lu_and_piv: tuple[Matrices, Matrices],
    b: Matrices,
    trans: int = 0,
    *,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Solve a x = b from the factors of a, as `scipy.linalg.lu_solve`, for every matrix of a batch.

    A singular factor gives inf or NaN in the solutions of its own systems only.

    Parameters
    ----------
    lu_and_piv : what `lu_factor` gave for square matrices
    b : one vector (n,), or (..., n, k) whose leading dimensions broadcast with those of lu; list of
        matrices or of vectors, Ragged
    trans : 0: a x = b, 1: a^T x = b, 2: a^H x = b
    out : receives the solutions; it may be b itself
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> factors = ms.linalg.lu_factor(np.array([[1.0, 2.0], [2.0, 8.0]]))
    >>> ms.linalg.lu_solve(factors, np.array([5.0, 18.0]))
    array([1., 2.])
    """
    if type(trans) not in (int, str) or trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1 and 2")
    lu, piv = lu_and_piv
    if is_vector(b):
        place = None if out is None else as_columns(out, "out")
        found = lu_solve((lu, piv), as_columns(b, "b"), trans, out=place, backend=backend)
        return as_vectors(found) if out is None else out

    what = (BY_LU[_TRANS[trans]], backend)
    known = warm.recall(what, (lu, piv, b), out)
    if known is not None and (solved := known(lu, piv, b, out)) is not None:
        return solved

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        factors, pivots, right = given
        rows, _ = check_matrices(factors, "lu", square=True)
        check_rows(rows, right, ("lu", "b"))
        found = systems.lu_solve(kind, factors, pivots, right, _TRANS[trans], places[0], backend)
        if _TRANS[trans] == 0 and (factors is lu and pivots is piv and right is b):  # neither converted nor unwrapped
            warm.keep(what, (lu, piv, b), out, warm_solves.lu_solve(kind, lu, piv, b, out, backend))
        return (found,)

    operation = Operation(
        run, (Part("matrix", lambda lu, piv, b: b),), ("lu", "piv", "b"), ("piv",),
        ragged=partial(solve_with, lu_factors(_TRANS[trans]), backend),
    )  # fmt: skip
    return answer(operation, [lu, piv, b], out)[0]


def det(a: Matrices, *, backend: str | None = None) -> Matrices:
    """Determinants, as `numpy.linalg.det`: an array of the leading dimensions of a, one number for one matrix.

    `a` is an array (..., n, n), a list of matrices or a Ragged; the last two give a one-dimensional array. A singular
    matrix has determinant 0. Determinants of large matrices overflow easily: see `slogdet`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.det(np.array([[[2.0, 1.0], [0.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    array([ 8., -1.])
    """
    return scalar(_from_factors(_DETERMINANT, a, backend)[0])


def slogdet(a: Matrices, *, backend: str | None = None) -> SlogdetResult:
    """Signs (phases) and logarithms of the absolute values of determinants, as `numpy.linalg.slogdet`.

    `a` is as for `det`. A singular matrix has sign 0 and logarithm -inf.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> sign, logabsdet = ms.linalg.slogdet(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> float(sign), float(logabsdet)
    (-1.0, 0.0)
    """
    return SlogdetResult(*map(scalar, _from_factors(_LOGDET, a, backend)))


def _from_factors(task: Task, a: Any, backend: str | None) -> tuple[Any, ...]:
    known = quick(task, backend, a)
    if known is not None:
        return tuple(known)

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, ...]:
        check_matrices(given[0], "a", square=True)
        found = factor(task, kind, given[0], None, None, backend)
        return tuple(found[part] for part in task.parts)

    parts = tuple(Part("value") for _ in task.parts)
    return answer(Operation(run, parts, ragged=partial(factor_ragged, task, backend)), [a])
