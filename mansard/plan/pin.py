"""Pinning: `with ms.pin(VARIANT="tiled", TILE_M=8): ...` fixes some parameters, the library chooses the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from numbers import Integral
from typing import Any

from ..errors import IllegalConfig
from .problem import Options

CURRENT: ContextVar[Options] = ContextVar("mansard_pins", default={})  # noqa: B039  never changed in place


@contextmanager
def pin(**parameters: Any) -> Iterator[None]:
    """Fix parameters of the kernel for the calls inside the block; names are those that `plan.explain()` prints.

    Pins nest and end with the block. Values are integers, flags and names; each is checked against what its parameter
    declares. A combination that no kernel allows raises `IllegalConfig` (a ValueError) with the reason.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.ones((100_000, 8))
    >>> with ms.pin(ROWS=256):
    ...     print(ms.plan("gram", V).choice.origin)
    pinned
    """
    for name, value in parameters.items():
        if not isinstance(value, str | Integral):  # a flag is an integer, too
            raise IllegalConfig(f"pin: {name} is {type(value).__name__}: an integer, True, False or a name is needed")
    token = CURRENT.set({**CURRENT.get(), **parameters})
    try:
        yield
    finally:
        CURRENT.reset(token)


def released() -> Context:
    """A context in which nothing is pinned: for kernels that only prepare what the pinned ones read."""
    return Context()


pins: Callable[[], Options] = CURRENT.get  # what is pinned here and now; every call asks, so it is no function
