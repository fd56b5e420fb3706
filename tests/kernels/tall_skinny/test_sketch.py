"""Sketches: the sign matrix, kernels of CPUs, the same bits however work is divided, and how they distort."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import H200
from orders import in_order, thread_orders
from sketch_cases import CASES, P, case_id, launch, operand
from sparing import every

from mansard import testing
from mansard.backends import cpu
from mansard.codegen.geometry import Device
from mansard.kernels.tall_skinny.sketch import defaults, emit, space, space_cpu, spec
from mansard.operations.tall_skinny.sketch_call import is_tall, sketched
from mansard.plan.problem import DTYPES, Problem


@thread_orders(every(4, CASES), case_id)
def test_other_thread_orders(case: tuple[Problem, Any], order: str) -> None:
    """Bit for bit: a missing barrier would show."""
    A = operand(case[0], "emulated", 3, integers=False)
    expected = launch(*case, "emulated", A)
    with in_order(order):
        got = launch(*case, "emulated", A)
    assert all((one == other).all() for one, other in zip(expected, got, strict=True))


@needs_cpu
@pytest.mark.parametrize("N, K, layout", [(1, 300, "row"), (5, 1003, "col"), (49, 4100, "row")])
def test_cpus_are_exact(N: int, K: int, layout: str) -> None:
    """Small integers: every order of summation gives the same, exact result. Seeds may exceed 32 bits."""
    for dtype, seed in zip(DTYPES, (0, 7, 1 << 33, 3 + (1 << 40)), strict=True):
        problem = P(dtype, N, K, layout_a=layout)
        A = testing.random_matrix(np, K, N, dtype, N, integers=True)
        A = np.asfortranarray(A) if layout == "col" else A
        config = defaults.default(problem, cpu.backend().device)
        assert config is not None
        Y, _ = launch(problem, config, "cpu", A, seed)
        assert (spec.reference(A, seed)[0] == Y).all()


@needs_cpu
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    problem, device = P("float64", 5, 10_001), cpu.backend().device
    A = testing.random_matrix(np, 10_001, 5, "float64", 0)
    assert space_cpu.parts(problem) == 4
    found = []
    for threads in (1, 2, 3):
        config, Y = defaults.default(problem, device), np.full((spec.rows(5), 5), np.nan)
        assert config is not None
        kernel = emit.kernel(problem, config, replace(device, multiprocessors=threads), (5, 1, 0))
        cpu.backend().prepare(kernel)((A.ctypes.data, Y.ctypes.data), (), 0)
        found.append(Y)
    assert np.allclose(found[0], spec.reference(A)[0]) and all((found[0] == other).all() for other in found[1:])


def test_signs() -> None:
    """Each row has +-1/4 in all rows of one group; each octet has one row in every group."""
    S = spec.sign_matrix(800, 20, seed=5)
    filled = (S != 0).reshape(spec.GROUPS, 16, 100, 8)
    assert (np.abs(S[S != 0]) == spec.SCALE).all() and (filled.all(axis=1) == filled.any(axis=1)).all()
    assert (filled.all(axis=1).sum(axis=0) == 1).all() and (filled.all(axis=1).sum(axis=2) == 1).all()
    assert abs(S.sum()) < 4 * spec.SCALE * (800 * 16) ** 0.5
    assert not (spec.sign_matrix(800, 20, seed=6) == S).all()
    assert (spec.sign_matrix(300, 20, 5, first=500) == S[:, 500:]).all()


@pytest.mark.parametrize("heavy", ["none", "first", "some", "spaced"])
@pytest.mark.parametrize("n", [8, 32, 48, 96])
def test_distortion(n: int, heavy: str) -> None:
    """A R^-1 is well conditioned, R the factor of the sketch, also where n rows have all the weight."""
    K, random = 4096, np.random.default_rng(n)
    A = random.standard_normal((K, n)) * (1.0 if heavy == "none" else 1e-8)
    rows = {"none": [], "first": range(n), "some": random.choice(K, n, replace=False), "spaced": range(0, 40 * n, 40)}
    A[list(rows[heavy])] += random.standard_normal((len(rows[heavy]), n))
    R = np.linalg.qr(spec.sign_matrix(K, n) @ A)[1]
    values = np.linalg.svd(np.linalg.solve(R.T, A.T).T, compute_uv=False)
    assert values[0] / values[-1] < 16 and values[-1] > 0.3


def test_sketches_of_pieces_add_up() -> None:
    """With or without a kernel; seeds keep the pieces apart."""
    V = testing.random_matrix(np, 6000, 3, "float64", 0, integers=True)
    pieces = sum(sketched(V[at : at + 3000], "reference", at) for at in (0, 3000))
    S = np.hstack([spec.sign_matrix(3000, 3, seed) for seed in (0, 3000)])
    assert (pieces == S @ V).all() and (S[:, :3000] != S[:, 3000:]).any()
    assert is_tall(256, 8) and not is_tall(255, 8)


def test_what_fits() -> None:
    device = Device("cuda", "older", "sm_86", 80, 100 << 10, 100 << 10, 65536, 1536, 6 << 20)
    config = defaults.default(P("float64", 32, 10**6), H200)
    assert config is not None and "sm_90" in str(space.illegal(P("float64", 32, 10**6), config, device))
    for problem, why in (
        (P("float64", 49, 10**6), "registers"),
        (P("complex128", 25, 10**6), "registers"),
        (P("float64", 8, 10**6, pitch_a=12), "padding"),
        (P("float64", 8, 10**6, layout_a="col"), "row-major"),
        (P("float64", 8, 10**6, aligned=False), "16-byte"),
    ):
        assert why in str(space.illegal(problem, space.Ring(64, 2), H200))
    assert "for CPUs" in str(space.illegal(P("float64", 8, 10**6), space.Simd(), H200))
    assert spec.refusal(P("float64", 129, 10**6)) and not spec.refusal(P("float64", 128, 10**6))
    assert space_cpu.parts(P("float64", 8, 2000)) == 1 and space_cpu.parts(P("float64", 8, 10**7)) == 64
