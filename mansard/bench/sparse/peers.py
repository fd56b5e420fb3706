"""Peers of sparse products and powers: cuSPARSE through CuPy and through PyTorch on GPUs, SciPy and
PyTorch on CPUs. All have CSR with 32-bit columns, cuSPARSE by every algorithm and in sliced ELLPACK as well
(cusparse.py). Powers are products one after the other, each into the next row of the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ..cases import Case
from ..peers import Peer, without_cuda
from . import calls
from .cusparse import ways as algorithms
from .data import Given
from .entries import Way

Product = Callable[[Any, Any], Any]  # of a vector, or several side by side, and of where the result goes (or None)


class SparsePeer(Peer):
    """A library: how it takes a matrix and vectors, and its ways to write A x."""

    def takes_part(self, case: Case) -> bool:
        return case.mode == "device"

    def ways(self, case: Case, given: Given, x: Any) -> dict[str, Way]:
        products = self.products(case, given)
        if case.operation == "spmv":
            return {label: self._product(given, x, label, call) for label, call in products.items()}
        return {f"{label} p times": self._powers(case, given, x, label, call) for label, call in products.items()}

    def products(self, case: Case, given: Given) -> dict[str, Product]:
        """Spellings of A x; those that write where they are told have `out` in their name."""
        raise NotImplementedError

    def _product(self, given: Given, x: Any, label: str, call: Product) -> Way:
        taken = self.vectors(x, label)
        if "out" not in label:
            return Way(lambda: call(taken, None), self.give)
        y = given.xp.empty((given.csr.shape[0], *x.shape[1:]), x.dtype)
        into = self.take(y)
        return Way(lambda: call(taken, into), self.give, y)

    def _powers(self, case: Case, given: Given, x: Any, label: str, call: Product) -> Way:
        out = given.xp.empty((case.inner + 1, x.shape[0]), x.dtype)
        taken, into = self.take(x), self.take(out)

        def run() -> None:
            into[0] = taken
            for k in range(case.inner):
                if "out" in label:
                    call(into[k], into[k + 1])
                else:
                    into[k + 1] = call(into[k], None)

        return Way(run, _same, out)

    def vectors(self, x: Any, label: str) -> Any:
        """Return the vectors x in the layout that the spelling takes."""
        return self.take(x)


class ScipyPeer(SparsePeer):
    name = "SciPy"

    def products(self, case: Case, given: Given) -> dict[str, Product]:
        A = given.csr
        return {"A @ x": lambda x, out: A @ x}


class TorchSparsePeer(SparsePeer):
    """PyTorch's CSR tensors, on the memory of our matrix."""

    name = "PyTorch"

    def _find(self) -> str:
        try:
            self.torch = import_module("torch")
        except ImportError:
            return "PyTorch is not installed: pip install torch"
        return ""

    def take(self, array: Any) -> Any:
        return self.torch.from_numpy(array)

    def give(self, result: Any) -> Any:
        return result.numpy()

    def products(self, case: Case, given: Given) -> dict[str, Product]:
        A = given.once("PyTorch", lambda: self._matrix(given.csr))
        torch = self.torch
        function, name = (torch.mv, "mv") if case.N == 1 else (torch.mm, "mm")
        return {"A @ x": lambda x, out: A @ x, f"{name}(A, x, out=y)": lambda x, out: function(A, x, out=out)}

    def _matrix(self, csr: Any) -> Any:
        parts = [self.take(part) for part in (csr.indptr, csr.indices, csr.data)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that such tensors are in beta
            return self.torch.sparse_csr_tensor(*parts, size=csr.shape)


class TorchCusparsePeer(TorchSparsePeer):
    name = "PyTorch (cuSPARSE)"

    def _find(self) -> str:
        return super()._find() or without_cuda(self.torch)

    def take(self, array: Any) -> Any:
        return self.torch.from_dlpack(array)

    def give(self, result: Any) -> Any:
        return import_module("cupy").from_dlpack(result)


class CupySparsePeer(SparsePeer):
    name = "CuPy (cuSPARSE)"
    captures = "CuPy refuses cuSPARSE calls while a stream is captured"

    def _find(self) -> str:
        try:
            self.cupy, self.cusparse = import_module("cupy"), import_module("cupyx.cusparse")
        except ImportError:
            return "CuPy is not installed: pip install 'mansard[cuda]'"
        return ""

    def vectors(self, x: Any, label: str) -> Any:
        return self.cupy.asfortranarray(x) if "columns" in label else x

    def products(self, case: Case, given: Given) -> dict[str, Product]:
        A, cusparse = given.csr, self.cusparse
        ways: dict[str, Product] = {"A @ x": lambda x, out: A @ x}
        if case.N > 1:
            return ways | {"cupyx.cusparse.spmm(A, X), columns adjacent": lambda x, out: cusparse.spmm(A, x)}
        ways |= {"cupyx.cusparse.spmv(A, x, out)": lambda x, out: cusparse.spmv(A, x, out)}
        try:
            return ways | given.once("cuSPARSE", lambda: algorithms(self.cupy, A))
        except (RuntimeError, AttributeError):  # a library that cannot be called by its names: CuPy's way remains
            return ways


def peers_for(backend_name: str) -> list[Peer]:
    """Ours by other ways first, then the libraries, missing ones included."""
    libraries = [CupySparsePeer(), TorchCusparsePeer()] if backend_name == "cuda" else [ScipyPeer(), TorchSparsePeer()]
    return [*calls.alternatives(backend_name), *libraries]


def _same(result: Any) -> Any:
    return result if not isinstance(result, tuple) else np.asarray(result)
