"""Peers, the libraries we are compared with: NumPy and PyTorch on CPUs, cuBLAS through CuPy and PyTorch on GPUs.
Batches meet others besides, see batched/compiled_peers.py.

A peer may spell a product in several ways; all correct ones race and the fastest is measured (entries.py), so that no
peer loses to a clumsy spelling. Large results are written into memory that is there already: a fresh one costs more
page faults than arithmetic. A peer that is not installed is a peer with a reason in `missing`, and is reported as such.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .batched import peers as batched_peers
from .batched.operations import BATCHED, SOLVES
from .cases import Case
from .declared import contest as declared
from .declared.operations import DECLARED, ways_of

Product = Callable[..., Any]  # of A, B, and memory for the result where the operation has a large one


class Peer:
    """A library: how it takes our arrays, and its spellings of the product. Arrays are shared, never copied."""

    name = ""
    library = ""  # its module, which declared operations name
    own = False  # uses the benchmark's own arrays: the library that `ms.matmul` hands other shapes to
    captures = ""  # why its calls cannot be captured in a graph; empty if they can

    def __init__(self) -> None:
        self.missing = self._find()

    def _find(self) -> str:
        """Why the library cannot be used, empty if it can."""
        return ""

    def takes_part(self, case: Case) -> bool:
        """Whether the peer takes part in the case: matmul is compared with the library it hands shapes to."""
        if case.operation in DECLARED:
            return bool(ways_of(DECLARED[case.operation], self.library))
        return self.own or case.operation != "matmul"

    def build(self, case: Case) -> None:
        """Compile what the case needs, before anything is timed."""

    def take(self, array: Any) -> Any:
        """Our array as one of the library's own, on the same memory."""
        return array

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        """Return the matrices of a ragged batch as the peer takes them."""
        return [self.take(matrix) for matrix in ragged]

    def give(self, result: Any) -> Any:
        """The library's result as one of our arrays."""
        return result

    def spellings(self, case: Case) -> dict[str, Product]:
        """All correct ways to write the case's product."""
        if case.operation == "gram":
            return self.gram(case)
        if case.operation == "matmul_gram":
            return {"matmul(V, S, out=W), W.T @ W": self._matmul_gram}
        if case.operation == "project":
            return self.project()
        if case.operation == "cholesky_qr":
            return {"linalg.qr(V)": lambda V, S: self.qr(V)}
        if case.operation in BATCHED:
            return self.batched(case)
        if case.operation in DECLARED:
            return declared.spellings(self.library, import_module(self.library), case)
        ways: dict[str, Product] = {"matmul(A, B, out=C)": self.matmul}
        if case.operation == "tsmm" and case.M == case.N == 1:
            ways["multiply(A, B, out=C)"] = self.multiply
        return ways

    def batched(self, case: Case) -> dict[str, Product]:
        """Operations on batches. A loop over matrices of one size in Python, which costs 0.3 us each and more, is not
        among them: routines of stacks loop themselves."""
        raise NotImplementedError

    def _matmul_gram(self, V: Any, S: Any, out: Any) -> Any:
        W = self.matmul(V, S, out)
        return W, W.T @ W

    def project(self) -> dict[str, Product]:
        """W - V (V^T W) and its Gram matrix; real ones are measured."""

        def subtracted(V: Any, W: Any, out: Any) -> Any:
            rest = self.matmul(V, V.T @ W, out)
            rest *= -1
            rest += W
            return rest, rest.T @ rest

        return {"matmul(V, V.T @ W, out=P), W - P, P.T @ P": subtracted}

    def matmul(self, A: Any, B: Any, out: Any) -> Any:
        raise NotImplementedError

    def multiply(self, A: Any, B: Any, out: Any) -> Any:
        """Scale a column by a number, into `out`."""
        raise NotImplementedError

    def gram(self, case: Case) -> dict[str, Product]:
        raise NotImplementedError

    def qr(self, V: Any) -> Any:
        raise NotImplementedError


class NumpyPeer(Peer):
    """NumPy, and for complex operands SciPy's handle on the same BLAS: NumPy itself must copy to conjugate."""

    name = "NumPy"
    library = "numpy"
    own = True

    def takes_part(self, case: Case) -> bool:
        return super().takes_part(case) and case.operation not in SOLVES

    def batched(self, case: Case) -> dict[str, Product]:
        return batched_peers.numpy_ways(case)

    def matmul(self, A: Any, B: Any, out: Any) -> Any:
        return np.matmul(A, B, out=out)

    def multiply(self, A: Any, B: Any, out: Any) -> Any:
        return np.multiply(A, B, out=out)

    def qr(self, V: Any) -> Any:
        return np.linalg.qr(V)

    def gram(self, case: Case) -> dict[str, Product]:
        dots: dict[str, Product] = {"vdot(a, b)": _of_columns(np.vdot)} if is_dot(case) else {}
        if not case.dtype.startswith("complex"):
            return {"A.T @ B": lambda A, B: A.T @ B, **dots}
        ways: dict[str, Product] = {"A.conj().T @ B": lambda A, B: A.conj().T @ B, **dots}
        try:
            blas = import_module("scipy.linalg.blas")
        except ImportError:
            return ways
        gemm = getattr(blas, {"complex64": "cgemm", "complex128": "zgemm"}[case.dtype])
        if case.layout == "row":  # row-major memory is the transpose in Fortran's eyes: C^T = B^T conj(A)
            ways["scipy.linalg.blas.gemm(B.T, A.T, trans_b='C').T"] = lambda A, B: gemm(1.0, B.T, A.T, trans_b=2).T
        elif case.layout == "col":
            ways["scipy.linalg.blas.gemm(A, B, trans_a='C')"] = lambda A, B: gemm(1.0, A, B, trans_a=2)
        return ways


class TorchPeer(Peer):
    """PyTorch, on the CPU or on the GPU: its conjugation is lazy and reaches the BLAS as an operation flag."""

    name = "PyTorch"
    library = "torch"
    _reason = "PyTorch is not installed: pip install torch"

    def _find(self) -> str:
        try:
            self.torch = import_module("torch")
        except ImportError:
            return self._reason
        return ""

    def take(self, array: Any) -> Any:
        return self.torch.from_numpy(array)

    def give(self, result: Any) -> Any:
        return result.resolve_conj().numpy()

    def matmul(self, A: Any, B: Any, out: Any) -> Any:
        return self.torch.matmul(A, B, out=out)

    def multiply(self, A: Any, B: Any, out: Any) -> Any:
        return self.torch.mul(A, B, out=out)

    def batched(self, case: Case) -> dict[str, Product]:
        return batched_peers.torch_ways(self.torch, case)

    def project(self) -> dict[str, Product]:
        def added(V: Any, W: Any, out: Any) -> Any:
            rest = self.torch.addmm(W, V, V.T @ W, alpha=-1, out=out)
            return rest, rest.T @ rest

        return {"addmm(W, V, V.T @ W, alpha=-1, out=P), P.T @ P": added}

    def qr(self, V: Any) -> Any:
        return self.torch.linalg.qr(V)

    def gram(self, case: Case) -> dict[str, Product]:
        dots: dict[str, Product] = {"vdot(a, b)": _of_columns(self.torch.vdot)} if is_dot(case) else {}
        if case.dtype.startswith("complex"):
            return {"A.mH @ B": lambda A, B: A.mH @ B, **dots}
        return {"A.mT @ B": lambda A, B: A.mT @ B, **dots}


def without_cuda(torch: Any) -> str:
    """Why PyTorch has no GPU, "" if it has."""
    return "" if torch.cuda.is_available() else "this PyTorch was built without CUDA, or finds no GPU"


class TorchCudaPeer(TorchPeer):
    name = "PyTorch (cuBLAS)"

    def _find(self) -> str:
        return super()._find() or without_cuda(self.torch)

    def take(self, array: Any) -> Any:
        return self.torch.from_dlpack(array)

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        columns = case.M if int(ragged.layout.host()[1].max()) > 1 else 1
        return self.take(batched_peers.padded(import_module("cupy"), case, ragged, columns))

    def give(self, result: Any) -> Any:
        return import_module("cupy").from_dlpack(result.resolve_conj())


class CupyPeer(Peer):
    name = "CuPy (cuBLAS)"
    library = "cupy"
    own = True
    captures = "CuPy refuses cuBLAS calls while a stream is captured"

    def _find(self) -> str:
        try:
            self.cupy, self.cublas = import_module("cupy"), import_module("cupy.cublas")
        except ImportError:
            return "CuPy is not installed: pip install 'mansard[cuda]'"
        return ""

    def take_ragged(self, case: Case, ragged: Any) -> Any:
        return ragged

    def batched(self, case: Case) -> dict[str, Product]:
        return batched_peers.cupy_ways(self.cupy, case)

    def matmul(self, A: Any, B: Any, out: Any) -> Any:
        return self.cupy.matmul(A, B, out=out)

    def multiply(self, A: Any, B: Any, out: Any) -> Any:
        return self.cupy.multiply(A, B, out=out)

    def project(self) -> dict[str, Product]:
        def added(V: Any, W: Any, out: Any) -> Any:
            out[...] = W
            rest = self.cublas.gemm("N", "N", V, V.T @ W, out=out, alpha=-1.0, beta=1.0)
            return rest, rest.T @ rest

        return super().project() | {"P = W, cupy.cublas.gemm(V, V.T @ W, P, -1, 1), P.T @ P": added}

    def qr(self, V: Any) -> Any:
        return self.cupy.linalg.qr(V)

    def gram(self, case: Case) -> dict[str, Product]:
        is_complex = case.dtype.startswith("complex")
        dots: dict[str, Product] = {}
        if is_dot(case):
            name = "dotc" if is_complex else "dot"
            dot = getattr(self.cublas, name)
            dots = {f"cupy.cublas.{name}(a, b)": _of_columns(dot), "vdot(a, b)": _of_columns(self.cupy.vdot)}
        if not is_complex:
            return {"A.T @ B": lambda A, B: A.T @ B, **dots}
        ways: dict[str, Product] = {"A.conj().T @ B": lambda A, B: A.conj().T @ B, **dots}
        gemm = self.cublas.gemm
        if case.layout == "row":
            ways["cupy.cublas.gemm('N', 'H', B.T, A.T).T"] = lambda A, B: gemm("N", "H", B.T, A.T).T
        elif case.layout == "col":
            ways["cupy.cublas.gemm('H', 'N', A, B)"] = lambda A, B: gemm("H", "N", A, B)
        return ways


def is_dot(case: Case) -> bool:
    """Whether A^H B is an inner product of two vectors whose elements are adjacent."""
    return case.operation == "gram" and case.M == case.N == 1 and case.layout != "padded"


def _of_columns(dot: Callable[[Any, Any], Any]) -> Product:
    """An inner product of the only columns, as a matrix."""
    return lambda A, B: dot(A[:, 0], B[:, 0]).reshape(1, 1)
