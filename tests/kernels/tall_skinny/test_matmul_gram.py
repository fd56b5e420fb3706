"""The fused kernel: exact on integers, within bounds on random numbers, the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
from matmul_gram_cases import CASES, case_id, launch, made

import mansard as ms
from mansard import testing
from mansard.kernels.tall_skinny import matmul_gram
from mansard.operations.tall_skinny.matmul_gram_call import plan_matmul_gram
from mansard.plan import dispatch
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import DTYPES, Problem


@pytest.mark.parametrize("case", CASES[:3], ids=case_id)
def test_a_closed_gate_leaves_everything_as_it_is(
    case: tuple[Problem, matmul_gram.space.Ring], gpu_backend: str
) -> None:
    xp = testing.array_module(gpu_backend)
    A, C, W, G = made(case[0], gpu_backend, 7, integers=True)
    old = W.copy()
    for open_gate in (0, 1):
        gate = xp.full(2, open_gate, "uint32")
        launch(*case, gpu_backend, (A, C, W, W, G), (1.0, 0.0, 0.0, 0.0), gate)
        assert bool((old == W).all()) == (open_gate == 0) and bool(xp.isnan(G).all()) == (open_gate == 0)


def test_the_same_bits_every_time(gpu_backend: str) -> None:
    problem, config = CASES[0]
    results = []
    for _ in range(3):
        A, C, W, G = made(problem, gpu_backend, 5, integers=False)
        launch(problem, config, gpu_backend, (A, C, W, W, G), (1.0, 0.0, 0.0, 0.0))
        results.append(G)
    assert all(bool((results[0] == other).all()) for other in results)


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_reach_the_kernel(dtype: str, backend: str) -> None:
    where = None if backend == "cuda" else backend
    xp = testing.array_module(backend)
    V = testing.random_matrix(xp, 500, 8, dtype, 0, integers=True)
    S = testing.random_matrix(xp, 8, 8, dtype, 1, integers=True)
    W, G = ms.matmul_gram(V, S, backend=where)
    assert bool((W == V @ S).all()) and bool((G == W.conj().T @ W).all())
    expected = V @ S * 2 + V
    out = V.copy()
    W, G = ms.matmul_gram(V, S, out=out, alpha=2.0, beta=1.0, backend=where)
    assert W is out and bool((expected == W).all()) and bool((G == W.conj().T @ W).all())
    W, G = ms.matmul_gram(V, S, out=V, backend=where)
    assert W is V and bool((G == W.conj().T @ W).all())


def test_gpus_have_a_kernel_and_wide_products_say_why_not() -> None:
    h200 = NOMINAL["sm_90a"]
    for dtype, N in (("float64", 32), ("float64", 48), ("complex128", 24), ("float32", 1)):
        choice = dispatch.choose(matmul_gram.spec.problem(dtype, N, N, 10_000_000), h200)
        assert choice.config is not None, choice.reason
    choice = dispatch.choose(matmul_gram.spec.problem("float64", 64, 64, 10_000_000), h200)
    assert choice.config is None and "registers" in choice.reason


def test_nan_in_out_does_not_leak(backend: str) -> None:
    xp = testing.array_module(backend)
    out = xp.full((300, 4), np.nan)
    W, G = ms.matmul_gram(xp.ones((300, 4)), xp.eye(4), out=out, backend=None if backend == "cuda" else backend)
    assert bool((W == 1).all()) and bool((G == 300).all())


def test_pins_do_not_outlive_their_block() -> None:
    """While parameters of other kernels are pinned a product and a gram answer; afterwards the fused kernel again."""
    V, S = np.ones((400, 5)), np.eye(5)
    with ms.pin(VARIANT="ring"):
        assert plan_matmul_gram(V, S, None, None, "emulated") is None
    assert plan_matmul_gram(V, S, None, None, "emulated") is not None
