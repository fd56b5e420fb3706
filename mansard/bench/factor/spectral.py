"""GPU peers of eigenvalues and singular values besides CuPy's and PyTorch's usual calls: cuSOLVER's batched routines by
their names, its approximate ones, reductions matrix by matrix, and JAX."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .. import labels
from ..cases import Case
from ..peers import CupyPeer, Peer
from .cusolver import WIDEST_JACOBI, Cusolver
from .entries import Effort, effort_of
from .operations import RAGGED, REDUCTIONS, TWO_SIDED
from .peers import Ways

_SINGULAR = ("svd", "svdvals")


class CusolverSpectral(CupyPeer):
    """XsyevBatched, gesvdjBatched (up to 32 rows), and gebrd and sytrd, which take one matrix at a time."""

    name = "cuSOLVER"
    captures = "workspaces of cuSOLVER are allocated by the call"

    def takes_part(self, case: Case) -> bool:
        if case.form == RAGGED or case.mode != "device":
            return False
        wide = case.operation in _SINGULAR and case.M > WIDEST_JACOBI
        return case.operation in (*TWO_SIDED, *REDUCTIONS) and not wide

    def spellings(self, case: Case) -> Ways:
        return Cusolver(self.cupy, case.dtype).ways(case.operation, case.M)


class Approximate(CupyPeer):
    """gesvdaStridedBatched, by A^H A: faster, and not accurate. Its rows have a status of their own; ratios to the best
    peer leave them out."""

    name = "cuSOLVER gesvda, approximate"
    captures = CusolverSpectral.captures
    facts: dict[str, Any] = {"status": labels.APPROXIMATE}  # noqa: RUF012  never changed

    def takes_part(self, case: Case) -> bool:
        return case.operation in _SINGULAR and case.form != RAGGED and case.mode == "device"

    def spellings(self, case: Case) -> Ways:
        way = Cusolver(self.cupy, case.dtype).approximate(case.operation == "svd")
        return {"cusolver gesvdaStridedBatched": way}


class JaxSpectral(Peer):
    """JAX, which compiles every size of a batch anew: a few sizes of float64, on a part of the batch."""

    name = "JAX"
    captures = "JAX runs on streams of its own"
    _SIZES, _PART = (8, 32, 64, 128), 512

    def _find(self) -> str:
        return "" if find_spec("jax") else "JAX is not installed: pip install jax"

    @cached_property
    def jax(self) -> Any:
        """The module, imported by the first case that it takes part in: that takes seconds."""
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        if all(one.platform != "gpu" for one in jax.devices()):
            raise RuntimeError("this JAX finds no GPU")
        return jax

    def takes_part(self, case: Case) -> bool:
        known = case.operation in ("eigh", "svd") and case.M in self._SIZES and case.dtype == "float64"
        large = case.temperature == "cold" and case.set != "two_sided"  # which has no time for compilers
        return known and case.form != RAGGED and case.mode == "device" and large

    def effort(self, case: Case) -> Effort:
        """One size of batch, so that one program is compiled."""
        count = min(case.K, self._PART)
        return effort_of(case)._replace(first=count, most=count)

    def take(self, array: Any) -> Any:
        return self.jax.numpy.from_dlpack(array)

    def give(self, result: Any) -> Any:
        return import_module("cupy").from_dlpack(result)

    def spellings(self, case: Case) -> Ways:
        linalg, parts = self.jax.numpy.linalg, ("W", "Z") if case.operation == "eigh" else ("U", "W", "VH")
        call = getattr(linalg, case.operation)

        def run(A: Any, B: Any) -> dict[str, Any]:
            return dict(zip(parts, self.jax.block_until_ready(tuple(call(A))), strict=True))

        return {f"numpy.linalg.{case.operation}(A)": run}
