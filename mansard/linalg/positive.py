"""Hermitian positive definite matrices: `cholesky`, `cholesky_ex`, `cho_solve`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations import warm
from ..operations.factor import systems, warm_solves
from ..operations.factor.face import Operation, Part, answer, check_matrices, check_rows, first_bad, is_vector, named
from ..operations.factor.grouped import factor_ragged
from ..operations.factor.plan import factor
from ..operations.factor.quick import quick
from ..operations.factor.ragged_solves import cholesky_factors, solve_with
from ..operations.factor.task import Task
from ..operations.factor.tiny import BY_CHOLESKY

_FACTORS = {upper: Task("cholesky", upper=upper) for upper in (True, False)}


def cholesky(a: Matrices, /, *, upper: bool = False, out: Matrices = None, backend: str | None = None) -> Matrices:
    """Factor every Hermitian positive definite matrix of a batch as a = L L^H, as `numpy.linalg.cholesky`.

    Parameters
    ----------
    a : array (..., n, n), list of matrices, or Ragged; only its lower triangle is read. float32, float64,
        complex64 or complex128 of any strides; of NumPy arrays also integers
    upper : U = L^H instead, from the upper triangle of a
    out : receives the factors; it may be a itself
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists a list, of a Ragged a Ragged.
    LinAlgError names the first matrix that is not positive definite; looking for it waits for a GPU. `cholesky_ex` does
    not.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.cholesky(np.array([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 0.0], [0.0, 9.0]]]))
    array([[[2., 0.],
            [1., 2.]],
    <BLANKLINE>
           [[1., 0.],
            [0., 3.]]])
    """
    factors, info = cholesky_ex(a, upper=upper, out=out, backend=backend)
    refuse_indefinite(info)
    return factors


def cholesky_ex(
    a: Matrices,
    /,
    *,
    upper: bool = False,
    out: Matrices = None,
    backend: str | None = None,
) -> tuple[Matrices, Matrices]:
    """Factor as `cholesky` does, and return LAPACK's `info` of every matrix instead of raising.

    `info` (int32, of the leading dimensions) is 0, or the order of the first leading minor that is not positive
    definite; the factor of such a matrix is not defined. The call does not wait for a GPU.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.cholesky_ex(np.array([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]]]))[1]
    array([0, 2], dtype=int32)
    """
    task = _FACTORS[bool(upper)]
    known = quick(task, backend, a, None, out)
    if known is not None:
        return known[0], known[1]

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, Any]:
        check_matrices(given[0], "a", square=True)
        outs = {} if places[0] is None else {"F": places[0]}
        found = factor(task, kind, given[0], None, outs, backend)
        return found["F"], found["INFO"]

    parts = (Part("matrix", lambda a: a), Part("info"))
    return answer(Operation(run, parts, ragged=partial(factor_ragged, task, backend)), [a], out)


def refuse_indefinite(info: Any) -> None:
    """LinAlgError for the first matrix that is not positive definite."""
    bad = first_bad(info)
    if bad:
        at, order = bad
        raise np.linalg.LinAlgError(
            f"{named('a', at)} is not positive definite: its leading minor of order {order} is not positive"
        )


def cho_solve(
    c_and_lower: tuple[Matrices, bool],
    b: Matrices,
    *,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Solve a x = b from the Cholesky factor of a, as `scipy.linalg.cho_solve`, for every matrix of a batch.

    A factor with a zero on its diagonal gives inf or NaN in the solutions of its own systems only.

    Parameters
    ----------
    c_and_lower : (c, lower): the factors (..., n, n), and whether they are lower triangles; the other one is not read
    b : one vector (n,), or (..., n, k) whose leading dimensions broadcast with those of c; list of
        matrices or of vectors, Ragged
    out : receives the solutions; it may be b itself
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> c = ms.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> ms.linalg.cho_solve((c, True), np.array([8.0, 12.0]))
    array([1., 2.])
    """
    c, lower = c_and_lower
    if is_vector(b):
        place = None if out is None else as_columns(out, "out")
        found = cho_solve((c, lower), as_columns(b, "b"), out=place, backend=backend)
        return as_vectors(found) if out is None else out

    found = quick(BY_CHOLESKY[bool(lower)], backend, c, b, out)
    if found is not None:
        return found[0]
    what = ("cho_solve", bool(lower), backend)
    known = warm.recall(what, (c, b), out)
    if known is not None and (solved := known(c, b, out)) is not None:
        return solved

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        rows, _ = check_matrices(given[0], "c", square=True)
        check_rows(rows, given[1], ("c", "b"))
        found = systems.cholesky_solve(kind, given[0], bool(lower), given[1], places[0], backend)
        if given[0] is c and given[1] is b:  # neither converted nor unwrapped
            warm.keep(what, (c, b), out, warm_solves.cholesky_solve(kind, c, bool(lower), b, out, backend))
        return (found,)

    ragged = partial(solve_with, cholesky_factors(bool(lower)), backend)
    operation = Operation(run, (Part("matrix", lambda c, b: b),), ("c", "b"), ragged=ragged)
    return answer(operation, [c, b], out)[0]
