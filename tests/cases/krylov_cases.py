"""Vectors and configurations that between them reach every branch of the passes of Krylov solvers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mansard import testing
from mansard.backends import cpu, cuda, emulated, mailbox
from mansard.kernels.sparse.krylov import emit, space, spec
from mansard.kernels.sparse.krylov.space import Cg, Config
from mansard.kernels.sparse.krylov.space_cpu import Simd
from mansard.kernels.sparse.krylov.spec import Phase, Status
from mansard.plan.problem import Problem

P = spec.problem
BACKENDS = {"cpu": cpu, "cuda": cuda, "emulated": emulated}
CASES: list[tuple[Problem, Config]] = [
    (P("float64", 1), Cg(32, 1, 1)),
    (P("float64", 7), Cg(64, 2, 2)),
    (P("float64", 2003), Cg(64, 2, 2)),
    (P("float64", 4096), Cg(256, 4, 2)),
    (P("float32", 3), Cg(32, 1, 2)),
    (P("float32", 1501), Cg(128, 1, 4)),
    (P("complex128", 601), Cg(96, 2, 2)),
    (P("complex64", 505), Cg(64, 1, 1)),
]
ON_CPUS: list[tuple[Problem, Config]] = [
    (P("float64", 1), Simd(1024)), (P("float64", 5003), Simd(1024)), (P("float32", 9001), Simd(2048)),
    (P("complex128", 2500), Simd(1024)), (P("complex64", 1300), Simd()),
]  # fmt: skip


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.method}-{problem.dtype}-{problem.ROWS}-{(CASES + ON_CPUS).index(case)}"


class Passes:
    """The passes of one problem on one backend, with their state and mailbox."""

    def __init__(self, problem: Problem, config: Config, backend: str) -> None:
        self.problem, self.where = problem, BACKENDS[backend].backend()  # type: ignore[attr-defined]
        reason = space.illegal(problem, config, self.where.device)
        assert reason is None, reason
        self.launches = {
            phase: self.where.prepare(emit.kernel(problem, config, self.where.device, (int(phase),))) for phase in Phase
        }
        self.xp = testing.array_module(backend)
        self.state = self.xp.full(spec.STATE_BYTES // 8, np.nan)
        self.box = mailbox.take(self.where)
        self.thresholds = (0.0, 0.0)

    def __call__(self, phase: Phase, *vectors: Any) -> None:
        """Launch a pass on x, r, p, q and d (None: M = 1)."""
        at = (0 if one is None else _address(one) for one in (*vectors, self.state))
        self.launches[phase]((*at, self.box.address), self.thresholds, 0)
        self.where.synchronize()

    def posted(self) -> tuple[Status, float, int]:
        """Status, norm of the residual and iterations, as the host reads them."""
        self.box.posted(0)
        status = Status(self.box.read())
        left, count, _ = self.box.numbers(3)
        return status, left, int(count)


def exact(problem: Problem, config: Config, backend: str, weighted: bool = False) -> None:
    """Small integers, and a step whose scalars are powers of two: every pass is exact."""
    passes = Passes(problem, config, backend)
    xp, n = passes.xp, problem.ROWS
    x, r, p, q = (testing.random_matrix(xp, n, 1, problem.dtype, seed, True).ravel() for seed in range(4))
    d = xp.asarray(np.arange(n) % 3 + 1, problem.dtype) if weighted else None
    each = None if d is None else _words(d.real.copy(), problem)
    ones = xp.ones(n, problem.dtype) if d is None else d
    p.fill(np.nan)
    passes(Phase.BEGIN, x, r, p, q, each)
    rho = float(xp.vdot(r, ones * r).real)
    left = float(np.sqrt(float(xp.vdot(r, r).real)))
    state = passes.state.get() if backend == "cuda" else passes.state
    assert state[4] == rho == state[7] and state[3] == left and passes.posted() == (
        Status.RUNNING if left > 0 else Status.DONE, left, 0
    )  # fmt: skip
    passes(Phase.START, x, r, p, q, each)
    assert bool((p == ones * r).all())
    q[:] = ones * r  # whose product with p is positive
    _steps(passes, (x, r, p, q, each), ones, rho)


def _steps(passes: Passes, vectors: tuple[Any, ...], ones: Any, rho: float) -> None:
    """An iteration with alpha = 2 and, after it, beta = -4: both are put into the state."""
    x, r, p, q, _ = vectors
    xp, state = passes.xp, passes.state
    curved = float(xp.vdot(p, q).real)
    passes(Phase.CURVATURE, *vectors)
    if not curved:
        return
    assert float(state[8]) == curved and float(state[5]) == rho / curved and float(state[0]) == Status.RUNNING
    state[5] = 2.0
    following = r - 2 * q
    passes(Phase.RESIDUAL, *vectors)
    assert bool((r == following).all())
    fresh = float(xp.vdot(r, ones * r).real)
    left = float(np.sqrt(float(xp.vdot(r, r).real)))
    assert float(state[4]) == fresh and float(state[6]) == fresh / rho and passes.posted()[1:] == (left, 1)
    state[6] = -4.0
    x_next, p_next = x + 2 * p, ones * r - 4 * p
    passes(Phase.DIRECTION, *vectors)
    assert bool((x == x_next).all()) and bool((p == p_next).all())
    state[0] = Status.DONE  # from here on nothing changes
    before = [one.copy() for one in (x, r, p)]
    for phase in (Phase.CURVATURE, Phase.RESIDUAL, Phase.DIRECTION):
        passes(phase, *vectors)
    assert all(bool((now == then).all()) for now, then in zip((x, r, p), before, strict=True))
    assert passes.posted() == (Status.DONE, left, 1)


def _words(d: Any, problem: Problem) -> Any:
    return d.repeat(2) if problem.is_complex else d


def _address(array: Any) -> int:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data.ptr)
