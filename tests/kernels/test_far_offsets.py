"""Offsets past 2^31 elements in every operand of every operation, on CPUs and on the emulator."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import gemm_cases
import gemv_cases
import numpy as np
import pytest
import scipy.sparse
from conftest import usable
from factor_cpu_cases import CHOLESKY, CHOLESKY_ROWWISE, LU, QR, ROWWISE, SPACES
from far import FAR, far_array, far_stacks, holes

import mansard as ms
from mansard.backends import cpu
from mansard.kernels.batched.gemm import space_cpu as gemm_cpu
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.batched.gemv import space as gemv_space
from mansard.kernels.batched.gemv import space_cpu as gemv_cpu
from mansard.kernels.batched.gemv import spec as gemv_spec
from mansard.kernels.factor.cholesky import space as cholesky_space
from mansard.kernels.factor.cholesky import space_cpu as cholesky_cpu
from mansard.kernels.factor.cholesky import spec as cholesky_spec
from mansard.kernels.factor.lu import space as lu_space
from mansard.kernels.factor.lu import space_cpu as lu_cpu
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.kernels.factor.qr import space as qr_space
from mansard.kernels.factor.qr import space_cpu as qr_cpu
from mansard.kernels.factor.qr import spec as qr_spec
from mansard.operations.sparse.operand import Held
from mansard.operations.tall_skinny.tsm2r_call import plan_tsm2r

pytestmark = pytest.mark.usefixtures("no_plans")

rng = np.random.default_rng(5)
_A: dict[str, Any] = {"stack_a": "strided"}
_AB: dict[str, Any] = {"stack_a": "strided", "stack_b": "strided"}
_ABC: dict[str, Any] = {**_AB, "stack_c": "strided"}
SOLVE: dict[str, Any] = {"want": "solve", "NRHS": 1, **_AB}

_BY_LANES: dict[str, Any] = {"lu": lu_cpu.simd, "cholesky": cholesky_cpu.default, "qr": qr_cpu.default}

# family, problem, configurations of GPUs, CPU configurations
BATCHES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("gemm", gemm_spec.problem("float64", 8, 8, 8, 2, **_ABC), [], [gemm_cpu.default]),
    (
        "gemv", gemv_spec.problem("float64", 8, 8, 2, **_ABC),
        [gemv_space.Lanes(2, 2), gemv_space.Stream(4, 8, 2, 1)], [gemv_cpu.default],
    ),
    (
        "lu", lu_spec.problem("float64", 6, 6, 2, **_A),
        [lu_space.Lanes(4, True), lu_space.Lanes(4, VIA="shared"), lu_space.Block(8, 2)], [lu_cpu.Small(2)],
    ),
    ("lu", lu_spec.problem("float64", 6, 6, 2, **SOLVE), [lu_space.Lanes(4, True), lu_space.Block(8, 2)], []),
    ("lu", lu_spec.problem("float64", 12, 12, 2, want="inverse", **_A), [lu_space.Tile(2, 4)], []),
    (
        "cholesky", cholesky_spec.problem("float64", 6, 2, **_A),
        [cholesky_space.Lanes(4, WARPS=2), cholesky_space.Tile(8, 2), cholesky_space.Block(2)], [],
    ),
    (
        "cholesky", cholesky_spec.problem("float64", 6, 2, **SOLVE),
        [cholesky_space.Lanes(4, WARPS=2), cholesky_space.Block(2)], [cholesky_cpu.default],
    ),
    (
        "qr", qr_spec.problem("float64", 8, 8, 2, want="reduced", **_A),
        [qr_space.Lanes(4, 2, 1), qr_space.Block(8, 8, 1, 1, 2)], [qr_cpu.default],
    ),
    ("qr", qr_spec.problem("float64", 8, 8, 2, **SOLVE), [qr_space.Lanes(4, 2, 1)], [qr_cpu.default]),
]  # fmt: skip
# strided stacks of factor_cpu_cases.py, which are compiled anyway
BATCHES += [
    (problem.operation, problem.replace(BATCH=2), [], [config or _BY_LANES[problem.operation]])
    for problem, config in (*LU, *ROWWISE, *CHOLESKY, *CHOLESKY_ROWWISE, *QR)
    if "strided" in (problem.stack_a, problem.stack_b)
]
LAUNCHES = [
    (family, problem, config, backend)
    for family, problem, gpu, cpus in BATCHES
    for backend, configs in (("emulated", gpu), ("cpu", cpus))
    for config in configs
]


@pytest.mark.parametrize("family, problem, config, backend", LAUNCHES)
def test_stacks(family: str, problem: Any, config: Any, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of a stack that are so far apart, results included."""
    usable(backend)
    monkeypatch.setattr(gemm_cases, "stack_of", far_stacks())
    monkeypatch.setattr(gemv_cases, "stack_of", far_stacks())
    if callable(config):
        config = config(problem, cpu.backend().device)
    if backend == "cpu" and family in SPACES:
        reason = SPACES[family].illegal(problem, config, cpu.backend().device)
        if reason and "vectors" in reason:
            pytest.skip(reason)
    import_module(f"{family}_cases").exact(problem, config, backend)


# ---- tall and skinny --------------------------------------------------------------------------------------

ROWS, PITCH = 96, 2**25  # the last rows begin past 2^31
LAYOUTS = {"rows": (PITCH, 1), "columns": (1, 2**30)}


def integers(*shape: int) -> Any:
    return rng.integers(-3, 4, shape).astype("float64")


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pitches(layout: str, backend: str) -> None:
    """Rows, or columns, of tall matrices that are so far apart."""
    usable(backend)
    strides = LAYOUTS[layout]
    A, B, W, C, S = integers(ROWS, 4), integers(ROWS, 4), integers(ROWS, 4), integers(4, 4), integers(4, 4)
    a, b, w, s = (far_array(one, strides) for one in (A, B, W, S))
    c = far_array(C, (2**30, 1))
    assert (ms.gram(a, b, out=c, beta=2, backend=backend) == A.T @ B + 2 * C).all() and (c == A.T @ B + 2 * C).all()
    assert (ms.gram(a, backend=backend) == A.T @ A).all()
    assert (ms.matmul(a, s, out=w, beta=-1, backend=backend) == A @ S - W).all()
    product, gram = ms.matmul_gram(b, S, out=w, beta=1, backend=backend)
    expected = B @ S + A @ S - W
    assert (product == expected).all() and (gram == expected.T @ expected).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_large_matrix_times_a_skinny_one(layout: str) -> None:
    usable("emulated")
    A, B, C = integers(80, 72), integers(72, 3), integers(80, 3)
    a = far_array(A, LAYOUTS[layout] if layout == "rows" else (1, PITCH))
    b, c = far_array(B, LAYOUTS[layout]), far_array(C, LAYOUTS[layout])
    plan = plan_tsm2r(a, b, c, "emulated")
    assert plan.choice.config is not None and (plan.run(a, b, c, 1, 3) == A @ B + 3 * C).all()


def test_blocks_of_rows_on_cpus() -> None:
    """More rows than a block of the kernels has, so that blocks begin past 2^31 elements."""
    usable("cpu")
    A, B, S = integers(1100, 4), integers(1100, 4), integers(4, 4)
    a, b, w = (far_array(one, (2**21, 1)) for one in (A, B, B))
    assert (ms.gram(a, b, backend="cpu") == A.T @ B).all()
    assert (ms.matmul(a, S, out=w, backend="cpu") == A @ S).all()


def test_tiles_of_columns_on_cpus() -> None:
    """More columns than a register tile has, so that tiles of both operands begin past 2^31 elements."""
    usable("cpu")
    A, B = integers(ROWS, 4), integers(ROWS, 4)
    a, b = (far_array(one, LAYOUTS["columns"]) for one in (A, B))
    with ms.pin(VARIANT="simd", LANES=2, TILE_M=2, TILE_N=2):
        assert (ms.gram(a, b, backend="cpu") == A.T @ B).all()


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_a_large_matrix_by_matmul(backend: str) -> None:
    usable(backend)
    A, B, C = integers(80, 72), integers(72, 2), integers(80, 2)
    a, b, c = far_array(A, (PITCH, 1)), far_array(B, (PITCH, 1)), far_array(C, (PITCH, 1))
    assert (ms.matmul(a, b, out=c, beta=3, backend=backend) == A @ B + 3 * C).all()


# ---- ragged and sparse ------------------------------------------------------------------------------------


def far_ragged(matrices: list[Any]) -> ms.Ragged:
    """Matrices in memory with holes, the first and the last past 2^31 elements."""
    offsets = [FAR + 11, 5, FAR + 300]
    made = ms.Ragged(holes(FAR + 500, "float32"), *zip(*(one.shape for one in matrices), strict=True), offsets)
    for place, one in zip(made, matrices, strict=True):
        place[...] = one
    return made


@pytest.mark.parametrize("far", ["a", "b", "out"])
@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_ragged_products(backend: str, far: str) -> None:
    usable(backend)
    sizes = [(3, 4, 2), (5, 2, 3), (6, 5, 4)]
    A, B = ([integers(m, k) for m, _, k in sizes], [integers(k, n) for _, n, k in sizes])
    C = [integers(m, n) for m, n, _ in sizes]
    a, b, out = (
        far_ragged(some) if name == far else ms.Ragged.from_list([one.astype("float32") for one in some])
        for name, some in (("a", A), ("b", B), ("out", C))
    )
    ms.matmul(a, b, out=out, beta=2, backend=backend)
    for i, found in enumerate(out):
        assert (found == A[i] @ B[i] + 2 * C[i]).all(), i


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_ragged_factors(backend: str) -> None:
    """Of the sizes that test_factor_ragged.py compiles."""
    usable(backend)
    X = [integers(n, k) for n, k in ((5, 1), (2, 2), (5, 2))]
    L = [np.tril(integers(len(x), len(x)), -1) + np.eye(len(x)) for x in X]
    A = far_ragged([one @ one.T for one in L])
    B = far_ragged([one @ one.T @ x for one, x in zip(L, X, strict=True)])
    found = ms.linalg.solve(A, B, backend=backend)
    assert all(np.allclose(one, x, atol=1e-2) for one, x in zip(found, X, strict=True))


@pytest.mark.parametrize("format", ["sell", "csr"])
@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_vectors_of_sparse_products(backend: str, format: str) -> None:
    """Rows of vectors side by side that are so far apart."""
    usable(backend)
    dense = integers(70, 70) * (rng.random((70, 70)) < 0.1)
    M = ms.sparse.matrix(scipy.sparse.csr_array(dense), format=format, backend=backend)
    X, Y = integers(70, 4), integers(70, 4)
    x, y = far_array(X, (PITCH, 1)), far_array(Y, (PITCH, 1))
    assert (M.product(x, out=y, alpha=2, beta=-3) == 2 * dense @ X - 3 * Y).all()


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_chunks_of_sparse_matrices(backend: str) -> None:
    """Chunks of a matrix that begin past 2^31 bytes."""
    usable(backend)
    dense = integers(70, 70) * (rng.random((70, 70)) < 0.1)
    M = ms.sparse.matrix(scipy.sparse.csr_array(dense), format="sell", backend=backend)
    near, chunk, further = M.storage, 1, 2**24 + 1  # starts count units of 128 bytes
    memory = holes(near.buffer.size + 128 * (further + 1), "uint8")
    buffer, begin = memory[-memory.ctypes.data % 128 :], 128 * int(near.starts[chunk])
    buffer[:begin] = near.buffer[:begin]
    buffer[begin + 128 * further :][: near.buffer.size - begin] = near.buffer[begin:]
    starts = near.starts + further * (np.arange(len(near.starts)) >= chunk).astype(near.starts.dtype)
    old = M.held
    far = replace(near, buffer=buffer, starts=starts)
    M._sides._held[False] = Held(far, old.xp, old.device, old.skewed, old.threads)
    x = integers(70, 1)[:, 0]
    assert (M @ x == dense @ x).all()
