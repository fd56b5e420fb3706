"""A problem made concrete for measuring: operands, kernels on them, the vendor's routine. One class per operation."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from types import ModuleType
from typing import Any, Self

from .. import testing
from ..backends.base import Launch
from ..codegen.geometry import Kernel
from ..families import family_of
from ..plan.problem import Problem
from .stacked import stacked

_UNIT = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0
_CHUNK_ELEMENTS = 1 << 26  # of operands widened at a time: bounds the reference's memory


class Case:
    """Operands of a problem, made when first needed: a tune that finds everything recorded allocates nothing."""

    LAYOUTS: tuple[str, ...]  # the operands whose layout and pitch are traits

    def __init__(self, problem: Problem, backend: Any, integers: bool = False) -> None:
        self.problem, self.backend, self.integers = problem, backend, integers
        self.family: ModuleType = family_of(problem.operation)
        self.xp = testing.array_module(backend.name)
        self._operands: tuple[Any, Any] | None = None

    @property
    def operands(self) -> tuple[Any, Any]:
        if self._operands is None:
            self._operands = self.make_operands()
        return self._operands

    def make_operands(self) -> tuple[Any, Any]:
        """Both inputs, as the problem describes them."""
        raise NotImplementedError

    def poisoned(self) -> Any:
        """A result full of NaN: a kernel must write every entry and read none."""
        raise NotImplementedError

    def vendor(self) -> Callable[[], Any]:
        """What a hand-over would run."""
        raise NotImplementedError

    def reference(self) -> tuple[Any, Any]:
        """The product, and the sum of the magnitudes of its terms, in double precision."""
        raise NotImplementedError

    @property
    def terms(self) -> int:
        """Products that are added up to an entry."""
        raise NotImplementedError

    def kernel(self, config: Any) -> Kernel:
        """What the backend compiles and launches for these operands."""
        strides = (*_strides(self.operands[0]), *_strides(self.operands[1]), *self.out_strides())
        return self.family.emit.kernel(self.problem, config, self.backend.device, strides)  # type: ignore[no-any-return]

    def out_strides(self) -> tuple[int, ...]:
        return (self.problem.N, 1)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        """A run of a prepared kernel on the operands, without arguments, for the stopwatch."""
        pointers = tuple(_address(array) for array in (*self.operands, out))
        return lambda: launch(pointers, _UNIT, 0)

    def smaller(self, K: int) -> Self:
        """The same kind of problem with K rows of small integers, for exact comparison."""
        changes: dict[str, Any] = {"K": K}
        for side in self.LAYOUTS:
            if getattr(self.problem, f"layout_{side}") == "col":  # columns stay as well aligned as they were
                unit = gcd(getattr(self.problem, f"pitch_{side}"), 64)
                changes[f"pitch_{side}"] = -(-K // unit) * unit
        return type(self)(self.problem.replace(**changes), self.backend, integers=True)

    def nan_filled(self, rows: int, columns: int) -> Any:
        out = self.xp.empty((rows, columns), self.problem.dtype)
        out.fill(complex("nan+nanj") if self.problem.is_complex else float("nan"))
        return out

    def close(self) -> None:
        """Give the memory back: the next problem's operands have other sizes."""
        self._operands = None
        if self.backend.name == "cuda":
            self.xp.get_default_memory_pool().free_all_blocks()


class GramCase(Case):
    """A^H B."""

    LAYOUTS = ("a", "b")

    def make_operands(self) -> tuple[Any, Any]:
        return testing.operands(self.problem, self.backend.name, integers=self.integers)

    def poisoned(self) -> Any:
        return self.nan_filled(self.problem.M, self.problem.N)

    @property
    def terms(self) -> int:
        return int(self.problem.K)

    def vendor(self) -> Callable[[], Any]:
        """The array library's own product, which forms the conjugate of A first. For complex numbers cuBLAS with its
        conjugating option is faster; that is the benchmark's peer, this is not."""
        A, B = self.operands
        if self.problem.conj:
            return lambda: self.xp.matmul(A.conj().T, B)
        return lambda: self.xp.matmul(A.T, B)

    def reference(self) -> tuple[Any, Any]:
        A, B = self.operands
        problem = self.problem
        wide = "complex128" if problem.is_complex else "float64"
        rows = max(1, _CHUNK_ELEMENTS // (problem.M + problem.N))
        product = self.xp.zeros((problem.M, problem.N), wide)
        scale = self.xp.zeros((problem.M, problem.N), "float64")
        for begin in range(0, problem.K, rows):
            a, b = (array[begin : begin + rows].astype(wide) for array in (A, B))
            product += self.family.spec.reference(a, b, conj=problem.conj)
            scale += self.xp.abs(a).T @ self.xp.abs(b)
        return product, scale


class TsmmCase(Case):
    """A C."""

    LAYOUTS = ("a", "w")

    def make_operands(self) -> tuple[Any, Any]:
        return testing.tsmm_operands(self.problem, self.backend.name, integers=self.integers)

    def poisoned(self) -> Any:
        problem = self.problem
        out = self.nan_filled(problem.K, problem.N)
        if problem.layout_w == "row" and problem.pitch_w == problem.N and problem.aligned:
            return out
        return testing.laid_out(out, problem.layout_w, problem.pitch_w, problem.aligned)

    def out_strides(self) -> tuple[int, int]:
        return (self.problem.pitch_w, 1) if self.problem.layout_w == "row" else (1, self.problem.pitch_w)

    @property
    def terms(self) -> int:
        return int(self.problem.M)

    def vendor(self) -> Callable[[], Any]:
        A, C = self.operands
        return lambda: self.xp.matmul(A, C)

    def reference(self) -> tuple[Any, Any]:
        A, C = self.operands
        wide = "complex128" if self.problem.is_complex else "float64"
        c = C.astype(wide)
        product = self.family.spec.reference(A.astype(wide), c, conj=self.problem.conj)
        return product, self.xp.abs(A).astype("float64") @ self.xp.abs(c)


class Tsm2rCase(Case):
    """A B for large A."""

    LAYOUTS = ("a",)

    def make_operands(self) -> tuple[Any, Any]:
        problem = self.problem
        A = testing.random_matrix(self.xp, problem.M, problem.K, problem.dtype, 0, self.integers)
        if not (problem.layout_a == "row" and problem.pitch_a == problem.K and problem.aligned):
            A = testing.laid_out(A, problem.layout_a, problem.pitch_a, problem.aligned)
        B = testing.random_matrix(self.xp, problem.K, problem.N, problem.dtype, 1, self.integers)
        return A, testing.laid_out(B, problem.layout_b, problem.K if problem.layout_b == "col" else problem.N)

    def poisoned(self) -> Any:
        problem = self.problem
        out = self.nan_filled(problem.M, problem.N)
        return testing.laid_out(out, problem.layout_c, problem.M if problem.layout_c == "col" else problem.N)

    def out_strides(self) -> tuple[int, int]:
        return (1, self.problem.M) if self.problem.layout_c == "col" else (self.problem.N, 1)

    @property
    def terms(self) -> int:
        return int(self.problem.K)

    def vendor(self) -> Callable[[], Any]:
        conj = (self.problem.conj_a, self.problem.conj_b)
        A, B = (x.conj() if c else x for x, c in zip(self.operands, conj, strict=True))
        return lambda: self.xp.matmul(A, B)

    def reference(self) -> tuple[Any, Any]:
        A, B = self.operands
        problem = self.problem
        wide = "complex128" if problem.is_complex else "float64"
        b, rows = B.astype(wide), max(1, _CHUNK_ELEMENTS // problem.K)
        product = self.xp.empty((problem.M, problem.N), wide)
        scale = self.xp.empty((problem.M, problem.N), "float64")
        for begin in range(0, problem.M, rows):
            a = A[begin : begin + rows].astype(wide)
            exact = self.family.spec.reference(a, b, conj_a=problem.conj_a, conj_b=problem.conj_b)
            product[begin : begin + rows] = exact
            scale[begin : begin + rows] = self.xp.abs(a) @ self.xp.abs(b)
        return product, scale

    def smaller(self, K: int) -> Self:
        """Both sides of A shrink; rows (or columns) stay as well aligned as they were."""
        most = 4097 if self.backend.name == "cuda" else 100
        K, M = max(1, min(K, self.problem.K)), min(self.problem.M, most)
        unit = gcd(self.problem.pitch_a, 64)
        pitch = -(-(K if self.problem.layout_a == "row" else M) // unit) * unit
        return type(self)(self.problem.replace(K=K, M=M, pitch_a=pitch), self.backend, integers=True)


class GemmCase(Case):
    """A B for every matrix of a batch, to a packed C; results are the rows (or columns) of all its matrices."""

    def make_operands(self) -> tuple[Any, Any]:
        return self._stack("a", 0), self._stack("b", 1)

    def _stack(self, side: str, seed: int) -> Any:
        """(BATCH, rows, columns), laid out as the problem says; what is shared is repeated by its stride."""
        problem = self.problem
        stack, layout = getattr(problem, f"stack_{side}"), getattr(problem, f"layout_{side}")
        rows, columns = (getattr(problem, name) for name in self.family.spec.SHAPES[side])
        batch = 1 if stack == "shared" else problem.BATCH
        values = testing.random_matrix(self.xp, batch * rows, columns, problem.dtype, seed, self.integers)
        values = values.reshape(batch, rows, columns)
        if not (layout == "row" and stack == "packed" and problem.aligned):
            row, column = (2 * columns, 2) if layout == "any" else problem.strides(side)
            values = stacked(self.xp, values, row, column, problem.aligned, stack == "packed")
        return self.xp.broadcast_to(values, (problem.BATCH, rows, columns)) if stack == "shared" else values

    def poisoned(self) -> Any:
        problem = self.problem
        lines, length = (problem.N, problem.M) if problem.layout_c == "col" else (problem.M, problem.N)
        return self.nan_filled(problem.BATCH * lines, length)

    def out_strides(self) -> tuple[int, ...]:
        return (self.problem.M * self.problem.N, *self.problem.strides("c"))

    @property
    def terms(self) -> int:
        return int(self.problem.K)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        given = [self._addressed(side, array) for side, array in zip("ab", self.operands, strict=True)]
        pointers = tuple(_address(array) for array in (*given, out))
        return lambda held=given: launch(pointers, _UNIT, 0)  # type: ignore[misc]

    def _addressed(self, side: str, array: Any) -> Any:
        if getattr(self.problem, f"stack_{side}") != "pointers":
            return array
        return _address(array) + array.strides[0] * self.xp.arange(self.problem.BATCH, dtype="int64")

    def vendor(self) -> Callable[[], Any]:
        stacks, conj = (self.problem.stack_a, self.problem.stack_b), (self.problem.conj_a, self.problem.conj_b)
        A, B = (x.conj() if c else x for x, c in zip(self.operands, conj, strict=True))
        A, B = (x[0] if stack == "shared" else x for x, stack in zip((A, B), stacks, strict=True))
        return lambda: self.xp.matmul(A, B)

    def reference(self) -> tuple[Any, Any]:
        problem, (A, B) = self.problem, self.operands
        wide = "complex128" if problem.is_complex else "float64"
        product, scale = self.poisoned().astype(wide), self.poisoned().real.astype("float64")
        lines = product.shape[0] // problem.BATCH
        many = max(1, _CHUNK_ELEMENTS // ((problem.M + problem.N) * problem.K))
        for begin in range(0, problem.BATCH, many):
            a, b = (x[begin : begin + many].astype(wide) for x in (A, B))
            exact = self.family.spec.reference(a, b, conj_a=problem.conj_a, conj_b=problem.conj_b)
            for found, into in ((exact, product), (self.xp.abs(a) @ self.xp.abs(b), scale)):
                found = found.swapaxes(1, 2) if problem.layout_c == "col" else found
                into[begin * lines : (begin + many) * lines] = found.reshape(-1, into.shape[1])
        return product, scale

    def smaller(self, K: int) -> Self:
        """K matrices."""
        return type(self)(self.problem.replace(BATCH=K), self.backend, integers=True)


# What can be tuned.
CASES: dict[str, type[Case]] = {"gram": GramCase, "tsmm": TsmmCase, "tsm2r": Tsm2rCase, "gemm": GemmCase}


def make_case(problem: Problem, backend: Any) -> Case:
    """The case class of the problem's operation."""
    return CASES[problem.operation](problem, backend)


def _strides(array: Any) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def _address(array: Any) -> int:
    return int(array.ctypes.data) if hasattr(array, "ctypes") else int(array.data.ptr)
