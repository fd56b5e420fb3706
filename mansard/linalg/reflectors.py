"""What factors are used for without forming them: `ormqr` (Q from reflectors), `laswp` (rows by pivots)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..blas.triangular import as_columns, as_vectors
from ..operations.factor import reflectors
from ..operations.factor.face import Operation, Part, answer, check_matrices, is_vector

_TRANS = {"N": False, "C": True}


def ormqr(
    h: Any, tau: Any, c: Any, *, left: bool = True, trans: str = "N", out: Any = None, backend: str | None = None
) -> Any:
    """Q c, Q^H c, c Q or c Q^H from the reflectors of `qr(a, mode="raw")`, for every matrix of a batch.

    Q (m x m) is not formed: a product with k columns takes 4 m n k flops instead of forming Q first.

    Parameters
    ----------
    h, tau : what `qr` gave with mode="raw": (..., n, m), transposed as NumPy has it, and (..., min(m, n))
    c : (..., m, k), one vector (m,), with left=False (..., k, m); leading dimensions broadcast with those of h. List
    left : Q stands to the left of c
    trans : "N": Q, "C": its adjoint ("T" for real matrices)
    out : receives the result; it may be c itself
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 1.0]])
    >>> h, tau = ms.linalg.qr(a, mode="raw")
    >>> np.round(abs(ms.linalg.ormqr(h, tau, a, trans="C")), 6)
    array([[5.      , 2.2     ],
           [0.      , 1.077033],
           [0.      , 0.      ]])
    """
    if trans == "T" and "complex" not in str(getattr(h[0] if isinstance(h, list) else h, "dtype", "")):
        trans = "C"
    if trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is neither 'N' nor 'C' ('T' is for real matrices)")
    if is_vector(c):
        place = None if out is None else as_columns(out, "out")
        column = as_columns(c, "c") if left else c[None, :]
        place = place if left or out is None else out[None, :]
        found = ormqr(h, tau, column, left=left, trans=trans, out=place, backend=backend)
        return out if out is not None else as_vectors(found) if left else found[..., 0, :]

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        of_h, of_tau, of_c = given
        rows = check_matrices(of_h, "h")[1]
        found = check_matrices(of_c, "c")[0 if left else 1]
        if found != rows:
            lines = "rows" if left else "columns"
            raise ValueError(f"h has reflectors of {rows} entries and c {found} {lines}: both need the same number")
        return (reflectors.multiply_by_q(kind, of_h, of_tau, of_c, left, _TRANS[trans], places[0], backend),)

    operation = Operation(run, (Part("matrix", lambda h, tau, c: c),), ("h", "tau", "c"))
    return answer(operation, [h, tau, c], out)[0]


def laswp(a: Any, piv: Any, *, inverse: bool = False, out: Any = None, backend: str | None = None) -> Any:
    """The rows of a, exchanged by the pivots of `lu_factor`, for every matrix of a batch: P^T a with a = P L U.

    Parameters
    ----------
    a : array (..., m, n), list of matrices
    piv : (..., k), row i was exchanged with row piv[i], for i = 0, 1, ...; leading dimensions broadcast with those of a
    inverse : True: exchanges in the opposite order, which puts the rows back
    out : receives the result; it may be a itself
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[1.0], [2.0], [3.0]])
    >>> b = ms.linalg.laswp(a, np.array([2, 1, 2], np.int32))
    >>> b.ravel(), ms.linalg.laswp(b, np.array([2, 1, 2], np.int32), inverse=True).ravel()
    (array([3., 2., 1.]), array([1., 2., 3.]))
    """

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        of_a, pivots = given
        rows = check_matrices(of_a, "a")[0]
        _check_pivots(pivots, rows)
        return (reflectors.exchange_rows(kind, of_a, pivots, bool(inverse), places[0], backend),)

    operation = Operation(run, (Part("matrix", lambda a, piv: a),), ("a", "piv"), ("piv",))
    return answer(operation, [a, piv], out)[0]


def _check_pivots(pivots: Any, rows: int) -> None:
    """Integers, no more than there are rows; NumPy's also name rows that exist (others are not fetched for it)."""
    for one in pivots if isinstance(pivots, list | tuple) else (pivots,):
        if "int" not in str(one.dtype):
            raise TypeError(f"piv has dtype {one.dtype}: pivots are integers, as lu_factor gives them")
        if not one.shape or one.shape[-1] > rows:
            raise ValueError(f"piv has shape {tuple(one.shape)} for matrices of {rows} rows: at most one pivot per row")
        if isinstance(one, np.ndarray) and one.size and not 0 <= one.min() <= one.max() < rows:
            raise ValueError(f"piv names rows from {one.min()} to {one.max()}: a has rows 0 to {rows - 1}")
