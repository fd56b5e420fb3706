"""`python -m papers.PAPER`: measures again what a paper's page shows, one `mansard bench` after the other, and redraws.

Rows go to `results/DEVICE/FAMILY`, where the page looks for them. An interrupted run continues when the same command is
given again: finished commands are noted in the journals, and `mansard bench` continues the one that was cut short.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mansard.bench import store
from mansard.bench.cases import is_gpu_only
from mansard.bench.runner import sets_of

from . import pages
from .declared import Paper, read

_ROOT = Path(__file__).parent.parent


def parser(name: str) -> argparse.ArgumentParser:
    """The command line of a paper."""
    made = argparse.ArgumentParser(prog=f"python -m papers.{name}", description=f"Measure and draw the page of {name}.")
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where to measure (default: cuda)")
    made.add_argument("--into", type=Path, metavar="FOLDER", help="folder of the device's results, with a folder per "
                      "family (default: results/h200 on GPUs, results/this-cpu on CPUs)")  # fmt: skip
    made.add_argument("--seconds", type=float, metavar="S", help="stop each command after so many seconds")
    made.add_argument("--elements", type=int, metavar="N", help="elements of the operands, to try it out")
    made.add_argument("--again", action="store_true", help="measure finished commands, too")
    made.add_argument("--list", action="store_true", help="print the commands and stop")
    made.add_argument("--no-draw", action="store_true", help="do not write the page")
    return made


def commands(paper: Paper, given: argparse.Namespace) -> list[list[str]]:
    """The arguments of every `mansard bench`."""
    folder = given.into or _ROOT / "results" / ("h200" if given.device == "cuda" else "this-cpu")
    made = []
    for run in paper.runs:
        family, *rest = shlex.split(run)
        at = rest.index("--set") + 1
        sets = [name for name in rest[at].split(",") if given.device == "cuda" or _runs_on_cpus(family, name)]
        if not sets:
            continue
        rest[at] = ",".join(sets)
        to = folder / ("two_sided" if "gebrd" in run or "alignment" in run else family)
        command = ["bench", family, *rest, "--with", str(_ROOT / "papers"), "--device", given.device, "--out", str(to)]
        command += ["--no-report"] + (["--seconds", str(given.seconds)] if given.seconds else [])
        made.append(command + (["--elements", str(given.elements)] if given.elements else []))
    return made


def _runs_on_cpus(family: str, name: str) -> bool:
    from . import EXTENSION

    return not is_gpu_only(sets_of(family, EXTENSION)[name])


def is_finished(command: Sequence[str]) -> bool:
    """Whether the journal of a command says that a run of its sets ended."""
    folder = Path(command[command.index("--out") + 1])
    if not store.has_journal(folder):
        return False
    lines = store.read(folder / store.JOURNAL)
    ended = {line["run"] for line in lines if line["line"] == "finished"}
    sets = command[command.index("--set") + 1].split(",")
    runs: list[dict[str, Any]] = [line for line in lines if line["line"] == "run" and line["run"] in ended]
    return any(run["options"].get("sets") == sets for run in runs)


def main(name: str, arguments: list[str] | None = None) -> int:
    given = parser(name).parse_args(arguments)
    paper = read(name)
    todo = commands(paper, given)
    if given.list:
        print("\n".join(shlex.join(["mansard", *command]) for command in todo))
        return 0
    failed = 0
    for number, command in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] mansard {shlex.join(command)}", flush=True)
        if not given.again and is_finished(command):
            print("  finished before; --again measures it anew")
            continue
        begin = time.monotonic()
        status = subprocess.run([sys.executable, "-m", "mansard", *command], cwd=_ROOT, check=False).returncode
        print(f"  {time.monotonic() - begin:.0f} s, status {status}", flush=True)
        failed += status != 0
    if given.no_draw or failed:
        return int(bool(failed))
    return pages.main([name])
