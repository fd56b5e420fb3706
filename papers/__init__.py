"""Figures of five papers, measured again: cases, tables and pictures for `mansard bench --with papers`, and the targets
that Mansard was asked to reach (targets.toml)."""

from pathlib import Path

from mansard.bench import targets
from mansard.bench.extension import Extension

from . import dong, ernst, masliah, panzlaff, tsm2

TARGETS = targets.read(Path(__file__).with_name("targets.toml"))
EXTENSION = (
    ernst.EXTENSION
    | tsm2.EXTENSION
    | masliah.EXTENSION
    | dong.EXTENSION
    | panzlaff.EXTENSION
    | Extension(targets=TARGETS)
)
