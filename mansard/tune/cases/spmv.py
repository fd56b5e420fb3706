"""Products of sparse matrices with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ... import testing
from ...backends.base import Launch
from ...codegen.geometry import Kernel
from ...errors import UnsupportedProblem
from ...kernels.sparse.spmv.space import Merge
from ...operations.sparse import convert
from ...operations.sparse.chunked import sell_from_csr
from ...operations.sparse.operand import Held, layout
from ...operations.sparse.storage import Csr, ell_from_csr
from ...plan.problem import Problem
from .base import Case, address_of

_WINDOW = 256  # rows that are sorted by length where the problem says that rows are
_SKEW = 64  # entries of the longest row over those of the others, where it is skewed


class SpmvCase(Case):
    """A X, or what is computed besides, with the matrix that is given, or one like it made up: rows as long as they are
    on average, columns near the diagonal."""

    LAYOUTS = ()

    def __init__(self, problem: Problem, backend: Any, integers: bool = False, held: Held | None = None) -> None:
        super().__init__(problem, backend, integers)
        self._held = held
        self._items: int | None = None  # of a block of `merge`

    def make_operands(self) -> tuple[Any, Any]:
        """The stored matrix, and X (with Z behind it where there is one)."""
        problem = self.problem
        held = self._held or self._made_up()
        vectors = [
            testing.random_matrix(self.xp, rows, problem.NVECS, problem.dtype, seed, self.integers)
            for seed, rows in enumerate((problem.COLS, problem.ROWS))
        ]
        return held, vectors

    def _made_up(self) -> Held:
        problem, xp = self.problem, self.xp
        rows = self._rows()
        if problem.format == "sell":
            sigma = _WINDOW if problem.permuted else 1
            stored: Any = sell_from_csr(rows, problem.C, sigma, problem.index, problem.values, xp)
        elif problem.format == "ell":
            stored = ell_from_csr(rows, problem.index, problem.values, xp)
        else:
            places = "int64" if problem.wide else "int32"
            stored = Csr(rows.shape, rows.indptr.astype(places), rows.indices.astype(problem.index), rows.data)
        held = Held(stored, xp, ("cuda" if self.backend.name == "cuda" else "cpu", 0), problem.skewed, None)
        differs = [name for name in ("ragged", "permuted") if held.traits.get(name, False) != getattr(problem, name)]
        if differs and problem.format != "csr":
            raise UnsupportedProblem(f"no matrix can be made up that is {' and '.join(differs)} as {problem} says")
        return held

    def _rows(self) -> Csr:
        """CSR with ascending columns: every row of one length, or of lengths that vary around it."""
        problem, xp, rng = self.problem, self.xp, np.random.default_rng(7)
        width = max(1, min(problem.NNZ // problem.ROWS, problem.COLS))
        lengths = np.full(problem.ROWS, width)
        if problem.ragged and problem.format != "csr" and problem.C > 1:
            lengths = rng.integers(0, 2 * width + 1, problem.ROWS)
            lengths[:3] = (2, 0, 1)[: problem.ROWS]  # few rows differ too
        if problem.skewed:
            lengths[problem.ROWS // 2] = _SKEW * width
        lengths = np.minimum(lengths, problem.COLS)
        indptr = np.zeros(problem.ROWS + 1, np.int64)
        indptr[1:] = np.cumsum(lengths)
        row = np.repeat(np.arange(problem.ROWS), lengths)
        first = np.clip(row * problem.COLS // problem.ROWS - lengths[row] // 2, 0, problem.COLS - lengths[row])
        columns = first + np.arange(indptr[-1]) - indptr[row]
        data = testing.random_matrix(xp, max(1, int(indptr[-1])), 1, problem.values, 9, self.integers)[:, 0]
        return Csr((problem.ROWS, problem.COLS), xp.asarray(indptr), xp.asarray(columns.astype(np.int64)),
                   data[: int(indptr[-1])])  # fmt: skip

    def poisoned(self) -> Any:
        problem = self.problem
        if self.accumulates:
            return testing.random_matrix(self.xp, problem.ROWS, problem.NVECS, problem.dtype, 2, self.integers)
        return self.nan_filled(problem.ROWS, problem.NVECS)

    @property
    def scalars(self) -> tuple[float, ...]:
        return (1.0, 0.0, 1.0, 0.0, 1.0, 0.0) if self.problem.recurrence else super().scalars

    @property
    def terms(self) -> int:
        longest = int(self.xp.diff(self.operands[0].rows().indptr).max())
        return longest + 2 * int(self.problem.recurrence) + int(self.accumulates)

    def kernel(self, config: Any) -> Kernel:
        held, _ = self.operands
        self._items = config.BLOCK * config.PER_THREAD if isinstance(config, Merge) else None
        strides = (self.problem.NVECS,) * 3 + layout(held.storage)
        problem = self.problem.replace(NNZ=held.storage.nnz)  # what was made up has about as many
        return self.family.emit.kernel(problem, config, self.backend.device, strides)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        held, (X, Z) = self.operands
        pointers = (*held.pointers(self._items), address_of(X), address_of(out), address_of(Z))
        scalars = self.scalars
        return lambda: launch(pointers, scalars, 0)

    def _matrix(self) -> Any:
        rows = self.operands[0].rows()
        A = convert.library(self.xp).csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        return A.conj() if self.problem.conj else A

    def vendor(self) -> Callable[[], Any]:
        A, (X, _) = self._matrix().astype(self.problem.dtype), self.operands[1]
        x = X[:, 0].copy() if self.problem.NVECS == 1 else X
        return lambda: A @ x

    def reference(self) -> tuple[Any, Any]:
        problem, (X, Z) = self.problem, self.operands[1]
        wide = "complex128" if problem.is_complex else "float64"
        A, x, z = self._matrix().astype(wide), X.astype(wide), Z.astype(wide)
        product, scale = A @ x, abs(A) @ abs(x)
        added = [x, z] if problem.recurrence else [self.poisoned().astype(wide)] if self.accumulates else []
        for more in added:
            product, scale = product + more, scale + abs(more)
        return product, scale

    def smaller(self, K: int) -> Self:
        """K rows, and as many columns."""
        width = max(1, min(self.problem.NNZ // self.problem.ROWS, 9))
        return type(self)(self.problem.replace(ROWS=K, COLS=K, NNZ=width * K), self.backend, integers=True)
