"""Numbers of Dong's figures 4.7 to 4.9, bidiagonalizations, from rows of the set `gebrd` and of `experiments.py`."""

from __future__ import annotations

from itertools import pairwise

from mansard.bench.rows import Row

from ..found import Number, column, experiment, listed, rows
from .measured import versions
from .versions import PARTS, VERSIONS

_TWO = "h200/two_sided"
_CONSTANT = 10  # points of the bound: gaps that differ by less are one gap
_HIS_GAIN = 56 / 25  # version 4 over version 1 at n = 512, in GFLOP/s
_STABLE = 1.25  # the largest share over the smallest one, below which it is called stable
Cells = tuple[tuple[str, ...], ...]


def bidiagonal() -> Number:
    """Figure 4.7: GFLOP/s by n and the bound that products with vectors set; the verdict is whether the gap to it is
    the same at all sizes whose matrices do not stay on a multiprocessor."""
    found = sorted(rows(_TWO, "gebrd", operation="bidiagonalize"), key=lambda row: row["M"])
    largest, share = found[-1], {row["M"]: row["percent_limit"] for row in found}
    cells: Cells = tuple((str(row["M"]), f"{row['K']:,}", f"{row['gflops']:.0f}",
                          f"{row['gflops'] * 100 / row['percent_limit']:.0f}", f"{row['percent_limit']:.0f}")
                         for row in found)  # fmt: skip
    values = {"largest": largest["M"], "gflops": largest["gflops"], "share": share[largest["M"]],
              "best": max(share, key=lambda n: share[n]), **_by_bound(found)}  # fmt: skip
    columns = ("n", "matrices", "GFLOP/s", "bound by products with vectors", "% of it")
    return Number(values["far_most"] - values["far_least"] < _CONSTANT, values, columns, cells)


def progress() -> Number:
    """Figure 4.8: his versions beside the library's own bidiagonalization and cuSOLVER's, a matrix at a time. The
    verdict stands if versions 1 to 4 were measured, each is faster than the one before at the largest size, and
    together they gain more than his."""
    found = sorted(rows(_TWO, "gebrd", operation="bidiagonalize"), key=lambda row: row["M"])
    own, his, largest = {row["M"]: row["gflops"] for row in found}, versions(), found[-1]["M"]
    peers = [row for row in found if row.get("x_peer")]
    speed = his.get(largest, {})
    steps = [speed[name] for name in VERSIONS[1:] if name in speed]
    all_four = len(steps) == len(VERSIONS) - 1
    gain = steps[-1] / steps[0] if all_four else 0.0
    rises = all_four and all(one < other for one, other in pairwise(steps)) and gain > _HIS_GAIN
    values = {"largest": largest, "gflops": own[largest], "versions": len(steps), "gain": gain, "his": _HIS_GAIN,
              "peer": min(column(peers, "x_peer")), "peer_most": max(column(peers, "x_peer")),
              "smaller": _fastest({n: each for n, each in his.items() if n < largest})}  # fmt: skip
    if all_four:
        values |= {"speeds": listed(f"{rate:.0f}" for rate in steps), "second": steps[1] / steps[0],
                   "nonblocked": speed.get("nonblocked", 0.0), "own": own[largest] / steps[-1]}  # fmt: skip
    shown = [name for name in VERSIONS if any(name in each for each in his.values())]
    cells: Cells = tuple((str(row["M"]), f"{row['gflops']:.0f}", f"{row['x_peer']:.1f}" if row.get("x_peer") else "",
                          *(f"{his[row['M']][name]:.0f}" if name in his.get(row["M"], {}) else "" for name in shown))
                         for row in found)  # fmt: skip
    titles = tuple(f"version {name}" if name.isdigit() else name for name in shown)
    return Number(rises, values, ("n", "Mansard, GFLOP/s", "x cuSOLVER", *titles), cells)


def _fastest(his: dict[int, dict[str, float]]) -> str:
    """The fastest version at each size, and the speed of version 4 there."""
    best = {n: max(each, key=lambda name: each[name]) for n, each in sorted(his.items(), reverse=True) if "4" in each}
    return listed(f"version {name} at n = {n} ({his[n][name]:.0f} GFLOP/s, version 4 {his[n]['4']:.0f})"
                  for n, name in best.items())  # fmt: skip


def _by_bound(found: list[Row]) -> dict[str, float]:
    """Shares of the bound where a matrix stays on a multiprocessor, arithmetic limits, and where products do."""
    bound = {row["M"]: row["gflops"] * 100 / row["percent_limit"] for row in found}
    inside = [n for n in bound if bound[n] > 2 * min(bound.values())]
    share = {row["M"]: row["percent_limit"] for row in found}
    near, far = ([share[n] for n in share if (n in inside) == chosen] for chosen in (True, False))
    return {"inside": max(inside, default=0), "near_least": min(near, default=0.0), "near_most": max(near, default=0.0),
            "far_least": min(far), "far_most": max(far)}  # fmt: skip


def phases() -> Number:
    """Figure 4.9: shares of the parts of a reduction by version 3. The verdict stands if that of square products grows
    with n at every step, that of panels falls, and that of products of matrices stays the same within `_STABLE`."""
    found = sorted(experiment("dong-experiments", what="reduction"), key=lambda row: row["n"])
    shares = {part: [row["shares"][part] for row in found] for part in PARTS}
    grows = all(one < other for one, other in pairwise(shares["square"]))
    falls = all(one > other for one, other in pairwise(shares["panel"]))
    values = {"count": len(found), "grows": grows, "falls": falls}
    if found:
        values |= {"least": found[0]["n"], "most": found[-1]["n"]}
        values |= {f"{part}_{end}": shares[part][at] for part in PARTS for end, at in (("first", 0), ("last", -1))}
    stable = len(found) > 1 and max(shares["product"]) < _STABLE * min(shares["product"])
    cells: Cells = tuple((str(row["n"]), f"{row['count']:,}", f"{row['milliseconds']:.0f}",
                          *(f"{row['shares'][part]:.1%}" for part in PARTS)) for row in found)  # fmt: skip
    columns = ("n", "matrices", "ms", "wide and tall panels", "square rest", "products of matrices")
    return Number(grows and falls and stable, values, columns, cells)
