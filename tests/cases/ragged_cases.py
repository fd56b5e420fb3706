"""Ragged batches of all kinds, and kernels of `ragged_gemm` alone: the sort, then one class of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scalars import factors_of

from mansard import testing
from mansard.backends import cpu, cuda, emulated
from mansard.kernels.batched.ragged_gemm import defaults, emit, space, spec, work
from mansard.kernels.batched.ragged_gemm.space import Gpu, Lanes, Stream, Tiles, Vectors, Whole
from mansard.operations.batched.gemm_call import Form
from mansard.operations.ragged import Ragged
from mansard.plan.problem import DTYPES, Problem

BACKENDS = {"cpu": cpu, "emulated": emulated, "cuda": cuda}
P = spec.problem
CLASSES = work.CLASSES
# One product of every class, and what lies at its ends: (m, n, k).
ENDS = [(1, 1, 1), (4, 4, 4), (5, 1, 2), (8, 8, 8), (3, 9, 1), (12, 12, 12), (13, 2, 5), (16, 16, 16), (17, 3, 4),
        (24, 24, 24), (7, 25, 1), (32, 32, 32), (33, 2, 1), (64, 64, 64), (65, 66, 67), (2, 3, 129),
        (8, 1, 5), (16, 1, 16), (31, 1, 32), (33, 1, 40), (3, 1, 257), (1, 33, 20), (1, 1, 300)]  # fmt: skip
EMPTY = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0), (40, 33, 0)]


def sizes_of(rng: Any, count: int, most: int) -> list[tuple[int, int, int]]:
    return [tuple(int(size) for size in three) for three in rng.integers(0, most + 1, (count, 3))]


def integers(rng: Any, shape: tuple[int, int], dtype: str) -> Any:
    """Small ones: every sum of their products is exact."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    return (values + 1j * rng.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else values


def numbers(rng: Any, shape: tuple[int, int], dtype: str) -> Any:
    values = rng.standard_normal(shape).astype(dtype)
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.startswith("complex") else values


def exact_lu(rng: Any, m: int, n: int, dtype: str) -> tuple[Any, Any, Any]:
    """A matrix, its factors and its pivots: multipliers are quarters below one, so that every pivot is the largest of
    its column, and pivots are powers of two."""
    k = min(m, n)
    L = np.tril(rng.integers(-2, 3, (m, k)) / 4, -1)
    U = np.triu(rng.integers(-2, 3, (k, n))).astype("complex128")
    if dtype.startswith("complex"):
        U += 1j * np.triu(rng.integers(-2, 3, (k, n)))
    U[range(k), range(k)] = rng.choice([4, 8, -8], k)
    A, pivots = (L + np.eye(m, k)) @ U, [int(rng.integers(i, m)) for i in range(k)]
    for i in range(k - 1, -1, -1):
        A[[i, pivots[i]]] = A[[pivots[i], i]]
    F = np.zeros((m, n), "complex128")
    F[:, :k] += L
    F[:k] += U
    kind = np.dtype(dtype)
    real = (lambda x: x) if kind.kind == "c" else (lambda x: x.real)
    return real(A).astype(kind), real(F).astype(kind), pivots


def guarded(rng: Any, matrices: list[Any], dtype: str, xp: Any = np) -> Ragged:
    """The matrices somewhere in a buffer of NaN, in any order, few of them on 16-byte boundaries."""
    order = rng.permutation(len(matrices))
    offsets, end = np.zeros(len(matrices), np.int64), 0
    for i in order:
        offsets[i] = end + rng.integers(1, 6)
        end = int(offsets[i]) + matrices[i].size
    buffer = np.full(end + 3, np.nan, dtype)
    for matrix, offset in zip(matrices, offsets, strict=True):
        buffer[offset : offset + matrix.size] = matrix.reshape(-1)
    rows, columns = ([matrix.shape[side] for matrix in matrices] for side in (0, 1))
    return Ragged(xp.asarray(buffer), rows, columns, offsets)


def outside(ragged: Ragged) -> Any:
    """What lies between the matrices."""
    rows, columns, offsets = ragged.layout.host()
    mask = np.ones(len(ragged.buffer), bool)
    for size, offset in zip(rows * columns, offsets, strict=True):
        mask[offset : offset + size] = False
    return host(ragged.buffer)[mask]


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def turned(matrix: Any, trans: bool, conj: bool) -> Any:
    matrix = matrix.T if trans else matrix
    return matrix.conj() if conj else matrix


# ---- kernels alone ----------------------------------------------------------------------------------------


def _cases() -> list[tuple[Problem, Gpu]]:
    device = emulated.backend().device
    found: list[tuple[Problem, Gpu]] = []
    for i, dtype in enumerate(("float64", "float32", "complex64", "complex128")):
        flags = [
            dict(trans_a=bool(j & 1), trans_b=bool(j & 2), conj_a=bool(j & 2), conj_b=bool(j & 1)) for j in range(4)
        ]
        for index in range(CLASSES):
            problem = P(dtype, 14, **flags[(index + i) % 4])
            found.append((problem, defaults.of_class(problem, index, device, (i + index) % 2 << 40)))
    found.append((P("float64", 14), Lanes(3, 16, 2, 1)))
    found.append((P("float64", 14, trans_a=True), Lanes(8, 1, 1, 2)))
    found.append((P("float64", 30, trans_b=True), Lanes(8, 2, 2, 1, 2)))
    found.append((P("complex64", 30), Lanes(7, 2, 2, 1, 2)))
    found.append((P("float32", 30, trans_a=True), Lanes(5, 4, 4, 1, 2)))
    whole = (Whole(2, 2, 2, 1, 69, 1), Whole(2, 2, 4, 1, 200, 0, 1), Whole(2, 4, 1), Whole(3, 1, 1, 4, 100, 2),
             Whole(4, 2, 1, 2, 60, 3), Whole(6, 1, 1, 4, 20, 0, 4))  # fmt: skip
    for j, config in enumerate(whole):
        found.append((P("float64", 24, **flags[j % 4]), config))
    for j, config in enumerate((Whole(3, 2, 1, 2, 80, 2, 1), Whole(2, 2, 4, 1, 200, 0, 1))):
        found.append((P("complex128", 20, **flags[j * 3]), config))
    found.append((P("float64", 14), Tiles(0, 3, 32, 32, 8, 64, 2, "tensor")))
    found.append((P("float64", 14, trans_b=True), Tiles(1, 1, 32, 64, 16, 128, 2)))
    found.append((P("complex128", 14, conj_b=True), Tiles(1, 2, 64, 32, 8, 64, 2, "tensor")))
    vectors = (Vectors(11, 16, 2, 1), Vectors(12, 4, 1), Vectors(13, 8, 2), Vectors(11, 8, 1, 3), Stream(9, 3, 2, 4, 1),
               Stream(10, 1, 2, 1, 2), Stream(14, 2, 3, 2, 4))  # fmt: skip
    for j, vector in enumerate(vectors):
        for trans in (False, True):
            found.append((P(DTYPES[j % 4], 24, trans_a=trans, trans_b=trans, conj_b=not trans), vector))
    return found


CASES = _cases()


def case_id(case: tuple[Problem, Gpu]) -> str:
    problem, config = case
    return f"{problem.dtype}-{config.VARIANT}-{getattr(config, 'CLASS', '')}-{CASES.index(case)}"


def of_class(rng: Any, index: int, count: int) -> list[tuple[int, int, int]]:
    """Sizes of one class, its ends among them."""
    if index >= len(space.WIDTHS):
        return _vectors_of(rng, index, count)
    high = space.WIDTHS[index] or 140
    low = (space.WIDTHS[index + 1] or 0) + 1 if index + 1 < len(space.WIDTHS) else 1
    least = 1 if high <= 4 else 2  # of rows and columns: vectors are another class
    found = [(high, high, high), (low, least, 1), (least, low, 0), (least, least, high)]
    while len(found) < count:
        sizes = [int(rng.integers(least, high + 1)) for _ in range(3)]
        sizes[int(rng.integers(3))] = int(rng.integers(low, high + 1))
        found.append((sizes[0], sizes[1], sizes[2]))
    return found[:count]


def _vectors_of(rng: Any, index: int, count: int) -> list[tuple[int, int, int]]:
    """Matrices times a column, or, of the last class, a row times matrices."""
    row, widths = index == space.ROW, (*space.VECTORS, 4)
    high = 90 if row else widths[index - len(space.WIDTHS)] or 300
    low = 33 if row else int(widths[index - len(space.WIDTHS) + 1] or 0) + 1
    found = [(high, high), (low, 1), (low, 0), (2 if row else 1, high), (low, 8), (low, 12), (low, 20), (2, low)]
    while len(found) < count:
        one, other = int(rng.integers(low, high + 1)), int(rng.integers(2, high + 1))
        found.append((one, other) if rng.integers(2) else (other, one))
    found = [(size, deep if max(size, deep) <= high else high) for size, deep in found]
    return [(1, size, deep) if row else (size, 1, deep) for size, deep in found[:count]]


def exact(problem: Problem, config: Gpu, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Products of one class among those of others: these become exact, the others keep their NaN, and nothing else is
    touched."""
    rng, where, xp = np.random.default_rng(seed), BACKENDS[backend].backend(), testing.array_module(backend)
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    problem = problem.replace(accumulate=scaled)
    index = config.CLASS  # type: ignore[union-attr]
    sizes = of_class(rng, index, problem.BATCH - 4)
    sizes += [of_class(rng, other, 1)[0] if 3 <= other < 9 else (2, 2, 2) for other in (index + 1, index - 1)]
    sizes = [*sizes[:3], *EMPTY[:2], *sizes[3:]][: problem.BATCH]
    dtype = problem.dtype
    A, B = [integers(rng, (m, k), dtype) for m, _, k in sizes], [integers(rng, (k, n), dtype) for _, n, k in sizes]
    C = [integers(rng, (m, n), dtype) if scaled else np.full((m, n), np.nan, dtype) for m, n, _ in sizes]
    a, b = (
        guarded(rng, [turned(x, trans, False) for x in many], dtype, xp)
        for many, trans in ((A, problem.trans_a), (B, problem.trans_b))
    )
    c = guarded(rng, C, dtype, xp)
    alpha, beta = factors_of(problem, scaled)
    scalars = (complex(alpha).real, complex(alpha).imag, complex(beta).real, complex(beta).imag)
    launch(problem, config, where, (a, b, c), scalars)
    for i, (m, n, k) in enumerate(sizes):
        if m * n == 0:
            continue
        product = turned(A[i], False, problem.conj_a) @ turned(B[i], False, problem.conj_b)
        expected = alpha * product + beta * C[i] if scaled else product
        if class_of(m, n, k, defaults.merged_from(problem)) != index:
            expected = C[i]
        assert np.array_equal(host(c[i]), expected, equal_nan=True), (i, sizes[i], problem, config)
    assert np.isnan(outside(c)).all(), "written between the matrices"


def class_of(m: int, n: int, k: int, start: int = 24) -> int:
    """As items.cuh has it, said in another way."""
    most = max(m, n, k)
    if n == 1 and most > 4:
        vectors = [width or 1 << 60 for width in space.VECTORS]
        return len(space.WIDTHS) + max(index for index, width in enumerate(vectors) if width >= most)
    if m == 1 and most > 32:
        return space.ROW
    found = max(index for index, width in enumerate(space.WIDTHS) if (width or 1 << 60) >= most)
    return 3 if start < most <= 32 else found


def launch(problem: Problem, config: Gpu, where: Any, given: tuple[Ragged, ...], scalars: tuple[float, ...]) -> Any:
    """The sort, then the kernel of one class; returns where the classes begin."""
    kind = given[0]._kind
    tables: tuple[int, ...] = ()
    for one in given:
        tables += one.layout.addresses(kind, one.buffer, where, 0)
    sorts = defaults.sorts(defaults.merged_from(problem))
    sizes = work.workspace_bytes(problem.BATCH, emit.sorters(problem.BATCH, sorts[0]))
    xp = np if isinstance(given[0].buffer, np.ndarray) else testing.array_module("cuda")
    memory = [xp.full(size // 8, -1, np.int64) for size in sizes]
    places = tuple(kind.address(one) for one in memory)
    for sort in sorts:
        where.prepare(emit.kernel(problem, sort, where.device, (1, 1)))((*tables, *places), (1.0, 0.0, 0.0, 0.0), 0)
    buffers = tuple(kind.address(one.buffer) for one in given)
    where.prepare(emit.kernel(problem, config, where.device))((*buffers, *places[:2]), scalars, 0)
    where.synchronize()
    return host(memory[1])[: CLASSES + 1]


FORMS = [Form(), Form(True, False, False, False), Form(False, False, True, True), Form(True, True, True, False)]


def operands(sizes: list[tuple[int, int, int]], dtype: str, form: Form = FORMS[0], seed: int = 0, make: Any = integers):
    """A and B as they lie in memory, and the products."""
    rng = np.random.default_rng(seed)
    A = [make(rng, (k, m) if form.trans_a else (m, k), dtype) for m, _, k in sizes]
    B = [make(rng, (n, k) if form.trans_b else (k, n), dtype) for _, n, k in sizes]
    both = zip(A, B, strict=True)
    return A, B, [turned(a, form.trans_a, form.conj_a) @ turned(b, form.trans_b, form.conj_b) for a, b in both]


def same(found: Any, expected: list[Any]) -> bool:
    return len(found) == len(expected) and all(
        x.shape == y.shape and bool((host(x) == y).all()) for x, y in zip(found, expected, strict=True)
    )
