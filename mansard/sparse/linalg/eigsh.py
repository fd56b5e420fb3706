"""Eigenvalues at the ends of a spectrum, by Lanczos' method with blocks and thick restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, SparseMatrix
from .blocks import PANEL, Blocks
from .callers import for_callers
from .checks import check_vector
from .lobpcg_small import dense_pairs
from .operator import check_hermitian, check_whole, dtype_of, multiply_into, sample, square, stored
from .report import Report

_WHICH = ("LM", "LA", "SA", "BE")
_BLOCK = 4  # vectors at a time: eigenvalues of this multiplicity are found in exact arithmetic
_FEWEST = 8  # blocks behind the wanted vectors: fewer leave a restart hardly any degrees of polynomials
_SHARE = 0.25  # of the tolerance that a residual takes before fresh vectors are let in
_ROUGH = 1e-4  # of the norm of A: a residual from which a Ritz value hardly moves
_FEWEST_VECTORS = 20  # of a basis, as ARPACK's


@for_callers(("v0",), ("A",))
def eigsh(
    A: SparseMatrix,
    k: int = 6,
    M: Array = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Array = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    *,
    block: int | None = None,
    callback: Callable[[Any, Any], object] | None = None,
    report: bool = False,
) -> Array:
    """k eigenvalues of a Hermitian A at an end of its spectrum, and their eigenvectors.

    A pass over A serves `block` vectors, and eigenvalues of as high a multiplicity are found together. Before results
    are returned, vectors orthogonal to all of them are let in, to find the copies of an eigenvalue of more.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse, cupyx.scipy.sparse, or a LinearOperator; a large
        sparse matrix of SciPy's or CuPy's is copied once, for products by our kernels
    k : eigenvalues wanted, fewer than A has rows
    M, sigma : must be None: generalised problems are `lobpcg`'s, inner eigenvalues take a factorization of A - sigma I.
        There is no preconditioner: Lanczos' method takes its vectors from powers of A, in which none has a place;
        `lobpcg` takes one
    which : "LM" largest in modulus, "LA" largest, "SA" smallest, "BE" k/2 from each end. "SM" is refused: without
        a factorization it does not converge in reasonable time; of a positive definite A it is "SA"
    v0 : (n,) or (n, block): where to start; vectors without structure unless given
    ncv : vectors of the basis, at least k + 2 block; max(2 k + block, k + 8 block, 20) unless given
    maxiter : restarts at most, 300 unless given
    tol : norm of a residual over the modulus of its eigenvalue; 0: what rounding leaves
    return_eigenvectors : also return v
    block : vectors at a time, min(k, 4) unless given
    callback : callback(eigenvalues, norms of residuals) of the wanted k, before every restart and at the end
    report : return a Report as well, last

    Returns
    -------
    w, (k,), ascending, and v, (n, k), orthonormal. What did not converge raises scipy's ArpackNoConvergence, which has
    the eigenvalues and eigenvectors that did.

    Cost: a step of `block` vectors takes 2 nnz block flops and one pass over A, and at least 4 j n block to
    orthogonalize them against the j vectors there are; memory is that of ncv vectors or more.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> w, v = ms.sparse.linalg.eigsh(scipy.sparse.diags_array(np.arange(100.0)), k=3)
    >>> print(w.round(8))
    [97. 98. 99.]
    """
    wish = _checked(A, k, M, sigma, which, v0, ncv, block)
    run = Report(f"eigsh, blocks of {wish.block} in {wish.ncv} vectors")
    if wish.ncv + wish.block > A.shape[0]:
        values, vectors = _dense(A, wish, run)
    else:
        solver = _Lanczos(stored(A, wish.block), wish, run)
        values, vectors = solver.solve(300 if maxiter is None else maxiter, tol, callback)
    order = np.argsort(values)
    w = arrays.kind_of(vectors, "v").upload(np.ascontiguousarray(values[order]), vectors)
    found = (w, vectors[:, order]) if return_eigenvectors else (w,)
    found += (run,) if report else ()
    return found if len(found) > 1 else w


class _Wish(NamedTuple):
    """Validated arguments."""

    k: int
    which: str
    block: int
    ncv: int
    start: Any  # (n, columns), in the dtype that is computed in


def _checked(
    A: Any, k: int, M: Any, sigma: Any, which: str, v0: Any, ncv: int | None, block: int | None
) -> _Wish:  # fmt: skip
    check_whole(A, "eigsh")
    if M is not None:
        raise ValueError(
            "M is given: eigsh solves A x = w x by powers of A, where neither another matrix nor a preconditioner has a"
            " place; use lobpcg(A, X, B=M) for A x = w M x, and lobpcg(A, X, M=M) for a preconditioner M"
        )
    if sigma is not None or which == "SM":
        given = "which='SM'" if sigma is None else f"sigma={sigma}"
        raise ValueError(
            f"{given}: inner eigenvalues need a factorization of A - sigma I, which is not computed here: use 'SA' for"
            " the smallest ones of a positive definite A, or scipy.sparse.linalg.eigsh(A, sigma=...)"
        )
    if which not in _WHICH:
        raise ValueError(f"which={which!r} is not one of {', '.join(map(repr, _WHICH))}")
    if v0 is None:
        v0 = sample(A)[:, :0]
    check_vector(v0, "v0")
    if v0.ndim not in (1, 2):
        raise ValueError(f"v0 has shape {v0.shape}: a vector (n,) or vectors side by side (n, block) are needed")
    n = v0.shape[0]
    square(A, n, "v0")
    if not 0 < k < n:
        raise ValueError(f"k={k} eigenvalues of {n}: ask for 1 to {n - 1}; numpy.linalg.eigh computes all")
    start = v0.reshape(n, -1).astype(dtype_of(A, v0), order="C")
    width = max(min(k, _BLOCK), start.shape[1]) if block is None else block
    if width < 1 or start.shape[1] > width:
        raise ValueError(f"block={width}: at least one vector, and as many as v0 has, are needed")
    most = max(2 * k + width, k + _FEWEST * width, _FEWEST_VECTORS) if ncv is None else ncv
    if most < k + 2 * width:
        raise ValueError(f"ncv={most}: at least k + 2 block = {k + 2 * width} vectors are needed")
    return _Wish(k, which, width, -(-most // width) * width, start)


def _dense(A: Any, wish: _Wish, run: Report) -> tuple[Any, Any]:
    """All eigenpairs by LAPACK, and the wanted ones of them."""
    n = A.shape[0]
    like = Blocks(n, wish.start.dtype, wish.start).zeros(n)
    values, vectors = dense_pairs(A, None, like, None, False, run)
    run.method = "eigsh, dense"
    chosen = _wanted(values, wish)
    return values[chosen], vectors[:, chosen]


def _wanted(values: Any, wish: _Wish, count: int | None = None) -> Any:
    """Indices of the `count` (k) wanted of some values, the most wanted first."""
    count = wish.k if count is None else count
    order = np.argsort(values)
    if wish.which == "LM":
        order = np.argsort(-np.abs(values), kind="stable")
    elif wish.which == "LA":
        order = order[::-1]
    elif wish.which == "BE":  # from both ends in turn, the upper first, as ARPACK
        both = np.empty_like(order)
        both[::2], both[1::2] = order[::-1][: (len(order) + 1) // 2], order[: len(order) // 2]
        order = both
    return order[:count]


class _Lanczos:
    """A V = V T + (next block) R, with V orthonormal; T is small and on the host.

    Each block is orthogonalised against all of V, so that T is what Rayleigh-Ritz takes and a restart needs no more
    than V times coordinates, with the next block behind. Columns of V that are not there yet are zero.
    """

    def __init__(self, A: Any, wish: _Wish, run: Report) -> None:
        self.A, self.wish, self.run, self.block = A, wish, run, wish.block
        self.blocks = Blocks(len(wish.start), wish.start.dtype, wish.start)
        width = -(-(wish.ncv + wish.block) // PANEL) * PANEL
        self.V, self.spare = (self.blocks.zeros(width) for _ in range(2))
        self.T = np.zeros((wish.ncv, wish.ncv), wish.start.dtype)
        self.R = np.zeros((wish.block, wish.block), wish.start.dtype)
        self.columns = 0  # of V with their part of T; the next block is behind
        self.size = 0.0  # of A, as seen so far

    def solve(self, most: int, tol: float, callback: Any) -> tuple[Any, Any]:
        """(eigenvalues, eigenvectors)."""
        self._begin()
        k, searching = self.wish.k, False
        for restart in range(most + 1):
            while self.columns + self.block <= self.wish.ncv:
                self._extend()
            values, coordinates, norms, goal = self._ritz(tol)
            self.run.residuals.append(float(norms[:k].max()))
            if callback is not None:
                callback(values[:k].copy(), norms[:k])
            converged = (norms <= goal)[:k].all()
            if converged and searching and self._nothing_is_left_out(values, norms, goal):
                break
            if restart == most:
                self._give_up(values, coordinates, (norms <= goal)[:k], restart)
            fresh = converged and not searching
            searching = searching or fresh
            self._restart(values, coordinates, fresh)
        return self._verified(values[:k], self._vectors(coordinates, k))

    def _verified(self, values: Any, vectors: Any) -> tuple[Any, Any]:
        """The eigenpairs; their residuals, computed by one more product each, end the report."""
        AX = multiply_into(self.A, vectors, self.blocks.zeros(self.wish.k))
        self.run.products, self.run.passes = self.run.products + self.wish.k, self.run.passes + 1
        self.blocks.multiplied(vectors, np.diag(-values), AX, AX)
        self.run.residuals.append(float(np.sqrt(self.blocks.gram(AX, AX).diagonal().real.max())))
        return values, vectors

    def _nothing_is_left_out(self, values: Any, norms: Any, goal: Any) -> bool:
        """Whether vectors that were orthogonal to all that had converged lead to nothing that is more wanted.

        The first Ritz value behind the k, moved by its residual, must not precede them, or have all but converged.
        """
        k = self.wish.k
        if len(values) == k:
            return True
        rough = norms[k] <= max(100 * float(goal.max()), _ROUGH * self.size)
        if self.wish.which == "BE":
            return bool(rough)
        key = np.abs if self.wish.which == "LM" else np.negative if self.wish.which == "SA" else np.asarray
        return bool(rough or key(values[k]) + norms[k] <= key(values[:k]).min())

    def _begin(self) -> None:
        start = self.blocks.random(self.block)
        given = self.wish.start.shape[1]
        start[:, :given] = self.wish.start
        self.V[:, : self.block], _, lost = self.blocks.filled(start, (self.V[:, :0], self.V[:, :0]))
        if lost and given:
            self.run.notes.append(f"{lost} columns of v0 depend on others: random ones took their place")

    def _extend(self) -> None:
        """The product of the last block, its part of T, and the next block."""
        j, p = self.columns, self.block
        W = multiply_into(self.A, self.V[:, j : j + p], self.blocks.zeros(p))
        self.run.products, self.run.passes = self.run.products + p, self.run.passes + 1
        self.run.iterations += 1
        Q, R, H, dependent = self.blocks.extended(W, self.V, j + p)
        if not np.isfinite(H).all():
            raise ValueError("A or v0 has entries that are not finite")
        check_hermitian(H[j:], "use scipy.sparse.linalg.eigs")
        self.T[: j + p, j : j + p] = H
        self.T[j : j + p, : j + p] = H.conj().T
        self.T[j : j + p, j : j + p] = (H[j:] + H[j:].conj().T) / 2
        if dependent.any():  # an invariant subspace: go on elsewhere; R's rows of these columns are zero
            self._replace(Q, dependent)
        self.R, self.columns = R, j + p
        self.V[:, j + p : j + 2 * p] = Q

    def _replace(self, Q: Any, dependent: Any) -> None:
        """Random vectors, orthogonal to V and to the other columns of Q, for columns that are zero."""
        basis = self.blocks.zeros(self.V.shape[1] + self.block)
        basis[:, : self.V.shape[1]], basis[:, self.V.shape[1] :] = self.V, Q
        found, _, _ = self.blocks.filled(self.blocks.random(int(dependent.sum())), (basis, basis))
        Q[:, dependent] = found

    def _ritz(self, tol: float) -> tuple[Any, Any, Any, Any]:
        """(values, coordinates, norms of residuals, what these should be at most), the most wanted first."""
        j = self.columns
        values, coordinates = np.linalg.eigh(self.T[:j, :j])
        order = _wanted(values, self.wish, j)
        values, coordinates = values[order], coordinates[:, order]
        self.size = max(self.size, float(np.abs(values).max()))
        norms = np.linalg.norm(self.R @ coordinates[-self.block :], axis=0)
        least = 4 * float(np.finfo(values.dtype).eps) * self.size
        # vectors let in later see the converged ones as exact: a share of the tolerance is theirs
        return values, coordinates, norms, np.maximum(_SHARE * tol * np.abs(values), least)

    def _restart(self, values: Any, coordinates: Any, fresh: bool) -> None:
        """Keep the most wanted vectors, with the next block behind; if `fresh`, the k that have converged alone, and a
        random block: the residuals of others would be lost with the next block."""
        p, k = self.block, self.wish.k
        keep = k if fresh else k + (self.wish.ncv - k) // (2 * p) * p
        following = self.V[:, self.columns : self.columns + p]
        if fresh:
            kept = self._vectors(coordinates, k)
            following, _, _ = self.blocks.filled(self.blocks.random(p), (kept, kept))
        full = np.zeros((self.V.shape[1], self.V.shape[1]), coordinates.dtype)
        full[: self.columns, :keep] = coordinates[:, :keep]
        self.blocks.matmul(self.V, full, out=self.spare)
        self.spare[:, keep : keep + p] = following
        self.V, self.spare = self.spare, self.V
        self.T[...] = np.diag(np.where(np.arange(self.wish.ncv) < keep, np.resize(values, self.wish.ncv), 0))
        self.columns = keep

    def _vectors(self, coordinates: Any, count: int) -> Any:
        full = np.zeros((self.V.shape[1], count), coordinates.dtype)
        full[: self.columns] = coordinates[:, :count]
        return self.blocks.matmul(self.V, full)

    def _give_up(self, values: Any, coordinates: Any, converged: Any, restarts: int) -> None:
        from scipy.sparse.linalg import ArpackNoConvergence

        there, vectors = np.flatnonzero(converged), self._vectors(coordinates, self.wish.k)
        text = f"{len(there)} of {self.wish.k} eigenvalues converged in {restarts} restarts: raise maxiter, ncv or tol"
        raise ArpackNoConvergence(text, values[there], vectors[:, there])
