"""Random problems of tall and skinny matrices, and of single products of any shape."""

from __future__ import annotations

import math
from typing import Any

from ...plan.problem import REAL
from . import errors
from .kind import Kind, Options, Way, least
from .problem import FLOPS_PER_BYTE, Dice, Drawn, Operand

_WIDE, _NARROW = 128, 64  # columns of a tall matrix, in products and in passes of orthogonalization
_SKINNY = 32
_SQUARE = 1024
_SHARED, _INTO = 0.5, 0.4  # shares: the same matrix twice; results in memory that is there


def _conj_t(A: Any) -> Any:
    """A^H as a user writes it; real matrices are not copied."""
    return A.conj().T if "complex" in str(A.dtype) else A.T


def _gram(dice: Dice) -> Drawn:
    dtype, m = dice.dtype(), dice.side(_WIDE)
    n = m if dice.chance(0.5) else dice.side(_WIDE)
    same = m == n and dice.chance(_SHARED)
    k = dice.long(dtype, m if same else m + n, 2 * m * n)
    operands = (dice.operand((k, m)), *([] if same else [dice.operand((k, n))]))
    flops = (m * (m + 1) if same else 2 * m * n) * k
    return Drawn(operation="gram", dtype=dtype, operands=operands, sizes={"m": m, "n": n, "k": k},
                 result=(m, n) if dice.chance(_INTO) else None,
                 work=least(dtype, (m if same else m + n) * k, m * n, flops))  # fmt: skip


def _product(dice: Dice, operation: str, dtype: str, m: int, n: int, k: int) -> Drawn:
    return Drawn(operation=operation, dtype=dtype, operands=(dice.operand((m, k)), dice.operand((k, n))),
                 sizes={"m": m, "n": n, "k": k}, result=(m, n) if dice.chance(_INTO) else None,
                 work=least(dtype, m * k + k * n, m * n, 2 * m * n * k))  # fmt: skip


def _tall(dice: Dice) -> Drawn:
    dtype, k = dice.dtype(), dice.side(_WIDE)
    n = k if dice.chance(0.4) else dice.side(_WIDE)
    return _product(dice, "matmul-tall", dtype, dice.long(dtype, k + n, 2 * k * n), n, k)


def _skinny(dice: Dice) -> Drawn:
    """A of any shape from 16 times as high as wide to 16 times as wide as high."""
    dtype, n = dice.dtype(), dice.side(_SKINNY)
    entries = dice.long(dtype, 1.0 + n / 64, 2 * n)
    m = max(1, math.isqrt(max(1, int(entries * dice.log(1, 256) / 16))))
    return _product(dice, "matmul-skinny", dtype, m, n, max(1, entries // m))


def _square(dice: Dice) -> Drawn:
    """Three sides of any length; half of the time they are equal."""
    dtype = dice.dtype()
    sides = [dice.side(_SQUARE)] * 3 if dice.chance(0.5) else [dice.side(_SQUARE) for _ in range(3)]
    most = FLOPS_PER_BYTE * dice.memory / (4 if dtype.startswith("complex") else 1)
    while 2 * math.prod(sides) > most:
        sides = [-(-side // 2) if side == max(sides) else side for side in sides]
    m, n, k = sides
    return _product(dice, "matmul-square", dtype, m, n, k)


def _pass(dice: Dice, operation: str) -> Drawn:
    """Matrices of at least twice as many rows as columns."""
    dtype, m = dice.dtype(), dice.side(_NARROW)
    n = m if operation == "cholesky_qr" or dice.chance(0.5) else dice.side(_NARROW)
    k = dice.long(dtype, m + 2 * n, 4 * m * n, least=2 * (m + n))
    sizes, triangle = {"m": m, "n": n, "k": k}, n * (n + 1) / 2
    V = dice.operand((k, m))
    operands: tuple[Operand, ...]
    if operation == "matmul_gram":
        operands, work = (V, dice.operand((m, n))), least(dtype, k * m + m * n, k * n, 2 * k * (m * n + triangle))
    elif operation == "project":
        operands = V, dice.operand((k, n))
        work = least(dtype, 2 * k * (m + n), k * n, 2 * k * (2 * m * n + triangle))
    else:  # two steps, as well-conditioned blocks need
        operands, work = (V,), least(dtype, 3 * k * m, 2 * k * m, 4 * k * (triangle + m * m))
    return Drawn(operation=operation, dtype=dtype, operands=operands, sizes=sizes, work=work,
                 result=(k, n) if dice.chance(_INTO) else None)  # fmt: skip


def _near_orthonormal(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """V scaled in place, so that its columns have about unit length."""
    A *= xp.asarray(1 / math.sqrt(drawn.sizes["k"]), REAL[drawn.dtype])
    return A, B


def _matmul(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    return xp.matmul(A, B) if out is None else xp.matmul(A, B, out=out)


def _matmul_gram(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    W = _matmul(xp, A, B, out, o)
    return W, _conj_t(W) @ W


def _project(xp: Any, V: Any, W: Any, out: Any, o: Options) -> Any:
    rest = _matmul(xp, V, _conj_t(V) @ W, out, o)
    rest *= -1
    rest += W
    return rest, _conj_t(rest) @ rest


def _gemm_of_blas(scipy: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    """A^H B without a conjugated copy. Row-major memory is the transpose in Fortran's eyes: C^T = B^T conj(A)."""
    gemm = scipy.linalg.blas.get_blas_funcs("gemm", (A, B))
    if A.flags.c_contiguous and B.flags.c_contiguous:
        return gemm(1.0, B.T, A.T, trans_b=2).T
    return gemm(1.0, A, B, trans_a=2)


_PRODUCTS = (
    Way("numpy cupy", "matmul(A, B)", _matmul),
    Way("torch", "matmul(A, B)", _matmul),
)
KINDS = {
    "gram": Kind(
        public="gram", draw=_gram, error=errors.gram, by_matrix=False, weight=2,
        ways=(Way("numpy cupy", "A.conj().T @ B", lambda xp, A, B, out, o: _matmul(xp, _conj_t(A), B, out, o)),
              Way("torch", "A.mH @ B", lambda xp, A, B, out, o: _matmul(xp, A.mH, B, out, o)),
              Way("scipy", "linalg.blas.gemm, trans='C'", _gemm_of_blas)),
    ),
    "matmul-tall": Kind(public="matmul", draw=_tall, error=errors.product, by_matrix=False, ways=_PRODUCTS, weight=1.5),
    "matmul-skinny": Kind(public="matmul", draw=_skinny, error=errors.product, by_matrix=False, ways=_PRODUCTS),
    "matmul-square": Kind(public="matmul", draw=_square, error=errors.product, by_matrix=False, ways=_PRODUCTS),
    "matmul_gram": Kind(
        public="matmul_gram", draw=lambda dice: _pass(dice, "matmul_gram"), error=errors.matmul_gram, by_matrix=False,
        ways=(Way("numpy cupy torch", "W = matmul(V, S), W^H W", _matmul_gram),),
    ),
    "project": Kind(
        public="project", draw=lambda dice: _pass(dice, "project"), error=errors.project, by_matrix=False,
        operands=_near_orthonormal, ways=(Way("numpy cupy torch", "P = W - V (V^H W), P^H P", _project),),
    ),
    "cholesky_qr": Kind(
        public="cholesky_qr", draw=lambda dice: _pass(dice, "cholesky_qr"), error=errors.cholesky_qr, by_matrix=False,
        ways=(Way("numpy cupy torch", "linalg.qr(V)", lambda xp, A, B, out, o: xp.linalg.qr(A)),),
    ),
}  # fmt: skip
