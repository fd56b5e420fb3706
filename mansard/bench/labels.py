"""Labels of peers: the routine that really ran, and what its time includes.

`corrected` renames rows whose label was wrong when they were measured; such rows keep the former label in
`measured_as`. `marks` names what a comparison with a row rests on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
SCALED, COPIED = "scaled", "with copy"
APPROXIMATE = "approximate"  # status of a peer whose method is less accurate by design
LEGEND = {
    SCALED: "the peer was measured on a part of the batch, time scaled",
    COPIED: "the peer works in place, and its time includes a copy of A",
}
SIGNS = {SCALED: "‡", COPIED: "†"}

MAGMA, CUSOLVER = "PyTorch (MAGMA)", "PyTorch (cuSOLVER)"
# PyTorch 2.11 hands these to cuSOLVER and cuBLAS whatever library is preferred; MAGMA's are LU and what is made of it
_NOT_MAGMA = ("cholesky", "qr", "qrq")
RENAMED = f"{CUSOLVER}, MAGMA preferred"
# spellings that work in place; rows without `restored` were measured with the copy of A inside the clock
_IN_PLACE = ("cusolver potrfBatched", "cublas getrfBatched", "cublas geqrfBatched")


def corrected(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with corrected labels of peers."""
    return [
        row | {"contender": RENAMED, "measured_as": MAGMA}
        if row["contender"] == MAGMA and row.get("operation") in _NOT_MAGMA
        else row
        for row in rows
    ]


def marks(peer: Row) -> list[str]:
    """Marks that a ratio to this peer's time carries: a scaled time, or one that includes a copy."""
    found = [SCALED] if peer.get("note") else []
    in_place = str(peer.get("spelling", "")).startswith(_IN_PLACE)
    return found + ([COPIED] if in_place and not peer.get("restored") else [])


def times_peer(row: Row) -> str:
    """`x_peer` as tables show it, empty where there is no peer."""
    if not row.get("x_peer"):
        return ""
    beside = row.get("peer_marks", ())
    return f"{row['x_peer']:.2f}" + (f" ({', '.join(beside)})" if beside else "")


def notes(rows: list[Row]) -> list[str]:
    """Sentences about labels and marks that occur."""
    renamed = sorted({str(row["operation"]) for row in rows if row.get("measured_as")})
    found = []
    if renamed:
        count = sum(bool(row.get("measured_as")) for row in rows)
        found.append(
            f"{count} rows of {', '.join(renamed)} were measured as {MAGMA} and are renamed: PyTorch hands these to "
            "cuSOLVER and cuBLAS whatever library is preferred; times and errors equal theirs"
        )
    seen = {mark for row in rows for mark in row.get("peer_marks", ())}
    return found + [f"x peer ({mark}): {LEGEND[mark]}" for mark in LEGEND if mark in seen]
