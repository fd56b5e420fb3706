"""Gradients with respect to tiny matrices by one launch, on GPUs: of inverses, Cholesky factors and solutions.

Derivatives are products and triangular systems of other operations. Where matrices are tiny, these read and write what
the next one reads again; the kernels of `gradients` keep it. Where there is no kernel, the functions return None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind
from ...backends.base import Launch
from ...backends.select import select
from ...kernels.factor import gradients
from ...plan import dispatch, pin
from ...plan.problem import ITEMSIZE, Options
from ...plan.route import Request
from .. import run as call
from .. import stacks
from ..plans import PLANS
from ..stacks import Operand
from .kernel import Place, is_readable, packed, place_of

_ON = ("cuda", "emulated")  # backends that have the kernels
Launched = Callable[..., Array]  # arrays -> the gradients; None: not by a kernel


class _Asked(NamedTuple):
    """What is wanted, and options of the call that is differentiated."""

    want: str
    pivot: bool = True
    backend: str | None = None


def of_inverse(X: Array, G: Array, backend: str | None = None) -> Array:
    """-X^H G X^H: the gradient of a from that of its inverse X."""
    return _by_kernel(_Asked("inverse", backend=backend), (X, G))


def congruence(V: Array, S: Array, backend: str | None = None) -> Array:
    """V S V^H."""
    return _by_kernel(_Asked("congruence", backend=backend), (V, S))


def of_cholesky(L: Array, G: Array, backend: str | None = None) -> Array:
    """The gradient of a = L L^H from that of L; lower triangles are read."""
    return _by_kernel(_Asked("cholesky", backend=backend), (L, G))


def of_solution(
    a: Array, X: Array, G: Array, pivot: bool = True, backend: str | None = None
) -> tuple[Array, Array] | None:  # fmt: skip
    """The gradients -W X^H of a and W = a^-H G of b, from that of X with a X = b."""
    found: tuple[Array, Array] | None = _by_kernel(_Asked("solution", pivot, backend), (a, G, X))
    return found


def _by_kernel(asked: _Asked, given: tuple[Array, ...]) -> Array:
    """What the kernel for stacks like these gives; None: there is none, or parameters are pinned, which are others'."""
    kind = arrays.known_kind(given[0])
    if kind is None or pin.pins():
        return None
    key = ("gradients", asked, kind, *map(kind.signature, given))
    return PLANS.made(key, lambda: _planned(asked, kind, given))(*given)


def _no_kernel(*given: Array) -> None:
    return None


def _planned(asked: _Asked, kind: Kind, given: tuple[Array, ...]) -> Launched:
    """The launch for arrays like these, on copies of those that kernels do not read."""
    if any(arrays.known_kind(one) is not kind or len(one.shape) < 2 for one in given):
        return _no_kernel
    transposed = asked.want == "solution"
    operands = [stacks.operand_of(kind, one, name, transposed and name == "a")
                for one, name in zip(given, "agy", strict=False)]  # fmt: skip
    device, dtype = operands[0].view.device, operands[0].view.dtype
    backend = select(device, asked.backend)
    if backend.name not in _ON or not _fit(operands):
        return _no_kernel
    copied = [not is_readable(one, backend.name, shared=True) or place_of(one).stack == "pointers" for one in operands]
    used = [_copied(one) if copy else one for one, copy in zip(operands, copied, strict=True)]
    places = dict(zip("agy", map(place_of, used), strict=False))
    problem = gradients.spec.problem(
        dtype, operands[0].rows, prod(operands[0].shape), want=asked.want, pivot=asked.pivot,
        NRHS=operands[2].columns if transposed else 0, **_traits(places, max(1, 16 // ITEMSIZE[dtype])),
    )  # fmt: skip
    is_free = asked.backend is None
    request = Request.of(backend, "gradients", may_hand_over=is_free, spares_compiling=is_free)
    strides = tuple(step for name in "agy" for step in (places[name].strides if name in places else (0, 0, 0)))
    choice = dispatch.decide(problem, request)
    launch, _, _ = call.prepare(gradients.emit, problem, backend, strides, choice=choice)
    if launch is None:
        return _no_kernel
    run = _run_solution if transposed else _run
    return _on_copies(kind, copied, run(kind, launch, kind.stream_of(device), operands))


def _fit(operands: Sequence[Operand]) -> bool:
    """Whether these are stacks of one dtype, with the same leading dimensions, of square matrices and what suits them;
    none of them empty."""
    a, g, *more = operands
    alike = all(one.shape == a.shape and one.view.dtype == a.view.dtype for one in operands)
    sized = a.rows == a.columns == g.rows and (
        (g.rows, g.columns) == (more[0].rows, more[0].columns) if more else g.columns == a.columns
    )
    return alike and sized and 0 not in (*a.shape, a.rows, g.columns)


def _copied(operand: Operand) -> Operand:
    """The operand as it is after `Kind.plain`: rows of the array without gaps."""
    if not operand.transposed:
        return packed(operand.view, operand.shape, operand.rows, operand.columns)
    rows, columns = operand.columns, operand.rows
    made = packed(operand.view, operand.shape, rows, columns)
    return made._replace(rows=columns, columns=rows, row=made.column, column=made.row, transposed=True)


def _traits(places: dict[str, Place], unit: int) -> Options:
    """Layout, pitch and stack of every operand, and whether all are aligned."""
    traits: Options = {"aligned": all(place.aligned(unit) for place in places.values())}
    for name, place in places.items():
        layout, pitch = place.operand.layout
        traits |= {f"layout_{name}": layout, f"stack_{name}": place.stack}
        traits[f"pitch_{name}"] = None if layout == "any" else pitch
    return traits


def _on_copies(kind: Kind, copied: Sequence[bool], run: Launched) -> Launched:
    """The launch on copies of some operands."""
    if not any(copied):
        return run
    plain = kind.plain

    def run_on_copies(*given: Array) -> Array:
        return run(*(plain(one) if copy else one for one, copy in zip(given, copied, strict=True)))

    return run_on_copies


def _run(kind: Kind, launch: Launch, stream: Callable[[], int], operands: Sequence[Operand]) -> Launched:
    """One launch, whose result is F."""
    address, make = kind.address, _maker(kind, operands[0])

    def run(A: Array, G: Array) -> Array:
        F = make(A)
        launch((address(A), address(G), 0, 0, address(F)), (), stream())
        return F

    return run


def _run_solution(kind: Kind, launch: Launch, stream: Callable[[], int], operands: Sequence[Operand]) -> Launched:
    """One launch, whose results are F and W."""
    address, make_F, make_W = kind.address, _maker(kind, operands[0]), _maker(kind, operands[1])

    def run(A: Array, G: Array, Y: Array) -> tuple[Array, Array]:
        F, W = make_F(A), make_W(A)
        launch((address(A), address(G), address(Y), address(W), address(F)), (), stream())
        return F, W

    return run


def _maker(kind: Kind, like: Operand) -> Callable[[Array], Array]:
    """A function that allocates matrices of this shape, without gaps."""
    return kind.allocator((*like.shape, like.rows, like.columns), like.view.dtype, like.view.dtype)
