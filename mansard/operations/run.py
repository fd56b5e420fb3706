"""What planned calls of all operations share: checks of the operands, the fast path that every later call takes, and
the check that later arrays are like the first ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .. import settings
from ..arrays import kinds as arrays
from ..arrays.kinds import View
from ..arrays.types import Array, Kind, Matrices
from ..backends.base import Backend, Launch
from ..codegen.geometry import Kernel
from ..errors import UnsupportedProblem
from ..kernels.family import Emit
from ..plan import dispatch
from ..plan.problem import DTYPES, ITEMSIZE, Problem
from ..plan.route import Choice, Request
from . import direct, recording, stacks

_NO_SCALING = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0; launches recognise the object
Made = TypeVar("Made")
Multiply = Callable[[Array, Array, Array], Array]  # (A, B, out or None): the product without scaling
Vendor = Callable[[Kind, Problem], Multiply]  # the array library's own product of such operands


def make_verify(
    kind: Kind, A: Matrices, B: Matrices, out: Matrices, names: tuple[str, str] = ("A", "B")
) -> Callable[[Matrices, Matrices, Matrices], None]:
    """A function that refuses arrays which differ from those the plan was made for. Every array is looked at in every
    call: the same object may have another shape, another memory, or a gradient by then."""
    known, signature = arrays.known_kind, kind.signature
    of_a, of_b, of_out = (stacks.signature(kind, array) for array in (A, B, out))
    first, second = names

    def verify(A: Matrices, B: Matrices, out: Matrices) -> None:
        if known(A) is not kind or signature(A) != of_a:
            _check_alike(kind, first, A, of_a)
        if B is None or (B is A and of_b is None):
            if of_b is not None:
                raise ValueError(_DIFFERS.format(second))
        elif known(B) is not kind or signature(B) != of_b:
            _check_alike(kind, second, B, of_b)
        if out is not None and (known(out) is not kind or signature(out) != of_out):
            _check_alike(kind, "out", out, of_out)

    return verify


def _check_alike(kind: Kind, name: str, operand: Matrices, expected: Hashable) -> None:
    """Refuse an operand whose signature is not the expected one, and say why. Lists come here in any case."""
    found = stacks.kind_of(operand, name)
    if found is not None and found is not kind:
        raise TypeError(f"{name} has {found.name} arrays and the plan's {name} {kind.name} arrays: make another plan")
    if found is not None:
        stacks.described(kind, operand, name)
    if found is None or stacks.signature(kind, operand) != expected:
        raise ValueError(_DIFFERS.format(name))


_DIFFERS = "{0} differs in shape, strides, dtype, alignment or device from the plan's {0}: make another plan"


def counted(kind: Kind, out: Matrices, run: Callable[..., Made]) -> Callable[..., Made]:
    """`run`, followed by telling the array library that `out` was overwritten; `run` itself where a plan has no `out`
    or the library need not know. PyTorch's backward then refuses what it saved of `out` before."""
    written, listed = kind.written, stacks.is_list(out)
    if out is None or written is None:
        return run

    def run_and_tell(
        A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Made:
        result = run(A, B, out, alpha, beta)
        if out is not None:
            written(out if listed else (out,))
        return result

    found = direct.description(run)
    return run_and_tell if found is None else direct.described(run_and_tell, found._replace(written=written))


def prepare(
    emit: Emit, problem: Problem, backend: Backend, strides: tuple[int, ...], handover: bool = False,
    choice: Choice | None = None, is_free: bool = False,
) -> tuple[Launch | None, Choice, Kernel | None]:  # fmt: skip
    """The launch (None: no kernel was chosen), the choice, and the kernel. Nothing is compiled for other routes.

    A `choice` that was made before is executed. Without one, the family's kernel is chosen; with `handover`, as
    `matmul` asks: the library answers where it is known to be faster. `is_free`: nobody named a backend, and work too
    little to earn a compilation goes to the library.
    """
    if choice is None:
        operation = "matmul" if handover else ""
        request = Request.of(backend, operation, may_hand_over=handover, spares_compiling=is_free)
        choice = dispatch.decide(problem, request)
    if choice.config is None:
        return None, choice, None
    launch, kernel = recording.prepared(emit, problem, choice.config, backend, strides)
    return launch, choice, kernel


def together(makers: Sequence[Callable[[], Made]]) -> list[Made]:
    """What these functions make, in their order, by a few threads: compilers and LAPACK let others run."""
    workers = min(settings.current().threads, len(makers), _MOST_WORKERS)
    if workers < 2:
        return [make() for make in makers]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda make: make(), makers))


_MOST_WORKERS = 16


def check_matrices(views: dict[str, View]) -> None:
    """Two dimensions, one supported dtype."""
    for name, view in views.items():
        if len(view.shape) != 2:
            raise ValueError(f"{name} has shape {view.shape}: a matrix (two dimensions) is needed")
        if view.dtype not in DTYPES:
            raise UnsupportedProblem(
                f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first"
            )
        if view.dtype != views["A"].dtype:
            raise TypeError(f"A has dtype {views['A'].dtype} and {name} {view.dtype}: convert one of them")


def check_out(out: View | None, shape: tuple[int, ...]) -> None:
    """The result's shape, writable, every entry in a place of its own."""
    if out is None:
        return
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, the result {shape}")
    if out.readonly:
        raise ValueError("out is read-only")
    if out.conjugated:
        raise ValueError("out is a lazily conjugated tensor: pass out.resolve_conj()")
    if 0 not in out.shape and _repeats(out):
        raise ValueError(f"out has strides {out.strides}: several entries share one place in memory")


def _repeats(out: View) -> bool:
    """Whether entries of an array may share memory: a dimension does not step over all that faster ones reach."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(out.shape, out.strides, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


OVERLAPS = "out overlaps {}: the result needs memory of its own"


def make_overlap(a: View | None, b: View | None, out: View, in_place: bool = False) -> Callable[[int, int, int], str]:
    """A function of the addresses of A, B and the result that names the operand which the result overlaps; empty: none.
    An operand that is None is not looked at. `in_place`: the result may begin where A does."""
    (first_a, last_a), (first_b, last_b), (first, last) = (
        (0, 0) if view is None else arrays.reach(view, ITEMSIZE[view.dtype]) for view in (a, b, out)
    )

    def overlap(a: int, b: int, c: int) -> str:
        low, high = c + first, c + last
        if a + first_a < high and low < a + last_a and not (in_place and a == c):
            return "A"
        return "B" if b + first_b < high and low < b + last_b else ""

    return overlap


def layout(view: View) -> tuple[str, int]:
    """Layout and pitch (distance between rows or columns) of a tall operand."""
    (rows, columns), (row, column) = view.shape, view.strides
    if rows <= 1 and (column == 1 or columns == 1):
        return "row", columns
    if (column == 1 or columns == 1) and row >= columns:
        return "row", row
    if row == 1 and column >= rows:
        return "col", column
    return "any", 0


def as_copied(view: View) -> View:
    return view._replace(strides=(view.shape[1], 1), address=0, conjugated=False)


def scalars(problem: Problem, alpha: complex, beta: complex) -> tuple[float, float, float, float]:
    """alpha and beta as kernels take them."""
    if alpha == 1.0 and beta == 0.0:
        return _NO_SCALING
    alpha, beta = complex(alpha), complex(beta)
    if not problem.is_complex and (alpha.imag or beta.imag):
        raise TypeError(f"alpha and beta must be real for {problem.dtype} matrices")
    return alpha.real, alpha.imag, beta.real, beta.imag


class Run:
    """Runs a plan's kernel on arrays. `fast` is the path every call takes once its arrays are known to fit: it is a
    plain function over local names, because at this point tenths of microseconds count."""

    def __init__(
        self, kind: Kind, problem: Problem, launch: Any, copies: tuple[bool, bool], views: dict[str, View],
        shape: tuple[int, ...], vendor: Vendor,
    ) -> None:  # fmt: skip
        self.kind, self.problem, self.launch, self.copies = kind, problem, launch, copies
        self.stream, self.shape, self.vendor = kind.stream_of(views["A"].device), shape, vendor(kind, problem)
        self.views = views
        out, in_place = views.get("out"), bool(dict(problem.traits).get("in_place"))  # the result is A, exactly
        self.in_place = in_place
        read = [None if copied else views.get(name) for name, copied in zip(("A", "B"), copies, strict=True)]
        self._overlap: Any = None if out is None else make_overlap(read[0], read[1], out, in_place)
        self._reach = {name: arrays.reach(view, ITEMSIZE[view.dtype]) for name, view in views.items()}
        # whether the vendor's routine can write the result itself
        self._direct = not in_place and (out is None or out.strides == (shape[1], 1))
        straight = launch is not None and copies == (False, False)
        self.fast = self._make_fast() if straight else self._by_library() if launch is None else self.general

    def _by_library(self) -> Callable[..., Array]:
        """The fast path where the array library answers: its own product, bound here."""
        general, multiply, problem = self.general, self.vendor, self.problem
        if 0 in (problem.K, problem.M, problem.N) or "out" in self.views:
            return general

        def fast(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
            if alpha != 1.0 or beta != 0.0 or out is not None:
                return general(A, B, out, alpha, beta)
            return multiply(A, A if B is None else B, None)

        own = direct.own_of(multiply)
        return fast if own is None else direct.with_own(fast, own)

    def _make_fast(self) -> Callable[..., Array]:
        address, empty, stream, launch, general = (
            self.kind.address, self.kind.empty, self.stream, self.launch, self.general,
        )  # fmt: skip
        shape, dtype, overlap = self.shape, self.problem.dtype, self._overlap
        first_c, last_c = self._reach.get("out", (0, 0))
        first_a, last_a = self._reach["A"]
        first_b, last_b = self._reach.get("B", (0, 0))

        def fast(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
            if alpha != 1.0 or beta != 0.0:
                return general(A, B, out, alpha, beta)
            a = address(A)
            b = a if B is None else address(B)
            if out is None:
                out = empty(shape, dtype, A)
                c = address(out)
            else:
                c = address(out)
                low, high = c + first_c, c + last_c
                near = (a + first_a < high and low < a + last_a) or (b + first_b < high and low < b + last_b)
                if near and (shared := overlap(a, b, c)):
                    raise ValueError(OVERLAPS.format(shared))
            launch((a, b, c), _NO_SCALING, stream())
            return out

        return direct.described(fast, self._direct_launch())

    def _direct_launch(self) -> direct.Direct:
        """The fast path as the native launcher takes it."""
        views, dtype = self.views, self.problem.dtype
        placed = "out" in views
        reaches = tuple(self._reach.get(name, (0, 0)) for name in ("A", "B", "out")) if placed else ()
        return direct.Direct(
            self.kind, self.launch, views["A"].device, (0, 1 if "B" in views else 0, 2),
            (self.kind.maker(self.shape, dtype, dtype),), reaches, in_place=int(self.in_place), scalars=_NO_SCALING,
        )  # fmt: skip

    def general(self, A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        """The same with scaling, copies of operands that no kernel reads, or the vendor's routine."""
        kind = self.kind
        B = A if B is None else B
        if self.copies != (False, False):
            A, B = self._copied(A, B)
        scaling = scalars(self.problem, alpha, beta)
        a, b = kind.address(A), kind.address(B)
        if out is None:
            if beta != 0.0:
                raise ValueError("beta scales the content of out: pass out")
            result = kind.empty(self.shape, self.problem.dtype, A)
        else:
            result = out
            if shared := self._overlap(a, b, kind.address(out)):  # a copied operand is out of danger
                raise ValueError(OVERLAPS.format(shared))
        if self.launch is None:
            return self._vendor(A, B, result, alpha, beta)
        self.launch((a, b, kind.address(result)), scaling, self.stream())
        return result

    def _copied(self, A: Array, B: Array) -> tuple[Array, Array]:
        if A is B:
            plain = self.kind.plain(A)
            return plain, plain
        return (self.kind.plain(A) if self.copies[0] else A), (self.kind.plain(B) if self.copies[1] else B)

    def _vendor(self, A: Array, B: Array, result: Array, alpha: complex, beta: complex) -> Array:
        """The array library's own product; also the answer to empty problems."""
        if 0 in (self.problem.K, self.problem.M, self.problem.N):
            result[...] = result * beta if beta != 0.0 else 0
            return result
        if self._direct and alpha == 1.0 and beta == 0.0:
            return self.vendor(A, B, result)
        product = self.vendor(A, B, None)
        if alpha != 1.0:
            product = product * alpha
        result[...] = product if beta == 0.0 else product + result * beta
        return result
