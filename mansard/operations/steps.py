"""Plans of operations that are made of others: each step has a plan of its own, and a call runs the public function.

Kernels of the steps are compiled when the plan is made. `explain()` shows every step, and tuning measures each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from ..arrays import kinds as arrays
from ..arrays.types import Array, Kind, Matrices
from ..plan import pin
from ..plan.plan import Plan
from ..plan.problem import Options
from ..plan.route import Library
from . import run as call
from . import stacks
from .batched.gemm_call import GEMM, Form
from .batched.rank_call import plan_update
from .batched.rank_products import Update
from .batched.triangular_call import TRSM, TRSM_CHECKED, Triangle, plan_trsm
from .factor import by_factors
from .factor.face import check_matrices, check_rows, is_vector
from .factor.hold import plan_factorization, plan_tiny
from .factor.systems import common_lead, lead_of
from .factor.task import broadcast, stacked
from .factor.tiny import BY_CHOLESKY, BY_LU
from .operation import Operation
from .ragged import Ragged
from .tall_skinny import fused, short_blocks
from .tall_skinny.gram import plan_gram
from .tall_skinny.matmul import plan_matmul
from .tall_skinny.matmul_gram_call import plan_fused

Steps = list[tuple[str, Plan]]


@dataclass
class StepsPlan(Plan):
    """A plan of several operations. Its problem, choice and kernel are those of the first step."""

    steps: tuple[tuple[str, Plan], ...] = ()
    operation: str = ""
    preface: str = ""  # what the steps are for

    def explain(self) -> str:
        """What each step runs and why, one after the other."""
        count = len(self.steps)
        texts = [f"step {i} of {count}: {name}\n{step.explain()}" for i, (name, step) in enumerate(self.steps, 1)]
        return "\n".join([self.preface or f"{self.operation} is made of other operations", *texts])


def held(
    home: str,
    operation: str,
    steps: Steps,
    verify: Callable[[Matrices, Matrices, Matrices], None],
    backend: str | None,
    options: Options,
    preface: str = "",
) -> Plan:
    """The function `operation` of the module `home`, held: called with arrays like those its steps were planned for."""
    function: Callable[..., Array] = getattr(import_module(home), operation)
    pinned = dict(pin.pins())  # as they were when the steps were planned

    def run(
        A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        more = options | ({} if out is None else {"out": out})
        more |= {} if (alpha, beta) == (1.0, 0.0) else {"alpha": alpha, "beta": beta}
        with pin.pin(**pinned) if pinned else nullcontext():
            return function(*(one for one in (A, B) if one is not None), backend=backend, **more)

    first = steps[0][1]
    return StepsPlan(
        problem=first.problem, choice=first.choice, backend=first.backend, kernel=first.kernel, run=run, verify=verify,
        steps=tuple(steps), operation=operation, preface=preface,
    )  # fmt: skip


# ---- tall and skinny --------------------------------------------------------------------------------------


def plan_matmul_gram(V: Matrices, S: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """W = V S and W^H W."""
    kind = _kind({"V": V, "S": S} | ({} if out is None else {"out": out}))
    steps = _with_gram(kind, V, S, out, None, backend)
    return held("mansard", "matmul_gram", steps, call.make_verify(kind, V, S, out, ("V", "S")), backend, form)


def plan_project(V: Matrices, W: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """C = V^H W, then W - V C and its Gram matrix."""
    kind = _kind({"V": V, "W": W} | ({} if out is None else {"out": out}))
    steps = _projection(kind, V, W, out, backend)
    return held("mansard", "project", steps, call.make_verify(kind, V, W, out, ("V", "W")), backend, form)


def plan_cholesky_qr(V: Matrices, B: None, out: Matrices, backend: str | None, form: Options) -> Plan:
    """V^H V, then products with their Gram matrices until the columns are orthonormal."""
    kind = _kind({"V": V} | ({} if out is None else {"out": out}))
    short = short_blocks.plan(kind, V, out, str(form.get("shift", "auto")), backend)
    if short is not None:
        return held("mansard", "cholesky_qr", [("qr", short)], short.verify, backend, form)
    block = _like(kind, V, V.shape) if out is None else out
    S = _like(kind, V, (V.shape[1],) * 2)
    steps: Steps = [("gram", plan_gram(V, None, None, backend)), *_with_gram(kind, V, S, out, None, backend)]
    steps.append(("matmul", plan_matmul(block, S, block, backend)))
    return held("mansard", "cholesky_qr", steps, call.make_verify(kind, V, None, out, ("V", "B")), backend, form)


def plan_orthogonalize(V: Matrices, against: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """A projection, then the last product of Cholesky QR."""
    kind = _kind({"V": V, "against": against} | ({} if out is None else {"out": out}))
    steps = _projection(kind, against, V, out, backend)
    block = _like(kind, V, V.shape) if out is None else out
    steps.append(("matmul", plan_matmul(block, _like(kind, V, (V.shape[1],) * 2), block, backend)))
    verify = call.make_verify(kind, V, against, out, ("V", "against"))
    return held("mansard", "orthogonalize", steps, verify, backend, form)


def _kind(given: dict[str, Matrices]) -> Kind:
    """The array library of matrices of one dtype on one device. JAX arrays are refused by their own view."""
    kind, _ = fused.checked(given)
    if kind.immutable:
        kind.view(*reversed(next(iter(given.items()))))
    return kind


def _like(kind: Kind, array: Array, shape: tuple[int, ...]) -> Matrices:
    """A new array of this shape, of the dtype and on the device of another."""
    return kind.empty(tuple(shape), kind.view(array, "V").dtype, array)


def _projection(kind: Kind, V: Matrices, W: Matrices, out: Matrices, backend: str | None) -> Steps:
    C = _like(kind, V, (V.shape[1], W.shape[1]))
    return [("gram", plan_gram(V, W, None, backend)), *_with_gram(kind, V, C, out, W, backend)]


def _with_gram(kind: Kind, V: Matrices, S: Matrices, out: Matrices, base: Array, backend: str | None) -> Steps:
    """V S and its Gram matrix: one kernel, or a product and a gram."""
    found = plan_fused(V, S, out, base, backend)
    if found is not None:
        return [("matmul_gram", found)]
    W = _like(kind, V, (V.shape[0], S.shape[1])) if out is None else out
    return [("matmul", plan_matmul(V, S, out, backend)), ("gram", plan_gram(W, None, None, backend))]


# ---- batches ----------------------------------------------------------------------------------------------

_FORMS = {"N": (False, False), "T": (True, False), "C": (True, True)}  # transposed, conjugated


def form_of(trans_a: str = "N", trans_b: str = "N") -> Form:
    """BLAS's options of a product."""
    for name, value in (("trans_a", trans_a), ("trans_b", trans_b)):
        if value not in _FORMS:
            raise ValueError(f"{name}={value!r} is not one of 'N', 'T' and 'C'")
    return Form(*_FORMS[trans_a], *_FORMS[trans_b])


def plan_gemm(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """A batch of products; two single matrices are a matter of `matmul`."""
    how = form_of(**form)
    if stacks.is_list(A) or stacks.is_list(B) or not len(A.shape) == len(B.shape) == 2:
        return GEMM.plan(A, B, out, backend, how)
    kind = arrays.common_kind([("a", A), ("b", B)])
    left, right = _turned(kind, A, how.trans_a, how.conj_a), _turned(kind, B, how.trans_b, how.conj_b)
    steps: Steps = [("matmul", plan_matmul(left, right, out, backend))]
    return held("mansard.blas", "gemm", steps, call.make_verify(kind, A, B, out, ("a", "b")), backend, form)


def _turned(kind: Kind, matrix: Array, trans: bool, conj: bool) -> Matrices:
    turned = matrix.T if trans else matrix
    return kind.conj(turned) if conj else turned


def _plan_rank_k(
    name: str, hermitian: bool, a: Matrices, b: Matrices, out: Matrices, backend: str | None, form: Options
) -> Plan:
    """a a^T (syrk), a a^H (herk), a b^T + b a^T (syr2k) or a b^H + b a^H (her2k): one kernel, or a product of which a
    triangle counts."""
    uplo, trans, other = form.get("uplo", "L"), form.get("trans", "N"), "C" if hermitian else "T"
    if uplo not in ("L", "U") or trans not in ("N", other):
        raise ValueError(f"uplo={uplo!r}, trans={trans!r}: 'L' or 'U', and 'N' or {other!r} are known")
    how = Update(uplo == "L", trans != "N", hermitian, b is not None)
    plan = plan_update(a, b, out, backend, how)
    if not isinstance(plan.choice.route, Library):
        return plan
    options = {"trans_a": trans, "trans_b": "N" if trans != "N" else other}
    product = plan_gemm(a, a if b is None else b, None, backend, options)
    kind = stacks.common_kind([("a", a), ("b", b), ("out", out)])
    verify = call.make_verify(kind, a, b, out, ("a", "b"))
    return held("mansard.blas", name, [("gemm", product)], verify, backend, form)


plan_syrk, plan_herk = partial(_plan_rank_k, "syrk", False), partial(_plan_rank_k, "herk", True)
plan_syr2k, plan_her2k = partial(_plan_rank_k, "syr2k", False), partial(_plan_rank_k, "her2k", True)


# ---- systems ----------------------------------------------------------------------------------------------


def plan_solve(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Systems by one factorization where there is one right-hand side for each matrix; else as `solve_ex` does it."""
    assume_a, pivot = form.get("assume_a", "gen"), form.get("pivot", True)
    if assume_a not in _FAMILIES:
        raise ValueError(f"assume_a={assume_a!r} is not one of {', '.join(map(repr, _FAMILIES))}")
    family = _FAMILIES[assume_a]
    columns = columns_of(B)
    if columns is B and (isinstance(A, Ragged) or lead_of(A) == lead_of(B)):
        return plan_factorization(family, A, B, out, backend, want="solve", pivot=pivot)
    kind = stacks.common_kind((("a", A), ("b", B), ("out", out)))
    check_rows(check_matrices(A, "a", square=True)[0], columns, ("a", "b"))
    lead = common_lead(("a", "b"), A, columns)
    if lead_of(A) == lead:
        right = broadcast(kind, stacked(kind, columns), (*lead, *_core(columns)))
        steps: Steps = [("solve", plan_factorization(family, A, right, None, backend, want="solve", pivot=pivot))]
    else:
        steps = [(_FACTORS[family], plan_factorization(family, A, None, None, backend, pivot=pivot))]
        steps += substitutions(A, columns, backend, "lower", "lower" if family == "cholesky" else "upper", "N")
    return held("mansard.linalg", "solve_ex", steps, call.make_verify(kind, A, B, out, ("a", "b")), backend, form)


_FAMILIES = {"gen": "lu", "pos": "cholesky"}
_FACTORS = {"lu": "lu_factor", "cholesky": "cholesky"}
_TRANS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}  # SciPy's option, or BLAS's


def triangular(check: bool, how: Triangle) -> Operation:
    """The operation that solves triangular systems, or looks for zeros on their diagonals first."""
    return TRSM_CHECKED if check and not how.unit else TRSM


def plan_solve_triangular(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Triangular systems with SciPy's options; one vector (n,) is a column for every matrix."""
    how = Triangle("left", "lower" if form.get("lower") else "upper", _op(form), bool(form.get("unit_diagonal")))
    if not is_vector(B):
        return triangular(form.get("check", False), how).plan(A, B, out, backend, how)
    kind = stacks.common_kind((("a", A), ("b", B), ("out", out)))
    steps: Steps = [("trsm", TRSM.plan(A, columns_of(B), None if out is None else out[..., None], backend, how))]
    verify = call.make_verify(kind, A, B, out, ("a", "b"))
    return held("mansard.linalg", "solve_triangular", steps, verify, backend, form)


def _op(form: Options) -> str:
    trans = form.get("trans", 0)
    if type(trans) not in (int, str) or trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of {', '.join(map(repr, _TRANS))}")
    return _TRANS[trans]


def plan_lu_solve(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Systems whose matrices have been factored: exchanges of rows, and two triangles."""
    kind = stacks.common_kind((("lu_and_piv", A), ("b", B), ("out", out)))
    op = _op(form)
    order = ("lower", "upper") if op == "N" else ("upper", "lower")
    factors, pivots = A
    at_once = plan_tiny(kind, BY_LU["NTC".index(op)], factors, pivots, columns_of(B), backend)
    steps = [("lu_solve", at_once)] if at_once else substitutions(factors, columns_of(B), backend, *order, op, True)
    verify = call.make_verify(kind, A, B, out, ("lu_and_piv", "b"))
    preface = _by_lapack("lu_solve", "getrs", kind, factors, B, backend)
    return held("mansard.linalg", "lu_solve", steps, verify, backend, form, preface)


def plan_cho_solve(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Systems whose Cholesky factors are given: two triangles."""
    c, lower = A
    kind = stacks.common_kind((("c", c), ("b", B), ("out", out)))
    uplo, ops = ("lower", "NC") if lower else ("upper", "CN")
    at_once = plan_tiny(kind, BY_CHOLESKY[bool(lower)], c, None, columns_of(B), backend)
    steps: Steps = [("cho_solve", at_once)] if at_once else [
        ("trsm", plan_trsm(c, columns_of(B), None, backend, Triangle("left", uplo, op))) for op in ops
    ]  # fmt: skip
    verify = call.make_verify(kind, c, B, out, ("c", "b"))

    def verify_pair(A: Matrices, B: Matrices, out: Matrices) -> None:
        if bool(A[1]) != bool(lower):
            raise ValueError(f"lower={A[1]!r} differs from the plan's: make another plan")
        verify(A[0], B, out)

    preface = _by_lapack("cho_solve", "potrs", kind, c, B, backend)
    return held("mansard.linalg", "cho_solve", steps, verify_pair, backend, form, preface)


def _by_lapack(operation: str, routine: str, kind: Kind, F: Matrices, B: Matrices, backend: str | None) -> str:
    """Explain that LAPACK's `routine` takes the place of the steps; empty where it does not."""
    answers = by_factors.answers(kind, F, columns_of(B), backend)
    return f"{operation}: {by_factors.WHY.format(routine)}" if answers else ""


def substitutions(
    A: Matrices, B: Matrices, backend: str | None, first: str, second: str, trans: str, unit: bool = False
) -> Steps:  # fmt: skip
    """Two triangular systems; the lower triangle of LU factors has a unit diagonal."""
    forms = [Triangle("left", uplo, trans, unit and uplo == "lower") for uplo in (first, second)]
    return [("trsm", plan_trsm(A, B, None, backend, form)) for form in forms]


def plan_lstsq(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Least squares by QR."""
    if out is not None:
        raise TypeError("lstsq has no out: leave it out and use the result")
    kind = stacks.common_kind((("a", A), ("b", B)))
    lead = common_lead(("a", "b"), A, columns_of(B))
    a, b = (broadcast(kind, stacked(kind, one), (*lead, *_core(one))) for one in (A, columns_of(B)))
    verify = call.make_verify(kind, A, B, None, ("a", "b"))
    M, N = _core(a)
    if M >= N:
        step = plan_factorization("qr", a, b, None, backend, want="solve")
    else:
        step = plan_factorization("qr", kind.plain(kind.conj(a.swapaxes(-1, -2))), None, None, backend, want="reduced")
    return held("mansard.linalg", "lstsq", [("qr", step)], verify, backend, form)


def columns_of(b: Matrices) -> Matrices:
    """One vector as a matrix of one column."""
    return b[:, None] if is_vector(b) else b


def _core(operand: Matrices) -> tuple[int, ...]:
    return tuple((operand[0] if stacks.is_list(operand) else operand).shape[-2:])
