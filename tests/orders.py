"""The emulator's thread order, set for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mansard import settings


@contextmanager
def in_order(order: str) -> Iterator[None]:
    """Run emulated kernels in this order of threads: see `settings`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MANSARD_EMULATED_ORDER", order)
        settings.reread()
        try:
            yield
        finally:
            patch.undo()
            settings.reread()
