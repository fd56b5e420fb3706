"""Derivatives of Mansard's functions in PyTorch, of first and second order.

They are formulas in terms of Mansard's functions: LAPACK answers for most of these tests, so that formulas are tested
and nothing is compiled. One test takes them through kernels. Transformations and graphs are in `test_torch_func.py`
and `test_torch_graphs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from sparing import crossed, sliced
from torch_cases import (
    CASES,
    first_gradients,
    hermitian,
    laid,
    layouts_of,
    least_squares,
    positive,
    shifted,
    tensor,
    without_phases,
)

import mansard as ms

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

L = ms.linalg
DTYPES = (torch.float64, torch.complex128)


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize(("name", "dtype"), crossed(list(CASES), DTYPES), ids=str)
def test_derivatives(name: str, dtype: Any) -> None:
    check_derivatives(name, dtype, "cpu")


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize(("name", "dtype"), sliced([(n, d) for d in DTYPES for n in CASES], 4), ids=str)
def test_second_derivatives(name: str, dtype: Any) -> None:
    check_second_derivatives(name, dtype, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@pytest.mark.parametrize(("name", "dtype"), crossed(list(CASES), DTYPES), ids=str)
def test_derivatives_on_a_gpu(name: str, dtype: Any) -> None:
    """By kernels, cuBLAS and cuSOLVER; backward runs in a thread of its own."""
    check_derivatives(name, dtype, "cuda")
    check_second_derivatives(name, dtype, "cuda")


def check_derivatives(name: str, dtype: Any, device: str) -> None:
    ours, theirs, *_ = case = CASES[name]
    leaves, layouts = case.leaves(dtype, device=device), layouts_of(name)
    assert gradcheck(lambda *x: ours(*case.operands(x, layouts)), leaves, fast_mode=True, check_forward_ad=True)
    if theirs is not None:
        found = first_gradients(lambda *x: ours(*case.operands(x, layouts)), leaves)
        expected = first_gradients(lambda *x: theirs(*case.operands(x)), leaves)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


def check_second_derivatives(name: str, dtype: Any, device: str) -> None:
    case, layouts = CASES[name], layouts_of(name)
    leaves, ours = case.leaves(dtype, device=device), case.ours
    assert gradgradcheck(
        lambda *x: ours(*case.operands(x, layouts)), leaves, fast_mode=True, gen_non_contig_grad_outputs=True
    )


@pytest.mark.usefixtures("by_library")
def test_second_derivatives_of_residuals_that_are_zero() -> None:
    """|b - A x|^2 has second derivatives where |b - A x| has none: twice a projection, for every b."""
    a, b = tensor(torch.float64, 4, 2).detach(), torch.zeros(4, 1, dtype=torch.float64)
    found = torch.autograd.functional.hessian(lambda b: L.lstsq(a, b, driver="qr").residuals.sum(), b)
    torch.testing.assert_close(found[:, 0, :, 0], 2 * (torch.eye(4, dtype=a.dtype) - a @ torch.linalg.pinv(a)))


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
    shapes = [(2, 3, 3), (2, 3, 2)][: 1 + (name == "solve")]
    operands = [laid(tensor(dtype, *shape), layout).detach().requires_grad_() for shape in shapes]
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


EQUAL = [[1.0, 0.0], [0.0, 1.0]]  # singular values, and eigenvalues
DEFICIENT = [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [1.0, 0.0]]  # rank 1
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
RIGHT = torch.tensor([[1.0], [2.0], [3.0], [5.0]], dtype=torch.float64)
T = torch.linalg
# where a gradient exists, and where none does: loss with ms.linalg or torch.linalg, and the matrix
EXISTING: dict[str, tuple[Callable[..., Any], Any]] = {
    "singular values, equal": (lambda of, a: of.svdvals(a).sum(), EQUAL),
    "largest singular value": (lambda of, a: of.svdvals(a)[0], DEFICIENT),
    "eigenvalues, equal": (lambda of, a: of.eigvalsh(a).sum(), EQUAL),
    "pinv": (lambda of, a: of.pinv(a).square().sum(), DEFICIENT),
    "lstsq": (lambda of, a: (L.lstsq(a, RIGHT).x if of is L else least_squares(a, RIGHT)).square().sum(), DEFICIENT),
    "nuclear norm, equal": (lambda of, a: of.norm(a, "nuc"), EQUAL),
}
MISSING: dict[str, tuple[Callable[..., Any], Any]] = {
    "svd, equal": (lambda of, a: of.svd(a, False)[0].sum(), EQUAL),
    "svd, zero": (lambda of, a: of.svd(a, False)[0].sum(), DEFICIENT),
    "U V^H of svd, equal": (lambda of, a: (lambda u, _, v: (u * v.mT).sum())(*of.svd(a, False)), EQUAL),
    "eigh, equal": (lambda of, a: of.eigh(a)[1][0].sum(), EQUAL),
    "qr": (lambda of, a: of.qr(a)[0].sum(), DEFICIENT),
    "slogdet": (lambda of, a: of.slogdet(a)[1], [[1.0, 0.0], [0.0, 0.0]]),
    "inv": (lambda of, a: of.inv(a).sum(), SINGULAR),
    "solve": (lambda of, a: of.solve(a, RIGHT[:2]).sum(), SINGULAR),
    "cholesky": (lambda of, a: of.cholesky(a).sum(), [[1.0, 2.0], [2.0, 1.0]]),
}


def gradient_of(loss: Callable[..., Any], of: Any, matrix: Any) -> Any:
    """The gradient with PyTorch's functions or ours; the error that was raised in its place."""
    a = torch.tensor(matrix, dtype=torch.float64, requires_grad=True)
    try:
        return torch.autograd.grad(loss(of, a), a)[0]
    except np.linalg.LinAlgError as error:
        return error
    except torch.linalg.LinAlgError as error:
        return error


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", EXISTING)
def test_gradients_of_deficient_matrices_are_those_of_pytorch(name: str) -> None:
    torch.testing.assert_close(*(gradient_of(EXISTING[name][0], of, EXISTING[name][1]) for of in (L, T)))


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", MISSING)
def test_gradients_that_do_not_exist_raise_or_are_no_numbers_as_in_pytorch(name: str) -> None:
    ours, theirs = (gradient_of(MISSING[name][0], of, MISSING[name][1]) for of in (L, T))
    assert isinstance(ours, Exception) == isinstance(theirs, Exception), (ours, theirs)
    if not isinstance(ours, Exception):
        assert not torch.isfinite(theirs).all(), theirs
        assert not torch.isfinite(ours).all(), ours


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


def test_factors_of_lists_are_differentiated_one_by_one() -> None:
    """Factors are tuples of lists, (lu, piv) or (c, lower); refusals of an element are those of a single matrix."""
    made = [torch.eye(n, dtype=torch.float64) * (n + 1) + 1 for n in (2, 3)]  # symmetric, positive definite
    for solve, factors in (
        (ms.linalg.lu_solve, ms.linalg.lu_factor(made)),
        (ms.linalg.cho_solve, (ms.linalg.cholesky(made), True)),
    ):
        right = [torch.ones(n, 1, dtype=torch.float64, requires_grad=True) for n in (2, 3)]
        sum(one.sum() for one in solve(factors, right)).backward()
        for a, b in zip(made, right, strict=True):
            torch.testing.assert_close(b.grad, torch.linalg.inv(a).sum(0)[:, None], rtol=1e-14, atol=1e-15)
        with pytest.raises(ValueError, match="lists of 1 and 2 operands"):
            solve(factors, right[:1])
    for a in (made, made[0]):
        leaves = [one.clone().requires_grad_() for one in a] if isinstance(a, list) else a.clone().requires_grad_()
        with pytest.raises(ms.errors.Transformed, match="mode='raw' has no derivative"):
            ms.linalg.qr(leaves, mode="raw")


def test_sparse_tensors_in_forward_mode() -> None:
    """They carry no tangent, and PyTorch cannot unpack them."""
    dense, x = torch.tensor([[1.0, 0, 2], [0, 3, 0]]), torch.tensor([1.0, 2, 3])
    with torch.autograd.forward_ad.dual_level():
        made = ms.sparse.matrix(dense.to_sparse_csr()) @ torch.autograd.forward_ad.make_dual(x, -x)
        found = torch.autograd.forward_ad.unpack_dual(made)
        assert found.primal.tolist() == (dense @ x).tolist() and found.tangent.tolist() == (dense @ -x).tolist()
