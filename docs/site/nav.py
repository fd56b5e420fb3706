"""The table of contents: the pages below that exist, in this order, under the title that each one gives itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import reference

TABLE: dict[str, tuple[str, ...]] = {
    "Start": ("README.md", "docs/start.md", "docs/first-calls.md", "docs/gallery.md"),
    "How to": ("docs/how-to/*.md", "docs/solvers.md", "docs/torch.md", "docs/jax.md", "docs/finite-elements.md",
               "docs/distributed.md", "docs/energy.md", "docs/processes.md", "examples/hydrodynamics/README.md"),
    "Reference": ("docs/reference/index.md", *reference.files(), "docs/support.md", "docs/differences.md",
                  "docs/limits.md", "docs/vocabulary.md", "CHANGELOG.md"),
    "Explanation": ("docs/follow-a-call.md", "docs/choice.md", "docs/percent-of-limit.md", "docs/accuracy.md",
                    "docs/tsm2-model.md", "docs/families/*.md"),
    "Performance": ("docs/performance.md", "docs/goals.md", "docs/worst-cases.md", "results/README.md",
                    "results/h200/*.md", "results/h200/*/summary.md", "results/xeon*/*/summary.md",
                    "results/neoverse*/*/summary.md", "results/*.md"),
    "Papers": ("papers/README.md", "papers/*/README.md", "docs/log/*.md"),
    "Contributing": ("CONTRIBUTING.md", "docs/add-an-operation.md", "docs/add-a-device.md", "docs/README.md",
                     "docs/*.md"),
}  # fmt: skip


def table(pages: Path) -> list[dict[str, Any]]:
    """The navigation as MkDocs' `nav`. A pattern in TABLE takes the pages that no earlier line has."""
    taken: set[str] = set()
    found = []
    for section, patterns in TABLE.items():
        names = []
        for pattern in patterns:
            found_here = {str(path.relative_to(pages)) for path in pages.glob(pattern) if "." not in path.stem}
            fresh = sorted(found_here - taken)  # a stem with a point is a source's: kernel.hpp.md
            names += fresh
            taken.update(fresh)
        found.append({section: [entry(pages, name) for name in names]})
    return found


def entry(pages: Path, name: str) -> dict[str, str]:
    """A line of the table: the page's first heading, short."""
    if name == "README.md":
        return {"Mansard": name}
    if name.startswith("results/") and name.endswith("summary.md"):
        _, device, family, _ = name.split("/")
        return {f"{device.replace('-2-cores', '')}: {family.replace('_', ' ')}": name}
    titles = [line[2:] for line in (pages / name).read_text().splitlines() if line.startswith("# ")]
    title = (titles or [Path(name).stem])[0].replace("`", "")
    if name.startswith("docs/log/"):
        title = f"Log: {Path(name).stem}"
    return {title if len(title) < 48 else title.partition(":")[0]: name}
