"""When each part of a batched factorization runs (Dong's figures 3.4, 3.6 and 3.17), without a profiler.

The parts of `Blocked` (panels, exchanges, triangular solves, products) are wrapped: each notes when it begins and ends,
on a GPU by events of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mansard.operations.factor.blocked import Blocked

PARTS = ("panel", "exchange", "solve", "product")
Clock = Callable[[], Any]  # a mark on the time line
Parts = list[tuple[str, Any, Any]]


def recorded(blocked: Blocked, mark: Clock) -> Parts:
    """Wrap the parts of a factorization; what it does afterwards is noted in the list that is returned."""
    parts: Parts = []

    def around(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            begin = mark()
            result = call(*arguments, **options)
            parts.append((name, begin, mark()))
            return result

        return run

    blocked.leaf = around("panel", blocked.leaf)
    blocked.swaps.apply = around("exchange", blocked.swaps.apply)  # type: ignore[method-assign]
    blocked._solve = around("solve", blocked._solve)  # type: ignore[method-assign]
    blocked._multiply = around("product", blocked._multiply)  # type: ignore[method-assign]
    return parts


def shares(parts: list[tuple[str, float, float]]) -> dict[str, float]:
    """The share of every part in the time from the first mark to the last, which may have gaps."""
    whole = max(end for _, _, end in parts) - min(begin for _, begin, _ in parts)
    return {name: sum(end - begin for part, begin, end in parts if part == name) / whole for name in PARTS}
