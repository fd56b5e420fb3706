"""Linear systems: `solve`, `solve_ex`, `inv`, `inv_ex`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations.factor import refined, systems
from ..operations.factor.face import Operation, Part, answer, check_matrices, check_rows, first_bad, is_vector, named
from ..operations.factor.grouped import factor_ragged
from ..operations.factor.plan import factor, remember_vectors
from ..operations.factor.quick import quick
from ..operations.factor.task import Task
from .positive import refuse_indefinite

_FAMILIES = {"gen": "lu", "pos": "cholesky"}
_TASKS = {
    (which, pivot): Task(_FAMILIES[which], "solve", pivot=pivot) for which in _FAMILIES for pivot in (True, False)
}
_INVERSES = {pivot: Task("lu", "inverse", pivot=pivot) for pivot in (True, False)}


def solve(
    a: Matrices,
    b: Matrices,
    *,
    assume_a: str = "gen",
    pivot: bool = True,
    refine: bool | None = None,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Solve a x = b, as `numpy.linalg.solve`, for every matrix of a batch.

    Parameters
    ----------
    a : array (..., n, n), list of matrices, or Ragged. float32, float64, complex64 or complex128 of any
        strides; of NumPy arrays also integers
    b : one vector (n,), or (..., n, k) whose leading dimensions broadcast with those of a; list of
        matrices or of vectors, Ragged
    assume_a : `gen`, or `pos`: a is Hermitian and positive definite, and only its lower triangle is read
    pivot : False: rows are not exchanged, for matrices that are known to allow it
    refine : True: factors in single precision, corrected by residuals in double precision, for float64 and complex128;
        matrices that do not converge are solved again in double precision. As accurate as without; faster where
        `plan("solve", a, b, refine=True).explain()` says so. Waits for a GPU
    out : receives the solutions; it may be b itself
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists a list, of a Ragged a Ragged.
    LinAlgError names the first singular matrix; looking for it waits for a GPU. `solve_ex` does not.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[[2.0, 0.0], [0.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> ms.linalg.solve(a, np.array([4.0, 8.0]))
    array([[2., 2.],
           [8., 4.]])
    """
    x, info = solve_ex(a, b, assume_a=assume_a, pivot=pivot, refine=refine, out=out, backend=backend)
    if assume_a == "pos":
        refuse_indefinite(info)
    else:
        refuse_singular(info)
    return x


def solve_ex(
    a: Matrices,
    b: Matrices,
    *,
    assume_a: str = "gen",
    pivot: bool = True,
    refine: bool | None = None,
    out: Matrices = None,
    backend: str | None = None,
) -> tuple[Matrices, Matrices]:
    """Solve a x = b as `solve` does, and return LAPACK's `info` of every matrix instead of raising.

    `info` (int32, of the leading dimensions) is 0, or the number, counted from one, of the first pivot that is exactly
    zero (`pos`: the order of the first minor that is not positive definite); the solutions of such a matrix are not
    defined, those of its neighbours are correct. The call does not wait for a GPU, except with `refine`. Arguments are
    those of `solve`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.solve_ex(np.array([[[2.0]], [[0.0]]]), np.array([[[1.0]], [[1.0]]]))[1]
    array([0, 1], dtype=int32)
    """
    task = _TASKS.get((assume_a, bool(pivot)))
    if task is None:
        raise ValueError(f"assume_a={assume_a!r} is not one of {', '.join(map(repr, _FAMILIES))}")
    refines = refine is not None and refined.is_asked(refine)
    known = None if refines else quick(task, backend, a, b, out)
    if known is not None:
        return known[0], known[1]
    if is_vector(b):
        place, columns = None if out is None else as_columns(out, "out"), as_columns(b, "b")
        x, info = solve_ex(a, columns, assume_a=assume_a, pivot=pivot, refine=refine, out=place, backend=backend)
        if not refines:
            remember_vectors(task, backend, a, b, out)
        return (as_vectors(x) if out is None else out), info

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any, Any]:
        rows, _ = check_matrices(given[0], "a", square=True)
        check_rows(rows, given[1], ("a", "b"))
        by = refined.solve if refines else systems.solve
        return by(kind, task, given[0], given[1], places[0], backend)

    parts = (Part("matrix", lambda a, b: b), Part("info"))
    operation = Operation(run, parts, ("a", "b"), ragged=None if refines else partial(factor_ragged, task, backend))
    return answer(operation, [a, b], out)


def refuse_singular(info: Any) -> None:
    """LinAlgError for the first singular matrix."""
    bad = first_bad(info)
    if bad:
        at, column = bad
        raise np.linalg.LinAlgError(f"{named('a', at)} is singular: pivot {column - 1} of its elimination is zero")


def inv(a: Matrices, *, pivot: bool = True, out: Matrices = None, backend: str | None = None) -> Matrices:
    """Invert every matrix of a batch, as `numpy.linalg.inv`: X with a X = I.

    `a`, `pivot`, `out` (which may be a itself) and exceptions are as for `solve`; the result has the shape of a. For
    ill-conditioned matrices a X - I may be larger than X a - I, as with LAPACK's `getri`. If that matters, call `solve`
    with the unit matrix as b.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.inv(np.array([[[2.0, 0.0], [0.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    array([[[0.5 , 0.  ],
            [0.  , 0.25]],
    <BLANKLINE>
           [[0.  , 1.  ],
            [1.  , 0.  ]]])
    """
    inverses, info = inv_ex(a, pivot=pivot, out=out, backend=backend)
    refuse_singular(info)
    return inverses


def inv_ex(
    a: Matrices,
    *,
    pivot: bool = True,
    out: Matrices = None,
    backend: str | None = None,
) -> tuple[Matrices, Matrices]:
    """Invert every matrix as `inv` does, and return LAPACK's `info` of every matrix instead of raising.

    `info` is that of `solve_ex`: 0, or the number, counted from one, of the first pivot that is exactly zero.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.inv_ex(np.array([[[2.0]], [[0.0]]]))[1]
    array([0, 1], dtype=int32)
    """
    task = _INVERSES[bool(pivot)]
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
