"""A problem made concrete for measuring: operands, kernels on them, the vendor's routine. One class per operation."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from types import ModuleType
from typing import Any

from .. import testing
from ..backends.base import Launch
from ..codegen.geometry import Kernel
from ..families import family_of
from ..plan.problem import Problem

_UNIT = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0


class GramCase:
    """Operands of a gram problem, made when first needed: a tune that finds everything recorded allocates nothing."""

    def __init__(self, problem: Problem, backend: Any, integers: bool = False) -> None:
        self.problem, self.backend, self.integers = problem, backend, integers
        self.family: ModuleType = family_of(problem.operation)
        self.xp = testing.array_module(backend.name)
        self._operands: tuple[Any, Any] | None = None

    @property
    def operands(self) -> tuple[Any, Any]:
        if self._operands is None:
            self._operands = testing.operands(self.problem, self.backend.name, integers=self.integers)
        return self._operands

    def poisoned(self) -> Any:
        """A result full of NaN: a kernel must write every entry and read none."""
        out = self.xp.empty((self.problem.M, self.problem.N), self.problem.dtype)
        out.fill(complex("nan+nanj") if self.problem.is_complex else float("nan"))
        return out

    def kernel(self, config: Any) -> Kernel:
        """What the backend compiles and launches for these operands."""
        strides = (*_strides(self.operands[0]), *_strides(self.operands[1]), self.problem.N, 1)
        return self.family.emit.kernel(self.problem, config, self.backend.device, strides)  # type: ignore[no-any-return]

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        """A run of a prepared kernel on the operands, without arguments, for the stopwatch."""
        pointers = tuple(_address(array) for array in (*self.operands, out))
        return lambda: launch(pointers, _UNIT, 0)

    def vendor(self) -> Callable[[], Any]:
        """What a hand-over would run: the array library's own product, which forms the conjugate of A first. For
        complex numbers cuBLAS with its conjugating option is faster; that is the benchmark's peer, this is not."""
        A, B = self.operands
        if self.problem.conj:
            return lambda: self.xp.matmul(A.conj().T, B)
        return lambda: self.xp.matmul(A.T, B)

    def smaller(self, K: int) -> GramCase:
        """The same kind of problem with K rows of small integers, for exact comparison."""
        changes: dict[str, Any] = {"K": K}
        for side in ("a", "b"):
            if getattr(self.problem, f"layout_{side}") == "col":  # columns stay as well aligned as they were
                unit = gcd(getattr(self.problem, f"pitch_{side}"), 64)
                changes[f"pitch_{side}"] = -(-K // unit) * unit
        return GramCase(self.problem.replace(**changes), self.backend, integers=True)

    def close(self) -> None:
        """Give the memory back: the next problem's operands have other sizes."""
        self._operands = None
        if self.backend.name == "cuda":
            self.xp.get_default_memory_pool().free_all_blocks()


def make_case(problem: Problem, backend: Any) -> GramCase:
    """The case class of the problem's operation."""
    return {"gram": GramCase}[problem.operation](problem, backend)


def _strides(array: Any) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def _address(array: Any) -> int:
    return int(array.ctypes.data) if hasattr(array, "ctypes") else int(array.data.ptr)
