"""Build the site: `python -m docs.site [--out FOLDER]`. Warnings are errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .build import ROOT, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site (build/site)")
    out = parser.parse_args().out
    dead = build(out)
    for line in dead:
        print(line, file=sys.stderr)
    print(f"{len(dead)} dead links" if dead else out / "index.html")
    return 1 if dead else 0


if __name__ == "__main__":
    raise SystemExit(main())
