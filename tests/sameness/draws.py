"""Random sizes and operands of problems: realistic ones, published ones, and those at the edges."""

from __future__ import annotations

from random import Random
from typing import Any

DTYPES = ("float32", "float64", "complex64", "complex128")
ITEMSIZE = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}  # bytes
_EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64)
_LENGTHS = (1, 2, 3, 7, 31, 33, 64, 127, 1000, 4097, 10**5, 10**6, 1 << 20, 10**7, 1 << 24, 10**8)
_BATCHES = (1, 2, 3, 31, 64, 100, 999, 1000, 4096, 10**4, 65536, 10**5, 262144, 10**6, (1 << 20) + 3)


def width(random: Random, most: int = 128) -> int:
    """A number of columns: mostly up to 64, often a power of two or beside one."""
    kind = random.random()
    if kind < 0.5:
        return random.randint(1, min(64, most))
    if kind < 0.85 or most <= 64:
        return random.choice([edge for edge in _EDGES if edge <= most])
    return random.choice((random.randint(65, most), most, most - 1))


def length(random: Random) -> int:
    """A number of rows of a tall matrix: a published or edge one, or any up to 2^25."""
    return random.choice(_LENGTHS) if random.random() < 0.6 else int(2 ** random.uniform(3, 25))


def batch(random: Random) -> int:
    """A number of matrices: from one to a million."""
    return random.choice(_BATCHES) if random.random() < 0.7 else int(2 ** random.uniform(0, 20))


def flags(random: Random, **shares: float) -> dict[str, bool]:
    """True with the given probability, per name."""
    return {name: random.random() < share for name, share in shares.items()}


def operand(
    random: Random, side: str, rows: int, columns: int, dtype: str, any_layout: bool = True, pad: float = 0.3
) -> dict[str, Any]:
    """Layout and pitch of one operand: `row`, `col` or (rarely) `any`; sometimes padded to 16 bytes or by anything."""
    layout = random.choice(("row", "row", "row", "col", "col", "any") if any_layout else ("row", "row", "col"))
    dense = rows if layout == "col" else columns
    pitch, step = dense, max(1, 16 // ITEMSIZE[dtype])
    if random.random() < pad:
        pitch = random.choice((-(-dense // step) * step + step, dense + random.randint(1, 9)))
    return {f"layout_{side}": layout, f"pitch_{side}": pitch}


def stacked(
    random: Random, shapes: dict[str, tuple[int, int]], dtype: str, shared: str = "", interleaves: bool = False
) -> dict[str, Any]:
    """Layouts, pitches and stacks of a batch's operands, given their rows and columns; those in `shared` may be one
    matrix for all. A pitch beyond the dense one means that the stack is not packed."""
    kind = random.choice(("packed", "packed", "packed", "strided", "strided", "pointers", "shared", "interleaved"))
    if kind == "interleaved" and interleaves:
        return _interleaved(shapes, random.choice((4, 8, 16, 32)), random.choice((*shared, "")))
    found: dict[str, Any] = {}
    for side, (rows, columns) in shapes.items():
        found |= operand(random, side, rows, columns, dtype, any_layout=False, pad=0.5 if kind == "strided" else 0.0)
        found[f"stack_{side}"] = kind if kind in ("packed", "strided", "pointers") else "packed"
    if kind == "shared" and shared:
        found[f"stack_{random.choice(shared)}"] = "shared"
    return found


def _interleaved(shapes: dict[str, tuple[int, int]], lanes: int, shared: str) -> dict[str, Any]:
    """The entries of `lanes` matrices side by side, in every operand but the `shared` one."""
    found: dict[str, Any] = {}
    for side, (_, columns) in shapes.items():
        stack, width = ("shared", 1) if side == shared else ("interleaved", lanes)
        found |= {f"layout_{side}": "row", f"pitch_{side}": columns * width, f"stack_{side}": stack}
    return found
