"""Resources of the `lanes` configurations of gemm: the numbers of kernel_lanes.cuh, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common.configs import up
from ...common.images import Image
from ...common.lanes import group, plain_images, stage_and_shared_bytes


@dataclass(frozen=True)
class LanesShape:
    """What decides legality; the kernel asserts that it agrees."""

    a: Image
    b: Image
    c: Image
    group: int  # matrices per warp and turn
    rows: int  # of C per lane
    columns: int
    step: int  # along K
    stage_bytes: int
    shared_bytes: int
    wavefronts: float  # accesses to shared memory per group, between the copies in and out


@lru_cache(maxsize=8192)
def lanes_shape(problem: Problem, c: Any) -> LanesShape:
    """Of a problem whose C is row-major."""
    lanes = (c.LANES_M, c.LANES_N)
    steps = {
        "a": ("run" if problem.layout_a == "col" else "line", ""),
        "b": ("", "line" if problem.layout_b == "col" else "run"),
        "c": ("line", "run"),
    }
    plain = plain_images(problem, c)
    a, b, result = (images.spread(plain[side], lanes, steps[side]) for side in "abc")
    if c.OUT == "back" and c.PER_TEAM > 1 and plain["a"] == plain["c"]:
        result = a
    back = "a" if c.OUT == "back" else ""
    stage, shared = stage_and_shared_bytes(problem, c, {"a": a, "b": b}, result, back)
    run_m, run_n = a.read if problem.layout_a == "col" else 1, 1 if problem.layout_b == "col" else b.read
    rows, columns = up(problem.M // run_m, c.LANES_M) * run_m, up(problem.N // run_n, c.LANES_N) * run_n
    step = max(1 if problem.layout_a == "col" else a.read, b.read if problem.layout_b == "col" else 1)
    reads = rows * images.accesses(a, lanes, steps["a"]) + columns * images.accesses(b, lanes, steps["b"])
    put = gcd(run_n, result.read)
    laid = rows * columns * (32 * put * problem.itemsize / 128 + 0.5) / put
    return LanesShape(
        a, b, result, group(c), rows, columns, step, stage, shared,
        c.PER_TEAM * (problem.K * reads + laid),
    )  # fmt: skip
