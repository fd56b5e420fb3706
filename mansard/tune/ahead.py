"""Compiling a sweep ahead of measuring it: one process per core, so that the device never waits for a compiler."""

from __future__ import annotations

import logging
import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from .. import settings
from ..codegen.geometry import Device
from ..compile import cxx, nvrtc
from ..errors import MansardError
from ..kernels import family_of
from ..plan.problem import Problem
from .search import search_space
from .strategy import STRATEGIES

_SHORT = 60.0  # seconds


def compile_ahead(
    problems: Sequence[Problem],
    device: Device,
    strategy: str,
    limit: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    deadline: float = math.inf,
) -> None:
    """Fill the compile cache with the first batch of every problem. What fails here fails again, and is recorded, when
    the problem is tuned. With a deadline (of `time.monotonic`), half of the time that is left goes to compiling, and
    none if it is short: starting processes takes seconds."""
    jobs, left = settings.current().threads, deadline - time.monotonic()
    if left < _SHORT:
        return
    until = time.time() + left / 2
    if len(problems) < 2 or jobs < 2 or device.backend == "emulated":
        return
    work = partial(_compile_problem, device=device, strategy=strategy, limit=limit, seed=seed, until=until)
    context = multiprocessing.get_context("spawn")  # forking a process that holds a GPU is not safe
    with ProcessPoolExecutor(min(jobs, len(problems)), mp_context=context, initializer=_be_quiet) as pool:
        futures = [pool.submit(work, problem) for problem in problems]
        for done, _ in enumerate(as_completed(futures), 1):
            if progress:
                progress(done, len(futures))


def _be_quiet() -> None:
    """In a process that compiles: whoever started it shows the progress."""
    logging.getLogger("mansard").setLevel(logging.ERROR)


def _compile_problem(problem: Problem, device: Device, strategy: str, limit: int, seed: int, until: float) -> None:
    if time.time() > until:
        return
    family = family_of(problem.operation)
    space = search_space(problem, device, family)
    for config in next(STRATEGIES[strategy](space, limit, seed)):
        if time.time() > until:
            return
        try:
            source = family.emit.source(problem, config, device.backend)
            if device.backend == "cpu":
                cxx.compile_cpu(source)
            else:
                nvrtc.compile_cuda(source, device.arch)
        except MansardError:
            continue
