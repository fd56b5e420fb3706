"""Problems of kernel families without arrays: what an operation of given sizes asks of them.

A maker returns the problem of one kernel. Operations made of several return their steps: the name of each step's
operation, and its problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import Any

from ..kernels.batched import gemm, gemv, rank_k, trmm, trsm
from ..kernels.factor import cholesky, lu, qr
from ..kernels.sparse import powers, spmv
from ..kernels.tall_skinny import gram, matmul_gram, tsm2r, tsmm
from ..plan.problem import ITEMSIZE, Options, Problem
from ..plan.tall_skinny_rules import FEWEST_ON_CPUS, family_for
from .factor.two_sided.chain import chain_of
from .factor.two_sided.task import Task
from .sizes import Asked, Sizes

Make = Callable[[Asked, Sizes], Problem]
Steps = Callable[[Asked, Sizes], tuple[tuple[str, Problem], ...]]


# ---- tall and skinny --------------------------------------------------------------------------------------


def of_gram(asked: Asked, s: Sizes) -> Problem:
    layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
    return gram.spec.problem(
        asked.dtype, s.m, s.n, s.k, **layouts, same=asked.same, deterministic=asked.deterministic
    )  # fmt: skip


def of_tsmm(asked: Asked, s: Sizes) -> Problem:
    return tsmm.spec.problem(asked.dtype, s.m, s.n, s.k, layout_a=asked.layout)


def of_tsm2r(asked: Asked, s: Sizes) -> Problem:
    return tsm2r.spec.problem(asked.dtype, s.m, s.n, s.k, layout_a=asked.layout)


def of_matmul_gram(asked: Asked, s: Sizes) -> Problem:
    return matmul_gram.spec.problem(asked.dtype, s.m, s.n, s.k)


def of_matmul(asked: Asked, s: Sizes) -> Problem:
    """The problem that `ms.matmul` makes of two matrices, or of a batch of them."""
    if asked.batch is not None:
        return (of_gemv if s.n == 1 else of_gemm)(asked, s)
    family = family_for(asked.dtype, s.m, s.k, s.n, FEWEST_ON_CPUS if asked.on_cpu else 0, asked.device)
    if family == "gram":  # of A^T, whose rows are A's columns
        turned = "col" if asked.layout == "row" else "row"
        return gram.spec.problem(asked.dtype, s.m, s.n, s.k, layout_a=turned, layout_b=asked.layout, conj=False)
    if family == "tsmm":
        return of_tsmm(asked, Sizes(s.k, s.n, s.m, 1))
    if family == "tsm2r":
        return of_tsm2r(asked, s)
    return of_gemm(asked, s._replace(batch=1))


def matmul_gram_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """W = V S with its Gram matrix: one kernel of a GPU; on CPUs a product, and a gram of its result."""
    if not asked.on_cpu:
        return (("matmul_gram", of_matmul_gram(asked, s)),)
    return _last_product(asked, s), ("gram", of_gram(replace(asked, same=True), s._replace(m=s.n)))


def _last_product(asked: Asked, s: Sizes) -> tuple[str, Problem]:
    """V S as `ms.matmul` has it: V is its M x K operand."""
    return "matmul", of_matmul(asked, Sizes(s.k, s.n, s.m, 1))


def project_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """C = V^H W, then W - V C with its Gram matrix."""
    return ("gram", of_gram(asked, s)), *matmul_gram_steps(asked, s)


def cholesky_qr_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """V^H V, then V S with its Gram matrix until that is the identity; the last product has none."""
    square, first = s._replace(n=s.m), of_gram(replace(asked, same=True), s._replace(n=s.m))
    return tuple(dict.fromkeys((("gram", first), *matmul_gram_steps(asked, square), _last_product(asked, square))))


def orthogonalize_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """A projection, then the last product of Cholesky QR."""
    return *project_steps(asked, s), _last_product(asked, s._replace(m=s.n))


# ---- batches ----------------------------------------------------------------------------------------------


def of_gemm(asked: Asked, s: Sizes) -> Problem:
    layouts: Options = {f"layout_{side}": asked.layout for side in "abc"}
    return gemm.spec.problem(asked.dtype, s.m, s.n, s.k, s.batch, **layouts)


def of_gemv(asked: Asked, s: Sizes) -> Problem:
    return gemv.spec.problem(asked.dtype, s.m, s.k, s.batch, layout_a=asked.layout)


def of_trsm(asked: Asked, s: Sizes, **traits: Any) -> Problem:
    layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
    return trsm.spec.problem(asked.dtype, s.m, s.n, s.batch, **layouts, **traits)


def of_update(hermitian: bool, two: bool = False) -> Make:
    """A A^T (syrk), A A^H (herk), or A B^T + B A^T (syr2k), A B^H + B A^H (her2k), without a place for the result."""

    def make(asked: Asked, s: Sizes) -> Problem:
        layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
        return rank_k.spec.problem(asked.dtype, s.m, s.k, s.batch, two=two, conj_b=hermitian, **layouts)

    return make


def of_trmm(asked: Asked, s: Sizes) -> Problem:
    layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
    return trmm.spec.problem(asked.dtype, s.m, s.n, s.batch, **layouts)


def cho_solve_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """L Y = B, then L^H X = Y."""
    return ("trsm", of_trsm(asked, s)), ("trsm", of_trsm(asked, s, trans="C"))


def lu_solve_steps(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
    """L Y = P B, then U X = Y."""
    return ("trsm", of_trsm(asked, s, unit=True)), ("trsm", of_trsm(asked, s, uplo="upper"))


# ---- factorizations ---------------------------------------------------------------------------------------


def of_cholesky(asked: Asked, s: Sizes) -> Problem:
    return cholesky.spec.problem(asked.dtype, s.m, s.batch, layout_a=asked.layout)


def of_lu(want: str) -> Make:
    def make(asked: Asked, s: Sizes) -> Problem:
        columns, right = (s.n, 0) if want == "factor" else (s.m, s.n if want == "solve" else 0)
        layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
        return lu.spec.problem(asked.dtype, s.m, columns, s.batch, NRHS=right, want=want, **layouts)

    return make


def of_qr(asked: Asked, s: Sizes) -> Problem:
    return qr.spec.problem(asked.dtype, s.m, s.n, s.batch, want="reduced", layout_a=asked.layout)


def of_lstsq(asked: Asked, s: Sizes) -> Problem:
    layouts: Options = {"layout_a": asked.layout, "layout_b": asked.layout}
    return qr.spec.problem(asked.dtype, s.m, s.n, s.batch, NRHS=1, want="solve", **layouts)


def two_sided_steps(want: str, of_product: bool = False) -> Steps:
    """A two-sided factorization: QR of tall matrices (wide ones are taken as their adjoints), the square problem, and
    where vectors are wanted a product. `of_product`: of A^H B, which is square."""

    def make(asked: Asked, s: Sizes) -> tuple[tuple[str, Problem], ...]:
        rows, order = (s.n, s.n) if of_product else (max(s.m, s.n), min(s.m, s.n))
        tall, task = Sizes(rows, order, rows, s.batch), Task(want)
        chain = chain_of(task, asked.dtype, order, s.batch, asked.on_cpu)
        if asked.on_cpu:  # where one kernel answers, or LAPACK
            chain = chain[:1]
        found = tuple((problem.operation, problem) for problem in chain)
        if of_product:
            inner = s._replace(m=s.n, k=s.m)
            found = (("gemm", of_gemm(asked, inner)), *found)
        if rows > order:
            vectors = "U" in task.parts
            first = qr.spec.problem(asked.dtype, rows, order, s.batch, want="reduced" if vectors else "r")
            last = (("gemm", of_gemm(asked, tall._replace(k=order))),) if vectors else ()
            found = (("qr", first), *found, *last)
        return tuple(dict.fromkeys(found))

    return make


# ---- sparse -----------------------------------------------------------------------------------------------


def of_spmv(asked: Asked, s: Sizes) -> Problem:
    vector = gcd(s.n, 16 // ITEMSIZE[asked.dtype])
    return spmv.spec.problem(asked.dtype, s.m, s.m, s.m * s.k, s.n, ragged=False, vector=vector)


def of_powers(asked: Asked, s: Sizes) -> Problem:
    return powers.spec.problem(asked.dtype, s.m, s.m * s.k, s.n)
