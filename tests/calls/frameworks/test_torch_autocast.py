"""torch.autocast changes nothing: functions compute in the dtype of their operands, and so do their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boundary_cases
import pytest
import torch_cases
from conftest import needs_cpu
from torch_cases import CASES, MATRIX, first_gradients, laid, layouts_of, tensor

import mansard as ms
from mansard.errors import UnsupportedProblem
from mansard.operations.launcher import LAUNCHER

torch = pytest.importorskip("torch")


def autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def single(array: Any) -> Any:
    """A tensor of 32-bit numbers where the array holds 64-bit ones."""
    made = torch.from_numpy(array)
    return made.float() if made.dtype is torch.float64 else made


def tensors_of(results: Any) -> list[Any]:
    if isinstance(results, ms.Ragged):
        return results.to_list()
    if isinstance(results, tuple | list):
        return [one for part in results for one in tensors_of(part)]
    return [] if results is None else [torch.as_tensor(results)]


def same_bits(call: Callable[[], Any]) -> None:
    """The call gives the same numbers of the same dtypes with autocast and without."""
    plain = tensors_of(call())
    with autocast():
        cast = tensors_of(call())
    assert len(plain) == len(cast) > 0
    for one, other in zip(cast, plain, strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


def test_autocast_would_change_a_product_of_pytorch() -> None:
    a = tensor(torch.float32, 3, 3).detach()
    with autocast():
        assert (a @ a).dtype is torch.bfloat16


# operands in one dtype that any function takes, and results without gaps in their memory
BOUNDARY = [
    case for case in boundary_cases.CASES
    if not any(word in case.name for word in ("agged", "refined"))
    and not any(one.startswith(("sparse.matrix", "sparse.Matrix", "matrix_powers")) for one in case.functions)
]  # fmt: skip


@pytest.mark.usefixtures("by_library")
def test_results_by_libraries() -> None:
    """Every public function of dense arrays, and products of ragged batches."""
    for case in BOUNDARY:
        same_bits(lambda case=case: case.call(boundary_cases.given(case, single)))  # type: ignore[misc]
    stack = single(boundary_cases.STACK)
    same_bits(lambda: ms.matmul(boundary_cases.ragged(stack), boundary_cases.ragged(stack)))
    x = tensor(torch.float32, 4, 2).detach()
    same_bits(lambda: ms.sparse.matrix(torch_cases.sparse(MATRIX, x)) @ x)


@needs_cpu
@pytest.mark.usefixtures("by_library")
def test_later_calls_by_the_native_launcher() -> None:
    if not LAUNCHER.wait():
        pytest.skip("no native launcher here")
    square, tall = tensor(torch.float32, 8, 8).detach(), single(boundary_cases.TALL)
    for call in (lambda: ms.matmul(square, square), lambda: ms.gram(tall), lambda: ms.gram(tall, tall + 1)):
        for _ in range(3):
            same_bits(call)


@needs_cpu
def test_results_by_kernels() -> None:
    tall = single(boundary_cases.TALL)
    held = ms.plan("gram", tall)
    assert "kernel" in str(held.choice.route).lower(), held.choice
    same_bits(lambda: held(tall))
    same_bits(lambda: ms.gram(tall))


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", [name for name in CASES if "refined" not in name])  # which is for 64-bit numbers
def test_gradients(name: str) -> None:
    """Backward under autocast, and outside of it after a forward under autocast."""
    case = CASES[name]
    operands = case.operands(case.leaves(torch.float32), layouts_of(name))
    operands = [one.detach().requires_grad_() for one in operands]
    same_bits(lambda: first_gradients(case.ours, operands))
    expected = first_gradients(case.ours, operands)
    with autocast():
        loss = torch_cases.by_squares(case.ours(*operands))
    for one, other in zip(torch.autograd.grad(loss, operands), expected, strict=True):
        assert one.dtype is torch.float32 and torch.equal(one, other)


@pytest.mark.usefixtures("by_library")
def test_second_gradients_of_combined_powers() -> None:
    """Weights of a combination multiply cotangents of powers."""
    x = tensor(torch.float32, 3)
    case = CASES["powers, combined"]

    def twice() -> Any:
        (first,) = torch.autograd.grad(case.ours(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)

    same_bits(twice)


@pytest.mark.usefixtures("by_library")
def test_low_precision_is_refused_as_without_autocast() -> None:
    half = tensor(torch.float32, 3, 3).detach().bfloat16()
    with autocast():
        assert ms.matmul(half, half).dtype is torch.bfloat16  # PyTorch's own product, as without autocast
        for call in (ms.gram, ms.linalg.inv, lambda a: ms.linalg.solve(a, a)):
            with pytest.raises((TypeError, UnsupportedProblem), match=r"bfloat16.*convert"):
                call(half)
        with pytest.raises(TypeError, match=r"A has dtype bfloat16 and B float32: convert"):
            ms.matmul(half, half.float())


@pytest.mark.usefixtures("by_library")
def test_graphs() -> None:
    """Of functions that are compiled under autocast, and of those that enter it."""
    a, b = (laid(tensor(torch.float32, 2, 3, 3, seed=i).detach(), "padded").requires_grad_() for i in range(2))

    def chain(a: Any, b: Any) -> Any:
        return ms.matmul(ms.blas.syrk(a), ms.linalg.solve(a, b)) + ms.linalg.cholesky(ms.gram(b[0]))

    def inside(a: Any, b: Any) -> Any:
        with autocast():
            return chain(a, b)

    torch._dynamo.reset()
    expected = first_gradients(chain, [a, b])
    for function in (chain, inside):
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        with autocast():
            assert compiled(a, b).dtype is torch.float32
            found = first_gradients(compiled, [a, b])
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
