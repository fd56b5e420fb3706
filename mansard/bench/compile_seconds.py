"""`mansard bench first-calls --set kernels`: seconds that the compiler works for each CPU kernel, by sizes and dtypes.

Default kernels of sampled orders, each compiled into an empty cache. Seconds are those of the compiler's own processes
(user and system time), so that they hardly depend on what else the machine does.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from ..backends import cpu
from ..compile import cxx
from ..errors import CompileError
from ..kernels import family_of
from ..plan.problem import DTYPES, Problem
from .table import Table

LONGEST = 5.0  # seconds that a kernel may take
_BATCH = 1 << 20
_ORDERS = (2, 3, 5, 8, 12, 16, 24, 32)
_TALL, _ROWS, _ENTRIES = 1 << 20, 1 << 16, 7  # rows of tall blocks; of sparse matrices, and entries of each


def _lu(want: str, dtype: str, n: int) -> Problem:
    return family_of("lu").spec.problem(dtype, n, n, _BATCH, NRHS=int(want == "solve"), want=want)


def _spectral(want: str, dtype: str, n: int) -> Problem:
    return family_of("jacobi").spec.problem(dtype, n, _BATCH, want=want)


def _tall(name: str, dtype: str, n: int) -> Problem:
    return family_of(name).spec.problem(dtype, n, n, _TALL)


def _of_vectors(name: str, dtype: str, n: int) -> Problem:
    """Products with n vectors, or n powers."""
    return family_of(name).spec.problem(dtype, *{"spmv": (_ROWS, _ROWS), "powers": (_ROWS,)}[name], _ENTRIES * _ROWS, n)


def _square(name: str, dtype: str, n: int) -> Problem:
    sizes = {"gemm": (n, n, n), "cholesky": (n,)}.get(name, (n, n))
    return family_of(name).spec.problem(dtype, *sizes, _BATCH)


_KINDS: dict[str, Callable[[str, int], Problem]] = {
    **{name: partial(_square, name) for name in ("gemm", "gemv", "trsm", "trmm", "rank_k", "cholesky", "qr")},
    **{f"lu {want}": partial(_lu, want) for want in ("factor", "solve", "inverse", "determinant")},
    **{f"jacobi {want}": partial(_spectral, want) for want in ("eigh", "eigvalsh", "svd", "svdvals")},
    **{name: partial(_tall, name) for name in ("gram", "tsmm", "matmul_gram")},
    **{name: partial(_of_vectors, name) for name in ("spmv", "powers")},
}


def problems() -> Iterator[tuple[str, Problem]]:
    """Kinds of kernels and a problem of each, for every sampled order and dtype."""
    for (kind, make), dtype, order in product(_KINDS.items(), DTYPES, _ORDERS):
        yield kind, make(dtype, order)


def measured(kind: str, problem: Problem) -> dict[str, Any] | None:
    """Compile the default kernel of a problem; None where its family has none."""
    family, device = family_of(problem.operation), cpu.backend().device
    config = family.defaults.default(problem, device)
    if config is None or family.spec.refusal(problem):
        return None
    before = _seconds()
    try:
        cxx.compile_cpu(family.emit.source(problem, config, "cpu"))
    except CompileError as error:
        return {"kind": kind, "dtype": problem.dtype, "error": str(error)[:200], "seconds": 0.0}
    order = dict(problem.sizes).get("N", 0)
    return {"kind": kind, "dtype": problem.dtype, "order": order, "variant": config.VARIANT,
            "seconds": round(_seconds() - before, 2)}  # fmt: skip


def _seconds() -> float:
    """Seconds that processes of this one have worked for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: list[dict[str, Any]], most: int = 20) -> Table:
    """The slowest kernels; those that take too long are marked."""
    slowest = sorted(rows, key=lambda row: -row["seconds"])[:most]
    names = ("kind", "dtype", "order", "variant")
    cells = [(*(str(row.get(name, "")) for name in names), f"{row['seconds']:.1f} s") for row in slowest]
    bad = frozenset(i for i, row in enumerate(slowest) if row["seconds"] > LONGEST or "error" in row)
    title = f"The slowest of {len(rows)} kernels to compile"
    return Table(title, ("kernels", "dtype", "order", "variant", "compiler"), cells, bad)


def main() -> None:
    """Compile everything, a line of JSON for each kernel."""
    only = sys.argv[1:]
    for kind, problem in problems():
        if (not only or kind in only) and (row := measured(kind, problem)):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
