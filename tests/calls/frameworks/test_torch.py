"""Mansard's functions in PyTorch: derivatives of first and second order, torch.func, torch.compile, torch.export.

Derivatives are formulas in terms of Mansard's functions: LAPACK answers for most of these tests, so that formulas are
tested and nothing is compiled. One test takes them through kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sparing import crossed

import mansard as ms
from mansard import settings

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

L = ms.linalg
DTYPES = (torch.float64, torch.complex128)


@pytest.fixture
def by_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MANSARD_BACKEND", "reference")
    settings.reread()
    yield
    monkeypatch.undo()
    settings.reread()


def tensor(dtype: Any, *shape: int, layout: str = "plain", seed: int = 0, device: str = "cpu") -> Any:
    """Normal numbers in a memory layout, which are a leaf."""
    normal = torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + len(shape) + sum(shape)))
    normal = normal.to(device)
    if layout == "transposed":
        normal = normal.mT.contiguous().mT
    elif layout == "sliced":
        normal = torch.stack((normal, normal), -1)[..., 0]
    return normal.requires_grad_()


def shifted(a: Any) -> Any:
    return a + 4 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def positive(a: Any) -> Any:
    return a @ a.mH + 2 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def hermitian(a: Any) -> Any:
    return a + a.mH


def without_phases(parts: Any) -> Any:
    """What does not depend on the phases of vectors."""
    return tuple(part.abs() if part.dim() > 2 else part for part in parts)


MATRIX = scipy.sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 0, 5]]))
SQUARE = scipy.sparse.csr_array(np.array([[1.0, 2, 0], [0, 3, 4], [5, 0, 6]]))



def sparse(matrix: Any, like: Any) -> Any:
    """A matrix of SciPy's in the dtype and on the device of a tensor."""
    matrix = matrix.astype(str(like.dtype)[6:])
    if like.is_cpu:
        return matrix
    parts = (torch.from_numpy(one) for one in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*parts, matrix.shape).to(like.device)


def least_squares(a: Any, b: Any) -> Any:
    return torch.linalg.lstsq(a, b, driver="gelsd" if a.is_cpu else "gels").solution


# name -> (Mansard's function, PyTorch's or None, shapes of operands)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None, tuple[tuple[int, ...], ...]]] = {
    "gram": (ms.gram, lambda a: a.mH @ a, ((5, 2),)),
    "gram of two": (lambda a, b: ms.gram(a, b, alpha=2.0), lambda a, b: 2 * a.mH @ b, ((5, 2), (5, 3))),
    "gram without conj": (lambda a, b: ms.gram(a, b, conj=False), lambda a, b: a.mT @ b, ((5, 2), (5, 3))),
    "matmul": (ms.matmul, torch.matmul, ((5, 2), (2, 3))),
    "matmul, broadcast": (ms.matmul, torch.matmul, ((3, 1, 2, 2), (2, 2, 2))),
    "matmul, one for all": (ms.matmul, torch.matmul, ((3, 2, 2), (2, 3))),
    "matmul of vectors": (ms.matmul, torch.matmul, ((2,), (3, 2, 2))),
    "gemm": (
        lambda a, b: ms.blas.gemm(a, b, trans_a="C", trans_b="T", alpha=0.5), lambda a, b: a.mH @ b.mT / 2,
        ((3, 2, 2), (1, 3, 2)),
    ),
    "gemv": (
        lambda a, x: ms.blas.gemv(a, x, trans="T"), lambda a, x: (a.mT @ x[..., None])[..., 0], ((3, 2, 4), (3, 2)),
    ),
    "syrk": (ms.blas.syrk, lambda a: a @ a.mT, ((2, 2, 4),)),
    "herk": (lambda a: ms.blas.herk(a, trans="C"), lambda a: a.mH @ a, ((2, 2, 4),)),
    "matmul_gram": (ms.matmul_gram, lambda v, s: (v @ s, (v @ s).mH @ (v @ s)), ((5, 2), (2, 2))),
    "project": (ms.project, None, ((5, 2), (5, 2))),
    "trsm": (lambda a, b: ms.blas.trsm(shifted(a), b), None, ((2, 2, 2), (2, 2, 2))),
    "trsm, right": (
        lambda a, b: ms.blas.trsm(shifted(a), b, side="R", uplo="U", trans="C", alpha=2.0),
        lambda a, b: 2 * torch.linalg.solve_triangular(shifted(a).mH, b, upper=False, left=False), ((2, 2), (2, 2, 2)),
    ),
    "trsm, unit": (lambda a, b: ms.blas.trsm(a, b, diag="U", trans="T"), None, ((2, 2, 2), (2, 2, 2))),
    "trsv": (lambda a, x: ms.blas.trsv(shifted(a), x, uplo="U"), None, ((2, 2, 2), (2, 2))),
    "trmm": (lambda a, b: ms.blas.trmm(a, b, uplo="U", trans="T", diag="U"), None, ((2, 2, 2), (2, 2, 2))),
    "solve_triangular": (lambda a, b: L.solve_triangular(shifted(a), b, trans=2), None, ((2, 2, 2), (2,))),
    "solve": (
        lambda a, b: L.solve(shifted(a), b), lambda a, b: torch.linalg.solve(shifted(a), b), ((2, 2), (2, 2, 3)),
    ),
    "solve for a vector": (lambda a, b: L.solve(shifted(a), b), None, ((2, 2, 2), (2,))),
    "solve, positive": (lambda a, b: L.solve(positive(a), b, assume_a="pos"), None, ((2, 2, 2), (2, 2, 2))),
    "solve, refined": (
        lambda a, b: L.solve(shifted(a), b, refine=True), lambda a, b: torch.linalg.solve(shifted(a), b),
        ((2, 2), (2, 2, 3)),
    ),
    "solve_ex, positive, refined": (
        lambda a, b: L.solve_ex(positive(a), b, assume_a="pos", refine=True)[0], None, ((2, 2, 2), (2,)),
    ),
    "inv": (lambda a: L.inv(shifted(a)), lambda a: torch.linalg.inv(shifted(a)), ((2, 2, 2),)),
    "det": (L.det, torch.linalg.det, ((2, 2, 2),)),
    "slogdet": (lambda a: tuple(L.slogdet(a)), lambda a: tuple(torch.linalg.slogdet(a)), ((2, 2, 2),)),
    "cholesky": (
        lambda a: L.cholesky(positive(a)), lambda a: torch.linalg.cholesky(positive(a)), ((2, 2, 2),),
    ),
    "cholesky, upper": (
        lambda a: L.cholesky(positive(a), upper=True), lambda a: torch.linalg.cholesky(positive(a), upper=True),
        ((2, 2),),
    ),
    "cho_solve": (lambda a, b: L.cho_solve((shifted(a), False), b), None, ((2, 2, 2), (2,))),
    "lu_factor": (lambda a: L.lu_factor(a)[0], lambda a: torch.linalg.lu_factor(a)[0], ((2, 2),)),
    "lu_solve": (lambda a, b: L.lu_solve(L.lu_factor(a), b, 2), lambda a, b: torch.linalg.solve(a.mH, b),
                 ((2, 2), (2,))),
    "qr": (lambda a: tuple(L.qr(a)), None, ((2, 4, 2),)),
    "qr, wide": (lambda a: L.qr(a, "r").abs(), lambda a: torch.linalg.qr(a)[1].abs(), ((2, 3),)),
    "cholesky_qr": (ms.cholesky_qr, None, ((5, 2),)),
    "orthogonalize": (lambda a, b: ms.orthogonalize(a, L.qr(b).Q), None, ((6, 2), (6, 1))),
    "lstsq": (
        lambda a, b: L.lstsq(a, b).x, least_squares, ((4, 2), (4, 2)),
    ),
    "lstsq by qr": (lambda a, b: tuple(L.lstsq(a, b, driver="qr")[:2]), None, ((2, 4, 2), (2, 4, 2))),
    "eigh": (
        lambda a: without_phases(L.eigh(hermitian(a))), lambda a: without_phases(torch.linalg.eigh(hermitian(a))),
        ((2, 3, 3),),
    ),
    "eigvalsh": (
        lambda a: L.eigvalsh(hermitian(a)), lambda a: torch.linalg.eigvalsh(hermitian(a)), ((2, 3, 3),),
    ),
    "svd": (
        lambda a: without_phases(L.svd(a, False)), lambda a: without_phases(torch.linalg.svd(a, False)), ((2, 4, 2),),
    ),
    "svd, product": (lambda a: (lambda u, _, v: u @ v)(*L.svd(a, False)), None, ((2, 3),)),
    "svdvals": (L.svdvals, torch.linalg.svdvals, ((2, 2, 4),)),
    "pinv": (L.pinv, torch.linalg.pinv, ((2, 4, 2),)),
    "polar": (lambda a: tuple(L.polar(a)), None, ((2, 3, 2),)),
    "polar, wide": (lambda a: tuple(L.polar(a, "left")), None, ((2, 3),)),
    "procrustes": (lambda a, b: tuple(L.procrustes(a, b)), None, ((4, 2), (4, 2))),
    "norm, nuc": (
        lambda a: L.norm(a, "nuc", (-2, -1)), lambda a: torch.linalg.norm(a, "nuc", (-2, -1)), ((2, 3, 2),),
    ),
    "norm, 2": (
        lambda a: L.norm(a, 2, (-2, -1), True), lambda a: torch.linalg.norm(a, 2, (-2, -1), True), ((2, 3, 2),),
    ),
    "norm": (L.norm, torch.linalg.norm, ((3, 2),)),
    "cond": (L.cond, torch.linalg.cond, ((3, 2),)),
    "solve_ex": (lambda a, b: L.solve_ex(shifted(a), b)[0], None, ((2, 2, 2), (2,))),
    "inv_ex": (lambda a: L.inv_ex(shifted(a))[0], lambda a: torch.linalg.inv(shifted(a)), ((2, 2),)),
    "cholesky_ex": (lambda a: L.cholesky_ex(positive(a), upper=True)[0], None, ((2, 2),)),
    "lu_factor_ex": (lambda a: L.lu_factor_ex(a)[0], None, ((2, 2),)),
    "eigh_ex": (lambda a: without_phases(L.eigh_ex(hermitian(a))[:2]), None, ((2, 2, 2),)),
    "eigvalsh_ex": (lambda a: L.eigvalsh_ex(hermitian(a))[0], None, ((2, 2),)),
    "svd_ex": (lambda a: L.svd_ex(a, False)[1], None, ((3, 2),)),
    "svdvals_ex": (lambda a: L.svdvals_ex(a)[0], None, ((3, 2),)),
    "lists": (
        lambda a, b: tuple(ms.matmul(list(a), list(b))), lambda a, b: tuple((a @ b).unbind()), ((2, 2, 2), (2, 2, 2)),
    ),
    "sparse": (
        lambda x: ms.sparse.matrix(sparse(MATRIX, x.real)) @ x,
        lambda x: torch.tensor(MATRIX.toarray(), dtype=x.dtype, device=x.device) @ x, ((4, 2),),
    ),
    "sparse values": (
        lambda v, x: ms.sparse.matrix(sparse(MATRIX, v)).with_values(v).H @ x, None, ((5,), (3, 2)),
    ),
    "powers": (
        lambda v, x: ms.matrix_powers(sparse(SQUARE, v), 2, ("chebyshev", -3.0, 8.0)).with_values(v)(x),
        None, ((6,), (3,)),
    ),
}  # fmt: skip
COMPLEX_TWICE = {"gram of two", "solve", "inv", "slogdet", "cholesky", "eigh", "svd", "polar", "sparse"}
# made of rules that are tested twice
REAL_ONCE = {"orthogonalize", "lstsq by qr", *(name for name in CASES if name.endswith("_ex"))}


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize(("name", "dtype"), crossed(list(CASES), DTYPES), ids=str)
def test_derivatives(name: str, dtype: Any) -> None:
    check_derivatives(name, dtype, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@pytest.mark.parametrize(("name", "dtype"), crossed(list(CASES), DTYPES), ids=str)
def test_derivatives_on_a_gpu(name: str, dtype: Any) -> None:
    """By kernels, cuBLAS and cuSOLVER; backward runs in a thread of its own."""
    check_derivatives(name, dtype, "cuda")


def check_derivatives(name: str, dtype: Any, device: str) -> None:
    ours, theirs, shapes = CASES[name]
    layouts = ("plain", "transposed") if len(name) % 2 else ("sliced", "plain")
    operands = [
        tensor(dtype, *shape, layout=layout if len(shape) > 1 else "plain", device=device)
        for shape, layout in zip(shapes, layouts, strict=False)
    ]
    assert gradcheck(ours, operands, fast_mode=True, check_forward_ad=True)
    if name in COMPLEX_TWICE or (dtype is torch.float64 and name not in REAL_ONCE):
        assert gradgradcheck(ours, operands, fast_mode=True, gen_non_contig_grad_outputs=True)
    if theirs is not None:
        for one, other in zip(first_gradients(ours, operands), first_gradients(theirs, operands), strict=True):
            torch.testing.assert_close(one, other)


def first_gradients(function: Callable[..., Any], operands: list[Any]) -> Any:
    results = function(*operands)
    results = results if isinstance(results, tuple) else (results,)
    weights = (torch.arange(1.0, one.numel() + 1, device=one.device).reshape(one.shape) for one in results)
    loss = sum((one.abs().square() * weight).sum() for one, weight in zip(results, weights, strict=True))
    return torch.autograd.grad(loss, operands)


@pytest.mark.usefixtures("by_library")
def test_cotangents_that_are_zeros_without_memory_or_lazily_negated() -> None:
    """Second derivatives of absolute values are the former, imaginary parts of conjugates the latter."""
    a, b = tensor(torch.float64, 3, 3), tensor(torch.float64, 3, 3, seed=1)
    assert gradgradcheck(lambda a: L.qr(a, "r").abs(), [a])
    zero = torch._efficientzerotensor((4, 3), dtype=torch.float64)
    for cotangent in (zero[:3], zero[1:]):  # of which the second begins 24 bytes from null
        for call, operands in ((ms.matmul, (a, b)), (L.qr, (a,)), (L.solve, (a, b))):
            results = call(*operands)
            result = results[0] if isinstance(results, tuple) else results
            found = torch.autograd.grad(result, operands, cotangent, allow_unused=True)
            assert all(one is None or not one.any() for one in found)
        assert not ms.matmul(a, cotangent).any()
    weight = torch.randn(3, 3, dtype=torch.complex128)

    def imaginary(product: Any) -> Any:
        return (torch.complex(b.detach(), product(a, b)).conj() * weight).sum().real

    ours, theirs = (torch.autograd.grad(imaginary(by), (a, b)) for by in (ms.matmul, torch.matmul))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_by_kernels_after_calls_that_record_none() -> None:
    weight = torch.nn.Linear(2, 2, bias=False, dtype=torch.float64).weight
    block = tensor(torch.float64, 50, 2).detach()
    with torch.no_grad():
        ms.matmul(block, weight)
    (ms.matmul(block, weight) ** 2).mean().backward()
    expected = torch.autograd.grad(((block @ weight) ** 2).mean(), weight)[0]
    torch.testing.assert_close(weight.grad, expected)
    a = shifted(tensor(torch.float64, 40, 2, 2)).detach().requires_grad_()
    found = torch.autograd.grad(L.solve(a, a.detach() * 2 + 1).square().sum(), a)[0]
    expected = torch.autograd.grad(torch.linalg.solve(a, a.detach() * 2 + 1).square().sum(), a)[0]
    torch.testing.assert_close(found, expected)


BY_ONE_LAUNCH: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "inv": (
        lambda a: L.inv(shifted(a), backend="emulated"), lambda a: torch.linalg.inv(shifted(a)), "inverse"
    ),
    "solve": (
        lambda a, b: L.solve(shifted(a), b, backend="emulated"), lambda a, b: torch.linalg.solve(shifted(a), b),
        "solution",
    ),
    "cholesky": (
        lambda a: L.cholesky(positive(a), backend="emulated"), lambda a: torch.linalg.cholesky(positive(a)), "cholesky"
    ),
    "eigh": (
        lambda a: without_phases(L.eigh(hermitian(a), backend="emulated")),
        lambda a: without_phases(torch.linalg.eigh(hermitian(a))), "congruence",
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "transposed", "sliced"])
@pytest.mark.parametrize(("name", "dtype"), crossed(list(BY_ONE_LAUNCH), DTYPES), ids=str)
def test_gradients_of_tiny_matrices_by_one_launch(
    name: str, dtype: Any, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the emulator: first order by a kernel, also of cotangents without memory of their own, second by formulas."""
    from mansard.operations.factor import gradients

    ours, theirs, want = BY_ONE_LAUNCH[name]
    operands = [tensor(dtype, 2, 3, 3, layout=layout)] + [tensor(dtype, 2, 3, 2, layout=layout)] * (name == "solve")
    launched, by_kernel = [], gradients._by_kernel

    def watched(asked: Any, given: Any) -> Any:
        found = by_kernel(asked, given)
        launched.append((asked.want, found is not None))
        return found

    monkeypatch.setattr(gradients, "_by_kernel", watched)
    for one, other in zip(first_gradients(ours, operands), first_gradients(theirs, operands), strict=True):
        torch.testing.assert_close(one, other)
    assert launched == [(want, True)]
    if name != "eigh":  # a cotangent of ones that are one number, and of a lazily conjugated tensor
        for loss in (lambda x: x.sum().real, lambda x: x.mH.sum().real):
            pairs = (torch.autograd.grad(loss(one(*operands)), operands) for one in (ours, theirs))
            for one, other in zip(*pairs, strict=True):
                torch.testing.assert_close(one, other)
        assert launched == [(want, True)] * 3
    launched.clear()
    if layout == "plain":
        small = [one[:1].detach().requires_grad_() for one in operands]
        assert gradgradcheck(ours, small)
        first = torch.autograd.grad(ours(*small)[0].abs().sum(), small, create_graph=True)
        assert all(one.requires_grad for one in first)


def test_gradients_without_a_kernel_are_formulas() -> None:
    """More rows than kernels take, broadcast operands, a Hermitian system, no matrices at all."""
    from mansard.operations.factor import gradients

    a, b = tensor(torch.float64, 2, 3, 3).detach(), tensor(torch.float64, 2, 3, 2).detach()
    assert gradients.of_solution(a, b, b, backend="emulated") is not None
    assert gradients.of_solution(a[0], b, b, backend="emulated") is None
    assert gradients.of_solution(a, b, b, backend="reference") is None
    assert gradients.of_inverse(a[:0], a[:0], backend="emulated") is None
    assert gradients.of_inverse(a, a.float(), backend="emulated") is None
    large = torch.eye(33, dtype=torch.float64)[None]
    assert gradients.of_cholesky(large, large, backend="emulated") is None
    with ms.pin(WARPS=1):
        assert gradients.of_inverse(a, a, backend="emulated") is None


LARGE: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "solve": (L.solve, torch.linalg.solve, 2),
    "solve, positive": (lambda a, b: L.solve(a, b, assume_a="pos"), torch.linalg.solve, 2),
    "det": (L.det, torch.linalg.det, 1),
    "slogdet": (lambda a: tuple(L.slogdet(a)), lambda a: tuple(torch.linalg.slogdet(a)), 1),
}


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", LARGE)
def test_factors_of_large_matrices_are_kept_for_backward(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mansard.frameworks.pullbacks import systems

    ours, theirs, count = LARGE[name]
    n = systems.SMALL + 1
    noise = tensor(torch.complex128, 2, n, n).detach() / n
    a = (noise @ noise.mH + torch.eye(n, dtype=noise.dtype)).requires_grad_()
    operands = [a, tensor(torch.complex128, 2, n, 2)][:count]
    expected = first_gradients(theirs, operands)
    if name == "solve, positive":
        expected = ((expected[0] + expected[0].mH) / 2, *expected[1:])
    monkeypatch.setattr(systems, "unchecked_solve", None)
    for one, other in zip(first_gradients(ours, operands), expected, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\]") if count == 2 else nullcontext():
        ours(*[torch.stack((one[0], 0 * one[0])) if i == 0 else one for i, one in enumerate(operands)])


@pytest.mark.usefixtures("by_library")
def test_refined_solutions_keep_no_factors_for_backward() -> None:
    a, b = shifted(tensor(torch.float64, 70, 70)), tensor(torch.float64, 70, 1)
    a = (a + 30 * torch.eye(70)).detach().requires_grad_()
    (found,), (plain,) = (torch.autograd.grad(solve(a, b).sum(), a) for solve in (
        lambda a, b: L.solve(a, b, refine=True), torch.linalg.solve))  # fmt: skip
    assert torch.allclose(found, plain, 1e-12, 1e-14)
    with pytest.raises(TypeError, match="a has dtype float32: refine=True is for"):
        L.solve(a.float(), b.float(), refine=True)
    with pytest.raises(ValueError, match="refine='auto' is not one of"):
        L.solve(a, b, refine="auto")


@pytest.mark.usefixtures("by_library")
def test_singular_matrices_are_told_beside_gradients_of_their_neighbours() -> None:
    a = torch.tensor([[[2.0, 0], [0, 4]], [[1, 1], [1, 1]]], dtype=torch.float64, requires_grad=True)
    x, info = L.solve_ex(a, torch.ones(2, 2, 1, dtype=torch.float64))
    assert info.tolist() == [0, 2] and not info.requires_grad
    (found,) = torch.autograd.grad(x[0].sum(), a)
    torch.testing.assert_close(found[0], torch.tensor([[-0.25, -0.125], [-0.125, -0.0625]], dtype=torch.float64))


@pytest.mark.usefixtures("by_library")
def test_what_no_gradient_needs_is_not_saved() -> None:
    a, b = tensor(torch.float64, 5, 2), tensor(torch.float64, 2, 3).detach()
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: saved.append(one) or one, lambda one: one):
        ms.matmul(a, b).sum().backward()
        ms.gram(a, a.detach() + 1)
    assert [tuple(one.shape) for one in saved] == [(2, 3), (5, 2)]
    assert saved[0] is b


@pytest.mark.usefixtures("by_library")
def test_hooks_that_fail_leave_no_state_behind() -> None:
    """Of saved tensors, of results, and inside of torch.func: later gradients are right."""
    a, b = tensor(torch.float64, 3, 3), tensor(torch.float64, 3, 3, seed=1)

    def fails(*_: Any) -> Any:
        raise RuntimeError("this hook fails")

    def saved(pack: Any, unpack: Any) -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            L.solve(shifted(a), b).sum().backward()

    def hooked() -> None:
        result = ms.matmul(a, b)
        result.register_hook(fails)
        result.sum().backward()

    def inside() -> None:
        torch.func.grad(lambda x: fails(ms.gram(x)))(a.detach())

    for call in (lambda: saved(fails, abs), lambda: saved(abs, fails), hooked, inside):
        with pytest.raises(RuntimeError, match="this hook fails"):
            call()
        results = L.solve(shifted(a), b), ms.matmul(a, b)
        expected = torch.linalg.solve(shifted(a), b), a @ b
        ours, theirs = (torch.autograd.grad(sum(one.sin().sum() for one in of), (a, b)) for of in (results, expected))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)
        assert not torch._C._are_functorch_transforms_active() and torch.is_grad_enabled()


@pytest.mark.usefixtures("by_library")
def test_what_backward_saved_may_not_be_overwritten() -> None:
    a = tensor(torch.float64, 2, 2, 2).detach().requires_grad_()
    x = L.solve(shifted(a), torch.ones(2, 2, 1, dtype=torch.float64))
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


@pytest.mark.usefixtures("by_library")
def test_gradients_where_none_exist() -> None:
    """Equal eigenvalues: eigenvalues have a gradient, eigenvectors none, as in PyTorch; cofactors exist for singular
    matrices, and polar factors for equal singular values."""
    a = torch.eye(2, dtype=torch.float64, requires_grad=True)
    assert torch.isfinite(torch.autograd.grad(L.eigvalsh(a).sum(), a)[0]).all()
    assert not torch.isfinite(torch.autograd.grad(L.eigh(a).eigenvectors[0].sum(), a)[0]).all()
    assert torch.isfinite(torch.autograd.grad(L.polar(a).u.sum(), a)[0]).all()
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(L.det(singular), singular)[0]
    torch.testing.assert_close(found, torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=torch.float64))


@pytest.mark.usefixtures("by_library")
def test_refusals_name_the_remedy() -> None:
    a = tensor(torch.float64, 4, 2)
    for call, text in (
        (lambda: ms.gram(a, out=torch.empty(2, 2, dtype=torch.float64)), "out cannot record.*no_grad"),
        (lambda: L.svd(a), "full_matrices=False"),
        (lambda: L.svd_ex(a), "full_matrices=False"),
        (lambda: L.lu_factor_ex(a), "square"),
        (lambda: L.qr(a, "complete"), "mode='reduced'"),
        (lambda: L.lu_factor(a), "square"),
        (lambda: ms.cholesky_qr(a, on_deficient="flag"), "full rank"),
        (lambda: L.matrix_rank(a), "requires a gradient"),
        (lambda: L.qr(ms.Ragged.from_list([a.detach()]).__class__(a.reshape(-1), [2], [2])), "gradient|derivative"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


# ---- torch.func -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("by_library")
def test_transformations_of_torch_func() -> None:
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

    a = shifted(tensor(torch.float64, 3, 2, 2)).detach()
    b, v, tall = (tensor(torch.float64, *shape).detach() for shape in ((3, 2, 2), (3, 2), (3, 5, 2)))
    T = torch.linalg
    same = torch.testing.assert_close
    same(vmap(L.solve)(a, v), T.solve(a, v[..., None])[..., 0])
    same(vmap(L.solve, in_dims=(None, 0))(a[0], b), T.solve(a[0], b))
    same(vmap(ms.matmul, in_dims=(1, 0))(a.movedim(0, 1), b), a @ b)
    same(vmap(ms.gram, in_dims=(0, None))(tall, tall[0]), tall.mT @ tall[0])
    same(vmap(ms.cholesky_qr)(tall)[1], T.cholesky(tall.mT @ tall).mT)
    same(vmap(lambda x: ms.sparse.matrix(SQUARE) @ x)(tall[:, :3]), torch.tensor(SQUARE.toarray()) @ tall[:, :3])
    each = [vmap(grad(lambda x, y, of=of: of.solve(x, y).sin().sum()))(a, v) for of in (L, T)]
    same(*each)
    same(jacrev(L.inv)(a[0]), jacrev(T.inv)(a[0]))
    same(jacfwd(L.inv)(a[0]), jacfwd(T.inv)(a[0]))
    same(hessian(lambda x: L.slogdet(x)[1])(a[0]), hessian(lambda x: T.slogdet(x)[1])(a[0]))
    for ours, theirs in (
        (ms.matmul, torch.matmul),
        (L.solve, T.solve),
        (lambda x, _: L.cholesky(positive(x)), lambda x, _: T.cholesky(positive(x))),
        (lambda x, _: L.det(x), lambda x, _: T.det(x)),
        (lambda x, _: tuple(p.abs() for p in L.qr(x)), lambda x, _: tuple(p.abs() for p in T.qr(x))),
        (lambda x, _: L.eigh(positive(x))[1].abs(), lambda x, _: T.eigh(positive(x))[1].abs()),
        (lambda x, y: ms.blas.trsm(x, y), lambda x, y: T.solve_triangular(x.tril(), y, upper=False)),
    ):
        same(jvp(ours, (a, b), (b, a)), jvp(theirs, (a, b), (b, a)))
    same(jvp(L.pinv, (a,), (b,)), jvp(T.pinv, (a,), (b,)))
    values, x = torch.tensor(MATRIX.data), tensor(torch.float64, 4).detach()
    for of, at in (
        (lambda x: L.polar(x)[1], tall[0, :3]),
        (lambda v: ms.sparse.matrix(MATRIX).with_values(v) @ x, values),
    ):
        same(jacfwd(jacrev(of))(at), jacrev(jacrev(of))(at))


# ---- graphs -----------------------------------------------------------------------------------------------

COMPILED: dict[str, Callable[..., Any]] = {
    "products": lambda a, b, t: (ms.gram(t) @ ms.matmul(a, b), ms.blas.gemm(a, b, trans_a="T")),
    "systems": lambda a, b, t: (L.solve(a, b), L.solve_ex(a, b)[0], L.inv(a), L.det(a), ms.blas.trsm(a, b)),
    "factors": lambda a, b, t: (L.cholesky(positive(a)), L.qr(t).R.abs(), L.eigh(positive(a))[0], L.svd(a)[1]),
}


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", COMPILED)
def test_functions_are_nodes_of_one_graph(name: str) -> None:
    given = [shifted(tensor(torch.float64, 2, 2, 2)), tensor(torch.float64, 2, 2, 2), tensor(torch.float64, 5, 2)]
    operands = [one.detach().requires_grad_() for one in given]
    torch._dynamo.reset()
    compiled = torch.compile(COMPILED[name], backend="aot_eager", fullgraph=True)

    def run(function: Callable[..., Any]) -> tuple[Any, Any]:
        results = function(*operands)
        return results, torch.autograd.grad(sum(one.square().sum() for one in results), operands, allow_unused=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(run(compiled), run(COMPILED[name]))
        with torch.no_grad():
            torch.testing.assert_close(compiled(*operands), COMPILED[name](*operands))


class Layer(torch.nn.Module):
    """A system per sample."""

    def forward(self, a: Any, b: Any) -> Any:
        return L.solve(a, b) + ms.gram(b[0])


@pytest.mark.usefixtures("by_library")
def test_modules_are_exported() -> None:
    a, b = shifted(tensor(torch.float64, 2, 2, 2)).detach(), tensor(torch.float64, 2, 2, 2).detach()
    program = torch.export.export(Layer(), (a, b))
    assert any("mansard" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(a, b), Layer()(a, b))


@pytest.mark.usefixtures("by_library")
def test_operators_keep_their_promises() -> None:
    from mansard.frameworks import torch_operators

    a, tall = shifted(tensor(torch.float64, 2, 2, 2)).detach(), tensor(torch.float64, 5, 2).detach()
    assert torch_operators.RULES
    operators = torch.ops.mansard
    for operator, operands, options in (
        (operators.gram, [tall], {}),
        (operators.matmul, [a.mT, a], {}),
        (operators.linalg_solve, [a, a[..., ::1]], {"assume_a": "gen"}),
        (operators.linalg_qr, [tall], {}),
        (operators.linalg_solve_ex, [a[0], a], {}),
        (operators.linalg_cholesky_ex, [positive(a)], {}),
        (operators.linalg_eigh, [hermitian(a)], {}),
    ):
        torch.library.opcheck(operator, (operands, repr(options)))


TALL, STACK = ((5, 2),), ((2, 2, 2),)
OPERATORS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {  # shapes of operands, options
    **{name: (STACK * 2, {}) for name in ("matmul", "blas.gemm", "linalg.solve_ex", "lyapunov")},
    **{name: (TALL, {}) for name in (
        "gram", "linalg.qr", "cholesky_qr", "linalg.svd", "linalg.pinv", "linalg.polar", "nuclear",
    )},
    **{name: (STACK, {}) for name in (
        "linalg.inv", "linalg.inv_ex", "linalg.det", "linalg.slogdet", "linalg.cholesky", "linalg.cholesky_ex",
        "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.eigh", "linalg.eigh_ex",
    )},
    "matmul_gram": (((5, 2), (2, 2)), {}), "project": (TALL * 2, {}), "linalg.lstsq": (TALL * 2, {}),
    "orthogonalize": (((5, 2), (5, 1)), {}), "blas.syrk": (STACK, {"uplo": "L"}), "blas.herk": (STACK, {"uplo": "L"}),
    "blas.trsm": (STACK * 2, {"uplo": "L", "diag": "N"}), "linalg.solve": (STACK * 2, {"assume_a": "gen"}),
    "linalg.svd_ex": (TALL, {"full_matrices": False}),
}  # fmt: skip


@pytest.mark.usefixtures("by_library")
def test_every_operator_has_the_schema_and_the_shapes_that_it_promises() -> None:
    from mansard.frameworks import torch_operators

    assert set(OPERATORS) == set(torch_operators._OPERATORS)
    for name, (shapes, options) in OPERATORS.items():
        operands = [tensor(torch.float64, *shape, seed=i).detach() for i, shape in enumerate(shapes)]
        if len(shapes[0]) > 2:
            operands[0] = positive(operands[0])
        elif name == "orthogonalize":
            operands[1] = torch.linalg.qr(operands[1])[0]
        told = (operands, repr(options))
        utilities = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch_operators._OPERATORS[name], told, test_utils=utilities)
