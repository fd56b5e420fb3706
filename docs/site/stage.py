"""Copy the pages of the repository into a folder for MkDocs, with the pictures and sources that they link to.

The folder mirrors the repository: `docs/families/gram.md` lies in `docs/families`, and its links stay as they are. A
link to a source file leads to a page made of that file; one to a folder, to the folder's README or summary.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .tables import Tables

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "papers/**/*.md", "results/**/*.md",
         "examples/hydrodynamics/README.md")  # fmt: skip
PICTURES = (".png", ".svg", ".jpg")
LANGUAGES = {".py": "python", ".hpp": "cpp", ".cuh": "cpp", ".cpp": "cpp", ".toml": "toml", ".json": "json"}
LONG = 60_000  # characters; tables of rows beyond it are left out of the search
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_TO_FOLDER = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)\s#:]+)\)")
FOLDERS = {"examples/gallery": "docs/gallery.md"}  # folders whose page is elsewhere
_FENCE = re.compile(r"(^```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(?<![\[`])`ms\.([\w.]+)(\([^`]*\))?`(?!`)")


class Stage:
    """Pages of `root`, and `generated` ones by their paths, written below `out`."""

    def __init__(
        self, root: Path, out: Path, generated: dict[str, str], places: dict[str, str], tables: Tables
    ) -> None:
        self.root, self.out, self.generated, self.places, self.tables = root, out, generated, places, tables
        found = [path for pattern in PAGES for path in root.glob(pattern)]
        self.pages = {str(path.relative_to(root)) for path in found} | set(generated)
        self.sources: set[str] = set()

    def run(self) -> None:
        """Write every page, then those of the sources that pages link to."""
        for name in sorted(self.pages):
            text = self.generated.get(name) or (self.root / name).read_text()
            self._write(name, self._page(name, text))
        for name in sorted(self.sources):
            text = (self.root / name).read_text(errors="replace")
            language = LANGUAGES.get(Path(name).suffix, "text")
            fence = f"---\nsearch:\n  exclude: true\n---\n# `{name}`\n\n````{language}\n{text}````\n"
            self._write(f"{name}.md", fence)

    def _write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _page(self, name: str, text: str) -> str:
        """A page with its links resolved, outside code; names of public functions lead to the reference."""
        parts = _FENCE.split(text)
        for at in range(0, len(parts), 2):
            parts[at] = self.tables.taken(parts[at])
            parts[at] = _TO_FOLDER.sub(lambda match: self._without_page(name, match), parts[at])
            parts[at] = _LINK.sub(lambda match: self._link(name, match), parts[at])
            if name.startswith("docs/") and not name.startswith(("docs/reference", "docs/log")):
                parts[at] = self._named(name, parts[at])
        head = "---\nsearch:\n  exclude: true\n---\n" if len(text) > LONG else ""
        return head + "".join(parts)

    def _page_of(self, folder: str) -> str | None:
        """The page that a link to a folder leads to."""
        places = (FOLDERS.get(folder), f"{folder}/README.md", f"{folder}/summary.md")
        return next((place for place in places if place in self.pages), None)

    def _without_page(self, page: str, match: re.Match[str]) -> str:
        """The text alone of a link to a folder that has no page."""
        aim = os.path.normpath(os.path.join(os.path.dirname(page), match.group(2)))
        return match.group(1) if (self.root / aim).is_dir() and self._page_of(aim) is None else match.group()

    def _link(self, page: str, match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        aim = os.path.normpath(os.path.join(os.path.dirname(page), target))
        if aim in self.pages:
            return match.group()
        if (self.root / aim).is_dir() and (found := self._page_of(aim)):
            return f"{before}{os.path.relpath(found, os.path.dirname(page) or '.')}{anchor or ''}{after}"
        if not (self.root / aim).is_file():
            raise SystemExit(f"{page}: {target} does not exist")
        if aim.endswith(PICTURES):
            (self.out / aim).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / aim, self.out / aim)
            return match.group()
        self.sources.add(aim)
        return f"{before}{target}.md{after}"

    def _named(self, page: str, text: str) -> str:
        """`ms.gram(...)` becomes a link to its description, at its first mention in a paragraph outside headings."""
        seen: set[str] = set()

        def link(match: re.Match[str]) -> str:
            place = self.places.get(match.group(1))
            if place is None or match.group(1) in seen:
                return match.group()
            seen.add(match.group(1))
            file, _, anchor = place.partition("#")
            return f"[{match.group()}]({os.path.relpath(file, os.path.dirname(page))}#{anchor})"

        lines = text.split("\n")
        return "\n".join(line if line.startswith("#") else _NAME.sub(link, line) for line in lines)
