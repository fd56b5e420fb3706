"""Fast paths of products that cuBLAS or NumPy's BLAS answers: addresses, a new array and one call, as for a kernel of
ours.

An array library's own product costs the host two to four times as much. What is scaled, lies otherwise than the routine
wants it, or overlaps, takes the operation's general path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..arrays import cublas_products, host_products
from ..arrays.gemm import Gemm
from ..arrays.host_products import RankK
from ..arrays.kinds import View
from ..arrays.types import Array, Kind, Matrices
from ..backends.base import Launch
from ..plan.problem import ITEMSIZE
from .direct import Direct, Reach, described

_UNSCALED = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0
General = Callable[..., Matrices]


class Place(NamedTuple):
    """Where operands and result of a product are."""

    kind: Kind
    device: tuple[str, int]
    shape: tuple[int, ...]  # of the result
    dtype: str
    reaches: tuple[Reach, ...]  # of A, B and, where it is given, `out`
    is_pair: bool = True  # False: calls have no B, and the routine reads A alone


def launch_of(kind: Kind, gemm: Gemm | None, device: tuple[str, int]) -> Launch | None:
    """The call of cuBLAS for products on a GPU; None where it cannot be called directly."""
    if gemm is None or device[0] != "cuda" or gemm.dtype not in kind.cublas_dtypes:
        return None
    kind.load_cublas()
    return cublas_products.launch(gemm, device[1])


def on_host(kind: Kind, asked: Gemm | RankK | None, views: Sequence[View]) -> Launch | None:
    """The call of NumPy's BLAS for NumPy's arrays that lie like `views`; None where NumPy's own functions answer: for
    other libraries, whose products are their own, and arrays that begin between two numbers."""
    if asked is None or not kind.on_host_alone or any(_is_between(view) for view in views):
        return None
    return host_products.launch(asked) if isinstance(asked, Gemm) else host_products.rank_k_launch(asked)


def _is_between(view: View) -> bool:
    """Whether an array does not begin at a multiple of its numbers' size, of complex ones at that of their parts."""
    size = ITEMSIZE.get(view.dtype, 1)
    return view.device[0] != "cpu" or view.address % (size // 2 if view.dtype.startswith("complex") else size) != 0


def of_matrices(a: View, b: View, c: View, layouts: list[tuple[str, int]]) -> Gemm:
    """The product of two matrices as it is asked for; arrays carry their conjugation."""
    shapes = tuple((view.shape[0], view.shape[1]) for view in (a, b, c))
    strides = tuple(view.strides for view in (a, b, c))
    return Gemm(a.dtype, shapes, tuple(layouts), strides, (0, 0, 0), ((0, 0, 0),), 1, (a.conjugated, b.conjugated))


def fast_path(place: Place, launch: Launch, general: General) -> General:
    """The path of calls without factors. Where `out` lies near an operand, `general` decides whether they overlap."""
    kind, shape, dtype = place.kind, place.shape, place.dtype
    address, empty, stream = kind.address, kind.empty, kind.stream_of(place.device)
    placed = len(place.reaches) == 3
    (first_a, last_a), (first_b, last_b), (first_c, last_c) = (*place.reaches, (0, 0))[:3]

    def fast(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        if alpha != 1.0 or beta != 0.0 or placed != (out is not None):
            return general(A, B, out, alpha, beta)
        a = address(A)
        b = a if B is None else address(B)
        if placed:
            c = address(out)
            low, high = c + first_c, c + last_c
            if (a + first_a < high and low < a + last_a) or (b + first_b < high and low < b + last_b):
                return general(A, B, out, alpha, beta)
            result = out
        else:
            result = empty(shape, dtype, A)
            c = address(result)
        launch((a, b, c), _UNSCALED, stream())
        return result

    return described(fast, _direct(place, launch))


def _direct(place: Place, launch: Launch) -> Direct:
    """The fast path as the native launcher takes it."""
    maker = place.kind.maker(place.shape, place.dtype, place.dtype)
    reaches = place.reaches if len(place.reaches) == 3 else ()
    order = (0, 1 if place.is_pair else 0, 2)
    return Direct(place.kind, launch, place.device, order, (maker,), reaches, scalars=_UNSCALED)
