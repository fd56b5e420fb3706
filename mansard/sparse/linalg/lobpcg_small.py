"""Eigenpairs of small matrices by LAPACK, where an iteration has no room for its basis."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ...arrays import kinds as arrays
from ...operations.sparse.storage import array_module, host
from .report import Report


def dense_pairs(A: Any, B: Any, X: Any, Y: Any, largest: bool, run: Report) -> tuple[Any, Any]:
    """(eigenvalues, eigenvectors) as `lobpcg` returns them, from the columns of A and B."""
    n, k = X.shape
    identity = array_module(X).eye(n, dtype=X.dtype)
    full = host(A @ identity)
    metric = np.eye(n, dtype=full.dtype) if B is None else host(B(identity))
    basis = np.eye(n) if Y is None else linalg.null_space((metric @ host(Y)).conj().T)
    full, metric = (basis.conj().T @ (one + one.conj().T) / 2 @ basis for one in (full, metric))
    values, vectors = linalg.eigh(full, metric)
    order = slice(None, -k - 1, -1) if largest else slice(k)
    run.method, run.products, run.passes = "lobpcg, dense", n, 1
    found = np.ascontiguousarray((basis @ vectors)[:, order], X.dtype)
    return values[order], arrays.kind_of(X, "X").upload(found, X)
