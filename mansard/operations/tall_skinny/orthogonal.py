"""Orthonormal bases of tall blocks: `cholesky_qr`, and `orthogonalize` against a basis that is there already.

The steps that both are made of are in orthogonal_steps.py.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...arrays.types import Array, Kind
from ...plan.problem import Options
from .. import warm
from . import short_blocks
from .device_steps import advanced
from .fused import check_out, check_same_rows, checked, through_jax
from .orthogonal_steps import Passes, by_cholesky, by_projection


def cholesky_qr(
    V: Array, *, out: Array = None, shift: str = "auto", on_deficient: str = "raise", backend: str | None = None
) -> tuple[Array, ...]:
    """Q R = V for tall V: Q has orthonormal columns, R is upper triangular with a positive diagonal.

    Q is orthonormal and V - Q R small to working precision for any V of full rank. Condition numbers to about
    1 / sqrt(32 u) take two steps of Cholesky QR (1e7 in double, 700 in single precision), nearly orthonormal blocks a
    single one. Of larger ones the first step is planned from a sketch, a random combination of rows; the same bits
    every time.

    Parameters
    ----------
    V : (K, N) array with K >= N, of float32, float64, complex64 or complex128; any strides
    out : (K, N) array that receives Q; it may be V. V is not written to otherwise
    shift : "auto" shifts the Gram matrix where its own error would drown the smallest singular values, "always"
        shifts the first one, "never" raises instead
    on_deficient : "raise" raises RankDeficient, a numpy.linalg.LinAlgError with the attribute `column`, for the first
        column that depends on those before it to working precision (what `out` then holds is undefined). "flag" returns
        a last value that marks such columns: they are zero columns of Q and zero rows of R, and V = Q R all the same
    backend : as for `matmul`

    Returns
    -------
    Q, (K, N), and R, (N, N): arrays of the same kind, on the same device. With on_deficient="flag" also `dependent`,
    a NumPy array of N booleans.

    Notes
    -----
    On GPUs the N x N matrices are factored there (to N = 119, 84 if complex) while the host looks on: it decides
    what comes next, and takes over where columns may be dependent, so that the call cannot be captured in a CUDA graph.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.array([[3.0, 1.0], [4.0, 7.0], [0.0, 0.0]])
    >>> Q, R = ms.cholesky_qr(V)
    >>> R.round(12)
    array([[5. , 6.2],
           [0. , 3.4]])
    >>> ms.cholesky_qr(np.ones((3, 2)))
    Traceback (most recent call last):
    mansard.errors.RankDeficient: column 1 of V depends on the columns before it: drop it, or pass on_deficient='flag'
    """
    what = ("cholesky_qr", shift, on_deficient, backend)
    known = warm.recall(what, (V,), out)
    found = None if known is None else known(V, out)
    if found is not None:
        return _flagged(found, on_deficient)
    given = {"V": V} | ({} if out is None else {"out": out})
    kind, views = checked(given)
    if kind.immutable:
        options = dict(shift=shift, on_deficient=on_deficient, backend=backend)
        return through_jax(kind, cholesky_qr, given, options)
    check_options(shift, on_deficient)
    rows, columns = views["V"].shape
    if rows < columns:
        raise ValueError(f"V has shape {(rows, columns)}: fewer rows than columns cannot be orthonormal; pass V.T")
    check_out(views, (rows, columns), may_be="V")
    steps = partial(_by_steps, kind, shift, on_deficient, backend)
    run = short_blocks.for_later(kind, V, out, shift, backend, steps)
    warm.keep(what, (V,), out, run)
    found = run(V, out)
    return _flagged(steps(V, out) if found is None else found, on_deficient)


def _by_steps(
    kind: Kind, shift: str, on_deficient: str, backend: str | None, V: Array, out: Array
) -> tuple[Array, Array, Array]:
    """(Q, R, dependent) of checked operands, by steps of Cholesky QR."""
    view = kind.view(V, "V")
    if view.conjugated:
        V = kind.plain(V)  # once, instead of in every pass
        view = kind.view(V, "V")
    begun = advanced(kind, V, view, out, backend) if shift == "auto" else None
    if begun is not None and begun.G is None:
        return begun.block, begun.factor, np.zeros(view.shape[1], bool)
    return by_cholesky(Passes(kind, backend), V, out, begun, shift, on_deficient)


def _flagged(found: tuple[Array, Array, Array], on_deficient: str) -> tuple[Array, ...]:
    """Q and R, and the mask of dependent columns where it is asked for."""
    return found if on_deficient == "flag" else found[:2]


def orthogonalize(
    V: Array,
    against: Array,
    *,
    out: Array = None,
    shift: str = "auto",
    on_deficient: str = "raise",
    backend: str | None = None,
) -> tuple[Array, ...]:
    """V = against H + Q R: an orthonormal basis Q of the part of V that is orthogonal to the columns of `against`.

    Block Gram-Schmidt: V is projected, and projected again where little of a column was left or what was left is ill
    conditioned; then Cholesky QR. Q is orthonormal, and orthogonal to `against`, to working precision.

    Parameters
    ----------
    V : (K, N) array, of float32, float64, complex64 or complex128; any strides. Or one vector (K,)
    against : (K, M) array of the same kind, dtype and device, with orthonormal columns; K >= M + N. Or one vector (K,)
    out : (K, N) array that receives Q; it may be V. V is not written to otherwise
    shift, on_deficient, backend : as for `cholesky_qr`; a column that lies in the span of `against` is dependent too

    Returns
    -------
    Q, (K, N), R, (N, N), upper triangular with a positive diagonal, and H, (M, N): arrays of the same kind, on the same
    device. With on_deficient="flag" also `dependent`, a NumPy array of N booleans. What belongs to a vector lacks the
    dimension that it lacks.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> Q, R, H = ms.orthogonalize(np.array([[1.0], [0.0], [2.0]]), against=np.eye(3, 1))
    >>> Q.ravel(), R, H
    (array([0., 0., 1.]), array([[2.]]), array([[1.]]))
    """
    given = {"V": V, "against": against} | ({} if out is None else {"out": out})
    options: Options = dict(shift=shift, on_deficient=on_deficient, backend=backend)
    if any(len(getattr(one, "shape", ())) == 1 for one in (V, against)):
        return _of_vectors(given, options)
    kind, views = checked(given)
    if kind.immutable:
        return through_jax(kind, orthogonalize, given, options)
    check_options(shift, on_deficient)
    check_same_rows(views, "V", "against")
    (rows, columns), others = views["V"].shape, views["against"].shape[1]
    if rows < columns + others:
        raise ValueError(
            f"V and against have {columns} + {others} columns of {rows} entries: too many to be orthogonal"
        )
    check_out(views, (rows, columns), may_be="V", apart=("against",))
    Q, R, H, dependent = by_projection(Passes(kind, backend), V, against, out, shift, on_deficient)
    return (Q, R, H, dependent) if on_deficient == "flag" else (Q, R, H)


def _of_vectors(given: dict[str, Array], options: Options) -> tuple[Array, ...]:
    """`orthogonalize` where V or `against` is a vector: both as columns, and results without what vectors lack."""
    of_v, of_basis = (len(given[name].shape) == 1 for name in ("V", "against"))
    columns = {name: one[:, None] if len(one.shape) == 1 else one for name, one in given.items()}
    if "out" in given and len(given["out"].shape) != len(given["V"].shape):
        shape, wanted = (tuple(given[name].shape) for name in ("out", "V"))
        raise ValueError(f"out has shape {shape}, the result {wanted}")
    Q, R, H, *flags = orthogonalize(**columns, **options)
    H = H[0] if of_basis else H
    if of_v:
        Q, R, H = Q[:, 0], R[0, 0], H[..., 0]
    return (given.get("out", Q), R, H, *flags)


def check_options(shift: str, on_deficient: str) -> None:
    if shift not in ("auto", "always", "never"):
        raise ValueError(f"shift={shift!r} is not one of 'auto', 'always', 'never'")
    if on_deficient not in ("raise", "flag"):
        raise ValueError(f"on_deficient={on_deficient!r} is not one of 'raise', 'flag'")
