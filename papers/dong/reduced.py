"""Numbers of Dong's figures 4.7 to 4.9, bidiagonalizations, from rows of the sets `gebrd` and `phases`."""

from __future__ import annotations

from itertools import pairwise

from mansard.bench.rows import Row, operation_of

from ..found import Number, column, experiment, rows
from .measured import versions
from .versions import VERSIONS

_TWO = "h200/two_sided"
_CONSTANT = 10  # points of the bound: gaps that differ by less are one gap
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
    verdict stands if versions 1 to 4 were measured and each is faster than the one before at the largest size."""
    found = sorted(rows(_TWO, "gebrd", operation="bidiagonalize"), key=lambda row: row["M"])
    peers, his = [row for row in found if row.get("x_peer")], versions()
    speed = his.get(found[-1]["M"], {})
    steps = [speed[name] for name in VERSIONS[1:] if name in speed]
    rises = len(steps) == len(VERSIONS) - 1 and all(one < other for one, other in pairwise(steps))
    values = {"largest": found[-1]["M"], "gflops": found[-1]["gflops"], "versions": len(steps),
              "peer": min(column(peers, "x_peer")), "peer_most": max(column(peers, "x_peer"))}  # fmt: skip
    shown = [name for name in VERSIONS if any(name in each for each in his.values())]
    cells: Cells = tuple((str(row["M"]), f"{row['gflops']:.0f}", f"{row['x_peer']:.1f}" if row.get("x_peer") else "",
                          *(f"{his[row['M']][name]:.0f}" if name in his.get(row["M"], {}) else "" for name in shown))
                         for row in found)  # fmt: skip
    titles = tuple(f"version {name}" if name.isdigit() else name for name in shown)
    return Number(rises, values, ("n", "Mansard, GFLOP/s", "x cuSOLVER", *titles), cells)


def _by_bound(found: list[Row]) -> dict[str, float]:
    """Shares of the bound where a matrix stays on a multiprocessor, arithmetic limits, and where products do."""
    bound = {row["M"]: row["gflops"] * 100 / row["percent_limit"] for row in found}
    inside = [n for n in bound if bound[n] > 2 * min(bound.values())]
    share = {row["M"]: row["percent_limit"] for row in found}
    near, far = ([share[n] for n in share if (n in inside) == chosen] for chosen in (True, False))
    return {"inside": max(inside, default=0), "near_least": min(near, default=0.0), "near_most": max(near, default=0.0),
            "far_least": min(far), "far_most": max(far)}  # fmt: skip


def phases() -> Number:
    """Figure 4.9 asks for shares inside a reduction. Rows of set `phases` have the share of the whole reduction in the
    time to values, where both were measured; the verdict stands if rows of the parts themselves show that the share of
    square products grows with n."""
    took = {(operation_of(row), row["M"]): row["median"] / row["K"] for row in rows(_TWO, "phases")}
    chains = (("tridiagonalize", "eigvalsh"), ("bidiagonalize", "svdvals"))
    found = {(reduced, n): took[reduced, n] / took[whole, n] for reduced, whole in chains
             for name, n in sorted(took) if name == reduced and (whole, n) in took}  # fmt: skip
    parts = {row["n"]: row["shares"]["square"] for row in experiment("dong-experiments", what="reduction")}
    grows = len(parts) > 1 and parts[max(parts)] > parts[min(parts)]
    cells: Cells = tuple((name, str(n), f"{1e6 * took[name, n]:.2f}", f"{share:.0%}")
                         for (name, n), share in found.items())  # fmt: skip
    values = {"count": len(took), "reduction": max(found.values(), default=0.0), "split": len(parts)}
    return Number(grows, values, ("reduction", "n", "us a matrix", "of the time to values"), cells)
