"""Instantiation text and launch geometry of `bidiagonal`, for GPUs and their emulation."""

from __future__ import annotations

from functools import partial

from ....codegen.instantiate import Source
from ....plan.problem import Problem
from ..two_sided import reductions
from ..two_sided.reductions import Config
from . import spec, work


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    return reductions.source(work, spec.POINTERS, {}, problem, config, target)


kernel = partial(reductions.kernel, source, work)
