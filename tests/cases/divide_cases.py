"""Problems and configurations of the divide kernels, matrices of every difficult kind, and what must hold of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sweeps_cases import BACKENDS, KINDS, address, diagonals, values_error, whole
from two_sided_cases import spectral

from mansard import testing
from mansard.kernels.factor.divide import emit, space, spec, work
from mansard.kernels.factor.divide.space import Bisect, Config, Merge
from mansard.plan.problem import Problem

MORE = ("glued wilkinson", "decoupled", "tiny couplings", "constant", "two clusters")
BAD = ("nan", "infinite")


def _p(dtype: str, N: int, BATCH: int, want: str = "vectors", form: str = "tridiagonal") -> Problem:
    return spec.problem(dtype, N, BATCH, form=form, want=want)


def merge(problem: Problem) -> Merge:
    """The configuration of a problem with vectors."""
    return Merge(work.warps(problem))


_VECTORS = [
    _p("float64", 13, 20), _p("float64", 2, 20), _p("float32", 7, 20), _p("float64", 33, 20), _p("float32", 16, 20),
    _p("float64", 64, 5), _p("float64", 9, 1), _p("float32", 70, 3),
]  # fmt: skip
CASES: list[tuple[Problem, Config]] = [
    *((problem, merge(problem)) for problem in _VECTORS),
    (_p("float64", 13, 20, "values"), Bisect(4)),
    (_p("float64", 8, 20, "values", "bidiagonal"), Bisect(8)),
    (_p("float32", 9, 20, "values"), Bisect(2)),
    (_p("float32", 16, 20, "values", "bidiagonal"), Bisect(32)),
    (_p("float64", 2, 20, "values"), Bisect(16)),
    (_p("float64", 40, 5, "values"), Bisect(1)),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.dtype}-{problem.form}-{problem.N}x{problem.BATCH}"


def diagonals_of(kind: str, n: int, form: str, seed: int) -> tuple[Any, Any]:
    """Diagonal and off-diagonal of a kind, here or in `sweeps_cases`."""
    if kind not in MORE:
        return diagonals(kind, n, form, seed)
    random = np.random.default_rng([seed, n])
    d, e = random.standard_normal(n), random.standard_normal(n)
    if kind == "glued wilkinson":
        part = 7
        d, e = np.abs(np.arange(n) % part - part // 2).astype(float), np.where(np.arange(n) % part == part - 1, 1e-9, 1)
    elif kind == "decoupled":
        e[::3] = 0
    elif kind == "tiny couplings":
        e *= 10.0 ** random.integers(-18, 0, n)
    elif kind == "constant":
        d[:], e[:] = 2, -1
    else:
        d, e = np.where(np.arange(n) % 2, 1.0, -1.0) + 1e-15 * d, 1e-13 * e
    largest = max(np.abs(d).max(), np.abs(e[: n - 1]).max(initial=0.0))
    e[n - 1] = np.nan
    return d / largest, e / largest


def stack(problem: Problem, seed: int = 0, kinds: tuple[str, ...] = (*KINDS, *MORE)) -> tuple[Any, Any, list[str]]:
    """D and E of a batch that has all kinds in turn, and the kinds."""
    names = [kinds[(m + seed) % len(kinds)] for m in range(problem.BATCH)]
    made = [diagonals_of(kind, problem.N, problem.form, seed + m // len(kinds)) for m, kind in enumerate(names)]
    D, E = (np.array([one[k] for one in made]).astype(problem.dtype) for k in range(2))
    return D, E, names


class Found(NamedTuple):
    """What a launch left, as NumPy arrays."""

    W: Any
    Z: Any
    info: Any


def run(problem: Problem, config: Config, backend: str, D: Any, E: Any, scale: Any = None) -> Found:
    """One launch. Results begin as NaN, or as numbers that no kernel writes."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    assert space.illegal(problem, config, where.device) is None
    W = xp.full((problem.BATCH, problem.N), np.nan, problem.dtype)
    Z = xp.full((problem.BATCH, problem.N, problem.N), np.nan, problem.dtype) if problem.want == "vectors" else None
    info = xp.full(problem.BATCH, -7, "int32")
    given = [None if one is None else xp.ascontiguousarray(xp.asarray(one)) for one in (D, E, scale)]
    arrays = (*given, W, Z, info)
    where.prepare(emit.kernel(problem, config, where.device))(tuple(map(address, arrays)), (), 0)
    where.synchronize()
    return Found(*(one if backend == "emulated" or one is None else one.get() for one in (W, Z, info)))


def check(problem: Problem, found: Found, D: Any, E: Any, kinds: list[str], scale: Any = None) -> None:
    """Values within 16 units of the norm, in order; matrices that are not finite are NaN and say so; of vectors
    residuals within 3 n units of the norm, orthogonality within 5 n units."""
    bad, n, eps = np.array([kind in BAD for kind in kinds]), problem.N, float(np.finfo(problem.dtype).eps)
    assert (found.info == np.where(bad, n + 1, 0)).all(), (found.info, kinds)
    assert np.isnan(found.W[bad]).all()
    own = found.W.astype("longdouble") * (1 if scale is None else scale[:, None])
    sorted_own = own if problem.form == "tridiagonal" else own[:, ::-1]
    assert (np.diff(sorted_own[~bad]) >= 0).all()
    errors = values_error(problem, sorted_own[~bad], D[~bad], E[~bad])
    assert errors.max(initial=0) <= 16, (kinds[np.flatnonzero(~bad)[errors.argmax()]], errors.max())
    if found.Z is None:
        return
    assert np.isnan(found.Z[bad]).all()
    for m in np.flatnonzero(~bad):
        A, Z = whole(problem, D[m], E[m]), found.Z[m].astype("float64")
        assert spectral(Z.T @ Z - np.eye(n)) <= 5 * n * eps, (kinds[m], spectral(Z.T @ Z - np.eye(n)) / n / eps)
        residual, norm = spectral(A @ Z - Z * own[m].astype("float64")), max(spectral(A), np.finfo("float64").tiny)
        assert residual <= 3 * n * eps * norm, (kinds[m], residual / norm / n / eps)


def exact(problem: Problem, config: Config, backend: str, seed: int = 0) -> None:
    """A batch of all kinds of matrices."""
    D, E, kinds = stack(problem, seed)
    scale = (2.0 ** (np.arange(problem.BATCH) % 9 - 4)).astype(problem.dtype)
    check(problem, run(problem, config, backend, D, E, scale), D, E, kinds, scale)
