"""Tiny systems whose solutions are exact, and how launches of the systems kernels are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gemm_cases import address
from kernel_cases import BACKENDS
from lu_cases import exact_matrices

from mansard import testing
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.kernels.factor.systems import emit, space, spec, work
from mansard.kernels.factor.systems.space import Columns, Config, Determinants, Residuals
from mansard.plan.problem import REAL, Problem


def _p(dtype: str, N: int, NRHS: int, BATCH: int, want: str, M: int = 0, **traits: Any) -> Problem:
    return spec.problem(dtype, M or N, N, BATCH, NRHS=NRHS, want=want, **traits)


CASES: list[tuple[Problem, Config]] = [
    (_p("float64", 1, 41, 9, "solve"), Columns(32)),
    (_p("float64", 3, 42, 3, "solve"), Columns(4, 2)),
    (_p("float32", 4, 25, 7, "lu"), Columns(32)),
    (_p("complex128", 5, 19, 5, "cholesky"), Columns(8)),
    (_p("float64", 7, 5, 11, "solve", pivot=False), Columns(16, 1)),
    (_p("complex64", 8, 9, 5, "solve", stack_a="strided"), Columns(2)),
    (_p("float64", 16, 17, 3, "solve"), Columns(16)),
    (_p("float64", 13, 33, 3, "positive"), Columns(16, 2)),
    (_p("complex128", 3, 9, 6, "positive"), Columns(4)),
    (_p("complex64", 4, 3, 9, "adjoint"), Columns(1)),
    (_p("float64", 6, 10, 4, "transposed", stack_b="strided", stack_x="strided"), Columns(4)),
    (_p("float32", 9, 1, 13, "cholesky", uplo="upper"), Columns(16)),
    (_p("float64", 32, 3, 2, "lu"), Columns(32, 1)),
    (_p("complex128", 2, 70, 3, "transposed", stack_a="shared"), Columns(8)),
    (_p("float64", 5, 12, 4, "solve", stack_b="shared"), Columns(8)),
    (_p("float64", 4, 3, 6, "residuals", M=9), Residuals(4)),
    (_p("float32", 1, 1, 5, "residuals", M=1), Residuals(1, 2)),
    (_p("complex128", 3, 37, 3, "residuals", M=130), Residuals(32)),
    (_p("complex64", 7, 5, 3, "residuals", M=67, stack_a="shared"), Residuals(2)),
    (_p("float64", 70, 0, 5, "determinant"), Determinants(2)),
    (_p("complex64", 33, 0, 3, "logdet"), Determinants(1)),
    (_p("complex128", 4, 0, 9, "determinant"), Determinants(4)),
    (_p("float32", 7, 0, 9, "logdet"), Determinants(4)),
]


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    lanes = work.lanes(config)
    sizes = f"{problem.M}x{problem.N}x{problem.NRHS}x{problem.BATCH}"
    return f"{problem.want}-{lanes}-{problem.dtype}-{sizes}"


def integers(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Integers from -3 to 3, in both parts of complex numbers."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    return values + (1j * rng.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else values


def adjoint(array: Any) -> Any:
    return array.conj().swapaxes(-1, -2)


@dataclass
class Made:
    """Operands, with exact answers: X and info, or squared residuals."""

    A: Any
    B: Any
    X: Any
    pivots: Any = None
    info: Any = None
    squares: Any = None


def made(problem: Problem, seed: int = 0) -> Made:
    """Operands whose elimination and substitution do not round: what is divided by are powers of two (times i)."""
    rng, batch, dtype = np.random.default_rng(seed), int(problem.BATCH), problem.dtype
    count = {name: 1 if getattr(problem, f"stack_{name}") == "shared" else batch for name in "abx"}
    X = integers(rng, (batch, problem.N, problem.NRHS), dtype)
    if problem.want == "residuals":
        A = integers(rng, (count["a"], problem.M, problem.N), dtype)
        B = integers(rng, (batch, problem.M, problem.NRHS), dtype)
        return Made(A, B, X, squares=(abs(B - A @ X) ** 2).sum(-2).round().astype(REAL[dtype]))
    if problem.want in spec.NUMBERS:
        return _determinants(problem, rng)
    if problem.want in ("positive", "cholesky"):
        L = np.tril(integers(rng, (count["a"], problem.N, problem.N), dtype), -1)
        every = np.arange(problem.N)
        L[:, every, every] = rng.choice([0.5, 1, 2], (count["a"], problem.N))
        A = L @ adjoint(L)
        C = adjoint(L) if problem.uplo == "upper" else L
        return Made(A if problem.want == "positive" else C, A @ X, X, info=np.zeros(batch, np.int32))
    alike = lu_spec.problem(dtype, problem.N, problem.N, count["a"], pivot=problem.pivot)
    exact = exact_matrices(alike, seed)
    if count["b"] == 1:  # one right-hand side for all: the unit matrix and its neighbours have exact solutions
        exact.A[...] = np.eye(problem.N)[::-1] * 2 if problem.pivot else np.eye(problem.N) * 2
        X = np.broadcast_to(X[:1], X.shape)
    forms = {"transposed": exact.A.swapaxes(-1, -2), "adjoint": adjoint(exact.A)}
    B = (forms.get(problem.want, exact.A) @ X)[: count["b"]]
    A = exact.A if problem.want == "solve" else exact.factors.astype(dtype)
    return Made(A, B, X, pivots=exact.pivots, info=np.zeros(batch, np.int32))


def _determinants(problem: Problem, rng: Any) -> Made:
    """Diagonals of 0.5, 1, 2 and units, with as many halves as twos, and exchanges in turn; one matrix is singular."""
    batch, N = int(problem.BATCH), problem.N
    sizes = rng.permuted(np.tile([0.5, 1, 2, 1] * N, (batch, 1))[:, : N - N % 4], axis=1)
    diagonal = np.concatenate([sizes, np.ones((batch, N % 4))], 1) * rng.choice(
        [1, -1, 1j, -1j] if problem.is_complex else [1, -1], (batch, N)
    )
    diagonal[1, N // 2] = 0
    A = integers(rng, (batch, N, N), problem.dtype)
    A[:, range(N), range(N)] = diagonal
    pivots = np.where(rng.random((batch, N)) < 0.5, np.arange(N), N - 1).astype(np.int32)
    sign = 1 - 2 * ((pivots != np.arange(N)).sum(1) % 2)
    X = np.empty((batch, 1, 1), problem.dtype)
    X[:, 0, 0] = diagonal.prod(1) * sign
    info = np.zeros(batch, np.int32)
    info[-1], X[-1], A[-1, -1, -1] = 1, 0, np.nan  # what stands behind the pivot that is zero does not count
    with np.errstate(divide="ignore"):
        squares = np.log(abs(X[:, 0])).astype(REAL[problem.dtype])
    return Made(A, None, X, pivots, info, squares=squares if problem.want == "logdet" else None)


@dataclass
class Found:
    """What a launch left, as NumPy arrays."""

    X: Any
    squares: Any
    info: Any


def _placed(xp: Any, values: Any, order: str) -> tuple[Any, tuple[int, int, int]]:
    """The matrices on the device, and their strides in elements: rows, columns, every other entry, or batch last."""
    batch, rows, columns = values.shape
    if order == "columns":
        held = xp.ascontiguousarray(xp.asarray(values.swapaxes(1, 2)))
        return held, (rows * columns, 1, rows)
    if order == "apart":
        held = xp.full((batch, 2 * rows, 3 * columns), np.nan, values.dtype)
        held[:, ::2, ::3] = xp.asarray(values)
        return held, (6 * rows * columns, 6 * columns, 3)
    if order == "last":
        held = xp.ascontiguousarray(xp.asarray(np.moveaxis(values, 0, -1)))
        return held, (1, columns * batch, batch)
    return xp.ascontiguousarray(xp.asarray(values)), (rows * columns, columns, 1)


ORDERS = ("rows", "columns", "apart", "last")


def launch(
    problem: Problem, config: Config, backend: str, given: Made, orders: str | tuple[str, ...] = "rows"
) -> Found:
    """One launch on operands A, B and X in these orders; results begin as NaN, or as numbers that no kernel writes."""
    where, xp, batch = BACKENDS[backend].backend(), testing.array_module(backend), int(problem.BATCH)
    assert space.illegal(problem, config, where.device) is None
    orders = (orders,) * 3 if isinstance(orders, str) else orders
    wanted = given.X if problem.want == "residuals" else np.full(given.X.shape, np.nan, problem.dtype)
    held, strides = [], ()
    for name, values, order in zip("abx", (given.A, given.B, wanted), orders, strict=True):
        if values is None:
            held.append(None)
            strides += (0, 0, 0)
            continue
        array, steps = _placed(xp, values, order)
        held.append(array)
        strides += (0 if getattr(problem, f"stack_{name}") == "shared" else steps[0], *steps[1:])
    squares = xp.full((batch, 1 if problem.want in spec.NUMBERS else problem.NRHS), np.nan, REAL[problem.dtype])
    info = xp.full(batch, -7, np.int32) if problem.want not in spec.NUMBERS else xp.asarray(given.info)
    pivots = None if given.pivots is None else xp.ascontiguousarray(xp.asarray(given.pivots))
    used = (held[0], pivots, *held[1:], squares, info)
    pointers = tuple(0 if one is None else address(one) for one in used)
    where.prepare(emit.kernel(problem, config, where.device, strides))(pointers, (), 0)
    where.synchronize()
    X, squares, info = (one if backend == "emulated" else one.get() for one in (held[2], squares, info))
    return Found(_taken(X, given.X.shape, orders[2]), squares, info)


def _taken(held: Any, shape: tuple[int, ...], order: str) -> Any:
    """The matrices of `_placed`; what lies between them is untouched."""
    if order == "columns":
        return held.swapaxes(1, 2)
    if order == "apart":
        assert np.isnan(held).sum() >= held.size - np.prod(shape)
        return held[:, ::2, ::3]
    return np.moveaxis(held, -1, 0) if order == "last" else held


def exact(problem: Problem, config: Config, backend: str, seed: int = 0) -> None:
    """Integer solutions, in every order of the operands in memory in turn."""
    given = made(problem, seed)
    number = CASES.index((problem, config)) if (problem, config) in CASES else seed
    orders = tuple(ORDERS[(number + shift) % len(ORDERS)] for shift in range(3))
    if problem.want in spec.NUMBERS:
        orders = (*orders[:2], "rows")
    found = launch(problem, config, backend, given, orders)
    if problem.want in spec.NUMBERS:
        assert np.array_equal(found.X, given.X)
        tolerance = 20 * float(np.finfo(problem.dtype).eps)
        assert given.squares is None or np.allclose(found.squares, given.squares, tolerance, tolerance)
    elif problem.want == "residuals":
        assert np.array_equal(found.squares, given.squares) and (found.info == problem.N).all()
    else:
        assert np.array_equal(found.X, given.X)
        assert (found.info == (0 if problem.want in ("solve", "positive") else -7)).all()


def bounded(problem: Problem, config: Config, backend: str) -> None:
    """Random matrices: residuals within n units of |A| |X| for factors that grow little."""
    rng, dtype, batch = np.random.default_rng(5), problem.dtype, int(problem.BATCH)
    given = made(problem)

    def normal(shape: tuple[int, ...]) -> Any:
        values = rng.standard_normal(shape)
        return (values + 1j * rng.standard_normal(shape) if problem.is_complex else values).astype(dtype)

    wide = "complex128" if problem.is_complex else "float64"
    eps, B = float(np.finfo(dtype).eps), normal(given.B.shape)
    if problem.want == "residuals":
        given = Made(normal(given.A.shape), B, normal(given.X.shape))
        A, X = given.A.astype(wide), given.X.astype(wide)
        expected, scale = (abs(B - A @ X) ** 2).sum(-2), ((abs(B) + abs(A) @ abs(X)) ** 2).sum(-2)
        found = launch(problem, config, backend, given)
        assert (abs(found.squares - expected) <= 4 * (problem.N + problem.M) * eps * scale).all()
        return
    if problem.want not in ("solve", "positive"):
        return  # by factors: the substitution is that of the other two
    A = normal(given.A.shape)
    A = A @ adjoint(A) + problem.N * np.eye(problem.N, dtype=dtype) if problem.want == "positive" else A
    if not problem.pivot:
        A = A + 4 * problem.N * np.eye(problem.N, dtype=dtype)
    given = Made(A.astype(dtype), B, given.X, info=np.zeros(batch))
    X = launch(problem, config, backend, given).X.astype(wide)
    size = abs(given.A) @ abs(X) + abs(B)
    norm = size.max(-2, keepdims=True) * problem.N
    assert (abs(given.A.astype(wide) @ X - B) <= 8 * problem.N * eps * norm).all()
