"""From a batch to its factorization: the plan, and its execution by one kernel, by blocks and products, or by a
library, as dispatch decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind
from ...backends.select import select
from ...errors import LaunchError
from ...plan import dispatch, pin
from ...plan.libraries import AFTER_FACTORS
from ...plan.route import Choice, Nothing, Request
from ...plan.route import Kernel as KernelRoute
from ...plan.route import Steps as StepsRoute
from .. import stacks
from ..batched.triangular_call import Triangle, solve
from ..plans import PLANS
from ..stacks import Operand
from .blocked import HOW, Blocked, Steps
from .by_library import by_library, quick_by_lapack, quick_on_gpu
from .columns import column
from .kernel import KernelRun, Quick, family_of, is_readable
from .places import checked, deliver, indirect, overlaps
from .quick import keep_quick, quick_key
from .swaps import BEYOND
from .task import NUMBERS, Found, Sizes, Task, copied, dtype_of, identity, stacked, zeros
from .wide import MODES, qr_of_wide

Way = Callable[[Array, Array, Found], Found]  # (A, B, outs) -> the parts; those in `outs` have been written
QuickMaker = Callable[[bool], Quick]  # of a fast path; True: for vectors in the place of B

_get = PLANS.get


class FactorPlan(NamedTuple):
    """How the parts are computed, who decided that, and the kernel where there is one."""

    run: Way
    choice: Choice
    kernel: KernelRun | None = None
    lapack: QuickMaker | None = None  # makes the fast path of a library, for stacks

    def quick(self, placed: bool, vectors: bool = False) -> Quick | None:
        """The path of every later call, without questions; None where every call has to be looked at closely."""
        if self.lapack is not None:
            return self.lapack(vectors)
        return self.kernel.quick(placed, vectors) if self.kernel is not None and self.run is self.kernel else None

    @property
    def is_direct(self) -> bool:
        """Whether all of it is one launch on the operands' own memory."""
        kernel = self.kernel
        return kernel is not None and self.run is kernel and not (kernel.addressed or any(kernel.copies.values()))


def factor(
    task: Task, kind: Kind, A: Array, B: Array = None, outs: Found | None = None, backend: str | None = None,
    whole: bool = False,
) -> Found:  # fmt: skip
    """The parts of the task's result, by a plan made before where there is one. A and B are stacks, or lists, with the
    same leading dimensions; `outs` holds places for parts. Parts of lists are stacks. `whole`: not by blocks."""
    outs = outs or {}
    plan = planned(task, kind, A, B, outs, backend, whole)
    if outs and overlaps(kind, A, B, outs):
        return deliver(factor(task, kind, A, B, None, backend, whole), outs)
    if not whole:  # blocks of a larger matrix come by `factor` again
        _remember(task, kind, A, B, outs, backend, plan)
    return plan.run(A, B, outs)


def remember_vectors(task: Task, backend: str | None, A: Array, b: Array, out: Array) -> None:
    """After a call with vectors as matrices of one column: the next one is quick without them. To make these takes as
    long as half of what else such a call does."""
    kind = arrays.known_kind(A)
    if kind is None or type(b) is not type(A) or (out is not None and type(out) is not type(A)) or pin.pins():
        return
    columns, place = b[..., None], None if out is None else out[..., None]
    outs = () if out is None else ((task.parts[0], stacks.signature(kind, place)),)
    signatures = (stacks.signature(kind, A), stacks.signature(kind, columns))
    plan: Any = _get((task, kind, *signatures, outs, backend, False))
    was_quick = _get(quick_key(task, backend, kind, A, columns, place)) is not None
    if plan is not None and was_quick:
        run = plan.quick(out is not None, vectors=True)
        if run is not None:
            keep_quick(quick_key(task, backend, kind, A, b, out), kind, run, out is not None)


def _remember(task: Task, kind: Kind, A: Array, B: Array, outs: Found, backend: str | None, plan: FactorPlan) -> None:
    if (plan.kernel is None and plan.lapack is None) or pin.pins() or set(outs) - {task.parts[0]}:
        return
    place = outs.get(task.parts[0])
    if any(stacks.is_list(one) for one in (A, B, place)):
        return
    key = quick_key(task, backend, kind, A, B, place)
    run = plan.quick(bool(outs)) if _get(key) is None else None
    if run is not None:
        keep_quick(key, kind, run, bool(outs))


def planned(task: Task, kind: Kind, A: Array, B: Array, outs: Found, backend: str | None, whole: bool) -> FactorPlan:
    """The plan made before, or a new one; under pins nothing is remembered."""
    places = tuple((part, stacks.signature(kind, one)) for part, one in outs.items())
    key = (task, kind, stacks.signature(kind, A), stacks.signature(kind, B), places, backend, whole)
    plan: FactorPlan | None = None if pin.pins() else _get(key)
    if plan is None:
        plan = plan_factor(task, kind, A, B, outs, backend, whole)
        PLANS.keep(key, plan)
    return plan


def plan_factor(
    task: Task, kind: Kind, A: Array, B: Array, outs: Found, backend: str | None, whole: bool = False
) -> FactorPlan:  # fmt: skip
    """A plan. Nothing is written before the places have been checked."""
    a = stacks.operand_of(kind, A, "a")
    given = {"A": a} | ({} if B is None else {"B": stacks.operand_of(kind, B, "b")})
    count = outs["PIVOTS"].shape[-1] if task.want == "swap" else 0
    sizes = Sizes(a.rows, a.columns, given["B"].columns if B is not None else count)
    chosen = select(a.view.device, backend)
    places = checked(kind, task, sizes, a, outs)
    if 0 in (*a.shape, *_wanted(task, sizes)):
        nothing = Choice(family_of(task.family), Nothing("a size is zero: nothing to compute"), "empty")
        return FactorPlan(partial(_nothing, kind, task, sizes, a), nothing)
    direct = all(is_readable(one, chosen.name) for one in places.values())
    run = KernelRun(kind, task, sizes, given, places if direct else {}, chosen)
    request = Request.of(
        chosen, task.family, may_hand_over=backend is None and not whole, may_divide=not whole,
        spares_compiling=backend is None and (not whole or task.want == "swap"),
    )  # fmt: skip
    choice = dispatch.decide(run.problem, request)
    if isinstance(choice.route, KernelRoute):
        run.prepare(choice)
        return FactorPlan(run if direct else partial(indirect, run), choice, run)
    if not isinstance(choice.route, StepsRoute):
        on_cpu, listed = a.view.device[0] == "cpu", stacks.is_list(A) or stacks.is_list(B)
        by_factors = task.want in NUMBERS and not on_cpu
        way = partial(_determinants, kind, task, backend, a) if by_factors else partial(by_library, kind, task, a)
        quick = partial(quick_by_lapack, kind, task, a) if on_cpu else partial(quick_on_gpu, way, task.parts)
        return FactorPlan(way, choice, lapack=None if listed else quick)
    if choice.route.name != AFTER_FACTORS:
        return FactorPlan(partial(by_blocks, kind, task, backend), choice)
    at_once = None
    if task.want == "solve" and chosen.device.backend != "cpu":
        tiny = task._replace(family="systems", want=_TINY[task.family])
        at_once = KernelRun(kind, tiny, sizes, given, places if direct else {}, chosen)
        found = dispatch.decide(at_once.problem, replace(request, operation="systems"))
    if at_once is None or not isinstance(found.route, KernelRoute):
        return FactorPlan(partial(_followed, kind, task, backend), choice)
    reason = f"{choice.reason}, unless matrices are tiny; {found.reason}"
    found = replace(found, route=replace(found.route, reason=reason))
    at_once.prepare(found)
    return FactorPlan(at_once if direct else partial(indirect, at_once), found, at_once)


# Systems with more right-hand sides than a kernel of their factorization takes, by what `systems` calls them: of tiny
# matrices one launch factors and solves.
_TINY = {"lu": "solve", "cholesky": "positive"}


def _wanted(task: Task, sizes: Sizes) -> tuple[int, ...]:
    return sizes if task.want in ("solve", "swap") else sizes[:2]


# ---- nothing to do ----------------------------------------------------------------------------------------


def _nothing(kind: Kind, task: Task, sizes: Sizes, a: Operand, A: Array, B: Array, outs: Found) -> Found:
    """Parts of empty problems: a matrix without entries has determinant one, and no equations are solved by zeros."""
    like, found = A[0] if stacks.is_list(A) else A, {}
    for part in task.parts:
        shape, dtype = (*a.shape, *sizes.shape(task, part)), dtype_of(task, part, a.view.dtype)
        make = identity if part == "Q" else zeros
        found[part] = make(kind, shape, dtype, like)
        if part == "F" and task.want in NUMBERS:
            found[part][...] = 1
    return deliver(found, outs)


def as_numpy(array: Array) -> Array:
    """A NumPy array in the memory of a CPU array; a copy of what is lazily conjugated."""
    return arrays.kind_of(array, "a").download(array)


# ---- blocks and factors -----------------------------------------------------------------------------------


def blocked(kind: Kind, backend: str | None, steps: Steps = HOW["recursive"]) -> Blocked:
    """Blocked factorizations whose blocks are done by kernels."""

    def leaf(task: Task, block: Array, source: Array) -> Found:
        return factor(task, kind, source, None, {"F": block}, backend, whole=True)

    def takes(task: Task, block: Array) -> bool:
        return planned(task, kind, block, None, {"F": block}, backend, True).kernel is not None

    swap = partial(swapped, kind, backend)
    if steps.single:
        return Blocked(kind, backend, partial(column, kind), lambda task, block: True, swap, steps)
    return Blocked(kind, backend, leaf, takes, swap, steps)


def swapped(kind: Kind, backend: str | None, pivots: Array, place: Array, source: Array = None) -> bool:
    """Whether a kernel exchanged rows of `place`, in place or from a `source` of the same shape, as pivots with
    the same leading dimensions say."""
    outs, source = {"F": place, "PIVOTS": pivots}, place if source is None else source
    plan = planned(SWAP, kind, source, None, outs, backend, True)
    if plan.kernel is not None:
        try:
            plan.run(source, None, outs)
        except LaunchError as error:
            raise (ValueError(BEYOND) if plan.kernel.backend.name == "cpu" else error) from error
    return plan.kernel is not None


SWAP = Task("lu", "swap")


def staged(task: Task, A: Array, how: str | Steps, backend: str | None = None) -> Found:
    """A blocked factorization by the named steps, to be compared with others."""
    steps = HOW[how] if isinstance(how, str) else how
    return by_blocks(arrays.kind_of(A, "A"), task, backend, A, None, {}, steps)


def by_blocks(
    kind: Kind, task: Task, backend: str | None, A: Array, B: Array, outs: Found, steps: Steps = HOW["recursive"]
) -> Found:
    """The parts by blocked algorithms, in the place of the result or, for some of them, on a copy of A."""
    A = stacked(kind, A)
    if task.family == "qr" and steps is HOW["recursive"] and task.want in MODES and A.shape[-2] < A.shape[-1]:
        found = qr_of_wide(planned, kind, task, backend, A)
        if found is not None:
            return deliver(found, outs)
    work, how = _work(kind, task, A, outs), blocked(kind, backend, steps)
    source = None if work is A else A
    if task.family == "cholesky":
        return deliver({"INFO": how.cholesky(work, source, task.upper), "F": work}, outs)
    if task.family == "lu":
        pivots, info = how.lu(work, source, task.pivot)
        return deliver({"F": work, "PIVOTS": pivots, "INFO": info}, outs)
    tau = how.qr(work)
    if task.want == "raw":
        return deliver({"F": work, "TAU": tau}, outs)
    M, N = work.shape[-2:]
    K = min(M, N)
    if task.want == "solve":
        X = copied(kind, how.q_adjoint(work, tau, stacked(kind, B))[..., :N, :])
        solve(work[..., :N, :], X, X, 1.0, backend, Triangle("left", "upper"))
        return deliver({"X": X}, outs)
    R = kind.triangle(work if task.want == "complete" else work[..., :K, :], False)
    if task.want == "r":
        return deliver({"F": R}, outs)
    return deliver({"Q": how.q(work, tau, M if task.want == "complete" else K), "F": R}, outs)


def _work(kind: Kind, task: Task, A: Array, outs: Found) -> Array:
    """Where a blocked factorization happens: the place of F if that is one array. QR finds A there."""
    place = outs.get("F")
    if place is None or stacks.is_list(place) or task.want not in ("factor", "raw"):
        if task.family != "qr":
            return kind.allocate(tuple(A.shape), kind.view(A, "a").dtype, A)
        if task.want != "raw":
            return copied(kind, A)
        turned = kind.allocate((*A.shape[:-2], A.shape[-1], A.shape[-2]), kind.view(A, "a").dtype, A)
        place = turned.swapaxes(-1, -2)
    if task.family == "qr" and place is not A:
        place[...] = A
    return place


def _determinants(
    kind: Kind, task: Task, backend: str | None, a: Operand, A: Array, B: Array, outs: Found
) -> Found:  # fmt: skip
    """Determinants from factors of the array library."""
    from .systems import determinants

    made = by_library(kind, task._replace(want="factor"), a, A, None, {})
    return deliver(determinants(kind, task, made, backend), outs)


def _followed(kind: Kind, task: Task, backend: str | None, A: Array, B: Array, outs: Found) -> Found:
    """The parts that follow from the factors: triangular solves, products of diagonals."""
    from .systems import cholesky_solve, determinants, lu_solve

    A, B = stacked(kind, A), None if B is None else stacked(kind, B)
    if task.family == "cholesky":
        made = factor(task._replace(want="factor"), kind, A, None, None, backend)
        X = cholesky_solve(kind, made["F"], not task.upper, B, None, backend)
        return deliver({"X": X, "INFO": made["INFO"]}, outs)
    made = factor(task._replace(want="factor"), kind, A, None, None, backend)
    if task.want in NUMBERS:
        return deliver(determinants(kind, task, made, backend), outs)
    part = "X" if task.want == "solve" else "F"
    B = B if task.want == "solve" else identity(kind, tuple(A.shape), kind.view(A, "a").dtype, A)
    X = lu_solve(kind, made["F"], made["PIVOTS"], B, 0, None, backend)
    return deliver({part: X, "INFO": made["INFO"]}, outs)
