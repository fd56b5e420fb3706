"""Triangular systems: bad input, other libraries, plans, tuning."""

from __future__ import annotations

import doctest
from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import wanted
from triangular_cases import (
    OPTIONS,
    PlayedSolver,
    exact_case,
    named,
    play_solver,  # noqa: F401
)

import mansard as ms
import mansard.blas.triangular
import mansard.linalg.triangular
from mansard import testing
from mansard.backends import cpu, emulated
from mansard.errors import UnsupportedProblem
from mansard.kernels.batched import trsm
from mansard.kernels.batched.trsm import spec
from mansard.operations.batched import triangular_call
from mansard.tune.cases.trsm import TrsmCase

pytestmark = pytest.mark.usefixtures("no_plans")


# ---- bad input --------------------------------------------------------------------------------------------

ONES = np.ones((5, 3, 3))
SOLVE, TRIANGULAR = ms.blas.trsm, ms.linalg.solve_triangular


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: SOLVE(ONES, ONES[:4]), ValueError, r"a has leading dimensions \(5,\) and b \(4,\)"),
        (lambda: SOLVE(ONES, ONES[:, :2]), ValueError, "a has order 3 and b 2 rows"),
        (lambda: SOLVE(ONES, ONES[:, :, :2], side="R"), ValueError, "a has order 3 and b 2 columns"),
        (lambda: SOLVE(ONES[:, :2], ONES), ValueError, "2 rows and 3 columns: a triangular matrix is square"),
        (lambda: SOLVE(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, r"out has shape \(5, 3, 2\), the result"),
        (lambda: SOLVE(ONES, ONES, out=np.broadcast_to(1.0, (5, 3, 3))), ValueError, "read-only|share one place"),
        (lambda: SOLVE(ONES, ONES, out=np.ones((5, 3, 3), "f4")), TypeError, "a has dtype float64 and out float32"),
        (lambda: SOLVE(ONES, ONES.astype("f2")), UnsupportedProblem, "b has dtype float16; supported are .*: convert"),
        (lambda: SOLVE(ONES.astype(int), ONES.astype(int)), UnsupportedProblem, "a has dtype int64"),
        (lambda: SOLVE(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: SOLVE(ONES, ONES, side="X"), ValueError, "side='X' is not one of 'L', 'R'"),
        (lambda: SOLVE(ONES, ONES, uplo="l"), ValueError, "uplo='l'"),
        (lambda: SOLVE(ONES, ONES, trans="H"), ValueError, "trans='H'"),
        (lambda: SOLVE(ONES, ONES, diag=""), ValueError, "diag=''"),
        (lambda: SOLVE(ONES[0, 0], ONES), ValueError, r"a has shape \(3,\)"),
        (lambda: SOLVE(ONES, 3), ValueError, r"b has shape \(\)"),
        (lambda: SOLVE(list(ONES), list(ONES[:1])), ValueError, "a is a list of 5 arrays and b is a list of 1"),
        (lambda: SOLVE([ONES[0], ONES[1, :2]], ONES[:2]), ValueError, r"a\[1\] has shape \(2, 3\)"),
        (lambda: SOLVE(list(ONES), []), ValueError, "a is a list of 5 arrays, and of b there are none"),
        (lambda: SOLVE(list(ONES), list(ONES), out=list(np.ones((4, 3, 3)))), ValueError, "out has 4 arrays"),
        (lambda: SOLVE(ONES, ONES, backend="gpu"), ValueError, "backend='gpu'"),
        (lambda: TRIANGULAR(ONES, ONES, trans=3), ValueError, "trans=3 is not one of 0, 1, 2"),
        (lambda: TRIANGULAR(ONES, ONES, trans=True), ValueError, "trans=True"),
        (lambda: TRIANGULAR(ONES, np.ones(4)), ValueError, "a has order 3 and b 4 rows"),
        (lambda: TRIANGULAR(ONES, np.float64(1)), ValueError, r"b has shape \(\)"),
        (lambda: TRIANGULAR(ONES, np.ones(3), out=np.ones((5, 4))), ValueError, "out has shape"),
        (lambda: ms.blas.trsv(ONES, np.ones((5, 2))), ValueError, "a has order 3 and b 2 rows"),
        (lambda: ms.blas.trsv(list(ONES), list(ONES)), ValueError, r"x\[0\] has shape \(3, 3\)"),
        (lambda: ms.blas.trmm(ONES, ONES[:, :2]), ValueError, "a has order 3 and b 2 rows"),
        (lambda: ms.blas.trmm(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: ms.blas.trmm(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, "out has shape"),
        (lambda: ms.plan("trsm", ONES), TypeError, "pass B"),
        (lambda: ms.plan("trsm", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("trmm", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("trsm", ONES, ONES, uplo="X"), ValueError, "uplo='X'"),
        (lambda: ms.plan("gemm", ONES, ONES, uplo="L"), TypeError, "gemm has no option uplo"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str, played: PlayedSolver) -> None:
    with pytest.raises(error, match=message):
        run()
    assert played.launches == 0


# ---- other libraries, plans, tuning -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, "reference", "emulated"])
def test_torch(backend: str | None, played: PlayedSolver) -> None:
    torch = wanted("torch")
    for options in OPTIONS[::3]:
        side, uplo, trans, diag = options
        _, dirty, X, B = exact_case(np.random.default_rng(15), (2, 3), 5, 2, "complex64", options)
        a, b = torch.tensor(dirty), torch.tensor(B)
        how: Any = named(*options) | {"backend": backend}
        result = ms.blas.trsm(a, b, **how)
        assert isinstance(result, torch.Tensor) and torch.equal(result, torch.tensor(X))
        again = ms.blas.trsm(torch.tensor(dirty.conj()).conj(), torch.tensor(B.conj()).conj(), **how)
        assert torch.equal(again, result)
        lists = ms.blas.trsm([a[0, 0], a[0, 1].conj().resolve_conj().conj()], list(b[0, :2]), **how)
        assert torch.equal(lists[1], result[0, 1])
        assert torch.equal(ms.blas.trmm(a, result, **how), torch.tensor(B))
        assert ms.blas.trsm(a, b, out=b, **how) is b and torch.equal(b, result)
        with pytest.raises(ValueError, match="lazily conjugated"):
            ms.blas.trsm(a, b, out=b.conj(), **how)
    a[1, 2, 3, 3] = 0
    if diag == "N":
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[1, 2\]"):
            ms.blas.trsm(a, b, uplo=uplo, side=side, trans=trans, check=True)


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
@pytest.mark.parametrize(("side", "trans"), [("L", "N"), ("R", "T")])
def test_conjugation_by_kernels(side: str, trans: str, backend: str) -> None:
    """A lazily conjugated matrix is neither transposed nor copied: the kernel conjugates what it reads."""
    torch = wanted("torch")
    _, dirty, X, B = exact_case(np.random.default_rng(20), (9,), 5, 2, "complex128", (side, "L", trans, "N"))
    a = torch.tensor(dirty.conj()).conj()
    plan = ms.plan("trsm", a, torch.tensor(B), side=side, trans=trans, backend=backend)
    assert plan.problem.trans == {"N": "R", "T": "C"}[trans] and plan.kernel is not None
    assert torch.equal(plan(a, torch.tensor(B)), torch.tensor(X))


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    _, dirty, X, B = exact_case(np.random.default_rng(16), (6,), 4, 2, "float32", OPTIONS[0])
    a, b = jnp.asarray(dirty), jnp.asarray(B)
    result = ms.blas.trsm(a, b)
    assert type(result) is type(a) and (np.asarray(result) == X).all()
    assert (np.asarray(ms.blas.trmm(a, jnp.asarray(X))) == B).all()
    assert (np.asarray(ms.blas.trsv(a, b[..., 0])) == X[..., 0]).all()
    assert all((np.asarray(one) == x).all() for one, x in zip(ms.blas.trsm(list(a), list(b)), X, strict=True))
    with pytest.raises(TypeError, match="JAX array, which cannot be written to"):
        ms.blas.trsm(a, b, out=b)


@pytest.mark.gpu
def test_gpu_streams_and_graphs() -> None:
    from conftest import usable

    usable("cuda")
    cupy, torch = wanted("cupy"), wanted("torch")
    _, dirty, X, B = exact_case(np.random.default_rng(17), (500,), 7, 3, "float64", OPTIONS[0])
    with cupy.cuda.Stream(non_blocking=True) as stream:
        many = ms.blas.trsm(list(cupy.asarray(dirty)), list(cupy.asarray(B)))
    stream.synchronize()
    assert (cupy.stack(many).get() == X).all()
    a, b = torch.tensor(dirty, device="cuda"), torch.tensor(B, device="cuda")
    out = ms.blas.trsm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ms.blas.trsm(a, b, out=out)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.cpu(), torch.tensor(X))


def test_plan() -> None:
    _, dirty, X, B = exact_case(np.random.default_rng(18), (5,), 4, 2, "float64", ("R", "U", "T", "N"))
    plan = ms.plan("trsm", dirty, B, side="R", uplo="U", trans="T")
    text = plan.explain()
    assert "N=4 NRHS=2 BATCH=5 side=right uplo=upper trans=T" in text and "trsm_simd" in plan.source()
    assert (plan(dirty, B) == X).all() and (plan(dirty, B, alpha=2) == 2 * X).all()
    with pytest.raises(ValueError, match="A differs"):
        plan(dirty[:4], B[:4])
    with pytest.raises(ValueError, match="no beta"):
        plan(dirty, B, beta=1.0)
    product = ms.plan("trmm", dirty, X, side="R", uplo="U", trans="T", backend="cpu")
    assert "trmm_simd" in product.source() and (product(dirty, X) == B).all()
    product = ms.plan("trmm", dirty, X, side="R", uplo="U", trans="T")
    assert product.explain().startswith("trmm float64 N=4") and (product(dirty, X) == B).all()
    assert "VARIANT=simd" in ms.plan("trmm", np.ones((4000, 4, 4)), np.ones((4000, 4, 4))).explain()
    reference = ms.plan("trmm", np.ones((99, 4, 4)), np.ones((99, 4, 4)), backend="reference")
    assert "one more pass" in reference.explain()


def test_plans_are_remembered(no_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []
    real = triangular_call.plan_by
    monkeypatch.setattr(triangular_call, "plan_by", lambda *a: (planned.append(a), real(*a))[1])
    A, B = np.stack([np.eye(3)] * 4), np.ones((4, 3, 2))
    for _ in range(3):
        ms.blas.trsm(A, B)
        ms.blas.trsm(A, B.copy())
    assert len(planned) == 1
    for run in (
        lambda: ms.blas.trsm(A, B, uplo="U"),
        lambda: ms.blas.trsm(A, B, diag="U"),
        lambda: ms.blas.trsm(A, B[:3][0]),
    ):
        run()
    assert len(planned) == 4
    with ms.pin(TILE_M=1):
        ms.blas.trsm(A, B)
        ms.blas.trsm(A, B)
    assert len(planned) == 6
    with ms.pin(VARIANT="vendor"):
        assert "SciPy's BLAS" in ms.plan("trsm", A, B).explain()
        assert (ms.blas.trsm(A, B) == B).all()


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"side": "right", "uplo": "upper", "trans": "C", "layout_b": "col"},
        {"unit": True, "trans": "T", "stack_a": "shared"},
        {"layout_a": "col", "stack_a": "pointers", "stack_b": "pointers"},
        {"stack_b": "shared", "aligned": False},
    ],
    ids=str,
)
def test_what_is_tuned(traits: dict[str, Any]) -> None:
    """The tuner's operands, reference and bound: a kernel that is right passes, and one that is not does not."""
    for backend, dtype in product((cpu.backend(), emulated.backend()), ("float32", "complex128")):
        case = TrsmCase(spec.problem(dtype, 6, 3, 50, **traits), backend)
        for one in (case, case.smaller(13)):
            config = trsm.defaults.default(one.problem, backend.device)
            launch, out = backend.prepare(one.kernel(config)), one.poisoned()
            one.call(launch, out)()
            expected, scale = one.reference()
            if one is case:
                bound = 2 * testing.gamma(dtype, case.terms) * scale
                assert (abs(out - expected) <= bound).all() and (1.01 * scale >= abs(expected)).all()
                assert (bound < 1e-3 * abs(expected).max()).all()
            else:
                assert (out == expected).all()
        case.vendor()()


def test_doctests() -> None:
    for module in (mansard.blas.triangular, mansard.linalg.triangular):
        failures, tried = doctest.testmod(module)
        assert tried >= 3 and failures == 0
