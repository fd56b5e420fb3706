"""How a case is called: our entry in the contest, for every operation and mode, and what is known about the choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mansard as ms

from .. import settings
from ..errors import IllegalConfig
from ..kernels import names as families
from ..operations.batched.gemm_call import plan_gemm
from ..operations.batched.triangular_call import Triangle, plan_trsm
from ..plan import dispatch
from .batched.operations import BATCHED
from .cases import Case
from .data import Operands
from .declared import contest as declared
from .declared.operations import DECLARED
from .entries import Entry
from .factor import calls as factor_calls
from .factor.operations import FACTORS
from .operations import ORTHOGONAL
from .random import calls as random_calls
from .random.operations import DRAWN
from .rows import OURS
from .sparse import calls as sparse_calls
from .sparse.operations import SPARSE

Pairs = list[tuple[Any, Any]]
About = dict[str, Any]


def ours(case: Case, pairs: Pairs, operands: Operands, backend: Any) -> tuple[Entry, About]:
    """Our entry, and configuration, origin and reason of the choice."""
    asked = None if backend.name == "cuda" else backend.name  # on the CPU three backends could answer
    if case.operation == "matmul":
        return _matmul(case, pairs, operands, asked)
    if case.operation == "gemm":
        return _batched(case, pairs, operands, backend)
    if case.operation in BATCHED:
        return _routine(case, pairs, operands, backend)
    if case.operation in FACTORS:
        return factor_calls.ours(case, pairs, operands, _unless_chosen(backend))
    if case.operation in SPARSE:
        return sparse_calls.ours(case, pairs), {}
    if case.operation in DRAWN:
        outs = [operands.empty(case) for _ in pairs]
        return random_calls.ours(case.drawn, pairs, outs, _unless_chosen(backend))
    if case.operation in DECLARED:
        return _declared(case, pairs, operands, _unless_chosen(backend))
    if case.operation in ORTHOGONAL:
        return _orthogonal(case, pairs, operands, backend, asked)

    # results of captured calls need memory that outlives the capture; tall ones are not made anew every time
    into = case.operation != "gram" or case.mode == "graph"
    outs = [operands.empty(case) if into else None for _ in pairs]
    with ms.pin(**dict(case.pins)):
        given: dict[str, Any] = {"out": outs[0], "backend": asked}
        given |= {"deterministic": case.deterministic} if case.operation == "gram" else {}
        plan = ms.plan(case.operation, *pairs[0], **given)
    about = _about(plan.choice)
    if case.mode == "eager":
        name, call = ("ms.gram", ms.gram) if case.operation == "gram" else ("ms.matmul", ms.matmul)
        return _entry(f"{name}(A, B{', out=C' if into else ''})", _asking(call, asked), pairs, outs), about
    run, spelling = plan.run, f"plan(A, B{', out' if into else ''})"
    return Entry(OURS, spelling, lambda index: run(*pairs[index], outs[index]), _same), about


def _entry(spelling: str, call: Callable[..., Any], pairs: Pairs, outs: list[Any]) -> Entry:
    """Entry that calls a public function as its users do."""
    if outs[0] is None:
        return Entry(OURS, spelling, lambda index: call(*pairs[index]), _same)
    return Entry(OURS, spelling, lambda index: call(*pairs[index], out=outs[index]), _same)


def _matmul(case: Case, pairs: Pairs, operands: Operands, asked: str | None) -> tuple[Entry, About]:
    outs = [operands.empty(case) for _ in pairs]
    entry = _entry("ms.matmul(A, B, out=C)", _asking(ms.matmul, asked), pairs, outs)
    (A, B), family = pairs[0], answering(*pairs[0], outs[0], asked)
    if family == "vendor":
        return entry, {"family": family, "config": {}, "route": "library", "origin": "rule",
                       "reason": "no family is made for this shape"}  # fmt: skip
    with_out = {"out": outs[0], "backend": asked}
    plan = ms.plan(family, A.T, B, conj=False, **with_out) if family == "gram" else ms.plan(family, A, B, **with_out)
    return entry, {"family": family if plan.choice.config else "vendor", **_about(plan.choice)}


def _batched(case: Case, pairs: Pairs, operands: Operands, backend: Any) -> tuple[Entry, About]:
    """Our entry for stacks of products, called as `ms.matmul` does, which leaves wide ones to the array library. The
    backend is named only if it would not be chosen anyway: a named backend keeps wide products."""
    asked = _unless_chosen(backend)
    outs, more = [operands.empty(case) for _ in pairs], {"beta": 1.0} if case.accumulate else {}
    with ms.pin(**dict(case.pins)):
        plan = plan_gemm(*pairs[0], outs[0], asked)
        choice = plan.choice
        if case.accumulate and choice.config is not None:
            choice = dispatch.choose(plan.problem.replace(accumulate=True), backend.device)
    added = ", beta=1" if case.accumulate else ""
    if case.mode == "eager":
        call, spelling = partial(_asking(ms.matmul, asked), **more), f"ms.matmul(A, B, out=C{added})"
        return Entry(OURS, spelling, lambda i: call(*pairs[i], out=outs[i]), _same, outs[0]), _about(choice)
    run = partial(plan.run, **more) if more else plan.run
    return Entry(OURS, f"plan(A, B, out{added})", lambda i: run(*pairs[i], outs[i]), _same, outs[0]), _about(choice)


def _routine(case: Case, pairs: Pairs, operands: Operands, backend: Any) -> tuple[Entry, About]:
    """The other operations on batches, called as their users do."""
    calls: dict[str, tuple[str, Callable[..., Any]]] = {
        "gemv": ("ms.blas.gemv(A, x, out=y)", ms.blas.gemv),
        "trsv": ("ms.blas.trsv(A, b, out=x)", ms.blas.trsv),
        "trsm": ("ms.blas.trsm(A, B, out=X)", ms.blas.trsm),
        "ragged": ("ms.matmul(A, B, out=C)", ms.matmul),
    }
    spelling, call = calls[case.operation]
    asked, options = _unless_chosen(backend), {}
    if case.operation != "ragged":
        options = {"trans": case.form or "N"} if case.operation == "gemv" else {"uplo": case.form or "L"}
    outs, run = [operands.empty(case) for _ in pairs], partial(_asking(call, asked), **options)
    about: About = {"config": {}, "origin": "", "reason": "a kernel for each class of sizes"}
    if case.operation == "trsm":  # which may be blocks and products
        form = Triangle(uplo="upper" if case.form == "U" else "lower")
        about = _about(plan_trsm(*pairs[0], outs[0], asked, form).choice)
    elif case.problems():
        about = _about(dispatch.choose(case.problem(), backend.device))
    if case.pins:  # a pinned call would be planned anew every time
        with ms.pin(**dict(case.pins)):
            planned: dict[str, Any] = options | {"out": outs[0]} | ({"backend": asked} if asked else {})
            plan = ms.plan(case.operation, *pairs[0], **planned)
        entry = Entry(OURS, "plan(A, x, out)", lambda i: plan.run(*pairs[i], outs[i]), _same, outs[0])
        return entry, _about(plan.choice)
    given = "".join(f", {name}={value!r}" for name, value in options.items() if case.form)
    return Entry(OURS, spelling[:-1] + given + ")", lambda i: run(*pairs[i], out=outs[i]), _same, outs[0]), about


def _unless_chosen(backend: Any) -> str | None:
    """Name of the backend; None if it would be chosen anyway."""
    return None if backend.name in ("cuda", settings.current().backend) else str(backend.name)


def answering(A: Any, B: Any, out: Any, asked: str | None) -> str:
    """The family that `ms.matmul` asks: whichever refuses a variant that none of them has."""
    try:
        with ms.pin(VARIANT="none"):
            ms.matmul(A, B, out=out, backend=asked)
    except IllegalConfig as error:
        name = str(error).partition(":")[0]
        if name not in families():
            raise
        return name
    return "vendor"


def _orthogonal(case: Case, pairs: Pairs, operands: Operands, backend: Any, asked: str | None) -> tuple[Entry, About]:
    about: About = {"config": {}, "route": "library", "origin": "rule", "reason": "two passes: no fused kernel here"}
    if backend.name in ("cuda", "emulated"):
        about = _about(dispatch.choose(case.problem(), backend.device))
    calls: dict[str, tuple[str, Callable[..., Any]]] = {
        "matmul_gram": ("ms.matmul_gram(V, S, out=W)", ms.matmul_gram),
        "project": ("ms.project(V, W, out=P)", ms.project),
        "cholesky_qr": ("ms.cholesky_qr(V, out=Q)", lambda V, S, **given: ms.cholesky_qr(V, **given)),
    }
    spelling, call = calls[case.operation]
    return _entry(spelling, _asking(call, asked), pairs, [operands.empty(case) for _ in pairs]), about


def _declared(case: Case, pairs: Pairs, operands: Operands, asked: str | None) -> tuple[Entry, About]:
    into = DECLARED[case.operation].into
    outs = [operands.empty(case) if into else None for _ in pairs]
    spelling, run, choice = declared.ours(case, pairs, outs, asked)
    return Entry(OURS, spelling, run, _same, outs[0]), _about(choice)


def _asking(call: Callable[..., Any], asked: str | None) -> Callable[..., Any]:
    """On a GPU the function as it is: an argument more would cost."""
    return partial(call, backend=asked) if asked else call


def _about(choice: Any) -> About:
    values = choice.family.space.to_dict(choice.config) if choice.config else {}
    return {"config": values, "route": choice.answered_by, "origin": choice.origin, "reason": choice.reason}


def _same(result: Any) -> Any:
    return result
