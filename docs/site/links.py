"""Dead links of a built site: pages, pictures, scripts and anchors that are referred to and do not exist."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"a": "href", "link": "href", "img": "src", "script": "src"}
_TAG = re.compile(r"<([a-z]\w*)\b((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"""\b(href|src|id|name)=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_SCRIPT = re.compile(r"(<script\b[^>]*>).*?(?=</script>)", re.DOTALL)  # what scripts write is looked at in a browser


class _Page(NamedTuple):
    """Targets (tag, target) and anchors of one page."""

    targets: list[tuple[str, str]]
    anchors: set[str]


def _read(path: Path) -> _Page:
    page = _Page([], set())
    for tag, text in _TAG.findall(_SCRIPT.sub(r"\1", path.read_text())):
        given = {name: unescape("".join(value)) for name, *value in _ATTRIBUTE.findall(text)}
        page.anchors.update(filter(None, (given.get("id"), given.get("name"))))
        target = given.get(ATTRIBUTES.get(tag, ""))
        if target:
            page.targets.append((tag, target))
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
