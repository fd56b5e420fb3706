"""Small problems of many operations, ours and the array library's own: what a warm call costs its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg

import mansard as ms

from ..arrays.kinds import kind_of

Call = Callable[[], Any]


class Operands:
    """Arrays of the library of `like`: a tall matrix, four systems, a hundred products."""

    def __init__(self, like: Any) -> None:
        upload, random = kind_of(like, "like").upload, np.random.default_rng(7)
        A = random.standard_normal((4, 8, 8)) + 8 * np.eye(8)
        self.V = upload(random.standard_normal((64, 4)), like)
        self.A, self.L, self.S = (upload(one, like) for one in (A, np.tril(A), A @ A.swapaxes(-1, -2)))
        self.b, self.T = (upload(random.standard_normal(shape), like) for shape in ((4, 8, 2), (4, 20, 6)))
        self.P, self.Q = (upload(random.standard_normal((100, 16, 16)), like) for _ in range(2))
        self.x = upload(random.standard_normal((100, 16)), like)


def calls(like: Any) -> Iterator[tuple[str, Call, Call | None]]:
    """Name, our call, and the call that a user of the array library would write; None where it has none."""
    o, module = Operands(like), kind_of(like, "like").module
    own, lin = module.linalg, ms.linalg
    solve_triangular = getattr(own, "solve_triangular", None)  # PyTorch's
    one, right = o.L[0], o.b[0]
    yield "gram of 64 x 4", lambda: ms.gram(o.V), lambda: o.V.T @ o.V
    yield "product of two 8 x 8", lambda: ms.matmul(one, one), lambda: one @ one
    yield "4 products of 8 x 8", lambda: ms.matmul(o.A, o.A), lambda: o.A @ o.A
    yield "100 products of 16 x 16", lambda: ms.matmul(o.P, o.Q), lambda: o.P @ o.Q
    yield "100 vectors times 16 x 16", lambda: ms.blas.gemv(o.P, o.x), lambda: (o.P @ o.x[..., None])[..., 0]
    yield "4 systems of 8 x 8", lambda: lin.solve(o.A, o.b), lambda: own.solve(o.A, o.b)
    yield "4 inverses of 8 x 8", lambda: lin.inv(o.A), lambda: own.inv(o.A)
    yield "4 Cholesky factors of 8 x 8", lambda: lin.cholesky(o.S), lambda: own.cholesky(o.S)
    yield "4 LU factors of 8 x 8", lambda: lin.lu_factor(o.A), _factored(own, o)
    yield "4 triangles of 8 x 8", lambda: ms.blas.trsm(o.L, o.b), (
        None if solve_triangular is None else lambda: solve_triangular(o.L, o.b, upper=False)
    )
    yield "a triangle of 8 x 8", lambda: ms.blas.trsm(one, right), (
        (lambda: scipy.linalg.solve_triangular(one, right, lower=True))
        if solve_triangular is None
        else lambda: solve_triangular(one, right, upper=False)
    )
    yield "4 QR of 20 x 6", lambda: lin.qr(o.T), lambda: own.qr(o.T)
    yield "4 eigenproblems of 8 x 8", lambda: lin.eigh(o.S), lambda: own.eigh(o.S)


def _factored(own: Any, o: Operands) -> Call:
    """LU factors as PyTorch gives them, or by SciPy, one matrix after the other."""
    lu_factor = getattr(own, "lu_factor", None)
    return (lambda: [scipy.linalg.lu_factor(a) for a in o.A]) if lu_factor is None else lambda: lu_factor(o.A)
