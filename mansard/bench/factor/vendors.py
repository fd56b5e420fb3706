"""Batched factorizations of cuBLAS and cuSOLVER by their names, through CuPy's handles.

They factor in place: A is copied to where they work before the clock starts, as right-hand sides are, and no sample
pays for that. They take columns. A row-major matrix is the transpose of a column-major one: for Cholesky, inverses and
(with the transposed factors) systems that makes no difference; LU and QR get matrices whose columns were made adjacent
before the clock started.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..batched.cublas import Cublas
from ..cases import Case
from ..peers import CupyPeer
from .entries import InPlace, is_single
from .operations import RAGGED, REDUCTIONS
from .peers import COLUMNS, Held, Ways, spectral_ways

Way = Callable[..., dict[str, Any]]
_PLAIN, _TURNED = 0, 1  # operations
_UPPER = 1  # of columns, which is the lower triangle of rows
_INVERTED = 32  # matrices that matinvBatched takes
_int = ctypes.c_int


def ways(cupy: Any, case: Case) -> dict[str, Way]:
    """All spellings of the case's operation."""
    linalg, vendor = cupy.linalg, Vendor(cupy, case.dtype)
    found: dict[str, dict[str, Way]] = {
        "cholesky": {
            "cusolver potrfBatched": vendor.cholesky(),
            "linalg.cholesky(A)": lambda A, B: {"F": linalg.cholesky(A)},
        },
        "lu": {f"cublas getrfBatched{COLUMNS}": vendor.lu()},
        "qr": {f"cublas geqrfBatched{COLUMNS}": vendor.qr()},
        "qrq": {"linalg.qr(A)": lambda A, B: dict(zip(("Q", "F"), linalg.qr(A), strict=True))},
        "solve": {
            "cublas getrfBatched, getrsBatched": vendor.solve(),
            "linalg.solve(A, B)": lambda A, B: {"X": linalg.solve(A, B)},
        },
        "inverse": {
            "cublas getrfBatched, getriBatched": vendor.inverse(),
            "linalg.inv(A)": lambda A, B: {"F": linalg.inv(A)},
        },
        "determinant": {"linalg.det(A)": lambda A, B: {"F": linalg.det(A)}},
        **spectral_ways(linalg),
    }
    if case.M <= _INVERTED:
        found["inverse"]["cublas matinvBatched"] = vendor.matinv()
    chosen = found[case.operation]
    return {label: way for label, way in chosen.items() if "linalg." in label} if is_single(case) else chosen


class Vendor(Cublas):
    """Routines of cuBLAS and cuSOLVER for one dtype."""

    def _memory(self, A: Any, columns: bool) -> tuple[Any, Any, Any, Any, Any]:
        """Allocate for a routine in place: source, workspace, addresses of its matrices, pivots, and info."""
        source = self.cupy.ascontiguousarray(A.swapaxes(1, 2)) if columns else A
        work = self.cupy.empty_like(source)
        pivots = self.cupy.empty(A.shape[:2], "int32")
        return source, work, self._pointers(work, A[0].size), pivots, self.cupy.empty(len(A), "int32")

    def _restoring(self, columns: bool) -> tuple[Held, Way]:
        """Return the memory that a routine works in, and a function that copies A there."""
        held = Held()

        def restore(A: Any, B: Any) -> dict[str, Any]:
            source, work, *_ = held(A, lambda: self._memory(A, columns))
            work[...] = source
            return {}

        return held, restore

    def _factor(self, memory: tuple[Any, Any, Any, Any, Any], A: Any) -> None:
        _, _, places, pivots, info = memory
        n = _int(A.shape[-1])
        self._call("getrfBatched", n, places, n, pivots, info, _int(len(A)))

    def lu(self) -> Way:
        held, restore = self._restoring(columns=True)

        def run(A: Any, B: Any) -> dict[str, Any]:
            memory = held(A, lambda: self._memory(A, True))
            self._factor(memory, A)
            _, work, _, pivots, info = memory
            return {"F": work.swapaxes(1, 2), "PIVOTS_1": pivots, "INFO": info}

        return InPlace(restore, run)

    def solve(self) -> Way:
        """Solve with the factors of the transpose, as cuBLAS sees row-major matrices."""
        (held, restore_matrix), sides = self._restoring(columns=False), Held()

        def restore(A: Any, B: Any) -> None:
            restore_matrix(A, B)
            sides(B, lambda: self._sides(B))[0][...] = B

        def run(A: Any, B: Any) -> dict[str, Any]:
            memory = held(A, lambda: self._memory(A, False))
            self._factor(memory, A)
            _, _, places, pivots, info = memory
            X, right = sides(B, lambda: self._sides(B))
            n, failed = _int(A.shape[-1]), _int(0)
            self._call("getrsBatched", _TURNED, n, _int(1), places, n, pivots, right, n, ctypes.byref(failed),
                       _int(len(A)))  # fmt: skip
            return {"X": X, "INFO": info}

        return InPlace(restore, run)

    def _sides(self, B: Any) -> tuple[Any, Any]:
        X = self.cupy.empty_like(B)
        return X, self._pointers(X, B[0].size)

    def inverse(self) -> Way:
        (held, restore), results = self._restoring(columns=False), Held()

        def run(A: Any, B: Any) -> dict[str, Any]:
            memory = held(A, lambda: self._memory(A, False))
            self._factor(memory, A)
            _, _, places, pivots, info = memory
            X, targets = results(A, lambda: self._sides(A))
            n = _int(A.shape[-1])
            self._call("getriBatched", n, places, n, pivots, targets, n, info, _int(len(A)))
            return {"F": X, "INFO": info}

        return InPlace(restore, run)

    def matinv(self) -> Way:
        """Invert small matrices in one call (matinvBatched), which leaves A unchanged."""
        held = Held()

        def memory(A: Any) -> tuple[Any, Any, Any, Any]:
            return *self._sides(A), self._pointers(A, A[0].size), self.cupy.empty(len(A), "int32")

        def run(A: Any, B: Any) -> dict[str, Any]:
            X, targets, places, info = held(A, lambda: memory(A))
            n = _int(A.shape[-1])
            self._call("matinvBatched", n, places, n, targets, n, info, _int(len(A)))
            return {"F": X, "INFO": info}

        return run

    def qr(self) -> Way:
        (held, restore), factors = self._restoring(columns=True), Held()

        def tau_of(A: Any) -> tuple[Any, Any]:
            tau = self.cupy.empty(A.shape[:2], A.dtype)
            return tau, self._pointers(tau, A.shape[-1])

        def run(A: Any, B: Any) -> dict[str, Any]:
            _, work, places, *_ = held(A, lambda: self._memory(A, True))
            tau, targets = factors(A, lambda: tau_of(A))
            n, failed = _int(A.shape[-1]), _int(0)
            self._call("geqrfBatched", n, n, places, n, targets, ctypes.byref(failed), _int(len(A)))
            return {"F": work.swapaxes(1, 2), "TAU": tau}

        return InPlace(restore, run)

    def cholesky(self) -> Way:
        """The upper triangle of columns, which is L as rows see it."""
        held, restore = self._restoring(columns=False)

        def run(A: Any, B: Any) -> dict[str, Any]:
            _, work, places, _, info = held(A, lambda: self._memory(A, False))
            cusolver, n = import_module("cupy_backends.cuda.libs.cusolver"), A.shape[-1]
            routine = getattr(cusolver, f"{self.letter.lower()}potrfBatched")
            handle = self.cupy.cuda.device.get_cusolver_handle()
            routine(handle, _UPPER, n, places.data.ptr, n, info.data.ptr, len(A))
            return {"L": work, "INFO": info}  # what it leaves in the other triangle is not said

        return InPlace(restore, run)


class VendorFactors(CupyPeer):
    """cuBLAS and cuSOLVER by their names, and CuPy's functions."""

    name = "CuPy (cuBLAS, cuSOLVER)"
    captures = "CuPy refuses cuBLAS and cuSOLVER calls while a stream is captured"

    def takes_part(self, case: Case) -> bool:
        return case.form != RAGGED and case.operation not in REDUCTIONS

    def spellings(self, case: Case) -> Ways:
        return ways(self.cupy, case)
