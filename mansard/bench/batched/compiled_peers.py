"""Peers of batches on CPUs that are C++: a loop over SciPy's BLAS, Eigen's fixed sizes, libxsmm's generated kernels.

Each is a small file, compiled like our own kernels and run by as many threads. Where a library or its headers are not
found, the peer says so and is reported as missing.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import settings
from ...codegen.instantiate import Source
from ...compile import cxx
from ...errors import MansardError
from ..cases import Case
from ..peers import Peer, Product
from . import peer_sources
from .operations import BATCHED

_FIXED = 64  # Eigen knows sizes at compile time up to here
_PREFIXES = (Path("/usr"), Path("/usr/local"), Path("/opt"), Path("/opt/homebrew"))


def _include_folders() -> list[Path]:
    """Folders searched for headers: the system's, this environment's, and those that Python packages bring."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix"
    return [prefix / "include" for prefix in (Path(sys.prefix), packages, *_PREFIXES)]


class CompiledPeer(Peer):
    """A C++ text per case, with one function per spelling; their arguments are addresses and counts."""

    operations: tuple[str, ...] = ("gemm",)
    flags: tuple[str, ...] = ()

    def _find(self) -> str:
        return cxx.available() or self._find_library()

    def _find_library(self) -> str:
        raise NotImplementedError

    def takes_part(self, case: Case) -> bool:
        return case.operation in self.operations

    def text(self, case: Case) -> str:
        """C++ text of the peer for the case."""
        raise NotImplementedError

    def build(self, case: Case) -> None:
        self._library(case)

    def _library(self, case: Case) -> Any:
        try:
            entry = cxx.compile_cpu(Source("cpu", self.text(case), ()), self.flags)
        except MansardError as error:
            raise RuntimeError(f"{self.name} does not compile: {error}") from error
        return ctypes.CDLL(str(entry.binary))


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pointer_of(capsule: Any) -> ctypes.c_void_p:
    """The address of a routine that Cython hands out."""
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule)))


class BlasPeer(CompiledPeer):
    """Matrix by matrix with the BLAS that SciPy brings: all threads share the loop, or BLAS has them to itself."""

    name = "BLAS in a loop"
    operations = BATCHED

    def _find_library(self) -> str:
        try:
            self.routines = import_module("scipy.linalg.cython_blas").__pyx_capi__
        except ImportError:
            return "SciPy, whose BLAS it calls, is not installed: pip install scipy"
        return ""

    def text(self, case: Case) -> str:
        return peer_sources.blas(case.dtype)

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        return ragged

    def _routine(self, case: Case) -> ctypes.c_void_p:
        letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[case.dtype]
        return pointer_of(self.routines[letter + {"ragged": "gemm"}.get(case.operation, case.operation)])

    def batched(self, case: Case) -> dict[str, Product]:
        function, routine = getattr(self._library(case), case.operation), self._routine(case)
        return {
            f"{case.operation} for each, {threads} threads share the loop" if threads > 1 else
            f"{case.operation} for each, one after the other": self._looping(case, function, routine, threads)
            for threads in sorted({1, settings.current().threads})
        }  # fmt: skip

    def _looping(self, case: Case, function: Any, routine: Any, threads: int) -> Product:
        inner = case.inner or case.M
        options = {
            "gemm": (case.M, case.N, inner, int(case.accumulate)),
            "gemv": (case.M, inner, int(case.form == "T")),
        }
        sizes = options.get(case.operation, (case.M, case.N, int("U" in case.form)))

        def run(A: Any, B: Any, out: Any) -> None:
            function(routine, threads, ctypes.c_int64(len(A)), *sizes, _address(A), _address(B), _address(out))

        def run_ragged(A: Any, B: Any, out: Any) -> None:
            rows, columns = (_address(table) for table in (A.layout.host()[0], B.layout.host()[1]))
            starts = (_address(each.layout.host()[2]) for each in (A, B, out))
            buffers = (_address(each.buffer) for each in (A, B, out))
            function(routine, threads, ctypes.c_int64(len(A)), rows, columns, *starts, *buffers)

        return run_ragged if case.operation == "ragged" else run


class EigenPeer(CompiledPeer):
    """Eigen with sizes that are known when it is compiled."""

    name = "Eigen"

    def _find_library(self) -> str:
        folders = [folder / name for folder in _include_folders() for name in ("eigen3", ".")]
        found = next((folder for folder in folders if (folder / "Eigen" / "Core").exists()), None)
        if found is None:
            return ("its headers were not found: apt install libeigen3-dev, conda install eigen or "
                    "pip install cmeel-eigen")  # fmt: skip
        self.flags = (f"-I{found}", "-w")
        return ""

    def text(self, case: Case) -> str:
        sizes = (case.M, case.N, case.inner or case.M)
        return peer_sources.eigen(case.dtype, *sizes, case.accumulate, fixed=max(sizes) <= _FIXED)

    def batched(self, case: Case) -> dict[str, Product]:
        library = self._library(case)
        names = {"A * B": library.product, "A.lazyProduct(B)": library.lazy}
        return {f"Map<Matrix<...>>, {name}": _multiplying(function) for name, function in names.items()}


class XsmmPeer(CompiledPeer):
    """libxsmm: a kernel generated for the sizes, called for each matrix. It has no complex ones."""

    name = "libxsmm"

    def _find_library(self) -> str:
        for folder in _include_folders():
            libraries = [folder.parent / name / "libxsmm.so" for name in ("lib", "lib64", "lib/x86_64-linux-gnu")]
            library = next((path for path in libraries if path.exists()), None)
            if library is not None and (folder / "libxsmm.h").exists():
                return self._load(folder, library)
        return "neither libxsmm.h nor libxsmm.so was found: conda install libxsmm, or build it with PREFIX=/usr/local"

    def _load(self, folder: Path, library: Path) -> str:
        self.flags = (f"-I{folder}", "-w")
        try:
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # where the compiled text finds its functions
        except OSError as error:
            return f"{library} cannot be loaded: {error}"
        return ""

    def takes_part(self, case: Case) -> bool:
        return super().takes_part(case) and not case.dtype.startswith("complex")

    def text(self, case: Case) -> str:
        return peer_sources.xsmm(case.dtype, case.M, case.N, case.inner or case.M, case.accumulate)

    def batched(self, case: Case) -> dict[str, Product]:
        return {"libxsmm_mmfunction for each": _multiplying(self._library(case).product)}


def _multiplying(function: Callable[..., Any]) -> Product:
    threads = settings.current().threads

    def run(A: Any, B: Any, out: Any) -> None:
        function(threads, ctypes.c_int64(len(A)), _address(A), _address(B), _address(out))

    return run


PEERS = (BlasPeer, EigenPeer, XsmmPeer)
