"""Small cases of operations on batches for the tests of the benchmark."""

from __future__ import annotations

from typing import Any

from mansard.bench import peers
from mansard.bench.cases import Case

SHAPES: tuple[tuple[str, tuple[int, int, int], dict[str, Any]], ...] = (
    ("gemv", (5, 1, 50), {"inner": 7}), ("gemv", (5, 1, 50), {"inner": 7, "form": "T"}),
    ("gemv", (8, 1, 50), {"form": "T"}), ("trsv", (6, 1, 50), {}), ("trsv", (6, 1, 50), {"form": "U"}),
    ("trsm", (6, 3, 50), {}), ("trsm", (6, 3, 50), {"form": "U"}), ("ragged", (9, 9, 60), {}),
    ("ragged", (9, 1, 60), {}),
)  # fmt: skip


def routine(name: str, dtype: str, sizes: tuple[int, int, int], **more: Any) -> Case:
    return Case("x", dtype, *sizes, operation=name, **more)


class OnlyOne:
    """A peer that knows one of its spellings."""

    def __init__(self, peer: peers.Peer, label: str) -> None:
        self.peer, self.label = peer, label

    def __getattr__(self, name: str) -> Any:
        return getattr(self.peer, name)

    def spellings(self, case: Case) -> dict[str, peers.Product]:
        return {self.label: self.peer.spellings(case)[self.label]}
