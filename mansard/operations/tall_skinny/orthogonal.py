"""Orthonormal bases of tall blocks: `cholesky_qr`, and `orthogonalize` against a basis that is there already.

Both walk a block to orthonormality in steps (small_factors.py): V = against H + block B all along, where B is the
product of the factors so far. Every step costs one pass over the block and leaves the Gram matrix that plans the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...arrays.types import Array, Kind
from ...errors import RankDeficient
from ...plan.problem import Options
from .. import warm
from . import short_blocks
from . import small_factors as small
from .device_steps import Progress, advanced
from .fused import check_out, check_same_rows, checked, multiplied, through_jax
from .gram import gram
from .matmul import matmul
from .sketch_call import plan_sketch

_MOST_STEPS = 8
_USUAL_STEPS = 3  # enough for full rank
_KEPT = 0.5  # of a column's norm: a projection that leaves less is repeated, since its error was relative to the whole

# (block, S, B) -> (block S, its Gram matrix, settled)
Advance = Callable[[Array, Array, Array], tuple[Array, Array, bool]]


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
    on_cpu = views["V"].device[0] == "cpu"
    run = short_blocks.for_later(kind, V, out, shift, backend, steps) if on_cpu else steps if out is None else None
    if run is not None:
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
    """V = against H + Q R: an orthonormal basis Q of what is left of V beside the columns of `against`.

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


class Passes:
    """Passes over tall blocks of one array library, of which orthogonalisations are made."""

    def __init__(self, kind: Kind, backend: str | None) -> None:
        self.kind, self.backend = kind, backend

    def gram(self, A: Array, B: Array = None) -> Array:
        """A^H B."""
        return gram(A, B, backend=self.backend)

    def matmul(self, V: Array, S: Array, out: Array = None) -> Array:
        """V S."""
        return matmul(V, S, out=out, backend=self.backend)

    def multiplied(
        self, V: Array, S: Array, out: Array, base: Array = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> tuple[Array, Array]:
        """W = alpha V S + beta base, and W^H W."""
        return multiplied(V, S, out, base, alpha, beta, self.backend)

    def sketch(self, V: Array) -> Array:
        """A sketch of V; None where no kernel forms one."""
        run = plan_sketch(V, self.backend)
        return None if run is None else run(V)[0]

    def projected(self, V: Array, W: Array, out: Array) -> tuple[Array, Array, Array]:
        """W' = W - V C, C = V^H W, and W'^H W'."""
        C = self.gram(V, W)
        rest, G = self.multiplied(V, C, out, W, -1.0, 1.0)
        return rest, C, G


def by_cholesky(
    passes: Passes, V: Array, out: Array, begun: Progress | None, shift: str, on_deficient: str
) -> tuple[Array, Array, Array]:
    """(Q, R, dependent) of checked operands: steps of Cholesky QR from where `begun` has come."""
    kind, dtype = passes.kind, passes.kind.view(V, "V").dtype

    def advance(block: Array, S: Array, B: Array) -> tuple[Array, Array, bool]:
        S = kind.upload(np.ascontiguousarray(S, dtype), V)
        block, G = passes.multiplied(block, S, out if block is V else block)
        return block, small.to_host(kind, G, dtype), True

    sketch = _sketch_of(passes, dtype) if begun is None else None  # on a GPU that has been tried
    begun = begun or Progress(V, small.to_host(kind, passes.gram(V), dtype), None, None)
    block, S, R, dependent = _orthonormalized(begun, V.shape[1], dtype, advance, True, shift, on_deficient, sketch)
    S, R = (kind.upload(np.ascontiguousarray(matrix, dtype), V) for matrix in (S, R))
    return passes.matmul(block, S, out if block is V else block), R, dependent


def by_projection(
    passes: Passes, V: Array, against: Array, out: Array, shift: str, on_deficient: str
) -> tuple[Array, Array, Array, Array]:
    """(Q, R, H, dependent) of checked operands: projections, each followed by a step of Cholesky QR."""
    kind, dtype = passes.kind, passes.kind.view(V, "V").dtype
    H: Array = None

    def advance(block: Array, S: Array, B: Array) -> tuple[Array, Array, bool]:
        nonlocal H
        if S is not None:
            S = kind.upload(np.ascontiguousarray(S, dtype), V)
            block = passes.matmul(block, S, block)
        block, C, G = passes.projected(against, block, out if S is None else block)
        C, G = (small.to_host(kind, matrix, dtype) for matrix in (C, G))
        H = C if S is None else H + C @ B
        left, had = np.diag(G).real, _squares(G, C)
        return block, G, bool((left >= _KEPT**2 * had)[left > 0].all())

    block, G, settled = advance(V, None, None)
    _check_finite(G, H)
    norms = np.sqrt(_squares(G, H))
    begun, width = Progress(block, G, None, norms), V.shape[1] + against.shape[1]
    sketch = _sketch_of(passes, dtype)
    block, S, R, dependent = _orthonormalized(begun, width, dtype, advance, settled, shift, on_deficient, sketch)
    S, R, H = (kind.upload(np.ascontiguousarray(matrix, dtype), V) for matrix in (S, R, H))
    return passes.matmul(block, S, block), R, H, dependent


def _sketch_of(passes: Passes, dtype: str) -> Callable[[Array], Array]:
    """The sketch of a block, on the host; None where there is none."""

    def sketch(block: Array) -> Array:
        Y = passes.sketch(block)
        return None if Y is None else small.to_host(passes.kind, Y, dtype)

    return sketch


def _check_finite(G: Array, H: Array) -> None:
    """Whose entries are not finite: columns of `against` spoil rows of H, columns of V spoil columns of it."""
    spoilt = ~np.isfinite(H).any(axis=1)
    if spoilt.any() and not spoilt.all():
        raise ValueError(f"column {int(np.argmax(spoilt))} of against has entries that are not finite: remove them")
    small.check_finite(G, "V or against" if spoilt.any() else "V")


def _squares(G: Array, C: Array) -> Array:
    """Squared norms of the columns before a projection that found C and left a block with Gram matrix G."""
    return np.diag(G).real + (np.abs(C) ** 2).sum(axis=0)


def _orthonormalized(
    begun: Progress, width: int, dtype: str, advance: Advance, settled: bool, shift: str, on_deficient: str,
    sketch: Callable[[Array], Array] | None,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """(block, S, R, dependent): the last product, block S, is left to the caller; it needs no Gram matrix."""
    u = small.unit_roundoff(dtype)
    block, G, B, norms, first, sketched = begun
    small.check_finite(G, "V")
    norms = np.sqrt(G.diagonal().real) if norms is None else norms
    small.check_sizes(norms, dtype, "V")
    for count in range(first, _MOST_STEPS):
        if count >= _USUAL_STEPS and B is not None:
            G = small.without_noise(G, B, norms, small.noise(width, u) * 4.0 ** (count - _USUAL_STEPS))
        of_block = partial(sketch, block) if sketch is not None and count == 0 else None
        step = small.step(G, u, shift, "V", of_block, sketched)
        sketched = step.sketched
        shift = "auto" if shift == "always" else shift
        B = step.factor if B is None else step.factor @ B
        if step.last and settled:
            break
        block, G, settled = advance(block, step.apply, B)
        small.check_finite(G, "V")
    else:
        raise np.linalg.LinAlgError(
            f"V did not become orthonormal in {_MOST_STEPS} steps: are the columns of against orthonormal?"
        )
    Z, R, dependent = small.triangularised(B, norms, width, u)
    if on_deficient == "raise":
        check_dependent(dependent, norms, width)
    return block, step.apply if Z is None else step.apply @ Z, R, dependent


def check_dependent(dependent: Array, norms: Array, width: int) -> None:
    """Raise RankDeficient for the first column that is marked."""
    if dependent.any():
        column = int(np.argmax(dependent))
        others = "the columns before it" if width == len(norms) else "against and the columns before it"
        why = "is zero" if norms[column] == 0 else f"depends on {others}"
        raise RankDeficient(f"column {column} of V {why}: drop it, or pass on_deficient='flag'", column)


def check_options(shift: str, on_deficient: str) -> None:
    if shift not in ("auto", "always", "never"):
        raise ValueError(f"shift={shift!r} is not one of 'auto', 'always', 'never'")
    if on_deficient not in ("raise", "flag"):
        raise ValueError(f"on_deficient={on_deficient!r} is not one of 'raise', 'flag'")
