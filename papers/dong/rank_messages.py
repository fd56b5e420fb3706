"""What a message between ranks costs: gathers and exchanges of `ms.distributed`, beside MPI's own calls.

    mpiexec -n 2 python -m papers.dong.rank_messages --out messages.jsonl
    python -m papers.dong.rank_messages --table messages.jsonl

Rows have, of each call and number of bytes, the microseconds of batches of calls, as the slowest rank saw them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import mansard as ms

SIZES = (8, 64, 512, 4096, 8192, 16384, 65536)  # bytes of a rank
CALLS, BATCHES, WARM = 50, 20, 100  # calls between two looks at the clock; batches; calls before them


def cases(comm: Any, size: int) -> dict[str, Callable[[], Any]]:
    """Calls that send `size` bytes of every rank to all ranks, or to the next one."""
    from mpi4py.MPI import Request

    from mansard.distributed.sparse.halo import Halo

    raw, count = comm.raw, size // 8
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine, every, found = np.ones(count), np.empty((comm.size, count)), np.empty(count)
    halo = Halo(comm, count * np.arange(comm.size + 1), np.arange(count) + count * before)

    def neighbours() -> None:
        Request.Waitall([raw.Irecv(found, before, 1), raw.Isend(mine, after, 1)])

    return {
        "gather": lambda: comm.gather(mine, "message"), "sum": lambda: comm.sum(mine, "message"),
        "MPI_Allgather": lambda: raw.Allgather(mine, every),
        "exchange": lambda: comm.exchange({after: mine}, {before: found}).wait(),
        "halo": lambda: halo.arrived(halo.start(mine), found), "MPI_Isend, MPI_Irecv": neighbours,
    }  # fmt: skip


def measure(comm: Any) -> Iterator[dict[str, Any]]:
    """A row per call and size; all ranks run it, and have the same rows."""
    for size in SIZES:
        for name, call in cases(comm, size).items():
            for _ in range(WARM):
                call()
            samples = comm.raw.allgather([_batch(comm, call) for _ in range(BATCHES)])
            slowest = [round(1e6 * max(each), 3) for each in zip(*samples, strict=True)]
            yield {"call": name, "bytes": size, "ranks": comm.size, "us": slowest}


def _batch(comm: Any, call: Callable[[], Any]) -> float:
    comm.raw.Barrier()
    begin = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - begin) / CALLS


def table(rows: list[dict[str, Any]]) -> str:
    """Medians in microseconds, the fastest batch in parentheses; a line per size."""
    names = list(dict.fromkeys(row["call"] for row in rows))
    lines = [f"| ranks | bytes | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for ranks, size in dict.fromkeys((row["ranks"], row["bytes"]) for row in rows):
        found = {row["call"]: row["us"] for row in rows if (row["ranks"], row["bytes"]) == (ranks, size)}
        cells = (f"{median(found[name]):.1f} ({min(found[name]):.1f})" if name in found else "" for name in names)
        lines.append(f"| {ranks} | {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure on the ranks of this launch, or print the table of rows."""
    parser = argparse.ArgumentParser(prog="python -m papers.dong.rank_messages", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="file of rows to append to")
    parser.add_argument("--commit", default="", help="commit of the tree, where there is no git")
    parser.add_argument("--table", type=Path, help="print the table of this file")
    given = parser.parse_args(arguments)
    if given.table:
        print(table([json.loads(line) for line in given.table.read_text().splitlines()]))
        return
    comm = ms.distributed.Communicator.of()
    about = {"date": date.today().isoformat(), "commit": given.commit}
    rows = [row | about for row in measure(comm)]
    if comm.rank == 0:
        print(table(rows))
    if comm.rank == 0 and given.out:
        with given.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
