"""Peers of factorizations on CPUs that are C++: a loop over SciPy's LAPACK, and Eigen's decompositions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ... import settings
from ..batched.compiled_peers import CompiledPeer, EigenPeer, pointer_of
from ..cases import Case
from . import sources
from .operations import ONE_SIDED, RAGGED
from .peers import COLUMNS, Held

_ROUTINES = {
    "cholesky": ("potrf",), "lu": ("getrf",), "qr": ("geqrf",), "qrq": ("geqrf", "orgqr"), "solve": ("getrf", "getrs"),
    "inverse": ("getrf", "getri"), "determinant": ("getrf",),
}  # fmt: skip
_EIGEN_SIZES = (*range(2, 17), 24, 32)
_BY_COLUMNS = ("lu", "qr", "qrq")  # operations for which a transpose does not do
Parts = dict[str, Any]


class _Memory:
    """Results of one batch, each a part of `run`'s arguments; absent ones are null."""

    def __init__(self, case: Case, A: Any, columns: bool) -> None:
        *stack, n, _ = A.shape
        self.source = np.ascontiguousarray(A.swapaxes(-1, -2)) if columns else A
        wanted = _SHAPES[case.operation]
        sizes = {"F": (n, n), "X": (n, 1), "Q": (n, n), "TAU": (n,), "PIVOTS": (n,)}
        sizes |= {"F": ()} if case.operation == "determinant" else {}
        self.parts: Parts = {
            part: np.empty((*stack, *sizes[part]), "int32" if part == "PIVOTS" else A.dtype) for part in wanted
        }
        self.parts["INFO"] = np.empty(stack, "int32")
        self.count, self.n = ctypes.c_int64(int(np.prod(stack, dtype=np.int64))), n

    def addresses(self) -> list[ctypes.c_void_p]:
        """Addresses of the parts in the order of the arguments; null for absent ones."""
        order = ("F", "X", "Q", "TAU", "PIVOTS", "INFO")
        return [ctypes.c_void_p(self.parts[part].ctypes.data if part in self.parts else None) for part in order]

    def given(self, columns: bool, one_based: bool) -> Parts:
        """Return the parts in our conventions: row-major, pivots counted from zero."""
        found = {part: one for part, one in self.parts.items() if part not in ("TAU",)}
        if "TAU" in self.parts and "Q" not in self.parts:
            found["TAU"] = self.parts["TAU"]
        if columns:
            found |= {part: found[part].swapaxes(-1, -2) for part in ("F", "Q") if part in found}
        if one_based and "PIVOTS" in found:
            found["PIVOTS_1"] = found.pop("PIVOTS")
        return found


_SHAPES = {
    "cholesky": ("F",), "lu": ("F", "PIVOTS"), "qr": ("F", "TAU"), "qrq": ("Q", "F", "TAU"), "solve": ("X",),
    "inverse": ("F",), "determinant": ("F",),
}  # fmt: skip


class LapackLoop(CompiledPeer):
    """Matrix by matrix with the LAPACK that SciPy brings: all threads share the loop, or one does it."""

    name = "LAPACK in a loop"
    operations = ONE_SIDED

    def _find_library(self) -> str:
        try:
            self.routines = import_module("scipy.linalg.cython_lapack").__pyx_capi__
        except ImportError:
            return "SciPy, whose LAPACK it calls, is not installed: pip install scipy"
        return ""

    def takes_part(self, case: Case) -> bool:
        return super().takes_part(case) and case.form != RAGGED

    def text(self, case: Case) -> str:
        return sources.lapack(case.dtype, case.operation)

    def spellings(self, case: Case) -> dict[str, Callable[..., Parts]]:
        names, columns = _ROUTINES[case.operation], case.operation in _BY_COLUMNS
        written = ", ".join(names) + " for each"
        ways = {}
        for threads in sorted({1, settings.current().threads}):
            how = f"{threads} threads share the loop" if threads > 1 else "one after the other"
            ways[f"{written}, {how}{COLUMNS if columns else ''}"] = self._looping(case, threads, columns)
        return ways

    def _looping(self, case: Case, threads: int, columns: bool) -> Callable[..., Parts]:
        function, held = self._library(case).run, Held()
        letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[case.dtype]
        names = [letter + self._named(name, letter) for name in _ROUTINES[case.operation]]
        routines = [pointer_of(self.routines[name]) for name in names]
        routines += [ctypes.c_void_p(None)] * (2 - len(routines))

        def run(A: Any, B: Any) -> Parts:
            memory = held(A, lambda: _Memory(case, A, columns))
            right = ctypes.c_void_p(None if B is None else B.ctypes.data)
            source = ctypes.c_void_p(memory.source.ctypes.data)
            function(*routines, threads, memory.count, memory.n, source, right, *memory.addresses())
            return memory.given(columns, one_based=True)  # type: ignore[no-any-return]

        return run

    @staticmethod
    def _named(routine: str, letter: str) -> str:
        """LAPACK's name of a routine: `un` instead of `or` for complex matrices."""
        return "ungqr" if routine == "orgqr" and letter in "cz" else routine


class EigenFactors(EigenPeer):
    """Eigen with sizes that are known when it is compiled, which takes seconds each: float64 and few beyond 16. Its
    reflectors are not LAPACK's."""

    operations = sources.EIGEN

    def takes_part(self, case: Case) -> bool:
        measured = case.M in _EIGEN_SIZES and case.dtype == "float64"
        return super().takes_part(case) and measured and case.form != RAGGED

    def text(self, case: Case) -> str:
        return sources.eigen(case.dtype, case.operation, case.M)

    def spellings(self, case: Case) -> dict[str, Callable[..., Parts]]:
        function, held, threads = self._library(case).run, Held(), settings.current().threads

        def run(A: Any, B: Any) -> Parts:
            memory = held(A, lambda: _Memory(case, A, False))
            right = ctypes.c_void_p(None if B is None else B.ctypes.data)
            function(threads, memory.count, memory.n, ctypes.c_void_p(A.ctypes.data), right, *memory.addresses())
            return memory.given(False, one_based=False)  # type: ignore[no-any-return]

        name = {"cholesky": "LLT", "qrq": "HouseholderQR"}.get(case.operation, "PartialPivLU")
        return {f"{name}<Matrix<...>>": run}


PEERS = (LapackLoop, EigenFactors)
