"""The fused passes and Cholesky QR: blocks of 32 columns and ten million rows, well and badly conditioned."""

from __future__ import annotations

from ..cases import Case, Size

CONDITIONS = (1.0, 1e7, 1e12)
_WITH_PEERS = 1_000_000  # rows: Householder QR of the libraries takes seconds, and several copies, beyond


def orthogonal(size: Size) -> list[Case]:
    """matmul_gram, project and cholesky_qr (condition 1, 1e7, 1e12), in passes over the block; QR peers at 1e6 rows."""
    on_cpu = size.backend == "cpu"
    width, rows = (16, 1_000_000) if on_cpu else (32, 10_000_000)
    rows = max(2 * width, min(rows, 2 * size.elements["float64"] // width))
    few = min(rows, _WITH_PEERS if not on_cpu else _WITH_PEERS // 10)
    cases = [
        Case("orthogonal", "float64", width, width, rows, operation=operation)
        for operation in ("matmul_gram", "project")
    ]
    for condition in CONDITIONS:
        cases.append(_qr(width, rows, condition, peers=False))
    few = few - 1 if few == rows else few  # another case, though its rows be as many
    return [*cases, _qr(width, few, CONDITIONS[1], peers=True)]


def _qr(width: int, rows: int, condition: float, peers: bool) -> Case:
    return Case("orthogonal", "float64", width, width, rows, peers=peers, operation="cholesky_qr", condition=condition)
