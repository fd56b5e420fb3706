"""`matmul`: any operands; tall & skinny ones and batches of small ones by our kernels, others by the array library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import matmul as multiplied

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.base import Launch
from ...backends.select import select
from ...kernels.batched import gemm
from ...plan import dispatch, pin
from ...plan.plan import Plan
from ...plan.problem import DTYPES, ITEMSIZE
from ...plan.route import OWN_ROUTINE, REFERENCE, Choice, Library, Request
from ...plan.tall_skinny_rules import FEWEST_ON_CPUS, family_for
from .. import library_launch, operation, stacks
from .. import run as call
from ..batched.factors import are_numbers, scaled_each
from ..batched.gemm_call import PLAIN, Form, plan_gemm
from ..batched.gemv_call import plan_gemv
from ..batched.library import matrix_product
from ..batched.ragged_call import multiply_special
from ..direct import described, description, with_own
from ..operation import Operation
from . import gram
from .folded import plan_folded
from .tsm2r_call import plan_tsm2r
from .tsmm_call import plan_tsmm

Run = Callable[[Array, Array, Array, complex, complex], Array]


def matmul(
    A: Array,
    B: Array,
    *,
    out: Array = None,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    backend: str | None = None,
) -> Array:
    """Multiply matrices of any shape: alpha A B + beta out.

    A tall matrix times a small one, a transposed tall one times a tall one (`matmul(V.T, W)`), batches of small
    matrices and, on GPUs, a large matrix times a skinny one are computed by kernels made for the shape; everything else
    is handed to the array library.

    Parameters
    ----------
    A : (..., K, M) array of any strides, a list of matrices, a `Ragged` or an `Interleaved` batch
    B : (..., M, N) array of the same kind, dtype and device, or a list. Leading dimensions, and one-dimensional arrays,
        are treated as by `numpy.matmul`; a list goes with a list of the same length, one matrix, or a stack of as many;
        a Ragged with a Ragged of the same length or one matrix, and so does an Interleaved
    out : (..., K, N) array (or list of arrays) that receives the result; it may be A if A is a tall matrix and B
        square: the product is formed in place
    alpha, beta : factors, one number each or one per matrix: an array that broadcasts with the leading dimensions of
        the result, which costs another pass over it. With beta = 0 the content of `out` is not read
    backend : None chooses by where the arrays live; "emulated" runs the GPU kernel on the CPU

    Returns
    -------
    (..., K, N) array of the same kind, on the same device; `out` if it was given; of lists, a list of (K, N) arrays,
    which lie one after the other in memory.

    Notes
    -----
    The remarks in `gram` on float32 and on wide complex products hold here too; `with ms.pin(PRODUCTS=4)` insists on
    four real products per complex one for tall & skinny A.

    Leading dimensions through which A, B and the result each move with one stride cost one launch; others, one launch
    for each of the smaller ones, or an array of addresses. Lists cost an array of addresses and a look at every array.
    As with any work on a GPU's stream, arrays of a list stay as they are until it is done.

    Products of a Ragged are sorted by size on the device, and each size class has a kernel. Sizes that the host knows
    are checked; where they exist only on a GPU and `out` is given, nothing waits for them, and products whose sizes do
    not fit become NaN (`A.shapes` fetches the sizes, after which they are checked).

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.arange(6.0).reshape(3, 2)
    >>> ms.matmul(V, np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[1., 0.],
           [3., 2.],
           [5., 4.]])
    >>> ms.matmul(V.reshape(3, 1, 2), np.ones((3, 2, 1))).ravel()
    array([1., 5., 9.])
    """
    if not (type(alpha) is float and type(beta) is float) and not are_numbers(alpha, beta):
        product = operation.call(MATMUL, A, B, None, 1.0, 0.0, backend, PLAIN)
        vectors = sum(not stacks.is_list(one) and getattr(one, "ndim", 2) == 1 for one in (A, B))
        return scaled_each(product, alpha, beta, out, 2 - vectors)
    return operation.call(MATMUL, A, B, out, alpha, beta, backend, PLAIN)


def plan_matmul(A: Array, B: Array, out: Array, backend: str | None, form: Form = PLAIN) -> Plan:
    """Plan A B: which operation answers is decided by shape and by records, before anything is compiled."""
    if stacks.is_list(A) or stacks.is_list(B):
        return plan_gemm(A, B, out, backend)
    kind = arrays.common_kind([("A", A), ("B", B)] + ([("out", out)] if out is not None else []))
    a, b = kind.view(A, "A"), kind.view(B, "B")
    arrays.same_device([("A", a), ("B", b)])
    if _is_stack(a, b):
        if _are_vectors(a, b, None if out is None else kind.view(out, "out")):
            return _times_vectors(kind, A, B, out, backend)
        free = a.device[0] == "cuda" and backend is None and form == PLAIN and not pin.pins()
        folded = plan_folded(kind, A, B, out, a, b) if free else None
        return folded or plan_gemm(A, B, out, backend)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.dtype not in DTYPES or a.dtype != b.dtype:
        _check_for_library(kind, a, b)
        route = Library(OWN_ROUTINE, "no kernel multiplies such operands", has_rival=False)
        choice = Choice(gemm.FAMILY, route, "rule")
        return _by_library(kind, A, B, out, (a, b, None), backend, choice)
    (m, k), n = a.shape, b.shape[1]
    if k != b.shape[0]:
        raise ValueError(f"A has {k} columns and B {b.shape[0]} rows: both need the same number")
    c = None if out is None else kind.view(out, "out")
    arrays.same_device([("A", a), ("out", c or a)])
    fewest = FEWEST_ON_CPUS if a.device[0] == "cpu" and backend is None else 0
    family = family_for(a.dtype, m, k, n, fewest, select(a.device, None).device)
    if family is None:
        return _by_library(kind, A, B, out, (a, b, c), backend)
    free = backend is None and not pin.pins()
    plan = _PLANNERS[family](A, B, out, backend, handover=free)
    by_library = free and isinstance(plan.choice.route, Library)
    return replace(plan, run=_vendor(kind, a, b, c, out, None)) if by_library else plan


def _plan_transposed(A: Array, B: Array, out: Array, backend: str | None, handover: bool) -> Plan:
    """Plan A B as a Gram product of the transposed A, which is tall."""
    plan = gram.plan_gram(A.T, B, out, backend, gram.Form(conj=False), handover)
    kind = arrays.kind_of(A, "A")

    def run(A: Array, B: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        return plan.run(A.T, B, out, alpha, beta)

    direct = description(plan.run)  # the transposed A begins where A does
    path = run if direct is None else described(run, direct._replace(general=run))
    return replace(plan, run=path, verify=call.make_verify(kind, A, B, out))


_PLANNERS: dict[str, Callable[..., Plan]] = {"gram": _plan_transposed, "tsmm": plan_tsmm, "tsm2r": plan_tsm2r}


def _by_library(
    kind: Kind, A: Array, B: Array, out: Array, views: tuple[View, View, View | None], backend: str | None,
    choice: Choice | None = None,
) -> Plan:  # fmt: skip
    """Plan the array library's own product of operands that no family multiplies."""
    a, b, c = views
    run = _vendor(kind, a, b, c, out, backend)
    sizes = (*a.shape[-2:], *b.shape[-1:]) if len(a.shape) > 1 and len(b.shape) > 1 else (1, 1, 1)
    dtype = a.dtype if a.dtype in DTYPES else "float64"  # of which only `explain` makes use
    problem, chosen = gemm.spec.problem(dtype, sizes[0], sizes[2], sizes[1], 1), select(a.device, None)
    choice = choice or dispatch.decide(problem, Request.of(chosen, "matmul"))
    return Plan(problem, choice, chosen, None, run, call.make_verify(kind, A, B, out))


def _are_vectors(a: View, b: View, out: View | None) -> bool:
    """Whether a stack of matrices meets one vector (k,), or single columns (..., k, 1); shapes that do not fit are left
    to gemm, which says so."""
    columns = len(b.shape) == 1 or b.shape[-1] == 1
    if len(a.shape) < 2 or not columns or a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        return False
    return out is None or len(b.shape) == 1 or out.shape[-1:] == (1,)


def _times_vectors(kind: Kind, A: Array, B: Array, out: Array, backend: str | None) -> Plan:
    """Plan the product of matrices with vectors (k,), or with single columns (..., k, 1)."""
    if len(B.shape) == 1:
        return plan_gemv(A, B, out, backend)
    plan = plan_gemv(A, B[..., 0], None if out is None else out[..., 0], backend)

    def run(A: Array, B: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        result = plan.run(A, B[..., 0], None if out is None else out[..., 0], alpha, beta)
        return result[..., None] if out is None else out

    direct, path = description(plan.run), run
    if direct is not None:  # vectors begin where columns do
        shape, dtype = (*direct.makers[0].given[0], 1), plan.problem.dtype
        path = described(run, direct._replace(makers=(kind.maker(shape, dtype, dtype),), general=run))
    return replace(plan, run=path, verify=call.make_verify(kind, A, B, out))


def _check_for_library(kind: Kind, a: View, b: View) -> None:
    """Refuse operands that the array library does not multiply: its own errors do not name them."""
    for name, view in (("A", a), ("B", b)):
        if not view.shape:
            raise ValueError(f"{name} is a single number: pass a vector, a matrix or a stack of matrices")
    kind.check_matmul({"A": a.dtype, "B": b.dtype})
    inner = a.shape[-1], b.shape[-2 if len(b.shape) > 1 else 0]
    if inner[0] != inner[1]:
        raise ValueError(f"A has shape {a.shape} and B {b.shape}: {inner[0]} columns do not go with {inner[1]} rows")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"A has shape {a.shape} and B {b.shape}: leading dimensions do not broadcast") from None


def _is_stack(a: View, b: View) -> bool:
    """Whether this is a batch of products that kernels of ours might form."""
    dimensions = len(a.shape), len(b.shape)
    return max(dimensions) > 2 and min(dimensions) > 0 and a.dtype in DTYPES and a.dtype == b.dtype


def _vendor(kind: Kind, a: View, b: View, c: View | None, out: Array, backend: str | None) -> Run:
    """The array library's product; by its BLAS where that takes the arrays as they lie."""
    matrices = len(a.shape) == len(b.shape) == 2 and a.dtype == b.dtype
    shape = (a.shape[0], b.shape[1]) if matrices else ()
    if c is not None:
        call.check_out(c, shape)
    place = c or (call.as_copied(a._replace(shape=shape)) if matrices else None)
    blas = matrix_product(kind, a, b, place) if place else None
    direct = c is not None and c.strides == (c.shape[1], 1) and c.dtype == a.dtype and 0 not in c.shape
    below = blas is not None and kind.prefers_blas
    overlap = call.make_overlap(a, b, c) if c is not None else None
    in_place = c is not None and (a.address, a.shape, a.strides) == (c.address, c.shape, c.strides)
    address, matmul = kind.address, kind.matmul

    def shared(A: Array, B: Array, out: Array) -> str:
        return "" if overlap is None else overlap(address(A), address(B), address(out))

    def run(A: Array, B: Array, out: Array, alpha: complex, beta: complex) -> Array:
        if out is None and beta != 0.0:
            raise ValueError("beta scales the content of out: pass out")
        where = shared(A, B, out)
        if where and not (in_place and where == "A"):
            raise ValueError(call.OVERLAPS.format(where))
        own = not where
        if alpha == 1.0 and beta == 0.0 and own and (direct or out is None) and not below:
            return kind.matmul(A, B, out)
        if blas is not None and own:
            result = kind.empty(shape, a.dtype, A) if out is None else out
            blas(A, B, result, alpha, beta)
            return result
        product = kind.matmul(A, B)
        if alpha != 1.0:
            product = product * alpha
        if out is None:
            return product
        out[...] = product if beta == 0.0 else product + out * beta
        return out

    def plain(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        return matmul(A, B) if alpha == 1.0 and beta == 0.0 and out is None else run(A, B, out, alpha, beta)

    def into(A: Array, B: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        plainly = alpha == 1.0 and beta == 0.0 and out is not None
        return matmul(A, B, out) if plainly and not shared(A, B, out) else run(A, B, out, alpha, beta)

    straight = _launch(kind, a, b, place, backend) if matrices and place else None
    if straight is not None:
        views = (a, b) if c is None else (a, b, c)
        reaches = tuple(arrays.reach(view, ITEMSIZE[view.dtype]) for view in views)
        spot = library_launch.Place(kind, a.device, shape, a.dtype, reaches)
        return call.counted(kind, out, library_launch.fast_path(spot, straight, run))
    if below or (c is not None and not direct):
        return call.counted(kind, out, run)
    if overlap is not None:
        return call.counted(kind, out, into)
    outer = len(a.shape) > 1 and a.shape[-1] == 1  # of NumPy's arrays by its vector loops
    fixed = kind.on_host_alone or a.dtype in kind.cublas_dtypes  # of others the library's settings decide in every call
    return plain if outer or kind.prefers_blas else with_own(plain, multiplied if fixed else matmul)


def _launch(kind: Kind, a: View, b: View, c: View, backend: str | None) -> Launch | None:
    """cuBLAS, or NumPy's BLAS, for matrices that lie like these; None where it cannot be called directly."""
    if a.dtype not in DTYPES or 0 in (*a.shape, *b.shape) or c.dtype != a.dtype:
        return None
    gemm = library_launch.of_matrices(a, b, c, [call.layout(view) for view in (a, b, c)])
    found = library_launch.launch_of(kind, gemm, a.device)
    return found or (None if backend == REFERENCE else library_launch.on_host(kind, gemm, (a, b, c)))


MATMUL = Operation("matmul", plan_matmul, special=lambda A, B, out: multiply_special(A, B), in_place=True)
operation.enters(matmul, MATMUL, PLAIN)
