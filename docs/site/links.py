"""Dead links of a built site: pages, pictures, scripts and anchors that are referred to and do not exist."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"a": "href", "link": "href", "img": "src", "script": "src"}


class _Page(HTMLParser):
    """Targets and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[tuple[str, str]] = []  # tag, target
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(filter(None, (given.get("id"), given.get("name"))))
        target = given.get(ATTRIBUTES.get(tag, ""))
        if target:
            self.targets.append((tag, target))


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def dead_links(site: Path) -> list[str]:
    """One line for each link that leads nowhere, and for each picture, style or script that is not on the disk."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for tag, target in page.targets:
            why = _dead(path, tag, target, pages)
            if why:
                found.append(f"{path.relative_to(site.resolve())}: {target}: {why}")
    return found


def _dead(path: Path, tag: str, target: str, pages: dict[Path, _Page]) -> str | None:
    """Why the target does not exist, or None if it does. Anchors that scripts make (`__`) are not looked for."""
    parts = urlsplit(target)
    if parts.scheme in ("http", "https") or target.startswith("//"):
        return "needs a network" if tag != "a" else None
    if parts.scheme:
        return None
    aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not aim.exists():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and not anchor.startswith("__") and aim in pages and anchor not in pages[aim].anchors:
        return "no such anchor"
    return None
