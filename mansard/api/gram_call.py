"""From the arguments of `gram` to a plan: validation, the problem, and the fast path that every later call takes."""

from __future__ import annotations

from typing import Any

from ..backends.select import ReferenceBackend, select
from ..errors import UnsupportedProblem
from ..families.gram import emit, spec
from ..plan import dispatch
from ..plan.plan import Plan
from ..plan.problem import DTYPES, ITEMSIZE, Problem
from . import arrays
from .arrays import View


_NO_SCALING = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0; launches recognise the object


def plan_gram(A: Any, B: Any, out: Any, conj: bool, deterministic: bool, backend: str | None) -> Plan:
    """A plan for these arrays. Nothing is written before every argument has been checked."""
    given = [("A", A)] + ([("B", B)] if B is not None else []) + ([("out", out)] if out is not None else [])
    kind = arrays.common_kind(given)
    views = {name: kind.view(array) for name, array in given}
    _validate(views)
    device = arrays.same_device(list(views.items()))
    a, b = views["A"], views.get("B", views["A"])
    # A kernel conjugates A while reading; a lazily conjugated B must be made literal first.
    conj, copy_b = conj != a.conjugated, b.conjugated if B is not None else False
    chosen = select(device, backend)
    copies = (False, copy_b)
    if chosen.name == "cpu":  # the CPU kernel reads rows or columns, not arbitrary strides
        copies = (_layout(a)[0] == "any", copy_b or _layout(b)[0] == "any")
    a, b = (_as_copied(view) if copy else view for view, copy in zip((a, b), copies, strict=True))
    problem = _problem(a, b, B is None, conj, deterministic)
    c = views.get("out")
    strides = (*a.strides, *b.strides, *(c.strides if c else (problem.N, 1)))
    run, choice, kernel = _prepare(problem, chosen, strides)
    if isinstance(chosen, ReferenceBackend) and choice.config is not None:
        choice = dispatch.Choice(choice.family, None, "vendor", "no kernel can be compiled here, or the reference was asked for")
    runner = GramRun(kind, problem, run, copies, views, device[1])
    runner.signatures = {name: kind.signature(array) for name, array in given}
    return Plan(problem, choice, chosen, kernel, runner)


def _prepare(problem: Problem, backend: Any, strides: tuple[int, ...]) -> tuple[Any, dispatch.Choice, Any]:
    choice = dispatch.choose(problem, backend.device)
    if choice.config is None or isinstance(backend, ReferenceBackend):
        return None, choice, None
    kernel = emit.kernel(problem, choice.config, backend.device, strides)
    return backend.prepare(kernel), choice, kernel


def _validate(views: dict[str, View]) -> None:
    for name, view in views.items():
        if len(view.shape) != 2:
            raise ValueError(f"{name} has shape {view.shape}: a matrix (two dimensions) is needed")
        if view.dtype not in DTYPES:
            raise UnsupportedProblem(f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
        if view.dtype != views["A"].dtype:
            raise TypeError(f"A has dtype {views['A'].dtype} and {name} {view.dtype}: convert one of them")
    a, b = views["A"], views.get("B", views["A"])
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"A has {a.shape[0]} rows and B {b.shape[0]}: both need the same number K")
    out = views.get("out")
    if out is None:
        return
    if out.shape != (a.shape[1], b.shape[1]):
        raise ValueError(f"out has shape {out.shape}, the result {(a.shape[1], b.shape[1])}")
    if out.readonly:
        raise ValueError("out is read-only")
    if out.conjugated:
        raise ValueError("out is a lazily conjugated tensor: pass out.resolve_conj()")
    if 0 in out.strides and max(out.shape) > 1 and _repeats(out):
        raise ValueError(f"out has strides {out.strides}: several entries share one place in memory")


def _repeats(out: View) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.strides, strict=True))


def _layout(view: View) -> tuple[str, int]:
    """Layout and pitch (distance between rows or columns) of a K x M operand."""
    (rows, columns), (row, column) = view.shape, view.strides
    if column == 1 or columns == 1:
        if row >= columns or rows <= 1:
            if not (columns == 1 and row == 1 and rows > 1):
                return "row", columns if rows <= 1 else row
            return "row", 1
    if row == 1 and column >= rows:
        return "col", column
    return "any", 0


def _as_copied(view: View) -> View:
    return view._replace(strides=(view.shape[1], 1), address=0, conjugated=False)


def _problem(a: View, b: View, same: bool, conj: bool, deterministic: bool) -> Problem:
    (layout_a, pitch_a), (layout_b, pitch_b) = _layout(a), _layout(b)
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


class GramRun:
    """The fast path: operands whose shapes are known to fit, to addresses, to a launch."""

    def __init__(
        self, kind: Any, problem: Problem, launch: Any, copies: tuple[bool, bool], views: dict[str, View], ordinal: int
    ) -> None:
        self.kind, self.problem, self.launch, self.copies, self.ordinal = kind, problem, launch, copies, ordinal
        self.shape, self._dtype = (problem.M, problem.N), problem.dtype
        self._plain = launch is not None and copies == (False, False)
        self._empty, self._address, self._stream = kind.empty, kind.address, kind.stream
        self.signatures: dict[str, Any] = {}
        item = ITEMSIZE[problem.dtype]
        # how far each operand reaches from its address, to see whether `out` overlaps an input
        self._reach = {
            name: tuple(end - view.address for end in arrays.extent(view, item)) for name, view in views.items()
        }

    def __call__(self, A: Any, B: Any = None, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        if out is None and alpha == 1.0 and beta == 0.0 and self._plain:
            result = self._empty(self.shape, self._dtype, A)
            address = self._address
            a = address(A)
            self.launch((a, a if B is None else address(B), address(result)), _NO_SCALING, self._stream(self.ordinal))
            return result
        return self._general(A, A if B is None else B, out, alpha, beta)

    def verify(self, A: Any, B: Any, out: Any) -> None:
        """Refuse arrays that differ from those the plan was made for."""
        for name, array in (("A", A), ("B", B), ("out", out)):
            made_for = self.signatures.get(name)
            if (None if array is None else self.kind.signature(array)) != made_for and not (name == "B" and B is A):
                if array is None and name == "out":
                    continue  # a fresh result has the strides of a fresh result
                raise ValueError(f"{name} differs in shape, strides, dtype, alignment or device from the plan's {name}")

    def _general(self, A: Any, B: Any, out: Any, alpha: complex, beta: complex) -> Any:
        kind = self.kind
        if self.copies != (False, False):
            A, B = self._copied(A, B)
        scalars = self._scalars(alpha, beta)
        a, b = kind.address(A), kind.address(B)
        if out is None:
            if beta != 0.0:
                raise ValueError("beta scales the content of out: pass out")
            result = kind.empty(self.shape, self._dtype, A)
        else:
            result = out
            self._check_overlap(a, b, kind.address(out))
        if self.launch is None:
            return self._vendor(A, B, result, alpha, beta)
        self.launch((a, b, kind.address(result)), scalars, kind.stream(self.ordinal))
        return result

    def _copied(self, A: Any, B: Any) -> tuple[Any, Any]:
        if A is B:
            plain = self.kind.plain(A)
            return plain, plain
        return (self.kind.plain(A) if self.copies[0] else A), (self.kind.plain(B) if self.copies[1] else B)

    def _scalars(self, alpha: complex, beta: complex) -> tuple[float, float, float, float]:
        if alpha == 1.0 and beta == 0.0:
            return _NO_SCALING
        alpha, beta = complex(alpha), complex(beta)
        if not self.problem.is_complex and (alpha.imag or beta.imag):
            raise TypeError(f"alpha and beta must be real for {self.problem.dtype} matrices")
        return alpha.real, alpha.imag, beta.real, beta.imag

    def _check_overlap(self, a: int, b: int, c: int) -> None:
        low, high = (c + end for end in self._reach["out"])
        for name, address in (("A", a), ("B", b)):
            if name in self._reach:
                first, last = (address + end for end in self._reach[name])
                if first < high and low < last:
                    raise ValueError(f"out overlaps {name}: the result needs memory of its own")

    def _vendor(self, A: Any, B: Any, result: Any, alpha: complex, beta: complex) -> Any:
        """The array library's own product; also the answer to empty problems."""
        if self.problem.K == 0 or 0 in self.shape:
            result[...] = result * beta if beta != 0.0 else 0
            return result
        left = self.kind.conj(A) if self.problem.conj else A
        product = self.kind.matmul(left.T, B)
        if alpha != 1.0:
            product = product * alpha
        result[...] = product if beta == 0.0 else product + result * beta
        return result
