"""Compiles the kernels of all cases before the clock starts, on all cores: compilers wait inside the library call or in
a process of their own, so threads suffice. Afterwards every plan finds its binary in the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from .. import settings
from ..codegen.instantiate import Source
from ..compile import cxx, nvrtc
from ..errors import MansardError
from ..plan import dispatch
from ..plan.pin import pin
from .cases import Case
from .peers import Peer
from .progress import Progress


def compiler(backend: Any) -> Callable[[Source], Any] | None:
    """The function that compiles for the backend, None where nothing is compiled."""
    if backend.name == "cuda":
        return lambda source: nvrtc.compile_cuda(source, backend.device.arch)
    if backend.name == "cpu":
        return cxx.compile_cpu
    if backend.name == "emulated":
        return lambda source: cxx.compile_emulated(source, settings.current().sanitize)
    return None


def sources(cases: Iterable[Case], backend: Any) -> list[Source]:
    """The distinct texts the cases need; a case whose pins are illegal needs none and says so when it is run."""
    texts: dict[str, Source] = {}
    for case in cases:
        for problem in case.problems():
            try:
                with pin(**dict(case.pins)):
                    choice = dispatch.choose(problem, backend.device)
            except MansardError:
                continue
            if choice.config is not None:
                source = choice.family.emit.source(problem, choice.config, backend.name)
                texts[source.text] = source
    return list(texts.values())


def build_all(
    cases: Iterable[Case], backend: Any, until: float | None = None, peers: Iterable[Peer] = ()
) -> int:  # fmt: skip
    """Compile what the cases need, in their order, for us and for peers; returns how many texts. A text that fails is
    reported by its case, one that was not reached `until` (of `time.monotonic`) is compiled when its case is run."""
    cases, compile_one = list(cases), compiler(backend)
    needed: list[Callable[[], Any]] = []
    if compile_one is not None:
        needed += [partial(compile_one, source) for source in sources(cases, backend)]
    present = [peer for peer in peers if not peer.missing and type(peer).build is not Peer.build]
    needed += [partial(peer.build, case) for case in cases for peer in present if peer.takes_part(case)]
    if not needed:
        return 0
    workers = max(1, min(settings.current().threads, 16, len(needed)))
    with Progress("compiling", len(needed)) as shown, ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(one) for one in needed]
        for done in as_completed(waiting):
            done.exception()
            shown.step()
            if until is not None and time.monotonic() > until:
                pool.shutdown(cancel_futures=True)
                break
    return len(needed)
