"""Steps of orthogonalisations of tall blocks, of `cholesky_qr` and `orthogonalize` (orthogonal.py).

Both walk a block to orthonormality in steps (small_factors.py): V = against H + block B all along, where B is the
product of the factors so far. Every step costs one pass over the block and leaves the Gram matrix that plans the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...arrays.types import Array, Kind
from ...errors import RankDeficient
from . import small_factors as small
from .device_steps import Progress
from .fused import multiplied
from .gram import gram
from .matmul import matmul
from .sketch_call import plan_sketch

_MOST_STEPS = 8
_USUAL_STEPS = 3  # enough for full rank
_KEPT = 0.5  # of a column's norm: a projection that leaves less is repeated, since its error was relative to the whole

# (block, S, B) -> (block S, its Gram matrix, settled)
Advance = Callable[[Array, Array, Array], tuple[Array, Array, bool]]


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
