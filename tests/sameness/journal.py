"""Recordings as JSON lines: a first line about the tree, then one line per problem or call, appended as they come."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Journal:
    """A recording under way. Opened again it goes on where it stopped, if the tree is still the same."""

    def __init__(self, path: Path, about: Line) -> None:
        self._path = path
        found, lines = read(path) if path.exists() else ({}, {})
        if found and found != about:
            changed = ", ".join(sorted(name for name in {*found, *about} if found.get(name) != about.get(name)))
            raise SystemExit(f"{path} was recorded with another {changed}: name another file, or remove it")
        self.lines = lines
        self._write({"about": about}, lines)

    def append(self, line: Line) -> None:
        """Add one line; it is in the file when this returns."""
        self.lines[line["name"]] = line
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def finish(self) -> None:
        """Sort the file by name."""
        about, lines = read(self._path)
        self._write({"about": about}, dict(sorted(lines.items())))

    def _write(self, first: Line, lines: dict[str, Line]) -> None:
        draft = self._path.with_name(self._path.name + ".tmp")
        draft.write_text("".join(json.dumps(line) + "\n" for line in (first, *lines.values())))
        os.replace(draft, self._path)


def read(path: Path) -> tuple[Line, dict[str, Line]]:
    """What a recording says about itself, and its lines by name; `path` may be compressed (.gz).

    A last line that was cut off while it was written is left out.
    """
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    about: Line = {}
    lines: dict[str, Line] = {}
    for text in content.decode().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "about" in line:
            about = line["about"]
        else:
            lines[line["name"]] = line
    return about, lines
