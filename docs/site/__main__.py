"""Build the site: `python -m docs.site [--out FOLDER]`. Warnings are errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import browser
from .build import ROOT, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site (build/site)")
    parser.add_argument("--no-browser", action="store_true", help="do not look at the pages in Chromium")
    given = parser.parse_args()
    dead = build(given.out)
    for line in dead:
        print(line, file=sys.stderr)
    troubles = 0 if given.no_browser else browser.main(given.out)
    print(f"{len(dead)} dead links" if dead else given.out / "index.html")
    return 1 if dead or troubles else 0


if __name__ == "__main__":
    raise SystemExit(main())
