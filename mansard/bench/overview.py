"""All families at once: `mansard bench` without a name, its share of the time and its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import doubtful, labels, summary
from .rows import operation_of
from .table import Table

SET = "sample"
# shares of the time: compiling, slow peers, and matrices that are made and ordered on the host
SHARES = {"gram": 1.2, "matmul": 1.2, "batched": 1.3, "factor": 3.2, "powers": 0.7}
_NAMES = {
    "tsmm": "matmul, tall A", "tsm2r": "matmul, skinny B", "gemm": "matmul of stacks", "ragged": "matmul, ragged",
    "gemv": "blas.gemv", "trsv": "blas.trsv", "trsm": "blas.trsm", "cholesky": "linalg.cholesky",
    "lu": "linalg.lu_factor", "qr": "linalg.qr, raw", "qrq": "linalg.qr",
    "eigh": "linalg.eigh", "eigvalsh": "linalg.eigvalsh", "svd": "linalg.svd", "svdvals": "linalg.svdvals",
    "tridiagonalize": "linalg.tridiagonalize", "bidiagonalize": "linalg.bidiagonalize",
    "solve": "linalg.solve", "inverse": "linalg.inv", "determinant": "linalg.det", "spmv": "sparse A @ x",
    "powers": "matrix_powers",
}  # fmt: skip


def seconds_of(family: str, families: Sequence[str], left: float) -> float:
    """The seconds of a family, of those that are left for it and the ones after it."""
    rest = families[list(families).index(family) :]
    return left * SHARES[family] / sum(SHARES[name] for name in rest)


def name_of(operation: str) -> str:
    """The name by which users call an operation of the benchmark."""
    return _NAMES.get(operation, operation)


def table(documents: Sequence[dict[str, Any]]) -> Table:
    """One line per case of the sample: time, share of the device's limit, times the best peer."""
    cells = []
    for results in documents:
        for row in (row for row in summary.ours(results["rows"]) if row["set"] == SET):
            operation = operation_of(row)
            cells.append((
                name_of(operation) + (", one operand" if row["same"] else ""), row["dtype"],
                summary.sizes(row), str(row["K"]), f"{row['median'] * 1e6:.1f}",
                f"{row.get('gbytes_per_second', 0):.1f}", doubtful.percent(row), labels.times_peer(row),
                row.get("best_peer", ""),
            ))  # fmt: skip
    columns = ("operation", "dtype", "size", "K", "us", "GB/s", "% of limit", "x peer", "best peer")
    return Table("A few sizes of every operation", columns, cells)
