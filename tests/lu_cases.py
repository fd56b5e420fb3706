"""Problems and configurations that between them reach every branch of the lu kernels, and matrices whose elimination
is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import BACKENDS, Stack, address

from mansard import testing
from mansard.families.gemm import spec as gemm_spec
from mansard.families.lu import emit, space, spec
from mansard.families.lu.space import Block, Config, Lanes, Swaps
from mansard.plan.problem import REAL, Problem

P = spec.problem
_STRIDED = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS = {"stack_a": "pointers", "stack_b": "pointers"}
_ONE = Lanes(1)

LANES: list[tuple[Problem, Config]] = [
    # a whole matrix per lane; groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 70), _ONE),
    (P("float64", 2, 2, 131), Lanes(1, WARPS=2)),
    (P("float64", 3, 3, 67, pivot=False), _ONE),
    (P("float64", 4, 4, 33), _ONE),
    (P("float64", 7, 4, 40), _ONE),
    (P("float64", 4, 7, 40, layout_a="col"), _ONE),
    (P("float64", 8, 8, 37), _ONE),
    (P("float32", 5, 5, 35), _ONE),
    (P("complex64", 4, 4, 35), _ONE),
    (P("complex128", 3, 3, 35, pivot=False), _ONE),
    # two lanes that do the same
    (P("float64", 2, 2, 131), Lanes(2, WARPS=2)),
    (P("float64", 2, 2, 33, NRHS=1, want="solve"), Lanes(2)),
    (P("complex64", 3, 3, 35, want="inverse"), Lanes(2, WARPS=1)),
    (P("float32", 5, 3, 17, layout_a="col"), Lanes(2)),
    (P("float64", 3, 3, 19, want="determinant"), Lanes(2)),
    # teams of 4 to 32 lanes, one and several rows each, ragged shares, both kinds of code
    (P("float64", 3, 3, 19), Lanes(4)),
    (P("float64", 6, 6, 19), Lanes(4, True)),
    (P("float64", 12, 12, 9), Lanes(4, True)),
    (P("float64", 13, 13, 9), Lanes(8, WARPS=2)),
    (P("float64", 16, 16, 9), Lanes(8)),
    (P("float64", 16, 16, 9, pivot=False), Lanes(8, True)),
    (P("float64", 17, 17, 5), Lanes(8, True, 1)),
    (P("float64", 24, 24, 5), Lanes(8, True, 1)),
    (P("float64", 25, 25, 5), Lanes(16, True, 1)),
    (P("float64", 32, 32, 5), Lanes(16, True, 1)),
    (P("float64", 32, 32, 3, pivot=False), Lanes(32, True, 1)),
    (P("float64", 40, 40, 3), Lanes(32, True, 1)),
    (P("float64", 20, 9, 5), Lanes(8, True)),
    # neighbouring rows in one lane; rows of factors that are looked up; solutions that are gathered
    (P("float64", 15, 11, 9), Lanes(8)),
    (P("float32", 29, 29, 3), Lanes(16, True, 1)),
    (P("float64", 13, 13, 9, NRHS=1, want="solve", pivot=False), Lanes(8)),
    (P("complex64", 15, 15, 7, NRHS=2, want="solve", layout_a="col"), Lanes(8)),
    (P("complex64", 16, 16, 9, pitch_a=18, **_STRIDED), Lanes(8)),
    (P("complex128", 32, 32, 3, stack_a="pointers", stack_f="packed"), Lanes(32, True, 1)),
    (P("float64", 16, 16, 9, NRHS=1, want="solve", layout_b="col", pitch_b=20, stack_b="strided"), Lanes(8)),
    (P("float64", 9, 20, 5), Lanes(4, True)),
    (P("float32", 16, 16, 7), Lanes(4, True)),
    (P("float32", 31, 31, 3), Lanes(8, True, 1)),
    (P("complex64", 14, 14, 7), Lanes(8)),
    (P("complex64", 19, 19, 5), Lanes(16, True)),
    (P("complex128", 9, 9, 5), Lanes(8)),
    (P("complex128", 18, 18, 3, pivot=False), Lanes(32, True, 1)),
    (P("complex128", 26, 26, 3), Lanes(32, True, 1)),
    # the pivot's row through shared memory
    (P("float64", 6, 6, 19), Lanes(4, True, VIA="shared")),
    (P("float64", 13, 13, 9), Lanes(8, WARPS=2, VIA="shared")),
    (P("float64", 16, 16, 9, NRHS=2, want="solve"), Lanes(8, VIA="shared")),
    (P("float64", 9, 20, 5), Lanes(4, True, VIA="shared")),
    (P("float64", 32, 32, 5, NRHS=1, want="solve"), Lanes(16, True, 1, VIA="shared")),
    (P("float32", 10, 10, 9, NRHS=3, want="solve"), Lanes(8, VIA="shared")),
    (P("float64", 24, 24, 5), Lanes(8, True, 1, VIA="shared")),
    (P("complex64", 19, 19, 5, want="inverse"), Lanes(16, True, VIA="shared")),
    (P("complex128", 9, 9, 5), Lanes(8, VIA="shared")),
    (P("float64", 40, 40, 3), Lanes(32, True, 1, VIA="shared")),
    # layouts, pitches, stacks, alignment
    (P("float64", 8, 8, 21, layout_a="col"), Lanes(4)),
    (P("float64", 8, 8, 21, layout_a="col", layout_f="row"), _ONE),
    (P("float64", 11, 11, 21, layout_f="col"), Lanes(8)),
    (P("float32", 6, 9, 21, layout_a="any"), Lanes(4)),
    (P("float64", 5, 5, 21, pitch_a=9, **_STRIDED), _ONE),
    (P("float64", 6, 6, 21, pitch_a=8, **_STRIDED), Lanes(4, True)),
    (P("float64", 7, 7, 21, stack_a="pointers", stack_f="packed"), Lanes(4)),
    (P("complex64", 10, 10, 9, **_POINTERS), Lanes(8)),
    (P("float64", 5, 5, 21, aligned=False), _ONE),
    (P("float32", 9, 9, 21, aligned=False), Lanes(8)),
    (P("complex128", 4, 4, 21, aligned=False), Lanes(4)),
    # right-hand sides
    (P("float64", 2, 2, 70, NRHS=1, want="solve"), _ONE),
    (P("float64", 8, 8, 40, NRHS=1, want="solve"), _ONE),
    (P("float64", 5, 5, 40, NRHS=3, want="solve", pivot=False), _ONE),
    (P("float64", 12, 12, 9, NRHS=1, want="solve"), Lanes(4, True)),
    (P("float64", 16, 16, 9, NRHS=2, want="solve"), Lanes(8)),
    (P("float64", 23, 23, 5, NRHS=1, want="solve"), Lanes(8, True, 1)),
    (P("float64", 32, 32, 5, NRHS=1, want="solve"), Lanes(16, True, 1)),
    (P("float32", 21, 21, 5, NRHS=4, want="solve", layout_b="col"), Lanes(8, True, 1)),
    (P("complex64", 15, 15, 5, NRHS=2, want="solve", layout_b="col", layout_x="row"), Lanes(16)),
    (P("complex128", 7, 7, 5, NRHS=1, want="solve", layout_a="col", pivot=False), Lanes(4)),
    (P("float64", 9, 9, 9, NRHS=2, want="solve", layout_b="any", **_STRIDED), Lanes(8)),
    (P("float64", 6, 6, 21, NRHS=1, want="solve", **_POINTERS), _ONE),
    (P("float32", 10, 10, 21, NRHS=3, want="solve", pitch_b=5, stack_b="strided"), Lanes(8)),
    (P("float64", 7, 7, 21, NRHS=1, want="solve", aligned=False), Lanes(4)),
    # inverses and determinants
    (P("float64", 2, 2, 70, want="inverse"), _ONE),
    (P("float64", 6, 6, 40, want="inverse"), _ONE),
    (P("complex64", 4, 4, 40, want="inverse", pivot=False), _ONE),
    (P("float64", 9, 9, 9, want="inverse"), Lanes(4, True)),
    (P("float64", 16, 16, 9, want="inverse", layout_f="col"), Lanes(8)),
    (P("float64", 27, 27, 3, want="inverse"), Lanes(16, True, 1)),
    (P("float32", 32, 32, 3, want="inverse", layout_a="col"), Lanes(16, True, 1)),
    (P("complex128", 12, 12, 3, want="inverse"), Lanes(16)),
    (P("float64", 5, 5, 40, want="determinant"), _ONE),
    (P("float64", 20, 20, 5, want="determinant", layout_a="col"), Lanes(8, True)),
    (P("complex64", 11, 11, 9, want="determinant", pivot=False), Lanes(8)),
    (P("float32", 4, 4, 40, want="logdet"), _ONE),
    (P("float64", 14, 14, 9, want="logdet"), Lanes(8)),
    (P("complex128", 13, 13, 9, want="logdet"), Lanes(16, True)),
]  # fmt: skip

BLOCK: list[tuple[Problem, Config]] = [
    # whole panels and ragged ones, one to four rows per lane, one warp and several
    (P("float64", 32, 32, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 33, 33, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 50, 50, 3), Block(8, 4, UNIT="mma")),
    (P("float64", 64, 64, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 64, 64, 2, pivot=False), Block(16, 2, UNIT="mma")),
    (P("float64", 61, 61, 2), Block(8, 1, UNIT="fma")),
    (P("float64", 100, 100, 2), Block(16, 4, UNIT="mma")),
    (P("float64", 128, 128, 2), Block(8, 8, UNIT="mma")),
    (P("float64", 90, 20, 2), Block(8, 4, UNIT="mma")),
    (P("float64", 20, 90, 2), Block(8, 4, UNIT="mma")),
    (P("float64", 37, 37, 3, layout_a="col"), Block(8, 2, UNIT="mma")),
    (P("float64", 40, 40, 3, layout_a="col", layout_f="row"), Block(8, 3, UNIT="mma")),
    (P("float64", 38, 44, 3, layout_a="any", layout_f="row"), Block(16, 2, UNIT="mma")),
    (P("float64", 40, 40, 3, pitch_a=46, **_STRIDED), Block(8, 2, UNIT="mma")),
    (P("float64", 36, 36, 3, stack_a="pointers", stack_f="packed"), Block(8, 2, UNIT="mma")),
    (P("float64", 35, 35, 3, aligned=False), Block(8, 2, UNIT="mma")),
    (P("float32", 64, 64, 2), Block(8, 2)),
    (P("float32", 75, 75, 2, layout_f="col"), Block(4, 3)),
    (P("complex64", 48, 48, 2), Block(8, 4)),
    (P("complex64", 33, 41, 2, aligned=False), Block(8, 2)),
    (P("complex128", 35, 35, 2, layout_a="col"), Block(8, 4)),
    (P("complex128", 40, 40, 2, pivot=False), Block(4, 2)),
    # all warps factor a panel
    (P("float64", 200, 16, 2), Block(8, 4, "block", "mma")),
    (P("float64", 133, 32, 2, layout_a="col"), Block(8, 2, "block", "mma")),
    (P("float64", 70, 29, 2, pivot=False), Block(16, 2, "block", "mma")),
    (P("float64", 40, 40, 2), Block(8, 2, "block", "fma")),
    (P("float32", 300, 9, 2), Block(8, 8, "block")),
    (P("complex64", 90, 21, 2), Block(4, 2, "block")),
    (P("complex128", 75, 20, 2, pitch_a=22, **_STRIDED), Block(8, 4, "block")),
    (P("float64", 45, 45, 2, NRHS=2, want="solve"), Block(8, 4, "block", "mma")),
    (P("complex128", 35, 35, 2, want="determinant"), Block(8, 2, "block")),
    # right-hand sides, determinants
    (P("float64", 33, 33, 2, NRHS=1, want="solve"), Block(8, 2, UNIT="mma")),
    (P("float64", 64, 64, 2, NRHS=3, want="solve", layout_b="col"), Block(8, 2, UNIT="mma")),
    (P("float64", 70, 70, 2, NRHS=1, want="solve", pivot=False, layout_a="col"), Block(16, 4, UNIT="mma")),
    (P("float32", 45, 45, 2, NRHS=2, want="solve", layout_x="col"), Block(8, 3)),
    (P("complex128", 34, 34, 2, NRHS=2, want="solve", **_POINTERS), Block(8, 1)),
    (P("float64", 33, 33, 2, want="inverse"), Block(8, 2, UNIT="mma")),
    (P("float64", 50, 50, 2, want="inverse", layout_f="col"), Block(8, 4, "block", "mma")),
    (P("complex64", 40, 40, 2, want="inverse", layout_a="col", pivot=False), Block(8, 3)),
    (P("float64", 64, 64, 2, want="inverse"), Block(16, 2, UNIT="mma")),
    (P("float64", 79, 79, 2, want="inverse", layout_a="col"), Block(16, 3, UNIT="mma")),
    (P("float64", 20, 20, 3, want="inverse"), Block(8, 1, UNIT="mma")),
    (P("float64", 128, 128, 2, want="inverse"), Block(16, 4, UNIT="mma")),
    (P("float32", 100, 100, 2, want="inverse", aligned=False), Block(8, 4)),
    (P("complex128", 35, 35, 2, want="inverse", **_POINTERS), Block(8, 2)),
    (P("float64", 50, 50, 2, want="determinant"), Block(8, 2, UNIT="mma")),
    (P("complex64", 40, 40, 2, want="logdet"), Block(8, 2)),
]  # fmt: skip
SWAPS: list[tuple[Problem, Config]] = [
    (P("float64", 9, 40, 5, NRHS=4, want="swap"), Swaps(16, 2)),
    (P("float64", 70, 33, 3, NRHS=32, want="swap", layout_a="col"), Swaps()),
    (P("float32", 20, 7, 3, NRHS=20, want="swap", layout_f="col"), Swaps(32, 1)),
    (P("complex128", 12, 10, 3, NRHS=8, want="swap", pitch_a=13, **_STRIDED), Swaps(4, 2)),
    (P("complex64", 33, 6, 3, NRHS=16, want="swap", stack_a="pointers", stack_f="packed"), Swaps(8, 3)),
]
CASES = LANES + BLOCK  # and exchanges alone, which take pivots instead of making them


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    sizes = "x".join(str(size) for _, size in problem.sizes)
    return f"{config.VARIANT}-{problem.want}-{problem.dtype}-{sizes}-{(CASES + SWAPS).index(case)}"


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


def exact_matrices(problem: Problem, seed: int, singular: bool = False, sparse: bool = False) -> Exact:
    """P A = L U with diagonals of U that are powers of two and entries of L that are multiples of them.

    In some columns the pivot is the only largest entry and stands anywhere; in others it shares its size with
    entries below it, and is where it belongs. `singular` ones have zero columns; `sparse` ones an exact inverse.
    """
    rng = np.random.default_rng(seed)
    M, N, batch = problem.M, problem.N, problem.BATCH
    steps = min(M, N)
    strict = rng.random((batch, 1, steps)) < 0.5 if problem.pivot else np.zeros((batch, 1, steps), bool)
    small = rng.choice([0, 0.25, 0.5], (batch, M, steps))
    ties = rng.choice([0, 0.5, 1], (batch, M, steps))
    alone = strict | (problem.want == "solve")  # which need not take the first of rows that share a size
    L = np.where(alone, small, ties) * _units(problem, rng, (batch, M, steps))
    U = 1.0 * rng.integers(-3, 4, (batch, steps, N)) * _units(problem, rng, (batch, steps, N))
    diagonal = rng.choice([0.5, 1, 2], (batch, steps)) * _units(problem, rng, (batch, steps))
    if sparse:  # triangles of two blocks are their own inverses but for signs
        half = steps // 2
        L[:, :half], L[:, :, half:] = 0, 0
        U[:, half:], U[:, :, :half] = 0, 0
    zero = (rng.random((batch, steps)) < 1 / steps) & (rng.random((batch, 1)) < 0.6) & singular
    L = np.tril(np.where(zero[:, None, :], 0, L), -1) + np.eye(M, steps)
    every = np.arange(steps)
    U = np.triu(U)
    U[:, every, every] = np.where(zero, 0, diagonal)
    pivots = np.tile(every.astype(np.int32), (batch, 1))
    moves = strict[:, 0] & ~zero
    pivots[moves] = rng.integers(pivots, M)[moves]
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
    singular = spoil and problem.want in ("factor", "determinant")
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
    phases, logarithms = signs * (diagonals / abs(diagonals)).prod(1), np.log2(abs(diagonals)).sum(1) * np.log(2)
    assert (got.F[keep] == phases[keep]).all(), problem
    bound = 4 * problem.N * np.finfo(problem.dtype).eps
    assert (abs(got.X - logarithms)[keep] <= bound).all(), problem


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
