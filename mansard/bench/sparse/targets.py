"""What sparse products and powers are to reach: percentages of the model's bound, factors over peers and over our own
products."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..rows import Row, operation_of
from .calls import FORMS, ONE_THREAD
from .entries import is_ours
from .gains import Found, allowed, by_case, gain, preparing, sparse

INT32, DELTA16, ELL = list(FORMS)[:3]
STRAIGHT = ("band-7", "band-27", "7pt", "27pt")
_BOUND, _CUSPARSE, _SHORT = 90.0, 1.4, 1.12  # per cent with 32-bit columns, times cuSPARSE, times 32-bit columns
_NOISE = 0.97  # "never below" allows for this much
_BLOCKS = (3.0, "PyTorch (cuSPARSE)")  # several vectors: times a library
_P = 5
_GAINS = {"27pt": 2.0, "band-27": 2.0, "7pt": 1.5}  # five powers over our own products
_IRREGULAR = (1.3, ("delaunay", "graphene"))  # one of them
_NEVER = 0.98  # of any
_OVER_PEER = {"27pt": 3.0}
_PREPARING = {"27pt": (60.0, 5.0)}  # products, or seconds, whichever is more
_CPU_SCIPY, _CPU_BOUND, _CPU_ALLOWED = 1.25, 80.0, 0.8

Others = dict[tuple[str, str], Row]


def _case(row: Row, others: Others) -> Found:
    mine = [other for (case, _), other in others.items() if case == row["case"]]
    return by_case(mine).get(row["case"], {})


def gpu(row: Row, others: Others) -> Iterable[str]:
    """What a row of ours misses."""
    if row["mode"] != "device" or row["dtype"] != "float64":
        return
    found = _case(row, others)
    if operation_of(row) == "powers":
        yield from _powers(row, found)
    elif row["N"] > 1:
        yield from _times(row, found, *_BLOCKS)
    else:
        yield from _product(row, found)


def _product(row: Row, found: Found) -> Iterable[str]:
    wide = [found[name] for name in (INT32, ELL) if name in found]
    if wide and row["form"] in STRAIGHT:
        straight = min(wide, key=lambda each: each["median"])
        if straight["percent_limit"] < _BOUND:
            yield f"32-bit columns: {straight['percent_limit']:.1f} % of the bound, target {_BOUND:g}"
        yield from _over(straight, found, _CUSPARSE, "32-bit columns: ")
        if DELTA16 in found and straight["median"] < _SHORT * found[DELTA16]["median"]:
            times = straight["median"] / found[DELTA16]["median"]
            yield f"16-bit columns: {times:.2f} x those of 32 bits, target {_SHORT:g}"
    yield from _over(row, found, _NOISE, "", "1")


def _over(row: Row, found: Found, wanted: float, what: str, text: str = "") -> Iterable[str]:
    """Over the fastest peer."""
    peers = {name: other["median"] for name, other in found.items() if not is_ours(name)}
    if peers and min(peers.values()) < wanted * row["median"]:
        name = min(peers, key=lambda each: peers[each])
        yield f"{what}{peers[name] / row['median']:.2f} x {name}, target {text or format(wanted, 'g')}"


def _times(row: Row, found: Found, wanted: float, name: str) -> Iterable[str]:
    if name in found and found[name]["median"] < wanted * row["median"]:
        yield f"{found[name]['median'] / row['median']:.2f} x {name}, target {wanted:g}"


def _powers(row: Row, found: Found) -> Iterable[str]:
    own = gain(found)
    if own is not None:
        wanted = _GAINS.get(row["form"], _NEVER) if row["inner"] == _P else _NEVER
        if own < wanted:
            yield f"{own:.2f} x our own products, target {wanted:g}"
    if row["inner"] == _P and row["form"] in _OVER_PEER:
        yield from _over(row, found, _OVER_PEER[row["form"]], "")
    took = preparing(found)
    if took and row["form"] in _PREPARING:
        products, seconds = _PREPARING[row["form"]]
        if took[0] > seconds and took[1] > products:
            yield f"prepared in {took[0]:.1f} s, {took[1]:.0f} products; target {products:g}, or {seconds:g} s"


def cpu(row: Row, others: Others) -> Iterable[str]:
    """The same on CPUs."""
    if row["mode"] != "device" or row["dtype"] != "float64":
        return
    found = _case(row, others)
    if operation_of(row) == "powers":
        own, most = gain(found), allowed(found)
        if own is not None and own < _NEVER:
            yield f"{own:.2f} x our own products, target {_NEVER:g}"
        if own is not None and most is not None and row["inner"] == _P and own < _CPU_ALLOWED * most:
            share = f"{own / most:.0%} of what equation 4.8 allows, target {_CPU_ALLOWED:.0%}"
            yield f"{own:.2f} x our own products, {share}"
    elif row["N"] == 1 and row["form"] in STRAIGHT:
        if row["percent_limit"] < _CPU_BOUND:
            yield f"{row['percent_limit']:.1f} % of the bound, target {_CPU_BOUND:g}"
        if ONE_THREAD in found:
            missed = _times(found[ONE_THREAD], found, _CPU_SCIPY, "SciPy")
            yield from (f"one thread: {text}" for text in missed)


def together(rows: list[Row]) -> list[tuple[Row, str]]:
    """What is asked of the best of several matrices, on GPUs."""
    wanted, names = _IRREGULAR
    cases = by_case(rows)
    mine = [row for row in sparse(rows, "powers") if row["form"] in names and row["inner"] == _P]
    gains: list[tuple[float, Any]] = [(gain(cases[row["case"]]) or 0.0, row) for row in mine]
    best = max(gains, key=lambda each: each[0], default=None)
    if best is None or len({row["form"] for row in mine}) < len(names) or best[0] >= wanted:
        return []
    return [(best[1], f"{best[0]:.2f} x our own products, the best of {' and '.join(names)}, target {wanted:g}")]
