"""Peers of batched factorizations, and how each spells them; all spellings race (entries.py).

On GPUs PyTorch takes part once per library it can hand matrices to, and cuBLAS and cuSOLVER are called by their names.
These want the columns of a matrix adjacent: spellings that say so find them like that before the clock starts, and pay
for no transposition. On CPUs there are NumPy, SciPy, PyTorch, LAPACK in a loop and Eigen (compiled.py).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .. import labels
from ..cases import Case
from ..peers import Peer, TorchCudaPeer, TorchPeer
from .data import places_of
from .operations import RAGGED, REDUCTIONS, SPECTRAL

Ways = dict[str, Callable[..., dict[str, Any]]]
COLUMNS = ", columns adjacent"


def spectral_ways(linalg: Any) -> dict[str, Ways]:
    """Eigenvalues and singular values as NumPy and CuPy spell them."""
    return {
        "eigh": {"linalg.eigh(A)": lambda A, B: _named(("W", "Z"), linalg.eigh(A))},
        "eigvalsh": {"linalg.eigvalsh(A)": lambda A, B: {"W": linalg.eigvalsh(A)}},
        "svd": {"linalg.svd(A)": lambda A, B: _named(("U", "W", "VH"), linalg.svd(A))},
        "svdvals": {"linalg.svd(A, compute_uv=False)": lambda A, B: {"W": linalg.svd(A, compute_uv=False)}},
    }


class NumpyFactors(Peer):
    """NumPy, whose routines loop over a stack themselves; LU it has none."""

    name = "NumPy"

    def takes_part(self, case: Case) -> bool:
        return case.operation not in ("lu", *REDUCTIONS)

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        return list(ragged)

    def spellings(self, case: Case) -> Ways:
        linalg = np.linalg
        if case.form == RAGGED:
            return {
                "cholesky": {"linalg.cholesky(a) for each": lambda A, B: {"F": [linalg.cholesky(a) for a in A]}},
                "solve": {"linalg.solve(a, b) for each": lambda A, B: {"X": list(map(linalg.solve, A, B))}},
            }[case.operation]
        ways: dict[str, Ways] = {
            "cholesky": {"linalg.cholesky(A)": lambda A, B: {"F": linalg.cholesky(A)}},
            "qr": {"linalg.qr(A, mode='raw')": lambda A, B: _named(("H", "TAU"), linalg.qr(A, mode="raw"))},
            "qrq": {"linalg.qr(A)": lambda A, B: _named(("Q", "F"), linalg.qr(A))},
            "solve": {"linalg.solve(A, B)": lambda A, B: {"X": linalg.solve(A, B)}},
            "inverse": {"linalg.inv(A)": lambda A, B: {"F": linalg.inv(A)}},
            "determinant": {"linalg.det(A)": lambda A, B: {"F": linalg.det(A)}},
        }
        return (ways | spectral_ways(linalg))[case.operation]


class ScipyFactors(Peer):
    """Factorizations by SciPy, which loops in Python or in C."""

    name = "SciPy"

    def takes_part(self, case: Case) -> bool:
        return case.form != RAGGED and case.operation in ("cholesky", "lu", "solve", "inverse", "determinant")

    def _find(self) -> str:
        try:
            self.linalg = import_module("scipy.linalg")
        except ImportError:
            return "SciPy is not installed: pip install scipy"
        return ""

    def spellings(self, case: Case) -> Ways:
        linalg: Any = self.linalg
        fast: dict[str, Any] = {"check_finite": False}
        ways: dict[str, Ways] = {
            "cholesky": {"cholesky(A, lower=True)": lambda A, B: {"F": linalg.cholesky(A, lower=True, **fast)}},
            "lu": {"lu_factor(A)": lambda A, B: _named(("F", "PIVOTS"), linalg.lu_factor(A, **fast))},
            "solve": {"solve(A, B)": lambda A, B: {"X": linalg.solve(A, B, assume_a="gen", **fast)}},
            "inverse": {"inv(A)": lambda A, B: {"F": linalg.inv(A, **fast)}},
            "determinant": {"det(A)": lambda A, B: {"F": np.asarray(linalg.det(A, **fast))}},
        }
        return ways[case.operation]


# PyTorch's functions: how a call is written, and the parts of its result
_TORCH = {
    "cholesky": ("linalg.cholesky_ex", ("F", "INFO")),
    "lu": ("linalg.lu_factor_ex", ("F", "PIVOTS_1", "INFO")),
    "qr": ("geqrf", ("F", "TAU")),
    "qrq": ("linalg.qr", ("Q", "F")),
    "solve": ("linalg.solve_ex", ("X", "INFO")),
    "inverse": ("linalg.inv_ex", ("F", "INFO")),
    "determinant": ("linalg.det", ("F",)),
    "eigh": ("linalg.eigh", ("W", "Z")),
    "eigvalsh": ("linalg.eigvalsh", ("W",)),
    "svd": ("linalg.svd", ("U", "W", "VH")),
    "svdvals": ("linalg.svdvals", ("W",)),
}


def torch_ways(torch: Any, case: Case, columns: bool) -> Ways:
    """Results made anew, or written where the last ones were; with `columns` also of matrices that lie as wanted."""
    name, parts = _TORCH[case.operation]
    function = getattr(torch.linalg if "." in name else torch, name.rpartition(".")[2])
    written = f"{name}(A{', B' if case.operation == 'solve' else ''}"

    def fresh(A: Any, B: Any) -> dict[str, Any]:
        return _named(parts, function(A) if B is None else function(A, B))

    def into(A: Any, B: Any) -> dict[str, Any]:
        given = (A,) if B is None else (A, B)
        results = held(A, lambda: function(*given))
        return _named(parts, function(*given, out=results))

    def turned(A: Any, B: Any) -> dict[str, Any]:
        return fresh(held_columns(A, lambda: A.mT.contiguous().mT), B)

    held, held_columns = Held(), Held()
    ways: Ways = {f"{written})": fresh}
    if case.operation in ("svd", "svdvals") and columns:
        return ways | _by_driver(function, written, parts)
    if case.mode == "device" and case.operation not in SPECTRAL:  # cuSOLVER by its names works in place
        ways[f"{written}, out=...)"] = into
        ways |= {f"{written}){COLUMNS}": turned} if columns else {}
    return ways


def _by_driver(function: Callable[..., Any], written: str, parts: tuple[str, ...]) -> Ways:
    """Singular values by each of cuSOLVER's accurate methods that PyTorch lets one choose."""

    def choosing(driver: str) -> Callable[..., dict[str, Any]]:
        return lambda A, B: _named(parts, function(A, driver=driver))

    return {f"{written}, driver={driver!r})": choosing(driver) for driver in ("gesvdj", "gesvd")}


class TorchFactors(TorchPeer):
    """Factorizations by PyTorch on CPUs."""

    def takes_part(self, case: Case) -> bool:
        return case.form != RAGGED and case.operation not in REDUCTIONS

    def spellings(self, case: Case) -> Ways:
        return torch_ways(self.torch, case, columns=False)


class TorchCudaFactors(TorchCudaPeer):
    """PyTorch on GPUs with one of the libraries that it hands matrices to. Ragged batches it gets padded with ones on
    the diagonal."""

    library = ""

    def takes_part(self, case: Case) -> bool:
        return (case.form != RAGGED or self.library == "cusolver") and case.operation not in REDUCTIONS

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        return self.take(padded(import_module("cupy"), case, ragged))

    def spellings(self, case: Case) -> Ways:
        return {label: self._asking(way) for label, way in torch_ways(self.torch, case, columns=True).items()}

    def _asking(self, way: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        prefer = self.torch.backends.cuda.preferred_linalg_library

        def run(A: Any, B: Any) -> dict[str, Any]:
            prefer(self.library)
            return way(A, B)

        return run


class TorchCusolver(TorchCudaFactors):
    name, library = labels.CUSOLVER, "cusolver"


class TorchMagma(TorchCudaFactors):
    """PyTorch with MAGMA, where it calls MAGMA: in version 2.11 that is LU and what is made of it (the substitutions
    of `solve_ex` and `inv_ex` are cuBLAS's); Cholesky and QR are cuSOLVER's and cuBLAS's whatever is preferred."""

    name, library = labels.MAGMA, "magma"

    def _find(self) -> str:
        self._calls_magma: dict[str, bool] = {}
        reason = super()._find()
        return reason or ("" if self.torch.cuda.has_magma else "this PyTorch was built without MAGMA")

    def takes_part(self, case: Case) -> bool:
        if self.missing or case.form == RAGGED:
            return super().takes_part(case)
        if case.operation in SPECTRAL:  # matrix by matrix, as cuSOLVER's from 33 rows on
            return False
        operation = case.operation
        if operation not in self._calls_magma:
            try:
                self._calls_magma[operation] = self._differs(operation)
            except Exception:  # a MAGMA that cannot be called takes no part
                self._calls_magma[operation] = False
        return self._calls_magma[operation]

    def _differs(self, operation: str) -> bool:
        """Whether the preferred library changes any bit of a result: two libraries round otherwise somewhere in
        matrices of this size, one library called twice does not."""
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(1)
        G = torch.randn(*_PROBED, dtype=torch.float64, device="cuda", generator=generator)
        A = G @ G.mT + _PROBED[-1] * torch.eye(_PROBED[-1], dtype=G.dtype, device="cuda")
        B = G[..., :1].contiguous() if operation == "solve" else None
        found = []
        for library in ("cusolver", self.library):
            torch.backends.cuda.preferred_linalg_library(library)
            found.append(torch_probe(torch, operation)(A, B))
        return not all(map(torch.equal, *found))


_PROBED = (4, 96, 96)  # matrices on which libraries are told apart


def torch_probe(torch: Any, operation: str) -> Callable[..., list[Any]]:
    """An operation by PyTorch, as the list of its results."""
    name, parts = _TORCH[operation]
    function = getattr(torch.linalg if "." in name else torch, name.rpartition(".")[2])
    return lambda A, B: list(_named(parts, function(A) if B is None else function(A, B)).values())


class Held:
    """A value that is made again only when the operand has another address or shape."""

    def __init__(self) -> None:
        self._key: Any = None
        self._value: Any = None

    def __call__(self, array: Any, make: Callable[[], Any]) -> Any:
        key = (address(array), array.shape)
        if key != self._key:
            self._key = self._value = None  # memory is given back before more is taken
            self._key, self._value = key, make()
        return self._value


def address(array: Any) -> int:
    """Address of the first entry of an array of any library."""
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def _named(parts: tuple[str, ...], values: Any) -> dict[str, Any]:
    return dict(zip(parts, values if len(parts) > 1 else (values,), strict=True))


def padded(xp: Any, case: Case, ragged: Any) -> Any:
    """The matrices of a ragged batch as a stack, ones on the diagonal below them; vectors with zeros."""
    vectors = int(ragged.layout.host()[1].max()) == 1
    made = xp.zeros((case.K, case.M, 1 if vectors else case.M), case.dtype)
    if not vectors:
        made[:, list(range(case.M)), list(range(case.M))] = 1
    starts = np.asarray(ragged.layout.host()[2])
    for size, places in places_of(case, 1 if vectors else case.M):
        members, width = xp.asarray(np.searchsorted(starts, places)), 1 if vectors else size
        where = xp.asarray(places)[:, None] + xp.arange(size * width)
        made[members, :size, :width] = ragged.buffer[where].reshape(-1, size, width)
    return made
