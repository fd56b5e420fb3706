"""Times of solvers, for `mansard bench solvers`: ours on a stored matrix and on the library's, and the library's own.

All solve with the 7-point Laplacian on a cube, in float64, to the same residual. It is computed from every result; a
solver whose own criterion stops earlier is given a smaller tolerance. `cg`, `minres` and `gmres` run to a share of the
right-hand side's norm, `lobpcg` (smallest eigenvalues) and `eigsh` (largest) to a share of the norm of A. `lobpcg` is
preconditioned by a polynomial in A, the same for all: ours by `matrix_powers`, the library's by its products.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ...operations.sparse.matrix import matrix
from ...operations.sparse.powers.call import matrix_powers
from ...sparse import linalg as ours
from ...sparse import matrices
from ..table import Table

METHODS = ("cg", "minres", "gmres", "lobpcg", "eigsh")
SETS = {
    "quick": "32^3 points",
    "full": "100^3 points",
    "sizes": "conjugate gradients of 20^3, 50^3, 100^3 and, on a GPU, 200^3 points",
}
_TOLERANCES = {"cg": 1e-8, "minres": 1e-8, "gmres": 1e-4, "lobpcg": 1e-6, "eigsh": 1e-5}
_ROUNDING = 1.01  # of a tolerance: residuals that solvers update along differ from those of their results
_TRIES = 8  # of tolerances, until the residual of the result is small enough
_MOST = 1000  # iterations of lobpcg
_VECTORS = 4  # of lobpcg and eigsh
_NORM = 12.0  # of the matrix
_DEGREE, _LOWEST = 7, 0.4  # of lobpcg's preconditioner, which serves eigenvalues from _LOWEST to _NORM
_RESTART = 20  # of gmres
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
    """A row: the median time of a solve, its iterations, and the residual of its result."""
    library, solver = contender
    problem, stored = _prepared(case, contender)
    with _quiet():
        solve, took, iterations, residual = problem.settled(solver == "library", stored)
        times = [took] if took > seconds and solver == "library" else []  # nothing was compiled in this one
        begin = time.perf_counter() - sum(times)
        while len(times) < steps and (not times or time.perf_counter() - begin < seconds):
            times.append(problem.clocked(solve))
    return {
        "case": case.name, "method": case.method, "rows": case.side**3, "library": library, "solver": solver,
        "samples": len(times), "median": median(times), "fastest": min(times), "slowest": max(times),
        "iterations": iterations, "residual": residual, "tolerance": _TOLERANCES[case.method],
        "products": [problem.product(stored)] if solver == "mansard" else [],
    }  # fmt: skip


def work(case: Case, contender: tuple[str, str]) -> Callable[[], Any]:
    """One solve as a call, for windows of joules."""
    problem, stored = _prepared(case, contender)
    with _quiet():
        solve, *_ = problem.settled(contender[1] == "library", stored)

    def quietly() -> None:
        with _quiet():
            solve()

    return quietly


def _prepared(case: Case, contender: tuple[str, str]) -> tuple[_Problem, Any]:
    """The problem, and its matrix as the contender has it."""
    library, solver = contender
    problem = _Problem(case, library)
    return problem, matrix(problem.A) if solver == "mansard" else problem.A


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, of tolerances that SciPy finds small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def polynomial(degree: int, low: float, high: float) -> Any:
    """Coefficients in Chebyshev polynomials of [0, high] of the p of this degree with the least abs(1 - x p(x)) on
    [low, high]; p is positive on (0, high]."""
    basis = np.polynomial.Chebyshev.basis(degree + 1)

    def p(s: Any) -> Any:
        x = high * (1 + s) / 2
        return (1 - basis((high + low - 2 * x) / (high - low)) / basis((high + low) / (high - low))) / x

    return np.polynomial.chebyshev.chebinterpolate(p, degree)


class _Problem:
    """The matrix, the right-hand side and the starting vectors of a case, where the library's arrays are."""

    def __init__(self, case: Case, library: str) -> None:
        self.case, self.xp = case, import_module(library)
        self.on_gpu = on_gpu = library == "cupy"
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

    def settled(self, is_peer: bool, A: Any) -> tuple[Callable[[], object], float, int, float]:
        """The solve with a tolerance of its own at which its result has the residual that is asked for, the seconds
        that it took, its iterations and that residual."""
        target = own = _TOLERANCES[self.case.method]
        solve = self._solver(is_peer, A)
        for _ in range(_TRIES):
            start = time.perf_counter()
            found, iterations = solve(own)
            self.wait()
            took, residual = time.perf_counter() - start, self.residual(found)
            if residual <= _ROUNDING * target:
                break
            own *= 0.7 * target / residual
        return partial(solve, own), took, iterations, residual

    def _solver(self, is_peer: bool, A: Any) -> Callable[[float], tuple[Any, int]]:
        """The solve to a tolerance: what it finds, and its iterations."""
        method = self.case.method
        function: Callable[..., Any] = getattr(self.peer if is_peer else ours, method)
        if method == "lobpcg":
            M = self._preconditioner(is_peer, A)
            return (self._lobpcg_of_library if is_peer else self._lobpcg)(function, A, M)
        if method == "eigsh":
            return (self._eigsh_of_library if is_peer else self._eigsh)(function, A)
        options: dict[str, Any] = {"restart": _RESTART} if method == "gmres" else {}
        if not is_peer:
            return lambda tol: _of_report(function(A, self.b, rtol=tol, report=True, **options))
        known = inspect.signature(function).parameters
        name, each = "rtol" if "rtol" in known else "tol", 1
        if method == "gmres":
            options["callback_type"] = "pr_norm"
            each = _RESTART if self.on_gpu else 1  # CuPy calls back after a cycle

        def solve(tol: float) -> tuple[Any, int]:
            seen: list[None] = []
            found = function(A, self.b, callback=lambda _: seen.append(None), **options, **{name: tol})[0]
            return found, each * len(seen)

        return solve

    def _preconditioner(self, is_peer: bool, A: Any) -> Callable[[Any], Any]:
        """x -> p(A) x."""
        terms, half = polynomial(_DEGREE, _LOWEST, _NORM), _NORM / 2
        if not is_peer:
            basis, output = ("chebyshev", 0.0, _NORM), ("combination", terms)
            return matrix_powers(A, _DEGREE, basis, output=output, columns=_VECTORS)

        def applied(x: Any) -> Any:
            before, last = x, A @ x / half - x
            total = terms[0] * x + terms[1] * last
            for term in terms[2:]:
                found = A @ last
                found *= 2 / half
                found -= 2 * last
                found -= before
                before, last = last, found
                total += term * found
            return total

        return applied

    def _lobpcg(self, function: Any, A: Any, M: Any) -> Callable[[float], tuple[Any, int]]:
        options = {"largest": False, "maxiter": _MOST, "report": True}
        return lambda tol: _of_report(function(A, self.X.copy(), M=M, tol=tol * _NORM, **options), slice(2))

    def _lobpcg_of_library(self, function: Any, A: Any, M: Any) -> Callable[[float], tuple[Any, int]]:
        def solve(tol: float) -> tuple[Any, int]:
            seen: list[None] = []  # M is applied once in an iteration

            def applied(x: Any) -> Any:
                seen.append(None)
                return M(x)

            counted = self.peer.LinearOperator(A.shape, matvec=applied, matmat=applied, dtype=A.dtype)
            options = {"largest": False, "maxiter": _MOST, "tol": tol * _NORM}
            return function(A, self.X.copy(), M=counted, **options), len(seen)

        return solve

    def _eigsh(self, function: Any, A: Any) -> Callable[[float], tuple[Any, int]]:
        options = {"k": _VECTORS, "which": "LA", "report": True}
        return lambda tol: (lambda w, v, run: ((w, v), run.products))(*function(A, tol=tol, **options))

    def _eigsh_of_library(self, function: Any, A: Any) -> Callable[[float], tuple[Any, int]]:
        scale = _NORM if self.on_gpu else 1.0  # CuPy's takes residuals as they are, the others relative to eigenvalues

        def solve(tol: float) -> tuple[Any, int]:
            seen: list[None] = []

            def product(x: Any) -> Any:
                seen.append(None)
                return A @ x

            counted = self.peer.LinearOperator(A.shape, matvec=product, dtype=A.dtype)
            return function(counted, k=_VECTORS, which="LA", tol=scale * tol), len(seen)

        return solve

    def residual(self, found: Any) -> float:
        """The size of what a solution leaves, relative to the right-hand side or to the norm of A."""
        if self.case.method not in ("lobpcg", "eigsh"):
            return float(self.xp.linalg.norm(self.b - self.A @ found) / self.xp.linalg.norm(self.b))
        values, vectors = found
        return float(self.xp.linalg.norm(self.A @ vectors - vectors * values, axis=0).max()) / _NORM

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


def _of_report(found: tuple[Any, ...], which: Any = 0) -> tuple[Any, int]:
    return found[which], found[2].iterations


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
    return Table("Solvers on a 7-point Laplacian, to the same residual", columns, cells)
