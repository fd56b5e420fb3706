"""Peers of drawn problems: NumPy, SciPy and PyTorch on CPUs, CuPy and PyTorch on GPUs."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import mansard as ms

from ..cases import Case
from ..peers import CupyPeer, NumpyPeer, Peer, Product, TorchCudaPeer, TorchPeer
from ..sparse import peers as sparse
from ..sparse.operations import SPARSE
from .kind import Kind
from .operations import DRAWN, dense, kind

_LOOPS = 256  # matrices of a loop in Python, which costs some 30 us each


class Drawing(Peer):
    """A library whose spellings are those of the kinds."""

    def takes_part(self, case: Case) -> bool:
        if case.operation not in DRAWN:
            return False
        return any(self.library in way.libraries.split() for way in kind(dense(case.drawn)).ways)

    def take(self, array: Any) -> Any:
        """A ragged batch as a list of its matrices."""
        if isinstance(array, ms.Ragged):
            return [super(Drawing, self).take(array[at]) for at in range(len(array))]
        return super().take(array)

    def give(self, result: Any) -> Any:
        if isinstance(result, list):
            return [super(Drawing, self).give(one) for one in result]
        return super().give(result)

    def converted(self, case: Case, A: Any, B: Any) -> tuple[Any, Any]:
        """Operands in the conventions of the library, before anything is timed."""
        change = kind(dense(case.drawn)).taken.get(self.library)
        return change(import_module(self.library), A, B) if change else (A, B)

    def spellings(self, case: Case) -> dict[str, Product]:
        drawn = dense(case.drawn)
        return {way.written: partial(self._run, way.run, drawn.options) for way in self._ways(kind(drawn))}

    def _ways(self, chosen: Kind) -> list[Any]:
        return [way for way in chosen.ways if self.library in way.libraries.split()]

    def _run(self, run: Any, options: Any, A: Any, B: Any, out: Any) -> Any:
        return run(self._module, A, B, out, options)

    @property
    def _module(self) -> Any:
        return import_module(self.library)


class Numpy(Drawing, NumpyPeer):
    """NumPy; matrices that are alone are those of its users, too."""


class Scipy(Drawing):
    """SciPy's own routines, of stacks where it has them. Most of them loop in Python: not over many matrices."""

    name, library = "SciPy", "scipy"

    def takes_part(self, case: Case) -> bool:
        return super().takes_part(case) and int(dense(case.drawn).sizes.get("batch", 1)) <= _LOOPS

    def _find(self) -> str:
        try:
            import_module("scipy.linalg")
            import_module("scipy.linalg.blas")
        except ImportError:
            return "SciPy is not installed: pip install scipy"
        return ""


class Torch(Drawing, TorchPeer):
    """PyTorch on the CPU."""


class TorchCuda(Drawing, TorchCudaPeer):
    """PyTorch on the GPU."""


class Cupy(Drawing, CupyPeer):
    """CuPy's own functions."""


class _Sparse(sparse.SparsePeer):
    """A library of sparse matrices, in its own cases alone."""

    def takes_part(self, case: Case) -> bool:
        return case.operation in SPARSE


class ScipySparse(_Sparse, sparse.ScipyPeer): ...


class TorchSparse(_Sparse, sparse.TorchSparsePeer): ...


class TorchCusparse(_Sparse, sparse.TorchCusparsePeer): ...


class CupySparse(_Sparse, sparse.CupySparsePeer): ...


def peers_for(backend_name: str) -> list[Peer]:
    """Every library that takes drawn problems on a backend, missing ones included."""
    makers = (Cupy, TorchCuda, CupySparse, TorchCusparse)
    return [make() for make in (makers if backend_name == "cuda" else (Numpy, Scipy, Torch, ScipySparse, TorchSparse))]
