"""Plans of `solve` with `refine=True`: what each step runs, and whether it is predicted to pay.

The prediction counts bytes and operations against the device's ceilings. It knows nothing of latency, which decides on
GPUs below about 128 rows, nor of what a library makes of small matrices.
"""

from __future__ import annotations

from math import prod

from ..arrays.types import Array, Kind, Matrices
from ..backends.base import Backend
from ..backends.select import select
from ..kernels.factor.refinement.spec import NARROW
from ..machine import machine
from ..plan.plan import Plan
from ..plan.problem import ITEMSIZE, Options
from . import run as call
from . import stacks, steps
from .factor import refined
from .factor.hold import plan_factorization, plan_tiny
from .factor.systems import common_lead
from .factor.task import broadcast, stacked
from .factor.tiny import BY_CHOLESKY, BY_LU
from .ragged import Ragged
from .steps import Steps

_SOLVES = 4  # by factors in single precision, for condition numbers to about 1e4 and a thousand rows


def plan_solve(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Systems of linear equations, with or without `refine`."""
    options = dict(form)
    refines = refined.is_asked(options.pop("refine", None))
    plain = steps.plan_solve(A, B, out, backend, options)
    if not refines:
        return plain
    if any(isinstance(one, Ragged) for one in (A, B)):
        raise TypeError("refine=True: a ragged batch is solved size by size and has no plan; plan one of its sizes")
    kind = stacks.common_kind((("a", A), ("b", B), ("out", out)))
    a, b = stacked(kind, A), steps.columns_of(stacked(kind, B))
    lead = common_lead(("a", "b"), a, b)
    view = kind.view(a, "a")
    refined.check_dtype(view.dtype)
    chosen = select(view.device, backend)
    positive = form.get("assume_a") == "pos"
    found: Steps = []
    if chosen.name in ("cuda", "emulated") and 0 not in (*lead, *b.shape[-2:]):
        found = _on_gpu(kind, a, broadcast(kind, b, (*lead, *b.shape[-2:])), backend, positive)
    found.append(("solve, in double precision, of matrices that have not converged", plain))
    preface = _preface(chosen, view.dtype, (prod(lead), int(b.shape[-2]), int(b.shape[-1])), positive)
    verify = call.make_verify(kind, A, B, out, ("a", "b"))
    return steps.held("mansard.linalg", "solve_ex", found, verify, backend, form, preface)


def _on_gpu(kind: Kind, A: Array, B: Array, backend: str | None, positive: bool) -> Steps:
    """Factors and a correction in single precision, and the product of a residual."""
    dtype = kind.view(A, "a").dtype
    low, D = (kind.allocate(tuple(one.shape), NARROW[dtype], one) for one in (A, B))
    family, uplo, task = ("cholesky", "lower", BY_CHOLESKY[True]) if positive else ("lu", "upper", BY_LU[0])
    pivots = None if positive else kind.allocate(tuple(A.shape[:-1]), "int32", A)
    at_once = plan_tiny(kind, task, low, pivots, D, backend) if low.shape[:-2] == D.shape[:-2] else None
    by_factors: Steps = [("corrections in single precision", at_once)] if at_once else [
        (f"corrections in single precision: {name}", plan)
        for name, plan in steps.substitutions(low, D, backend, "lower", uplo, "N", not positive)
    ]  # fmt: skip
    product = steps.plan_gemm(broadcast(kind, A, (*B.shape[:-2], *A.shape[-2:])), B, None, backend, {})
    return [
        ("factors in single precision", plan_factorization(family, low, None, None, backend)), *by_factors,
        ("residuals in double precision", product),
    ]  # fmt: skip


def _preface(chosen: Backend, dtype: str, sizes: tuple[int, int, int], positive: bool) -> str:
    """What refinement does here, and the predicted gain."""
    low, gain = NARROW[dtype], predicted_gain(chosen, dtype, sizes, positive)
    who = "LAPACK, matrix by matrix" if chosen.name not in ("cuda", "emulated") else "kernels; the host waits once"
    return "\n".join([
        f"solve with refine=True: factors in {low}, residuals in {dtype}, by {who}",
        f"steps    up to {_SOLVES} solves by these factors as a rule, 9 at the most, until |r| <= eps (|A| |x| + |b|)",
        f"pays     {'yes' if gain > 1 else 'no'}: {gain:.2f} x the plain call's speed is predicted from bytes and "
        "operations alone; measure both",
    ])  # fmt: skip


def predicted_gain(chosen: Backend, dtype: str, sizes: tuple[int, int, int], positive: bool) -> float:
    """Seconds of the plain call over those with `refine`, at the device's ceilings."""
    count, N, sides = sizes
    ceilings, low = machine.known(chosen.device), NARROW[dtype]
    each = 8 if dtype.startswith("complex") else 2  # operations of a multiplication and an addition
    factors, product = each * N**3 / (6 if positive else 3), each * N * N * sides
    size, fast, slow = ITEMSIZE[dtype], ceilings.flop_rate(low), ceilings.flop_rate(dtype)
    plain = 3 * size * N * N / ceilings.copy_bandwidth + (factors + product) / slow
    moved = 5 * size // 2 + _SOLVES * 3 * size // 2  # rounding and factors; each solve reads factors, each residual A
    refining = moved * N * N / ceilings.copy_bandwidth + factors / fast + _SOLVES * product * (1 / fast + 1 / slow)
    return plain / refining if count * N else 1.0
