"""Random problems of factorizations: one-sided ones, systems, inverses, determinants, eigenvalues, singular values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import lu_factor

import mansard as ms

from ...plan.problem import REAL
from ..declared.systems import lapack_pivots, positive
from . import errors
from .kind import Kind, Options, Way, least
from .problem import Dice, Drawn, Shape
from .products import alone, batch

_SIDE, _ONE = 160, 512  # largest side of a matrix, in batches and alone
_SPECTRAL, _ONE_SPECTRAL = 96, 256
_ITERATIONS = 8  # times the flops of an eigenvalue problem that LAPACK's loop over small matrices takes, about
_INTO, _ALONE = 0.4, 0.15


def _square(
    dice: Dice, operation: str, flops: float, result: str = "", right: bool = False, **options: Any
) -> Drawn:  # fmt: skip
    """Matrices n x n; `flops` are multiples of n^3. `result`: matrix, sides, values, value, as they are read."""
    is_spectral = operation.startswith("eig")
    is_one = alone(dice, _ALONE)
    sides = (_SPECTRAL, _ONE_SPECTRAL) if is_spectral else (_SIDE, _ONE)
    dtype, n = dice.dtype(), dice.side(sides[is_one])
    columns = dice.choose({1: 0.4, dice.side(64): 0.6}) if right else 0
    work = flops * n**3 * (_ITERATIONS if is_spectral else 1)
    count, lead = batch(dice, is_one, dtype, 2 * n * n + 2 * n * columns, work + 2 * n * n * columns)
    operands = (dice.operand((*lead, n, n)), *([dice.operand((*lead, n, columns))] if right else []))
    shapes: dict[str, Shape] = {"matrix": (*lead, n, n), "sides": (*lead, n, columns), "values": (*lead, n), "": lead}
    written = math.prod(shapes[result]) + (shapes["values"][-1] * count if operation == "eigh" else 0)
    into = result in ("matrix", "sides") and not is_spectral and operation != "lu_factor" and dice.chance(_INTO)
    return Drawn(operation=operation, dtype=dtype, operands=operands, options=options,
                 sizes={"n": n, "columns": columns, "batch": count}, result=shapes[result] if into else None,
                 work=least(dtype, count * (n * n + n * columns), written,
                            count * (flops * n**3 + 2 * n * n * columns)))  # fmt: skip


def _rectangle(dice: Dice, operation: str, flops: float, **options: Any) -> Drawn:
    """Matrices m x n; half of the time they are square, otherwise QR and SVD find wide ones as well as tall ones."""
    is_one, is_spectral = alone(dice, _ALONE), operation.startswith("svd")
    most = (_SPECTRAL, _ONE_SPECTRAL)[is_one] if is_spectral else (_SIDE, _ONE)[is_one]
    dtype, m = dice.dtype(), dice.side(most)
    n = m if dice.chance(0.5) and operation != "lstsq" else dice.side(most)
    if operation == "lstsq":
        m, n = max(m, n), min(m, n)
    columns, small = dice.side(8) if operation == "lstsq" else 0, min(m, n)
    work = flops * m * n * small
    count, lead = batch(dice, is_one, dtype, 3 * m * n + m * columns, work * (_ITERATIONS if is_spectral else 1))
    operands = (dice.operand((*lead, m, n)), *([dice.operand((*lead, m, columns))] if columns else []))
    written = {"lstsq": n * columns, "svdvals": small}.get(operation, small * (m + n))
    return Drawn(operation=operation, dtype=dtype, operands=operands, options=options,
                 sizes={"m": m, "n": n, "columns": columns, "batch": count},
                 work=least(dtype, count * (m * n + m * columns), count * written, count * work))  # fmt: skip


# ---- operands from random numbers -------------------------------------------------------------------------


def _shifted(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """A / sqrt(n) + 2 I: inverses exist."""
    n = A.shape[-1]
    A *= xp.asarray(1 / math.sqrt(n), REAL[drawn.dtype])
    every = list(range(n))
    A[..., every, every] += 2
    return A, B


def _of_volume(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """A sqrt(e / n): determinants neither overflow nor underflow."""
    A *= xp.asarray(math.sqrt(math.e / A.shape[-1]), REAL[drawn.dtype])
    return A, B


def _positive(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    A[...] = positive(xp, A.reshape(-1, *A.shape[-2:])).reshape(A.shape)
    return A, B


def _hermitian(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    A[...] = A + A.conj().swapaxes(-1, -2)
    return A, B


def _factored(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    A[...] = xp.linalg.cholesky(_positive(xp, drawn, A, B)[0])
    return (A, True), B


def _pivoted(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """Factors by SciPy, matrix by matrix; on GPUs by ours, which nothing else factors as many with."""
    A = _shifted(xp, drawn, A, B)[0]
    if xp.__name__ != "numpy":
        LU, pivots = ms.linalg.lu_factor(A)
    else:
        found = [lu_factor(one, check_finite=False) for one in A.reshape(-1, *A.shape[-2:])]
        LU, pivots = (np.stack([one[part] for one in found]).reshape(*A.shape[:-2], *found[0][part].shape)
                      for part in (0, 1))  # fmt: skip
    A[...] = LU
    return (A, pivots), B


# ---- spellings --------------------------------------------------------------------------------------------

_FAST: dict[str, Any] = {"check_finite": False}


def _named(name: str, libraries: str, **options: Any) -> Way:
    """A function of `linalg` that takes the matrices, and right-hand sides if there are any."""

    def run(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
        function = getattr(xp.linalg, name)
        found = function(A, **options) if B is A else function(A, B, **options)
        return tuple(found) if isinstance(found, list) else found  # SciPy's parts of a stack

    return Way(libraries, f"linalg.{name}", run)


def _into(name: str) -> Way:
    """PyTorch's function, into memory that is there if there is some; `_ex` checks no `info`."""

    def run(torch: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
        function, given = getattr(torch.linalg, name), (A,) if B is A else (A, B)
        return function(*given) if out is None else function(*given, out=out)

    return Way("torch", f"linalg.{name}", run)


def _qr(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    """Only R where only that is asked for: PyTorch gives an empty Q, NumPy and CuPy none."""
    found = xp.linalg.qr(A, mode=o["mode"])
    return tuple(found) if o["mode"] == "reduced" else found[1] if isinstance(found, tuple) else found


def _by_qr(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    Q, R = xp.linalg.qr(A)
    return xp.linalg.solve(R, xp.matmul(Q.conj().swapaxes(-1, -2), B))


def _by_cholesky(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    return xp.linalg.solve(A[0].conj().swapaxes(-1, -2), xp.linalg.solve(A[0], B))


def _svd(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    return tuple(xp.linalg.svd(A, full_matrices=False))


def _cholesky_solve(torch: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    return torch.cholesky_solve(B, A[0]) if out is None else torch.cholesky_solve(B, A[0], out=out)


def _lu_solve(torch: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    return torch.linalg.lu_solve(*A, B) if out is None else torch.linalg.lu_solve(*A, B, out=out)


_ARRAYS = "numpy cupy"
KINDS = {
    "cholesky": Kind(
        public="cholesky", draw=lambda dice: _square(dice, "cholesky", 1 / 3, "matrix"), operands=_positive,
        error=errors.cholesky,
        ways=(_named("cholesky", _ARRAYS), _into("cholesky"), _named("cholesky", "scipy", lower=True, **_FAST)),
    ),
    "lu_factor": Kind(
        public="lu_factor", draw=lambda dice: _square(dice, "lu_factor", 2 / 3, "matrix"), error=errors.lu,
        ways=(_named("lu_factor", "torch"), _named("lu_factor", "scipy", **_FAST)),
    ),
    "qr": Kind(
        public="qr", draw=lambda dice: _rectangle(dice, "qr", 8 / 3, mode=dice.choose({"reduced": 0.75, "r": 0.25})),
        error=errors.qr, ways=(Way("numpy cupy torch", "linalg.qr", _qr),),
    ),
    "solve": Kind(
        public="solve", draw=lambda dice: _square(dice, "solve", 2 / 3, "sides", True), error=errors.solve,
        ways=(_named("solve", _ARRAYS), _into("solve"), _named("solve", "scipy", assume_a="gen", **_FAST)), weight=1.5,
    ),
    "inv": Kind(
        public="inv", draw=lambda dice: _square(dice, "inv", 2.0, "matrix"), operands=_shifted, error=errors.inverse,
        ways=(_named("inv", _ARRAYS), _into("inv"), _named("inv", "scipy", **_FAST)),
    ),
    "det": Kind(
        public="det", draw=lambda dice: _square(dice, "det", 2 / 3), operands=_of_volume, error=errors.determinant,
        ways=(_named("det", "numpy cupy torch"), _named("det", "scipy", **_FAST)),
    ),
    "slogdet": Kind(
        public="slogdet", draw=lambda dice: _square(dice, "slogdet", 2 / 3), operands=_of_volume,
        error=errors.log_determinant, ways=(_named("slogdet", "numpy cupy torch"),),
    ),
    "cho_solve": Kind(
        public="cho_solve", draw=lambda dice: _square(dice, "cho_solve", 0.0, "sides", True), operands=_factored,
        error=errors.cholesky_solve,
        ways=(Way(_ARRAYS, "linalg.solve(L^H, linalg.solve(L, B))", _by_cholesky),
              Way("torch", "cholesky_solve(B, L)", _cholesky_solve),
              Way("scipy", "linalg.cho_solve",
                  lambda xp, A, B, out, o: xp.linalg.cho_solve(A, B, check_finite=False))),
    ),
    "lu_solve": Kind(
        public="lu_solve", draw=lambda dice: _square(dice, "lu_solve", 0.0, "sides", True), operands=_pivoted,
        error=errors.lu_solve, taken={"torch": lapack_pivots},
        ways=(Way("torch", "linalg.lu_solve", _lu_solve),
              Way("scipy", "linalg.lu_solve", lambda xp, A, B, out, o: xp.linalg.lu_solve(A, B, check_finite=False))),
    ),
    "lstsq": Kind(
        public="lstsq", draw=lambda dice: _rectangle(dice, "lstsq", 2.0), fixed={"driver": "qr"},
        error=errors.least_squares,
        ways=(Way(_ARRAYS, "Q, R = linalg.qr(A); linalg.solve(R, Q^H B)", _by_qr),
              Way("torch", "linalg.lstsq", lambda xp, A, B, out, o: xp.linalg.lstsq(A, B).solution)),
    ),
    "eigh": Kind(
        public="eigh", draw=lambda dice: _square(dice, "eigh", 9.0, "matrix"), operands=_hermitian, error=errors.eigen,
        ways=(_named("eigh", "numpy cupy torch"),),
    ),
    "eigvalsh": Kind(
        public="eigvalsh", draw=lambda dice: _square(dice, "eigvalsh", 4 / 3, "values"), operands=_hermitian,
        error=errors.eigenvalues, ways=(_named("eigvalsh", "numpy cupy torch"),),
    ),
    "svd": Kind(
        public="svd", draw=lambda dice: _rectangle(dice, "svd", 22.0, full_matrices=False), error=errors.singular,
        ways=(Way("numpy cupy torch", "linalg.svd(A, full_matrices=False)", _svd),),
    ),
    "svdvals": Kind(
        public="svdvals", draw=lambda dice: _rectangle(dice, "svdvals", 8 / 3), error=errors.singular_values,
        ways=(_named("svdvals", "torch numpy"),
              Way("cupy", "linalg.svd(A, compute_uv=False)",
                  lambda xp, A, B, out, o: xp.linalg.svd(A, compute_uv=False))),
    ),
}  # fmt: skip
