"""Matrices whose elimination is exact, and how launches of the lu kernels are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import Stack, address
from kernel_cases import BACKENDS
from lu_tables import CASES as CASES

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.factor.lu import emit, space, spec
from mansard.kernels.factor.lu.space import Config
from mansard.plan.problem import REAL, Problem


@dataclass
class Exact:
    """A stack of matrices and what elimination makes of them, without any rounding."""

    A: Any
    L: Any
    U: Any
    pivots: Any
    info: Any

    @property
    def factors(self) -> Any:
        F = np.zeros_like(self.A)
        steps = self.pivots.shape[1]
        F[:, :, :steps] += np.tril(self.L, -1)[:, :, :steps]
        F[:, :steps] += np.triu(self.U)
        return F

    def order(self) -> Any:
        return spec.permutation(self.pivots, self.A.shape[1])


def _units(problem: Problem, rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.choice([1, -1, 1j, -1j] if problem.is_complex else [1, -1], shape)


def _after_pivots(pivots: Any, rows: int) -> Any:
    """For each row of L and each step, whether the row stood after the pivot's when the step looked for its pivot."""
    batch, steps = pivots.shape
    places = np.tile(np.arange(rows), (batch, 1))  # where rows come to stand that the step leaves at 0, 1, ...
    after, each = np.zeros((batch, rows, steps), bool), np.arange(batch)
    for k in range(steps)[::-1]:
        below = np.arange(rows) > pivots[:, k, None]
        np.put_along_axis(after[:, :, k], places, below, 1)
        one, other = places[:, k].copy(), places[each, pivots[:, k]].copy()
        places[:, k], places[each, pivots[:, k]] = other, one
    return after


def exact_matrices(problem: Problem, seed: int, singular: bool = False, sparse: bool = False) -> Exact:
    """P A = L U with diagonals of U that are powers of two and entries of L that are multiples of them.

    In some columns the pivot stands anywhere, in others it is where it belongs. Entries further down share its size:
    the first of them is the pivot. `singular` ones have zero columns; `sparse` ones an exact inverse.
    """
    rng = np.random.default_rng(seed)
    M, N, batch = problem.M, problem.N, problem.BATCH
    steps = min(M, N)
    strict = rng.random((batch, 1, steps)) < 0.5 if problem.pivot else np.zeros((batch, 1, steps), bool)
    small = rng.choice([0, 0.25, 0.5], (batch, M, steps))
    ties = rng.choice([0, 0.5, 1], (batch, M, steps))
    units = _units(problem, rng, (batch, M, steps))
    U = 1.0 * rng.integers(-3, 4, (batch, steps, N)) * _units(problem, rng, (batch, steps, N))
    diagonal = rng.choice([0.5, 1, 2], (batch, steps)) * _units(problem, rng, (batch, steps))
    if sparse:
        U[:, steps // 2 :], U[:, :, : steps // 2] = 0, 0
    zero = (rng.random((batch, steps)) < 1 / steps) & (rng.random((batch, 1)) < 0.6) & singular
    every = np.arange(steps)
    pivots = np.tile(every.astype(np.int32), (batch, 1))
    moves = strict[:, 0] & ~zero
    pivots[moves] = rng.integers(pivots, M)[moves]
    # solutions and inverses need not take the first of rows that share a size
    tied = _after_pivots(pivots, M) & (problem.want not in ("solve", "inverse"))
    L = np.where(tied, ties, small) * units
    if sparse:  # triangles of two blocks are their own inverses but for signs
        L[:, : steps // 2], L[:, :, steps // 2 :] = 0, 0
    L = np.tril(np.where(zero[:, None, :], 0, L), -1) + np.eye(M, steps)
    U = np.triu(U)
    U[:, every, every] = np.where(zero, 0, diagonal)
    info = np.where(zero.any(1), zero.argmax(1) + 1, 0).astype(np.int32)
    A = L @ U
    for number, row in enumerate(pivots):
        for i in every[::-1]:
            A[number, [i, row[i]]] = A[number, [row[i], i]]
    return Exact(A.astype(problem.dtype), L, U, pivots, info)


def stack_of(problem: Problem, operand: str, xp: Any, values: Any) -> Stack:
    """`values` as an operand; everything between the entries is NaN."""
    rows, columns = spec.shape(problem, operand)
    traits = {f"{trait}_c": getattr(problem, f"{trait}_{operand}") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, rows, columns, 1, problem.BATCH, aligned=problem.aligned, **traits)
    return gemm_cases.stack_of(alike, "c", xp, xp.asarray(values))


@dataclass
class Result:
    """What a kernel left behind; F and X are stacks, or one number per matrix."""

    F: Any
    X: Any
    pivots: Any
    info: Any


def launch(
    problem: Problem,
    config: Config,
    backend: str,
    A: Any,
    B: Any = None,
    inside: bool = False,
    pivots: Any = None,
) -> Result:
    """The kernel itself, on stacks laid out as the problem says; `inside`: results where A and B were."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    a, batch = stack_of(problem, "a", xp, A), int(problem.BATCH)
    stacks: dict[str, Any] = {"a": a, "b": None if B is None else stack_of(problem, "b", xp, B)}
    for name, like in (("f", "a"), ("x", "b")):
        stacks[name] = None
        if spec.present(problem, name) and problem.want not in ("determinant", "logdet"):
            empty = xp.full((batch, *spec.shape(problem, name)), np.nan, problem.dtype)
            stacks[name] = stacks[like] if inside else stack_of(problem, name, xp, empty)
    numbers = {"f": xp.full(batch, np.nan, problem.dtype), "x": xp.full(batch, np.nan, REAL[problem.dtype])}
    pivots = xp.full((batch, spec.steps(problem)), -7, np.int32) if pivots is None else xp.asarray(pivots)
    info = xp.full(batch, -7, np.int32)
    single = problem.want in ("determinant", "logdet")
    strides: tuple[int, ...] = ()
    pointers: dict[str, int] = {}
    for name in "afbx":
        stack = stacks[name]
        strides += stack.strides if stack is not None else (1, 1, 1) if single and name in "fx" else (0, 0, 0)
        pointers[name] = (
            stack.pointer if stack is not None else address(numbers[name]) if single and name in "fx" else 0
        )
    kernel = emit.kernel(problem, config, where.device, strides)
    order = (pointers["a"], pointers["f"], address(pivots), pointers["b"], pointers["x"], address(info))
    where.prepare(kernel)(order, (), 0)
    where.synchronize()
    F, X = (numbers[name] if single else stacks[name] for name in "fx")
    if not inside and not single:
        _untouched(xp, problem, F if F is not None else X)
    return Result(*(_on_host(one) for one in (F, X, pivots, info)))


def swapped(problem: Problem, config: Config, backend: str) -> None:
    """Rows are where LAPACK's exchanges take them, in a place of their own and in place."""
    rng = np.random.default_rng(problem.M)
    A = random_stack(problem, "a", 1)
    first = np.tile(np.arange(problem.NRHS), (problem.BATCH, 1))
    pivots = rng.integers(first, problem.M).astype(np.int32)
    expected = np.take_along_axis(A, spec.permutation(pivots, problem.M)[:, :, None], 1)
    for inside in (False, True) if alike(problem) else (False,):
        got = launch(problem, config, backend, A, inside=inside, pivots=pivots)
        assert (expected == got.F).all(), (problem, config, inside)


def _untouched(xp: Any, problem: Problem, out: Stack) -> None:
    """What lies between the entries of a result stays as it is."""
    values = out.view.copy()
    out.view[...] = np.nan
    assert bool(xp.isnan(out.buffer).all()), f"written between the entries: {problem}"
    out.view[...] = values


def _on_host(one: Any) -> Any:
    if one is None:
        return None
    array = one.view if isinstance(one, Stack) else one
    return np.asarray(array if isinstance(array, np.ndarray) else array.get())


def alike(problem: Problem) -> bool:
    """Whether results may be written where A and B are."""
    pairs = (("a", "f"), ("b", "x"))
    traits = ("layout", "pitch", "stack")
    return all(
        getattr(problem, f"{t}_{one}") == getattr(problem, f"{t}_{other}") for one, other in pairs for t in traits
    )


def exact(problem: Problem, config: Config, backend: str, seed: int = 0, spoil: bool = False) -> None:
    """Everything is equal to what it should be. `spoil`: singular matrices and NaNs among them; their neighbours do not
    notice. Results are written where A and B were if they lie alike and nothing is spoilt."""
    singular = spoil and problem.want in ("factor", "determinant", "logdet")
    made = exact_matrices(problem, seed, singular, sparse=problem.want == "inverse")
    rng = np.random.default_rng(seed + 1)
    keep = np.ones(problem.BATCH, bool)
    A = made.A.copy()
    if spoil:
        keep = rng.random(problem.BATCH) < 0.7
        A[~keep] = np.nan
    X = rng.integers(-3, 4, (problem.BATCH, problem.N, max(1, problem.NRHS))).astype(problem.dtype)
    B = made.A @ X if problem.want == "solve" else None
    got = launch(problem, config, backend, A, B, inside=not spoil and alike(problem))
    assert (got.info[keep] == made.info[keep]).all(), (problem, config)
    if problem.want == "factor":
        assert (got.pivots[keep] == made.pivots[keep]).all(), (problem, config)
        _equal(got.F, made.factors, keep, problem, config)
    elif problem.want == "solve":
        _equal(got.X, X, keep, problem, config)
    elif problem.want == "inverse":
        _equal(got.F, exact_inverse(made), keep, problem, config)
    else:
        _determinants(problem, got, made, keep)


def _equal(got: Any, expected: Any, keep: Any, problem: Problem, config: Config) -> None:
    wrong = int((got[keep] != expected[keep]).sum())
    assert wrong == 0, f"{wrong} of {got[keep].size} entries differ: {problem} {config}"


def _determinants(problem: Problem, got: Result, made: Exact, keep: Any) -> None:
    signs = (-1.0) ** (made.pivots != np.arange(made.pivots.shape[1])).sum(1)
    diagonals = np.diagonal(made.U, axis1=1, axis2=2)
    if problem.want == "determinant":
        assert (got.F[keep] == (signs * diagonals.prod(1))[keep]).all(), problem
        return
    regular, sizes = (diagonals != 0).all(1), np.where(diagonals == 0, 1, abs(diagonals))
    phases, logarithms = signs * regular * (diagonals / sizes).prod(1), np.log2(sizes).sum(1) * np.log(2)
    assert (got.F[keep] == phases[keep]).all(), problem
    assert (got.X[keep & ~regular] == -np.inf).all(), problem
    bound = 4 * problem.N * np.finfo(problem.dtype).eps
    assert (abs(got.X - logarithms)[keep & regular] <= bound).all(), problem


def exact_inverse(made: Exact) -> Any:
    """Of a sparse one: both triangles have two blocks, so entries of their inverses are products of two."""
    n = made.A.shape[1]
    scale = 1 / np.diagonal(made.U, axis1=1, axis2=2)
    below, above = np.tril(made.L, -1), np.triu(made.U, 1)
    inverse = np.eye(n) * scale[:, :, None] - scale[:, :, None] * above * scale[:, None, :]
    inverse = inverse @ (np.eye(n) - below)
    result = np.empty_like(inverse)
    for number, order in enumerate(made.order()):
        result[number][:, order] = inverse[number]
    return result


def random_stack(problem: Problem, operand: str, seed: int) -> Any:
    rows, columns = spec.shape(problem, operand)
    flat = testing.random_matrix(np, problem.BATCH * rows, columns, problem.dtype, seed)
    return flat.reshape(problem.BATCH, rows, columns)


def bounded(problem: Problem, config: Config, backend: str, A: Any = None, seed: int = 1) -> Result:
    """|P A - L U| <= gamma |L| |U| entry by entry; of a solution |A X - B| <= 3 gamma P^T |L| |U| |X|."""
    A = random_stack(problem, "a", seed) if A is None else A
    B = random_stack(problem, "b", seed + 1) if problem.want == "solve" else None
    got = launch(problem, config, backend, A, B)
    wide = np.clongdouble if problem.is_complex else np.longdouble
    F, pivots, _ = (got.F, got.pivots, 0) if problem.want == "factor" else spec.reference(A, problem.pivot)
    steps = min(problem.M, problem.N)
    order = spec.permutation(pivots, problem.M)
    permuted = np.take_along_axis(A, order[:, :, None], 1).astype(wide)
    L = np.tril(F, -1)[:, :, :steps].astype(wide) + np.eye(problem.M, steps)
    U = np.triu(F)[:, :steps].astype(wide)
    gamma = 4 * testing.gamma(problem.dtype, problem.N + 4)
    if problem.want == "factor":
        assert (abs(L) <= 1.5).all() or not problem.pivot  # of complex numbers |re| + |im| is at most 1
        residual, bound = abs(permuted - L @ U), gamma * (abs(L) @ abs(U))
    elif problem.want == "solve":
        right = np.take_along_axis(B, order[:, :, None], 1).astype(wide)
        residual = abs(permuted @ got.X.astype(wide) - right)
        bound = 3 * gamma * (abs(L) @ (abs(U) @ abs(got.X.astype(wide))))
    else:
        X = got.F.astype(wide)
        back = np.linalg.inv(A.astype(np.complex128 if problem.is_complex else np.float64))
        residual = abs(X - back)
        bound = (
            3
            * gamma
            * (abs(back) @ (np.take_along_axis(abs(L) @ abs(U), np.argsort(order)[:, :, None], 1) @ abs(back)))
        )
    assert np.isfinite(residual).all() and bool((residual <= bound).all()), (problem, config)
    return got
