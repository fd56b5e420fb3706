"""Problems and configurations that between them reach every branch of the fused kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from mansard import testing
from mansard.backends import cuda, emulated
from mansard.kernels.tall_skinny.matmul_gram import emit, space, spec
from mansard.kernels.tall_skinny.matmul_gram.space import Config, Ring
from mansard.plan.problem import Problem

P = spec.problem
BACKENDS = {"cuda": cuda, "emulated": emulated}

CASES: list[tuple[Problem, Config]] = [
    (P("float64", 32, 32, 700), Ring(2, 4, 64, 2, 1)),
    (P("float64", 32, 32, 700, in_place=True), Ring(2, 2, 128, 2, 1, 2)),
    (P("float64", 5, 3, 1003), Ring(2, 4, 64, 3, 2, 1, "ticket")),
    (P("float64", 1, 1, 1003), Ring(1, 8, 128, 2, 2, 4)),
    (P("float64", 13, 17, 403), Ring(4, 2, 128, 2, 1)),
    (P("float64", 64, 48, 203), Ring(2, 2, 32, 2, 1)),
    (P("float64", 15, 24, 303, pitch_a=16), Ring(1, 4, 32, 2, 1)),
    (P("complex128", 16, 16, 403), Ring(2, 4, 32, 2, 1)),
    (P("complex128", 8, 20, 203, conj=True), Ring(1, 3, 16, 2, 2, 1, "ticket")),
    (P("complex128", 7, 12, 203), Ring(1, 4, 32, 2, 1)),
    (P("complex128", 3, 3, 203, in_place=True), Ring(1, 4, 64, 2, 1, 2)),
    (P("float32", 32, 32, 403), Ring(2, 3, 64, 2, 2)),
    (P("float32", 9, 8, 403), Ring(1, 4, 64, 2, 1, 2)),
    (P("complex64", 12, 11, 303), Ring(1, 4, 32, 2, 1)),
    (P("float64", 6, 6, 5), Ring(1, 4, 32, 2, 1)),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.dtype}-{problem.M}x{problem.N}x{problem.K}-{CASES.index(case)}"


def launch(
    problem: Problem, config: Config, backend: str, arrays: tuple[Any, ...], scalars: tuple[float, ...],
    gate: Any = None,
) -> None:  # fmt: skip
    """The kernel itself on A, C, D, W and G."""
    where = BACKENDS[backend].backend()
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    A, C, D, W, _ = arrays
    strides = [stride // problem.itemsize for array in (A, C, W) for stride in array.strides]
    strides.append(D.strides[0] // problem.itemsize)
    pointers = [array.ctypes.data if backend != "cuda" else array.data.ptr for array in arrays]
    pointers.append(0 if gate is None else gate.ctypes.data if backend != "cuda" else gate.data.ptr)
    where.prepare(emit.kernel(problem, config, where.device, tuple(strides)))(tuple(pointers), scalars, 0)
    where.synchronize()


def made(problem: Problem, backend: str, seed: int, integers: bool) -> tuple[Any, Any, Any, Any]:
    """A, C, a W of its own or A, and a G full of NaN."""
    xp = testing.array_module(backend)
    A, C = testing.tsmm_operands(problem, backend, seed, integers)
    W = testing.random_matrix(xp, problem.K, problem.N, problem.dtype, seed + 2, integers)
    G = xp.full((problem.N, problem.N), np.nan, problem.dtype)
    return A, C, A if problem.in_place else W, G


def exact(
    problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0, beside: bool = False
) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, W starts as NaN; so it does
    `beside` a D of its own, whose rows are further apart."""
    A, C, W, G = made(problem, backend, seed, integers=True)
    alpha, beta = ((1 - 1j, 1j if beside else 1 + 1j) if problem.is_complex else (2.0, -1.0)) if scaled else (1.0, 0.0)
    if not scaled and not problem.in_place:
        W.fill(np.nan)
    D = W
    if beside:
        xp = testing.array_module(backend)
        D = testing.random_matrix(xp, problem.K, problem.N + 3, problem.dtype, seed + 3, True)[:, : problem.N]
        if not problem.in_place:
            W.fill(np.nan)
    product, gram = spec.reference(A, C, D.copy(), alpha, beta, conj=problem.conj)
    scalars = (complex(alpha).real, complex(alpha).imag, complex(beta).real, complex(beta).imag)
    launch(problem, config, backend, (A, C, D, W, G), scalars)
    assert bool((product == W).all()), f"{int((product != W).sum())} entries of W differ: {problem} {config}"
    # float32 sums of integers round when they are stored, not before
    wide = "complex128" if problem.is_complex else "float64"
    gram = (product.astype(wide).conj().T @ product.astype(wide)).astype(problem.dtype)
    assert bool((gram == G).all()), f"{int((gram != G).sum())} entries of G differ: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry of W and of G within the bound of the error analysis, G exactly Hermitian."""
    A, C, W, G = made(problem, backend, seed, integers=False)
    old = A.copy()
    launch(problem, config, backend, (A, C, W, W, G), (1.0, 0.0, 0.0, 0.0))
    assert testing.tsmm_error(W, old, C, conj=problem.conj) <= 1.0
    assert testing.gram_error(G, W, W) <= 1.0
    assert bool((G == G.conj().T).all())
