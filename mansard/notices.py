"""A line about a compilation that keeps its caller waiting: what is compiled, why, and where it is kept.

It goes to the logger `mansard` as a warning, which Python writes to stderr unless the program has set up logging.
Compilations of less than a second are not mentioned, nor is any under `MANSARD_QUIET=1`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from . import settings

AFTER = 1.0  # seconds that a compilation takes before it is mentioned
NAMELESS = "a kernel"
_LOGGER = logging.getLogger("mansard")
_SUBJECT: ContextVar[str] = ContextVar("mansard_compiling", default=NAMELESS)
_IS_ANNOUNCED: ContextVar[bool] = ContextVar("mansard_compiling_announced", default=False)

subject = _SUBJECT.get  # what is being compiled here, for people


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Name what is compiled inside the block."""
    token = _SUBJECT.set(what)
    try:
        yield
    finally:
        _SUBJECT.reset(token)


@contextmanager
def announced(root: Path) -> Iterator[None]:
    """Mention the compilation in the block, into the cache at `root`, if it takes longer than `AFTER`. What it needs
    compiled itself, such as precompiled headers, is part of it."""
    if settings.current().quiet or _IS_ANNOUNCED.get():
        yield
        return
    timer = threading.Timer(AFTER, _LOGGER.warning, (_TEXT, subject(), root))
    timer.daemon = True
    token = _IS_ANNOUNCED.set(True)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _IS_ANNOUNCED.reset(token)


_TEXT = "mansard: compiling %s (once: it is kept in %s; MANSARD_QUIET=1 silences this)"
