"""A table of text, as every report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, column names and cells of text; `bad` are the numbers of rows that miss a target."""

    title: str
    columns: tuple[str, ...]
    cells: Sequence[tuple[str, ...]]
    bad: frozenset[int] = frozenset()

    def markdown(self) -> str:
        lines = [f"| {' | '.join(self.columns)} |", "|" + "---|" * len(self.columns)]
        for number, cells in enumerate(self.cells):
            marked = [f"**{cell}**" if number in self.bad and cell else cell for cell in cells]
            lines.append(f"| {' | '.join(marked)} |")
        return "\n".join(lines)
