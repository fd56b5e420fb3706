"""PyTorch's version counters: what Mansard overwrites is refused by a backward that has saved it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from boundary_cases import CASES as BOUNDARY
from boundary_cases import COUNT, SPARSE, given
from conftest import usable

import mansard as ms

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

N, ROWS = 2, 50  # of the boundary's cases, so that kernels are compiled once
Case = tuple[Callable[[Any], Any], tuple[int, ...]]  # a call that writes to its argument, and the shape of that


def numbers(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape))


def positive() -> Any:
    A = numbers(COUNT, N, N)
    return A @ A.mT + N * torch.eye(N, dtype=A.dtype)


def cases() -> dict[str, Case]:
    A, B, b, tall, small = positive(), numbers(COUNT, N, N), numbers(COUNT, N), numbers(ROWS, N), numbers(N, N)
    against = torch.linalg.qr(numbers(ROWS, 1))[0]
    lower = torch.tril(A)
    M, P, x, z = ms.sparse.matrix(SPARSE), ms.matrix_powers(SPARSE, 2), numbers(30), numbers(30)
    stack, one, vector, block = (COUNT, N, N), (N, N), (COUNT, N), (ROWS, N)
    solved: dict[str, Case] = {
        "linalg.cho_solve": (lambda out: ms.linalg.cho_solve((lower, True), B, out=out), stack),
        "linalg.cholesky": (lambda out: ms.linalg.cholesky(A, out=out), stack),
        "linalg.cholesky_ex": (lambda out: ms.linalg.cholesky_ex(A, out=out), stack),
        "linalg.inv": (lambda out: ms.linalg.inv(A, out=out), stack),
        "linalg.inv_ex": (lambda out: ms.linalg.inv_ex(A, out=out), stack),
        "linalg.lu_factor": (lambda out: ms.linalg.lu_factor(A, out=out), stack),
        "linalg.lu_factor_ex": (lambda out: ms.linalg.lu_factor_ex(A, out=out), stack),
        "linalg.lu_solve": (lambda out: ms.linalg.lu_solve(ms.linalg.lu_factor(A), B, out=out), stack),
        "linalg.solve": (lambda out: ms.linalg.solve(A, B, out=out), stack),
        "linalg.solve_ex": (lambda out: ms.linalg.solve_ex(A, B, out=out), stack),
        "linalg.solve_triangular": (lambda out: ms.linalg.solve_triangular(A, B, lower=True, out=out), stack),
        "blas.trmm": (lambda out: ms.blas.trmm(A, B, out=out), stack),
        "blas.trsm": (lambda out: ms.blas.trsm(A, B, out=out), stack),
        "blas.trsv": (lambda out: ms.blas.trsv(A, b, out=out), vector),
    }
    return solved | {
        "cholesky_qr": (lambda out: ms.cholesky_qr(tall, out=out), block),
        "gram": (lambda out: ms.gram(tall, out=out), one),
        "matmul": (lambda out: ms.matmul(A, B, out=out), stack),
        "matmul, tall": (lambda out: ms.matmul(tall, small, out=out), block),
        "matmul, by the library": (lambda out: ms.matmul(small, small, out=out), one),
        "matmul, scaled by the library": (lambda out: ms.matmul(small, small, out=out, alpha=2.0), one),
        "matmul, vectors": (lambda out: ms.matmul(A, b[..., None], out=out), (COUNT, N, 1)),
        "matmul, lists": (lambda out: ms.matmul(list(A), list(B), out=list(out)), stack),
        "matmul_gram": (lambda out: ms.matmul_gram(tall, small, out=out), block),
        "orthogonalize": (lambda out: ms.orthogonalize(tall, against, out=out), block),
        "project": (lambda out: ms.project(against, tall, out=out), block),
        "plan": (lambda out: ms.plan("gemm", A, B, out=out)(A, B, out), stack),
        "plan, cholesky": (lambda out: ms.plan("cholesky", A, out=out)(A, None, out), stack),
        "blas.gemm": (lambda out: ms.blas.gemm(A, B, out=out), stack),
        "blas.gemv": (lambda out: ms.blas.gemv(A, b, out=out), vector),
        "blas.ger": (lambda out: ms.blas.ger(b, b, out=out), (COUNT, N, N)),
        "blas.axpy": (lambda out: ms.blas.axpy(b, b, out=out), vector),
        "blas.scal": (lambda out: ms.blas.scal(b, alpha=2.0, out=out), vector),
        "blas.syr2k": (lambda out: ms.blas.syr2k(A, A, out=out), stack),
        "blas.her2k": (lambda out: ms.blas.her2k(A, A, out=out), stack),
        "linalg.ormqr": (lambda out: ms.linalg.ormqr(*ms.linalg.qr(A, mode="raw"), B, out=out), stack),
        "linalg.larft": (lambda out: ms.linalg.larft(A, b, out=out), stack),
        "linalg.larfb": (lambda out: ms.linalg.larfb(A, B, B, out=out), stack),
        "linalg.laswp": (lambda out: ms.linalg.laswp(A, ms.linalg.lu_factor(A)[1], out=out), stack),
        "blas.herk": (lambda out: ms.blas.herk(A, out=out), stack),
        "blas.syrk": (lambda out: ms.blas.syrk(A, out=out), stack),
        "sparse.Matrix.plan": (lambda out: M.plan(x, out)(x, None, out), (30,)),
        "sparse.Matrix.product": (lambda out: M.product(x, out), (30,)),
        "sparse.Matrix.recurrence": (lambda out: M.recurrence(x, z, out), (30,)),
        "matrix_powers": (lambda out: P(x, out), (3, 30)),
        "matrix_powers, permuted": (lambda out: P.permuted(x, out), (3, 30)),
        "linalg.solve, vectors": (lambda out: ms.linalg.solve(A, b[0], out=out), vector),
        "linalg.solve, in place": (lambda out: ms.linalg.solve(A, out, out=out), stack),
        "linalg.cholesky, ragged": (lambda out: ms.linalg.cholesky(ragged(A), out=ragged(out)), stack),
        "matmul, ragged": (lambda out: ms.matmul(ragged(A), ragged(B), out=ragged(out)), stack),
    }


def ragged(stack: Any) -> Any:
    """A batch of matrices of one size in the memory of a stack."""
    sizes = np.full(COUNT, N)
    return ms.Ragged(stack.reshape(-1), sizes, sizes, np.arange(COUNT) * N * N)


CASES = cases()


def with_out(prefix: str, where: Any) -> list[str]:
    """Names of functions and methods under `where` that are given a place for their result."""
    found = []
    for name in dir(where):  # faces load their functions when they are asked for
        one = getattr(where, name)
        if name.startswith("_") or isinstance(one, ModuleType):
            continue
        if inspect.isclass(one):
            found += with_out(f"{prefix}{name}.", one)
        elif inspect.isfunction(one) and "out" in inspect.signature(one).parameters:
            found.append(prefix + name)
    return found


@pytest.fixture(autouse=True)
def on_cpus() -> None:
    usable("cpu")


def test_every_function_has_a_case() -> None:
    faces = {"linalg.": ms.linalg, "blas.": ms.blas, "sparse.": ms.sparse}
    top = [name for name in dir(ms) if inspect.isfunction(getattr(ms, name))]
    found = [name for name in top if "out" in inspect.signature(getattr(ms, name)).parameters]
    for prefix, module in faces.items():
        found += with_out(prefix, module)
    assert len(found) > 20 and set(found) <= {name.partition(",")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_counters_rise(name: str) -> None:
    """In the first call, and in later ones, which remember; `out` is a view and shares its counter with the whole."""
    call, shape = CASES[name]
    base = numbers(2, *shape)
    out = base[1]
    for _ in range(3):
        before = base._version
        call(out)
        assert base._version > before and out._version == base._version


@pytest.mark.parametrize("case", [one for one in BOUNDARY if "out" in one.arrays], ids=lambda case: case.name)
def test_counters_rise_in_every_case_of_the_boundary(case: Any) -> None:
    arrays = given(case, torch.from_numpy)
    for _ in range(2):
        before = arrays.out._version
        case.call(arrays)
        assert arrays.out._version > before


@pytest.mark.parametrize("name", ["matmul", "gram", "linalg.cholesky", "sparse.Matrix.product", "matrix_powers"])
def test_backward_refuses_what_was_overwritten(name: str) -> None:
    call, shape = CASES[name]
    for _ in range(2):
        saved, weight = numbers(*shape), numbers(*shape).requires_grad_()
        loss = (saved * weight).sum()
        call(saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("name", CASES)
def test_tensors_of_inference_mode(name: str) -> None:
    """They have no counter."""
    call, shape = CASES[name]
    with torch.inference_mode():
        out = numbers(*shape).clone()
        assert out.is_inference()
        call(out)
        call(out)


def test_a_product_by_the_library_is_one_write() -> None:
    """Not one for every row: telling them one by one takes longer than the product."""
    A, B, out = numbers(200, 300), numbers(300, 250), numbers(200, 250)
    for _ in range(2):
        before = out._version
        ms.matmul(A, B, out=out)
        assert before < out._version <= before + 4


def test_refused_calls_leave_counters_alone() -> None:
    out = numbers(COUNT, N, N)
    with pytest.raises(ValueError, match="overlaps"):
        ms.matmul(out, out, out=out)
    assert out._version == 0
