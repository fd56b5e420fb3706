"""Several ranks on one GPU (Dong's Hyper-Q experiment): a fixed batch of corner-force products divided among them.

    mpiexec -n 8 python -m papers.dong.ranks --out rows.jsonl     # by 1, 2, 4 and 8 of the ranks; the others are idle
    python -m papers.dong.ranks --table rows.jsonl

Every zone has a product F = A B of its own A (velocity unknowns x quadrature points) and a common B (quadrature points
x thermodynamic unknowns). 16^3 zones as in the thesis, of Q2-Q1 and Q4-Q3 elements in three dimensions.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import mansard as ms

ZONES = 16**3
CASES = {"Q2-Q1": ((81, 64, 8), 200), "Q4-Q3": ((375, 512, 64), 12)}  # sizes of a product; steps per sample
SAMPLES = 7
MODES = {
    "queued": "steps are queued, the device is waited for at the end",
    "step by step": "the device is waited for after every step",
    "time steps": "after every step the ranks also agree on the smallest of one number, as on the next time step",
}


def measure(name: str, comm: Any) -> dict[str, list[float]]:
    """Seconds per step of the whole batch, by mode: from the first rank's begin to the last one's end."""
    import cupy
    import numpy as np

    (m, k, n), steps = CASES[name]
    zones = len(ms.distributed.batch(np.empty((ZONES, 1, 1)), comm).local)
    A = cupy.random.default_rng(comm.rank).random((zones, m, k))
    B = cupy.random.default_rng(9).random((k, n))
    out = cupy.empty((zones, m, n))
    wait = cupy.cuda.Device().synchronize
    for _ in range(3):
        ms.matmul(A, B, out=out)
    assert float(abs(out[-1] - A[-1] @ B).max()) < 1e-11 * k, "a product is wrong"
    found: dict[str, list[float]] = {}
    for mode in MODES:
        for _ in range(SAMPLES):
            wait()
            comm.agree("begin")
            begin = time.perf_counter()
            for _ in range(steps):
                ms.matmul(A, B, out=out)
                if mode != "queued":
                    wait()
                if mode == "time steps":
                    comm.gather(np.ones(1), "time step").min()
            wait()
            spans = comm.gather(np.array([begin, time.perf_counter()]), "spans")  # one clock for all ranks of a machine
            found.setdefault(mode, []).append(float(spans[:, 1].max() - spans[:, 0].min()) / steps)
    del A, out
    cupy.get_default_memory_pool().free_all_blocks()  # for the next number of ranks
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Medians in microseconds, and each against one rank."""
    counts = sorted({row["ranks"] for row in rows})
    lines = ["| elements | mode | MPS | " + " | ".join(f"{count} rank{'s' * (count > 1)}" for count in counts) + " |"]
    lines.append("|---" * (3 + len(counts)) + "|")
    for key in dict.fromkeys((row["case"], row["mode"], row["mps"]) for row in rows):
        times = {row["ranks"]: median(row["seconds"]) for row in rows if (row["case"], row["mode"], row["mps"]) == key}
        cells = [f"{times[count] * 1e6:.0f} ({times[count] / times[1]:.2f})" for count in counts]
        lines.append(f"| {key[0]} | {key[1]} | {'yes' if key[2] else 'no'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure on the ranks of this launch, or print the table of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file of rows to append to")
    parser.add_argument("--mps", action="store_true", help="say that NVIDIA's multi-process service is running")
    parser.add_argument("--commit", default="", help="commit of the tree, where there is no git")
    parser.add_argument("--table", type=Path, help="print the table of this file")
    given = parser.parse_args()
    if given.table:
        print(table([json.loads(line) for line in given.table.read_text().splitlines()]))
        return
    every = ms.distributed.Communicator.of(None)
    for count in (count for count in (1, 2, 4, 8, 16) if count <= every.size):
        part = every.raw.Split(0 if every.rank < count else 1)
        if every.rank < count:
            report(ms.distributed.Communicator.of(part), given)
        every.agree("next count")  # the others wait here


def report(comm: Any, given: argparse.Namespace) -> None:
    """Measure all cases on the ranks of a communicator; its first rank prints and keeps them."""
    for name in CASES:
        for mode, seconds in measure(name, comm).items():
            row = {"case": name, "mode": mode, "mps": given.mps, "ranks": comm.size, "seconds": seconds,
                   "zones": ZONES, "date": date.today().isoformat(), "commit": given.commit}  # fmt: skip
            if comm.rank == 0:
                spread = f"{min(seconds) * 1e6:.1f} to {max(seconds) * 1e6:.1f}"
                print(f"{name} {mode}, {comm.size} ranks: {median(seconds) * 1e6:.1f} us a step ({spread})", flush=True)
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
