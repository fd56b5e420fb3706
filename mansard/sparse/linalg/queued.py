"""Solvers by fused passes whose scalars stay on the device: what the host adds to them.

Results and history are those of a loop that waits for every iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...operations.sparse import krylov
from ...operations.sparse.matrix import Matrix
from ...operations.sparse.storage import array_module
from . import operator
from .report import Report
from .space import WHOLE, space_of

SINGULAR = "A is singular, and b not in its range: x has the smallest residual"


def passes_for(A: Any, b: Any, method: str) -> krylov.Passes | None:
    """The passes over vectors like b; None where they do not pay, or there are none: several right-hand sides, vectors
    of several processes, short vectors of CPUs, products on a GPU that Python may wait for."""
    if b.ndim != 1 or not b.size or space_of(A) is not WHOLE:
        return None
    kind = arrays.kind_of(b, "b")
    on_host = kind.view(b, "b").device[0] == "cpu"
    if not (len(b) >= operator.LARGE if on_host else isinstance(A, Matrix)):
        return None
    return krylov.planned(kind, b, method, A.backend if isinstance(A, Matrix) else None)


def weights_of(M: Any, b: Any) -> Any:
    """The diagonal of a preconditioner that is nothing else, for every real number of a vector; None of others."""
    entries = getattr(M, "nnz", None)
    if entries is None or tuple(M.shape) != (len(b), len(b)) or entries > len(b) or b.ndim != 1:
        return None
    rows = operator.rows_of(M) if isinstance(M, Matrix) else M
    if not hasattr(rows, "diagonal") or not hasattr(rows, "count_nonzero"):
        return None
    d = rows.diagonal()
    is_alone = array_module(d) is array_module(b) and int(rows.count_nonzero()) == int((d != 0).sum())
    if not is_alone or (d.dtype.kind == "c" and bool((d.imag != 0).any())):
        return None
    d = d.real.astype(b.real.dtype)
    return d.repeat(2) if b.dtype.kind == "c" else d


class Queued:
    """The loop of conjugate gradients over queued iterations."""

    def __init__(self, passes: krylov.Passes, A: Any, weights: Any, goal: float, run: Report) -> None:
        self.passes, self.A, self.weights, self.goal, self.run = passes, A, weights, goal, run

    def solve(self, x: Any, r: Any, started: bool, steps: int, callback: Callable[[Any], object] | None) -> Any:
        """Update x and the residual r in place until it has reached the goal; its norm, as an array of one."""
        kind = arrays.kind_of(x, "x")
        if started:
            r -= self.A @ x
            self._count(1)
        least = (0.01 * float(np.finfo(r.dtype).eps)) ** 2  # of rho: what is below is rounding of the first residual
        waits = callback is not None  # x is right when the callback has it
        queue = krylov.CgQueue(kind, self.passes, self.A, x, r, self.weights, (self.goal, least), waits)
        try:
            return np.array([self._walked(queue, steps, callback)])
        finally:
            queue.close()

    def _walked(self, queue: krylov.CgQueue, steps: int, callback: Callable[[Any], object] | None) -> float:
        """Queue iterations, read what they post, in this order and so many apart, and note it."""
        left = np.inf
        for number in range(steps + 1):
            found = _read(queue, number, steps)
            if found.is_indefinite:
                self._count(1)
                self.run.notes.append(f"p^H A p = {found.curvature:.1e}: A is not positive definite")
                return left
            left = found.left
            self.run.residuals.append(left)
            if number:
                self._count(1)
                self.run.iterations += 1
                if callback is not None:
                    callback(queue.x)
            if not found.is_running:
                return left
        return left

    def _count(self, products: int) -> None:
        self.run.products += products
        self.run.passes += products


def minres_steps(
    passes: krylov.Passes, A: Any, x: Any, r: Any, shift: float, left: float, goal: float, steps: int, run: Report,
    callback: Callable[[Any], object] | None,
) -> bool:  # fmt: skip
    """Iterate minres from the residual r, of norm `left`, until the recurrence promises the goal; r is overwritten.
    Returns whether to look at the true residual and go on."""
    roundoff = float(np.finfo(x.dtype).eps)
    scalars = (goal, roundoff, roundoff**0.75, shift, left)
    queue = krylov.MinresQueue(arrays.kind_of(x, "x"), passes, A, x, r, scalars, callback is not None)
    last = steps - run.iterations
    try:
        for number in range(1, last + 1):
            found = _read(queue, number, last)
            run.products, run.passes = run.products + 1, run.passes + 1
            if found.is_singular:
                run.notes.append(SINGULAR)
                return False
            run.iterations += 1
            run.residuals.append(found.left)
            if callback is not None:
                callback(x)
            if not found.is_running:
                break
        return True
    finally:
        queue.close()


def _read(queue: krylov.Queue, number: int, last: int) -> krylov.Posted:
    """What iteration `number` has posted; those that follow are queued first, up to the `last`."""
    while queue.queued < min(last, number + queue.ahead):
        queue.queue()
    return queue.read(number)
