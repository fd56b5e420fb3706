"""Where the time goes when processes share one GPU: the queued products of `papers/dong/ranks.py`, taken apart.

    nvidia-cuda-mps-control -d
    python -m papers.dong.rank_profile --mps --out results/h200/papers/dong-rank-profile.jsonl
    python -m papers.dong.rank_profile --table results/h200/papers/dong-rank-profile.jsonl

Processes of `multiprocessing` meet at a barrier, so no message between ranks is in what is measured. A row has, of
every process, when it began, when its last launch was issued, and when the GPU was done. Each experiment leaves out one
of the causes that a longer time may have:

    calls     launches from Python, one after the other, as the ranks do
    graph     the same launches as CUDA graphs: the hosts do next to nothing
    branches  one process, a graph with a branch for each rank: the same small kernels side by side, without sharing
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .ranks import CASES, ZONES

STEPS, SAMPLES, NODES = 200, 5, 20  # steps of a sample; samples; steps in a graph
_WAIT = 60.0  # seconds at a barrier, after which a process gives up
Call = Callable[[], Any]


class Experiment(NamedTuple):
    """So many processes with so many zones each."""

    name: str
    processes: int
    zones: int
    way: str  # calls, graph or branches


def experiments(most: int) -> list[Experiment]:
    """All of them; the last one's small kernels are those of `most` ranks."""
    part = ZONES // most
    return [
        Experiment("one rank", 1, ZONES, "calls"), Experiment("one rank", 1, ZONES, "graph"),
        Experiment("one rank's part", 1, part, "calls"), Experiment("one rank's part", 1, part, "graph"),
        Experiment(f"{most} ranks", most, part, "calls"), Experiment(f"{most} ranks", most, part, "graph"),
        Experiment(f"{most} branches", 1, part, "branches"),
    ]  # fmt: skip


def steps_of(way: str, zones: int, most: int, element: str) -> tuple[Call, int]:
    """A call, and how many steps it makes."""
    import cupy

    import mansard as ms
    from mansard.bench.clock import capture_cupy

    (m, k, n), _ = CASES[element]
    rng = cupy.random.default_rng(9)
    parts = [(rng.random((zones, m, k)), rng.random((k, n)), cupy.empty((zones, m, n)))
             for _ in range(most if way == "branches" else 1)]  # fmt: skip
    calls: list[Call] = [partial(ms.matmul, A, B, out=out) for A, B, out in parts]
    for call in calls:
        call()
    if way == "calls":
        return calls[0], 1
    if way == "graph":
        return capture_cupy(lambda index: calls[0](), NODES), NODES
    return _branches(cupy, calls), NODES


def _branches(cupy: Any, calls: list[Call]) -> Call:
    """A graph whose branches are NODES calls each, side by side."""
    stream, sides = cupy.cuda.Stream(non_blocking=True), [cupy.cuda.Stream(non_blocking=True) for _ in calls]
    fork, joins = cupy.cuda.Event(disable_timing=True), [cupy.cuda.Event(disable_timing=True) for _ in calls]
    with stream:
        stream.begin_capture()
        fork.record(stream)
        for side, call, join in zip(sides, calls, joins, strict=True):
            with side:
                side.wait_event(fork)
                for _ in range(NODES):
                    call()
                join.record(side)
            stream.wait_event(join)
        graph = stream.end_capture()

    def launch(kept: Any = (calls, sides, fork, joins)) -> None:  # a graph stores addresses only
        graph.launch(stream)

    return launch


def work(rank: int, most: int, element: str, barrier: Any, found: Any) -> None:
    """The work of one process: it runs the experiments it takes part in, and waits at the barrier in the others."""
    import cupy

    wait = cupy.cuda.Device().synchronize
    for number, one in enumerate(experiments(most)):
        marks = []
        if rank < one.processes:
            call, steps = steps_of(one.way, one.zones, most, element)
            call()
            wait()
        for _ in range(SAMPLES):
            barrier.wait(_WAIT)
            if rank < one.processes:
                begin = time.perf_counter()
                for _ in range(STEPS // steps):
                    call()
                issued = time.perf_counter()
                wait()
                marks.append((begin, issued, time.perf_counter()))
        found.put((number, rank, marks))
        barrier.wait(_WAIT)


def measure(most: int, element: str) -> list[dict[str, Any]]:
    """Rows of all experiments; marks are seconds of one clock that all processes read."""
    context = get_context("spawn")
    barrier, found = context.Barrier(most), context.Queue()
    workers = [context.Process(target=work, args=(rank, most, element, barrier, found)) for rank in range(most)]
    for each in workers:
        each.start()
    every = experiments(most)
    marks: dict[int, dict[int, Any]] = {number: {} for number in range(len(every))}
    try:
        for _ in range(most * len(every)):
            number, rank, spent = found.get(timeout=_WAIT)
            marks[number][rank] = spent
        for each in workers:
            each.join(_WAIT)
    finally:
        for each in workers:
            each.kill()  # one that has ended stays as it is
    return [
        {**one._asdict(), "element": element, "steps": STEPS,
         "marks": [marks[number][rank] for rank in range(one.processes)]}
        for number, one in enumerate(every)
    ]  # fmt: skip


def parts(row: dict[str, Any]) -> dict[str, float]:
    """Microseconds per step: of all processes together, of issuing, and how far their begins and ends are apart."""
    found: dict[str, list[float]] = {"all": [], "issuing": [], "begins": [], "ends": []}
    for sample in zip(*row["marks"], strict=True):
        begins, issued, ends = zip(*sample, strict=True)
        found["all"].append(max(ends) - min(begins))
        found["issuing"].append(max(after - before for before, after in zip(begins, issued, strict=True)))
        found["begins"].append(max(begins) - min(begins))
        found["ends"].append(max(ends) - min(ends))
    return {name: 1e6 * median(values) / row["steps"] for name, values in found.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """A line per experiment."""
    lines = ["| experiment | launched by | zones of a process | us a step | issuing | begins apart | ends apart |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        spent = parts(row)
        cells = (row["name"], row["way"], f"{row['zones']:,}", *(f"{spent[name]:.1f}" for name in spent))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and append rows, or print the table of rows."""
    parser = argparse.ArgumentParser(prog="python -m papers.dong.rank_profile", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8, choices=(2, 4, 8, 16))
    parser.add_argument("--element", default="Q2-Q1", choices=tuple(CASES))
    parser.add_argument("--mps", action="store_true", help="say that NVIDIA's multi-process service is running")
    parser.add_argument("--commit", default="", help="commit of the tree, where there is no git")
    parser.add_argument("--out", type=Path, help="file of rows to append to")
    parser.add_argument("--table", type=Path, help="print the table of this file")
    given = parser.parse_args(arguments)
    if given.table:
        print(table([json.loads(line) for line in given.table.read_text().splitlines()]))
        return
    rows = measure(given.ranks, given.element)
    print(table(rows))
    if given.out:
        about = {"mps": given.mps, "commit": given.commit, "date": date.today().isoformat()}
        with given.out.open("a") as file:
            file.writelines(json.dumps(row | about) + "\n" for row in rows)


if __name__ == "__main__":
    main()
