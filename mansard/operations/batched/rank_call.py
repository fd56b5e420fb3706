"""From batches of rank-k updates to a plan: validation, the problem, and who computes the triangle."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays import kinds as arrays
from ...arrays.types import Kind, Matrices
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...codegen.geometry import Kernel
from ...kernels.batched import rank_k
from ...plan import dispatch
from ...plan.plan import Plan
from ...plan.problem import DTYPES, Options, Problem
from ...plan.route import OWN_ROUTINE, Choice, Library, Nothing, Request
from .. import operation, stacks
from .. import run as call
from ..batch_checks import check_dtypes, check_out, is_empty_list
from ..operation import Operation
from ..stacks import Batch, Operand
from . import rank_blas
from .interleaved_calls import also_interleaved
from .rank_products import Update, by_products, is_straight
from .rank_run import UpdateRun

Given = list[tuple[str, Operand]]


def update(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Update
) -> Matrices:
    """The update of stacks, matrices and lists; `B` is None with one factor."""
    return operation.call(RANK_2K if form.two else RANK_K, A, B, out, alpha, beta, backend, form)


def plan_update(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Update) -> Plan:
    """Plan an update. Nothing is written before every argument has been checked."""
    kind = stacks.common_kind([("a", A), ("b", B), ("out", out)])
    if kind is None or is_empty_list(A) or is_empty_list(B):
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    if not stacks.is_list(A) and len(A.shape) == 2 and kind.view(A, "a").dtype not in DTYPES:
        return _plan_of_other_dtypes(kind, A, B, out, backend, form)
    a, b, given = _operands(kind, A, B, out, form)
    shape = stacks.broadcast(a, b, ("a", "b"))
    if out is not None:
        wanted, place = (*shape, a.rows, a.rows), given[-1][1]
        _check_place(kind, A, out, place, wanted)
    chosen = select(arrays.same_device([(name, operand.view) for name, operand in given]), backend)
    copies = _copies(a, b, None if out is None else given[-1][1])
    read = [one.copied() if copied else one for one, copied in zip((a, b), copies, strict=False)]
    c = stacks.result_of(a, a._replace(columns=a.rows), shape) if out is None or copies[2] else given[-1][1]
    batch = stacks.batch_of(read[0], read[1], c, shape)
    problem = _problem(batch, form, out is not None and not copies[2])
    launch, choice, kernel = _prepare(problem, batch, chosen, backend is None)
    places = (a, b) if out is None else (a, b, given[-1][1])
    run = UpdateRun(kind, problem, chosen, batch, launch, form, copies, places)
    run.product = _product(run, choice, A, B, backend)
    fast = call.counted(kind, out, run.fast)
    verify = call.make_verify(kind, A, B, out, ("a", "b"))
    return Plan(problem, choice, chosen, kernel, fast, verify, launch, run.fast != run.general)


def _product(
    run: UpdateRun, choice: Choice, A: Matrices, B: Matrices, backend: str | None
) -> Callable[..., Matrices]:  # fmt: skip
    """The update by BLAS, which computes one triangle, where that is faster, or else by a product."""
    kind, form, (a, b) = run.kind, run.form, run.given[:2]
    by_library = run.launch is None and isinstance(choice.route, Library)
    straight = by_library and is_straight(kind, A, B, form, backend)
    product = by_products(kind, form, backend, straight)
    if not by_library or backend is not None or not rank_blas.pays(run.problem, (a.shape, b.shape)):
        return product
    if straight:
        return rank_blas.by_blas(kind, form, run.problem.dtype, product)
    through = a.view.device[0] == "cpu" and not (kind.on_host_alone or a.listed or a.shape)
    return rank_blas.through_numpy(kind, form, run.problem.dtype, product) if through else product


def _plan_of_other_dtypes(
    kind: Kind, A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Update
) -> Plan:  # fmt: skip
    """Single matrices of integers, say: by `matmul`, which leaves them to the array library or refuses them."""
    view = kind.view(A, "a")
    rows, columns = view.shape[::-1] if form.transposed else view.shape
    problem = rank_k.spec.problem(view.dtype, rows, columns, 1, two=form.two)
    choice = Choice(rank_k.FAMILY, Library(OWN_ROUTINE, f"no kernel multiplies {view.dtype} matrices"), "rule")
    chosen = select(view.device, backend)
    run, verify = by_products(kind, form, backend), call.make_verify(kind, A, B, out, ("a", "b"))
    return Plan(problem, choice, chosen, None, call.counted(kind, out, run), verify)


def _operands(
    kind: Kind, A: Matrices, B: Matrices, out: Matrices, form: Update
) -> tuple[Operand, Operand, Given]:  # fmt: skip
    """A and B as N x K matrices, and everything that was given by its name, checked."""
    a = stacks.operand_of(kind, A, "a", form.transposed)
    b = stacks.operand_of(kind, B, "b", form.transposed) if form.two else a
    given = [("a", a), *((("b", b),) if form.two else ())]
    if (a.rows, a.columns, a.listed) != (b.rows, b.columns, b.listed):
        raise ValueError(f"a has shape {a.view.shape} and b {b.view.shape}: both need the same matrices")
    given += [("out", stacks.operand_of(kind, out, "out"))] if out is not None else []
    check_dtypes(given)
    return a, b, given


def _check_place(kind: Kind, A: Matrices, out: Matrices, place: Operand, wanted: tuple[int, ...]) -> None:
    if stacks.is_list(A) != stacks.is_list(out):
        found, given = (f"a list of {len(x)} arrays" if stacks.is_list(x) else "an array" for x in (out, A))
        raise ValueError(f"out is {found} and a {given}: one for each is needed")
    check_out(kind, out, place, (*place.shape, place.rows, place.columns) == wanted, wanted)


def _copies(a: Operand, b: Operand, out: Operand | None) -> tuple[bool, bool, bool]:
    """Which operands a kernel cannot read (write) as they are: lists whose arrays differ in their strides, and factors
    of which one is lazily conjugated."""
    differ = a.view.conjugated != b.view.conjugated
    return not a.uniform or differ, not b.uniform or differ, out is not None and not out.uniform


def _problem(batch: Batch, form: Update, placed: bool) -> Problem:
    a, traits = batch.operands[0], Options()
    for side, operand, stack in zip("abc", batch.operands, stacks.stacks_of(batch), strict=True):
        layout, pitch = operand.layout
        traits |= {f"layout_{side}": layout, f"stack_{side}": stack}
        traits[f"pitch_{side}"] = None if layout == "any" else pitch
    conjugated, adjoint = a.view.conjugated, form.hermitian
    return rank_k.spec.problem(
        a.view.dtype, a.rows, a.columns, batch.walk.batch, **traits, aligned=stacks.is_aligned(batch), two=form.two,
        part=("lower" if form.lower else "upper") if placed else "full",
        conj_a=(adjoint and form.transposed) != conjugated, conj_b=(adjoint and not form.transposed) != conjugated,
    )  # fmt: skip


def _prepare(
    problem: Problem, batch: Batch, backend: Backend, is_free: bool
) -> tuple[Launch | None, Choice, Kernel | None]:
    """The launch (None: a product answers), what was chosen and why, and the kernel."""
    if 0 in (*batch.shape, problem.N, problem.K):
        return None, Choice(rank_k.FAMILY, Nothing("nothing to multiply: C = beta C"), "empty"), None
    request = Request.of(backend, "rank_k", may_hand_over=is_free, spares_compiling=is_free)
    choice = dispatch.decide(problem, request)
    return call.prepare(rank_k.emit, problem, backend, batch.strides, choice=choice)


def _shape_of(form: Update, a: tuple[int, int], b: tuple[int, int] | None) -> tuple[int, int]:
    """Of an update of interleaved factors."""
    if b not in (None, a):
        raise ValueError(f"a has matrices of shape {a} and b of {b}: both need the same")
    rows = a[1] if form.transposed else a[0]
    return rows, rows


_INTERLEAVED = also_interleaved(update, _shape_of, fills=False)
RANK_K = Operation("rank_k", plan_update, ("a", ""), special=_INTERLEAVED)
RANK_2K = Operation("rank_2k", plan_update, ("a", "b"), special=_INTERLEAVED)
