"""Look at every page of a built site in a headless Chromium: errors, pictures, narrow windows, dark colours, search.

`python -m docs.site.browser FOLDER`; `make docs` does it where Chromium is installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import chromium

WIDE, NARROW = 1300, 400  # CSS pixels
CONTRAST = 4.5  # of text to its ground: WCAG's level AA
_PICTURES = """Promise.all([...document.images].map(image => {
  image.loading = "eager";
  return image.decode().then(() => null, () => image.getAttribute("src"));
})).then(all => all.filter(source => source !== null))"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# the lowest contrast of a paragraph, cell or line of code to the first ground behind it that is not transparent
_LEAST_CONTRAST = """(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const parts = numbers(colour).map(v => v / 255);
    const [r, g, b] = parts.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opaque = colour => { const found = numbers(colour); return found.length < 4 || found[3] > 0.9; };
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (opaque(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let least = [21, ""];
  for (const element of [...document.querySelectorAll("p, td, th, li, pre, a.md-nav__link, h1, h2")].slice(0, 200)) {
    const ink = getComputedStyle(element).color;
    if (!element.innerText || !element.offsetParent || !opaque(ink)) continue;
    const pair = [light(ink), light(ground(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < least[0]) least = [ratio, element.innerText.slice(0, 40)];
  }
  return least;
})()"""
# how light the page's own ground is, 0 to 255
_GROUND = """(() => {
  const said = [document.body, document.documentElement].map(one => getComputedStyle(one).backgroundColor);
  return (said.find(colour => !colour.endsWith(", 0)")) || "rgb(255, 255, 255)").match(/[\\d.]+/g).map(Number)[0];
})()"""
_SEARCHED = """(() => {
  const box = document.querySelector(".md-search__input");
  box.focus(); box.value = "QUERY"; box.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
  return document.querySelectorAll(".md-search-result__item").length;
})()"""


def check(site: Path, program: str, pages: Sequence[Path] = ()) -> list[str]:
    """One line for everything that is not as it should be on these pages, or on all."""
    found = []
    with chromium.Tab(program) as tab:
        for page in pages or sorted(site.resolve().rglob("*.html")):
            try:
                troubles = list(troubles_of(tab, page))
            except (TimeoutError, RuntimeError) as error:
                troubles = [f"cannot be looked at: {error}"]
            found += [f"{page.relative_to(site.resolve())}: {trouble}" for trouble in troubles]
        if (site / "search").is_dir() and not _search_finds(tab, site, "cholesky_qr"):
            found.append("index.html: the search does not find cholesky_qr")
    return found


def troubles_of(tab: chromium.Tab, page: Path) -> Iterator[str]:
    """List the faults of a page: in a wide window and light colours, then in a narrow one and dark colours."""
    tab.look(WIDE)
    tab.open(page.as_uri())
    missing = tab.value(_PICTURES)
    yield from (f"picture {source} is not drawn" for source in missing)
    yield from filter(None, map(_said, tab.events))
    for width, dark in ((WIDE, False), (NARROW, True)):
        tab.look(width, dark=dark)
        name = f"{width} px wide{', dark' if dark else ''}"
        if (over := tab.value(_OVERFLOW)) > 0:
            yield f"{name}: the page is {over} px wider than the window"
        if not _within(2.0, lambda dark=dark: (tab.value(_GROUND) < 128) == dark):
            yield f"{name}: the ground is not {'dark' if dark else 'light'}"
        contrast, text = tab.value(_LEAST_CONTRAST)
        if contrast < CONTRAST:
            yield f"{name}: contrast {contrast:.1f} of {text!r}"


def _said(event: dict[str, Any]) -> str:
    """The error that an event of the browser reports, or nothing."""
    method, about = event["method"], event["params"]
    if method == "Runtime.exceptionThrown":
        details = about["exceptionDetails"]
        return f"script: {details.get('exception', {}).get('description') or details['text']}"
    if method == "Log.entryAdded" and about["entry"]["level"] == "error":
        return f"console: {about['entry']['text']} {about['entry'].get('url', '')}"
    if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
        return f"console: {' '.join(str(one.get('value', '')) for one in about['args'])}"
    if method == "Network.loadingFailed" and not about.get("canceled"):
        return f"not loaded: {about['errorText']}"
    return ""


def _search_finds(tab: chromium.Tab, site: Path, query: str) -> bool:
    """Whether the search box has results for a word."""
    tab.look(WIDE)
    tab.open((site / "index.html").resolve().as_uri())
    return _within(10.0, lambda: bool(tab.value(_SEARCHED.replace("QUERY", query))))


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something becomes true in this time: scripts follow the reader's colours a little later."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def main(site: Path) -> int:
    """Check all pages and print what is wrong; returns how much that is."""
    program = chromium.find()
    if program is None:
        print(f"not looked at in a browser: none of {', '.join(chromium.NAMES)} is installed")
        return 0
    found = check(site, program)
    for line in found:
        print(line, file=sys.stderr)
    print(f"in a browser: {len(found)} troubles" if found else "in a browser every page looks right")
    return len(found)


if __name__ == "__main__":
    raise SystemExit(bool(main(Path(sys.argv[1]))))
