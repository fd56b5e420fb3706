"""Random problems of sparse matrices: which matrix, how many rows, vectors and powers.

The cases are those of the sparse benchmarks; only what they are made of is drawn.
"""

from __future__ import annotations

from typing import Any

from ..sparse.matrices import KINDS as MATRICES
from .problem import Dice

_BYTES = 12  # of an entry in float64, with its column
_LEAST = 64  # rows
_MANY = 1 << 21  # rows, so that matrices that are formed on the host are formed in seconds
OPERATIONS = {"matvec": "spmv", "matrix_powers": "powers"}  # name of --operations -> operation of the sparse cases
WEIGHTS = {"matvec": 1.5, "matrix_powers": 1.0}


def draw(dice: Dice, name: str) -> dict[str, Any]:
    """Fields of a case: matrix (`form`), rows (K), vectors (N), powers (`inner`)."""
    dtype, form = dice.dtype(), dice.one_of(tuple(MATRICES))
    entries = dice.log(1 << 10, max(1 << 10, dice.memory // _BYTES))
    rows = max(_LEAST, min(_MANY, entries // MATRICES[form].entries))
    columns = 1 if name == "matrix_powers" or dice.chance(0.75) else dice.log(2, 16)
    powers = dice.log(2, 8) if name == "matrix_powers" else 0
    return {"dtype": dtype, "M": MATRICES[form].entries, "N": columns, "K": rows, "inner": powers, "form": form}
