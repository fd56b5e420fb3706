"""QR of matrices with more columns than rows: one kernel for the leading square, one product for the other columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.types import Array, Kind
from ...plan import pin
from ..batched.gemm_call import Form, multiply
from .kernel import KernelRun, Quick
from .quick import keep_quick, quick_key
from .task import Found, Task

MODES = ("r", "reduced", "complete")  # of qr: those that give R itself
_LEADING, _ADJOINT = Task("qr", "reduced"), Form(True, True)
Planned = Callable[..., Any]  # `plan.planned`: a FactorPlan


def qr_of_wide(planned: Planned, kind: Kind, task: Task, backend: str | None, A: Array) -> Found | None:
    """Q and R = [R_1, Q^H A_2] of A = [A_1, A_2]; None where the square A_1 is too large for one kernel."""
    M = A.shape[-2]
    R = kind.allocate(tuple(A.shape), kind.view(A, "a").dtype, A)
    square, outs = A[..., :M], {"F": R[..., :M]}
    plan = planned(_LEADING, kind, square, None, outs, backend, True)
    if plan.kernel is None:
        return None
    Q = plan.run(square, None, outs)["Q"]
    multiply(Q, A[..., M:], R[..., M:], 1.0, 0.0, backend, _ADJOINT)
    if plan.is_direct and not pin.pins():
        run = _later(plan.kernel, tuple(A.shape), backend, task.want != "r")
        keep_quick(quick_key(task, backend, kind, A, None, None), kind, run, False)
    return {"F": R} if task.want == "r" else {"Q": Q, "F": R}


def _later(kernel: KernelRun, shape: tuple[int, ...], backend: str | None, gives_q: bool) -> Quick:
    """The kernel and the product, for stacks whose description is known."""
    kind, launch, address, stream, M = kernel.kind, kernel.launch, kernel.kind.address, kernel.stream, shape[-2]
    make_q, make_r = kernel.maker("Q"), kind.allocator(shape, kernel.dtype, kernel.dtype)

    def run(A: Array, B: Array, out: Array) -> list[Array]:
        Q, R = make_q(A), make_r(A)
        launch((address(A), address(R), 0, address(Q), 0, 0), (), stream())
        multiply(Q, A[..., M:], R[..., M:], 1.0, 0.0, backend, _ADJOINT)
        return [Q, R] if gives_q else [R]

    return run
