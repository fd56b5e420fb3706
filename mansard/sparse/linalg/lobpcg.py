"""Locally optimal block preconditioned conjugate gradients with SciPy's calling convention."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, SparseMatrix
from ...errors import MansardWarning
from .blocks import Blocks
from .callers import for_callers
from .checks import check_vector
from .lobpcg_small import dense_pairs
from .operator import applied, check_hermitian, check_whole, dtype_of, multiply_into, square, stored
from .report import Report

_DENSE = 5  # blocks that span a space which is solved by LAPACK at once, as SciPy does


@for_callers(("X", "Y"), ("A", "B", "M"))
def lobpcg(
    A: SparseMatrix,
    X: Array,
    B: Array = None,
    M: Array = None,
    Y: Array = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    *,
    callback: Callable[[Any, Any], object] | None = None,
    report: bool = False,
) -> tuple[Array, ...]:
    """Largest or smallest eigenvalues of A x = lambda B x, and their eigenvectors, from approximations X.

    Hermitian A, Hermitian positive definite B. Each iteration makes one product of A with as many vectors as X has and
    Rayleigh-Ritz in the span of X, the preconditioned residuals W and the last steps P. Its basis is orthonormal, so
    that residuals can fall to rounding. Converged vectors stay in the span while W and P serve the others alone.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse, cupyx.scipy.sparse, or a LinearOperator; a large
        sparse matrix of SciPy's or CuPy's is copied once, for products by our kernels
    X : (n, k) approximations of k eigenvectors; of full rank
    B : matrix, LinearOperator or function X -> B X; the identity unless given
    M : approximate inverse of A, Hermitian positive definite: matrix, LinearOperator or function X -> M X
    Y : (n, y) constraints: the eigenvectors are those of A in the B-orthogonal complement of its columns, and residuals
        are taken there
    tol : norm of the residual A x - lambda B x at which a vector has converged, for x of B-norm one;
        n sqrt(eps) unless given
    maxiter : iterations at most, 20 unless given
    largest : the largest eigenvalues if true, else the smallest
    verbosityLevel : positive: print the report at the end
    retLambdaHistory, retResidualNormsHistory : also return lists of the eigenvalues, and of the residuals' norms, by
        iteration
    callback : callback(eigenvalues, norms of residuals) after each iteration
    report : return a Report as well, last

    Returns
    -------
    w, the k eigenvalues from the wanted end inwards, and v, (n, k), their B-orthonormal eigenvectors; then what was
    asked for. A UserWarning says if `maxiter` came first.

    Cost: an iteration takes 2 k nnz flops for the product, which moves A once, and some 40 k^2 n for the rest: a
    Gram matrix of 3 k vectors, new vectors and their products with A.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> A = scipy.sparse.diags_array(np.arange(1.0, 101.0))
    >>> w, v = ms.sparse.linalg.lobpcg(A, np.eye(100, 2) + 0.01, largest=False, tol=1e-8, maxiter=100)
    >>> print(w.round(6))
    [1. 2.]
    """
    A, B, X, Y = _checked(A, B, X, Y)
    M, run = applied(M, "M"), Report("lobpcg")
    n, k = X.shape
    tol = float(np.sqrt(np.finfo(X.dtype).eps)) * n if tol is None else tol
    if _DENSE * k + (0 if Y is None else Y.shape[1]) > n:
        values, vectors = dense_pairs(A, B, X, Y, largest, run)
        history: list[tuple[Any, Any]] = []
    else:
        state = _Iteration(A, B, M, X, Y, largest, run)
        values, vectors, history = state.solve(tol, 20 if maxiter is None else maxiter, callback)
    if run.residuals and not run.residuals[-1] <= tol:
        text = f"lobpcg: a residual is {run.residuals[-1]:.1e} after {run.iterations} iterations, tol {tol:.1e}: raise"
        warnings.warn(f"{text} maxiter or tol, or pass a preconditioner M", MansardWarning, stacklevel=2)
    if verbosityLevel > 0:
        print(run)
    values = arrays.kind_of(vectors, "X").upload(np.ascontiguousarray(values), vectors)
    extras = [[one[0] for one in history]] if retLambdaHistory else []
    extras += [[one[1] for one in history]] if retResidualNormsHistory else []
    return (values, vectors, *extras, *([run] if report else []))


def _checked(A: Any, B: Any, X: Any, Y: Any) -> tuple[Any, Any, Any, Any]:
    """The operands in the dtype that is computed in; X and Y are copied."""
    check_whole(A, "lobpcg")
    for name, block in (("X", X), ("Y", Y)):
        if block is None:
            continue
        check_vector(block, name)
        if block.ndim != 2 or not block.shape[1]:
            raise ValueError(f"{name} has shape {block.shape}: vectors side by side (n, k) are needed")
        square(A, block.shape[0], name)
    if X.shape[1] + (0 if Y is None else Y.shape[1]) > X.shape[0]:
        raise ValueError(f"X has shape {X.shape}: there are not so many eigenvectors")
    dtype = dtype_of(A, X, B, Y)
    X, Y = (None if one is None else one.astype(dtype, order="C") for one in (X, Y))
    return stored(A, X.shape[1]), applied(B, "B"), X, Y


class _Iteration:
    """Rayleigh-Ritz in S = [W Y P X], orthonormal in the inner product of B; A [X P W] lies beside B S, and B S is S
    without B, so that residuals A X - B X diag(values) are a product with adjacent columns.

    Missing columns are zero: widths are the same in every iteration, and each product is one kernel.
    """

    def __init__(self, A: Any, B: Any, M: Any, X: Any, Y: Any, largest: bool, run: Report) -> None:
        self.A, self.B, self.M, self.run, self.sign = A, B, M, run, -1.0 if largest else 1.0
        self.blocks, self.k, self.y = Blocks(len(X), X.dtype, X), X.shape[1], 0 if Y is None else Y.shape[1]
        self.wide = 3 * self.k + self.y  # columns of S
        self.U, self.spare = (self.blocks.zeros(self.wide + 3 * self.k) for _ in range(2))  # [B S, A X, A P, A W]
        self.S, self.other = (self.U if B is None else self.blocks.zeros(self.wide) for _ in range(2))
        self.R = self.blocks.zeros(self.k)
        if Y is not None:
            self._put(self.k, Y, "Y")
            at = slice(self.k, self.k + self.y)
            self.spare[:, at], self.other[:, at] = self.U[:, at], self.S[:, at]
        self._put(self.wide - self.k, X, "X")
        self.valid = np.arange(3 * self.k) < self.k  # of the columns of [X P W]
        self.H = np.zeros((3 * self.k, 3 * self.k), X.dtype)  # [X P W]^H A [X P W]

    def solve(self, tol: float, most: int, callback: Any) -> tuple[Any, Any, list[tuple[Any, Any]]]:
        """(eigenvalues, eigenvectors, history)."""
        k, history, verified = self.k, [], True
        X, AX = slice(self.wide - k, self.wide), slice(self.wide, self.wide + k)
        self._multiply(X, AX)
        self.H[:k, :k] = self.blocks.gram(self.S[:, X], self.U[:, AX])
        check_hermitian(self.H[:k, :k], "lobpcg takes Hermitian ones")
        values = self._ritz(np.zeros(k, bool))
        while True:
            norms = self._residuals(values)
            active = ~(norms <= tol)
            done = not active.any() or self.run.iterations >= most or not np.isfinite(norms).all()
            if done and not verified:
                self._multiply(X, AX)  # products updated along lose digits: results are multiplied by A itself
                verified = True
                continue
            history.append((values.copy(), norms))
            self.run.residuals.append(float(norms.max()))
            if callback is not None:
                callback(values.copy(), norms)
            if done:
                return values, self.S[:, X].copy(), history
            verified = False
            self._add_residuals(active)
            values = self._ritz(active)
            self.run.iterations += 1

    def _residuals(self, values: Any) -> Any:
        """R = A X - B X diag(values), less what lies along B Y, and its columns' norms."""
        k, Y = self.k, slice(self.k, self.k + self.y)
        C = np.concatenate((np.diag(-values), np.eye(k)))
        self.R, G = self.blocks.multiplied(self.U[:, self.wide - k : self.wide + k], C, self.R)
        if self.y:
            along = self.blocks.gram(self.S[:, Y], self.R)
            self.R, G = self.blocks.multiplied(self.U[:, Y], -along, self.R, self.R)
        return np.sqrt(np.maximum(G.diagonal().real, 0))

    def _add_residuals(self, active: Any) -> None:
        """W of the preconditioned residuals of active columns: converged ones would bring rounding alone."""
        k, wide, blocks = self.k, self.wide, self.blocks
        W = self.R if self.M is None else self.M(self.R)
        basis = self.S[:, k:wide], self.U[:, k:wide]
        W, BW, F, there = blocks.orthonormal(W, basis, self.B, active)
        blocks.matmul(W, F, out=self.S[:, :k])
        if self.B is not None:
            blocks.matmul(BW, F, out=self.U[:, :k])
        AW = slice(wide + 2 * k, wide + 3 * k)
        self._multiply(slice(k), AW)
        G = blocks.gram(self.S[:, :wide], self.U[:, AW])
        self.H[:, 2 * k :] = np.concatenate((G[wide - k :], G[k + self.y : wide - k], G[:k]))
        self.H[2 * k :, : 2 * k] = self.H[: 2 * k, 2 * k :].conj().T
        self.valid[2 * k :] = there

    def _ritz(self, active: Any) -> Any:
        """Take new X and P from the span; the new eigenvalues.

        P spans what the active columns of X gained from outside the old X, made orthogonal to the new X in coordinates:
        S is orthonormal, so that P is.
        """
        k, there = self.k, np.flatnonzero(self.valid)
        H = self.H[np.ix_(there, there)]
        values, found = np.linalg.eigh(self.sign * (H + H.conj().T) / 2)
        C = np.zeros((3 * k, 2 * k), H.dtype)
        C[there, :k] = found[:, :k]
        steps = C[:, :k][:, active]
        steps[:k] = 0
        if steps.any():
            sizes = np.linalg.norm(steps, axis=0)
            Q, R = np.linalg.qr(np.concatenate((C[there, :k], steps[there]), axis=1))
            kept = Q[:, k:][:, np.abs(np.diag(R))[k:] > 1e-3 * np.finfo(H.dtype).eps ** 0.5 * sizes]
            C[there, k : k + kept.shape[1]] = kept
        self._rotate(C)
        return self.sign * values[:k]

    def _rotate(self, C: Any) -> None:
        """[X P] C in place of [X P W], and their products."""
        k, wide = self.k, self.wide
        PX = np.zeros((wide, 2 * k), C.dtype)  # the same coordinates in the order of S
        for begin, part in ((0, C[2 * k :]), (wide - 2 * k, C[k : 2 * k]), (wide - k, C[:k])):
            rows = slice(begin, begin + k)
            PX[rows, :k], PX[rows, k:] = part[:, k:], part[:, :k]
        new = slice(wide - 2 * k, wide)
        self.blocks.matmul(self.U[:, :wide], PX, out=self.spare[:, new])
        self.blocks.matmul(self.U[:, wide:], C, out=self.spare[:, wide : wide + 2 * k])
        if self.B is not None:
            self.blocks.matmul(self.S, PX, out=self.other[:, new])
            self.S, self.other = self.other, self.S
        self.U, self.spare = self.spare, self.U
        self.S = self.U if self.B is None else self.S
        self.H[: 2 * k, : 2 * k] = C.conj().T @ self.H @ C
        self.valid = np.concatenate((C.any(axis=0), np.zeros(k, bool)))

    def _multiply(self, of: slice, to: slice) -> None:
        """Columns of A S."""
        multiply_into(self.A, self.S[:, of], self.U[:, to])
        self.run.products, self.run.passes = self.run.products + self.k, self.run.passes + 1

    def _put(self, begin: int, block: Any, name: str) -> None:
        """Make Y or X orthonormal in the inner product of B and put it into S; X follows Y."""
        Y = slice(self.k, self.k + self.y if name == "X" else self.k)
        block, BW, lost = self.blocks.filled(block, (self.S[:, Y], self.U[:, Y]), self.B)
        if lost and name == "Y":
            raise ValueError("Y has columns that depend on others: drop them")
        if lost:
            self.run.notes.append(f"{lost} columns of X depend on others: random ones took their place")
        part = slice(begin, begin + block.shape[1])
        self.S[:, part], self.U[:, part] = block, BW
