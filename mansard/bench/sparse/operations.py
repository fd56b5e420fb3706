"""Products of sparse matrices with vectors and their powers: what must be moved and computed, and what a model expects.

A case's form names its matrix (sparse_matrices.py), K is its rows and M the entries of a row, about; N is the number of
vectors and `inner` that of powers. A row says what the matrix really has (`rows`, `nnz`) and how its contender stores
it (`storage`, the fields of model.spmv.Storage).
"""

from __future__ import annotations

from typing import Any

from ...machine import spmv
from ...machine.machine import Machine
from ...machine.roofline import Work
from ...plan.problem import ITEMSIZE
from ..batched.operations import Shape

SPARSE = ("spmv", "powers")
IN_CACHE = "SpMV in cache"
_INDEX = {"int32": 4, "int64": 8, "delta16": 2}


def shapes() -> tuple[Shape, Shape, Shape]:
    """Empty shapes: sparse operands are not views of the benchmark's buffers."""
    return (1, 1), (1, 1), (1, 1)


def storage_of(stored: Any, dtype: str) -> dict[str, Any]:
    """Format, widths and padding of a matrix that `ms.sparse` stored, as fields of the model's `Storage`."""
    about = {"values": ITEMSIZE[stored.values_dtype], "index": _INDEX[stored.index], "vectors": ITEMSIZE[dtype]}
    kind = type(stored).__name__.lower()
    if kind == "csr":
        return {"format": "csr", **about}
    entries = stored.width * stored.shape[0] if kind == "ell" else int(stored.widths.sum()) * stored.C
    padding = max(1.0, entries / max(1, stored.nnz))
    return {"format": kind, "C": getattr(stored, "C", 32), "padding": padding, **about}


def csr_storage(dtype: str) -> dict[str, Any]:
    """Fields of `Storage` for the CSR matrices of other libraries."""
    return {"format": "csr", "values": ITEMSIZE[dtype], "index": 4, "vectors": ITEMSIZE[dtype]}


def storage(row: dict[str, Any]) -> spmv.Storage:
    item = ITEMSIZE[row["dtype"]]
    return spmv.Storage(**(row.get("storage") or {"values": item, "vectors": item}))


def extents(row: dict[str, Any]) -> tuple[int, int, int]:
    """Number of rows, of entries and of powers of a row."""
    return row.get("rows") or row["K"], row.get("nnz") or row["M"] * row["K"], row["inner"] or 1


def matrix_bytes(row: dict[str, Any]) -> float:
    """Bytes of the matrix as it is stored: what a pass reads besides vectors."""
    rows, nnz, _ = extents(row)
    return rows * spmv.matrix_bytes(nnz / rows, storage(row))


def work(row: dict[str, Any]) -> Work:
    """Least work of a row or a case: the matrix and x read once, every result written once (equations 4.1 to 4.4)."""
    rows, nnz, p = extents(row)
    vectors = rows * row["N"] * ITEMSIZE[row["dtype"]]
    flops = spmv.row_flops(nnz, row["dtype"].startswith("complex")) * row["N"] * p
    return Work(round(matrix_bytes(row)) + vectors, p * vectors, round(flops), row["dtype"])


def expected(row: dict[str, Any], ceilings: Machine, median: float) -> dict[str, Any]:
    """Fields of a row of powers: the gain that equation 4.8 predicts for this device's caches, how often the matrix
    could have been read in the time, and what the equation allows for the products measured in cache."""
    if row.get("operation") != "powers":
        return {}
    rows, nnz, p = extents(row)
    found: dict[str, Any] = {"passes": median * ceilings.read_bandwidth / matrix_bytes(row)}
    if row.get("footprint"):
        guess = spmv.predict(ceilings, rows, nnz, p, storage(row), footprint=row["footprint"],
                             launches=row.get("launches", 0))  # fmt: skip
        found |= {"predicted_speedup": guess.speedup, "predicted_seconds": guess.blocked}
        if row.get("launches"):
            found["predicted_seconds"] = guess.groups
    return found
