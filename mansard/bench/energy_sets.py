"""Sets of cases for `--energy`: factorizations beside the vendor's, and configurations of one problem side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..kernels import family_of
from ..plan.explain import NOMINAL
from ..tune.search import SearchSpace
from .batched.routines import count
from .cases import Case, Sets, Size
from .factor.cases import squares

_SIZES = (16, 32, 64)  # of matrices that are factored
TRADEOFF = "tradeoff"
_CONFIGS = 8  # of a trade-off


def greenup(size: Size) -> list[Case]:
    """LU, QR and Cholesky factors of 16 x 16, 32 x 32 and 64 x 64 matrices, for joules beside the vendor's."""
    return squares("greenup", size, ("lu", "qr", "cholesky"), _SIZES, ("float64",))


def _pinned(case: Case, size: Size) -> list[Case]:
    """The case with each of the rules' configurations pinned, those of different variants and shapes first."""
    device, family = size.device or NOMINAL["sm_90a"], family_of(case.operation)
    configs = SearchSpace(case.problem(), device, family, []).defaults(_CONFIGS)
    pins = [tuple(family.space.to_dict(config).items()) for config in configs]
    return [replace(case, set=TRADEOFF, pins=each, peers=False) for each in pins]


def _tradeoff(make: Callable[[Size], Case], what: str) -> Callable[[Size], list[Case]]:
    def tradeoff(size: Size) -> list[Case]:
        return _pinned(make(size), size)

    tradeoff.__doc__ = f"Time against energy: configurations of {what}, float64."
    return tradeoff


SETS: dict[str, Sets] = {
    "factor": {"greenup": greenup},
    "gram": {TRADEOFF: _tradeoff(
        lambda size: Case("", "float64", 32, 32, size.rows("float64", 32)), "gram of 32 columns"
    )},
    "matmul": {TRADEOFF: _tradeoff(
        lambda size: Case("", "float64", 32, 32, size.rows("float64", 32), operation="tsmm"), "tall times 32 x 32"
    )},
    "batched": {TRADEOFF: _tradeoff(
        lambda size: Case("", "float64", 16, 16, count(size, "float64", 3 * 256), operation="gemm"), "16 x 16 products"
    )},
}  # fmt: skip
