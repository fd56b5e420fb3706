"""Random problems of batches: products, rank-k updates and triangular systems."""

from __future__ import annotations

from typing import Any

from . import errors
from .kind import Kind, Options, Way, least
from .problem import Dice, Drawn, Shape

_SIDE, _ONE = 160, 512  # largest side of a matrix, in batches and alone
_ALONE, _BROADCAST, _INTO = 0.1, 0.12, 0.4  # shares: a single matrix, one operand for all, results in given memory
_TRANS, _UPLO = {"N": 0.6, "T": 0.2, "C": 0.2}, ("L", "U")


def alone(dice: Dice, single: float = _ALONE) -> bool:
    """Whether the problem is a single matrix, which may be larger."""
    return dice.chance(single)


def batch(dice: Dice, is_one: bool, dtype: str, elements: float, flops: float) -> tuple[int, Shape]:
    """Number of matrices, and leading dimensions; `elements` and `flops` are those of a matrix, results included."""
    count = 1 if is_one else dice.long(dtype, elements, flops)
    return count, () if is_one else (count,)


def op(A: Any, trans: str) -> Any:
    """The matrices as BLAS's option has them; real ones are not copied."""
    if trans == "N":
        return A
    turned = A.swapaxes(-1, -2)
    return turned.conj() if trans == "C" and "complex" in str(A.dtype) else turned


def _sides(dice: Dice, is_one: bool, count: int, equal: float = 0.5) -> list[int]:
    most = _ONE if is_one else _SIDE
    return [dice.side(most)] * count if dice.chance(equal) else [dice.side(most) for _ in range(count)]


def _stack(dice: Dice, operation: str) -> Drawn:
    """Products; one of the operands may serve all."""
    is_one = operation == "gemm" and alone(dice)
    dtype, (m, n, k) = dice.dtype(), _sides(dice, is_one, 3)
    count, lead = batch(dice, is_one, dtype, m * k + k * n + m * n, 2 * m * n * k)
    options = {}
    if operation == "gemm":
        options = {"trans_a": dice.choose(_TRANS), "trans_b": dice.choose(_TRANS)}
    shared = dice.choose({"": 1 - 2 * _BROADCAST, "A": _BROADCAST, "B": _BROADCAST})
    a = (k, m) if options.get("trans_a", "N") != "N" else (m, k)
    b = (n, k) if options.get("trans_b", "N") != "N" else (k, n)
    A = dice.operand(a if shared == "A" else (*lead, *a))
    B = dice.operand(b if shared == "B" else (*lead, *b))
    work = least(dtype, A.entries + B.entries, count * m * n, 2.0 * count * m * n * k)
    return Drawn(operation=operation, dtype=dtype, operands=(A, B), options=options, work=work,
                 sizes={"m": m, "n": n, "k": k, "batch": count},
                 result=(*lead, m, n) if dice.chance(_INTO) else None)  # fmt: skip


def _gemv(dice: Dice) -> Drawn:
    is_one = alone(dice)
    dtype, (m, n) = dice.dtype(), _sides(dice, is_one, 2, 0.4)
    count, lead = batch(dice, is_one, dtype, m * n + m + n, 2 * m * n)
    trans = dice.choose(_TRANS)
    x, y = (n, m) if trans == "N" else (m, n)
    return Drawn(operation="gemv", dtype=dtype, operands=(dice.operand((*lead, m, n)), dice.operand((*lead, x), True)),
                 sizes={"m": m, "n": n, "batch": count}, options={"trans": trans},
                 result=(*lead, y) if dice.chance(_INTO) else None,
                 work=least(dtype, count * (m * n + x), count * y, 2.0 * count * m * n))  # fmt: skip


def _update(dice: Dice, operation: str) -> Drawn:
    """Rank-k updates. Without `out` the whole matrix is the result, with it one triangle."""
    is_one = alone(dice)
    dtype, (n, k) = dice.dtype(), _sides(dice, is_one, 2)
    triangle = n * (n + 1) / 2
    count, lead = batch(dice, is_one, dtype, n * k + n * n, 2 * triangle * k)
    other, into = "T" if operation == "syrk" else "C", dice.chance(_INTO)
    written = triangle if into else n * n
    options = {"uplo": dice.one_of(_UPLO), "trans": dice.choose({"N": 0.6, other: 0.4})}
    A = dice.operand((*lead, n, k) if options["trans"] == "N" else (*lead, k, n))
    return Drawn(operation=operation, dtype=dtype, operands=(A,), options=options,
                 sizes={"n": n, "k": k, "batch": count}, result=(*lead, n, n) if into else None,
                 work=least(dtype, A.entries, count * written, 2.0 * count * triangle * k))  # fmt: skip


def _triangular(dice: Dice, operation: str) -> Drawn:
    is_one, vectors = alone(dice), operation == "trsv"
    dtype, (n, columns) = dice.dtype(), _sides(dice, is_one, 2, 0.2)
    columns = 1 if vectors else columns
    count, lead = batch(dice, is_one, dtype, n * n + 2 * n * columns, n * n * columns)
    options = {"uplo": dice.one_of(_UPLO), "trans": dice.choose(_TRANS), "diag": dice.choose({"N": 0.8, "U": 0.2})}
    side = dice.choose({"L": 0.75, "R": 0.25})
    options |= {} if vectors else {"side": side}
    b = (*lead, n) if vectors else (*lead, n, columns) if side == "L" else (*lead, columns, n)
    work = least(dtype, count * (n * (n + 1) / 2 + n * columns), count * n * columns, 1.0 * count * n * n * columns)
    return Drawn(operation=operation, dtype=dtype, operands=(dice.operand((*lead, n, n)), dice.operand(b, vectors)),
                 options=options, sizes={"n": n, "columns": columns, "batch": count}, work=work,
                 result=b if dice.chance(_INTO) else None)  # fmt: skip


def triangle_of(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """The other triangle is zeros, so that general routines are right, too; solutions neither grow nor vanish."""
    n = A.shape[-1]
    half = xp.tril(A) if drawn.options["uplo"] == "L" else xp.triu(A)
    half = half / xp.asarray(n, half.dtype)
    every = list(range(n))
    half[..., every, every] = 1 if drawn.options["diag"] == "U" else 2 + half[..., every, every]
    A[...] = half
    return A, B


def _multiply(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    A, B = op(A, o.get("trans_a", "N")), op(B, o.get("trans_b", "N"))
    return xp.matmul(A, B) if out is None else xp.matmul(A, B, out=out)


def _vectors(xp: Any, A: Any, x: Any, out: Any, o: Options) -> Any:
    A = op(A, o["trans"])
    if out is None:
        return xp.matmul(A, x[..., None])[..., 0]
    xp.matmul(A, x[..., None], out=out[..., None])
    return out


def _matvec(numpy: Any, A: Any, x: Any, out: Any, o: Options) -> Any:
    return numpy.matvec(op(A, o["trans"]), x, out=out)


def _rank_k(xp: Any, A: Any, B: Any, out: Any, o: Options, other: str) -> Any:
    A, B = (A, op(A, other)) if o["trans"] == "N" else (op(A, other), A)
    return xp.matmul(A, B) if out is None else xp.matmul(A, B, out=out)


def _trmm(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    A = op(A, o["trans"])
    A, B = (A, B) if o["side"] == "L" else (B, A)
    return xp.matmul(A, B) if out is None else xp.matmul(A, B, out=out)


def _general(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    """Triangular systems as general ones: NumPy and CuPy have no others of stacks."""
    A = op(A, o["trans"])
    if "side" not in o:
        return xp.linalg.solve(A, B[..., None])[..., 0]
    if o["side"] == "L":
        return xp.linalg.solve(A, B)
    return xp.linalg.solve(A.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)


def _of_torch(torch: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    upper = (o["uplo"] == "U") == (o["trans"] == "N")
    how: Any = {"upper": upper, "left": o.get("side", "L") == "L", "unitriangular": o["diag"] == "U"}
    A, vectors = op(A, o["trans"]), "side" not in o
    B = B[..., None] if vectors else B
    if out is None:
        found = torch.linalg.solve_triangular(A, B, **how)
        return found[..., 0] if vectors else found
    torch.linalg.solve_triangular(A, B, out=out[..., None] if vectors else out, **how)
    return out


def _of_scipy(scipy: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
    if o.get("side", "L") != "L":
        raise ValueError("solve_triangular solves from the left")
    how: Any = {"lower": o["uplo"] == "L", "trans": o["trans"], "unit_diagonal": o["diag"] == "U"}
    if A.ndim > 2 and B.ndim == A.ndim - 1:
        return scipy.linalg.solve_triangular(A, B[..., None], check_finite=False, **how)[..., 0]
    return scipy.linalg.solve_triangular(A, B, check_finite=False, **how)


def _both(written: str, run: Any) -> tuple[Way, ...]:
    return (Way("numpy cupy torch", written, run),)


_SYSTEMS = (
    Way("numpy cupy", "linalg.solve(A, B)", _general),
    Way("torch", "linalg.solve_triangular(A, B)", _of_torch),
    Way("scipy", "linalg.solve_triangular(A, B)", _of_scipy),
)
_VECTORS = (*_both("matmul(A, x[..., None])", _vectors), Way("numpy", "matvec(A, x)", _matvec))
KINDS = {
    "matmul-stack": Kind(
        public="matmul", draw=lambda dice: _stack(dice, "matmul-stack"), error=errors.stacked,
        ways=_both("matmul(A, B)", _multiply), weight=1.5,
    ),
    "gemm": Kind(
        public="gemm", draw=lambda dice: _stack(dice, "gemm"), error=errors.stacked,
        ways=_both("matmul(op(A), op(B))", _multiply), weight=1.5,
    ),
    "gemv": Kind(public="gemv", draw=_gemv, error=errors.vectors, ways=_VECTORS),
    "syrk": Kind(
        public="syrk", draw=lambda dice: _update(dice, "syrk"), error=errors.rank_k,
        ways=_both("matmul(A, A.mT)", lambda xp, A, B, out, o: _rank_k(xp, A, B, out, o, "T")),
    ),
    "herk": Kind(
        public="herk", draw=lambda dice: _update(dice, "herk"), error=errors.rank_k,
        ways=_both("matmul(A, A.mH)", lambda xp, A, B, out, o: _rank_k(xp, A, B, out, o, "C")),
    ),
    "trsm": Kind(
        public="trsm", draw=lambda dice: _triangular(dice, "trsm"), error=errors.triangular, operands=triangle_of,
        ways=_SYSTEMS, weight=1.5,
    ),
    "trsv": Kind(
        public="trsv", draw=lambda dice: _triangular(dice, "trsv"), error=errors.triangular, operands=triangle_of,
        ways=_SYSTEMS,
    ),
    "trmm": Kind(
        public="trmm", draw=lambda dice: _triangular(dice, "trmm"), error=errors.triangular_product,
        operands=triangle_of, ways=_both("matmul(A, B)", _trmm),
    ),
}  # fmt: skip
