"""Numbers of Dong's figures 4.7 to 4.9, bidiagonalizations, from rows of the sets `gebrd` and `phases`."""

from __future__ import annotations

from mansard.bench.rows import Row

from ..found import Number, column, results, rows
from .measured import versions
from .reductions import shares_of
from .versions import VERSIONS

_TWO = "h200/two_sided"
Cells = tuple[tuple[str, ...], ...]


def bidiagonal() -> Number:
    """Figures 4.7 and 4.8: GFLOP/s by n, the bound that products with vectors set, and cuSOLVER, a matrix at a time."""
    found = sorted(rows(_TWO, "gebrd", operation="bidiagonalize"), key=lambda row: row["M"])
    largest, share = found[-1], {row["M"]: row["percent_limit"] for row in found}
    cells: Cells = tuple((str(row["M"]), f"{row['K']:,}", f"{row['gflops']:.0f}",
                          f"{row['gflops'] * 100 / row['percent_limit']:.0f}", f"{row['percent_limit']:.0f}",
                          f"{row['x_peer']:.1f}" if row.get("x_peer") else "") for row in found)  # fmt: skip
    peers = [row for row in found if row.get("x_peer")]
    values = {"largest": largest["M"], "gflops": largest["gflops"], "share": share[largest["M"]],
              "least": min(share.values()), "most": max(share.values()), "best": max(share, key=lambda n: share[n]),
              **_by_bound(found),
              "peer": min(column(peers, "x_peer")), "peer_most": max(column(peers, "x_peer"))}  # fmt: skip
    columns: tuple[str, ...] = ("n", "matrices", "GFLOP/s", "bound by products with vectors", "% of it", "x cuSOLVER")
    if his := versions():
        columns += tuple(f"version {name}" if name.isdigit() else name for name in VERSIONS)
        cells = tuple((*cell, *(f"{his[int(cell[0])][name]:.0f}" if name in his.get(int(cell[0]), {}) else ""
                                for name in VERSIONS)) for cell in cells)  # fmt: skip
    return Number(values["share"] > 50, values, columns, cells)


def _by_bound(found: list[Row]) -> dict[str, float]:
    """Shares of the bound where a matrix stays on a multiprocessor, arithmetic limits, and where products do."""
    bound = {row["M"]: row["gflops"] * 100 / row["percent_limit"] for row in found}
    inside = [n for n in bound if bound[n] > 2 * min(bound.values())]
    share = {row["M"]: row["percent_limit"] for row in found}
    near, far = ([share[n] for n in share if (n in inside) == chosen] for chosen in (True, False))
    return {"inside": max(inside, default=0), "near_least": min(near, default=0.0), "near_most": max(near, default=0.0),
            "far_least": min(far), "far_most": max(far)}  # fmt: skip


def phases() -> Number:
    """Figure 4.9, as far as it can be seen from outside: whether the share of the reduction grows with n."""
    cells: list[tuple[str, ...]] = []
    values: dict[str, float] = {}
    for name in ("svd", "eigh"):
        shares = shares_of(results(_TWO), name)
        small, large = min(shares), max(shares)
        values |= {f"{name}_small": shares[small][0], f"{name}_large": shares[large][0], "small": small, "large": large}
        cells += [(name, str(n), *(f"{share:.0%}" for share in each)) for n, each in shares.items()]
    columns = ("function", "n", "reduction to a bidiagonal or tridiagonal matrix", "iteration", "vectors")
    return Number(values["svd_large"] > values["svd_small"], values, columns, tuple(cells))
