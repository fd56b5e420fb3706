"""Numbers of Dong's tables 3.1, 3.2 and 4.3, which count: configurations of the batched product, his best tiles beside
each other, and products with vectors in a column of the bidiagonalization."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mansard.kernels import family_of
from mansard.plan.explain import NOMINAL

from ..found import Number, listed, rows
from .cases import label
from .versions import Work, step

_HIS = {"float32": 632, "float64": 157, "complex64": 538, "complex128": 76}  # valid configurations of his table 3.1
_CALLS = {"square": 2, "panel": 11}  # of his table 4.3
_N, _RANK, _COUNT = 128, 32, 500  # the update that is counted: his k = 32, 500 matrices


def configurations() -> Number:
    """Table 3.1: configurations of `gemm` that are legal on an H200 and worth measuring, for updates of rank 32."""
    gemm, device = family_of("gemm"), NOMINAL["sm_90a"]
    found: dict[str, Counter[str]] = {}
    for dtype in _HIS:
        problem = gemm.spec.problem(dtype, _N, _N, _RANK, _COUNT)
        found[dtype] = Counter(each.VARIANT for each in gemm.space.candidates(problem, device))
    total = {dtype: sum(each.values()) for dtype, each in found.items()}
    cells = tuple((dtype, str(_HIS[dtype]), str(total[dtype]),
                   ", ".join(f"{name} {count}" for name, count in sorted(each.items())))
                  for dtype, each in found.items())  # fmt: skip
    ranked = sorted(total, key=lambda dtype: total[dtype])
    values = {"least": total[ranked[0]], "most": total[ranked[-1]], "n": _N, "rank": _RANK}
    holds = (ranked[0], ranked[-1]) == ("complex128", "float32")
    return Number(holds, values, ("dtype", "his", "ours", "of which"), cells)


def tiles() -> Number:
    """Table 3.2: his four tiles beside each other and beside ours on tensor cores; 111 is his best beyond 128 rows."""
    speed: dict[tuple[int, int], dict[str, float]] = {}
    for row in rows("h200/batched", "kernels"):
        if row["pins"]:
            speed.setdefault((row.get("inner") or row["M"], row["M"]), {})[label(row["pins"])] = row["gflops"]
    names = list(dict.fromkeys(name for each in speed.values() for name in each))
    his = [name for name in names if "his" in name]
    wide = {place: each for place, each in speed.items() if place[1] > 128}
    wins = Counter(max(his, key=each.__getitem__) for each in wide.values())
    fastest, won = wins.most_common(1)[0]
    ours = [max(each.values()) / max(each[name] for name in his) for each in speed.values()]
    cells = tuple((str(k), str(n), *(f"{each[name]:.0f}" if name in each else "" for name in names))
                  for (k, n), each in sorted(speed.items()))  # fmt: skip
    last = {min(his, key=each.__getitem__) for each in wide.values()}
    values = {"fastest": fastest, "won": won, "of": len(wide), "slowest": listed(sorted(last)),
              "least": min(ours), "most": max(ours)}  # fmt: skip
    return Number("his 111" in fastest, values, ("k", "m = n", *(f"{name}, GFLOP/s" for name in names)), cells)


def products() -> Number:
    """Table 4.3: products with vectors in one column of the bidiagonalization by panels (`versions.py`), by whether the
    matrix is the square rest or a panel."""
    n, column = 96, 20
    seen = _products_of_column(n, column)
    counts = Counter("square" if min(shape) > n // 2 else "panel" for shape in seen)
    values = {"square": counts["square"], "panel": counts["panel"], "his": sum(_CALLS.values()),
              "all": sum(counts.values())}  # fmt: skip
    cells = tuple((what, str(_CALLS[what]), str(counts[what])) for what in ("square", "panel"))
    holds = counts["square"] == _CALLS["square"] and values["all"] < values["his"]
    return Number(holds, values, ("matrix", "his calls per column", "ours"), cells)


def _products_of_column(n: int, column: int) -> list[tuple[int, int]]:
    """Shapes of the matrices that the two steps of a column multiply with vectors."""
    seen: list[tuple[int, int]] = []

    class Counting(np.ndarray[Any, Any]):
        """An array that notes the shape of the matrix in each of its products with a vector."""

        def __matmul__(self, other: Any) -> Any:
            seen.append(self.shape[-2:] if other.shape[-1] == 1 else other.shape[-2:])
            return (np.asarray(self) @ np.asarray(other)).view(Counting)

    work = Work(np, np.random.default_rng(0).random((1, n, n)).view(Counting))
    work.L, work.R = work.L.view(Counting), work.R.view(Counting)
    for s in (2 * column, 2 * column + 1):
        step(work, 0, s)
    return seen
