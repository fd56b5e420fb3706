"""Numbers of Dong's figures 5.5 and 5.6 from rows of `examples/hydrodynamics/scaling.py`: ranks on two cores, and ranks
that share one GPU."""

from __future__ import annotations

from typing import Any

from ..found import Number, lines, median

ROWS = "results/xeon-avx512-2-cores/hydro/scaling.jsonl"
SHARED = "results/h200/hydro/scaling.jsonl"  # on one H200, through NVIDIA's multi-process service
_COLUMNS = ("ranks", "zones", "ms a step, median", "least to most", "of which conjugate gradients", "of which waiting",
            "iterations of CG", "messages of the first rank", "efficiency over one rank",
            "over ranks alone at the same time")  # fmt: skip
Rows = dict[int, dict[str, Any]]


def _of(scaling: str, path: str = ROWS) -> Rows:
    """Rows of one kind by number of ranks; of several measurements the last one counts."""
    return {row["ranks"]: row for row in lines(path) if row["scaling"] == scaling}


def _ms(row: dict[str, Any], name: str = "seconds") -> float:
    return 1e3 * median(row[name])


def _efficiency(found: Rows, ranks: int, is_weak: bool) -> float:
    return _ms(found[1]) / (1 if is_weak else ranks) / _ms(found[ranks])


def _alone(row: dict[str, Any]) -> float:
    """The time of ranks that run alone over that of ranks that send messages."""
    return _ms(row, "alone") / _ms(row)


def _cells(found: Rows, is_weak: bool) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (str(ranks), f"{row['zones']:,}", f"{_ms(row):.0f}",
         f"{1e3 * min(row['seconds']):.0f} to {1e3 * max(row['seconds']):.0f}", f"{_ms(row, 'gradients'):.0f}",
         f"{_ms(row, 'waiting'):.0f}", f"{row['cg_iterations']:.0f}", f"{row['messages']:.0f}",
         f"{_efficiency(found, ranks, is_weak):.0%}", f"{_alone(row):.0%}" if is_weak else "")
        for ranks, row in sorted(found.items())
    )  # fmt: skip


def _number(scaling: str) -> Number:
    found, is_weak = _of(scaling), scaling == "weak"
    two = found[2]
    values = {"two": _efficiency(found, 2, is_weak), "messages": two["messages"], "zones": found[1]["zones"],
              "load": two["load"], "waiting": _ms(two, "waiting") / _ms(two)}  # fmt: skip
    if is_weak:
        slowest, quickest = 1e3 * max(two["alone"]), 1e3 * min(two["alone"])
        values |= {"alone": _alone(two), "quickest": quickest, "slowest": slowest}
    holds = found[1]["messages"] == 0 < two["messages"]
    return Number(holds, values, _COLUMNS, _cells(found, is_weak))


def shared() -> Number:
    """Ranks that share one GPU: a step on 1, 2 and 8 of them. The number holds if every division of the same zones, and
    every larger mesh of as many zones a rank, takes longer than the step of one rank."""
    weak, strong = _of("weak", SHARED), _of("strong", SHARED)
    most = max(strong)
    last = strong[most]
    holds = all(_ms(row) > _ms(found[1]) for found in (weak, strong) for ranks, row in found.items() if ranks > 1)
    values = {
        "gpu_zones": strong[1]["zones"], "gpu_ranks": most, "gpu_one": _ms(strong[1]), "gpu_two": _ms(strong[2]),
        "gpu_most": _ms(last), "gpu_weak": _ms(weak[most]), "gpu_alone": _ms(weak[most], "alone"),
        "gpu_gradients": _ms(last, "gradients") / _ms(last), "gpu_waiting": _ms(last, "waiting") / _ms(last),
        "gpu_messages": last["messages"], "gpu_iterations": last["cg_iterations"],
    }  # fmt: skip
    cells = tuple((kind, *cell) for kind, found in (("strong", strong), ("weak", weak))
                  for cell in _cells(found, kind == "weak"))  # fmt: skip
    return Number(holds, values, ("scaling", *_COLUMNS), cells)


def weak() -> Number:
    return _number("weak")


def strong() -> Number:
    return _number("strong")


def picture() -> Any:
    """Seconds of five steps against ranks, weak beside his times on Titan, strong beside a line of halves."""
    from matplotlib.figure import Figure

    from mansard.bench.scale.report import TITAN

    drawn = Figure(figsize=(9.6, 3.8), layout="constrained")
    weak_axis, strong_axis = drawn.subplots(1, 2)
    for axis, scaling in ((weak_axis, "weak"), (strong_axis, "strong")):
        found = sorted(_of(scaling).items())
        ranks = [count for count, _ in found]
        times = [sorted(5 * second for second in row["seconds"]) for _, row in found]
        middle = [median(each) for each in times]
        spread = ([m - t[0] for m, t in zip(middle, times, strict=True)],
                  [t[-1] - m for m, t in zip(middle, times, strict=True)])  # fmt: skip
        axis.errorbar(ranks, middle, yerr=spread, marker="o", label="two Xeon cores: median, least, most")
        if scaling == "strong":
            axis.plot(ranks, [middle[0] / count for count in ranks], ":", color="#555555", label="halves")
        else:
            alone = [5 * median(row["alone"]) for _, row in found]
            axis.plot(ranks, alone, "s--", color="#E69F00", label="every rank alone, at the same time")
            axis.plot(list(TITAN), list(TITAN.values()), "-X", color="#000000", label="BLAST on Titan, nodes")
        axis.set(xscale="log", xlabel="ranks", ylabel="seconds of five steps", title=scaling)
        axis.set_ylim(bottom=0)
        axis.set_xticks(ranks if scaling == "strong" else [*ranks, *TITAN],
                        [str(one) for one in (ranks if scaling == "strong" else [*ranks, *TITAN])])  # fmt: skip
        axis.minorticks_off()
        axis.grid(True, alpha=0.3)
        axis.legend(fontsize=8)
    return drawn
