"""Operations of `mansard explain` and `mansard tune`: the names that users call, and the problems they mean.

Options have one meaning throughout: products give M x N results, K is what is summed over, --batch counts matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, NamedTuple

from ..errors import UsageError
from ..kernels.batched import gemm, gemv, trsm
from ..kernels.factor import cholesky, lu, qr
from ..kernels.sparse import powers, spmv
from ..kernels.tall_skinny import gram, matmul_gram, tsm2r, tsmm
from .handover import FEWEST_ON_CPUS, family_for
from .problem import ITEMSIZE, Problem


@dataclass(frozen=True)
class Asked:
    """The options of a command line; a size that was not given is None."""

    operation: str
    dtype: str = "float64"
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    layout: str = "row"
    same: bool = False
    deterministic: bool = True
    on_cpu: bool = False  # where the arrays live: short products go to the array library there


class Sizes(NamedTuple):
    """The sizes of a problem, all known."""

    m: int
    n: int
    k: int
    batch: int


Make = Callable[[Asked, Sizes], Problem]


class Operation(NamedTuple):
    """One name that can be asked about."""

    family: str  # that its tuning records belong to; of matmul the shape decides
    text: str  # the formula, and what the options mean
    make: Make
    takes: tuple[str, ...]  # options with a meaning, those that are needed first
    needs: int  # how many of them have no default
    long: str = "batch"  # the option that `tune` chooses by --elements
    entries: Callable[[Sizes], int] = lambda s: max(s.m * s.k, s.k * s.n, s.m * s.n)  # elements per unit of `long`
    n: str | int = "m"  # default of N: that of another option, or a number
    want: str = ""  # the records' trait that tells operations of a family apart
    is_tunable: bool = True


def _tall(family: str, text: str, make: Make, is_tunable: bool = True) -> Operation:
    found = Operation(family, text, make, ("m", "k", "n"), 2, "k", lambda s: max(s.m, s.n))
    return found._replace(is_tunable=is_tunable)


def _square(family: str, text: str, make: Make, want: str, is_tunable: bool = True) -> Operation:
    entries: Callable[[Sizes], int] = lambda s: s.m * s.m  # noqa: E731
    return Operation(family, text, make, ("m", "batch"), 2, entries=entries, want=want, is_tunable=is_tunable)


def _rectangle(family: str, text: str, make: Make, want: str) -> Operation:
    return Operation(family, text, make, ("m", "batch", "n"), 2, entries=lambda s: s.m * s.n, want=want)


def _system(family: str, text: str, make: Make, want: str = "") -> Operation:
    entries: Callable[[Sizes], int] = lambda s: s.m * max(s.m, s.n)  # noqa: E731
    return Operation(family, text, make, ("m", "batch", "n"), 2, entries=entries, n=1, want=want)


def _sparse(family: str, text: str, make: Make, n: int, is_tunable: bool = True) -> Operation:
    return Operation(family, text, make, ("m", "k", "n"), 2, "m", lambda s: s.k, n, is_tunable=is_tunable)


def _products(make: Callable[..., Problem]) -> Make:
    return lambda asked, s: make(asked.dtype, s.m, s.n, s.k, layout_a=asked.layout)


def _matmul_gram(asked: Asked, s: Sizes) -> Problem:
    return matmul_gram.spec.problem(asked.dtype, s.m, s.n, s.k)


def _gram(asked: Asked, s: Sizes) -> Problem:
    layouts: dict[str, Any] = {"layout_a": asked.layout, "layout_b": asked.layout}
    return gram.spec.problem(
        asked.dtype, s.m, s.n, s.k, **layouts, same=asked.same, deterministic=asked.deterministic
    )  # fmt: skip


def _matmul(asked: Asked, s: Sizes) -> Problem:
    """The problem that `ms.matmul` makes of two matrices, or of a batch of them."""
    if asked.batch is not None:
        return (_gemv if s.n == 1 else _gemm)(asked, s)
    family = family_for(asked.dtype, s.m, s.k, s.n, FEWEST_ON_CPUS if asked.on_cpu else 0)
    if family == "gram":  # of A^T, whose rows are A's columns
        turned = "col" if asked.layout == "row" else "row"
        return gram.spec.problem(asked.dtype, s.m, s.n, s.k, layout_a=turned, layout_b=asked.layout, conj=False)
    if family == "tsmm":
        return tsmm.spec.problem(asked.dtype, s.k, s.n, s.m, layout_a=asked.layout)
    if family == "tsm2r":
        return tsm2r.spec.problem(asked.dtype, s.m, s.n, s.k, layout_a=asked.layout)
    return _gemm(asked, s._replace(batch=1))


def _gemm(asked: Asked, s: Sizes) -> Problem:
    layouts: dict[str, Any] = {f"layout_{side}": asked.layout for side in "abc"}
    return gemm.spec.problem(asked.dtype, s.m, s.n, s.k, s.batch, **layouts)


def _gemv(asked: Asked, s: Sizes) -> Problem:
    return gemv.spec.problem(asked.dtype, s.m, s.k, s.batch, layout_a=asked.layout)


def _trsm(asked: Asked, s: Sizes) -> Problem:
    layouts: dict[str, Any] = {"layout_a": asked.layout, "layout_b": asked.layout}
    return trsm.spec.problem(asked.dtype, s.m, s.n, s.batch, **layouts)


def _cholesky(asked: Asked, s: Sizes) -> Problem:
    return cholesky.spec.problem(asked.dtype, s.m, s.batch, layout_a=asked.layout)


def _lu(want: str) -> Make:
    def make(asked: Asked, s: Sizes) -> Problem:
        columns, right = (s.m, s.n) if want == "solve" else (s.n, 0)
        layouts: dict[str, Any] = {"layout_a": asked.layout, "layout_b": asked.layout}
        return lu.spec.problem(asked.dtype, s.m, columns, s.batch, NRHS=right, want=want, **layouts)

    return make


def _qr(asked: Asked, s: Sizes) -> Problem:
    return qr.spec.problem(asked.dtype, s.m, s.n, s.batch, layout_a=asked.layout)


def _spmv(asked: Asked, s: Sizes) -> Problem:
    vector = gcd(s.n, 16 // ITEMSIZE[asked.dtype])
    return spmv.spec.problem(asked.dtype, s.m, s.m, s.m * s.k, s.n, ragged=False, vector=vector)


def _powers(asked: Asked, s: Sizes) -> Problem:
    return powers.spec.problem(asked.dtype, s.m, s.m * s.k, s.n)


OPERATIONS: dict[str, Operation] = {
    "gram": _tall("gram", "C = A^H B, A is K x M, B is K x N", _gram),
    "matmul": Operation("", "C = A B, A is M x K, B is K x N; with --batch, that many", _matmul,
                        ("m", "k", "n", "batch"), 2, n="k"),
    "tsmm": _tall("tsmm", "A B for tall A (K x M) and small B (M x N)", _products(tsmm.spec.problem)),
    "tsm2r": _tall("tsm2r", "A B for large A (M x K) and skinny B (K x N)", _products(tsm2r.spec.problem)),
    "matmul_gram": _tall("matmul_gram", "D = A B and D^H D, A is K x M, B is M x N", _matmul_gram, is_tunable=False),
    "gemm": Operation("gemm", "a batch of C = A B, A is M x K, B is K x N", _gemm, ("m", "batch", "n", "k"), 2),
    "gemv": Operation("gemv", "a batch of y = A x, A is M x K", _gemv, ("m", "batch", "k"), 2, n=1),
    "trsm": _system("trsm", "a batch of triangular systems of order M, N right-hand sides", _trsm),
    "cholesky": _square("cholesky", "a batch of A = L L^H, A is M x M", _cholesky, "factor"),
    "lu_factor": _rectangle("lu", "a batch of A = P L U, A is M x N", _lu("factor"), "factor"),
    "qr": _rectangle("qr", "a batch of A = Q R, A is M x N; R and reflectors", _qr, "raw"),
    "solve": _system("lu", "a batch of A X = B, A is M x M, N right-hand sides", _lu("solve"), "solve"),
    "inv": _square("lu", "a batch of inverses, A is M x M", _lu("inverse"), "inverse"),
    "det": _square("lu", "a batch of determinants, A is M x M", _lu("determinant"), "determinant", is_tunable=False),
    "spmv": _sparse("spmv", "sparse A, M rows of K entries, times N vectors", _spmv, 1),
    "matrix_powers": _sparse("powers", "N powers of a sparse A, M rows of K entries", _powers, 4, is_tunable=False),
}  # fmt: skip
ALIASES = {"lu": "lu_factor", "powers": "matrix_powers", "solve_triangular": "trsm", "trsv": "trsm"}
TUNABLE = tuple(name for name, operation in OPERATIONS.items() if operation.is_tunable)
_MEANING = {"batch": "the number of matrices"}


def named(name: str) -> Operation:
    """The operation of this name, or of which this is another name."""
    return OPERATIONS[ALIASES.get(name, name)]


def names(tunable: bool = False) -> tuple[str, ...]:
    """All names that are understood."""
    known = TUNABLE if tunable else tuple(OPERATIONS)
    return (*known, *(alias for alias, name in ALIASES.items() if name in known))


def problem_of(asked: Asked) -> Problem:
    """The problem that is meant; UsageError where an option is missing, or has no meaning here."""
    return named(asked.operation).make(asked, sizes_of(asked))


def sizes_of(asked: Asked) -> Sizes:
    """All sizes, with the defaults of those that were not given."""
    operation = named(asked.operation)
    given = {name: getattr(asked, name) for name in Sizes._fields if getattr(asked, name) is not None}
    for name in operation.takes[: operation.needs]:
        if name not in given:
            raise UsageError(f"{asked.operation} needs --{name}, {_MEANING.get(name, 'a size')}: {operation.text}")
    for name in given:
        if name not in operation.takes:
            raise UsageError(f"{asked.operation} has no --{name}: {operation.text}")
    if asked.same and (operation.family != "gram" or asked.n not in (None, asked.m)):
        raise UsageError("--same means that B is A: it belongs to gram, with N = M (leave --n out)")
    m, k = given["m"], given.get("k", given["m"])
    n = given.get("n", {"m": m, "k": k}.get(str(operation.n), operation.n))
    return Sizes(m, int(n), k, given.get("batch", 1))


def with_long(asked: Asked, elements: int) -> Asked:
    """Return `asked` with its long size set so that the largest operand has about `elements` entries.

    A long size that the user gave stays."""
    long = named(asked.operation).long
    if getattr(asked, long) is not None:
        return asked
    one: dict[str, Any] = {long: 1}
    entries = named(asked.operation).entries(sizes_of(replace(asked, **one)))
    many: dict[str, Any] = {long: max(1, elements // max(1, entries))}
    return replace(asked, **many)


def help_text(tunable: bool = False) -> str:
    """The table of operations, for --help."""
    lines = [f"  {name:<14} {OPERATIONS[name].text}" for name in (TUNABLE if tunable else OPERATIONS)]
    others = [f"{alias} is {name}" for alias, name in ALIASES.items() if name in names(tunable)]
    return "\n".join(["operations:", *lines, f"  ({'; '.join(others)})"])
