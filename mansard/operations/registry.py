"""The registry of operations: every name that `ms.plan`, `ms.tune` and the command line take, and what it stands for.

A name is the one that users call: `ms.gram`, `ms.linalg.solve`, `ms.blas.trsm`, a product with an `ms.sparse.matrix`.
Kernel families without a function of their own (`tsmm`, `tsm2r`, `lu`) are here too, for whoever looks at one of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..arrays import kinds as arrays
from ..arrays.types import Array, Matrices, SparseMatrix
from ..errors import UsageError
from ..plan.plan import Plan
from ..plan.problem import Options, Problem
from . import problems, references, refined_steps, sizes, steps
from .batched.gemm_call import Form
from .batched.gemv_call import GEMV, form_of
from .batched.triangular_call import TRSV, triangle
from .batched.triangular_products import TRMM
from .factor.hold import plan_factorization
from .factor.two_sided import hold as two_sided
from .operation import Operation, Planner
from .run import make_verify
from .sizes import Asked, SizeOptions, Sizes
from .tall_skinny import gram
from .tall_skinny.matmul import MATMUL
from .tall_skinny.tsm2r_call import plan_tsm2r
from .tall_skinny.tsmm_call import plan_tsmm


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicOperation(Operation):
    """An operation with a name that users know. `plan(A, B, out, backend, form(**options))` makes a plan of it."""

    home: str  # the module that has the function; "" for the name of a kernel family
    text: str  # the formula, and what M, N, K and the batch are
    sizes: SizeOptions
    problem: problems.Make | None  # what it asks of a kernel, without arrays
    steps: problems.Steps | None  # the problems of an operation that is made of others, in place of `problem`
    families: tuple[str, ...]  # kernels that may answer
    reference: Callable[..., Array]  # the answer in NumPy
    required: int = 2  # operands that a plan cannot do without; one that does not exist is named "" in `operands`
    options: tuple[str, ...] = ()
    form: Callable[..., Any] = dict  # options as `plan` takes them
    want: str = ""  # the trait that tells its tuning records from others of the family

    def problems_for(self, asked: Asked) -> tuple[tuple[str, Problem], ...]:
        """The steps' names and problems; of an operation that is one kernel, its own."""
        found = sizes.sizes_of(asked, self.sizes, self.text)
        if self.steps is not None:
            return self.steps(asked, found)
        assert self.problem is not None
        return ((self.name, self.problem(asked, found)),)


def _operation(
    name: str, home: str, plan: Planner, text: str, of: SizeOptions, families: tuple[str, ...],
    reference: Callable[..., Array], make: problems.Make | None = None, made_of: problems.Steps | None = None,
    operands: tuple[str, str] = ("a", "b"), **more: Any,
) -> PublicOperation:  # fmt: skip
    """An operation of one kernel, whose problem `make` makes, or `made_of` several steps."""
    return PublicOperation(
        name, plan, operands, home=home, text=text, sizes=of, problem=make, steps=made_of, families=families,
        reference=reference, **more,
    )  # fmt: skip


# ---- planners whose options need a word -------------------------------------------------------------------


def _plan_gram(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: gram.Form) -> Plan:
    return gram.plan_gram(A, None if B is A else B, out, backend, form)


def _plan_trsm(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    options = {name: value for name, value in form.items() if name not in ("check", "invert_diagonal")}
    how = triangle(**options, invert=bool(form.get("invert_diagonal")))
    return steps.triangular(form.get("check", False), how).plan(A, B, out, backend, how)


def _plan_trsv(A: Matrices, x: Matrices, out: Matrices, backend: str | None, form: Any) -> Plan:
    """Vectors are planned as columns; later ones are compared with the vectors."""
    plan, kind = TRSV.plan(A, x, out, backend, form), arrays.kind_of(A, "a")
    return replace(plan, verify=make_verify(kind, A, x, out, ("a", "x")))


def _factorization(family: str, want: str | None = None) -> Planner:
    def plan(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
        return plan_factorization(family, A, B, out, backend, **({"want": want} | form if want else form))

    return plan


def _qr_form(mode: str = "reduced") -> Options:
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"mode={mode!r} is not one of 'reduced', 'complete', 'r' and 'raw'")
    return {"want": mode}


def _plan_product(A: SparseMatrix, x: Array, out: Array, backend: str | None, form: Options) -> Plan:
    """A product with a stored sparse matrix, which knows its backend."""
    if not hasattr(A, "held"):
        raise TypeError(f"A is a {type(A).__name__}: pass ms.sparse.matrix(A), which stores it for products")
    if backend is not None:
        raise TypeError("backend belongs to the stored matrix: pass ms.sparse.matrix(A, backend=...)")
    plan: Plan = A.plan(x, out)
    return plan


def _plan_powers(A: SparseMatrix, p: int, out: Array, backend: str | None, form: Options) -> Any:
    """Powers, which are a plan themselves: call them with x."""
    if out is not None:
        raise TypeError("matrix_powers has no out here: pass it when the powers are computed")
    from .sparse.powers.call import matrix_powers  # sparse matrices take a while to import

    return matrix_powers(A, p, backend=backend, **form)


# ---- the table --------------------------------------------------------------------------------------------

_MATMUL = ("gram", "tsmm", "tsm2r", "gemm", "gemv")  # families among which the shape decides
_ORTHOGONAL = ("gram", "matmul_gram", "tsmm")
_POWERS = ("basis", "execution", "output", "columns", "dtype", "index", "values", "order", "threads", "graph", "limit")
_TRIANGLE = ("uplo", "trans", "diag")


_ms, _blas, _linalg = (partial(_operation, home=home) for home in ("mansard", "mansard.blas", "mansard.linalg"))
_TALL = (
    _ms("gram", plan=_plan_gram, text="C = A^H B, A is K x M, B is K x N", of=sizes.TALL, make=problems.of_gram,
        families=("gram",), reference=references.gram, required=1, options=("conj", "deterministic"),
        form=gram.Form, operands=("A", "B")),
    _ms("matmul", plan=MATMUL.plan, text="C = A B, A is M x K, B is K x N; with --batch, that many",
        of=sizes.PRODUCT, make=problems.of_matmul, families=_MATMUL, reference=references.matmul,
        form=Form, operands=("A", "B")),
    _ms("matmul_gram", plan=steps.plan_matmul_gram, text="W = V S and W^H W, V is K x M, S is M x N",
        of=sizes.TALL, made_of=problems.matmul_gram_steps, families=_ORTHOGONAL,
        reference=references.matmul_gram, operands=("V", "S")),
    _ms("project", plan=steps.plan_project, text="W - V V^H W and its Gram matrix, V is K x M, W is K x N",
        of=sizes.TALL, made_of=problems.project_steps, families=_ORTHOGONAL,
        reference=references.project, operands=("V", "W")),
    _ms("cholesky_qr", plan=steps.plan_cholesky_qr, text="V = Q R for tall V, K x M", of=sizes.TALL_BLOCK,
        made_of=problems.cholesky_qr_steps, families=_ORTHOGONAL, reference=references.cholesky_qr,
        options=("shift", "on_deficient"), required=1, operands=("V", "")),
    _ms("orthogonalize", plan=steps.plan_orthogonalize, of=sizes.TALL,
        text="V = Q R + against H, against is K x M, V is K x N", made_of=problems.orthogonalize_steps,
        families=_ORTHOGONAL, reference=references.orthogonalize, options=("shift", "on_deficient"),
        operands=("V", "against")),
    _ms("tsmm", home="", plan=plan_tsmm, text="A B for tall A (K x M) and small B (M x N)", of=sizes.TALL,
        make=problems.of_tsmm, families=("tsmm",), reference=references.matmul, operands=("A", "B")),
    _ms("tsm2r", home="", plan=plan_tsm2r, text="A B for large A (M x K) and skinny B (K x N)", of=sizes.TALL,
        make=problems.of_tsm2r, families=("tsm2r",), reference=references.matmul, operands=("A", "B")),
)  # fmt: skip
_ALONE: Options = {"required": 1, "operands": ("a", "")}
_RANK_K: Options = {"of": sizes.UPDATE, "families": ("rank_k", "gemm"), "options": ("uplo", "trans"), **_ALONE}
_RANK_2K: Options = {**_RANK_K, "required": 2, "operands": ("a", "b")}
_SYSTEMS: Options = {"make": problems.of_trsm, "families": ("trsm",)}
_BATCHED = (
    _blas("gemm", plan=steps.plan_gemm, text="a batch of C = A B, A is M x K, B is K x N", of=sizes.PRODUCTS,
          make=problems.of_gemm, families=("gemm",), reference=references.gemm, options=("trans_a", "trans_b")),
    _blas("gemv", plan=GEMV.plan, text="a batch of y = A x, A is M x K", of=sizes.VECTORS, make=problems.of_gemv,
          families=("gemv",), reference=references.gemv, options=("trans",), form=form_of, operands=("a", "x")),
    _blas("syrk", plan=steps.plan_syrk, make=problems.of_update(False), text="a batch of A A^T, A is M x K",
          reference=partial(references.rank_k, "T"), **_RANK_K),
    _blas("herk", plan=steps.plan_herk, make=problems.of_update(True), text="a batch of A A^H, A is M x K",
          reference=partial(references.rank_k, "C"), **_RANK_K),
    _blas("syr2k", plan=steps.plan_syr2k, make=problems.of_update(False, True),
          text="a batch of A B^T + B A^T, A and B are M x K", reference=partial(references.rank_2k, "T"), **_RANK_2K),
    _blas("her2k", plan=steps.plan_her2k, make=problems.of_update(True, True),
          text="a batch of A B^H + B A^H, A and B are M x K", reference=partial(references.rank_2k, "C"), **_RANK_2K),
    _blas("trsm", plan=_plan_trsm, of=sizes.SYSTEM,
          text="a batch of triangular systems of order M, N right-hand sides", reference=references.trsm,
          options=("side", *_TRIANGLE, "check", "invert_diagonal"), **_SYSTEMS),
    _blas("trsv", plan=_plan_trsv, text="a batch of triangular systems of order M, one right-hand side",
          of=sizes.ONE_VECTOR, reference=references.trsv, options=_TRIANGLE, form=partial(triangle, "L"),
          operands=("a", "x"), **_SYSTEMS),
    _blas("trmm", plan=TRMM.plan, text="a batch of A B, A is triangular of order M, B is M x N", of=sizes.SYSTEM,
          make=problems.of_trmm, families=("trmm",), reference=references.trmm,
          options=("side", *_TRIANGLE), form=triangle),
    _blas("solve_triangular", home="mansard.linalg", plan=steps.plan_solve_triangular, of=sizes.SYSTEM,
          text="a batch of triangular systems of order M, N right-hand sides",
          reference=references.solve_triangular, options=("lower", "trans", "unit_diagonal", "check"), **_SYSTEMS),
)  # fmt: skip
_FACTOR = (
    _linalg("cholesky", plan=_factorization("cholesky"), text="a batch of A = L L^H, A is M x M", of=sizes.SQUARE,
            make=problems.of_cholesky, families=("cholesky",), reference=references.cholesky, options=("upper",),
            want="factor", **_ALONE),
    _linalg("lu_factor", plan=_factorization("lu"), text="a batch of A = P L U, A is M x N", of=sizes.RECTANGLE,
            make=problems.of_lu("factor"), families=("lu",), reference=references.lu_factor, options=("pivot",),
            want="factor", **_ALONE),
    _linalg("qr", plan=_factorization("qr"), text="a batch of A = Q R, A is M x N", of=sizes.RECTANGLE,
            make=problems.of_qr, families=("qr",), reference=references.qr, options=("mode",), form=_qr_form,
            want="reduced", **_ALONE),
    _linalg("solve", plan=refined_steps.plan_solve, text="a batch of A X = B, A is M x M, N right-hand sides",
            of=sizes.SYSTEM, make=problems.of_lu("solve"), families=("lu", "cholesky"), reference=references.solve,
            options=("assume_a", "pivot", "refine"), want="solve"),
    _linalg("inv", plan=_factorization("lu", "inverse"), text="a batch of inverses, A is M x M", of=sizes.SQUARE,
            make=problems.of_lu("inverse"), families=("lu",), reference=references.inv, options=("pivot",),
            want="inverse", **_ALONE),
    _linalg("det", plan=_factorization("lu", "determinant"), text="a batch of determinants, A is M x M",
            of=sizes.SQUARE, make=problems.of_lu("determinant"), families=("lu",), reference=references.det,
            want="determinant", **_ALONE),
    _linalg("slogdet", plan=_factorization("lu", "logdet"), of=sizes.SQUARE,
            text="a batch of signs and logarithms of determinants, A is M x M", make=problems.of_lu("logdet"),
            families=("lu",), reference=references.slogdet, want="logdet", **_ALONE),
    _linalg("cho_solve", plan=steps.plan_cho_solve, text="a batch of L L^H X = B, L is M x M, N right-hand sides",
            of=sizes.SYSTEM, made_of=problems.cho_solve_steps, families=("trsm",),
            reference=references.cho_solve, operands=("c_and_lower", "b")),
    _linalg("lu_solve", plan=steps.plan_lu_solve, text="a batch of P L U X = B, L is M x M, N right-hand sides",
            of=sizes.SYSTEM, made_of=problems.lu_solve_steps, families=("trsm",),
            reference=references.lu_solve, options=("trans",), operands=("lu_and_piv", "b")),
    _linalg("lstsq", plan=two_sided.plan_lstsq, text="a batch of least |B - A X|, A is M x N, by QR",
            of=sizes.RECTANGLE, make=problems.of_lstsq, families=("qr",), reference=references.lstsq,
            options=("rcond", "driver"), want="solve"),
    _linalg("lu", home="", plan=_factorization("lu"), text="a batch of A = P L U, A is M x N", of=sizes.RECTANGLE,
            make=problems.of_lu("factor"), families=("lu",), reference=references.lu_factor,
            options=("want", "pivot"), want="factor", required=1),
)  # fmt: skip


_REDUCED = {"eigh": "tridiagonal", "eigvalsh": "tridiagonal", "tridiagonalize": "tridiagonal"}


def _two_sided(
    name: str, text: str, of: SizeOptions, options: str = "", want: str = "", **more: Any
) -> PublicOperation:  # fmt: skip
    """An operation of eigenvalues or singular values; `want`: the factorization behind it, if that is another."""
    plain = name.removesuffix("_ex")
    task = want or plain
    families = ("jacobi", _REDUCED.get(task, "bidiagonal"), "sweeps", "divide", "back_transform")
    return _linalg(name, plan=two_sided.planner(name), text=text, of=of, families=families,
                   made_of=problems.two_sided_steps(task, name == "procrustes"),
                   reference=getattr(references, plain), options=tuple(options.split()), **_ALONE | more)  # fmt: skip


_TWO_SIDED = (
    *(_two_sided(name, "a batch of A = Z W Z^H, A is Hermitian, M x M", sizes.SQUARE, "UPLO driver")
      for name in ("eigh", "eigh_ex")),
    *(_two_sided(name, "a batch of eigenvalues, A is Hermitian, M x M", sizes.SQUARE, "UPLO driver")
      for name in ("eigvalsh", "eigvalsh_ex")),
    _two_sided("svd", "a batch of A = U S V^H, A is M x N", sizes.RECTANGLE,
               "full_matrices compute_uv hermitian driver"),
    _two_sided("svd_ex", "a batch of A = U S V^H, A is M x N", sizes.RECTANGLE, "full_matrices hermitian driver"),
    _two_sided("svdvals", "a batch of singular values, A is M x N", sizes.RECTANGLE, "driver"),
    _two_sided("svdvals_ex", "a batch of singular values, A is M x N", sizes.RECTANGLE, "hermitian driver"),
    _two_sided("tridiagonalize", "a batch of A = Q T Q^H, A is Hermitian, M x M", sizes.SQUARE, "UPLO compute_q"),
    _two_sided("bidiagonalize", "a batch of A = U B V^H, A is M x N", sizes.RECTANGLE, "compute_uv"),
    _two_sided("pinv", "a batch of pseudo-inverses, A is M x N", sizes.RECTANGLE, "rcond hermitian rtol", "svd"),
    _two_sided("matrix_rank", "a batch of ranks, A is M x N", sizes.RECTANGLE, "tol hermitian rtol", "svdvals"),
    _two_sided("cond", "a batch of condition numbers, A is M x N", sizes.RECTANGLE, "p", "svdvals"),
    _two_sided("norm", "norms of matrices or vectors, A is M x N", sizes.RECTANGLE, "ord axis keepdims", "svdvals"),
    _two_sided("polar", "a batch of A = U P, A is M x N", sizes.RECTANGLE, "side", "svd"),
    _two_sided("procrustes", "a batch of least |A R - B|, A and B are M x N", sizes.RECTANGLE,
               want="svd", required=2, operands=("a", "b")),
)  # fmt: skip
_SPARSE = (
    _operation("matvec", "mansard.sparse", _plan_product, "sparse A, M rows of K entries, times N vectors",
               sizes.SPARSE, ("spmv",), references.matvec, problems.of_spmv, operands=("A", "x")),
    _operation("matrix_powers", "mansard", _plan_powers, "N powers of a sparse A, M rows of K entries",
               sizes.POWERS, ("powers", "spmv"), references.matrix_powers, problems.of_powers, options=_POWERS,
               operands=("A", "p")),
)  # fmt: skip
# the functions in `_ex` plan the same kernels
_TWINS = tuple(
    replace(one, name=f"{one.name}_ex") for one in _FACTOR if one.name in ("cholesky", "lu_factor", "solve", "inv")
)
OPERATIONS: dict[str, PublicOperation] = {
    operation.name: operation for operation in (*_TALL, *_BATCHED, *_FACTOR, *_TWINS, *_TWO_SIDED, *_SPARSE)
}
ALIASES = {"powers": "matrix_powers", "spmv": "matvec"}  # families that are asked for by their own names


def names() -> tuple[str, ...]:
    """All names that are understood."""
    return (*OPERATIONS, *ALIASES)


def named(name: str) -> PublicOperation:
    """The operation of this name; UsageError, with the names nearest to it, if there is none."""
    found = OPERATIONS.get(ALIASES.get(name, name))
    if found is None:
        raise UsageError(f"no operation is called {name!r}{near(name)}")
    return found


def near(name: str) -> str:
    """` (did you mean 'solve'? also near: 'solve_ex')`, or nothing if no name resembles this one."""
    first, *others = difflib.get_close_matches(str(name).lower(), names(), 4) or [""]
    also = f" also near: {', '.join(map(repr, others))}" if others else ""
    return f" (did you mean {first!r}?{also})" if first else ""


def problems_of(asked: Asked) -> tuple[tuple[str, Problem], ...]:
    """The problems that a name and sizes mean, each with the name of its step; UsageError where an option is missing,
    or has no meaning here."""
    return named(asked.operation).problems_for(asked)


def problem_of(asked: Asked) -> Problem:
    """The problem that is meant, of several steps the first."""
    return problems_of(asked)[0][1]


def sizes_of(asked: Asked) -> Sizes:
    """All sizes, with the defaults of those that were not given."""
    operation = named(asked.operation)
    return sizes.sizes_of(asked, operation.sizes, operation.text)


def with_long(asked: Asked, elements: int) -> Asked:
    """`asked` with a long size for operands of so many entries, unless one was given."""
    operation = named(asked.operation)
    return sizes.with_long(asked, operation.sizes, operation.text, elements)


def help_text(known: tuple[str, ...] = tuple(OPERATIONS)) -> str:
    """The table of operations, for --help."""
    lines = [f"  {name:<17} {OPERATIONS[name].text}" for name in known if not name.endswith("_ex")]
    others = [f"{alias} is {name}" for alias, name in ALIASES.items() if name in known]
    return "\n".join(["operations:", *lines, f"  ({'; '.join([*others, 'names in _ex are known, too'])})"])
