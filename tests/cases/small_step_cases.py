"""Steps planned on the device, and what they must satisfy: S undoes the factor, and what a step promises holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mansard import testing
from mansard.backends import cuda, emulated, mailbox
from mansard.kernels.tall_skinny.sketch import spec as sketch
from mansard.kernels.tall_skinny.small_step import defaults, emit, space, spec
from mansard.kernels.tall_skinny.small_step.space import Block
from mansard.kernels.tall_skinny.small_step.spec import Status
from mansard.operations.tall_skinny import small_factors as small
from mansard.plan.problem import Problem

P = spec.problem
BACKENDS = {"cuda": cuda, "emulated": emulated}

CASES: list[tuple[Problem, Block | None]] = [
    (P("float64", 32), None),
    (P("float64", 5), Block(64)),
    (P("float64", 1), Block(32)),
    (P("float64", 33), Block(96)),
    (P("complex128", 12), None),
    (P("complex128", 7), Block(1024)),
    (P("float32", 17), None),
    (P("complex64", 9), Block(128)),
    (P("float64", 70), None),
    (P("complex128", 13), Block(64)),  # columns do not stay in registers
    (P("float64", 101), None),
]


def case_id(case: tuple[Problem, Any]) -> str:
    return f"{case[0].dtype}-{case[0].N}"


class Outcome(NamedTuple):
    """Of steps, one after the other: what the last of them left."""

    status: Status
    S: Any
    R: Any
    state: Any  # a NumPy array
    gate: int


def steps(problem: Problem, config: Block | None, backend: str, grams: list[Any]) -> Outcome:
    """The kernel on one Gram matrix after the other. S and R begin as NaN."""
    where = BACKENDS[backend].backend()
    config = config or defaults.default(problem, where.device)
    assert config is not None and space.illegal(problem, config, where.device) is None
    launch = where.prepare(emit.kernel(problem, config, where.device))
    xp, n = testing.array_module(backend), problem.N
    S, R = (xp.full((n, n), np.nan, problem.dtype) for _ in range(2))
    state = xp.full(spec.state_bytes(problem) // 8, np.nan)
    box, at = mailbox.take(where), (lambda array: array.data.ptr if backend == "cuda" else array.ctypes.data)
    for count, gram in enumerate(grams):
        G = xp.ascontiguousarray(xp.asarray(gram, problem.dtype))
        launch((at(G), at(S), at(R), at(state), box.address), small.rules(problem.dtype, count), 0)
        box.posted(0)
        status = Status(box.read())
    mailbox.give(where, box)
    where.synchronize()
    S, R, state = (array if backend == "emulated" else array.get() for array in (S, R, state))
    return Outcome(status, S, R, state, int(state.view("uint32")[0]))


def from_sketch(problem: Problem, backend: str, A: Any, gate: int = 0, weak: float | None = None) -> Outcome:
    """The kernel on the sketch and the Gram matrix of A; the step before left `gate`. S begins as NaN."""
    where, xp, n = BACKENDS[backend].backend(), testing.array_module(backend), problem.N
    config = defaults.default(problem, where.device)
    assert config is not None and space.illegal(problem, config, where.device) is None
    launch = where.prepare(emit.kernel(problem, config, where.device))
    Y, G = (xp.ascontiguousarray(xp.asarray(one, problem.dtype)) for one in sketch.reference(A))
    S, state = xp.full((n, n), np.nan, problem.dtype), xp.full(spec.state_bytes(problem) // 8, np.nan)
    state.view("uint32")[0] = gate
    box, at = mailbox.take(where), (lambda array: array.data.ptr if backend == "cuda" else array.ctypes.data)
    rules = small.rules_of_sketch(problem.dtype, n)[1]
    steps(P("float64", 1), None, backend, [np.full((1, 1), np.nan)])  # leaves DECLINED in the box
    launch((at(Y), at(G), at(S), at(state), box.address), rules if weak is None else rules._replace(weak=weak), 0)
    box.posted(0)
    status = Status(box.read())
    mailbox.give(where, box)
    where.synchronize()
    S, state = (array if backend == "emulated" else array.get() for array in (S, state))
    return Outcome(status, S, None, state, int(state.view("uint32")[0]))


def gram_of(problem: Problem, condition: float, seed: int = 0) -> Any:
    """A Gram matrix with eigenvalues from 1 to condition^-2, of the dtype's precision."""
    wide = "complex128" if problem.is_complex else "float64"
    turn = np.linalg.qr(testing.random_matrix(np, problem.N, problem.N, wide, seed))[0]
    G = (turn * np.logspace(0, -2 * np.log10(condition), problem.N)) @ turn.conj().T
    return ((G + G.conj().T) / 2).astype(problem.dtype)


def double(problem: Problem, matrix: Any) -> Any:
    return np.asarray(matrix, "complex128" if problem.is_complex else "float64")


def exact(problem: Problem, config: Block | None, backend: str, seed: int = 0) -> None:
    """Of powers of two on the diagonal, everything is exact; one step is enough. Others need two, which turn and turn
    back: here they only have to arrive."""
    powers = 2.0 ** np.random.default_rng(seed).integers(-8, 9, problem.N)
    left = steps(problem, config, backend, [np.diag(powers**2)])
    assert left.status == Status.LAST and left.gate == 1
    assert (np.diag(1 / powers) == left.S).all() and (np.diag(powers) == left.R).all()
    G = gram_of(problem, 100.0)
    assert steps(problem, config, backend, [G, np.eye(problem.N)]).status == Status.LAST
