"""Shared memory of kernels in which a few lanes of a warp have a matrix: gemm, gemv and trsm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...plan.problem import Problem
from . import images
from .configs import up
from .images import Image


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
