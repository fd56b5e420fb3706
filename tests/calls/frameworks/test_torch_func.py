"""Transformations of torch.func: compositions of grad, vmap and jvp, and vmap of every differentiable function."""

from __future__ import annotations

from typing import Any

import pytest
from sparing import SHARE, sliced
from torch_cases import CASES, MATRIX, SQUARE, by_squares, laid, layouts_of, positive, shifted, tensor

import mansard as ms

torch = pytest.importorskip("torch")
L = ms.linalg


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


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", sliced(list(CASES), 4))
def test_every_function_is_mapped(name: str) -> None:
    """Mapped dimensions of every operand, in front and behind, and of the last operand alone; gradients, too."""
    from torch.func import grad, vmap

    case = CASES[name]
    dtype = (torch.float64, torch.complex128)[SHARE.seed % 2]
    leaves = [one.detach() for one in case.leaves(dtype, 3)]
    operands = [laid(one, layout) for one, layout in zip(case.operands(leaves), layouts_of(name), strict=False)]
    places = [(0, -1)[(i + SHARE.seed) % 2] for i in range(len(operands))]
    moved = [one.movedim(0, place) for one, place in zip(operands, places, strict=True)]

    def loss(*given: Any) -> Any:
        return by_squares(case.ours(*given))

    def compare(in_dims: tuple[Any, ...], given: list[Any], each: list[list[Any]]) -> None:
        found = vmap(case.ours, in_dims)(*given)
        expected = [case.ours(*some) for some in each]
        if not isinstance(found, tuple):
            found, expected = (found,), [(one,) for one in expected]
        for part, singles in zip(found, zip(*expected, strict=True), strict=True):
            torch.testing.assert_close(part, torch.stack(singles))
        gradients = vmap(grad(loss), in_dims)(*given)
        torch.testing.assert_close(gradients, torch.stack([grad(loss)(*some) for some in each]))

    compare(tuple(places), moved, [list(some) for some in zip(*operands, strict=True)])
    if len(operands) > 1:
        first, last = operands[0][0], operands[-1]
        compare((None, 0), [first, last], [[first, one] for one in last])
