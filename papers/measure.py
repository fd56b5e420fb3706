"""`python -m papers.PAPER`: measures again what a paper's page shows, one `mansard bench` after the other, then the
experiments of its figures.toml, and redraws.

Rows go to `results/DEVICE`, where the page looks for them. An interrupted run continues when the same command is given
again: finished commands are noted in the journals, and `mansard bench` continues the one that was cut short. Finished
experiments are noted in `results/DEVICE/papers/done.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
    folder = folder_of(given)
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


def folder_of(given: argparse.Namespace) -> Path:
    """The folder of the device's results."""
    name = "h200" if given.device == "cuda" else "this-cpu"
    return (given.into or _ROOT / "results" / name).resolve()


def experiments(paper: Paper, given: argparse.Namespace) -> list[tuple[list[str], list[Path]]]:
    """Programs that run on the device, by their arguments, and the files that each writes."""
    fields = {"results": str(folder_of(given)), "device": given.device}
    return [([part.format(**fields) for part in shlex.split(each.run)],
             [_ROOT / path.format(**fields) for path in each.rows])
            for each in paper.experiments if each.device in ("any", given.device)]  # fmt: skip


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
    todo = [*_benchmarks(paper, given), *_programs(paper, given)]
    if given.list:
        print("\n".join(shlex.join(step.shown) for step in todo))
        return 0
    failed = 0
    for number, step in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {shlex.join(step.shown)}", flush=True)
        if not given.again and step.is_finished():
            print("  finished before; --again measures it anew")
            continue
        begin = time.monotonic()
        status = subprocess.run(step.command, cwd=_ROOT, check=False).returncode
        print(f"  {time.monotonic() - begin:.0f} s, status {status}", flush=True)
        failed += status != 0
        if not status:
            step.note()
    if given.no_draw or failed:
        return int(bool(failed))
    return pages.main([name])


class Step(NamedTuple):
    """A command of a paper, as it is shown and as it is run."""

    shown: list[str]
    command: list[str]
    is_finished: Callable[[], bool]
    note: Callable[[], None]  # that it is finished


def _benchmarks(paper: Paper, given: argparse.Namespace) -> Iterator[Step]:
    for command in commands(paper, given):  # which note in their journals that they are finished
        yield Step(["mansard", *command], [sys.executable, "-m", "mansard", *command], partial(is_finished, command),
                   lambda: None)  # fmt: skip


def _programs(paper: Paper, given: argparse.Namespace) -> Iterator[Step]:
    done = folder_of(given) / "papers" / "done.jsonl"
    for command, _ in experiments(paper, given):
        program = [sys.executable if part == "python" else part for part in command]
        yield Step(command, program, partial(_is_noted, done, command), partial(_note, done, command))


def _is_noted(done: Path, command: list[str]) -> bool:
    return done.exists() and shlex.join(command) in map(json.loads, done.read_text().splitlines())


def _note(done: Path, command: list[str]) -> None:
    done.parent.mkdir(parents=True, exist_ok=True)
    with done.open("a") as file:
        file.write(json.dumps(shlex.join(command)) + "\n")
