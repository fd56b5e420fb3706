"""All pictures of a report, drawn and saved. matplotlib is imported when the first one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .batched import pictures as batched
from .extension import NOTHING, Extension, Picture
from .factor import pictures as factor
from .sparse import pictures as sparse
from .tall_skinny import pictures as tall_skinny


def pictures(extension: Extension = NOTHING) -> dict[str, Picture]:
    """Every picture that there is, by the name of its file."""
    return {**tall_skinny.PICTURES, **batched.PICTURES, **factor.PICTURES, **sparse.PICTURES, **extension.pictures}


def draw_all(results: dict[str, Any], folder: Path, extension: Extension = NOTHING) -> dict[str, Path]:
    """Every picture whose rows are there, as PNG and SVG; returns title -> PNG. ImportError without matplotlib."""
    import matplotlib

    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "mansard", "font.size": 10, "axes.titlesize": 11}):
        for name, picture in pictures(extension).items():
            drawn = picture.draw(results)
            if drawn is not None:
                found[picture.title] = folder / f"{name}.png"
                drawn.savefig(found[picture.title], dpi=130)
                drawn.set_layout_engine("none")  # laid out once; again would cost as much as drawing
                drawn.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return found
