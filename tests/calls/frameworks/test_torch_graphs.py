"""torch.compile, torch.export and the operators that both put in their graphs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from sparing import SHARE, sliced
from torch_cases import (
    CASES,
    LAYOUTS,
    MATRIX,
    SQUARE,
    first_gradients,
    hermitian,
    laid,
    layouts_of,
    positive,
    shifted,
    tensor,
)

import mansard as ms

torch = pytest.importorskip("torch")
L = ms.linalg
SPARSE = ("sparse", "sparse values", "powers", "powers, combined")  # which store a matrix in the call


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


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", sliced([name for name in CASES if name not in SPARSE], 8))
def test_every_function_is_a_node(name: str) -> None:
    """Operands of every layout, results and gradients."""
    case = CASES[name]
    operands = case.operands(case.leaves(torch.float64), layouts_of(name))
    operands = [one.detach().requires_grad_() for one in operands]
    torch._dynamo.reset()
    compiled = torch.compile(case.ours, backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(compiled(*operands), case.ours(*operands))
        torch.testing.assert_close(first_gradients(compiled, operands), first_gradients(case.ours, operands))


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.rotated(12))])
def test_nodes_of_dynamic_shapes(backend: str) -> None:
    """Inductor's own kernels take a C++ compiler most of a minute: it runs in turn."""

    def chain(a: Any, b: Any) -> Any:
        return L.solve(a, b.sin() + 1).cos() * ms.gram(b[0]).sum()

    torch._dynamo.reset()
    compiled = torch.compile(chain, fullgraph=True, dynamic=True, backend=backend)
    for count in (3, 4, 6):
        a = shifted(tensor(torch.float64, count, 2, 2)).detach().requires_grad_()
        b = tensor(torch.float64, count, 2, 3)
        torch.testing.assert_close(compiled(a, b), chain(a, b))
        torch.testing.assert_close(first_gradients(compiled, [a, b]), first_gradients(chain, [a, b]))


class Stencil(torch.nn.Module):
    """Products with matrices that are stored outside of the graph."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.matrix, self.square = ms.sparse.matrix(MATRIX * scale), ms.sparse.matrix(SQUARE)
        self.adjoint = self.matrix.H
        self.powers = ms.matrix_powers(SQUARE, 2, ("chebyshev", -3.0, 8.0))

    def forward(self, x: Any) -> Any:
        first = self.matrix.product(x.sin())
        both = self.powers(first.cos())
        return self.adjoint.matvec(both.sum(0)), self.matrix.dot(x), self.square.recurrence(first, both[1])


@pytest.mark.usefixtures("by_library")
def test_products_with_stored_matrices_are_nodes_of_one_graph() -> None:
    x = tensor(torch.float64, 4)
    layers = [Stencil(), Stencil(2.0)]
    torch._dynamo.reset()
    compiled = torch.compile(lambda layer, x: layer(x), backend="aot_eager", fullgraph=True)
    for layer in layers:  # another matrix makes another graph
        for _ in range(2):
            torch.testing.assert_close(compiled(layer, x), layer(x))
        found = first_gradients(lambda x, layer=layer: compiled(layer, x), [x])
        torch.testing.assert_close(found, first_gradients(layer, [x]))
        with torch.no_grad():
            torch.testing.assert_close(compiled(layer, x), layer(x))
    for module in (layers[0], Layer(lambda x: layers[0].matrix @ x)):
        program = torch.export.export(module, (x.detach(),))
        torch.testing.assert_close(program.module()(x.detach()), module(x.detach()))


@pytest.mark.usefixtures("by_library")
def test_the_operator_of_products_breaks_the_graph() -> None:
    """PyTorch's compiler takes `@` with a tensor for its own; `product` is a node."""
    matrix, x = ms.sparse.matrix(MATRIX), tensor(torch.float64, 4)
    torch._dynamo.reset()
    broken = torch.compile(lambda x: (matrix @ x.sin()).cos(), backend="aot_eager")
    torch.testing.assert_close(broken(x), (matrix @ x.sin()).cos())
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Matrix"):
        torch.compile(lambda x: matrix @ x, backend="aot_eager", fullgraph=True)(x)


@pytest.mark.usefixtures("by_library")
def test_graphs_do_not_keep_matrices() -> None:
    from mansard.frameworks import torch_operators
    from mansard.frameworks.pullbacks.sparse import Pattern, PowersPattern, Side

    matrix, powers = ms.sparse.matrix(MATRIX), ms.matrix_powers(SQUARE, 2)
    x, operators = tensor(torch.float64, 4).detach(), torch.ops.mansard
    adjoint = torch_operators.written({"side": Side(Pattern(matrix), True, True)})
    for operator, operand, options in (
        (operators.sparse_product, x, torch_operators.written({"side": Side(Pattern(matrix))})),
        (operators.sparse_product, laid(x, "sliced")[:3], adjoint),
        (operators.sparse_powers, x[:3], torch_operators.written({"pattern": PowersPattern(powers)})),
    ):
        torch.library.opcheck(operator, ([operand], options))
    torch.testing.assert_close(operators.sparse_product([x[:3]], adjoint)[0], matrix.H @ x[:3])
    del matrix
    gc.collect()
    with pytest.raises(TypeError, match="no longer there: keep the matrix as long as the compiled function"):
        operators.sparse_product([x[:3]], adjoint)


class Layer(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Any) -> Any:
        return self.function(*operands)


EXPORTED: dict[str, Callable[..., Any]] = {
    "a system per sample": lambda a, b: L.solve(a, b) + ms.gram(b[0]),
    "factors": lambda a, b: (L.cholesky_ex(positive(a))[0], *L.qr(b), *L.lu_factor(a), L.eigvalsh(positive(a))),
    "a chain of products": lambda a, b: ms.blas.syrk(ms.matmul(ms.blas.gemm(a, b, trans_a="T"), b), alpha=2.0),
}


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", EXPORTED)
def test_modules_are_exported(name: str) -> None:
    a, b = shifted(tensor(torch.float64, 2, 2, 2)).detach(), laid(tensor(torch.float64, 2, 2, 2).detach(), "padded")
    layer = Layer(EXPORTED[name])
    program = torch.export.export(layer, (a, b))
    assert any("mansard" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(a, b), layer(a, b))


@pytest.mark.usefixtures("by_library")
def test_operators_keep_their_promises() -> None:
    from mansard.frameworks import torch_operators

    a, tall = shifted(tensor(torch.float64, 2, 2, 2)).detach(), tensor(torch.float64, 5, 2).detach()
    assert torch_operators.RULES
    operators = torch.ops.mansard
    for operator, operands, options in (
        (operators.gram, [tall], {}),
        (operators.matmul, [a.mT, a], {}),
        (operators.linalg_solve, [laid(a, "padded"), laid(a, "sliced")], {"assume_a": "gen"}),
        (operators.linalg_qr, [laid(tall, "transposed")], {}),
        (operators.linalg_solve_ex, [a[0], laid(a, "transposed")], {}),
        (operators.linalg_cholesky_ex, [positive(a)], {}),
        (operators.linalg_eigh, [hermitian(a)], {}),
    ):
        torch.library.opcheck(operator, (operands, repr(options)))


TALL, STACK = ((5, 2),), ((2, 2, 2),)
OPERATORS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {  # shapes of operands, options
    **{name: (STACK * 2, {}) for name in ("matmul", "blas.gemm", "linalg.solve_ex", "lyapunov")},
    **{name: (STACK * 2, {"uplo": "L"}) for name in ("blas.syr2k", "blas.her2k")},
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

    assert {*OPERATORS, "sparse.product", "sparse.powers"} == set(torch_operators._OPERATORS)
    for number, (name, (shapes, options)) in enumerate(OPERATORS.items()):
        operands = [tensor(torch.float64, *shape, seed=i).detach() for i, shape in enumerate(shapes)]
        if len(shapes[0]) > 2:
            operands[0] = positive(operands[0])
        elif name == "orthogonalize":
            operands[1] = torch.linalg.qr(operands[1])[0]
        layout = LAYOUTS[(number + SHARE.seed) % len(LAYOUTS)]
        told = ([laid(one, layout) for one in operands], repr(options))
        utilities = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch_operators._OPERATORS[name], told, test_utils=utilities)
