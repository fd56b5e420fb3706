"""Vectors and configurations that between them reach every branch of the passes of Krylov solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mansard import testing
from mansard.backends import cpu, cuda, emulated, mailbox
from mansard.kernels.sparse.krylov import emit, space, spec
from mansard.kernels.sparse.krylov.space import Cg, Config, Minres
from mansard.kernels.sparse.krylov.space_cpu import Simd, SimdMinres
from mansard.kernels.sparse.krylov.spec import Lanczos, Phase, Status, Word
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
    (P("float64", 1, "minres"), Minres(32, 1, 1)),
    (P("float64", 1999, "minres"), Minres(64, 2, 2)),
    (P("float32", 1027, "minres"), Minres(128, 2, 1)),
    (P("complex128", 301, "minres"), Minres(32, 2, 2)),
]
ON_CPUS: list[tuple[Problem, Config]] = [
    (P("float64", 1), Simd(1024)), (P("float64", 5003), Simd(1024)), (P("float32", 9001), Simd(2048)),
    (P("complex128", 2500), Simd(1024)), (P("complex64", 1300), Simd()),
    (P("float64", 3, "minres"), SimdMinres()), (P("float64", 4999, "minres"), SimdMinres(1024)),
    (P("complex64", 2001, "minres"), SimdMinres(2048)),
]  # fmt: skip


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.solver}-{problem.dtype}-{problem.ROWS}-{(CASES + ON_CPUS).index(case)}"


class Passes:
    """The passes of one problem on one backend, with their state and mailbox."""

    def __init__(self, problem: Problem, config: Config, backend: str) -> None:
        self.problem, self.where = problem, BACKENDS[backend].backend()  # type: ignore[attr-defined]
        reason = space.illegal(problem, config, self.where.device)
        assert reason is None, reason
        self.launches = {
            phase: self.where.prepare(emit.kernel(problem, config, self.where.device, (int(phase),)))
            for phase in (Phase if problem.solver == "cg" else Lanczos)
        }
        self.xp = testing.array_module(backend)
        self.state = self.xp.full(spec.STATE_BYTES // 8, np.nan)
        self.box = mailbox.take(self.where)
        self.scalars: tuple[float, ...] = (0.0, 0.0) if problem.solver == "cg" else (0.0, 0.0, 0.0, 1.0, 2.0)

    def __call__(self, phase: Phase | Lanczos, *vectors: Any) -> None:
        """Launch a pass on its vectors; None stands for no preconditioner."""
        at = (0 if one is None else _address(one) for one in (*vectors, self.state))
        self.launches[phase]((*at, self.box.address), self.scalars, 0)
        self.where.synchronize()

    def word(self, word: Word) -> float:
        return float(self.state[int(word)])

    def posted(self) -> tuple[Status, float, int]:
        """Status, norm of the residual and iterations, as the host reads them."""
        self.box.posted(0)
        status = Status(self.box.read())
        left, count, _ = self.box.numbers(3)
        return status, left, int(count)

    def change_nothing(self, phases: Sequence[Phase | Lanczos], vectors: Sequence[Any]) -> None:
        """Once the status is not RUNNING, launches leave vectors and results as they are."""
        self.state[int(Word.STATUS)] = Status.DONE
        before, posted = [None if one is None else one.copy() for one in vectors], self.posted()
        for phase in phases:
            self(phase, *vectors)
        for now, then in zip(vectors, before, strict=True):
            assert now is None or bool((now == then).all())
        assert self.posted() == (Status.DONE, *posted[1:])


def exact(problem: Problem, config: Config, backend: str, weighted: bool = False) -> None:
    """Small integers, and factors that are small integers or powers of two: every pass is exact."""
    passes = Passes(problem, config, backend)
    if problem.solver == "minres":
        _exact_minres(passes)
        return
    xp, n = passes.xp, problem.ROWS
    x, r, p, q = (testing.random_matrix(xp, n, 1, problem.dtype, seed, True).ravel() for seed in range(4))
    d = xp.asarray(np.arange(n) % 3 + 1, problem.dtype) if weighted else xp.ones(n, problem.dtype)
    vectors = (x, r, p, q, _words(d.real.copy(), problem) if weighted else None)
    p.fill(np.nan)
    passes(Phase.BEGIN, *vectors)
    rho, left = float(xp.vdot(r, d * r).real), _norm(xp, r)
    assert passes.word(Word.RHO) == rho == passes.word(Word.FIRST)
    assert passes.posted() == (Status.RUNNING if left > 0 else Status.DONE, left, 0)
    passes(Phase.START, *vectors)
    assert bool((p == d * r).all())
    q[:] = d * r  # whose product with p is positive
    if left > 0:
        _exact_step(passes, vectors, d, rho)


def _exact_step(passes: Passes, vectors: tuple[Any, ...], d: Any, rho: float) -> None:
    """An iteration with alpha = 2 and, after it, beta = -4: both are put into the state."""
    x, r, p, q, _ = vectors
    xp, state = passes.xp, passes.state
    passes(Phase.CURVATURE, *vectors)
    curved = float(xp.vdot(p, q).real)
    assert passes.word(Word.CURVED) == curved and passes.word(Word.ALPHA) == rho / curved
    state[int(Word.ALPHA)] = 2.0
    following = r - 2 * q
    passes(Phase.RESIDUAL, *vectors)
    fresh, left = float(xp.vdot(following, d * following).real), _norm(xp, following)
    assert bool((r == following).all()) and passes.posted()[1:] == (left, 1)
    assert passes.word(Word.RHO) == fresh and passes.word(Word.BETA) == fresh / rho
    state[int(Word.BETA)] = -4.0
    x_next, p_next = x + 2 * p, d * r - 4 * p
    passes(Phase.DIRECTION, *vectors)
    assert bool((x == x_next).all()) and bool((p == p_next).all())
    passes.change_nothing((Phase.CURVATURE, Phase.RESIDUAL, Phase.DIRECTION), vectors)


def _exact_minres(passes: Passes) -> None:
    """A column with shift 1 and beta = 2, alpha = 2 in its place, and the update with factors of 2, 3, 4 and 8."""
    problem, xp, state = passes.problem, passes.xp, passes.state
    vectors = [testing.random_matrix(xp, problem.ROWS, 1, problem.dtype, seed, True).ravel() for seed in range(6)]
    x, v, u, v_before, w, w_before = vectors
    v.fill(np.nan)
    passes(Lanczos.SCALE, *vectors)
    assert bool((v == u / 2).all()) and passes.word(Word.STATUS) == Status.RUNNING and passes.word(Word.LEFT) == 2.0
    v *= 2
    state[int(Word.BETA)] = 2.0
    expected = u - v - 2 * v_before
    passes(Lanczos.PROJECT, *vectors)
    assert bool((u == expected).all()) and passes.word(Word.ALPHA) == float(xp.vdot(v, u).real)
    state[int(Word.ALPHA)] = 2.0
    expected = u - 2 * v
    passes(Lanczos.NORM, *vectors)
    beta = _norm(xp, expected)
    left = 2.0 * beta / np.hypot(2.0, beta)  # gamma = alpha: there was no rotation before
    assert bool((u == expected).all()) and passes.word(Word.BETA) == beta
    status, found, count = passes.posted()
    assert abs(found - left) <= 1e-14 * left and count == 1 and (status == Status.RUNNING) == (beta > 0)
    for word, factor in ((Word.OF_W, 2.0), (Word.OF_W_BEFORE, 3.0), (Word.OF_X, 4.0), (Word.OF_U, 8.0)):
        state[int(word)] = factor
    w_next = v + 3 * w_before + 2 * w
    x_next, u_next = x + 4 * w_next, 8 * u
    passes(Lanczos.UPDATE, *vectors)
    for now, then in ((w_before, w_next), (x, x_next), (u, u_next)):
        assert bool((now == then).all())
    passes.change_nothing((Lanczos.PROJECT, Lanczos.NORM, Lanczos.UPDATE), vectors)


def _norm(xp: Any, vector: Any) -> float:
    return float(np.sqrt(float(xp.vdot(vector, vector).real)))


def _words(d: Any, problem: Problem) -> Any:
    return d.repeat(2) if problem.is_complex else d


def _address(array: Any) -> int:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data.ptr)
