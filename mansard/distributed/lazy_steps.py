"""Steps of Cholesky QR as tasks of a lazy graph: a fixed number of them, which do nothing after the last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import kinds
from ..arrays.types import Array
from ..operations.tall_skinny import small_factors as small
from ..operations.tall_skinny.fused import multiplied
from ..operations.tall_skinny.orthogonal_steps import check_dependent

MOST = 3  # steps; enough for full rank


class Step(NamedTuple):
    """The next product, block times `apply`, and V = block times `factor` after it."""

    apply: Array
    factor: Array
    norms: Array  # of the columns of V
    last: bool
    dtype: str


def first(G: Array, dtype: str, shift: str) -> Step:
    """The first step, from the Gram matrix of V."""
    G = small.to_host(kinds.kind_of(G, "V"), G, dtype)
    small.check_finite(G, "V")
    norms = np.sqrt(np.diag(G).real)
    small.check_sizes(norms, dtype, "V")
    apply, factor, last, _ = small.step(G, small.unit_roundoff(dtype), shift)
    return Step(apply, factor, norms, last, dtype)


def advanced(block: Array, step: Step, backend: str | None) -> tuple[Array, Array]:
    """A chunk after a step, and its Gram matrix; the chunk itself and None if the step is the last."""
    if step.last:
        return block, None
    kind = kinds.kind_of(block, "V")
    S = kind.upload(np.ascontiguousarray(step.apply, step.dtype), block)
    return multiplied(block, S, None, None, 1.0, 0.0, backend)


def following(step: Step, G: Array) -> Step:
    """The step after this one, from the Gram matrix of all chunks; the step itself if it was the last."""
    if step.last:
        return step
    G = small.to_host(kinds.kind_of(G, "V"), G, step.dtype)
    small.check_finite(G, "V")
    apply, factor, last, _ = small.step(G, small.unit_roundoff(step.dtype), "auto")
    return step._replace(apply=apply, factor=factor @ step.factor, last=last)


def finished(step: Step, like: Array) -> tuple[Array, Array]:
    """The last product's small factor, and R; RankDeficient if columns depend on others."""
    width = len(step.norms)
    Z, R, dependent = small.triangularised(step.factor, step.norms, width, small.unit_roundoff(step.dtype))
    check_dependent(dependent, step.norms, width)
    if not step.last:
        raise np.linalg.LinAlgError(f"V did not become orthonormal in {MOST} steps: compute it first")
    kind = kinds.kind_of(like, "V")
    apply = step.apply if Z is None else step.apply @ Z
    S, R = (kind.upload(np.ascontiguousarray(one, step.dtype), like) for one in (apply, R))
    return S, R
