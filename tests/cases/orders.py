"""The emulator's thread orders: one set for a while, and all of them for a list of cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sparing import SHARE

from mansard import settings

TURNS = ("greedy", "reverse", "greedy-reverse", "random")  # other tests of the same cases run forward


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


def thread_orders(cases: Sequence[Any], case_id: Callable[[Any], str]) -> pytest.MarkDecorator:
    """Parametrize a test with `case, order`: each case in one order, in another from slice to slice."""
    pairs = [(case, TURNS[(number + SHARE.seed) % len(TURNS)]) for number, case in enumerate(cases)]
    return pytest.mark.parametrize("case, order", pairs, ids=lambda one: one if isinstance(one, str) else case_id(one))
