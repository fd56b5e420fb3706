"""Random problems of matrices that differ in size: products, Cholesky factors, systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import errors
from .kind import Kind, Options, Way, least
from .problem import Dice, Drawn

_LAWS = ("uniform", "power law", "bimodal")
_SIDE, _MANY = 96, 20_000  # largest side; most matrices, for loops in Python that are to end
_EQUAL = 0.5  # share of batches of square products


def _draw(dice: Dice, operation: str) -> Drawn:
    """Sizes by one of three laws; what is drawn is the room, so that many small ones or few large ones come out."""
    dtype, most, law = dice.dtype(), dice.side(_SIDE), dice.one_of(_LAWS)
    count = min(_MANY, dice.long(dtype, 3 * (most / 2) ** 2, 2 * (most / 2) ** 3, least=2))
    rows = inner = columns = dice.lengths(law, most, count)
    if operation == "ragged-matmul" and not dice.chance(_EQUAL):
        inner, columns = dice.lengths(law, most, count), dice.lengths(law, most, count)
    if operation == "ragged-solve":
        columns = np.full(count, dice.log(1, 8))
    read, written, flops = {
        "ragged-matmul": (rows * inner + inner * columns, rows * columns, 2 * rows * inner * columns),
        "ragged-cholesky": (rows**2, rows**2, rows**3 / 3),
        "ragged-solve": (rows**2 + rows * columns, rows * columns, 2 * rows**3 / 3 + 2 * rows**2 * columns),
    }[operation]
    work = least(dtype, float(read.sum()), float(written.sum()), float(flops.sum()))
    return Drawn(operation=operation, dtype=dtype, operands=(), work=work,
                 sizes={"m": rows, "k": inner, "n": columns, "law": law, "most": most, "batch": count})  # fmt: skip


def _each(written: str, libraries: str, call: Callable[[Any, Any, Any], Any]) -> Way:
    """A call per matrix: the libraries have no routine for matrices that differ in size."""

    def run(xp: Any, A: Any, B: Any, out: Any, o: Options) -> Any:
        return [call(xp, a, b) for a, b in zip(A, B, strict=True)]

    return Way(libraries, f"{written} for each", run)


KINDS = {
    "ragged-matmul": Kind(
        public="matmul", draw=lambda dice: _draw(dice, "ragged-matmul"), error=errors.ragged, weight=0.7,
        ways=(_each("matmul(a, b)", "numpy torch cupy", lambda xp, a, b: xp.matmul(a, b)),),
    ),
    "ragged-cholesky": Kind(
        public="cholesky", draw=lambda dice: _draw(dice, "ragged-cholesky"), error=errors.ragged, weight=0.7,
        ways=(_each("linalg.cholesky(a)", "numpy torch cupy", lambda xp, a, b: xp.linalg.cholesky(a)),),
    ),
    "ragged-solve": Kind(
        public="solve", draw=lambda dice: _draw(dice, "ragged-solve"), error=errors.ragged, weight=0.7,
        ways=(_each("linalg.solve(a, b)", "numpy torch cupy", lambda xp, a, b: xp.linalg.solve(a, b)),),
    ),
}  # fmt: skip
