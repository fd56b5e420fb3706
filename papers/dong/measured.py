"""Numbers of Dong's figures from `papers/dong/experiments.py`: ways to solve with triangles, panels, time lines."""

from __future__ import annotations

from ..found import Number, experiment
from .panels import flops
from .substitution import WAYS
from .timeline import PARTS

_NAME = "dong-experiments"


def _triangles(uplo: str) -> Number:
    """Figures 4.4 and 4.5: GFLOP/s of every way."""
    found = {(row["n"], row["way"]): row["gflops"] for row in experiment(_NAME, what="trsv", uplo=uplo)}
    sizes = sorted({n for n, _ in found})
    cells = tuple((str(n), *(f"{found[n, way]:.0f}" if (n, way) in found else "" for way in WAYS)) for n in sizes)
    least = min(found[n, "whole"] / max(found[n, way] for way in ("blocked", "recursive")) for n in sizes)
    inverted = max(found[n, "inverted"] / found[n, "whole"] for n in sizes)
    values = {"least": least, "inverted": inverted, "n": sizes[-1], "recursive": found[sizes[-1], "recursive"],
              "blocked": found[sizes[-1], "blocked"], "whole": found[sizes[-1], "whole"]}  # fmt: skip
    return Number(values["inverted"] < 1, values, ("n", *(f"{way}, GFLOP/s" for way in WAYS)), cells)


def forward_ways() -> Number:
    return _triangles("L")


def backward_ways() -> Number:
    return _triangles("U")


def panels() -> Number:
    """Figures 4.1 to 4.3: unblocked panels of our own kernels."""
    found = {(row["operation"], row["n"], row["how"]): row["gflops"] for row in experiment(_NAME, what="panels")}
    cells = tuple((operation, str(n), f"{found[operation, n, 'nonblocked']:.0f}",
                   f"{found[operation, n, 'classic']:.0f}" if (operation, n, "classic") in found else "")
                  for operation, n, how in sorted(found) if how == "nonblocked")  # fmt: skip
    largest = max(n for _, n, _ in found)
    values = {f"{operation}_{how}": rate for (operation, n, how), rate in found.items() if n == largest}
    return Number(bool(cells), values | {"n": largest}, ("operation", "n", "nonblocked, GFLOP/s", "classic"), cells)


def versions() -> dict[int, dict[str, float]]:
    """Figure 4.8: GFLOP/s of his versions of the bidiagonalization that were measured, by n."""
    found: dict[int, dict[str, float]] = {}
    for row in experiment(_NAME, what="versions"):
        found.setdefault(row["n"], {})[row["version"]] = row["gflops"]
    return found


def _line() -> Number:
    """Shares of the parts of an LU factorization, how long it takes, and the speed of the classic one."""
    found = {row["how"]: row for row in experiment(_NAME, what="line")}
    took = {how: (row["parts"][-1][2] - row["parts"][0][1]) / 1e3 for how, row in found.items()}
    cells = tuple((how, f"{took[how]:.1f}", *(f"{row['shares'][part]:.0%}" for part in PARTS))
                  for how, row in found.items())  # fmt: skip
    classic, swaps, recursive = (found[how]["shares"] for how in ("classic", "parallel swaps", "recursive"))
    work = found["classic"]["count"] * flops("lu", found["classic"]["n"])
    values = {"classic": classic["exchange"], "swaps": swaps["exchange"], "panel": swaps["panel"],
              "small_panel": recursive["panel"], "products": recursive["product"],
              "gain": took["classic"] / took["parallel swaps"], "recursive": took["parallel swaps"] / took["recursive"],
              "own_classic": work / took["classic"] / 1e6}  # fmt: skip
    return Number(True, values, ("algorithm", "ms", *PARTS), cells)


def exchanges_in_time() -> Number:
    """Figure 3.4: exchanges of rows are a small part from the beginning, so that little is gained."""
    found = _line()
    few = found.values["classic"] < 0.2 and found.values["gain"] < 1.1
    return Number(few, found.values, found.columns, found.cells)


def panels_in_time() -> Number:
    """Figure 3.6: what recursive panels bring."""
    found = _line()
    return Number(found.values["recursive"] > 1.3, found.values, found.columns, found.cells)


def own_classic() -> dict[str, float]:
    """GFLOP/s of the classic LU factorization with panels of our own kernels."""
    return {"own_classic": float(_line().values["own_classic"])}
