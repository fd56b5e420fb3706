"""Greedy thread orders find missing barriers that other orders hide."""

from __future__ import annotations

from typing import Any

import lu_cases
import pytest
from conftest import usable
from lu_cases import exact
from orders import in_order
from planted import planted

from mansard.backends.emulated import ORDERS
from mansard.kernels.factor.lu import spec
from mansard.kernels.factor.lu.space import Tile

BARRIER = "  __syncthreads();  // image is about to be overwritten by offers; all warps have read it\n"


def test_only_greedy_orders_see_the_barrier_of_lu_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers of one warp overwrite the image that another has still to read; votes and shuffles lie between."""
    usable("emulated")
    whole = lu_cases.emit.kernel

    def without_barrier(*arguments: Any) -> Any:
        return planted(whole(*arguments), "kernels/factor/lu/kernel_tile.cuh", BARRIER, "")

    monkeypatch.setattr(lu_cases.emit, "kernel", without_barrier)
    wrong = set()
    for order in ORDERS:
        with in_order(order):
            try:
                exact(spec.problem("float64", 40, 40, 1, want="inverse", layout_a="col"), Tile(2, 4), "emulated")
            except AssertionError:
                wrong.add(order)
    assert wrong == {"greedy", "greedy-reverse"}


def test_tiles_of_lu_are_exact_in_greedy_orders() -> None:
    """The case above, with its barrier."""
    usable("emulated")
    for order in ("greedy", "greedy-reverse"):
        with in_order(order):
            exact(spec.problem("float64", 40, 40, 1, want="inverse", layout_a="col"), Tile(2, 4), "emulated")
