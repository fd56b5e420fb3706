"""Numbers of Panzlaff's table 4.1 and figure 4.1, from rows of `streams.py`."""

from __future__ import annotations

from typing import Any

from mansard.bench.plots import figure, style

from ..found import Line, Number, experiment
from .streams import STREAMS

_ROWS = "panzlaff-streams"
_GH200 = {"copy": 3215, "mul": 3207, "add": 3519, "triad": 3523, "dot": 3744}  # GB/s of his table 4.1
_MIB = 1 << 20


def _found(what: str) -> list[Line]:
    return [row for row in experiment(_ROWS, what=what) if row["right"]]


def babelstream() -> Number:
    """Table 4.1: GB/s of every stream; no verdict before all were measured."""
    if {row["stream"] for row in _found("stream")} < {*STREAMS}:
        return Number(False, {})
    rates = {row["stream"]: row["gbytes_per_second"] for row in _found("stream")}
    cells = tuple((name, f"{rates[name]:.0f}", str(_GH200[name])) for name in STREAMS)
    gains = [rates[name] / _GH200[name] for name in STREAMS]
    by_rate = sorted(STREAMS, key=lambda name: rates[name])
    ends = {word: f"{rates[name]:.0f} GB/s ({name})" for word, name in
            (("slowest", by_rate[0]), ("fastest", by_rate[-1]))}  # fmt: skip
    values = rates | ends | {"least": min(gains), "most": max(gains), "above": max(rates.values()) / rates["copy"] - 1}
    return Number(values["least"] > 1, values, ("stream", "GB/s on the H200", "on his GH200"), cells)


def copies() -> Number:
    """Figure 4.1: GB/s of copies by their bytes; on data-centre GPUs no peak while they fit the cache."""
    found = sorted(_found("ramp"), key=lambda row: row["bytes"])
    if not found:
        return Number(False, {})
    rates = {row["bytes"]: row["gbytes_per_second"] for row in found}
    inside = max((rate, size) for size, rate in rates.items() if size <= found[0]["cache"])
    beyond = rates[max(rates)]
    half = min(size for size, rate in rates.items() if rate > beyond / 2)
    values = {"peak": inside[0], "at": inside[1] / _MIB, "beyond": beyond, "ratio": inside[0] / beyond,
              "half": half / _MIB}  # fmt: skip
    cells = tuple((f"{size / _MIB:.4g}", f"{rate:.0f}") for size, rate in rates.items())
    return Number(values["ratio"] < 1.1, values, ("read and written, MiB", "GB/s"), cells)


def picture() -> Any:
    """Figure 4.1: copies by their bytes."""
    found = sorted(_found("ramp"), key=lambda row: row["bytes"])
    about = {"environment": {"device": found[0]["device"], "date": max(row["date"] for row in found)}}
    drawn, (axis,) = figure(about, "Copy bandwidth by size (Panzlaff, figure 4.1)")
    axis.plot([row["bytes"] / _MIB for row in found], [row["gbytes_per_second"] for row in found], **style(0))
    axis.axvline(found[0]["cache"] / _MIB, color="#888888", linewidth=0.8)
    axis.set(xlabel="read and written, MiB; the line is the cache", ylabel="GB/s", xscale="log", ylim=(0, None))
    return drawn
