"""Our entry in a contest of factorizations: called as users do, without waiting for what went wrong."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import mansard as ms

from ...arrays import kinds as arrays
from ...operations.factor.blocked import HOW
from ...operations.factor.plan import by_blocks, plan_factor
from ...operations.factor.task import Task
from ...operations.factor.two_sided.plan import plan_two_sided
from ...operations.factor.two_sided.task import Task as TwoSidedTask
from ...plan.route import Choice
from ..cases import Case
from ..data import Operands
from ..rows import OURS
from .entries import FactorEntry, alone
from .operations import RAGGED, SHORT, SPECTRAL, WANTS

Pairs = list[tuple[Any, Any]]
About = dict[str, Any]


class _Call(NamedTuple):
    """A function of ms.linalg, how a call of it is written, and the parts of its result."""

    name: str
    written: str
    parts: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012  never changed

    @property
    def into(self) -> bool:
        """Whether the call writes its first result into `out`."""
        return "out=" in self.written


_CALLS = {
    "cholesky": _Call("cholesky_ex", "A, out=L", ("F", "INFO")),
    "lu": _Call("lu_factor_ex", "A, out=LU", ("F", "PIVOTS", "INFO")),
    "qr": _Call("qr", "A, mode='raw'", ("H", "TAU"), {"mode": "raw"}),
    "qrq": _Call("qr", "A", ("Q", "F")),
    "solve": _Call("solve_ex", "A, B, out=X", ("X", "INFO")),
    "inverse": _Call("inv_ex", "A, out=X", ("F", "INFO")),
    "determinant": _Call("det", "A", ("F",)),
    "eigh": _Call("eigh_ex", "A", ("W", "Z", "INFO")),
    "eigvalsh": _Call("eigvalsh_ex", "A", ("W", "INFO")),
    "svd": _Call("svd_ex", "A", ("U", "W", "VH", "INFO")),
    "svdvals": _Call("svdvals_ex", "A", ("W", "INFO")),
    "tridiagonalize": _Call("tridiagonalize", "A, compute_q=False", ("D", "E"), {"compute_q": False}),
    "bidiagonalize": _Call("bidiagonalize", "A, compute_uv=False", ("D", "E"), {"compute_uv": False}),
}


def ours(case: Case, pairs: Pairs, operands: Operands, asked: str | None) -> tuple[FactorEntry, About]:
    """Our entry, and configuration, origin and reason of the choice. `asked` is the backend, unless it would be chosen
    anyway."""
    if case.form in HOW:
        return _in_steps(case, pairs, asked)
    call = _CALLS[case.operation]
    options = call.options | ({"backend": asked} if asked else {})
    function = partial(getattr(ms.linalg, call.name), **options) if options else getattr(ms.linalg, call.name)
    given = [tuple(alone(case, one) for one in pair if one is not None) for pair in pairs]
    outs = [operands.empty(case) if call.into else None for _ in pairs]
    places = [alone(case, out) for out in outs]
    spelling = f"ms.linalg.{call.name}({call.written})"
    if call.into:
        entry = FactorEntry(
            OURS, spelling, lambda i: function(*given[i], out=places[i]), _same, case, call.parts, outs[0]
        )
    else:
        entry = FactorEntry(OURS, spelling, lambda i: function(*given[i]), _same, case, call.parts)
    return entry, _about(case, given[0], places[0], asked)


def _about(case: Case, given: tuple[Any, ...], out: Any, asked: str | None) -> About:
    """Configuration, origin and reason of the route that answers the case."""
    if case.form == RAGGED:
        return {"config": {}, "origin": "", "reason": "a kernel for each class of sizes"}
    if case.operation in SPECTRAL:
        task = TwoSidedTask(SHORT.get(case.operation, case.operation))
        planned = plan_two_sided(task, arrays.kind_of(given[0], "A"), given[0], asked)
        return _chosen(planned.choice, planned.choice.family.name)
    wanted = Task(*WANTS[case.operation])
    outs = {} if out is None else {wanted.parts[0]: out}
    A, B = given if len(given) > 1 else (*given, None)
    return _chosen(plan_factor(wanted, arrays.kind_of(A, "A"), A, B, outs, asked).choice, wanted.family)


def _chosen(choice: Choice, family: str) -> About:
    about = {"route": choice.answered_by, "origin": choice.origin, "reason": choice.reason}
    if choice.config is None:
        return {"config": {}, **about}
    return {"family": family, "config": choice.family.space.to_dict(choice.config), **about}


def _in_steps(case: Case, pairs: Pairs, asked: str | None) -> tuple[FactorEntry, About]:
    """A blocked factorization whose steps are named by the case's form."""
    task, steps = Task(*WANTS[case.operation]), HOW[case.form]

    def run(index: int) -> Any:
        A = pairs[index][0]
        return by_blocks(arrays.kind_of(A, "A"), task, asked, A, None, {}, steps)

    about = {"config": {}, "route": "blocks", "origin": "pinned", "reason": str(steps)}
    return FactorEntry(OURS, f"{case.operation}, {case.form}", run, _same, case), about


def _same(result: Any) -> Any:
    return result
