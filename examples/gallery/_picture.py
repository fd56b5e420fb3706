"""Pictures of the gallery: small, and readable on light and dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def axes(count: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, count, figsize=(4.2 * count, 3.2), layout="constrained", **options)


def save(figure: Any, script: str) -> None:
    """Write pictures/<script>.png."""
    from mansard.bench.plots import small_png

    path = Path(script).with_name("pictures") / f"{Path(script).stem}.png"
    path.write_bytes(small_png(figure, dpi=80))
    print(path)
