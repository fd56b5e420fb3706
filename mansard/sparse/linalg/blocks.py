"""Products of tall blocks of vectors for eigensolvers: our kernels where vectors are long, BLAS where they are short.

Blocks are (n, k), rows adjacent or a pitch apart; small matrices are on the host.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...operations.sparse.storage import array_module, host
from ...operations.tall_skinny.fused import multiplied
from ...operations.tall_skinny.gram import gram
from ...operations.tall_skinny.matmul import matmul
from ...operations.tall_skinny.orthogonal import cholesky_qr
from .spectrum import probe

WORTH = 1 << 14  # entries of a vector: below, BLAS and LAPACK are done before a kernel is compiled
PANEL = 16  # columns that are projected out at a time, so that bases of any length take the same two kernels

_ATTEMPTS = 4  # projections at most; the second settles what is not all but dependent
_CONDITION = 100.0  # of a Gram matrix: its inverse root loses no more than two digits of orthogonality

Basis = tuple[Any, Any]  # (V, B V): V orthonormal in the inner product of B, or with zero columns; the same without B


class Blocks:
    """The products of one eigensolver, for vectors of n entries of one dtype."""

    def __init__(self, n: int, dtype: Any, like: Any) -> None:
        self.n, self.dtype, self.xp = n, np.dtype(dtype), array_module(like)
        self.kernels = n >= WORTH
        self._kind, self._like = arrays.kind_of(like, "X"), like
        self._seed = 101

    def zeros(self, columns: int) -> Any:
        """A block of zeros, on the device of the given vectors."""
        module: ModuleType = self.xp
        return module.zeros((self.n, columns), self.dtype)

    def random(self, columns: int) -> Any:
        """Vectors of norm one without structure, other ones in every call and the same ones in every run."""
        block = self.zeros(columns)
        for j in range(columns):
            block[:, j] = probe(self.xp, slice(0, self.n), self.dtype, self._seed)
            self._seed += 2
        return block

    def small(self, S: Any) -> Any:
        """A small matrix of the host on the device."""
        return self._kind.upload(np.ascontiguousarray(S, self.dtype), self._like)

    def gram(self, V: Any, W: Any) -> Any:
        """V^H W, on the host."""
        return host(gram(V, W) if self.kernels else V.conj().T @ W)

    def matmul(self, V: Any, S: Any, out: Any = None) -> Any:
        """V S for a small S of the host; `out` is written if given."""
        S = self.small(S)
        if self.kernels:
            return matmul(V, S, out=out)
        if out is None:
            return V @ S
        out[...] = V @ S
        return out

    def multiplied(self, V: Any, S: Any, out: Any, base: Any = None) -> tuple[Any, Any]:
        """out = V S, or base + V S, and its Gram matrix on the host, in one pass where there is a kernel."""
        S, beta = self.small(S), 0.0 if base is None else 1.0
        if self.kernels:
            W, G = multiplied(V, S, out, base, 1.0, beta, None)
            return W, host(G)
        out[...] = V @ S if base is None else base + V @ S
        return out, host(out.conj().T @ out)

    def orthonormal(self, W: Any, basis: Basis, B: Any = None, active: Any = None) -> tuple[Any, Any, Any, Any]:
        """(W', B W', F, there): the columns of W' F that are `there` are an orthonormal basis of what W, which is
        overwritten, adds to the basis; the other ones, at the end, are zero. The caller multiplies by F.

        Projections, each followed by scaling with the eigenvectors of the Gram matrix, until neither loses digits.
        """
        V, U = basis
        active, BW = np.ones(W.shape[1], bool) if active is None else active, W
        for attempt in range(_ATTEMPTS):
            before = np.zeros(W.shape[1])
            if V.shape[1]:
                C = self.gram(U, W)
                before = (np.abs(C) ** 2).sum(axis=0)
                W, G = self.multiplied(V, -C, W, W)
            if B is not None:
                BW = B(W)
            if B is not None or not V.shape[1]:
                G = self.gram(W, BW)
            left = np.maximum(G.diagonal().real, 0)
            if attempt == 0:  # what projection took away but for rounding adds nothing
                active = active & (left > (64 * np.finfo(self.dtype).eps) ** 2 * before)
            F, there, settled = whitening(G, active)
            if settled and (before[active] <= 3 * left[active]).all():
                break
            W, active = self.matmul(W, F), there
        return W, BW, F, there

    def extended(self, W: Any, basis: Any, count: int) -> tuple[Any, Any, Any, Any]:
        """W = basis H + Q R: (Q, R, H, dependent) for the first `count` columns of an orthonormal basis that grows,
        panel by panel: columns behind them are zero, and there is room for whole panels. W is overwritten."""
        H = np.zeros((-(-count // PANEL) * PANEL, W.shape[1]), self.dtype)
        sizes = np.sqrt(self.gram(W, W).diagonal().real)
        for _ in range(2):  # twice is enough: the second takes out what rounding left
            for begin in range(0, count, PANEL):
                panel = basis[:, begin : begin + PANEL]
                C = self.gram(panel, W)
                H[begin : begin + PANEL] += C
                W, _ = self.multiplied(panel, -C, W, W)
        H = H[:count]
        if not self.kernels:
            Q, dependent, R = self._by_qr(W, W, sizes)
            return Q, R, H, dependent
        Q, R, dependent = cholesky_qr(W, on_deficient="flag")
        R = host(R)
        small = np.abs(np.diag(R)) <= 32 * np.finfo(self.dtype).eps * sizes
        if (small & ~dependent).any():  # relative to what was projected away, nothing is left but rounding
            Q[:, small], R[small] = 0, 0
        return Q, R, H, dependent | small

    def _by_qr(self, W: Any, before: Any, sizes: Any = None) -> tuple[Any, Any, Any]:
        """Householder's QR; columns of which little is left of what was `before` become zero.

        They are left out and the others factored again: what Householder puts in their place is orthogonal to none.
        """
        sizes = host(self.xp.linalg.norm(before, axis=0)) if sizes is None else sizes
        keeps = np.flatnonzero(sizes > 0)
        while True:
            Q, R = self.xp.linalg.qr(W[:, keeps])
            large = np.abs(np.diag(host(R))) > 32 * np.finfo(self.dtype).eps * sizes[keeps]
            if large.all():
                break
            keeps = np.delete(keeps, int(np.argmin(large)))
        found, R = self.zeros(W.shape[1]), np.zeros((W.shape[1], W.shape[1]), self.dtype)
        found[:, keeps], R[keeps] = Q, host(Q.conj().T @ W)
        dependent = np.ones(W.shape[1], bool)
        dependent[keeps] = False
        return found, dependent, R

    def filled(self, W: Any, basis: Basis, B: Any = None) -> tuple[Any, Any, int]:
        """(W', B W', lost): an orthonormal basis that has the span of W beside the basis, with random vectors for the
        `lost` columns that depend on others."""
        W, _, F, there = self.orthonormal(W, basis, B)
        W, lost = self.matmul(W, F), int((~there).sum())
        for _ in range(3):
            if there.all():
                break
            W[:, ~there] = self.random(int((~there).sum()))
            W, _, F, there = self.orthonormal(W, basis, B)
            W = self.matmul(W, F)
        return W, W if B is None else B(W), lost


def whitening(G: Any, active: Any) -> tuple[Any, Any, bool]:
    """F with F^H G F = I on what the active rows and columns of G tell apart, zero columns at the end; which columns
    are not zero; and whether G was so well conditioned that no digit is lost."""
    scale = np.sqrt(np.maximum(G.diagonal().real, 0)) * active
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(inverse[:, None] * ((G + G.conj().T) / 2) * inverse)
    values, vectors = values[::-1], vectors[:, ::-1]
    there = values > 8 * len(G) * np.finfo(G.dtype).eps * max(values[0], 0)
    F = inverse[:, None] * vectors / np.sqrt(np.where(there, values, 1))
    settled = not there.any() or values[0] <= _CONDITION * values[there].min()
    return np.where(there, F, 0), there, bool(settled)
