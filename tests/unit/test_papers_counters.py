"""Counters of papers' experiments, read from what a profiler prints."""

from __future__ import annotations

import pytest

from papers.masliah import instruction_mix


def report(names: list[str]) -> str:
    """What `ncu --csv` prints of launches with these names: the counter of a kind is its place in KINDS plus one."""
    lines = ["==PROF== Connected", '"ID","Kernel Name","Metric Name","Metric Value"']
    for launch, name in enumerate(names):
        for place, metric in enumerate(instruction_mix.KINDS.values()):
            lines.append(f'"{launch}","{name}","{metric}","1,00{place + 1}"')
    return "\n".join(lines)


def test_launches_of_one_product_are_added_up() -> None:
    names = ["kernel", "gemm", "reduce"] * len(instruction_mix.SIZES)
    rows = list(instruction_mix.counted(report(names)))
    assert [row["n"] for row in rows[::2]] == list(instruction_mix.SIZES)
    ours, theirs = rows[:2]
    assert (ours["contender"], ours["integer"], ours["all"]) == ("Mansard", 1001, 1004)
    assert (theirs["contender"], theirs["kernel"], theirs["integer"]) == ("cuBLAS", "gemm", 2002)


def test_a_launch_that_is_missing_stops_the_count() -> None:
    with pytest.raises(SystemExit, match="ncu saw 1 products"):
        list(instruction_mix.counted(report(["kernel"])))
