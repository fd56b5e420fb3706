"""A^T B by slices of the long dimension: a batched product of the vendor's and a sum, as CUTLASS's split-K does it.

Ernst et al. compare with CUTLASS (figure 18). Its parts are in every library: the rows are cut into equal slices, each
slice gives a product, and the products are added.
"""

from __future__ import annotations

from typing import Any

from mansard.bench.cases import Case
from mansard.bench.peers import Product, TorchPeer, without_cuda

SLICES = (64, 512, 4096)


class SplitPeer(TorchPeer):
    """PyTorch on the CPU."""

    name = "split K (bmm and sum)"

    def takes_part(self, case: Case) -> bool:
        return case.operation == "gram" and bool(_slices(case)) and super().takes_part(case)

    def gram(self, case: Case) -> dict[str, Product]:
        return {f"bmm of {slices} slices, sum": _split(self.torch, slices) for slices in _slices(case)}


class SplitCudaPeer(SplitPeer):
    """PyTorch on the GPU: cuBLAS's batched product."""

    name = "cuBLAS, split K (bmm and sum)"

    def _find(self) -> str:
        return super()._find() or without_cuda(self.torch)

    def take(self, array: Any) -> Any:
        return self.torch.from_dlpack(array)

    def give(self, result: Any) -> Any:
        from importlib import import_module

        return import_module("cupy").from_dlpack(result)


def _slices(case: Case) -> list[int]:
    """Numbers of slices that are not wider than long; none of complex operands, and of those that reshaping copies."""
    if case.dtype.startswith("complex") or case.layout != "row":
        return []
    return [slices for slices in SLICES if case.K // slices >= max(case.M, case.N)]


def _split(torch: Any, slices: int) -> Product:
    def run(A: Any, B: Any) -> Any:
        even = len(A) // slices * slices  # rows that slices divide; the rest is one product more
        cut_a, cut_b = (X[:even].reshape(slices, -1, X.shape[1]) for X in (A, B))
        sums = torch.bmm(cut_a.mT, cut_b).sum(0)
        return torch.addmm(sums, A[even:].mT, B[even:]) if even < len(A) else sums

    return run
