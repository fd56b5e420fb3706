"""The table of declared operations: to measure one more operation, add it here.

NumPy and CuPy have neither triangular systems nor least squares of stacks: general systems, and a QR factorization, are
what their users write. A loop over matrices in Python is not among the spellings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mansard as ms

from ...operations.sizes import Sizes
from . import systems
from .declaration import Declared, Least, Shape, Way, alone

_SIDES = tuple({"m": m} for m in (4, 16, 32))
_EIGHT = tuple({"m": m, "n": 8} for m in (4, 16, 32))  # right-hand sides
_NONE = (1, 1, 1)


def _square(s: Sizes) -> tuple[Shape, Shape, Shape]:
    return (s.batch, s.m, s.m), (s.batch, s.m, s.n), (s.batch, s.m, s.n)


def _update(s: Sizes) -> tuple[Shape, Shape, Shape]:
    return (s.batch, s.m, s.k), _NONE, (s.batch, s.m, s.m)


def _updates(turned: Any) -> dict[str, Any]:
    """A A^T or A A^H: the lower triangle, and all of it in other libraries."""
    return {
        "shapes": _update, "sizes": _SIDES, "operands": alone, "counts": np.tril,
        "least": lambda s: Least(s.m * s.k, s.m * (s.m + 1) / 2, s.m * (s.m + 1) * s.k),
        "ways": (
            Way("numpy cupy", "matmul(A, A.mT, out=C)", lambda xp, A, B, out: xp.matmul(A, turned(A), out=out)),
            Way("torch", "bmm(A, A.mT, out=C)", lambda xp, A, B, out: xp.bmm(A, turned(A), out=out)),
        ),
    }  # fmt: skip


def _updates_of_two(turned: Any) -> dict[str, Any]:
    """A B^T + B A^T or A B^H + B A^H: the lower triangle, and all of it in other libraries."""

    def spelled(xp: Any, A: Any, B: Any, out: Any) -> Any:
        product = xp.matmul(A, turned(B))
        return xp.add(product, turned(product), out=out)

    return {
        "shapes": lambda s: ((s.batch, s.m, s.k), (s.batch, s.m, s.k), (s.batch, s.m, s.m)),
        "sizes": _SIDES, "counts": np.tril,
        "least": lambda s: Least(2 * s.m * s.k, s.m * (s.m + 1) / 2, 2 * s.m * (s.m + 1) * s.k),
        "ways": (Way("numpy cupy torch", "P = matmul(A, B.mT); add(P, P.mT, out=C)", spelled),),
    }  # fmt: skip


def _triangle(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    """Zeros above the diagonal: a product of whole matrices is right as well."""
    return xp.tril(A), B


def _factored(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    return (ms.linalg.cholesky(systems.positive(xp, A)), True), B


def _pivoted(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    return ms.linalg.lu_factor(systems.dominant(xp, A)), B


def _dominant(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    return systems.dominant(xp, A), None


def _both_triangles(xp: Any, A: Any, B: Any, out: Any) -> Any:
    return xp.linalg.solve(A[0].conj().swapaxes(1, 2), xp.linalg.solve(A[0], B))


def _by_qr(xp: Any, A: Any, B: Any, out: Any) -> Any:
    Q, R = xp.linalg.qr(A)
    return xp.linalg.solve(R, xp.matmul(Q.conj().swapaxes(1, 2), B))


def _orthogonalized(xp: Any, V: Any, against: Any, out: Any) -> Any:
    H = against.conj().T @ V
    return *xp.linalg.qr(V - against @ H), H


DECLARED: dict[str, Declared] = {
    "syrk": Declared(**_updates(lambda A: A.swapaxes(1, 2))),
    "herk": Declared(**_updates(lambda A: A.conj().swapaxes(1, 2)), dtypes=("complex128", "complex64", "float64")),
    "syr2k": Declared(**_updates_of_two(lambda A: A.swapaxes(1, 2))),
    "her2k": Declared(
        **_updates_of_two(lambda A: A.conj().swapaxes(1, 2)), dtypes=("complex128", "complex64", "float64")
    ),
    "trmm": Declared(
        shapes=_square, sizes=_EIGHT, operands=_triangle,
        least=lambda s: Least(s.m * (s.m + 1) / 2 + s.m * s.n, s.m * s.n, s.m * s.m * s.n),
        ways=(Way("numpy cupy", "matmul(A, B, out=C)", lambda xp, A, B, out: xp.matmul(A, B, out=out)),
              Way("torch", "bmm(A, B, out=C)", lambda xp, A, B, out: xp.bmm(A, B, out=out))),
    ),
    "solve_triangular": Declared(
        shapes=_square, sizes=_EIGHT, operands=lambda xp, A, B: (xp.triu(systems.dominant(xp, A)), B),
        ways=(Way("numpy cupy", "linalg.solve(A, B)", lambda xp, A, B, out: xp.linalg.solve(A, B)),
              Way("torch", "linalg.solve_triangular(A, B, out=X)",
                  lambda xp, A, B, out: xp.linalg.solve_triangular(A, B, upper=True, out=out))),
    ),
    "cho_solve": Declared(
        shapes=_square, sizes=_EIGHT, operands=_factored, room=40.0,
        least=lambda s: Least(s.m * (s.m + 1) / 2 + s.m * s.n, s.m * s.n, 2 * s.m * s.m * s.n),
        ways=(Way("numpy cupy", "linalg.solve(L^H, linalg.solve(L, B))", _both_triangles),
              Way("torch", "cholesky_solve(B, L)", lambda xp, A, B, out: xp.cholesky_solve(B, A[0], out=out))),
    ),
    "lu_solve": Declared(
        shapes=_square, sizes=_EIGHT, operands=_pivoted, room=40.0, taken={"torch": systems.lapack_pivots},
        least=lambda s: Least(s.m * s.m + s.m * s.n, s.m * s.n, 2 * s.m * s.m * s.n),
        ways=(Way("torch", "linalg.lu_solve(LU, pivots, B)",
                  lambda xp, A, B, out: xp.linalg.lu_solve(*A, B, out=out)),),
    ),
    "slogdet": Declared(
        shapes=lambda s: ((s.batch, s.m, s.m), _NONE, (s.batch, 1, 1)), sizes=_SIDES, operands=_dominant, into=False,
        room=40.0,
        ways=(Way("numpy cupy torch", "linalg.slogdet(A)", lambda xp, A, B, out: tuple(xp.linalg.slogdet(A))),),
    ),
    "lstsq": Declared(
        shapes=lambda s: ((s.batch, s.m, s.n), (s.batch, s.m, 1), (s.batch, s.n, 1)), into=False, room=100.0,
        sizes=tuple({"m": 4 * n, "n": n} for n in (4, 8, 16)), options={"driver": "qr"},
        ways=(Way("numpy cupy", "Q, R = linalg.qr(A); linalg.solve(R, Q^H B)", _by_qr),
              Way("torch", "linalg.lstsq(A, B)", lambda xp, A, B, out: xp.linalg.lstsq(A, B).solution)),
    ),
    "orthogonalize": Declared(
        shapes=lambda s: ((s.k, s.n), (s.k, s.m), (s.k, s.n)), sizes=tuple({"m": m, "n": m} for m in (4, 16, 32)),
        operands=lambda xp, A, B: (A, ms.cholesky_qr(B)[0]), error=systems.not_orthogonal, catalogue="matmul",
        least=lambda s: Least(2 * s.m + 3 * s.n, 2 * s.n, 4 * s.m * s.n + s.n * (s.n + 1) + 2 * s.n * s.n),
        ways=(Way("numpy cupy torch", "H = B^H V; linalg.qr(V - B H)", _orthogonalized),),
    ),
}  # fmt: skip
