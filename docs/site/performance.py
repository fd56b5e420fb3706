"""Pages about devices: worst cases, and the interactive page of each device that `mansard report` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.bench import store
from mansard.bench.page import statistics
from mansard.bench.page.points import points
from mansard.bench.page.write import write

PAGE = "docs/worst-cases.md"
_HEAD = """# Devices: all cases, the worst ones, and yours

Every published row of a device in one interactive page: roofline, curves of every operation by size, configurations
that were tried, and the model against the measurement. Point at a mark to read its row.

| device | rows | operations |
|---|---|---|
{devices}

Measure your own, and look at both:

```sh
mansard bench                                        # a sample of every operation: report/index.html
mansard bench batched --set full --out mine/batched  # every size; also gram, matmul, factor, powers
mansard report mine                                  # the page of your device: mine/index.html
mansard report mine --against old                    # cases whose time changed by more than the spread
```

In the tables, % of limit is the [share of the device's limit](percent-of-limit.md), x peer the speedup over the fastest
other library, and set the group of cases that `mansard bench --set` measures. Age says whether the kernel is still the
one that was measured: current, stale (changed since), unknown (not recorded), handed over (a library answered).
"""


def devices(root: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The results of every device, by the name of its folder; a folder of more results of it (energy) is joined."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for folder in sorted(path for path in (root / "results").iterdir() if path.is_dir()):
        loaded = {each.name: store.load(each) for each in store.folders(folder)}
        documents = {name: results for name, results in loaded.items() if results["family"] != "random"}
        base = next((name for name in found if folder.name.startswith(f"{name}-")), None)
        if base is not None:  # links of the page lead from one folder to the other
            found[base] |= {f"../{folder.name}/{name}": results for name, results in documents.items()}
        elif documents:
            found[folder.name] = documents
    return found


def pages(all_devices: dict[str, dict[str, dict[str, Any]]]) -> dict[str, str]:
    """The page of worst cases: a table for every device, and how to make one of your own."""
    lines, tables = [], []
    for name, documents in all_devices.items():
        found = points(documents)
        title = next(iter(documents.values()))["environment"]["device"]
        operations = len({point["op"] for point in found})
        lines.append(f"| [{title}](../results/{name}/README.md) | {len(found):,} | {operations} |")
        worst = statistics.worst(found)
        tables += [f"## {title}", "", f"The {len(worst.cells)} cases that are slowest beside the best peer.", "",
                   worst.markdown(), "", "Median, fifth percentile and worst case of every operation:", "",
                   statistics.overview(found).markdown(), ""]  # fmt: skip
    made = {PAGE: _HEAD.format(devices="\n".join(lines)) + "\n" + "\n".join(tables)}
    for name in all_devices:  # MkDocs checks links to pages: the interactive one takes the place of this one
        made[f"results/{name}/README.md"] = f"# {name}: every case, interactive\n"
    return made


def write_interactive(all_devices: dict[str, dict[str, dict[str, Any]]], site: Path) -> None:
    """The page of every device, in the place of the one that MkDocs made."""
    for name, documents in all_devices.items():
        write(documents, site / "results" / name, report="summary.html")
