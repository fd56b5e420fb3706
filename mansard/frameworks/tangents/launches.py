"""What answers the calls of primitives without Python: one launch of a kernel, the array library, or nothing such.

Functions take arrays like the operands, whose values nobody reads, and the primitive's options (`native.Describe`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.kinds import kind_of
from ...operations.batched.gemm_call import Form, plan_gemm
from ...operations.batched.gemv_call import form_of, plan_gemv
from ...operations.batched.triangular_call import plan_trsm, triangle
from ...operations.factor.task import Task
from ...operations.single_launch import of_factorization, of_product
from ...operations.tall_skinny.gram import Form as GramForm
from ...operations.tall_skinny.gram import plan_gram
from ...operations.tall_skinny.matmul import plan_matmul
from .native import Answer

_OF = {"N": (False, False), "T": (True, False), "C": (True, True)}


def gram(A: Any, B: Any = None, *, conj: bool, backend: str | None) -> Answer:
    plan = plan_gram(A, B, None, backend, GramForm(conj))
    return of_product(plan, 1 if B is None else 2, (A.shape[1], (A if B is None else B).shape[1]))


def gemm(a: Any, b: Any, *, trans_a: str, trans_b: str, backend: str | None) -> Answer:
    rows, columns = a.shape[-1 if trans_a != "N" else -2], b.shape[-2 if trans_b != "N" else -1]
    shape = (*_lead(a, 2, b, 2), rows, columns)
    if a.ndim > 2 or b.ndim > 2:
        return of_product(plan_gemm(a, b, None, backend, Form(*_OF[trans_a], *_OF[trans_b])), 2, shape)
    if a.dtype.kind == "c" and "C" in (trans_a, trans_b):  # a conjugated copy of the operand
        return None
    a, b = (one if trans == "N" else one.T for one, trans in ((a, trans_a), (b, trans_b)))
    return of_product(plan_matmul(a, b, None, backend), 2, shape)


def gemv(a: Any, x: Any, *, trans: str, backend: str | None) -> Answer:
    plan = plan_gemv(a, x, None, backend, form_of(trans))
    return of_product(plan, 2, (*_lead(a, 2, x, 1), a.shape[-2 if trans == "N" else -1]))


def trsm(
    a: Any, b: Any, *, side: str, uplo: str, trans: str, diag: str, invert_diagonal: bool, backend: str | None
) -> Answer:  # fmt: skip
    plan = plan_trsm(a, b, None, backend, triangle(side, uplo, trans, diag, invert_diagonal))
    return of_product(plan, 2, (*_lead(a, 2, b, 2), *b.shape[-2:]))


def solve(a: Any, b: Any, *, assume_a: str, pivot: bool, refine: bool, backend: str | None) -> Answer:
    if refine or a.shape[:-2] != b.shape[:-2]:  # factors of fewer matrices serve several right-hand sides
        return None
    task = Task("lu", "solve", pivot=pivot) if assume_a == "gen" else Task("cholesky", "solve")
    return of_factorization(task, kind_of(a, "a"), a, b, backend)


def inverse(a: Any, *, pivot: bool, backend: str | None) -> Answer:
    return of_factorization(Task("lu", "inverse", pivot=pivot), kind_of(a, "a"), a, None, backend)


def determinant(a: Any, *, backend: str | None) -> Answer:
    return of_factorization(Task("lu", "determinant"), kind_of(a, "a"), a, None, backend)


def logdet(a: Any, *, backend: str | None) -> Answer:
    return of_factorization(Task("lu", "logdet"), kind_of(a, "a"), a, None, backend)


def cholesky(a: Any, *, upper: bool, backend: str | None) -> Answer:
    return of_factorization(Task("cholesky", upper=upper), kind_of(a, "a"), a, None, backend)


def lu_factor(a: Any, *, pivot: bool, backend: str | None) -> Answer:
    return of_factorization(Task("lu", pivot=pivot), kind_of(a, "a"), a, None, backend)


def _lead(one: Any, own: int, other: Any, others: int) -> tuple[int, ...]:
    """Leading dimensions of the result; `own` and `others` are the numbers of dimensions behind them."""
    return tuple(np.broadcast_shapes(one.shape[: one.ndim - own], other.shape[: other.ndim - others]))
