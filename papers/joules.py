"""All joules that docs/energy.md speaks of, by one command: `python -m papers.joules --commit HASH --seconds 270`.

Nobody else may use the GPU meanwhile. Windows, rests and checks are those of docs/energy.md; the tuner has shorter
windows of its own (`mansard.tune.energy.WINDOW`), and `done.jsonl` says for each part which it had. Parts run in turn;
with three windows of 5 s the first 270 s have

    the application's two parts                                     50 s
    factorizations of n = 32 beside the fastest peer's             135 s at most, then the next part
    time against energy of three families, windows of 1 s           30 s each

and the rest follows: factorizations of n = 16 and 64, the application by the array library alone, power over time of
Dong's figure 4.13. The same command continues after an interruption or when its time is over: what is finished is in
`done.jsonl`, windows of the application and cases of the benchmark in their own rows. A machine that starts empty needs
the files of the folder, no others.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mansard import settings
from mansard.bench import store
from mansard.bench.energy_pictures import TRIALS
from mansard.tune import energy as tuner

ROOT = Path(__file__).resolve().parents[1]
LEDGER = "done.jsonl"
TUNED = ("gram --m 32", "lu_factor --m 32 --elements 2^27", "gemm --m 16")
_SHARE = 135.0  # seconds of factorizations before other parts: those of n = 32 in three windows of 5 s
_LEAST = 15.0  # seconds that a part needs to get anywhere
_STOPPED, _KILLED = 5.0, 10.0  # seconds after a part's time until it is interrupted, and then ended


class Part(NamedTuple):
    """A command; `limited` ones take --seconds and continue by themselves."""

    name: str
    command: tuple[str, ...]
    limited: bool
    window: float  # seconds of a window
    trials: int  # windows of a contender; the tuner's candidates that are not among the best have one
    most: float = float("inf")  # seconds before other parts have their turn


def parts(given: argparse.Namespace) -> Iterator[Part]:
    """All parts in their order."""
    python, window, trials = sys.executable, f"{given.window:g}", str(given.trials)
    about = ("--device", given.device, *(("--commit", given.commit) if given.commit else ()))
    windows = ("--energy", "--energy-best", "--energy-window", window, "--energy-trials", trials)
    bench = (python, "-m", "mansard", "bench", "factor", *about, *windows, "--no-report", "--out",
             str(given.out / "factor"))  # fmt: skip

    def application(engine: str) -> Part:
        command = (python, "-m", "papers.dong.application_power", *about, "--engines", engine, "--seconds", window,
                   "--trials", trials, "--out", str(given.out / "application.jsonl"))  # fmt: skip
        return Part(f"application, {engine}", command, False, given.window, given.trials)

    factorizations = Part("factorizations", (*bench, "--set", "greenup"), True, given.window, given.trials)
    yield application("mansard")
    yield factorizations._replace(most=_SHARE)
    for problem in TUNED:
        tune = (python, "-m", "mansard", "tune", *problem.split(), *about[:2], "--goal", "energy", "--limit", "12")
        yield Part(f"tune {problem}", tune, True, tuner.WINDOW, tuner.TRIALS)
    yield factorizations
    yield application("library")
    power = (*bench, "--with", str(ROOT / "papers"), "--set", "power")
    yield Part("power over time", power, True, given.window, given.trials)


def chosen(given: argparse.Namespace) -> list[Part]:
    """The parts whose names begin with one of those that were asked for; all of them if none was."""
    return [part for part in parts(given) if not given.only or part.name.startswith(tuple(given.only))]


def run(command: list[str], seconds: float) -> int:
    """Run a command; one that takes longer is interrupted, as by Ctrl-C, and ended if it goes on."""
    process = subprocess.Popen(command, cwd=ROOT)
    for how, after in ((signal.SIGINT, seconds + _STOPPED), (signal.SIGKILL, _KILLED)):
        try:
            return process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
    return process.wait()


def measure(given: argparse.Namespace, start: Callable[[list[str], float], int] = run) -> int:
    """Run what is not finished while there is time; returns how many parts are left."""
    end, left = time.monotonic() + given.seconds, dict[str, bool]()
    for part in chosen(given):
        key = {"part": part.name, "commit": given.commit, "window": part.window, "trials": part.trials}
        seconds = min(part.most, end - time.monotonic())
        left[part.name] = key not in _ledger(given.out)
        if not left[part.name]:
            print(f"{part.name}: finished before", flush=True)
        elif seconds < min(_LEAST, given.seconds):
            print(f"{part.name}: no time left, the same command continues", flush=True)
        else:
            left[part.name] = not _is_done(part, seconds, given, start)
            if not left[part.name]:
                _note(given.out, key)
        if part.name.startswith("tune"):
            _keep_trials(given.out)
    return sum(left.values())


def _is_done(part: Part, seconds: float, given: argparse.Namespace, start: Callable[[list[str], float], int]) -> bool:
    """Run a part; whether nothing of it is left: journals say so of benchmarks, tuners were not stopped by a limit."""
    limit = ("--seconds", f"{seconds:.0f}") if part.limited and seconds < float("inf") else ()
    print(f"{part.name}: at most {seconds:.0f} s", flush=True)
    began = time.monotonic()
    status = start([*part.command, *limit], seconds)
    if not status and (journaled(part, given) if "bench" in part.command else time.monotonic() - began < seconds - 1):
        return True
    print(f"{part.name}: status {status}, not finished", flush=True)
    return False


def journaled(part: Part, given: argparse.Namespace) -> bool:
    """Whether a run with these windows has measured all cases of a part's set."""
    folder = given.out / "factor"
    if not store.has_journal(folder):
        return False
    lines = store.read(folder / store.JOURNAL)
    ended = {line["run"] for line in lines if line["line"] == "finished"}
    wanted = [part.command[part.command.index("--set") + 1]], given.window, given.trials
    runs: list[dict[str, Any]] = [line["options"] for line in lines if line["line"] == "run" and line["run"] in ended]
    effort = [(each.get("sets"), each.get("energy") or {}) for each in runs]
    return any((sets, used.get("window"), used.get("trials")) == wanted for sets, used in effort)


def _ledger(out: Path) -> list[dict[str, object]]:
    path = out / LEDGER
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _note(out: Path, key: dict[str, object]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / LEDGER).open("a") as file:
        file.write(json.dumps(key) + "\n")


def _keep_trials(out: Path) -> None:
    """The tuner's trials for energy, those of earlier machines included, where `mansard report` draws them."""
    path = out / TRIALS
    found = dict.fromkeys(path.read_text().splitlines() if path.exists() else ())
    for each in sorted(settings.current().cache_dir.glob("tuning/*/*.energy.jsonl")):
        found |= dict.fromkeys(each.read_text().splitlines())
    if found:
        out.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in found))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m papers.joules", description=str(__doc__).splitlines()[0])
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--out", type=Path, default=ROOT / "results" / "h200-energy", help="folder of the rows")
    made.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after so many; the same command continues"
    )
    made.add_argument("--window", type=float, default=5.0, help="seconds of a window (default: 5)")
    made.add_argument("--trials", type=int, default=3, help="windows of a contender (default: 3)")
    made.add_argument("--commit", default="", help="the commit that this tree is a copy of")
    made.add_argument("--only", nargs="+", metavar="PART", help="parts whose names begin like this (default: all)")
    made.add_argument("--list", action="store_true", help="print the commands and what is finished, run nothing")
    return made


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    given.out = given.out.resolve()
    if given.list:
        for part in chosen(given):
            print(shlex.join(part.command))
        return 0
    return int(measure(given) > 0)


if __name__ == "__main__":
    sys.exit(main())
