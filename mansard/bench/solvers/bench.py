"""Times of solvers, for `mansard bench solvers`: ours on a stored matrix and on the library's, and the library's own.

All solve with the 7-point Laplacian on a cube, in float64. `cg` and `minres` run to a residual of 1e-8; `gmres` makes
two cycles of 20, and `lobpcg` a fixed number of iterations from the same vectors, so that the same work is compared.
`eigsh` finds the largest eigenvalues to a residual of 1e-5 of them; its iterations are products with A.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ...operations.sparse.matrix import matrix
from ...sparse import linalg as ours
from ...sparse import matrices
from ..table import Table

METHODS = ("cg", "minres", "gmres", "lobpcg", "eigsh")
SETS = {
    "quick": "32^3 points",
    "full": "100^3 points",
    "sizes": "conjugate gradients of 20^3, 50^3, 100^3 and, on a GPU, 200^3 points",
}
_ITERATIONS = 30  # of lobpcg
_VECTORS = 4  # of lobpcg and eigsh
_NORM = 12.0  # of the matrix: CuPy's eigsh takes residuals as they are, the others relative to eigenvalues
_CYCLES, _RESTART = 2, 20  # of gmres
_CALLS = 20  # of a product, between two looks at the clock


class Case(NamedTuple):
    """A method on a cube of so many points along an edge."""

    method: str
    side: int

    @property
    def name(self) -> str:
        return f"{self.method}, {self.side}^3"


def cases(name: str, device: str) -> list[Case]:
    """The cases of a set."""
    if name == "sizes":
        return [Case("cg", side) for side in (20, 50, 100, *((200,) if device == "cuda" else ()))]
    return [Case(method, 32 if name == "quick" else 100) for method in METHODS]


def contenders(device: str, peers: bool) -> list[tuple[str, str]]:
    """Array library and solver: ours on `ms.sparse.matrix`, ours on the library's matrix, the library's own."""
    library = "cupy" if device == "cuda" else "numpy"
    found = [(library, "mansard"), (library, "mansard, matrix of the library")]
    return [*found, (library, "library")] if peers else found


def measure(case: Case, contender: tuple[str, str], steps: int = 5, seconds: float = 20.0) -> dict[str, Any]:
    """A row: the median time of a solve, its iterations, and the norm of its residual relative to the right-hand side's
    (`lobpcg`, `eigsh`: of the largest residual of a vector)."""
    library, solver = contender
    problem, stored, solve = _prepared(case, contender)
    with _quiet():
        found, iterations = solve()
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < steps and (not times or time.perf_counter() - begin < seconds):
            times.append(problem.clocked(solve))
    return {
        "case": case.name, "method": case.method, "rows": case.side**3, "library": library, "solver": solver,
        "samples": len(times), "median": median(times), "fastest": min(times), "slowest": max(times),
        "iterations": iterations, "residual": problem.residual(found),
        "products": [problem.product(stored)] if solver == "mansard" else [],
    }  # fmt: skip


def work(case: Case, contender: tuple[str, str]) -> Callable[[], Any]:
    """One solve as a call, for windows of joules."""
    _, _, solve = _prepared(case, contender)

    def quietly() -> None:
        with _quiet():
            solve()

    return quietly


def _prepared(case: Case, contender: tuple[str, str]) -> tuple[_Problem, Any, Callable[[], tuple[Any, int]]]:
    """The problem, its matrix as the contender has it, and a solve."""
    library, solver = contender
    problem = _Problem(case, library)
    stored = matrix(problem.A) if solver == "mansard" else problem.A
    with _quiet():
        return problem, stored, problem.own(solver == "library", stored)


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings: lobpcg does not converge, and is not meant to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Problem:
    """The matrix, the right-hand side and the starting vectors of a case, where the library's arrays are."""

    def __init__(self, case: Case, library: str) -> None:
        self.case, self.xp = case, import_module(library)
        on_gpu = library == "cupy"
        self.peer = import_module("cupyx.scipy.sparse.linalg" if on_gpu else "scipy.sparse.linalg")
        self.A: Any = matrices.stencil(7, (case.side,) * 3)
        if on_gpu:
            self.A = import_module("cupyx.scipy.sparse").csr_matrix(self.A)
        rng = np.random.default_rng(0)
        self.b = self.xp.asarray(rng.standard_normal(case.side**3))
        self.X = self.xp.asarray(rng.standard_normal((case.side**3, _VECTORS)))
        self.wait: Callable[[], object] = self.xp.cuda.Device().synchronize if on_gpu else lambda: None

    def clocked(self, call: Callable[[], object]) -> float:
        """Seconds of a call that ends when the device has done its work."""
        self.wait()
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def own(self, is_peer: bool, A: Any) -> Callable[[], tuple[Any, int]]:
        """The solve: what it finds, and its iterations."""
        method = self.case.method
        function = getattr(self.peer if is_peer else ours, method)
        if method == "lobpcg":
            return lambda: (
                function(A, self.X.copy(), largest=False, tol=1e-12, maxiter=_ITERATIONS)[:2], _ITERATIONS
            )  # fmt: skip
        if method == "eigsh":
            return self._eigsh(function, is_peer, A)
        options: dict[str, Any] = {"rtol": 1e-12, "restart": _RESTART} if method == "gmres" else {"rtol": 1e-8}
        if method == "gmres":
            counts = "cupyx" in self.peer.__name__ and is_peer  # its maxiter counts iterations, not cycles
            options["maxiter"] = _CYCLES * _RESTART if counts else _CYCLES
        if is_peer and "rtol" not in inspect.signature(function).parameters:
            options["tol"] = options.pop("rtol")
        if not is_peer:
            return lambda: _of_report(function(A, self.b, report=True, **options))
        counted = _CYCLES * _RESTART if method == "gmres" else self._iterations(function, options)
        return lambda: (function(A, self.b, **options)[0], counted)

    def _eigsh(self, function: Callable[..., Any], is_peer: bool, A: Any) -> Callable[[], tuple[Any, int]]:
        scale = _NORM if is_peer and "cupyx" in self.peer.__name__ else 1.0
        options: dict[str, Any] = {"k": _VECTORS, "which": "LA", "tol": scale * 1e-5}
        if not is_peer:
            return lambda: (lambda w, v, run: ((w, v), run.products))(*function(A, report=True, **options))
        seen: list[None] = []

        def product(x: Any) -> Any:
            seen.append(None)
            return A @ x

        function(self.peer.LinearOperator(A.shape, matvec=product, dtype=A.dtype), **options)
        return lambda: (function(A, **options), len(seen))

    def _iterations(self, function: Callable[..., Any], options: dict[str, Any]) -> int:
        """Calls of the callback, in a solve of its own."""
        seen: list[None] = []
        function(self.A, self.b, callback=lambda _: seen.append(None), **options)
        return len(seen)

    def residual(self, found: Any) -> float:
        """The size of what a solution leaves."""
        if self.case.method not in ("lobpcg", "eigsh"):
            return float(self.xp.linalg.norm(self.b - self.A @ found) / self.xp.linalg.norm(self.b))
        values, vectors = found
        return float(self.xp.linalg.norm(self.A @ vectors - vectors * values, axis=0).max())

    def product(self, stored: Any) -> dict[str, Any]:
        """A product with the stored matrix, alone: seconds, least traffic in bytes, flops."""
        out, nnz = self.xp.empty_like(self.b), int(self.A.nnz)

        def several() -> None:
            for _ in range(_CALLS):
                stored.product(self.b, out=out)

        several()
        took = min(self.clocked(several) for _ in range(3)) / _CALLS
        size = self.b.nbytes
        return {"name": "product", "seconds": took, "read": 8 * nnz + size, "written": size, "flops": 2 * nnz}


def _of_report(found: tuple[Any, ...]) -> tuple[Any, int]:
    return found[0], found[2].iterations


def table(rows: list[dict[str, Any]]) -> Table:
    """A line per case and contender."""
    mine = {row["case"]: row["median"] for row in reversed(rows) if row["solver"] == "mansard"}
    cells = []
    for row in rows:
        shares = (f"{product['bound'] / product['seconds']:.0%}" for product in row["products"])
        took, count = row["median"], max(1, row["iterations"])
        cells.append((row["case"], f"{row['library']}, {row['solver']}", f"{took * 1e3:.2f}", str(row["iterations"]),
                      f"{took / count * 1e6:.0f}", f"{row['residual']:.1e}", f"{took / mine[row['case']]:.2f}",
                      "; ".join(shares)))  # fmt: skip
    columns = ("case", "solver", "ms", "iterations", "us each", "residual", "x ours", "product of values alone")
    return Table("Solvers on a 7-point Laplacian", columns, cells)
