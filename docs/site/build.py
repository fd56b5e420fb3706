"""Assemble the pages, run MkDocs in strict mode, check the links of what it made."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path

from . import gallery, nav, performance, reference, stage, support
from .links import dead_links
from .tables import Tables

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def build(out: Path) -> list[str]:
    """Build the site in `out`, whose content is replaced; returns its dead links, one line each."""
    tables, devices = Tables(), performance.devices(ROOT)
    generated = {**reference.pages(), **support.pages(), **gallery.pages(ROOT), **performance.pages(devices)}
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder).resolve() / "pages"
        # a mirror of the repository, so that links between pages stay as they are
        stage.Stage(ROOT, pages, generated, reference.places(), tables).run()
        shutil.copytree(HERE / "assets", pages / "assets")
        _mkdocs(pages, out)
    tables.put_back(out)
    performance.write_interactive(devices, out)
    return dead_links(out)


def _mkdocs(pages: Path, out: Path) -> None:
    """MkDocs with docs/site/mkdocs.yml and a table of contents of the pages that exist."""
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # Material prints an announcement otherwise
    from mkdocs.commands.build import build as run
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    config = load_config(
        str(HERE / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(out.resolve()), nav=nav.table(pages), strict=True
    )
    config.plugins.on_startup(command="build", dirty=False)
    try:
        run(config)
    except Abort as error:
        raise SystemExit(f"the site has warnings: {error}") from None
    finally:
        config.plugins.on_shutdown()
    (out / "404.html").unlink(missing_ok=True)  # of servers; its links begin at a root
