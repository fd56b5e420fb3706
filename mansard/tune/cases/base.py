"""A problem made concrete for measuring: operands, kernels on them, the vendor's routine."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Self

from ... import testing
from ...backends.base import Launch
from ...codegen.geometry import Kernel
from ...kernels import family_of
from ...kernels.family import Family
from ...plan.problem import Problem

UNIT = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0
ADDED = (1.0, 0.0, 1.0, 0.0)  # alpha = beta = 1
CHUNK_ELEMENTS = 1 << 26  # of operands widened at a time: bounds the reference's memory


class Case:
    """Operands of a problem, made when first needed: a tune that finds everything recorded allocates nothing."""

    LAYOUTS: tuple[str, ...]  # the operands whose layout and pitch are traits

    def __init__(self, problem: Problem, backend: Any, integers: bool = False) -> None:
        self.problem, self.backend, self.integers = problem, backend, integers
        self.family: Family = family_of(problem.operation)
        self.xp = testing.array_module(backend.name)
        self._operands: tuple[Any, Any] | None = None

    @property
    def operands(self) -> tuple[Any, Any]:
        if self._operands is None:
            self._operands = self.make_operands()
        return self._operands

    @classmethod
    def fitted(cls, problem: Problem, backend: Any) -> Problem:
        """The problem as it is measured, where memory has no room for it as it is."""
        return problem

    def judged(self, out: Any) -> str | None:
        """What is wrong with a result that is compared with no reference, because right ones differ; None: nothing."""
        return None

    def make_operands(self) -> tuple[Any, Any]:
        """Both inputs, as the problem describes them."""
        raise NotImplementedError

    def poisoned(self) -> Any:
        """A result full of NaN: a kernel must write every entry and read none. Where the problem says that kernels add
        to what is there, numbers, the same ones every time."""
        raise NotImplementedError

    def vendor(self) -> Callable[[], Any]:
        """What a hand-over would run."""
        raise NotImplementedError

    def reference(self) -> tuple[Any, Any]:
        """The product, and the sum of the magnitudes of its terms, in double precision."""
        raise NotImplementedError

    @property
    def exact(self) -> bool:
        """Whether small integers come out equal to the last bit, in any order of summation."""
        return True

    @property
    def accumulates(self) -> bool:
        """Whether the result is read as well: beta is 1 then."""
        return bool(getattr(self.problem, "accumulate", False))

    @property
    def scalars(self) -> tuple[float, ...]:
        """Of a measured call, as kernels take them."""
        return ADDED if self.accumulates else UNIT

    @property
    def terms(self) -> int:
        """Products that are added up to an entry."""
        raise NotImplementedError

    def kernel(self, config: Any) -> Kernel:
        """What the backend compiles and launches for these operands."""
        strides = (*strides_of(self.operands[0]), *strides_of(self.operands[1]), *self.out_strides())
        return self.family.emit.kernel(self.problem, config, self.backend.device, strides)

    def out_strides(self) -> tuple[int, ...]:
        return (self.problem.N, 1)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        """A run of a prepared kernel on the operands, without arguments, for the stopwatch."""
        pointers = tuple(address_of(array) for array in (*self.operands, out))
        scalars = self.scalars
        return lambda: launch(pointers, scalars, 0)

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


def strides_of(array: Any) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def address_of(array: Any) -> int:
    return int(array.ctypes.data) if hasattr(array, "ctypes") else int(array.data.ptr)
