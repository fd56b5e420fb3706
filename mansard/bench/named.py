"""Cases of an operation by its name: those of the sets that measure it, or one of the sizes that were asked for.

Names and sizes are those of the registry of operations.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import UsageError
from ..operations import registry
from ..operations.sizes import Asked, Sizes
from ..plan.problem import ITEMSIZE, Problem
from .cases import Case, CaseSet, Size, is_gpu_only
from .declared import contest as declared
from .declared.operations import DECLARED
from .extension import Extension
from .runner import sets_of
from .sparse import cases as sparse_cases
from .sparse.matrices import MATRICES
from .tall_skinny.orthogonal_cases import CONDITIONS

SIZES = ("m", "n", "k", "batch")
TABLE = "mansard/bench/declared/table.py"
_ANY = Size("cpu", dict.fromkeys(ITEMSIZE, 1 << 12), 1 << 20)
_BANDS = ("band-7", "band-27")  # matrices of which any number of rows makes sense


class Measured(NamedTuple):
    """Cases that a catalogue holds for the operations behind a name."""

    catalogue: str
    operations: tuple[str, ...]


_MEASURED = {
    "gram": Measured("gram", ("gram",)),
    "matmul": Measured("matmul", ("matmul",)),
    "qr": Measured("factor", ("qrq",)),
    "matvec": Measured("powers", ("spmv",)),
    "matrix_powers": Measured("powers", ("powers",)),
} | {
    name: Measured(catalogue, (operation,))
    for catalogue, operation, known in (
        *(("matmul", name, (name,)) for name in ("matmul_gram", "project", "cholesky_qr", "tsmm", "tsm2r")),
        ("batched", "gemm", ("gemm",)),
        ("batched", "gemv", ("gemv",)),
        ("batched", "trsv", ("trsv",)),
        ("batched", "trsm", ("trsm",)),
        ("factor", "cholesky", ("cholesky", "cholesky_ex")),
        ("factor", "lu", ("lu_factor", "lu_factor_ex", "lu")),
        ("factor", "solve", ("solve", "solve_ex")),
        ("factor", "inverse", ("inv", "inv_ex")),
        ("factor", "determinant", ("det",)),
        ("factor", "eigh", ("eigh", "eigh_ex")),
        ("factor", "eigvalsh", ("eigvalsh", "eigvalsh_ex")),
        ("factor", "svd", ("svd", "svd_ex", "pinv", "polar", "procrustes")),
        ("factor", "svdvals", ("svdvals", "svdvals_ex", "matrix_rank", "cond", "norm")),
        ("factor", "tridiagonalize", ("tridiagonalize",)),
        ("factor", "bidiagonalize", ("bidiagonalize",)),
    )
    for name in known
} | {name: Measured(one.catalogue, (name,)) for name, one in DECLARED.items()}


def is_measured(operation: str) -> bool:
    """Whether a name is that of an operation with cases; `gram` and `matmul` are names of groups, too."""
    return operation in _MEASURED


def is_sized(args: argparse.Namespace) -> bool:
    """Whether sizes were asked for."""
    return any(getattr(args, name) is not None for name in SIZES)


def sets_for(args: argparse.Namespace, added: Extension) -> tuple[str, tuple[str, ...], Extension]:
    """The catalogue of the operation that was asked for, the names of its sets, and these sets as an extension."""
    operation = registry.named(args.operation)
    if operation.name not in _MEASURED:
        raise UsageError(f"bench {args.operation}: nothing says how it is measured: declare it in {TABLE}")
    measured = _MEASURED[operation.name]
    if operation.name == "matmul" and args.batch is not None:
        measured = Measured("batched", ("gemv",) if args.n == (1,) else ("gemm",))
    known = sets_of(measured.catalogue, added)
    if is_sized(args):
        list(_cases(args, operation, measured, _ANY))  # sizes without a meaning are refused before anything is measured
        given = [f"{name}={','.join(map(str, getattr(args, name)))}" for name in SIZES if getattr(args, name)]
        sets = {" ".join([args.operation, *given]): _sized(args, operation, measured)}
    elif args.set is None:
        sets = {args.operation: _first(args.operation, measured, known)}
    else:
        asked = list(known) if args.set == "all" else [name.strip() for name in args.set.split(",") if name.strip()]
        if unknown := [name for name in asked if name not in known] or ([] if asked else [args.set]):
            raise UsageError(f"--set {','.join(unknown)}: sets of {measured.catalogue} are {', '.join(known)}, and all")
        sets = {f"{args.operation} in {name}": _filtered(known[name], measured) for name in asked}
    return measured.catalogue, tuple(sets), added | Extension({measured.catalogue: sets})


def _filtered(cases: CaseSet, measured: Measured) -> CaseSet:
    """The cases of a set that measure these operations."""

    def chosen(size: Size) -> list[Case]:
        if is_gpu_only(cases) and size.backend in ("cpu", "reference"):
            return []
        return [case for case in cases(size) if case.operation in measured.operations]

    return chosen


def _first(name: str, measured: Measured, known: dict[str, CaseSet]) -> CaseSet:
    """The cases of the first set that has any: quick, sample, or one that is made for the operation."""

    def chosen(size: Size) -> list[Case]:
        order = dict.fromkeys(("quick", "sample", *measured.operations, *known))
        found = (_filtered(known[one], measured)(size) for one in order if one in known)
        cases = next(filter(None, found), None)
        if cases is None:
            raise UsageError(f"bench {name}: no set has a case of it for this device; sizes make one: --m ...")
        return cases

    return chosen


def _sized(args: argparse.Namespace, operation: registry.PublicOperation, measured: Measured) -> CaseSet:
    """Cases of the sizes that were asked for; the long one, if it was not, so that operands are out of cache."""

    def chosen(size: Size) -> list[Case]:
        return list(_cases(args, operation, measured, size))

    return chosen


def _cases(
    args: argparse.Namespace, operation: registry.PublicOperation, measured: Measured, size: Size
) -> Iterator[Case]:
    lists = [getattr(args, name) or (None,) for name in SIZES]
    for dtype, (m, n, k, batch) in itertools.product(args.dtype or ("float64",), itertools.product(*lists)):
        one = registry.with_long(Asked(args.operation, dtype, m, n, k, batch), size.elements[dtype])
        sizes, problem = registry.sizes_of(one), registry.problem_of(one)
        for name in measured.operations:
            if name in DECLARED:
                yield declared.case(args.operation, name, dtype, sizes)
            elif problem.operation in _BATCHES:
                yield _BATCHES[problem.operation](args.operation, name, problem)
            elif name in ("spmv", "powers"):
                yield _sparse(args.operation, name, dtype, sizes, size)
            else:
                yield _tall(args.operation, name, dtype, sizes)


def _tall(set: str, operation: str, dtype: str, s: Sizes) -> Case:
    if operation == "matmul":
        return Case(set, dtype, s.m, s.n, s.k, operation=operation, mode="eager", temperature="hot")
    if operation == "cholesky_qr":
        return Case(set, dtype, s.m, s.m, s.k, operation=operation, condition=CONDITIONS[1])
    return Case(set, dtype, s.m, s.n, s.k, operation=operation)


def _product(set: str, operation: str, problem: Problem) -> Case:
    inner = 0 if problem.K == problem.M else problem.K
    return Case(set, problem.dtype, problem.M, problem.N, problem.BATCH, operation=operation, inner=inner)


def _system(set: str, operation: str, problem: Problem) -> Case:
    return Case(set, problem.dtype, problem.N, problem.NRHS, problem.BATCH, operation=operation)


def _factorization(set: str, operation: str, problem: Problem) -> Case:
    sizes = dict(problem.sizes)
    if sizes.get("M", problem.N) != problem.N or sizes.get("NRHS", 0) > 1:
        raise UsageError(f"bench {set}: square matrices with one right-hand side are measured: leave --n out")
    return Case(set, problem.dtype, problem.N, 1, problem.BATCH, operation=operation)


_BATCHES: dict[str, Any] = {"gemm": _product, "gemv": _product, "trsm": _system} | dict.fromkeys(
    ("cholesky", "lu", "qr", "jacobi", "tridiagonal", "bidiagonal"), _factorization
)


def _sparse(set: str, operation: str, dtype: str, s: Sizes, size: Size) -> Case:
    """A band, whose rows have about as many entries."""
    band = min(_BANDS, key=lambda name: abs(MATRICES[name].entries - s.k))
    more = {"N": s.n} if operation == "spmv" else {"inner": s.n}
    return sparse_cases.one(set, size, operation, band, dtype, rows=s.m, **more)
