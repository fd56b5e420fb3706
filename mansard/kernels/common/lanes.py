"""Shared memory of kernels in which a few lanes of a warp have a matrix: gemm, gemv, trsm and trmm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...plan.problem import Problem
from . import images
from .configs import up
from .images import Image


def illegal(c: Any, name: str, is_shared: bool, shapes: Callable[[], tuple[Image, Image]]) -> str | None:
    """Why a team, or the way out of its results, cannot be; `shapes` are those of operand `name`, whose place results
    take with OUT=back, and of the results."""
    if min(c.LANES_M, c.LANES_N, c.PER_TEAM, c.STAGES, c.WARPS) < 1 or 32 % (c.LANES_M * c.LANES_N):
        return f"a team of {c.LANES_M} x {c.LANES_N} lanes does not divide a warp, or a count is not positive"
    if c.OUT not in ("own", "back"):
        return f"OUT={c.OUT!r} is not one of own, back"
    if c.OUT == "back" and is_shared:
        return f"OUT=back: {name} is needed again"
    if c.OUT == "back" and c.PER_TEAM > 1:
        before, result = shapes()
        if before != result or before.shifted:
            return f"OUT=back: a team's results would not lie exactly where its {name} was"
    return None


def group(c: Any) -> int:
    """Matrices of a warp per turn."""
    return 32 // int(c.LANES_M * c.LANES_N) * int(c.PER_TEAM)


def are_shared(problem: Problem) -> dict[str, bool]:
    """Whether one matrix of A, and one of B, serves all; such a one stays in shared memory."""
    return {side: getattr(problem, f"stack_{side}") == "shared" for side in "ab"}


def plain_images(problem: Problem, c: Any) -> dict[str, Image]:
    """Images of A, B and C without padding: of a group, or of the one matrix that serves all."""
    alone = are_shared(problem)
    return {side: images.of_operand(problem, side, 1 if alone.get(side) else group(c)) for side in "abc"}


def stage_and_shared_bytes(
    problem: Problem, c: Any, inputs: Mapping[str, Image], result: Image, back: str = ""
) -> tuple[int, int]:
    """Bytes of one stage of a warp, and of all shared memory of a block.

    A stage holds the `inputs` that are not shared, and the result in the place of the input named `back`; without one
    the result has a place of its own per warp.
    """
    alone = are_shared(problem)
    stage = sum(
        max(image.bytes, result.bytes if name == back else 0) for name, image in inputs.items() if not alone[name]
    )
    common = sum(image.bytes for name, image in inputs.items() if alone[name])
    own = 0 if back else result.bytes
    return stage, up(common + c.WARPS * (c.STAGES * stage + own), 128) * 128
