"""How many cases a machine goes through: all where there is a GPU, some where each is compiled for the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from conftest import UNAVAILABLE

Case = TypeVar("Case")


def spared(cases: Sequence[Case], step: int = 2) -> Sequence[Case]:
    """Every case on a GPU, every `step`-th otherwise."""
    return cases if UNAVAILABLE["cuda"]() is None else cases[::step]
