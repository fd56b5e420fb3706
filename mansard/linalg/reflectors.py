"""What factors are used for without forming them: `ormqr`, `larft`, `larfb` (reflectors), `laswp` (rows by pivots)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations.factor import reflectors
from ..operations.factor.face import Operation, Part, answer, check_matrices, is_vector
from ..operations.ragged import Ragged
from ..operations.ragged_vectors import Vectors

_TRANS = {"N": False, "C": True}


def ormqr(
    h: Matrices,
    tau: Matrices,
    c: Matrices,
    *,
    left: bool = True,
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Multiply by Q of `qr(a, mode="raw")` without forming it: Q c, Q^H c, c Q or c Q^H, for every matrix of a batch.

    Cost: 4 m n k - 2 n^2 k flops for n reflectors of m entries and k columns; forming Q (m x m) first would take more.
    c is read and written once per block of reflectors.

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
    adjoint = _is_adjoint(trans, h)
    if is_vector(c):
        return _on_vector(ormqr, h, tau, c, left, trans, out, backend)

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        of_h, of_tau, of_c = given
        _check_lines("h", check_matrices(of_h, "h")[1], of_c, left)
        tau = as_vectors(of_tau)
        return (reflectors.multiply_by_q(kind, of_h, tau, of_c, left, adjoint, places[0], backend),)

    operation = Operation(run, (Part("matrix", lambda h, tau, c: c),), ("h", "tau", "c"))
    return answer(operation, [h, _columns(tau), c], out)[0]


def larft(v: Matrices, tau: Matrices, *, out: Matrices = None, backend: str | None = None) -> Matrices:
    """T of I - V T V^H = H_1 H_2 ... H_k, a block of reflectors H_i = I - tau_i v_i v_i^H, for every matrix of a batch.

    Parameters
    ----------
    v : (..., m, k), k <= m, reflector i in column i: ones on the diagonal and zeros above it, which are not read. Of
        `qr(a, mode="raw")`: `h.swapaxes(-1, -2)[..., :k]`. List
    tau : (..., k); leading dimensions broadcast with those of v
    out : (..., k, k), receives the result
    backend : as for `matmul`

    Returns
    -------
    array (..., k, k), upper triangular, for `larfb`

    Cost: about 2 m k^2 + k^3 / 3 flops: the products V^H V, then a triangle; v is read, k^2 entries are written.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.larft(np.array([[0.0], [1.0]]), np.array([1.0]))
    array([[1.]])
    """

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        of_v, of_tau = given
        columns = _check_block(of_v)[1]
        numbers = check_matrices(of_tau, "tau")[0]
        if numbers != columns:
            raise ValueError(f"tau has {numbers} numbers and v {columns} reflectors: one number for each")
        return (reflectors.compact_block(kind, of_v, as_vectors(of_tau), places[0], backend),)

    operation = Operation(run, (Part("matrix", lambda v, tau: (v[1], v[1])),), ("v", "tau"))
    return answer(operation, [v, _columns(tau)], out)[0]


def larfb(
    v: Matrices,
    t: Matrices,
    c: Matrices,
    *,
    left: bool = True,
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """H c, H^H c, c H or c H^H with a block of reflectors H = I - V T V^H, for every matrix of a batch.

    LAPACK's larfb with direct='F', storev='C'.

    Cost: three products, 4 m n k + 2 k^2 n flops for n columns (rows) of c; c is read twice and written once.

    Parameters
    ----------
    v : (..., m, k), k <= m: ones on the diagonal and zeros above it, which are not read. List
    t : (..., k, k), upper triangular (`larft`); what is below the diagonal is not read
    c : (..., m, n), one vector (m,), with left=False (..., n, m); leading dimensions broadcast with those of v and t
    left : H stands to the left of c
    trans : "N": H, "C": its adjoint ("T" for real matrices)
    out : receives the result; it may be c itself
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> v, c = np.array([[1.0], [1.0]]), np.array([[2.0], [1.0]])
    >>> ms.linalg.larfb(v, ms.linalg.larft(v, np.array([1.0])), c)
    array([[-1.],
           [-2.]])
    """
    adjoint = _is_adjoint(trans, v)
    if is_vector(c):
        return _on_vector(larfb, v, t, c, left, trans, out, backend)

    def run(kind: Any, given: list[Any], places: list[Any]) -> tuple[Any]:
        of_v, of_t, of_c = given
        rows, columns = _check_block(of_v)
        if check_matrices(of_t, "t", square=True)[0] != columns:
            raise ValueError(f"t has {check_matrices(of_t, 't')[0]} rows and v {columns} reflectors: one row for each")
        _check_lines("v", rows, of_c, left)
        return (reflectors.multiply_by_block(kind, of_v, of_t, of_c, left, adjoint, places[0], backend),)

    operation = Operation(run, (Part("matrix", lambda v, t, c: c),), ("v", "t", "c"))
    return answer(operation, [v, t, c], out)[0]


def laswp(
    a: Matrices,
    piv: Matrices,
    *,
    inverse: bool = False,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Exchange the rows of a by the pivots of `lu_factor`, for every matrix of a batch: P^T a with a = P L U.

    Pivots of NumPy that name no row of a raise ValueError.

    Parameters
    ----------
    a : array (..., m, n), list of matrices
    piv : (..., k), row i was exchanged with row piv[i], for i = 0, 1, ...; leading dimensions broadcast with those of a
    inverse : True: exchanges in the opposite order, which puts the rows back
    out : receives the result; it may be a itself
    backend : as for `matmul`

    Cost: no flops; a is read and written once.

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


def _is_adjoint(trans: str, reflectors: Any) -> bool:
    one = reflectors[0] if isinstance(reflectors, list) else reflectors
    if trans == "T" and "complex" not in str(getattr(one, "dtype", "")):
        return True
    if trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is neither 'N' nor 'C' ('T' is for real matrices)")
    return _TRANS[trans]


def _on_vector(
    function: Any, first: Any, second: Any, c: Any, left: bool, trans: str, out: Any, backend: str | None
) -> Any:
    """One vector as a column, or with left=False as a row."""
    place = None if out is None else as_columns(out, "out") if left else out[None, :]
    column = as_columns(c, "c") if left else c[None, :]
    found = function(first, second, column, left=left, trans=trans, out=place, backend=backend)
    return out if out is not None else as_vectors(found) if left else found[..., 0, :]


def _columns(tau: Any) -> Any:
    """Vectors of numbers as matrices of one column, which may differ in length in lists and ragged batches."""
    if isinstance(tau, Vectors):
        return Ragged.from_list([one[:, None] for one in tau])
    return as_columns(tau, "tau")


def _check_block(v: Any) -> tuple[int, int]:
    rows, columns = check_matrices(v, "v")
    if columns > rows:
        raise ValueError(f"v has {columns} reflectors of {rows} entries: at most as many as entries")
    return rows, columns


def _check_lines(name: str, entries: int, c: Any, left: bool) -> None:
    found = check_matrices(c, "c")[0 if left else 1]
    if found != entries:
        lines = "rows" if left else "columns"
        raise ValueError(f"{name} has reflectors of {entries} entries and c {found} {lines}: both need the same number")


def _check_pivots(pivots: Any, rows: int) -> None:
    """Integers, no more than there are rows; NumPy's also name rows that exist (others are not fetched for it)."""
    for one in pivots if isinstance(pivots, list | tuple) else (pivots,):
        if "int" not in str(one.dtype):
            raise TypeError(f"piv has dtype {one.dtype}: pivots are integers, as lu_factor gives them")
        if not one.shape or one.shape[-1] > rows:
            raise ValueError(f"piv has shape {tuple(one.shape)} for matrices of {rows} rows: at most one pivot per row")
        if isinstance(one, np.ndarray) and one.size and not 0 <= one.min() <= one.max() < rows:
            raise ValueError(f"piv names rows from {one.min()} to {one.max()}: a has rows 0 to {rows - 1}")
