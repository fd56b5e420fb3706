"""Cases of powers and what runs them: kernels on arrays of their own, against NumPy's products and each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mansard import testing
from mansard.backends import cpu, cuda, emulated
from mansard.kernels.sparse.powers import emit, fit, space, spec
from mansard.kernels.sparse.powers.space import Config, Groups, Persistent
from mansard.kernels.sparse.powers.space_cpu import Simd
from mansard.operations.sparse import chunked, storage
from mansard.operations.sparse.powers.order import reach
from mansard.plan.problem import REAL, Problem

BACKENDS: dict[str, Any] = {"cpu": cpu, "emulated": emulated, "cuda": cuda}
RESERVED: dict[str, Any] = {"float64": np.uint64(0x7FF4DEAD5EED1234), "float32": np.uint32(0x7FA5EED1)}


def grid(
    nx: int, ny: int, dtype: str = "float64", dropped: float = 0.0, integers: bool = True, seed: int = 0,
    reach: int = 0,
) -> Any:  # fmt: skip
    """A five-point grid of nx x ny points, row by row, or (`reach`) all points that are so many steps away along either
    axis; some entries dropped, so that it is ragged and unsymmetric."""
    rng = np.random.default_rng(seed)
    along, across = (_neighbours(extent, max(1, reach)) for extent in (nx, ny))
    if reach:
        A = sp.csr_array(sp.kron(across, along))
    else:
        A = sp.csr_array(sp.kron(sp.eye_array(ny), along) + sp.kron(across - sp.eye_array(ny), sp.eye_array(nx)))
    if dropped:
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        kept = (rng.random(A.nnz) >= dropped) & (rows % 17 != 5)  # and some rows empty
        A = sp.csr_array((np.ones(kept.sum()), (rows[kept], A.indices[kept])), shape=A.shape)
    A.sort_indices()
    A.data = numbers(rng, A.nnz, dtype, integers)
    return A


def _neighbours(extent: int, reach: int) -> Any:
    steps = range(-reach, reach + 1)
    return sp.diags_array([1.0 for _ in steps], offsets=list(steps), shape=(extent, extent))


def numbers(rng: Any, count: Any, dtype: str, integers: bool = True) -> Any:
    def draw() -> Any:
        if integers:
            return rng.integers(-2, 3, count).astype(REAL[dtype])
        return rng.standard_normal(count).astype(REAL[dtype])

    return (draw() + 1j * draw()).astype(dtype) if dtype.startswith("complex") else draw()


@dataclass
class Case:
    """A problem's traits, the matrix, and a configuration."""

    P: int
    config: Config
    dtype: str = "float64"
    shape: tuple[int, int] = (20, 13)
    dropped: float = 0.1
    index: str = "int32"
    values: str | None = None
    NVECS: int = 1
    coefficients: tuple[float, float, float] = (1.0, 0.0, 0.0)
    output: str = "all"
    sets: int = 1
    C: int = 32
    limit: int = field(default=10**12)
    reach: int = 0  # steps to the farthest neighbours along an axis; 0: five points

    def __str__(self) -> str:
        return f"{self.config.VARIANT}-{self.dtype}-p{self.P}-n{self.NVECS}-{self.index}-{self.output}"

    def matrix(self, integers: bool = True) -> Any:
        dtype = self.values or self.dtype
        return grid(*self.shape, dtype, self.dropped, integers, reach=self.reach)

    def steps(self) -> Any:
        """alpha, beta, gamma of each step; the first has no gamma."""
        rows = np.repeat([self.coefficients], self.P, axis=0)
        rows[0, 2] = 0.0
        return rows

    def weights(self) -> Any:
        return np.arange(1.0, 1 + self.sets * (self.P + 1)).reshape(self.sets, self.P + 1) % 5 - 2

    def problem(self, A: Any, ragged: bool) -> Problem:
        return spec.problem(
            self.dtype, A.shape[0], A.nnz, self.P, values=self.values, index=self.index, C=self.C, NVECS=self.NVECS,
            shifted=self.coefficients[1] != 0, three_term=self.coefficients[2] != 0, output=self.output, sets=self.sets,
            ragged=ragged,
        )  # fmt: skip


class Arrays:
    """What kernels are given, on a backend."""

    def __init__(self, case: Case, A: Any, x: Any, backend: str) -> None:
        self.case, self.xp, self.where = case, testing.array_module(backend), BACKENDS[backend].backend()
        xp = self.xp
        csr = storage.Csr(A.shape, *(xp.asarray(part) for part in (A.indptr, A.indices, A.data)))
        self.sell = chunked.sell_from_csr(csr, case.C, 1, case.index, xp=xp)
        self.problem = case.problem(A, self.sell.lengths is not None)
        packed = np.concatenate([case.steps().ravel(), case.weights().ravel()]).astype(case.dtype)
        self.coefficients, self.x, self.rows = xp.asarray(packed), xp.asarray(x), csr
        n = A.shape[0] * case.NVECS
        poison = np.nan  # nothing may be left of it
        self.vectors = xp.full((case.P + 2, n), poison, case.dtype)  # one more behind the last
        self.result = xp.full((max(1, case.sets), n), poison, case.dtype)

    def address(self, array: Any) -> int:
        return 0 if array is None else int(array.ctypes.data if self.xp is np else array.data.ptr)

    def run(self, config: Config | None = None, fixed: Any = None) -> Any:
        """The answer; the failure word is kept."""
        config = config or self.case.config
        problem, device, address = self.problem, self.where.device, self.address
        assert space.illegal(problem, config, device) is None, space.illegal(problem, config, device)
        sell = self.sell
        stored = (sell.buffer, sell.starts, sell.widths, sell.lengths)
        arrays = (*stored, self.coefficients, self.x, self.vectors, self.result)
        pointers = tuple(map(address, arrays))
        if isinstance(config, Groups):
            launch = self.where.prepare(emit.kernel(problem, config, device))
            for k in range(1, self.case.P + 1):
                launch(pointers, (0.0, float(problem.ROWS), float(k)), 0)
        elif isinstance(config, Persistent):
            self._persistent(config, pointers, fixed)
        else:
            self._ranges(config, pointers)
        self.where.synchronize()
        return self.answer()

    def _persistent(self, config: Persistent, pointers: tuple[int, ...], fixed: Any) -> None:
        problem, device, xp = self.problem, self.where.device, self.xp
        flags = xp.full(emit.flags(problem, device), 77, xp.uint32)
        self.failed = xp.zeros(1, xp.uint32)
        high = storage.host(reach.tile_reach(self.rows.indptr, self.rows.indices, 32 * config.TILE)[1])
        fill = self.where.prepare(emit.fill(problem, device, False))
        fill((pointers[5], 0, pointers[6], self.address(flags)), (), 0)
        kernel = emit.kernel(problem, config, device, (fit.far(high, config, device), self.case.limit))
        if fixed is not None:
            kernel = type(kernel)(kernel.source, kernel.geometry, fixed(kernel.fixed))
        words = tuple(map(self.address, (flags, self.failed)))
        self.where.prepare(kernel)((*pointers, 0, *words), (), 0)

    def _ranges(self, config: Simd, pointers: tuple[int, ...]) -> None:
        """Ranges of 64 rows, each power as far behind the one before as the matrix asks for."""
        rows = self.problem.ROWS
        ranges = np.unique(np.minimum(np.arange(0, rows + 64, 64), rows)).astype(np.int32)
        high = reach.tile_reach(self.rows.indptr, self.rows.indices, 64)[1]
        last = np.maximum.accumulate(np.maximum(high, np.arange(len(high)))).astype(np.int32)
        lag = max(1, int((last - np.arange(len(last))).max()))
        kernel = emit.kernel(self.problem, config, self.where.device, (len(ranges) - 1, lag))
        kernel = type(kernel)(kernel.source, kernel.geometry, (*kernel.fixed[:-1], 3))
        common = self.address(self.sell.common)
        self.where.prepare(kernel)((*pointers, common, self.address(ranges), self.address(last)), (), 0)

    def answer(self) -> Any:
        host: Any = np.asarray if self.xp is np else self.xp.asnumpy
        shape = (-1, self.problem.ROWS, self.case.NVECS)
        if self.case.output == "all":
            assert np.isnan(host(self.vectors[self.case.P :])).all(), "written behind the last vector"
            return host(self.vectors[: self.case.P]).reshape(shape)
        return host(self.result).reshape(shape)


def expected(case: Case, A: Any, x: Any) -> Any:
    """By products in NumPy."""
    powers = spec.reference(A, np.asarray(x).reshape(A.shape[0], case.NVECS), case.steps())
    if case.output == "combination":
        return np.tensordot(case.weights(), np.array(powers), 1)
    return np.array(powers[1:] if case.output == "all" else powers[-1:])


def exact(case: Case, backend: str, config: Config | None = None) -> None:
    """Small integers: every order of summation gives the same, exact result."""
    A = case.matrix()
    x = numbers(np.random.default_rng(7), A.shape[0] * case.NVECS, case.dtype)
    found = Arrays(case, A, x, backend).run(config)
    want = expected(case, A, x).astype(case.dtype)
    assert found.shape == want.shape and (found == want).all(), f"{(found != want).sum()} of {want.size} differ: {case}"


def same_bits(a: Any, b: Any) -> bool:
    """Equal to the bit, but for what kind of NaN a NaN is."""
    a, b = (np.ascontiguousarray(one).view(REAL[str(one.dtype)]) for one in (a, b))
    bits = np.uint64 if a.itemsize == 8 else np.uint32
    return bool(((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all())


def persistent(**changes: Any) -> Persistent:
    """Small enough for the emulator: three warps that compute."""
    small: dict[str, Any] = {"UNROLL": 3, "WARPS": 3, "LAG": 2, "SLOTS": 12, "SLOT_BYTES": 2048, "GATHER": "relaxed"}
    return Persistent(**(small | changes))


THREE = (2.0, -1.0, 1.0)
PERSISTENT = [
    Case(1, persistent(RETAIN="1", WINDOW=0)),
    Case(2, persistent(RETAIN="2", UNROLL=5)),
    Case(3, persistent(RETAIN="1|2", GATHER="stale", EAGER=1)),
    Case(5, persistent(RETAIN="1|2|2", LAG=1, EVICT="keep", WARPS=5), shape=(20, 80)),
    Case(5, persistent(RETAIN="5", TILE=2, ABREAST=2, SLOTS=10, SLOT_BYTES=4096, WINDOW=32), shape=(31, 33)),
    Case(
        4, persistent(RETAIN="2|2", TILE=4, ABREAST=2, LAG=1, SLOT_BYTES=8192, SLOTS=8), index="delta16", shape=(33, 40)
    ),
    Case(3, persistent(RETAIN="1|1|1", SLOT_BYTES=1664, DIRECT=True, WINDOW=0, EVICT="none"), index="int64"),
    Case(3, persistent(RETAIN="3"), dtype="float32", coefficients=(1.0, 2.0, 0.0)),
    Case(2, persistent(RETAIN="2", SLOT_BYTES=4096, UNROLL=2), dtype="complex64", coefficients=THREE),
    Case(
        3,
        persistent(RETAIN="1|2", SLOT_BYTES=4096, GATHER="stale"),
        dtype="complex128",
        coefficients=THREE,
    ),
    Case(3, persistent(RETAIN="1|2"), dtype="complex128", values="float64", output="last"),
    Case(3, persistent(RETAIN="2|1"), values="float32", coefficients=THREE, output="combination", sets=2),
    Case(2, persistent(RETAIN="2", UNROLL=2), NVECS=2, coefficients=(1.0, 0.0, -1.0), output="combination"),
    Case(3, persistent(RETAIN="3", UNROLL=2), NVECS=4, output="last"),
    Case(3, persistent(RETAIN="3", LAG=3, WARPS=2), shape=(7, 1), dropped=0.0),  # fewer tiles than blocks
    Case(2, persistent(RETAIN="2", TILE=4, ABREAST=4, UNROLL=5, SLOT_BYTES=8192), shape=(6, 16)),  # three chunks
    Case(3, persistent(RETAIN="1|2", LAG=3, SLOT_BYTES=20480, SLOTS=9), shape=(13, 12), reach=3),  # 49 entries a row
]
GROUPS = [
    Case(3, Groups(64, 3)),
    Case(2, Groups(32, 2, "streaming"), index="delta16", coefficients=THREE, output="combination", sets=2),
    Case(2, Groups(64, 1), dtype="complex128", values="complex64", NVECS=2, index="int64", output="last"),
    Case(2, Groups(96, 8, "streaming"), dtype="float32", NVECS=3, coefficients=THREE),
    Case(2, Groups(64, 3), shape=(13, 12), reach=3, coefficients=THREE),
]
SIMD = [
    Case(4, Simd(2)),
    Case(3, Simd(4, 1), dtype="float32", index="delta16", coefficients=THREE, output="last"),
    Case(3, Simd(2), dtype="complex128", values="float64", index="int64", coefficients=THREE),
    Case(2, Simd(4), dtype="complex64", NVECS=3, coefficients=(1.0, 1.0, 0.0), output="combination", sets=2, C=8),
    Case(5, Simd(1), values="float32", output="combination", coefficients=THREE, dropped=0.0),
    Case(3, Simd(2), shape=(20, 19), reach=3, index="delta16"),
]
CASES = PERSISTENT + GROUPS  # of GPUs


def banded(rows: int, width: int, ahead: int, entry: int = 12) -> fit.Pattern:
    """Rows of `width` entries that reach `ahead` rows ahead."""

    def reach(tile: int) -> Any:
        tiles = -(-rows // tile)
        return np.minimum((np.arange(tiles) * tile + tile - 1 + ahead) // tile, tiles - 1)

    return fit.Pattern(np.full(-(-rows // 32), width * 32 * entry), width, reach)


def on(backend: str, A: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A where the backend reads it, the array module, and keywords."""
    xp = testing.array_module(backend)
    if xp is np:
        return A, xp, {"backend": backend}
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(sp.csr_matrix(A)), xp, {}
