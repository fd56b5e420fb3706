"""One run of pytest in a copy of the tree, and what it says of the bug planted there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .patches import Mutant, PatchError

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("mansard", "papers", "tests", "pyproject.toml")
LINKED = ("README.md", "Makefile", "docs", "examples", "results")
FIXED = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--slice-seed=0", "--tb=short", "--no-header")
FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class Outcome:
    """How the tests ended. `verdict` is killed, survived, passed, or what is wrong with the mutant or its tests."""

    verdict: str
    by: str  # the test that failed, or the reason
    seconds: float


@dataclass(frozen=True)
class Ended:
    """Exit status (None: past the time limit), output and duration of a pytest process."""

    status: int | None
    output: str
    seconds: float


def try_mutant(mutant: Mutant, cache: Path, limit: float) -> Outcome:
    """Run the mutant's tests on a copy of the tree that has the bug."""
    with tempfile.TemporaryDirectory(prefix="mansard-mutant-") as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        try:
            plant(mutant, tree)
        except (PatchError, SyntaxError) as error:
            return Outcome("does not apply", str(error).splitlines()[0], 0.0)
        used = Path(folder) / "cache" if mutant.own_cache else cache
        return judged(mutant, run_pytest(tree, mutant, used, limit))


def try_unchanged(mutant: Mutant, cache: Path, limit: float) -> Outcome:
    """Run the mutant's tests on a copy of the tree as it is: "passed", or why they cannot judge it."""
    with tempfile.TemporaryDirectory(prefix="mansard-baseline-") as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        ended = run_pytest(tree, mutant, cache, limit)
    if ended.status == 0 and re.search(r"\b\d+ passed", ended.output):
        return Outcome("passed", "", ended.seconds)
    reason = "no test ran" if ended.status in (0, 5) else f"exit status {ended.status}"
    return Outcome("tests fail without it", f"{reason}: {_failed(ended.output)}", ended.seconds)


def copy_tree(tree: Path) -> None:
    """Copy what patches change; link the rest of the repository."""
    tree.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy2(ROOT / name, tree / name)
    for name in LINKED:
        (tree / name).symlink_to(ROOT / name)


def plant(mutant: Mutant, tree: Path) -> None:
    """Write the mutant's bug into the tree; Python that does not parse is a SyntaxError, not a bug for tests."""
    for name, text in mutant.changed(tree).items():
        path = tree / name
        if path.suffix == ".py":
            compile(text, name, "exec")
        path.write_text(text)
        for old in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            old.unlink()


def run_pytest(tree: Path, mutant: Mutant, cache: Path, limit: float) -> Ended:
    """Run the mutant's tests in `tree`; past `limit` seconds their processes are ended."""
    command = [sys.executable, "-m", "pytest", *FIXED, *mutant.tests]
    told = {"PYTHONPATH": str(tree), "MANSARD_CACHE_DIR": str(cache), "MANSARD_EMULATED_ORDER": mutant.order}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=tree, env=os.environ | told, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status: int | None = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # of a bug in forks, children may be left as well
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return Ended(status, output.read(), time.monotonic() - started)


def judged(mutant: Mutant, ended: Ended) -> Outcome:
    """Killed if the tests ended as the patch says they do; a kernel that does not compile is no bug that tests find."""
    by = _failed(ended.output)
    if "CompileError" in ended.output:
        return Outcome("does not compile", by, ended.seconds)
    if ended.status is None:
        return Outcome("killed" if mutant.ends == "hang" else "hangs", "the time limit", ended.seconds)
    if ended.status < 0:
        killed = mutant.ends == "crash" and -ended.status in FATAL
        return Outcome("killed" if killed else "crashes", signal.Signals(-ended.status).name, ended.seconds)
    if ended.status == 1 and by:
        return Outcome("killed", by, ended.seconds)
    if ended.status == 0:
        return Outcome("survived", "", ended.seconds)
    return Outcome("tests do not run", f"exit status {ended.status}", ended.seconds)


def _failed(output: str) -> str:
    """Name of the first test that failed, with its message."""
    found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.+)$", output, re.MULTILINE)
    return found.group(1).strip() if found else ""
