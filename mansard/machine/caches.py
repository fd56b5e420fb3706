"""Sizes of the CPU's caches, as the operating system states them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def cache_bytes() -> tuple[int, int]:
    """Bytes of the second cache of a core, and of the third (or second) that cores share."""
    sizes = {1: 1 << 15, 2: 1 << 20, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind = int((index / "level").read_text()), (index / "type").read_text().strip()
            if kind != "Instruction":
                text = (index / "size").read_text().strip()
                sizes[level] = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
        except (OSError, ValueError, KeyError):
            continue
    return sizes[2], max(sizes[3], sizes[2])
