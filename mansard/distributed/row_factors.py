"""Orthonormal bases of matrices by rows: Cholesky QR, block Gram-Schmidt, and QR of blocks of rows (TSQR)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.types import Array, Call
from ..operations.tall_skinny.fused import check_out, checked
from ..operations.tall_skinny.matmul import matmul
from ..operations.tall_skinny.orthogonal import check_options
from ..operations.tall_skinny.orthogonal_steps import by_cholesky, by_projection
from .row_products import RowPasses, check_rows, facts
from .rows import Rows


def cholesky_qr(call: Call) -> tuple[Any, ...]:
    """Q R = V by Cholesky QR: one message per pass that forms a Gram matrix, two where V is well conditioned."""
    V, passes, local = _begin(call, ("V", "out"))
    if V.shape[0] < V.shape[1]:
        raise ValueError(f"V has shape {V.shape}: fewer rows than columns cannot be orthonormal")
    shift, on_deficient = call.options["shift"], call.options["on_deficient"]
    Q, R, dependent = by_cholesky(passes, V.local, local.get("out"), None, shift, on_deficient)
    found = call.given.get("out") or V.like(Q), R
    return (*found, dependent) if on_deficient == "flag" else found


def orthogonalize(call: Call) -> tuple[Any, ...]:
    """V = against H + Q R by block Gram-Schmidt and Cholesky QR: two messages per projection."""
    V, passes, local = _begin(call, ("V", "against", "out"))
    (rows, columns), others = V.shape, local["against"].shape[1]
    if rows < columns + others:
        raise ValueError(f"V and against have {columns} + {others} columns of {rows} entries: too many")
    shift, on_deficient = call.options["shift"], call.options["on_deficient"]
    Q, R, H, dependent = by_projection(passes, V.local, local["against"], local.get("out"), shift, on_deficient)
    found = call.given.get("out") or V.like(Q), R, H
    return (*found, dependent) if on_deficient == "flag" else found


def _begin(call: Call, names: tuple[str, ...]) -> tuple[Rows, RowPasses, dict[str, Array]]:
    """Check the operands and options of a factorization."""
    V = check_rows(call.given, names)
    check_options(call.options["shift"], call.options["on_deficient"])
    local = {name: one.local for name, one in call.given.items()}
    _, views = checked(local)
    check_out(views, views["V"].shape, may_be="V", apart=("against",) if "against" in local else ())
    return V, RowPasses(V, facts(call), call.options["backend"]), local


def qr(call: Call) -> tuple[Any, ...]:
    """Q R = a by TSQR: Q_i R_i of each block of rows, then Q R of all R_i, one below the other, on every rank."""
    V, want = check_rows(call.given, ("a",)), call.options["mode"]
    if want not in ("reduced", "r"):
        raise ValueError(f"mode={want!r}: of a matrix by rows, 'reduced' and 'r' can be had")
    passes = RowPasses(V, facts(call))
    blocks = [call.run({"a": V.local[at]}, call.options) for at in passes.parts]  # (Q_i, R_i), or (R_i,)
    Q, R = _stacked(V, passes, [one[-1] for one in blocks])
    upper = passes.kind.upload(np.ascontiguousarray(R), V.local)
    if want == "r":
        return (upper,)
    first = sum(heights for rank in range(V.comm.rank) for heights in _heights(V, rank))
    local = passes.empty((V.local.shape[0], Q.shape[1]))
    for at, (own, _), height in zip(passes.parts, blocks, _heights(V, V.comm.rank), strict=False):
        factor = passes.kind.upload(np.ascontiguousarray(Q[first : first + height]), V.local)
        matmul(own, factor, out=local[at])
        first += height
    return V.like(local), upper


def _stacked(V: Rows, passes: RowPasses, factors: list[Array]) -> tuple[Any, Any]:
    """Q and R of the blocks' R_i of all ranks, one below the other: one message, the same bits on every rank."""
    columns, dtype = V.shape[1], passes.kind.view(V.local, "local").dtype
    padded = np.zeros((max(1, *V.counts()), columns, columns), dtype)  # messages are equally long
    for place, R in zip(padded, factors, strict=False):
        place[: R.shape[0]] = passes.kind.download(R)
    gathered = V.comm.gather(padded, passes.facts)
    heights = [(rank, i, height) for rank in range(V.comm.size) for i, height in enumerate(_heights(V, rank))]
    stack = np.concatenate([padded[0, :0], *(gathered[rank, i, :height] for rank, i, height in heights)])
    return tuple(np.linalg.qr(stack))  # type: ignore[return-value]


def _heights(V: Rows, rank: int) -> list[int]:
    """Rows of the R_i of a rank's blocks."""
    rows = V.offsets[rank + 1] - V.offsets[rank]
    step = V.blocks or max(rows, 1)
    return [min(step, rows - at, V.shape[1]) for at in range(0, rows, step)]
