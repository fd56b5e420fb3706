"""Long tables as HTML, past Markdown: thousands of rows of numbers take it ten times as long as everything else."""

from __future__ import annotations

import html
import re
from pathlib import Path

LONG = 30  # rows from which a table is written as HTML
_TABLE = re.compile(r"^\|.*\|\n\|(?:\s*:?-+:?\s*\|)+\n(?:\|.*\|(?:\n|$))+", re.MULTILINE)
_ROW = re.compile(r"(?<!\\)\|")
_BOLD, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`([^`]+)`")


class Tables:
    """Long tables of all pages: a mark in the Markdown, which is replaced in the pages that were built."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def taken(self, text: str) -> str:
        """The text with marks in place of its long tables that have no links."""
        return _TABLE.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        table = match.group()
        if table.count("\n") < LONG or "](" in table:
            return table
        self.made.append(_html(table))
        return f'<div class="rows" data-table="{len(self.made) - 1}"></div>\n'

    def put_back(self, site: Path) -> None:
        """Write the tables into the pages of a site."""
        for page in site.rglob("*.html"):
            text = page.read_text()
            if 'data-table="' in text:
                page.write_text(re.sub(r'<div class="rows" data-table="(\d+)"></div>', self._found, text))

    def _found(self, match: re.Match[str]) -> str:
        return self.made[int(match.group(1))]


def _html(table: str) -> str:
    head, _, *rows = table.strip().split("\n")
    body = "".join(_line(row, "td") for row in rows)
    return f"<table><thead>{_line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _line(row: str, tag: str) -> str:
    cells = _ROW.split(row.strip())[1:-1]
    return f"<tr>{''.join(f'<{tag}>{_cell(cell)}</{tag}>' for cell in cells)}</tr>"


def _cell(text: str) -> str:
    plain = html.escape(text.strip().replace(r"\|", "|"), quote=False)
    return _BOLD.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", plain))
