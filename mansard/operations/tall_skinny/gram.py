"""`gram`: A^H B of tall, skinny matrices, from its arguments to a plan."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...arrays import kinds
from ...arrays.gemm import Gemm
from ...arrays.host_products import Matrix, RankK
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.base import Launch
from ...kernels.tall_skinny.gram import emit, spec
from ...plan import pin
from ...plan.plan import Plan
from ...plan.problem import Problem
from .. import library_launch, operation
from .. import run as call
from ..direct import with_own
from ..operation import Operation
from .pair import Pair


class Form(NamedTuple):
    """Options of `gram`."""

    conj: bool = True  # False: A^T B
    deterministic: bool = True  # False admits reductions whose order varies


_PLAIN = Form()


def gram(
    A: Array,
    B: Array = None,
    *,
    out: Array = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    conj: bool = True,
    deterministic: bool = True,
    backend: str | None = None,
) -> Array:
    """A^H B for tall, skinny A and B: all inner products of two block vectors, in one pass over them.

    Parameters
    ----------
    A : (K, M) array, K any size, of float32, float64, complex64 or complex128; any strides
    B : (K, N) array of the same kind, dtype and device. Left out, it is A: read once, half the work, and the result
        is exactly Hermitian
    out : (M, N) array that receives alpha A^H B + beta out; with beta = 0 its content is not read
    conj : with False, A^T B
    deterministic : the same bits every time (default); False admits reductions whose order varies
    backend : None chooses by where the arrays live; "emulated" runs the GPU kernel on the CPU, "reference" the
        array library's own product

    Returns
    -------
    (M, N) array of the same kind, on the same device; `out` if it was given.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.arange(6.0).reshape(3, 2)
    >>> ms.gram(V)
    array([[20., 26.],
           [26., 35.]])

    Notes
    -----
    Reads K (M + N) elements once; for M = N below about 60 (float64, H200) the memory bandwidth is the limit. NaN and
    infinity propagate; K = 0 gives zeros.

    On GPUs, float32 and complex64 products are summed in float64, or, from K = 4096 on where that is faster, formed as
    three TF32 products each (22 of float32's 24 bits) and summed in float32 chunk by chunk, then in float64: an error
    like that of a plain float32 product. `with ms.pin(UNIT="float64")` insists on the former.

    Wide complex products may be formed from three real products instead of four. Entries have the same kind of error
    bound, a small multiple of |A|^T |B|, but a small imaginary part beside a large real one (or the reverse) is not
    more accurate than the large one. `with ms.pin(VARIANT="ring")` insists on four.
    """
    form = _PLAIN if conj is True and deterministic is True else Form(bool(conj), bool(deterministic))
    return operation.call(GRAM, A, None if B is A else B, out, alpha, beta, backend, form)


def plan_gram(
    A: Array, B: Array, out: Array, backend: str | None, form: Form = _PLAIN, handover: bool = False
) -> Plan:  # fmt: skip
    """Plan A^H B. Nothing is written before every argument has been checked. `handover` lets the library answer where
    it is known to be faster."""
    conj, deterministic = form
    pair = Pair.of(A, B, out)
    a, b, c = pair.views["A"], pair.views.get("B", pair.views["A"]), pair.views.get("out")
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"A has {a.shape[0]} rows and B {b.shape[0]}: both need the same number K")
    call.check_out(c, (a.shape[1], b.shape[1]))
    chosen = pair.backend(backend)
    # A kernel conjugates A while reading; a lazily conjugated B must be made literal first.
    literal = B is None and a.conjugated  # one array on both sides: no single conjugation serves both
    copies = (literal, literal or (B is not None and b.conjugated))
    if chosen.name == "cpu":  # the CPU kernel reads rows or columns, not arbitrary strides
        copies = (copies[0] or call.layout(a)[0] == "any", copies[1] or call.layout(b)[0] == "any")
    on_host = partial(_on_host, pair.kind, a, None if B is None else b, c, conj)
    beside_numpy = B is None and a.device[0] == "cpu" and not pair.kind.on_host_alone
    vendor = partial(_vendor_by_numpy if beside_numpy else _vendor, conj)  # to whom arrays carry their own conjugation
    conj = conj != (a.conjugated and not copies[0])  # copies are literal
    a, b = (call.as_copied(view) if copy else view for view, copy in zip((a, b), copies, strict=True))
    problem = _problem(a, b, B is None, conj, deterministic)
    columns = None if B is None else _columns(a, b, c, conj)
    free = handover or (backend is None and not pin.pins() and _is_left_to_cublas(pair.kind, problem, columns, a))
    shape = problem.M, problem.N
    return pair.plan(emit, problem, chosen, (a, b), shape, free, backend, copies, vendor, columns, on_host)


def _is_left_to_cublas(kind: Kind, problem: Problem, columns: Gemm | None, a: View) -> bool:
    """Whether cuBLAS may answer where records say that it is faster: it reads A as it lies, and sums as exactly.
    Products in single precision are summed in double by kernels alone."""
    exact = problem.dtype in ("float64", "complex128")
    return exact and library_launch.launch_of(kind, columns, a.device) is not None


def _columns(a: View, b: View, c: View | None, conj: bool) -> Gemm:
    """A^H B as cuBLAS may be asked for it: it conjugates while it reads, where a library conjugates a copy of A."""
    (rows, columns), (row, column) = a.shape, a.strides
    turned = a._replace(shape=(columns, rows), strides=(column, row), conjugated=conj and a.dtype.startswith("complex"))
    c = c or call.as_copied(a._replace(shape=(columns, b.shape[1])))
    return library_launch.of_matrices(turned, b, c, [call.layout(view) for view in (turned, b, c)])


def _on_host(kind: Kind, a: View, b: View | None, c: View | None, conj: bool) -> Launch | None:
    """A^H B, or one triangle of A^H A and its mirror image, by NumPy's BLAS; None where that cannot be called."""
    if c is not None and c.dtype != a.dtype:
        return None
    if b is not None:
        return library_launch.on_host(kind, _columns(a, b, c, conj), (a, b) if c is None else (a, b, c))
    c = c or call.as_copied(a._replace(shape=(a.shape[1],) * 2))
    factor, place = Matrix.of(0, a.shape, a.strides).turned, Matrix.of(2, c.shape, c.strides)
    is_adjoint = conj and a.dtype.startswith("complex")
    update = RankK(a.dtype, factor, place, 1, True, is_adjoint, is_adjoint, True)
    return library_launch.on_host(kind, update, (a, c))


def _vendor(conj: bool, kind: Kind, problem: Problem) -> call.Multiply:
    """A^H B by the array library (A^T B without `conj`). With B = A the result is exactly Hermitian, as a kernel's."""
    matmul, hermitian = kind.matmul, conj and problem.is_complex
    if not (problem.same and (hermitian or kind.module is not np)):  # NumPy forms A^T A by BLAS's syrk, of one triangle
        plain: call.Multiply = lambda A, B, out: matmul((kind.conj(A) if hermitian else A).T, B, out)  # noqa: E731
        if hermitian or kind.module is not np or problem.K == 1:
            return plain
        return with_own(plain, (lambda A: np.matmul(A.T, A)) if problem.same else lambda A, B: np.matmul(A.T, B))

    def multiply(A: Array, B: Array, out: Array) -> Array:
        product = matmul((kind.conj(A) if hermitian else A).T, B, out)
        kind.mirror(product, True, hermitian)
        if hermitian:
            kind.diagonals(product).imag[...] = 0
        return product

    return multiply


def _vendor_by_numpy(conj: bool, kind: Kind, problem: Problem) -> call.Multiply:
    """A^H A of other libraries' arrays on a CPU by NumPy's syrk: theirs takes ten times as long to make Hermitian."""
    numpy_multiply = _vendor(conj, kinds.imported("numpy"), problem)

    def multiply(A: Array, B: Array, out: Array) -> Array:
        a = kind.download(A)
        product = kind.upload(numpy_multiply(a, a if B is A else kind.download(B), None), A)
        if out is None:
            return product
        out[...] = product
        return out

    if problem.is_complex or problem.K == 1:
        return multiply
    download, upload = kind.download, kind.upload

    def of_real(A: Array) -> Array:
        a = download(A)
        return upload(np.matmul(a.T, a), A)

    return with_own(multiply, of_real)


def _problem(a: View, b: View, same: bool, conj: bool, deterministic: bool) -> Problem:
    (layout_a, pitch_a), (layout_b, pitch_b) = call.layout(a), call.layout(b)
    return spec.problem(
        a.dtype,
        a.shape[1],
        b.shape[1],
        a.shape[0],
        layout_a=layout_a,
        layout_b=layout_b,
        pitch_a=pitch_a,
        pitch_b=pitch_b,
        aligned=a.address % 16 == 0 and b.address % 16 == 0,
        same=same,
        conj=conj,
        deterministic=deterministic,
    )


GRAM = Operation("gram", plan_gram, lists=False)
operation.enters(
    gram, GRAM, _PLAIN, folds=True, options={"conj": (True, False), "deterministic": (True, False)}, form_of=Form
)
