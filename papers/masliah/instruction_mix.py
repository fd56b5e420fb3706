"""Executed instructions of batched products by kind, counted on a GPU by `ncu` (Masliah et al., figure 6a).

    python -m papers.masliah.instruction_mix --out results/h200/papers/masliah-instructions.jsonl

One product of each size by the library's choice, by a fixed kernel with a thread per entry (`readonly`), and by cuBLAS
through PyTorch, in a process that `ncu` watches.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (2, 3, 4, 6, 8, 10, 12, 14, 15, 16, 17, 20, 24, 28, 30, 31, 32)
BATCH = 4096
CONTENDERS = ("Mansard", "cuBLAS")
KINDS = {
    "integer": "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
    "float64": "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum",
    "memory": "smsp__sass_thread_inst_executed_op_memory_pred_on.sum",
    "all": "smsp__thread_inst_executed_pred_on.sum",
}
_OURS = "kernel"  # the entry of every generated kernel


def multiply() -> None:
    """The products that are counted, ours and cuBLAS's in turn; what is made before is not watched."""
    import cupy
    import torch
    from torch.utils.dlpack import from_dlpack

    import mansard as ms

    for n in SIZES:
        A, B = (cupy.random.default_rng(seed).random((BATCH, n, n)) for seed in (n, n + 1))
        out = cupy.empty((BATCH, n, n))
        a, b, c = map(from_dlpack, (A, B, out))
        calls = (lambda A=A, B=B, out=out: ms.matmul(A, B, out=out, backend="cuda"),
                 lambda a=a, b=b, c=c: torch.bmm(a, b, out=c))  # fmt: skip
        for call in calls:
            call()
            cupy.cuda.Device().synchronize()
            cupy.cuda.profiler.start()
            call()
            cupy.cuda.Device().synchronize()
            cupy.cuda.profiler.stop()


def counted(report: str) -> Iterator[dict[str, Any]]:
    """Rows of a report of `ncu --csv`: launches of one contender and size are added up."""
    text = report[report.index('"ID"') :]
    launches: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(text.splitlines()):
        one = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        one[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    runs = [list(run) for _, run in itertools.groupby(launches.values(), key=lambda one: one["kernel"] == _OURS)]
    turns = list(itertools.product(SIZES, CONTENDERS))
    if len(runs) != len(turns):
        raise SystemExit(f"ncu saw {len(runs)} products instead of {len(turns)}")
    for (n, contender), run in zip(turns, runs, strict=True):
        counts = {kind: sum(one[metric] for one in run) for kind, metric in KINDS.items()}
        yield {"n": n, "batch": BATCH, "contender": contender, "kernel": run[0]["kernel"], **counts}


def main(arguments: list[str] | None = None) -> int:
    first = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m papers.masliah.instruction_mix", description=first)
    parser.add_argument("--multiply", action="store_true", help="only multiply: what ncu runs")
    parser.add_argument("--out", type=Path, default=Path("masliah-instructions.jsonl"), help="file of rows")
    given = parser.parse_args(arguments)
    if given.multiply:
        multiply()
        return 0
    ncu = shutil.which("ncu")
    if ncu is None:
        raise SystemExit("cannot be read here: ncu (Nsight Compute) is not installed")
    options = ["--csv", "--clock-control", "none", "--profile-from-start", "off", "--print-kernel-base", "function"]
    command = [ncu, *options, "--metrics", ",".join(KINDS.values()), sys.executable, "-m",
               "papers.masliah.instruction_mix", "--multiply"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        raise SystemExit(f"cannot be read here: {(done.stdout + done.stderr)[-500:]}")
    with given.out.open("w") as file:
        for row in counted(done.stdout):
            file.write(json.dumps(row) + "\n")
            share = 100 * row["integer"] / row["all"]
            print(f"n = {row['n']}, {row['contender']}: {share:.0f} % integer instructions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
