"""Differentiable functions on small tensors: the table that tests of PyTorch's transformations walk.

A case turns leaves into operands (`made`: shifted, positive definite, Hermitian), and `laid` gives operands the memory
layout that is tested: what is made of a transposed leaf need not be transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from sparing import SHARE

import mansard as ms

torch = pytest.importorskip("torch")
L = ms.linalg
LAYOUTS = ("plain", "transposed", "sliced", "padded", "conjugated")


def tensor(dtype: Any, *shape: int, seed: int = 0, device: str = "cpu") -> Any:
    """Normal numbers, which are a leaf."""
    normal = torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + len(shape) + sum(shape)))
    return normal.to(device).requires_grad_()


def laid(a: Any, layout: str) -> Any:
    """The same numbers in another memory layout, recorded."""
    if layout == "sliced":  # every second number, of vectors, too
        return torch.stack((a, a), -1)[..., 0]
    if layout == "transposed" and a.dim() > 1:
        return a.mT.contiguous().mT
    if layout == "padded" and a.dim() > 1:
        return torch.nn.functional.pad(a, (1, 2, 1, 0))[..., 1:, 1:-2]
    if layout == "conjugated":  # lazily, of complex numbers
        return a.conj().resolve_conj().conj()
    return a


def shifted(a: Any) -> Any:
    return a + 4 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def positive(a: Any) -> Any:
    return a @ a.mH + 2 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def hermitian(a: Any) -> Any:
    return a + a.mH


def orthonormal(a: Any) -> Any:
    return torch.linalg.qr(a)[0]


def without_phases(parts: Any) -> Any:
    """What does not depend on the phases of vectors."""
    return tuple(part.abs() if part.dim() > 2 else part for part in parts)


def least_squares(a: Any, b: Any) -> Any:
    return torch.linalg.lstsq(a, b, driver="gelsd" if a.is_cpu else "gels").solution


MATRIX = scipy.sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 0, 5]]))
SQUARE = scipy.sparse.csr_array(np.array([[1.0, 2, 0], [0, 3, 4], [5, 0, 6]]))


def sparse(matrix: Any, like: Any) -> Any:
    """A matrix of SciPy's in the dtype and on the device of a tensor."""
    matrix = matrix.astype(str(like.dtype)[6:])
    if like.is_cpu:
        return matrix
    parts = (torch.from_numpy(one) for one in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*parts, matrix.shape).to(like.device)


class Case(NamedTuple):
    """A function of ours, PyTorch's where it has one, shapes of leaves, and what operands are made of them."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any] | None
    shapes: tuple[tuple[int, ...], ...]
    made: tuple[Callable[[Any], Any] | None, ...] = ()

    def leaves(self, dtype: Any, *leading: int, device: str = "cpu") -> list[Any]:
        """Leaves of which no two are equal, with these leading dimensions."""
        shapes = [(*leading, *shape) for shape in self.shapes]
        return [tensor(dtype, *shape, seed=100 * i, device=device) for i, shape in enumerate(shapes)]

    def operands(self, leaves: Sequence[Any], layouts: Sequence[str] = ()) -> list[Any]:
        """Operands made of leaves, in these layouts."""
        found = [make(one) if make else one for one, make in zip(leaves, (*self.made, None, None), strict=False)]
        return [laid(one, layout) for one, layout in zip(found, layouts, strict=False)] if layouts else found


def layouts_of(name: str, count: int = 3) -> list[str]:
    """Layouts of the operands of a case in this run: all of them in turn, in operands and in runs."""
    first = list(CASES).index(name) + SHARE.seed
    return [LAYOUTS[(first + 2 * i) % len(LAYOUTS)] for i in range(count)]


_STACK, _TALL = ((2, 2, 2),), ((2, 4, 2),)
_PAIR = _STACK * 2

CASES: dict[str, Case] = {
    "gram": Case(ms.gram, lambda a: a.mH @ a, ((5, 2),)),
    "gram of two": Case(lambda a, b: ms.gram(a, b, alpha=2.0), lambda a, b: 2 * a.mH @ b, ((5, 2), (5, 3))),
    "gram without conj": Case(lambda a, b: ms.gram(a, b, conj=False), lambda a, b: a.mT @ b, ((5, 2), (5, 3))),
    "matmul": Case(ms.matmul, torch.matmul, ((5, 2), (2, 3))),
    "matmul, broadcast": Case(ms.matmul, torch.matmul, ((3, 1, 2, 2), (2, 2, 2))),
    "matmul, one for all": Case(ms.matmul, torch.matmul, ((3, 2, 2), (2, 3))),
    "matmul of vectors": Case(ms.matmul, torch.matmul, ((2,), (3, 2, 2))),
    "gemm": Case(
        lambda a, b: ms.blas.gemm(a, b, trans_a="C", trans_b="T", alpha=0.5), lambda a, b: a.mH @ b.mT / 2,
        ((3, 2, 2), (1, 3, 2)),
    ),
    "gemv": Case(
        lambda a, x: ms.blas.gemv(a, x, trans="T"), lambda a, x: (a.mT @ x[..., None])[..., 0], ((3, 2, 4), (3, 2)),
    ),
    "dot": Case(
        lambda x, y: ms.blas.dot(x, y, conj=True), lambda x, y: (x.conj() * y).sum(-1), ((3, 2), (3, 2)),
    ),
    "ger": Case(
        lambda x, y: ms.blas.ger(x, y, alpha=3.0), lambda x, y: 3 * x[..., None] * y[..., None, :], ((3, 2), (3, 4)),
    ),
    "syrk": Case(ms.blas.syrk, lambda a: a @ a.mT, ((2, 2, 4),)),
    "herk": Case(lambda a: ms.blas.herk(a, trans="C"), lambda a: a.mH @ a, ((2, 2, 4),)),
    "syr2k": Case(
        lambda a, b: ms.blas.syr2k(a, b, alpha=2.0), lambda a, b: 2 * (a @ b.mT + b @ a.mT), ((2, 2, 3), (2, 2, 3)),
    ),
    "her2k": Case(
        lambda a, b: ms.blas.her2k(a, b, trans="C", uplo="U"), lambda a, b: a.mH @ b + b.mH @ a, ((3, 2), (3, 2)),
    ),
    "matmul_gram": Case(ms.matmul_gram, lambda v, s: (v @ s, (v @ s).mH @ (v @ s)), ((5, 2), (2, 2))),
    "project": Case(ms.project, None, ((5, 2), (5, 2))),
    "trsm": Case(ms.blas.trsm, None, _PAIR, (shifted,)),
    "trsm, right": Case(
        lambda a, b: ms.blas.trsm(a, b, side="R", uplo="U", trans="C", alpha=2.0),
        lambda a, b: 2 * torch.linalg.solve_triangular(a.mH, b, upper=False, left=False), ((2, 2), (2, 2, 2)),
        (shifted,),
    ),
    "trsm, unit": Case(lambda a, b: ms.blas.trsm(a, b, diag="U", trans="T"), None, _PAIR),
    "trsv": Case(lambda a, x: ms.blas.trsv(a, x, uplo="U"), None, ((2, 2, 2), (2, 2)), (shifted,)),
    "trmm": Case(lambda a, b: ms.blas.trmm(a, b, uplo="U", trans="T", diag="U"), None, _PAIR),
    "solve_triangular": Case(lambda a, b: L.solve_triangular(a, b, trans=2), None, ((2, 2, 2), (2,)), (shifted,)),
    "solve": Case(L.solve, torch.linalg.solve, ((2, 2), (2, 2, 3)), (shifted,)),
    "solve for a vector": Case(L.solve, None, ((2, 2, 2), (2,)), (shifted,)),
    "solve, positive": Case(lambda a, b: L.solve(a, b, assume_a="pos"), None, _PAIR, (positive,)),
    "solve, refined": Case(
        lambda a, b: L.solve(a, b, refine=True), torch.linalg.solve, ((2, 2), (2, 2, 3)), (shifted,)
    ),
    "solve_ex, positive, refined": Case(
        lambda a, b: L.solve_ex(a, b, assume_a="pos", refine=True)[0], None, ((2, 2, 2), (2,)), (positive,)
    ),
    "inv": Case(L.inv, torch.linalg.inv, _STACK, (shifted,)),
    "det": Case(L.det, torch.linalg.det, _STACK),
    "slogdet": Case(lambda a: tuple(L.slogdet(a)), lambda a: tuple(torch.linalg.slogdet(a)), _STACK),
    "cholesky": Case(L.cholesky, torch.linalg.cholesky, _STACK, (positive,)),
    "cholesky, upper": Case(
        lambda a: L.cholesky(a, upper=True), lambda a: torch.linalg.cholesky(a, upper=True), ((2, 2),), (positive,)
    ),
    "cho_solve": Case(lambda a, b: L.cho_solve((a, False), b), None, ((2, 2, 2), (2,)), (shifted,)),
    "lu_factor": Case(lambda a: L.lu_factor(a)[0], lambda a: torch.linalg.lu_factor(a)[0], ((2, 2),)),
    "lu_solve": Case(
        lambda a, b: L.lu_solve(L.lu_factor(a), b, 2), lambda a, b: torch.linalg.solve(a.mH, b), ((2, 2), (2,))
    ),
    "qr": Case(lambda a: tuple(L.qr(a)), None, _TALL),
    "qr, wide": Case(lambda a: L.qr(a, "r").abs(), lambda a: torch.linalg.qr(a)[1].abs(), ((2, 3),)),
    "cholesky_qr": Case(ms.cholesky_qr, None, ((5, 2),)),
    "orthogonalize": Case(ms.orthogonalize, None, ((6, 2), (6, 1)), (None, orthonormal)),
    "lstsq": Case(lambda a, b: L.lstsq(a, b).x, least_squares, ((4, 2), (4, 2))),
    "lstsq by qr": Case(lambda a, b: tuple(L.lstsq(a, b, driver="qr")[:2]), None, _TALL * 2),
    "eigh": Case(
        lambda a: without_phases(L.eigh(a)), lambda a: without_phases(torch.linalg.eigh(a)), ((2, 3, 3),), (hermitian,)
    ),
    "eigvalsh": Case(L.eigvalsh, torch.linalg.eigvalsh, ((2, 3, 3),), (hermitian,)),
    "svd": Case(
        lambda a: without_phases(L.svd(a, False)), lambda a: without_phases(torch.linalg.svd(a, False)), _TALL
    ),
    "svd, product": Case(lambda a: (lambda u, _, v: ms.matmul(u, v))(*L.svd(a, False)), None, ((2, 3),)),
    "svdvals": Case(L.svdvals, torch.linalg.svdvals, ((2, 2, 4),)),
    "pinv": Case(L.pinv, torch.linalg.pinv, _TALL),
    "polar": Case(lambda a: tuple(L.polar(a)), None, ((2, 3, 2),)),
    "polar, wide": Case(lambda a: tuple(L.polar(a, "left")), None, ((2, 3),)),
    "procrustes": Case(lambda a, b: tuple(L.procrustes(a, b)), None, ((4, 2), (4, 2))),
    "norm, nuc": Case(
        lambda a: L.norm(a, "nuc", (-2, -1)), lambda a: torch.linalg.norm(a, "nuc", (-2, -1)), ((2, 3, 2),)
    ),
    "norm, 2": Case(
        lambda a: L.norm(a, 2, (-2, -1), True), lambda a: torch.linalg.norm(a, 2, (-2, -1), True), ((2, 3, 2),)
    ),
    "norm": Case(L.norm, torch.linalg.norm, ((3, 2),)),
    "cond": Case(L.cond, torch.linalg.cond, ((3, 2),)),
    "solve_ex": Case(lambda a, b: L.solve_ex(a, b)[0], None, ((2, 2, 2), (2,)), (shifted,)),
    "inv_ex": Case(lambda a: L.inv_ex(a)[0], torch.linalg.inv, ((2, 2),), (shifted,)),
    "cholesky_ex": Case(lambda a: L.cholesky_ex(a, upper=True)[0], None, ((2, 2),), (positive,)),
    "lu_factor_ex": Case(lambda a: L.lu_factor_ex(a)[0], None, ((2, 2),)),
    "eigh_ex": Case(lambda a: without_phases(L.eigh_ex(a)[:2]), None, _STACK, (hermitian,)),
    "eigvalsh_ex": Case(lambda a: L.eigvalsh_ex(a)[0], None, ((2, 2),), (hermitian,)),
    "svd_ex": Case(lambda a: L.svd_ex(a, False)[1], None, ((3, 2),)),
    "svdvals_ex": Case(lambda a: L.svdvals_ex(a)[0], None, ((3, 2),)),
    "lists": Case(lambda a, b: tuple(ms.matmul(list(a), list(b))), lambda a, b: tuple((a @ b).unbind()), _PAIR),
    "sparse": Case(
        lambda x: ms.sparse.matrix(sparse(MATRIX, x.real)) @ x,
        lambda x: torch.tensor(MATRIX.toarray(), dtype=x.dtype, device=x.device) @ x, ((4, 2),),
    ),
    "sparse values": Case(
        lambda v, x: ms.sparse.matrix(sparse(MATRIX, v)).with_values(v).H @ x, None, ((5,), (3, 2))
    ),
    "powers": Case(
        lambda v, x: ms.matrix_powers(sparse(SQUARE, v), 2, ("chebyshev", -3.0, 8.0)).with_values(v)(x),
        None, ((6,), (3,)),
    ),
    "powers, combined": Case(
        lambda x: ms.matrix_powers(sparse(SQUARE, x), 2, output=("combination", [[1, 2, 3], [0, 1, 0]]))(x),
        None, ((3,),),
    ),
}  # fmt: skip


def by_squares(results: Any) -> Any:
    """A loss that no phase changes, and to which every entry of every result belongs with another weight."""
    results = results if isinstance(results, tuple) else (results,)
    weights = (torch.arange(1.0, one.numel() + 1, device=one.device).reshape(one.shape) for one in results)
    return sum((one.abs().square() * weight).sum() for one, weight in zip(results, weights, strict=True))


def first_gradients(function: Callable[..., Any], leaves: list[Any]) -> Any:
    """Gradients of `by_squares` of what the function gives."""
    return torch.autograd.grad(by_squares(function(*leaves)), leaves)
