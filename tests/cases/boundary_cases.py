"""Every public function that takes arrays, called with small ones: the table that the tests of the array boundary walk.

A case has its arrays by the names of the arguments, as NumPy arrays; `call` takes them as arrays of any library, under
the same names. `functions` are the public names that the case exercises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import mansard as ms

COUNT = 40  # matrices of a stack: enough for kernels instead of LAPACK
_RNG = np.random.default_rng(7)


class Case(NamedTuple):
    """Arguments by name, and what is called with them."""

    name: str
    functions: tuple[str, ...]
    arrays: dict[str, Any]
    call: Callable[[SimpleNamespace], Any]
    jax: bool = True  # JAX arrays are taken
    silent: tuple[str, ...] = ()  # arguments whose values enter nothing: integers, places of other dtypes


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape)


TALL, OTHER, SMALL = _normal(50, 2), _normal(50, 2), _normal(2, 2)
STACK = _normal(COUNT, 2, 2) + 4 * np.eye(2)
RIGHT, VECTORS = _normal(COUNT, 2, 2), _normal(COUNT, 2)
POSITIVE = STACK @ STACK.swapaxes(-1, -2)
LOWER = np.tril(STACK)
RAW = np.linalg.qr(STACK, mode="raw")
PIVOTS = np.tile(np.array([1, 1], np.int32), (COUNT, 1))
BASIS = np.linalg.qr(_normal(50, 1))[0]
SPARSE = scipy.sparse.random_array((30, 30), density=0.2, rng=_RNG, format="csr") + 8 * scipy.sparse.eye_array(30)
SPARSE = SPARSE.tocsr()
SYMMETRIC = (SPARSE + SPARSE.T).tocsr()
VECTOR, THREE = _normal(30), _normal(30, 3)


def unrecorded() -> AbstractContextManager[Any]:
    """Gradients off, where PyTorch is there: operands that hold arrays are made while nobody looks."""
    torch = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def ragged(array: Any) -> Any:
    """A Ragged over the memory of a stack, made while gradients are off."""
    with unrecorded():
        return ms.Ragged(array.reshape(-1), np.full(len(array), 2), 2)


def cleared(array: Any) -> Any:
    """Zeros in memory that nobody has written to."""
    array[...] = 0
    return array


def interleaved(array: Any) -> Any:
    """Eight matrices side by side over the memory of an array (1, 2, 2, 8), made while gradients are off."""
    with unrecorded():
        return ms.Interleaved(array, (8,))


def _made(make: Callable[[], Any]) -> Any:
    with unrecorded():
        return make()


LANES = {"A": np.ascontiguousarray(_normal(1, 2, 2, 8)), "B": np.ascontiguousarray(_normal(1, 2, 2, 8))}
_MATRIX = ms.sparse.matrix(SPARSE)
_PAIR = {"a": STACK, "b": RIGHT}


@cache
def powers() -> Any:
    """A plan for two powers; made when a case first needs it, because it compiles."""
    return _made(lambda: ms.matrix_powers(SPARSE, 2))


def _out(*shape: int) -> Any:
    return np.zeros(shape)


def _torch_csr(data: Any) -> Any:
    """The sparse matrix as PyTorch's, with these values; NumPy values give SciPy's."""
    if isinstance(data, np.ndarray):
        return scipy.sparse.csr_array((data, SPARSE.indices, SPARSE.indptr), shape=SPARSE.shape)
    torch = sys.modules["torch"]
    rows, columns = (torch.from_numpy(one.astype(np.int64)) for one in (SPARSE.indptr, SPARSE.indices))
    return torch.sparse_csr_tensor(rows, columns, data, SPARSE.shape, check_invariants=False)


def _projections(w: Any, z: Any) -> Any:
    """Eigenvalues and what does not depend on the signs of eigenvectors."""
    return w, abs(z)


_LU, _PIV = ms.linalg.lu_factor(STACK, backend="reference")  # nothing compiles while tests are collected
_CHO = ms.linalg.cholesky(POSITIVE, backend="reference")

CASES = [
    Case("gram", ("gram",), {"A": TALL}, lambda a: ms.gram(a.A)),
    Case("gram of two", ("gram",), {"A": TALL, "B": OTHER}, lambda a: ms.gram(a.A, a.B)),
    Case(
        "gram into", ("gram",), {"A": TALL, "B": OTHER, "out": _out(2, 2)}, lambda a: ms.gram(a.A, a.B, out=a.out),
        jax=False,
    ),
    Case("matmul", ("matmul",), {"A": TALL, "B": SMALL}, lambda a: ms.matmul(a.A, a.B)),
    Case(
        "matmul into", ("matmul",), {"A": TALL, "B": SMALL, "out": _out(50, 2)},
        lambda a: ms.matmul(a.A, a.B, out=a.out, alpha=2.0), jax=False,
    ),
    Case("matmul of stacks", ("matmul",), {"A": STACK, "B": RIGHT}, lambda a: ms.matmul(a.A, a.B)),
    Case("matmul with a vector", ("matmul",), {"A": STACK, "B": VECTORS[0]}, lambda a: ms.matmul(a.A, a.B)),
    Case("matmul of lists", ("matmul",), {"A": STACK, "B": RIGHT}, lambda a: ms.matmul(list(a.A), list(a.B))),
    Case(
        "matmul of ragged batches", ("matmul", "Ragged"), {"A": STACK, "B": RIGHT},
        lambda a: ms.matmul(ragged(a.A), ragged(a.B)).buffer, jax=False,
    ),
    Case(
        "matmul of a ragged batch and a matrix", ("matmul",), {"A": STACK, "B": SMALL, "out": _out(COUNT, 2, 2)},
        lambda a: ms.matmul(ragged(a.A), a.B, out=ragged(a.out)).buffer, jax=False,
    ),
    Case(
        "matmul of interleaved stacks", ("matmul", "Interleaved"), LANES,
        lambda a: ms.matmul(interleaved(a.A), interleaved(a.B)).buffer, jax=False,
    ),
    Case(
        "matmul of an interleaved stack and a matrix", ("matmul",),
        {"A": LANES["A"], "B": SMALL, "out": _out(1, 2, 2, 8)},
        lambda a: ms.matmul(interleaved(a.A), a.B, out=interleaved(a.out)).buffer, jax=False,
    ),
    Case("matmul_gram", ("matmul_gram",), {"V": TALL, "S": SMALL}, lambda a: ms.matmul_gram(a.V, a.S)),
    Case(
        "matmul_gram into", ("matmul_gram",), {"V": TALL, "S": SMALL, "out": _out(50, 2)},
        lambda a: ms.matmul_gram(a.V, a.S, out=a.out), jax=False,
    ),
    Case("project", ("project",), {"V": BASIS, "W": TALL}, lambda a: ms.project(a.V, a.W)),
    Case(
        "project into", ("project",), {"V": BASIS, "W": TALL, "out": _out(50, 2)},
        lambda a: ms.project(a.V, a.W, out=a.out), jax=False,
    ),
    Case("cholesky_qr", ("cholesky_qr",), {"V": TALL}, lambda a: ms.cholesky_qr(a.V)),
    Case(
        "cholesky_qr into", ("cholesky_qr",), {"V": TALL, "out": _out(50, 2)},
        lambda a: ms.cholesky_qr(a.V, out=a.out), jax=False,
    ),
    Case(
        "orthogonalize", ("orthogonalize",), {"V": TALL, "against": BASIS},
        lambda a: ms.orthogonalize(a.V, a.against),
    ),
    Case(
        "orthogonalize into", ("orthogonalize",), {"V": TALL, "against": BASIS, "out": _out(50, 2)},
        lambda a: ms.orthogonalize(a.V, a.against, out=a.out), jax=False,
    ),
    Case(
        "interleave", ("interleave", "deinterleave"), {"a": STACK},
        lambda a: ms.deinterleave(ms.interleave(a.a)), jax=False,
    ),
    Case("deinterleave", ("deinterleave",), {"x": LANES["A"]}, lambda a: ms.deinterleave(interleaved(a.x)), jax=False),
    Case(
        "Interleaved", ("Interleaved",), {"buffer": LANES["A"]},
        lambda a: ms.Interleaved(a.buffer, (8,))[0], jax=False,
    ),
    Case("Ragged", ("Ragged",), {"buffer": VECTOR}, lambda a: ms.Ragged(a.buffer, [5, 5], [2, 4])[1], jax=False),
    Case(
        "Ragged.from_list", ("Ragged.from_list",), {"matrices": STACK},
        lambda a: ms.Ragged.from_list(list(a.matrices)).buffer, jax=False,
    ),
    Case(
        "Ragged.zeros", ("Ragged.zeros", "Ragged.empty"), {"like": VECTOR},
        lambda a: ms.Ragged.zeros([2], [3], like=a.like).buffer, jax=False,
    ),
    Case(
        "Ragged.empty_like", ("Ragged.empty_like",), {"other": STACK},
        lambda a: cleared(ms.Ragged.empty_like(ragged(a.other)).buffer), jax=False, silent=("other",),
    ),
    # ---- plans ------------------------------------------------------------------------------------------------
    Case(
        "plan of gram", ("plan",), {"A": TALL, "B": OTHER, "out": _out(2, 2)},
        lambda a: ms.plan("gram", a.A, a.B, out=a.out)(a.A, a.B, a.out), jax=False,
    ),
    Case(
        "held gram", ("plan",), {"A": TALL, "B": OTHER, "out": _out(2, 2)},
        lambda a: _made(lambda: ms.plan("gram", a.A, a.B, out=a.out))(a.A, a.B, a.out), jax=False,
    ),
    Case(
        "held tsmm", ("plan",), {"A": TALL, "B": SMALL},
        lambda a: _made(lambda: ms.plan("tsmm", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held tsm2r", ("plan",), {"A": TALL, "B": SMALL},
        lambda a: _made(lambda: ms.plan("tsm2r", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held gemm", ("plan",), {"A": STACK, "B": RIGHT},
        lambda a: _made(lambda: ms.plan("gemm", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held gemm of lists", ("plan",), {"A": STACK, "B": RIGHT},
        lambda a: _made(lambda: ms.plan("gemm", list(a.A), list(a.B)))(list(a.A), list(a.B)), jax=False,
    ),
    Case(
        "held gemv", ("plan",), {"A": STACK, "B": VECTORS},
        lambda a: _made(lambda: ms.plan("gemv", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held trsm", ("plan",), {"A": LOWER, "B": RIGHT},
        lambda a: _made(lambda: ms.plan("trsm", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held trmm", ("plan",), {"A": LOWER, "B": RIGHT},
        lambda a: _made(lambda: ms.plan("trmm", a.A, a.B))(a.A, a.B), jax=False,
    ),
    Case(
        "held lu", ("plan",), {"A": STACK, "B": RIGHT},
        lambda a: _made(lambda: ms.plan("lu", a.A, a.B, want="solve"))(a.A, a.B)[0], jax=False,
    ),
    # ---- BLAS -------------------------------------------------------------------------------------------------
    Case("gemm", ("blas.gemm",), _PAIR, lambda a: ms.blas.gemm(a.a, a.b)),
    Case("gemm of matrices", ("blas.gemm",), {"A": TALL, "B": OTHER}, lambda a: ms.blas.gemm(a.A, a.B, trans_a="T")),
    Case(
        "gemm into", ("blas.gemm",), _PAIR | {"out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.gemm(a.a, a.b, out=a.out, alpha=2.0, beta=0.5), jax=False,
    ),
    Case(
        "gemm of lists", ("blas.gemm",), _PAIR | {"out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.gemm(list(a.a), list(a.b), out=list(a.out)), jax=False,
    ),
    Case("gemv", ("blas.gemv",), {"a": STACK, "x": VECTORS}, lambda a: ms.blas.gemv(a.a, a.x)),
    Case(
        "gemv into", ("blas.gemv",), {"a": STACK, "x": VECTORS, "out": _out(COUNT, 2)},
        lambda a: ms.blas.gemv(a.a, a.x, out=a.out), jax=False,
    ),
    Case("gemv of lists", ("blas.gemv",), {"a": STACK, "x": VECTORS}, lambda a: ms.blas.gemv(list(a.a), list(a.x))),
    Case(
        "gemv of ragged batches", ("blas.gemv",), {"a": STACK, "x": SMALL},
        lambda a: ms.blas.gemv(ragged(a.a), a.x).buffer, jax=False,
    ),
    Case("syrk", ("blas.syrk",), {"a": STACK}, lambda a: ms.blas.syrk(a.a)),
    Case(
        "syrk into", ("blas.syrk",), {"a": STACK, "out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.syrk(a.a, out=a.out), jax=False,
    ),
    Case("herk", ("blas.herk",), {"a": STACK}, lambda a: ms.blas.herk(a.a)),
    Case(
        "herk of ragged batches", ("blas.herk",), {"a": STACK, "out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.herk(ragged(a.a), out=ragged(a.out)).buffer, jax=False,
    ),
    Case("syr2k", ("blas.syr2k",), _PAIR, lambda a: ms.blas.syr2k(a.a, a.b)),
    Case(
        "syr2k into", ("blas.syr2k",), _PAIR | {"out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.syr2k(a.a, a.b, out=a.out), jax=False,
    ),
    Case("her2k", ("blas.her2k",), _PAIR, lambda a: ms.blas.her2k(a.a, a.b)),
    Case("dot", ("blas.dot",), {"x": VECTORS, "y": VECTORS + 1}, lambda a: ms.blas.dot(a.x, a.y)),
    Case("dot of lists", ("blas.dot",), {"x": VECTORS, "y": VECTORS}, lambda a: ms.blas.dot(list(a.x), list(a.y))),
    Case("ger", ("blas.ger",), {"x": VECTORS, "y": VECTORS}, lambda a: ms.blas.ger(a.x, a.y)),
    Case("axpy", ("blas.axpy",), {"x": VECTORS, "y": VECTORS}, lambda a: ms.blas.axpy(a.x, a.y, alpha=2.0)),
    Case(
        "axpy into", ("blas.axpy",), {"x": VECTORS, "y": VECTORS, "out": _out(COUNT, 2)},
        lambda a: ms.blas.axpy(a.x, a.y, out=a.out), jax=False,
    ),
    Case("scal", ("blas.scal",), {"x": VECTORS}, lambda a: ms.blas.scal(a.x, alpha=3.0)),
    Case(
        "swap", ("blas.swap",), {"x": VECTORS, "y": VECTORS + 1}, lambda a: (ms.blas.swap(a.x, a.y), a.x)[1], jax=False
    ),
    Case("iamax", ("blas.iamax",), {"x": VECTORS}, lambda a: ms.blas.iamax(a.x)),
    Case("trsm", ("blas.trsm",), {"a": LOWER, "b": RIGHT}, lambda a: ms.blas.trsm(a.a, a.b)),
    Case("trsm, checked", ("blas.trsm",), {"a": LOWER, "b": RIGHT}, lambda a: ms.blas.trsm(a.a, a.b, check=True)),
    Case(
        "trsm into", ("blas.trsm",), {"a": LOWER, "b": RIGHT, "out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.trsm(a.a, a.b, out=a.out), jax=False,
    ),
    Case("trsm of lists", ("blas.trsm",), {"a": LOWER, "b": RIGHT}, lambda a: ms.blas.trsm(list(a.a), list(a.b))),
    Case("trsv", ("blas.trsv",), {"a": LOWER, "x": VECTORS}, lambda a: ms.blas.trsv(a.a, a.x)),
    Case(
        "trsv into", ("blas.trsv",), {"a": LOWER, "x": VECTORS, "out": _out(COUNT, 2)},
        lambda a: ms.blas.trsv(a.a, a.x, out=a.out), jax=False,
    ),
    Case("trmm", ("blas.trmm",), {"a": LOWER, "b": RIGHT}, lambda a: ms.blas.trmm(a.a, a.b)),
    Case(
        "trmm into", ("blas.trmm",), {"a": LOWER, "b": RIGHT, "out": _out(COUNT, 2, 2)},
        lambda a: ms.blas.trmm(a.a, a.b, out=a.out), jax=False,
    ),
    # ---- linear algebra ---------------------------------------------------------------------------------------
    Case("cholesky", ("linalg.cholesky",), {"a": POSITIVE}, lambda a: ms.linalg.cholesky(a.a)),
    Case("cholesky_ex", ("linalg.cholesky_ex",), {"a": POSITIVE}, lambda a: ms.linalg.cholesky_ex(a.a)),
    Case(
        "cholesky into", ("linalg.cholesky",), {"a": POSITIVE, "out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.cholesky(a.a, out=a.out), jax=False,
    ),
    Case("cholesky of lists", ("linalg.cholesky",), {"a": POSITIVE}, lambda a: ms.linalg.cholesky(list(a.a))),
    Case(
        "cholesky of ragged batches", ("linalg.cholesky",), {"a": POSITIVE},
        lambda a: ms.linalg.cholesky(ragged(a.a)).buffer, jax=False,
    ),
    Case("cho_solve", ("linalg.cho_solve",), {"c": _CHO, "b": RIGHT}, lambda a: ms.linalg.cho_solve((a.c, True), a.b)),
    Case(
        "cho_solve into", ("linalg.cho_solve",), {"c": _CHO, "b": RIGHT, "out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.cho_solve((a.c, True), a.b, out=a.out), jax=False,
    ),
    Case("det", ("linalg.det",), {"a": STACK}, lambda a: ms.linalg.det(a.a)),
    Case("slogdet", ("linalg.slogdet",), {"a": STACK}, lambda a: ms.linalg.slogdet(a.a)),
    Case("inv", ("linalg.inv",), {"a": STACK}, lambda a: ms.linalg.inv(a.a)),
    Case("inv_ex", ("linalg.inv_ex",), {"a": STACK}, lambda a: ms.linalg.inv_ex(a.a)),
    Case(
        "inv into", ("linalg.inv",), {"a": STACK, "out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.inv(a.a, out=a.out), jax=False,
    ),
    Case("inv of one", ("linalg.inv",), {"a": STACK[0]}, lambda a: ms.linalg.inv(a.a)),
    Case("lstsq", ("linalg.lstsq",), {"a": TALL, "b": OTHER}, lambda a: ms.linalg.lstsq(a.a, a.b)[0]),
    Case(
        "lstsq by qr", ("linalg.lstsq",), {"a": STACK, "b": RIGHT},
        lambda a: ms.linalg.lstsq(a.a, a.b, driver="qr")[0],
    ),
    Case("lu_factor", ("linalg.lu_factor",), {"a": STACK}, lambda a: ms.linalg.lu_factor(a.a)),
    Case(
        "lu_factor_ex into", ("linalg.lu_factor_ex",), {"a": STACK, "out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.lu_factor_ex(a.a, out=a.out), jax=False,
    ),
    Case(
        "lu_solve", ("linalg.lu_solve",), {"lu": _LU, "piv": _PIV, "b": RIGHT},
        lambda a: ms.linalg.lu_solve((a.lu, a.piv), a.b), silent=("piv",),
    ),
    Case(
        "lu_solve into", ("linalg.lu_solve",), {"lu": _LU, "piv": _PIV, "b": RIGHT, "out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.lu_solve((a.lu, a.piv), a.b, out=a.out), jax=False, silent=("piv",),
    ),
    Case("qr", ("linalg.qr",), {"a": STACK}, lambda a: ms.linalg.qr(a.a)),
    Case("qr, r", ("linalg.qr",), {"a": STACK}, lambda a: ms.linalg.qr(a.a, "r")),
    Case("solve", ("linalg.solve",), _PAIR, lambda a: ms.linalg.solve(a.a, a.b)),
    Case("solve_ex", ("linalg.solve_ex",), _PAIR, lambda a: ms.linalg.solve_ex(a.a, a.b)),
    Case(
        "solve for a vector", ("linalg.solve",), {"a": STACK[0], "b": VECTORS[0]},
        lambda a: ms.linalg.solve(a.a, a.b),
    ),
    Case(
        "solve into", ("linalg.solve",), _PAIR | {"out": _out(COUNT, 2, 2)},
        lambda a: ms.linalg.solve(a.a, a.b, out=a.out), jax=False,
    ),
    Case("solve refined", ("linalg.solve",), _PAIR, lambda a: ms.linalg.solve(a.a, a.b, refine=True)),
    Case("solve of lists", ("linalg.solve",), _PAIR, lambda a: ms.linalg.solve(list(a.a), list(a.b))),
    Case(
        "solve of ragged batches", ("linalg.solve",), _PAIR,
        lambda a: ms.linalg.solve(ragged(a.a), ragged(a.b)).buffer, jax=False,
    ),
    Case(
        "solve_triangular", ("linalg.solve_triangular",), {"a": LOWER, "b": RIGHT},
        lambda a: ms.linalg.solve_triangular(a.a, a.b, lower=True),
    ),
    # ---- eigenvalues and singular values ----------------------------------------------------------------------
    Case("eigh", ("linalg.eigh", "linalg.eigh_ex"), {"a": POSITIVE}, lambda a: _projections(*ms.linalg.eigh(a.a))),
    Case("eigh_ex", ("linalg.eigh_ex",), {"a": POSITIVE}, lambda a: ms.linalg.eigh_ex(a.a)[0::2]),
    Case("eigvalsh", ("linalg.eigvalsh", "linalg.eigvalsh_ex"), {"a": POSITIVE}, lambda a: ms.linalg.eigvalsh(a.a)),
    Case("eigvalsh_ex", ("linalg.eigvalsh_ex",), {"a": POSITIVE}, lambda a: ms.linalg.eigvalsh_ex(a.a)),
    Case("eigvalsh of lists", ("linalg.eigvalsh",), {"a": POSITIVE}, lambda a: ms.linalg.eigvalsh(list(a.a))),
    Case(
        "eigvalsh of ragged batches", ("linalg.eigvalsh",), {"a": POSITIVE},
        lambda a: ms.linalg.eigvalsh(ragged(a.a)), jax=False,
    ),
    Case(
        "svdvals of interleaved stacks", ("linalg.svdvals",), {"a": LANES["A"]},
        lambda a: ms.linalg.svdvals(interleaved(a.a)), jax=False,
    ),
    Case("svd", ("linalg.svd", "linalg.svd_ex"), {"a": STACK}, lambda a: ms.linalg.svd(a.a, compute_uv=False)),
    Case("svd_ex", ("linalg.svd_ex",), {"a": STACK}, lambda a: ms.linalg.svd_ex(a.a)[1::2]),
    Case("svdvals", ("linalg.svdvals",), {"x": STACK}, lambda a: ms.linalg.svdvals(a.x)),
    Case("svdvals_ex", ("linalg.svdvals_ex",), {"x": STACK}, lambda a: ms.linalg.svdvals_ex(a.x)),
    Case(
        "tridiagonalize", ("linalg.tridiagonalize",), {"a": POSITIVE},
        lambda a: ms.linalg.tridiagonalize(a.a, compute_q=False),
    ),
    Case(
        "bidiagonalize", ("linalg.bidiagonalize",), {"a": STACK},
        lambda a: ms.linalg.bidiagonalize(a.a, compute_uv=False),
    ),
    Case("pinv", ("linalg.pinv",), {"a": STACK}, lambda a: ms.linalg.pinv(a.a)),
    Case("cond", ("linalg.cond",), {"x": STACK}, lambda a: ms.linalg.cond(a.x)),
    Case("matrix_rank", ("linalg.matrix_rank",), {"A": STACK}, lambda a: ms.linalg.matrix_rank(a.A)),
    Case("norm", ("linalg.norm",), {"x": STACK}, lambda a: ms.linalg.norm(a.x, "nuc", (-2, -1))),
    Case("norm of vectors", ("linalg.norm",), {"x": VECTORS}, lambda a: ms.linalg.norm(a.x, 3, -1)),
    Case("polar", ("linalg.polar",), {"a": STACK}, lambda a: ms.linalg.polar(a.a)),
    Case(
        "ormqr", ("linalg.ormqr",), {"h": RAW[0], "tau": RAW[1], "c": RIGHT},
        lambda a: ms.linalg.ormqr(a.h, a.tau, a.c, trans="C"),
    ),
    Case("larft", ("linalg.larft",), {"v": STACK, "tau": RAW[1]}, lambda a: ms.linalg.larft(a.v, a.tau)),
    Case(
        "larfb", ("linalg.larfb",), {"v": STACK, "t": POSITIVE, "c": RIGHT}, lambda a: ms.linalg.larfb(a.v, a.t, a.c)
    ),
    Case(
        "laswp", ("linalg.laswp",), {"a": RIGHT, "piv": PIVOTS}, lambda a: ms.linalg.laswp(a.a, a.piv), silent=("piv",)
    ),
    Case("procrustes", ("linalg.procrustes",), _PAIR, lambda a: ms.linalg.procrustes(a.a, a.b)),
    # ---- sparse matrices --------------------------------------------------------------------------------------
    Case("T @ x", ("sparse.Matrix.__matmul__",), {"x": VECTOR}, lambda a: _MATRIX @ a.x),
    Case("T.T @ x", ("sparse.Matrix.__matmul__",), {"x": THREE}, lambda a: _MATRIX.T @ a.x),
    Case(
        "Matrix.product", ("sparse.Matrix.product",), {"x": VECTOR, "out": _out(30)},
        lambda a: _MATRIX.product(a.x, a.out, 2.0), jax=False,
    ),
    Case(
        "Matrix.recurrence", ("sparse.Matrix.recurrence",), {"x": VECTOR, "z": THREE[:, 0].copy()},
        lambda a: _MATRIX.recurrence(a.x, a.z, None, 1.0, 0.5, 0.25),
    ),
    Case("Matrix.plan", ("sparse.Matrix.plan",), {"x": VECTOR}, lambda a: _MATRIX.plan(a.x)(a.x), jax=False),
    Case(
        "held product", ("sparse.Matrix.plan",), {"x": VECTOR, "out": _out(30)},
        lambda a: _made(lambda: _MATRIX.plan(a.x, a.out))(a.x, None, a.out), jax=False,
    ),
    Case(
        "Matrix.with_values", ("sparse.Matrix.with_values",), {"data": SPARSE.data},
        lambda a: np.asarray(_MATRIX.with_values(a.data) @ VECTOR),
    ),
    Case(
        "matrix", ("sparse.matrix",), {"A": SPARSE.data},
        lambda a: ms.sparse.matrix(_torch_csr(a.A)) @ VECTOR, jax=False,
    ),
    Case(
        "matrix_powers", ("matrix_powers",), {"A": SPARSE.data},
        lambda a: ms.matrix_powers(_torch_csr(a.A), 2)(VECTOR), jax=False,
    ),
    Case("powers of a vector", ("matrix_powers",), {"x": VECTOR}, lambda a: powers()(a.x)),
    Case(
        "powers into", ("matrix_powers",), {"x": VECTOR, "out": _out(3, 30)}, lambda a: powers()(a.x, a.out), jax=False
    ),
    Case("powers, permuted", ("matrix_powers",), {"x": VECTOR}, lambda a: powers().permuted(a.x)),
    # ---- solvers ----------------------------------------------------------------------------------------------
    Case(
        "cg", ("sparse.linalg.cg",), {"b": VECTOR, "x0": VECTOR},
        lambda a: ms.sparse.linalg.cg(SPARSE, a.b, a.x0)[0],
    ),
    Case(
        "gmres", ("sparse.linalg.gmres",), {"b": VECTOR, "x0": VECTOR},
        lambda a: ms.sparse.linalg.gmres(SPARSE, a.b, a.x0)[0],
    ),
    Case(
        "expm_multiply", ("sparse.linalg.expm_multiply",), {"b": VECTOR},
        lambda a: ms.sparse.linalg.expm_multiply(SPARSE, a.b, 0.1),
    ),
    Case(
        "Propagator", ("sparse.linalg.Propagator",), {"b": VECTOR},
        lambda a: ms.sparse.linalg.Propagator(SPARSE, 0.1)(a.b),
    ),
    Case(
        "minres", ("sparse.linalg.minres",), {"b": VECTOR, "x0": VECTOR},
        lambda a: ms.sparse.linalg.minres(SPARSE, a.b, a.x0)[0],
    ),
    Case(
        "lobpcg", ("sparse.linalg.lobpcg",), {"X": THREE, "Y": VECTOR[:, None].copy()},
        lambda a: ms.sparse.linalg.lobpcg(SYMMETRIC, a.X, tol=1.0, Y=a.Y, maxiter=100)[0],
    ),
    Case(
        "eigsh", ("sparse.linalg.eigsh",), {"v0": VECTOR},
        lambda a: ms.sparse.linalg.eigsh(SYMMETRIC, 2, v0=a.v0)[0],
    ),
]

# Functions that only plan before they measure for minutes: their refusals are tested, not their answers.
MEASURING = [
    Case("tune", ("tune",), {"A": TALL, "B": OTHER}, lambda a: ms.tune("gram", a.A, a.B)),
    Case("sparse.tune", ("sparse.tune",), {"A": SPARSE.data}, lambda a: ms.sparse.tune(_torch_csr(a.A))),
]

# Public names without arrays among their arguments, and why.
RESULTS = ["Bidiagonal", "Eigh", "Lstsq", "Polar", "Procrustes", "QR", "SVD", "Slogdet", "Tridiagonal"]
WITHOUT_ARRAYS = {
    **{f"linalg.{name}Result": "what a function returns" for name in RESULTS},
    "pin": "parameters of kernels",
    "precompile": "problems, whose arrays are planned with and not read",
    "Ragged.to_list": "gives views of its buffer, which carry their gradients",
    "sparse.Matrix": "made by sparse.matrix",
    "sparse.Matrix.explain": "a number of columns",
    "sparse.Matrix.to_scipy": "no argument",
    "sparse.Matrix.to_cupy": "no argument",
    "sparse.Matrix.tocsr": "no argument",
    "sparse.linalg.Report": "what a solver did",
}


def given(case: Case, convert: Callable[[Any], Any]) -> SimpleNamespace:
    """The arguments, copied and converted."""
    return SimpleNamespace(**{name: convert(array.copy()) for name, array in case.arrays.items()})


def parts(result: Any) -> list[Any]:
    """Results of any form as NumPy arrays."""
    if isinstance(result, tuple | list):
        return [part for one in result for part in parts(one)]
    return [] if result is None else [np.asarray(result)]
