"""Triangular matrices: `trsm`, `trsv`, `trmm`."""

from __future__ import annotations

from typing import Any

from ..arrays import kinds as arrays
from ..arrays.types import Array, Matrices
from ..operations import stacks
from ..operations.batched.factors import are_numbers, scaled_each
from ..operations.batched.triangular_call import solve, solve_vectors, triangle
from ..operations.batched.triangular_products import multiply
from ..operations.ragged import Ragged
from ..operations.ragged_lists import differ


def trsm(
    a: Matrices,
    b: Matrices,
    *,
    side: str = "L",
    uplo: str = "L",
    trans: str = "N",
    diag: str = "N",
    alpha: complex | Array = 1.0,
    out: Matrices = None,
    check: bool = False,
    invert_diagonal: bool = False,
    backend: str | None = None,
) -> Matrices:
    """Solve op(a) X = alpha b (`side` = "R": X op(a) = alpha b) for every triangular matrix of a batch.

    Parameters
    ----------
    a : array (..., n, n), list of matrices, `Ragged` or `Interleaved`; float32, float64, complex64 or complex128, any
        strides
    b : array (..., n, k) ("R": (..., k, n)) whose leading dimensions broadcast with those of a, list, `Ragged` or
        `Interleaved`; one matrix may serve a whole batch of these
    uplo : the triangle that is referenced: "L" or "U". The other one is never read
    trans : "N": a as it is, "T": transposed, "C": transposed and conjugated; none of them copies anything
    diag : "U": the diagonal counts as ones, and is not read either
    alpha : a factor, one number or one per matrix: an array that broadcasts with the leading dimensions of the result,
        which costs another pass over it
    out : array or list that receives the result. It may be b itself; otherwise it shares no memory with a or b
    check : raise numpy.linalg.LinAlgError, before anything is written, if a diagonal has a zero; waits for a GPU.
        Without it the solution of a singular system is inf or nan, and that of the others what it should be
    invert_diagonal : invert the diagonal blocks once, and multiply by them: faster for many right-hand sides on GPUs.
        The error grows with the condition of the blocks
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists a list, of a Ragged a Ragged.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[[2.0, np.nan], [1.0, 4.0]]])
    >>> ms.blas.trsm(a, np.array([[2.0], [9.0]]))
    array([[[1.],
            [2.]]])
    """
    form = triangle(side, uplo, trans, diag, bool(invert_diagonal))
    if type(alpha) is not float and not are_numbers(alpha):
        return scaled_each(solve(a, b, None, 1.0, backend, form, check), alpha, 0.0, out)
    return solve(a, b, out, alpha, backend, form, check)


def trsv(
    a: Matrices,
    x: Matrices,
    *,
    uplo: str = "L",
    trans: str = "N",
    diag: str = "N",
    out: Matrices = None,
    check: bool = False,
    backend: str | None = None,
) -> Matrices:
    """Solve op(a) y = x for vectors x (..., n) and triangular matrices a (..., n, n) of a batch.

    x may also be a list of vectors or a `Ragged` of single columns; `out` may be x. Options are those of `trsm`: of a
    singular matrix the solution is inf or NaN unless `check` is set.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.trsv(np.array([[2.0, 1.0], [np.nan, 4.0]]), np.array([4.0, 8.0]), uplo="U")
    array([1., 2.])
    """
    form = triangle("L", uplo, trans, diag)
    usual = arrays.known_kind(a) is not None and type(x) is type(a) and x.ndim and not check
    if usual and (out is None or (type(out) is type(a) and out.ndim)):
        return solve_vectors(a, x, out, backend, form)
    if differ(x) and (out is None or stacks.is_list(out)):
        return solve(a, x, out, 1.0, backend, form, check)
    columns, place = as_columns(x, "x"), None if out is None else as_columns(out, "out")
    result = solve(a, columns, place, 1.0, backend, form, check)
    return as_vectors(result) if out is None else out


def trmm(
    a: Matrices,
    b: Matrices,
    *,
    side: str = "L",
    uplo: str = "L",
    trans: str = "N",
    diag: str = "N",
    alpha: complex | Array = 1.0,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha op(a) b (`side` = "R": alpha b op(a)) for every triangular matrix of a batch; options as for `trsm`.

    alpha is one number or one per matrix. `out` may be b. The other triangle is never read, and with diag="U" neither
    is the diagonal.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.trmm(np.array([[[2.0, np.nan], [1.0, 4.0]]]), np.array([[1.0], [2.0]]))
    array([[[2.],
            [9.]]])
    """
    form = triangle(side, uplo, trans, diag)
    if type(alpha) is not float and not are_numbers(alpha):
        return scaled_each(multiply(a, b, None, 1.0, backend, form), alpha, 0.0, out)
    return multiply(a, b, out, alpha, backend, form)


def as_columns(operand: Any, name: str) -> Any:
    """Vectors (..., n), or a list of them, as matrices of one column in the same memory; those of a Ragged are."""
    if isinstance(operand, Ragged):
        wide = operand.layout.host()[1] != 1
        if wide.any():
            i = int(wide.argmax())
            raise ValueError(f"{name}[{i}] has shape {operand.shapes[i]}: one column is needed")
        return operand
    kind = stacks.kind_of(operand, name)
    if kind is not None and not kind.immutable:
        stacks.described(kind, operand, name)
    if stacks.is_list(operand):
        for i, one in enumerate(operand):
            if len(one.shape) != 1:
                raise ValueError(f"{name}[{i}] has shape {tuple(one.shape)}: a list holds vectors (one dimension)")
        return [one[:, None] for one in operand]
    if len(operand.shape) < 1:
        raise ValueError(f"{name} has shape (): a vector or a stack of vectors is needed")
    return operand[..., None]


def as_vectors(result: Any) -> Any:
    if isinstance(result, Ragged):
        return result
    return [one[:, 0] for one in result] if stacks.is_list(result) else result[..., 0]
