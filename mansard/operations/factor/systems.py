"""Systems with factors that are there already, and those whose operands broadcast: exchanges of rows and triangles."""

from __future__ import annotations

from math import prod

import numpy as np

from ...arrays.types import Array, Kind
from ...plan.problem import REAL
from .. import run as call
from .. import stacks
from ..batched.gemm_call import Form, multiply
from ..batched.triangular_call import Triangle
from ..batched.triangular_call import solve as solve_triangle
from . import by_factors, library, tiny
from .plan import factor, swapped
from .swaps import order_of, permuted
from .task import Found, Task, broadcast, copied, stacked, zeros
from .two_sided.derived import least_squares as by_singular_values


def lead_of(operand: Array) -> tuple[int, ...]:
    """Leading dimensions of a stack; of a list, its length."""
    return (len(operand),) if stacks.is_list(operand) else tuple(operand.shape[:-2])


def common_lead(names: tuple[str, ...], *operands: Array) -> tuple[int, ...]:
    """Leading dimensions of the result."""
    leads = [lead_of(one) for one in operands]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        others = " and ".join(f"{name} {lead}" for name, lead in zip(names[1:], leads[1:], strict=True))
        message = f"{names[0]} has leading dimensions {leads[0]} and {others}: they do not broadcast"
        raise ValueError(message) from None


def solve(kind: Kind, task: Task, A: Array, B: Array, out: Array, backend: str | None) -> tuple[Array, Array]:
    """Solutions and `info`. A matrix for several right-hand sides of the batch is factored once."""
    lead = common_lead(("a", "b"), A, B)
    if lead_of(A) == lead:
        if lead_of(B) != lead:
            B = broadcast(kind, stacked(kind, B), (*lead, *_core(B)))
        found = factor(task, kind, A, B, {} if out is None else {"X": out}, backend)
        return found["X"], found["INFO"]
    made = factor(task._replace(want="factor"), kind, A, None, None, backend)
    if task.family == "cholesky":
        X = cholesky_solve(kind, made["F"], not task.upper, B, out, backend)
    else:
        X = lu_solve(kind, made["F"], made["PIVOTS"], B, 0, out, backend)
    return X, copied_to(kind, made["INFO"], lead)


def copied_to(kind: Kind, array: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast, and in memory of its own."""
    return copied(kind, broadcast(kind, array, shape))


def _core(operand: Array) -> tuple[int, ...]:
    return tuple((operand[0] if stacks.is_list(operand) else operand).shape[-2:])


def cholesky_solve(kind: Kind, C: Array, lower: bool, B: Array, out: Array, backend: str | None) -> Array:
    """L L^H X = B, or U^H U X = B."""
    if not (stacks.is_list(C) or stacks.is_list(B) or stacks.is_list(out)) and lead_of(C) == lead_of(B):
        found = tiny.with_factors(kind, tiny.BY_CHOLESKY[lower], C, None, B, out, backend)
        if found is not None:
            return found
    if not stacks.is_list(out) and by_factors.answers(kind, C, B, backend):
        if out is not None:
            check_place(kind, out, tuple(B.shape), kind.view(B, "b").dtype)
        found = by_factors.cholesky_solve(C, lower, B, out)
        if found is not None:
            return found
    first, second = ("N", "C") if lower else ("C", "N")
    uplo = "lower" if lower else "upper"
    X = solve_triangle(C, B, out, 1.0, backend, Triangle("left", uplo, first))
    return solve_triangle(C, X, X, 1.0, backend, Triangle("left", uplo, second))


def lu_solve(kind: Kind, F: Array, pivots: Array, B: Array, trans: int, out: Array, backend: str | None) -> Array:
    """A X = B with P A = L U, or with the transpose (1) or conjugate transpose (2) of A."""
    F, pivots, B = (stacked(kind, one) for one in (F, pivots, B))
    _check_pivots(F, pivots)
    lead = common_lead(("lu", "b"), F, B)
    if out is not None:
        check_place(kind, out, (*lead, *B.shape[-2:]), kind.view(B, "b").dtype)
    if not stacks.is_list(out):
        found = _at_once(kind, F, pivots, B, trans, lead, out, backend)
        if found is not None:
            return found
        if by_factors.answers(kind, F, B, backend):
            return by_factors.lu_solve(F, pivots, B, trans, out)
    shape = (*lead, *B.shape[-2:])
    if 0 in shape:
        return copied_to(kind, B, shape) if out is None else out
    if trans == 0:
        X = _exchanged(kind, F, pivots, B, shape, backend)
        solve_triangle(F, X, X, 1.0, backend, Triangle("left", "lower", "N", True))
        solve_triangle(F, X, X, 1.0, backend, Triangle("left", "upper", "N"))
    else:
        op, X = "T" if trans == 1 else "C", copied_to(kind, B, shape)
        solve_triangle(F, X, X, 1.0, backend, Triangle("left", "upper", op))
        solve_triangle(F, X, X, 1.0, backend, Triangle("left", "lower", op, True))
        X = permuted(kind, _order(kind, pivots, F, lead).argsort(-1), X)
    if out is None:
        return X
    for place, value in zip(out, X, strict=True) if stacks.is_list(out) else ((out, X),):
        place[...] = value
    return out


def _exchanged(
    kind: Kind, F: Array, pivots: Array, B: Array, shape: tuple[int, ...], backend: str | None
) -> Array:  # fmt: skip
    """The right-hand sides with their rows exchanged, in memory of their own."""
    lead = shape[:-2]
    on_gpu = backend == "emulated" or kind.view(B, "b").device[0] != "cpu"
    if on_gpu and lead_of(F) == lead and tuple(B.shape) == shape:
        X = kind.allocate(shape, kind.view(B, "b").dtype, B)
        if swapped(kind, backend, tiny.as_int32(kind, pivots), X, B):
            return X
    X = copied_to(kind, B, shape)
    if lead_of(F) != lead or not swapped(kind, backend, tiny.as_int32(kind, pivots), X):
        X = permuted(kind, _order(kind, pivots, F, lead), X)
    return X


def _at_once(
    kind: Kind, F: Array, pivots: Array, B: Array, trans: int, lead: tuple[int, ...], out: Array, backend: str | None
) -> Array:  # fmt: skip
    """The solutions by one launch; None where there is no kernel. One matrix may be there for all right-hand sides."""
    if lead_of(F) != lead and prod(lead_of(F)) != 1:
        return None
    F, B = (broadcast(kind, one, (*lead, *_core(one))) for one in (F, B))
    return tiny.with_factors(kind, tiny.BY_LU[trans], F, tiny.as_int32(kind, pivots), B, out, backend)


def check_place(kind: Kind, out: Array, shape: tuple[int, ...], dtype: str) -> None:
    """The solutions' shape and dtype; writable, every entry in a place of its own."""
    views = stacks.described(kind, out, "out")
    each = shape[1:] if stacks.is_list(out) else shape
    if stacks.is_list(out) and len(views) != shape[0]:
        raise ValueError(f"out has {len(views)} arrays, the result {shape[0]}")
    for view in views:
        call.check_out(view, each)
        if view.dtype != dtype:
            raise TypeError(f"out has dtype {view.dtype}, the result {dtype}")


def _check_pivots(F: Array, pivots: Array) -> None:
    if tuple(pivots.shape) != tuple(F.shape[:-1]):
        raise ValueError(f"piv has shape {tuple(pivots.shape)}, and lu {tuple(F.shape)}: one pivot per row is needed")
    dtype = pivots.dtype
    if getattr(dtype, "kind", "") not in ("i", "u") and "int" not in str(dtype):
        raise TypeError(f"piv has dtype {dtype}: integers are needed")


def _order(kind: Kind, pivots: Array, F: Array, lead: tuple[int, ...]) -> Array:
    rows = F.shape[-2]
    return broadcast(kind, order_of(kind, pivots, rows), (*lead, rows))


def determinants(kind: Kind, task: Task, made: Found, backend: str | None) -> Found:
    """From the parts of a factorization, by one launch or by the array library."""
    found = tiny.determinants(kind, task.want, made["F"], made["PIVOTS"], made["INFO"], backend)
    return library.determinants(kind, task, made) if found is None else found


# ---- least squares ----------------------------------------------------------------------------------------


def least_squares(kind: Kind, A: Array, B: Array, rcond: float | None, driver: str, backend: str | None) -> Array:
    """Solutions, sums of squared residuals, ranks, and singular values where the driver finds them."""
    A, B = stacked(kind, A), stacked(kind, B)
    lead = common_lead(("a", "b"), A, B)
    A, B = (broadcast(kind, one, (*lead, *one.shape[-2:])) for one in (A, B))
    M, N = A.shape[-2:]
    view = kind.view(A, "a")
    if driver == "qr" or 0 in (*lead, M, N, B.shape[-1]):
        found = tiny.least_squares(kind, A, B, backend) if driver == "qr" and M >= N else None
        if found is not None:
            return *found, None
        X = _by_qr(kind, A, B, backend)
        ranks, values = zeros(kind, lead, "int32", A), zeros(kind, (*lead, min(M, N)), REAL[view.dtype], A)
        ranks[...] = min(M, N)
        return X, residuals(kind, A, B, X, backend), ranks, None if driver == "qr" else values
    cutoff = float(np.finfo(REAL[view.dtype]).eps) * max(M, N) if rcond is None else rcond
    X, ranks, values = by_singular_values(kind, A, B, cutoff, backend)
    return X, residuals(kind, A, B, X, backend), ranks, values


def _by_qr(kind: Kind, A: Array, B: Array, backend: str | None) -> Array:
    """For full rank: Q^H B and a triangle, or, with fewer rows than columns, the solution of least norm."""
    M, N = A.shape[-2:]
    if M >= N:
        return factor(Task("qr", "solve"), kind, A, B, None, backend)["X"]
    found = factor(Task("qr", "reduced"), kind, kind.plain(kind.conj(A.swapaxes(-1, -2))), None, None, backend)
    Y = solve_triangle(found["F"], B, None, 1.0, backend, Triangle("left", "upper", "C"))
    return multiply(found["Q"], Y, None, 1.0, 0.0, backend)


def residuals(kind: Kind, A: Array, B: Array, X: Array, backend: str | None) -> Array:
    """Squared norms of the columns of B - A X."""
    found = tiny.residuals(kind, A, B, X, backend)
    if found is not None:
        return found[0]
    rest = copied(kind, B)
    multiply(A, X, rest, -1.0, 1.0, backend, Form())
    return (kind.module.abs(rest) ** 2).sum(-2)
