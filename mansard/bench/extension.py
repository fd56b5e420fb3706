"""Extensions of the benchmark: sets of cases, peers, tables, pictures and targets from a package outside Mansard.

`mansard bench --with FOLDER` and `mansard report --with FOLDER` import the package in that folder and take its
`EXTENSION`. The folder `papers/` of the source tree is such a package.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from .cases import Sets
from .peers import Peer
from .rows import Row
from .table import Table
from .targets import Metric, Target

Results = dict[str, Any]


class Picture(NamedTuple):
    """A picture of a report: `draw` makes a figure from results, or returns None where its rows are missing."""

    title: str
    draw: Callable[[Results], Any]


@dataclass(frozen=True)
class Extension:
    """Additions to the benchmark; a set belongs to a family of `mansard bench`."""

    sets: Mapping[str, Sets] = field(default_factory=dict)
    peers: tuple[Callable[[str, str], list[Peer]], ...] = ()  # of a backend and a family
    tables: tuple[Callable[[Results, set[int]], Table], ...] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)  # what targets may name beside the columns of a row
    targets: tuple[Target, ...] = ()

    def __or__(self, other: Extension) -> Extension:
        families = {*self.sets, *other.sets}
        return Extension(
            {family: {**self.sets.get(family, {}), **other.sets.get(family, {})} for family in families},
            self.peers + other.peers,
            self.tables + other.tables,
            {**self.pictures, **other.pictures},
            {**self.metrics, **other.metrics},
            self.targets + other.targets,
        )

    def misses(self, results: Results) -> list[tuple[Row, str]]:
        """Our rows that are wrong, failed, or miss a target of this extension."""
        from .targets import misses

        return misses(results, self.targets, self.metrics)


NOTHING = Extension()


def add_argument(parser: argparse.ArgumentParser) -> None:
    text = "a Python package that adds sets, tables, pictures and targets, such as papers/ of the source tree"
    parser.add_argument("--with", dest="extension", type=Path, metavar="FOLDER", help=text)


def load(folder: Path | None) -> Extension:
    """The `EXTENSION` of the package in a folder."""
    if folder is None:
        return NOTHING
    path = folder.resolve()
    names = [path.name]
    while (path.parent / "__init__.py").exists():
        path = path.parent
        names.insert(0, path.name)
    if not (folder / "__init__.py").exists():
        raise UsageError(f"--with {folder}: no Python package is there")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    found = getattr(importlib.import_module(".".join(names)), "EXTENSION", None)
    if not isinstance(found, Extension):
        raise UsageError(f"--with {folder}: the package has no EXTENSION")
    return found
