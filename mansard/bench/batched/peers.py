"""How array libraries spell the operations on batches. All correct spellings race, see peers.py.

Spellings that solve `IN_PLACE` find right-hand sides where their result goes. NumPy has no triangular systems and takes
no part in them. Of ragged batches CPU libraries get lists of matrices; on GPUs PyTorch gets matrices padded with zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from .cublas import Cublas
from .operations import ragged_sizes

Ways = dict[str, Callable[..., Any]]
IN_PLACE = "in place: "
_TINY = 8  # einsum, whose loops are its own, is worth a race up to here


def numpy_ways(case: Case) -> Ways:
    if case.operation == "ragged":
        return {"matmul(a, b, out=c) for each": _each(lambda a, b, c: np.matmul(a, b, out=c))}
    if case.operation == "gemm":
        if case.accumulate:
            return {"C += matmul(A, B)": _add_matmul}
        ways: Ways = {"matmul(A, B, out=C)": lambda A, B, out: np.matmul(A, B, out=out)}
        if max(case.M, case.N, case.inner) <= _TINY:
            ways["einsum('bij,bjk->bik', A, B)"] = lambda A, B, out: np.einsum("bij,bjk->bik", A, B, out=out)
        return ways
    turned = case.form == "T"
    terms, name = ("bij,bi->bj", "vecmat") if turned else ("bij,bj->bi", "matvec")
    ways = {f"einsum('{terms}', A, x)": lambda A, x, out: np.einsum(terms, A, x, out=out),
            "matmul(A, x[..., None])": _with_columns(np.matmul, turned)}  # fmt: skip
    ufunc = getattr(np, name, None)  # NumPy 2.2 and later; vecmat conjugates its vector
    if ufunc is not None and not (turned and case.dtype.startswith("complex")):
        ways[f"{name}(A, x)"] = lambda A, x, out: ufunc(*((x, A) if turned else (A, x)), out=out)
    return ways


def torch_ways(torch: Any, case: Case) -> Ways:
    if case.operation == "ragged":
        return {"mm(a, b) for each (GPU: bmm of padded ones)": _ragged(torch, lambda a, b, c: torch.mm(a, b, out=c))}
    if case.operation == "gemm":
        if case.accumulate:
            return {"baddbmm(C, A, B, out=C)": lambda A, B, out: torch.baddbmm(out, A, B, out=out)}
        return {"bmm(A, B, out=C)": lambda A, B, out: torch.bmm(A, B, out=out)}
    if case.operation == "gemv":
        turned = case.form == "T"
        return {
            "bmm(A, x[..., None])": _with_columns(torch.bmm, turned),
            "baddbmm(y, A, x, beta=0)": _with_columns(
                lambda A, x, out: torch.baddbmm(out, A, x, beta=0, out=out), turned
            ),
        }
    upper, solve = "U" in case.form, torch.linalg.solve_triangular
    vectors = case.operation == "trsv"

    def solved(A: Any, B: Any, out: Any) -> Any:
        B, X = (B[..., None], out[..., None]) if vectors else (B, out)
        solve(A, B, upper=upper, out=X)
        return out

    return {"linalg.solve_triangular(A, B, out=X)": solved}


def cupy_ways(cupy: Any, case: Case) -> Ways:
    """Routines of cuBLAS by their names where CuPy does not wrap them, and its own functions."""
    cublas = Cublas(cupy, case.dtype)
    if case.operation == "ragged":
        ways: Ways = {"cublas gemmBatched for each size": cublas.ragged(case, grouped=False)}
        if not case.dtype.startswith("complex"):
            ways["cublas gemmGroupedBatched"] = cublas.ragged(case, grouped=True)
        return ways
    if case.operation == "gemm":
        if case.accumulate:
            return {"cublas gemmStridedBatched(beta=1)": cublas.products(case), "C += matmul(A, B)": _add_matmul}
        return {
            "cublas gemmStridedBatched": cublas.products(case),
            "matmul(A, B, out=C)": lambda A, B, out: cupy.matmul(A, B, out=out),
        }
    if case.operation == "gemv":
        return {
            "cublas gemvStridedBatched": cublas.vectors(case),
            "matmul(A, x[..., None])": _with_columns(cupy.matmul, case.form == "T"),
        }
    return {IN_PLACE + "cublas trsmBatched": cublas.systems(case)}


def _add_matmul(A: Any, B: Any, out: Any) -> Any:
    out += A @ B
    return out


def _with_columns(product: Callable[..., Any], turned: bool) -> Callable[..., Any]:
    """A product of matrices for vectors: they become matrices of one column."""

    def run(A: Any, x: Any, out: Any) -> Any:
        product(A.swapaxes(1, 2) if turned else A, x[..., None], out=out[..., None])
        return out

    return run


def _each(product: Callable[..., Any]) -> Callable[..., None]:
    def run(A: list[Any], B: list[Any], out: list[Any]) -> None:
        for a, b, c in zip(A, B, out, strict=True):
            product(a, b, c)

    return run


def _ragged(torch: Any, product: Callable[..., Any]) -> Callable[..., Any]:
    """Multiply a ragged batch matrix by matrix, or all padded matrices at once."""
    each = _each(product)

    def run(A: Any, B: Any, out: Any) -> Any:
        return each(A, B, out) if isinstance(A, list) else torch.bmm(A, B, out=out)

    return run


def padded(xp: Any, case: Case, ragged: Any, columns: int) -> Any:
    """The matrices of a ragged batch as a stack, zeros around them."""
    made = xp.zeros((case.K, case.M, columns), case.dtype)
    sizes, starts = ragged_sizes(case.M, case.K), np.asarray(ragged.layout.host()[2])
    for size in range(1, case.M + 1):
        members, width = np.flatnonzero(sizes == size), size if columns > 1 else 1
        for part in np.array_split(members, -(-len(members) * size * width // (1 << 24)) or 1):
            places = xp.asarray(starts[part])[:, None] + xp.arange(size * width)
            made[xp.asarray(part), :size, :width] = ragged.buffer[places].reshape(-1, size, width)
    return made
