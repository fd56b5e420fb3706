"""A table of text, as every report shows it: in Markdown, on the terminal, and on a page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; font-size: 13px; margin: .6em 0 1.6em; }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { background: #f3f5f7; } td:first-child, th:first-child { text-align: left; }
tr.bad td { background: #fbe3dc; } img { max-width: 100%; } .bad { color: #a33a00; } .wide { overflow-x: auto; }
"""


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


def html_top(title: str) -> str:
    """The head of a page, its style and its title."""
    head = f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
    return f"{head}\n<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>"


def html_table(table: Table) -> str:
    """A table below its title, as part of a page."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in cells) for cells in table.cells)
    body = "".join(f"<tr{' class=bad' if n in table.bad else ''}>{line}</tr>" for n, line in enumerate(lines))
    return f"<h2>{html.escape(table.title)}</h2><div class='wide'><table><tr>{head}</tr>{body}</table></div>"
