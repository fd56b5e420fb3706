"""Problems and configurations that between them reach every branch of the back_transform kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sweeps_cases import BACKENDS, address

from mansard import testing
from mansard.kernels.factor.back_transform import emit, space, spec
from mansard.kernels.factor.back_transform.space import Block, Config, Lanes, Warps
from mansard.kernels.factor.sweeps import spec as sweeps
from mansard.plan.problem import REAL, Problem

ON_DIAGONAL = ("eigenvectors", "product")  # sides whose 1 / h are on the diagonal of V


def _p(dtype: str, N: int, BATCH: int, side: str = "eigenvectors", sweeps: int = 7) -> Problem:
    return spec.problem(dtype, N, BATCH, sweeps, side=side)


CASES: list[tuple[Problem, Config]] = [
    (_p("float64", 8, 37), Lanes(8)),
    (_p("float64", 8, 5, "left"), Lanes(8, 1)),
    (_p("float64", 8, 5, "right"), Lanes(8, 1)),
    (_p("float64", 13, 5), Lanes(8)),  # two rows per lane
    (_p("float64", 13, 3, "left"), Lanes(16)),
    (_p("float64", 3, 70, "right"), Lanes(4)),
    (_p("float64", 2, 3, "left"), Lanes(4)),
    (_p("float64", 1, 2, "right"), Lanes(4)),
    (_p("float64", 32, 3, sweeps=20), Lanes(32, 2)),
    (_p("float64", 8, 5, "right", 0), Lanes(8)),  # Q alone
    (_p("float32", 13, 4), Lanes(16, 1)),
    (_p("float32", 12, 4, "right"), Lanes(8, 1)),
    (_p("complex128", 8, 5), Lanes(16)),
    (_p("complex128", 13, 3, "right"), Lanes(32, 1)),
    (_p("complex64", 9, 5, "left"), Lanes(8)),
    (_p("float64", 33, 2), Block(1, 2)),
    (_p("float64", 33, 3, "left", 9), Block(2, 1)),  # rows of two lanes, three blocks per matrix
    (_p("float64", 50, 2, "right", 12), Block(2, 4)),
    (_p("float64", 50, 2, sweeps=25), Block(4, 3)),
    (_p("float64", 37, 2, "left", 0), Block(1, 1)),
    (_p("float32", 50, 2), Block(1, 1)),
    (_p("float32", 34, 1, "right"), Block(2, 2)),
    (_p("complex128", 33, 2), Block(1, 2)),
    (_p("complex128", 34, 1, "right", 9), Block(2, 2)),
    (_p("complex64", 33, 1, "left", 9), Block(4, 4)),
    (_p("float64", 13, 5, "product", 0), Lanes(8)),
    (_p("complex128", 8, 5, "product", 0), Lanes(16)),
    (_p("float64", 50, 2, "product", 0), Block(2, 4)),
    (_p("complex64", 33, 2, "product", 0), Block(1, 2)),
    (_p("float64", 35, 2, sweeps=25), Warps(3)),
    (_p("float64", 40, 2, "right", 9), Warps(2)),
    (_p("complex128", 21, 2, "left", 13), Warps(4)),
    (_p("float32", 34, 1, "left", 0), Warps(2)),
]  # fmt: skip


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    team = config.LANES if isinstance(config, Lanes) else config.SPLIT if isinstance(config, Block) else 1
    return f"{config.VARIANT}-{problem.dtype}-{problem.side}-{problem.N}x{problem.BATCH}-{team}x{config.WARPS}"


class Given(NamedTuple):
    """Operands, in the order of `spec.POINTERS` without results; absent ones are None."""

    V: Any
    tau: Any
    phase: Any
    D: Any
    rotations: Any
    ranges: Any
    count: Any
    scale: Any


def operands(problem: Problem, seed: int = 0) -> Given:
    """Random reflectors, phases, values and rotations. What must not be read is NaN."""
    N, batch, real = problem.N, problem.BATCH, REAL[problem.dtype]
    random = np.random.default_rng([seed, N])
    V = np.full((batch, N, N), np.nan, problem.dtype)
    tau = np.full((batch, N), np.nan, real)
    for k in range(spec.reflectors(N, problem.side)):
        first = k + (problem.side != "left")
        u = testing.random_matrix(np, batch, N - first, problem.dtype, seed + k)
        u[:, 0] += np.where(np.arange(batch) % 3 == 0, 2, 0)
        tau[:, k] = 2 / (np.abs(u) ** 2).sum(axis=1)
        tau[batch // 2, k] = 0 if k % 3 == 1 else tau[batch // 2, k]  # a reflector that is the identity
        V[:, k, first:] = u
        if problem.side in ON_DIAGONAL:
            V[:, k, k] = tau[:, k]
    phase = np.exp(2j * np.pi * random.random((batch, N))).astype(problem.dtype) if problem.is_complex else None
    given_tau = None if problem.side in ON_DIAGONAL else tau
    if not problem.CAPACITY:
        X = random.uniform(-1, 1, (batch, N, N)).astype(real) if problem.side == "product" else None
        return Given(V, given_tau, phase, None, X, None, None, None)
    D = random.integers(-5, 6, (batch, N)).astype(real) / 4  # with ties
    count = random.integers(0, problem.CAPACITY + 1, batch).astype("int32")
    count[0] = problem.CAPACITY
    first = random.integers(0, max(1, N - 1), (batch, problem.CAPACITY))
    first[:, ::3] = 0
    end = np.minimum(N - 1, first + 1 + random.integers(0, N, first.shape))
    records = np.full(sweeps.record_words(N, batch, problem.CAPACITY), np.nan, real)
    for m in range(batch):
        for s in range(count[m]):
            angle = random.uniform(-np.pi / 2, np.pi / 2, N)
            inside = slice(first[m, s], end[m, s])
            rotations = np.stack([np.cos(angle) - 1, np.sin(angle)], axis=1)
            sweeps.records_of(records, problem, m, s)[inside] = rotations[inside]
    ranges = (first | end << 16).astype("int32")
    count = count if N > 1 else 0 * count
    return Given(V, given_tau, phase, D, records, ranges, count, (2.0 ** (np.arange(batch) % 5 - 2)).astype(real))


def run(problem: Problem, config: Config, backend: str, given: Given) -> tuple[Any, Any]:
    """W and Z, which begin as NaN."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    assert space.illegal(problem, config, where.device) is None
    there = Given(*(None if one is None else xp.ascontiguousarray(xp.asarray(one)) for one in given))
    W = xp.full((problem.BATCH, problem.N), np.nan, REAL[problem.dtype])
    Z = xp.full((problem.BATCH, problem.N, problem.N), np.nan, problem.dtype)
    arrays = (*there[:7], W, there.scale, Z)
    where.prepare(emit.kernel(problem, config, where.device))(tuple(map(address, arrays)), (), 0)
    where.synchronize()
    return (W, Z) if backend == "emulated" else (W.get(), Z.get())


def expected(problem: Problem, given: Given) -> tuple[Any, Any]:
    """W and Z in NumPy and double precision."""
    wide = "complex128" if problem.is_complex else "float64"
    phase = None if given.phase is None else given.phase.astype(wide)
    Q = spec.reference(given.V.astype(wide), given.tau, phase, problem.side)
    if problem.side == "right":
        Q = Q.conj().swapaxes(1, 2)
    if problem.side == "product":
        return None, Q @ given.rotations
    if not problem.CAPACITY:
        return None, Q.conj().swapaxes(1, 2) if problem.side == "right" else Q
    W = np.empty((problem.BATCH, problem.N))
    for m in range(problem.BATCH):
        for s in range(given.count[m]):
            by = sweeps.records_of(given.rotations, problem, m, s).astype("float64")
            for i in range((given.ranges[m, s] >> 16) - 1, (given.ranges[m, s] & 0xFFFF) - 1, -1):
                c, sine = 1 + by[i, 0], by[i, 1]
                x, y = Q[m, :, i].copy(), Q[m, :, i + 1].copy()
                Q[m, :, i], Q[m, :, i + 1] = c * x - sine * y, sine * x + c * y
        d = given.D[m].astype("float64")
        order = np.argsort(d if problem.side == "eigenvectors" else -np.abs(d), kind="stable")
        W[m] = (d if problem.side == "eigenvectors" else np.abs(d))[order] / given.scale[m]
        Q[m] = (Q[m] * (np.where(d < 0, -1, 1) if problem.side == "right" else 1))[:, order]
    return W, Q.conj().swapaxes(1, 2) if problem.side == "right" else Q


def exact(problem: Problem, config: Config, backend: str, seed: int = 0) -> None:
    """Values are exact; vectors are within a few units, for every reflector and sweep."""
    given = operands(problem, seed)
    W, Z = run(problem, config, backend, given)
    values, vectors = expected(problem, given)
    assert values is None or (values == W).all()
    steps = problem.CAPACITY + spec.reflectors(problem.N, problem.side)
    bound = 4 * (steps + 4) * float(np.finfo(problem.dtype).eps)
    assert np.abs(Z - vectors).max() <= bound, (np.abs(Z - vectors).max(axis=(1, 2)), bound)
