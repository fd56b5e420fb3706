"""Kernels compiled from a header with one passage replaced: planted bugs that a test must notice."""

from __future__ import annotations

from dataclasses import replace

from mansard.codegen.geometry import Kernel
from mansard.compile.key import PACKAGE


def planted(kernel: Kernel, header: str, old: str, new: str) -> Kernel:
    """The kernel with `old` replaced by `new` in `header`, the only header that its text includes."""
    include, changed = f'#include "{header}"\n', (PACKAGE / header).read_text()
    assert changed.count(old) == 1, f"{old!r} occurs {changed.count(old)} times in {header}"
    assert include in kernel.source.text, f"{header} is not included"
    changed = changed.replace(old, new).replace("#pragma once\n", "")
    return replace(kernel, source=replace(kernel.source, text=kernel.source.text.replace(include, changed)))
