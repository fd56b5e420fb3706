"""When each part of a batched factorization runs (Dong's figures 3.4, 3.6 and 3.17), without a profiler.

The parts of `Blocked` (panels, exchanges, triangular solves, products) are wrapped: each notes when it begins and ends,
on a GPU by events of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mansard.operations.factor.blocked import Blocked
from mansard.operations.factor.task import Found, Task, zeros

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


def rehearse(blocked: Blocked, factor: Callable[[], Any]) -> None:
    """Run an LU or Cholesky factorization with all its parts side by side, so that their kernels are compiled together.
    What it computes means nothing; afterwards the parts are as they were."""
    before = blocked.leaf, blocked.swaps.apply
    with ThreadPoolExecutor() as pool:
        pending = []

        def aside(call: Callable[..., Any]) -> Callable[..., None]:
            return lambda *arguments, **options: pending.append(pool.submit(call, *arguments, **options))

        def leaf(task: Task, F: Any, A: Any) -> Found:
            pending.append(pool.submit(before[0], task, F, A))
            width = min(F.shape[-2:])
            made = {"PIVOTS": (*F.shape[:-2], width), "INFO": F.shape[:-2]}
            return {name: zeros(blocked.kind, tuple(shape), "int32", F) for name, shape in made.items()}

        blocked.leaf = leaf
        blocked.swaps.apply = aside(before[1])  # type: ignore[method-assign]
        blocked._solve = aside(blocked._solve)  # type: ignore[method-assign]
        blocked._multiply = aside(blocked._multiply)  # type: ignore[method-assign]
        factor()
    for each in pending:
        each.result()
    blocked.leaf, blocked.swaps.apply = before  # type: ignore[method-assign]
    del blocked._solve, blocked._multiply


def shares(parts: list[tuple[str, float, float]], names: Sequence[str] = PARTS) -> dict[str, float]:
    """The share of every part in the time from the first mark to the last, which may have gaps."""
    whole = max(end for _, _, end in parts) - min(begin for _, begin, _ in parts)
    return {name: sum(end - begin for part, begin, end in parts if part == name) / whole for name in names}
