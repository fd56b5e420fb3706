"""Our entries in contests of sparse products and powers: the choice of the library, and its alternatives by name, which
take part like peers so that all are sampled in turn."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ...codegen.geometry import Kernel
from ...records.trials import problem_to_dict
from .. import clock as clocks
from ..cases import Case
from ..peers import Peer
from ..rows import OURS
from . import matrices as sparse_matrices
from .data import Given, Matrices, about
from .entries import SparseEntry, Way
from .operations import storage_of

PLAIN, OWN_SPMV, PERMUTED, PLAIN_PERMUTED = (
    f"{OURS} {name}" for name in ("plain", "SpMV", "permuted", "plain permuted")
)
EXECUTIONS = {f"{OURS} groups": ("groups", False), f"{OURS} groups, graph": ("groups", True),
              f"{OURS} persistent": ("persistent", True)}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    f"{OURS} sell int32": {"format": "sell", "index": "int32"},
    f"{OURS} sell delta16": {"format": "sell", "index": "delta16"},
    f"{OURS} ell": {"format": "ell"},
    f"{OURS} csr": {"format": "csr"},
}
INT32, DELTA16, ELL = list(FORMS)[:3]
ONE_THREAD = f"{OURS} one thread"
_CACHED = {"cuda": 20 << 20, "cpu": 1 << 20}  # bytes of a matrix that stays in the cache: of a GPU, of a core
_LOOP = 20


def ours(case: Case, pairs: list[tuple[Any, Any]]) -> SparseEntry:
    """Our entry: Mansard's own choice, or the pinned execution."""
    given, x = pairs[0]
    pins = dict(case.pins)
    if case.operation == "powers":
        way = powers(given, x, case, pins.get("execution"), budget=pins.get("budget"))
        return SparseEntry(OURS, "ms.matrix_powers(A, p)(x, out=V)", way, case, given.facts)
    way = product(given, x, case, **pins)
    problem = given.matrix(**pins).plan(x, way.out).problem  # which the case does not tell
    told = way._replace(facts=way.facts | {"problem": problem_to_dict(problem)})
    return SparseEntry(OURS, "A.product(x, out=y)", told, case, given.facts)


def product(given: Given, x: Any, case: Case, **form: Any) -> Way:
    """Entry of a product with a matrix in this format."""
    A, y = given.matrix(**form), _result(given, x)
    return Way(lambda: A.product(x, out=y), _same, y, _about_product(A, x, y, case))


def _result(given: Given, x: Any) -> Any:
    return given.xp.empty((given.csr.shape[0], *x.shape[1:]), x.dtype)


def _about_product(A: Any, x: Any, y: Any, case: Case) -> dict[str, Any]:
    choice = A.plan(x, y).choice
    values = choice.family.space.to_dict(choice.config) if choice.config else {}
    stored: dict[str, Any] = {"stored": A.format, "columns": A.index}
    if A.format == "sell":
        stored["stored"] += f"-{A.storage.C}-{A.storage.sigma}"
    known = {"config": values, "route": choice.answered_by, "origin": choice.origin, "reason": choice.reason}
    return {"storage": storage_of(A.storage, case.dtype), **stored, **known}


def powers(
    given: Given, x: Any, case: Case, execution: str | None, graph: bool = True,
    budget: int | None = None, order: str = "auto", permuted: bool = False,
) -> Way:  # fmt: skip
    """All powers of x; with `permuted`, x and results in the order in which rows are stored."""
    plan = given.powers(case.inner, execution, order, graph, None if budget is None else budget * float(1 << 20))
    facts = about(plan, case.dtype) | {"preparing": given.ordered(order)[2]}
    out = given.xp.empty((case.inner + 1, plan.n), x.dtype)
    in_order = facts["storage"]["format"] != "csr"  # whose sums of a row may be several lanes'
    if not permuted:
        return Way(lambda: plan(x, out), _same, out, facts, in_order)
    order_of_rows = plan.permutation
    if bool((order_of_rows == given.xp.arange(plan.n)).all()):
        raise ValueError("rows stay where they are: there is nothing to permute")
    inside = given.xp.ascontiguousarray(x[order_of_rows])

    def back(result: Any) -> Any:
        whole = given.xp.empty_like(result)
        whole[:, order_of_rows] = result
        return whole

    return Way(lambda: plan.permuted(inside, out), back, out, facts, in_order)


def repeated(given: Given, x: Any, case: Case) -> Way:
    """The powers by p products with the matrix as the library stores it."""
    A, out = given.matrix(), given.xp.empty((case.inner + 1, x.shape[0]), x.dtype)

    def run() -> Any:
        out[0] = x
        for k in range(case.inner):
            A.product(out[k], out=out[k + 1])
        return out

    return Way(run, _same, out, _about_product(A, x, out[1], case))


class Alternative(Peer):
    """A contender of ours beside the default choice: another format or execution."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def takes_part(self, case: Case) -> bool:
        if self.name in FORMS:
            return case.operation == "spmv" and (case.N == 1 or self.name == f"{OURS} csr")
        if self.name == ONE_THREAD:
            return case.operation == "spmv" and case.N == 1
        return case.operation == "powers"

    def ways(self, case: Case, given: Given, x: Any) -> dict[str, Way]:
        if self.name in FORMS:
            form = FORMS[self.name]
            text = ", ".join(f"{name}={value!r}" for name, value in form.items())
            return {f"ms.sparse.matrix(A, {text}).product(x, out=y)": product(given, x, case, **form)}
        if self.name == ONE_THREAD:
            return {"A.product(x, out=y), one thread": _one_thread(given, x, case)}
        if self.name == OWN_SPMV:
            return {"A.product(V[k], out=V[k + 1])": repeated(given, x, case)}
        return {"ms.matrix_powers(A, p)(x, out=V)": self._powers(case, given, x)}

    def _powers(self, case: Case, given: Given, x: Any) -> Way:
        if self.name == PLAIN:
            return powers(given, x, case, "plain", order="none")
        if self.name in (PERMUTED, PLAIN_PERMUTED):
            if given.ordered("auto")[1].permutation is None:
                raise ValueError("rows stay where they are: there is nothing to permute")
            execution = None if self.name == PERMUTED else "plain"
            return powers(given, x, case, execution, permuted=True)
        execution, graph = EXECUTIONS[self.name]
        return powers(given, x, case, execution, graph)


def alternatives(backend_name: str) -> list[Peer]:
    """Other ways of ours to the same result that a backend can run, as contenders."""
    names = [*FORMS, PLAIN, OWN_SPMV, PERMUTED, PLAIN_PERMUTED, f"{OURS} groups"]
    if backend_name == "cuda":
        names += [f"{OURS} groups, graph", f"{OURS} persistent"]
    names += [ONE_THREAD] if backend_name == "cpu" else []
    return [] if backend_name == "reference" else [Alternative(name) for name in names]


def _one_thread(given: Given, x: Any, case: Case) -> Way:
    """A product whose kernel is told to use one thread."""
    A, y = given.matrix(), _result(given, x)
    plan = A.plan(x, y)
    if plan.kernel is None:
        raise ValueError("there is no kernel to run on one thread")
    kernel = Kernel(plan.kernel.source, plan.kernel.geometry, (*plan.kernel.fixed[:-1], 1))
    run = copy(plan.run)
    run.launch = plan.backend.prepare(kernel)
    return Way(lambda: run(x, None, y), _same, y, _about_product(A, x, y, case))


def in_cache(case: Case, matrices: Matrices, backend: Any, clock: Any) -> tuple[int, Callable[[], float]]:
    """Entries of a small matrix of the same kind, and a sampler of the seconds of a product with it."""
    threads = backend.device.multiprocessors if backend.name == "cpu" else 1
    room = _CACHED.get(backend.name, 1 << 14) * threads
    rows = max(64, room // (12 * case.M + 16))
    csr = sparse_matrices.make(case.form, min(rows, case.K), case.dtype, matrices.xp)
    small = Given(csr, matrices.xp, matrices.asked)
    x = matrices.vectors(small.csr.shape[1], 1, case.dtype)
    way = product(small, x, case)
    if backend.name == "cuda" and way.facts["route"] != "library":  # cuSPARSE is not captured
        launch = clocks.capture_cupy(lambda index: way.run(), _LOOP)
        return small.facts["nnz"], lambda: clock.sample(launch) / _LOOP
    return small.facts["nnz"], lambda: clock.loop(lambda index: way.run(), _LOOP)


def _same(result: Any) -> Any:
    return result if isinstance(result, np.ndarray) or hasattr(result, "get") else np.asarray(result)
