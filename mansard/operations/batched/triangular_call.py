"""From batches of triangular systems to a plan: validation, the problem, and who solves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...codegen.geometry import Kernel
from ...kernels.batched import trsm
from ...kernels.batched.trsm import spec
from ...plan import dispatch
from ...plan.plan import Plan
from ...plan.problem import Options, Problem
from ...plan.route import Choice, Nothing, Request, Steps
from .. import operation, stacks
from .. import run as call
from ..batch_checks import check_dtypes, check_out, is_empty_list
from ..operation import Operation, Special
from ..ragged_lists import special
from ..stacks import Batch, Operand
from .interleaved_calls import also_interleaved, shape_of_right
from .ragged_triangular import solve_ragged
from .triangular_library import by_lapack, by_library, straight
from .triangular_run import Blocked, SolveRun, SplitRun, Way, refuse_singular


class Triangle(NamedTuple):
    """What the system is: op(A) X = alpha B (`left`) or X op(A) = alpha B (`right`)."""

    side: str = "left"
    uplo: str = "lower"
    trans: str = "N"
    unit: bool = False
    invert: bool = False  # invert the diagonal blocks, and multiply by them


Prepared = tuple[Launch | None, Choice, Kernel | None, Way | None]  # or, without a launch, who answers
_PLAIN = Triangle()
_SIDES, _TRIANGLES = {"L": "left", "R": "right"}, {"L": "lower", "U": "upper"}


@lru_cache(maxsize=256)
def triangle(side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N", invert: bool = False) -> Triangle:
    """BLAS's options."""
    given = (("side", side, "LR"), ("uplo", uplo, "LU"), ("trans", trans, "NTC"), ("diag", diag, "NU"))
    for name, value, known in given:
        if value not in tuple(known):
            raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, known))}")
    return Triangle(_SIDES[side], _TRIANGLES[uplo], trans, diag == "U", invert)


def solve(
    A: Matrices,
    B: Matrices,
    out: Matrices,
    alpha: complex,
    backend: str | None,
    form: Triangle = _PLAIN,
    check: bool = False,
) -> Matrices:
    """The solutions for stacks and lists. `check` raises for a zero on a diagonal before anything is written."""
    return operation.call(TRSM_CHECKED if check and not form.unit else TRSM, A, B, out, alpha, 0.0, backend, form)


def _plan_checked(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Triangle) -> Plan:
    """Plan the systems, each run of which looks for zeros on the diagonals first."""
    kind, plan = kind_of(A, B, out), plan_trsm(A, B, out, backend, form)

    def run(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
        refuse_singular(kind, A)
        return plan.run(A, B, out, alpha, beta)

    return replace(plan, run=run)


def solve_vectors(A: Matrices, x: Matrices, out: Matrices, backend: str | None, form: Triangle) -> Matrices:
    """The solutions for vectors (..., n) beside arrays of one known kind."""
    return operation.call(TRSV, A, x, out, 1.0, 0.0, backend, form)


def _plan_vectors(A: Matrices, x: Matrices, out: Matrices, backend: str | None, form: Triangle) -> Plan:
    kind = arrays.common_kind([("a", A), ("x", x)] + ([("out", out)] if out is not None else []))
    kind.view(x, "x")
    return plan_by(A, x[..., None], None if out is None else out[..., None], backend, form, _prepare, vectors=True)


def plan_trsm(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Triangle = _PLAIN) -> Plan:
    """A plan of the systems. Nothing is written before every argument has been checked."""
    return plan_by(A, B, out, backend, form, _prepare)


def plan_by(
    A: Matrices,
    B: Matrices,
    out: Matrices,
    backend: str | None,
    form: Triangle,
    prepare: Callable[..., Prepared],
    vectors: bool = False,
    routine: str = "trsm",
) -> Plan:
    """A plan of triangular matrices with B, in whose place the result may be; `prepare` decides who answers, and
    `routine` is what BLAS calls it."""
    kind = kind_of(A, B, out)
    a, b, given = operands_of(kind, A, B, out, form, "x" if vectors else "b")
    shape = stacks.broadcast(a, b, ("a", "b"))
    if out is not None:
        wanted, place = (*shape, b.rows, b.columns), given[2][1]
        check_out(kind, out, place, (*place.shape, place.rows, place.columns) == wanted, wanted)
    chosen = select(arrays.same_device([(name, operand.view) for name, operand in given]), backend)
    copies = (not a.uniform, not b.uniform or b.view.conjugated, out is not None and not given[2][1].uniform)
    read = [one.copied() if copied else one for one, copied in zip((a, b), copies, strict=False)]
    x = stacks.result_of(b, b, shape) if out is None or copies[2] else given[2][1]
    batch = stacks.batch_of(read[0], read[1], x, shape)
    problem = _problem(batch, form)
    launch, choice, kernel, way = prepare(kind, problem, batch, chosen, backend, form)
    runs = SplitRun if getattr(choice.config, "SPLIT", False) else SolveRun
    run = runs(kind, problem, chosen, batch, launch, form, copies, tuple(one for _, one in given))
    run.way = way
    on_cpu, is_empty = chosen.device.backend == "cpu", 0 in (*shape, problem.N, problem.NRHS)
    own = on_cpu and launch is None and not (vectors or is_empty)
    lying = [one for _, one in given]
    solved = straight(kind, problem.replace(trans=form.trans), lying, shape, routine) if own else None
    fast = run.of_vectors() if vectors else run.fast if solved is None else run.by_library(solved)
    fast = call.counted(kind, out, fast)
    verify = call.make_verify(kind, A, B, out)
    planned = Problem(choice.family.name, problem.dtype, problem.sizes, problem.traits)
    return Plan(planned, choice, chosen, kernel, fast, verify, launch, run.fast != run.general)


def operands_of(
    kind: Kind, A: Matrices, B: Matrices, out: Matrices, form: Triangle, right: str = "b"
) -> tuple[Operand, Operand, list[tuple[str, Operand]]]:  # fmt: skip
    """A and B, and everything that was given by its name, checked; `right` is the name of B."""
    if kind is None or is_empty_list(A) or is_empty_list(B):
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    given = [(name, stacks.operand_of(kind, one, name)) for name, one in (("a", A), (right, B))]
    given += [("out", stacks.operand_of(kind, out, "out"))] if out is not None else []
    _check_operands(given, form.side)
    return given[0][1], given[1][1], given


def _problem(batch: Batch, form: Triangle) -> Problem:
    a, b = batch.operands[:2]
    traits: Options = {"trans": form.trans}
    for side, operand, stack in zip("abx", batch.operands, stacks.stacks_of(batch), strict=True):
        layout, pitch = operand.layout
        traits |= {f"layout_{side}": layout, f"stack_{side}": stack}
        traits[f"pitch_{side}"] = None if layout == "any" else pitch
    if a.view.conjugated:
        traits["trans"] = {"N": "R", "R": "N", "T": "C", "C": "T"}[form.trans]
    return spec.problem(
        a.view.dtype, a.rows, b.columns if form.side == "left" else b.rows, batch.walk.batch, side=form.side,
        uplo=form.uplo, unit=form.unit, aligned=stacks.is_aligned(batch), **traits,
    )  # fmt: skip


def _prepare(
    kind: Kind, problem: Problem, batch: Batch, backend: Backend, asked: str | None, form: Triangle
) -> Prepared:
    """The launch, what was chosen and why, the kernel; or, without a launch, who solves."""
    if 0 in (*batch.shape, problem.N, problem.NRHS):
        return None, Choice(trsm.FAMILY, Nothing("nothing to solve"), "empty"), None, None
    request = Request.of(
        backend, "trsm", may_hand_over=asked is None, spares_compiling=asked is None, inverts=form.invert
    )
    choice = dispatch.decide(problem, request)
    given = problem.replace(trans=form.trans)  # the arrays carry their own conjugation
    if isinstance(choice.route, Steps):
        return None, choice, None, _blocked(kind, given, choice.route.block, asked, form)
    launch, choice, kernel = call.prepare(trsm.emit, problem, backend, batch.strides, choice=choice)
    if launch is not None:
        return launch, choice, kernel, None
    return None, choice, None, by_lapack(given) if request.on_cpu else by_library(given)


def _blocked(kind: Kind, problem: Problem, order: int, asked: str | None, form: Triangle) -> Way:
    plain = form._replace(invert=False)
    of_inverse = Triangle("left", form.uplo, "N", form.unit)
    return Blocked(
        kind, problem, order, asked,
        lambda A, X, alpha: solve(A, X, X, alpha, asked, plain),
        (lambda A, X, alpha: solve(A, X, X, alpha, asked, of_inverse)) if form.invert else None,
    )  # fmt: skip


def kind_of(A: Matrices, B: Matrices, out: Matrices) -> Any:  # Kind | None
    return stacks.common_kind((("a", A), ("b", B), ("out", out)))


def _check_operands(given: Sequence[tuple[str, Operand]], side: str) -> None:
    """One supported dtype, square matrices, and sizes that fit."""
    check_dtypes(given)
    a, b = given[0][1], given[1][1]
    if a.rows != a.columns:
        raise ValueError(f"a has {a.rows} rows and {a.columns} columns: a triangular matrix is square")
    what, size = ("rows", b.rows) if side == "left" else ("columns", b.columns)
    if size != a.rows:
        raise ValueError(f"a has order {a.rows} and b {size} {what}: both need the same number")


def _special(check: bool) -> Special:
    """Who solves ragged and interleaved batches."""

    def views(
        A: Array, B: Array, out: Array, alpha: complex, beta: complex, backend: str | None, form: Triangle
    ) -> Array:
        return solve(A, B, out, alpha, backend, form, check)

    return also_interleaved(views, shape_of_right, special(partial(solve_ragged, solve, check)))


TRSM = Operation("trsm", plan_trsm, ("a", "b"), special=_special(False))
TRSM_CHECKED = Operation("trsm", _plan_checked, ("a", "b"), special=_special(True))
TRSV = Operation("trsv", _plan_vectors, ("a", "x"), lists=False)
