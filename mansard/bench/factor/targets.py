"""What factorizations are to reach, at every size of a range. Percentages are of the copy bandwidth, counting what must
be moved once; factors are over the best peer's time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...operations.factor.blocked import HOW
from ..rows import Row, operation_of
from .operations import RAGGED


class Target(NamedTuple):
    """Up to a size; zero where nothing is asked for."""

    most: int
    percent: float
    times: float


# GPUs, float64
GPU = {
    "cholesky": (
        Target(2, 86, 15), Target(8, 92, 15), Target(32, 92, 8), Target(64, 88, 8), Target(128, 0, 3),
        Target(512, 0, 1.1),
    ),
    "lu": (
        Target(8, 90, 2.8), Target(16, 86, 2.8), Target(32, 58, 2.2), Target(64, 30, 4), Target(128, 0, 3),
        Target(512, 0, 1.3),
    ),
    "qr": (Target(8, 85, 6), Target(16, 85, 8), Target(32, 50, 10), Target(128, 0, 6), Target(512, 0, 4)),
    "solve": (
        Target(8, 90, 15), Target(16, 55, 7), Target(32, 35, 5.5), Target(64, 0, 5), Target(128, 0, 3),
        Target(512, 0, 1.3),
    ),
    "inverse": (
        Target(8, 80, 10), Target(16, 0, 5), Target(32, 0, 3), Target(64, 0, 4), Target(128, 0, 2.5),
        Target(512, 0, 1.1),
    ),
}  # fmt: skip
_OTHERS = 0.8  # of float64's percentages, for other dtypes
_WITH_Q = (32, 50.0, "PyTorch")  # QR that returns Q, up to a size: times a library
_ONE = 15.0  # microseconds of one small system, called from Python
_RAGGED = 80.0  # per cent of the uniform batch with the same work
# CPUs, up to a size: times these libraries
_CPU_SOLVE, _CPU_EIGEN = (32, 4.0, ("NumPy", "PyTorch")), (16, 2.0, ("Eigen",))

Others = dict[tuple[str, str], Row]


def target_of(row: Row) -> Target | None:
    """The target of a batch out of a GPU's cache."""
    return next((target for target in GPU.get(operation_of(row), ()) if row["M"] <= target.most), None)


def gpu(row: Row, others: Others) -> Iterable[str]:
    """What a row of ours misses."""
    if row["form"] in HOW:
        return
    if row["form"] == RAGGED:
        yield from _short_of(row.get("percent_uniform"), _RAGGED, "of the uniform batch")
    elif row["set"] == "one":
        if row["median"] * 1e6 > _ONE:
            yield f"{row['median'] * 1e6:.1f} us, target {_ONE:g}"
    elif row["mode"] == "device" and row["temperature"] == "cold":
        yield from _large(row, others)


def _large(row: Row, others: Others) -> Iterable[str]:
    target = target_of(row)
    if target is not None:
        share = 1.0 if row["dtype"] == "float64" else _OTHERS
        yield from _short_of(row["percent_copy"], share * target.percent, "of the copy bandwidth")
        if row["dtype"] == "float64" and row.get("x_peer") and row["x_peer"] < target.times:
            yield f"{row['x_peer']:.2f} x {row['best_peer']}, target {target.times:g}"
    if operation_of(row) == "qrq" and row["dtype"] == "float64" and row["M"] <= _WITH_Q[0]:
        yield from _below(row, others, _WITH_Q[1], (_WITH_Q[2],))


def cpu(row: Row, others: Others) -> Iterable[str]:
    """The same on CPUs, where NumPy, PyTorch and Eigen are the measure."""
    if row["mode"] != "device" or row["form"] or row["dtype"] != "float64":
        return
    if operation_of(row) == "solve" and row["M"] <= _CPU_SOLVE[0]:
        yield from _below(row, others, *_CPU_SOLVE[1:])
    if row["M"] <= _CPU_EIGEN[0]:
        yield from _below(row, others, *_CPU_EIGEN[1:])


def _short_of(found: Any, wanted: float, of: str) -> Iterable[str]:
    if found is not None and found < wanted:
        yield f"{found:.1f} % {of}, target {wanted:.0f}"


def _below(row: Row, others: Others, wanted: float, libraries: tuple[str, ...]) -> Iterable[str]:
    """Of each library the fastest, whatever is behind it."""
    for library in libraries:
        faced = [
            (peer["median"], name)
            for (case, name), peer in others.items()
            if case == row["case"] and name.startswith(library) and peer["status"] == "ok" and peer.get("median")
        ]
        if faced and min(faced)[0] < wanted * row["median"]:
            yield f"{min(faced)[0] / row['median']:.2f} x {min(faced)[1]}, target {wanted:g}"
