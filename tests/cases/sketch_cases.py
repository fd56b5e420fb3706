"""Problems and configurations that between them reach every branch of the sketch kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mansard import testing
from mansard.backends import cpu, cuda, emulated
from mansard.kernels.tall_skinny.sketch import emit, space, spec
from mansard.kernels.tall_skinny.sketch.space import Config, Ring
from mansard.plan.problem import Problem

P = spec.problem
BACKENDS = {"cuda": cuda, "emulated": emulated, "cpu": cpu}

CASES: list[tuple[Problem, Config]] = [
    (P("float64", 32, 700), Ring(64, 2)),
    (P("float64", 16, 1003), Ring(128, 3, "ticket")),
    (P("float64", 48, 203), Ring(64, 2)),
    (P("float64", 5, 1003, pitch_a=6), Ring(64, 4)),
    (P("float64", 1, 300), Ring(64, 2)),
    (P("float64", 33, 64), Ring(64, 2)),
    (P("complex128", 24, 300), Ring(64, 2)),
    (P("complex128", 3, 450), Ring(128, 2, "ticket")),
    (P("float32", 32, 403), Ring(64, 2)),
    (P("complex64", 11, 303), Ring(64, 3)),
    (P("float64", 6, 5), Ring(64, 2)),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.dtype}-{problem.N}x{problem.K}-{CASES.index(case)}"


def launch(problem: Problem, config: Config, backend: str, A: Any, seed: int = 0) -> tuple[Any, Any]:
    """Y and G from the kernel itself; on CPUs Y alone."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)  # type: ignore[attr-defined]
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    Y = xp.full((spec.rows(problem.N), problem.N), np.nan, problem.dtype)
    G = xp.full((problem.N, problem.N), np.nan, problem.dtype)
    strides = [stride // problem.itemsize for stride in A.strides]
    arrays = (A, Y) if backend == "cpu" else (A, Y, G)
    pointers = tuple(array.ctypes.data if backend != "cuda" else array.data.ptr for array in arrays)
    where.prepare(emit.kernel(problem, config, where.device, (*strides, seed)))(pointers, (), 0)
    where.synchronize()
    return Y, G


def operand(problem: Problem, backend: str, seed: int, integers: bool) -> Any:
    """A with its pitch: entries between its rows are NaN."""
    xp = testing.array_module(backend)
    wide = xp.full((problem.K, problem.pitch_a), np.nan, problem.dtype)
    A = wide[:, : problem.N]
    A[...] = testing.random_matrix(xp, problem.K, problem.N, problem.dtype, seed, integers)
    return A


def exact(problem: Problem, config: Config, backend: str, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result."""
    A = operand(problem, backend, seed, integers=True)
    Y, G = launch(problem, config, backend, A, seed)
    if hasattr(A, "get"):
        A, Y, G = A.get(), Y.get(), G.get()
    sketch, gram = spec.reference(A, seed)
    assert (sketch == Y).all(), f"{int((sketch != Y).sum())} entries of Y differ: {problem} {config}"
    assert backend == "cpu" or (gram == G).all(), f"{int((gram != G).sum())} entries of G differ: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: G within the bound of the error analysis and exactly Hermitian, Y within K u of its terms."""
    A = operand(problem, backend, seed, integers=False)
    Y, G = launch(problem, config, backend, A)
    assert testing.gram_error(G, A, A) <= 1.0 and bool((G == G.conj().T).all())
    if hasattr(A, "get"):
        A, Y = A.get(), Y.get()
    wide = A.astype("complex128" if problem.is_complex else "float64")
    S = spec.sign_matrix(*A.shape)
    error = abs(Y - S @ wide)
    assert (error <= 4 * np.finfo(A.dtype).eps * (abs(S) @ abs(wide))).all()
