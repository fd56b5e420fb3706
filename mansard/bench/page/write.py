"""Write the page of a device: text and tables from Python, pictures by a script inside the page, no network."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import overview
from ..rows import OURS
from ..table import html_table, html_top
from . import statistics
from .points import Point, points

_FIELDS = ("op", "dtype", "size", "x", "k", "set", "who", "pinned", "us", "spread", "limit", "intensity", "gflops",
           "peer", "best", "age", "kernel", "predicted", "joules", "case")  # fmt: skip
_REPEATED = ("op", "dtype", "size", "set", "who", "best", "age", "kernel", "case")  # stored once, as numbers
_WIDTH = "<meta name='viewport' content='width=device-width, initial-scale=1'>"
_SECTIONS = {"roofline": "roofline", "by-size": "by size", "tuning-landscape": "tuning landscape",
             "model-against-measurement": "model", "energy": "energy"}  # fmt: skip
_READING = f"""<p>Share of the device's limit and times the best peer: median, fifth percentile and worst case of the
sets in these results, and which case is worst. Lines in colour have a case below {statistics.LEAST} x the best peer.
Stale rows were measured with kernels that have changed since; of rows of unknown age the kernel was not recorded.
Point at a mark in the pictures to read its row.</p>"""


def write(
    documents: Mapping[str, dict[str, Any]],
    folder: Path,
    earlier: Mapping[str, dict[str, Any]] | None = None,
    report: str = "index.html",
) -> Path:
    """`index.html` of a folder over the results in it, given by the names of their folders; `earlier` results are
    compared with them. `report` is the file in each of these folders that has every number."""
    order = list(overview.SHARES)
    documents = dict(sorted(documents.items(), key=lambda each: order.index(each[1]["family"])))
    found = points(documents)
    device = next(iter(documents.values()))["environment"]["device"]
    parts = [html_top(f"Mansard on {device}"), _WIDTH, f"<style>{_asset('page.css')}</style>"]
    parts.append(_about(documents, report))
    sample = overview.table(list(documents.values()))
    parts += [html_table(sample)] if sample.cells else []
    parts += [html_table(statistics.overview(found)), _READING]
    if earlier is not None:
        parts.append(html_table(statistics.changes(found, points(earlier))))
    parts.append(html_table(statistics.worst(found)))
    places = "".join(f"<section id='{name}'></section>" for name in _SECTIONS)
    parts += ["<noscript>Pictures are drawn by a script in this page.</noscript>", f"<main>{places}</main>",
              f"<script id='data' type='application/json'>{_packed(found, _roofs(documents))}</script>",
              f"<script>{_asset('chart.js')}{_asset('page.js')}</script></body></html>"]  # fmt: skip
    index = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    index.write_text("\n".join(parts))
    return index


def _about(documents: Mapping[str, dict[str, Any]], report: str) -> str:
    """The device, when it was measured, and links to the sections and to the reports of the families."""
    dates = sorted(results["environment"]["date"][:10] for results in documents.values())
    environment = next(iter(documents.values()))["environment"]
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    text = f"Backend {environment['backend']}, measured {when}, Mansard {environment['version']}."
    sections = "".join(f"<a href='#{name}'>{title}</a> " for name, title in _SECTIONS.items())
    links = "".join(f"<a href='{name}/{report}'>{html.escape(name.removeprefix('../'))}</a> " for name in documents)
    return f"<p>{html.escape(text)}</p><nav><p>{sections}</p><p>Every number: {links}</p></nav>"


def _roofs(documents: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The ceilings of the newest run that has some: bytes and operations per second."""
    held = [results["ceilings"] for results in documents.values() if results.get("ceilings")]
    if not held:
        return {}
    names = {"read": "read_bandwidth", "copy": "copy_bandwidth", "fma": "fma", "tensor": "tensor"}
    return {short: held[-1][name] for short, name in names.items()}


def _packed(found: list[Point], roofs: dict[str, Any]) -> str:
    """Points as JSON, by columns; repeated texts are numbers into a list of words."""
    words: dict[str, int] = {}
    columns = {
        name: [words.setdefault(point[name], len(words)) if name in _REPEATED else point[name] for point in found]
        for name in _FIELDS
    }
    data = {"words": list(words), "texts": _REPEATED, "columns": columns, "roofs": roofs, "ours": OURS}
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text()
