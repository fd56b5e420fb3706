"""Sources that a run measured: the commit, whether files differ from it, and a digest that can be compared later.

The digest names every file of the package by its path and by git's own hash of its content. A machine without git
(a copy of the tree on a GPU host) can compute it; a checkout compares it with `git ls-tree` of the commit, without
reading a file of that commit.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_HASH = re.compile("[0-9a-f]{7,64}")
_SECONDS = 20  # a git command that takes longer is given up
SAMPLES = 7  # least samples of a published row


def files(package: Path = PACKAGE) -> dict[str, str]:
    """Git's hash of every file of the package, by its path from the checkout."""
    found = {}
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            name = path.relative_to(package.parent).as_posix()
            found[name] = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return found


def digest(hashes: dict[str, str]) -> str:
    """Digest of all files by their paths and hashes."""
    lines = (f"{content} {name}\n" for name, content in sorted(hashes.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def committed(commit: str, package: Path = PACKAGE) -> dict[str, str] | None:
    """`files` as a commit has them; None without git, or where the repository has no such commit."""
    text = _git(package, "ls-tree", "-r", "--full-tree", commit, "--", package.name)
    if not text:
        return None
    fields = (line.split(None, 3) for line in text.splitlines())
    return {name: content for _, kind, content, name in fields if kind == "blob"}


def describe(named: str = "", package: Path = PACKAGE) -> dict[str, Any]:
    """`commit`, `dirty` and `tree` of the sources that run. `named` is the commit they are said to be from; without it
    the checkout's. `dirty` is None where nothing can be compared."""
    mine = files(package)
    commit = _git(package, "rev-parse", "--verify", f"{named or 'HEAD'}^{{commit}}").strip() or named
    theirs = committed(commit, package) if commit else None
    return {"commit": commit, "dirty": None if theirs is None else mine != theirs, "tree": digest(mine)}


def refusal(named: str, package: Path = PACKAGE) -> str:
    """Why results of these sources cannot be published, in one line; "" if they can."""
    found = describe(named, package)
    if not found["commit"]:
        return "--publish: there is no git here; name the commit these sources are from: --commit HASH"
    theirs = committed(found["commit"], package)
    if theirs is None:
        in_checkout = (package.parent / ".git").exists() and _git(package, "rev-parse", "HEAD")
        return f"--publish: this repository has no commit {named}" if in_checkout else ""
    mine = files(package)
    changed = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if not changed:
        return ""
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"--publish: {', '.join(changed[:3])}{more} differ from commit {found['commit'][:12]}: commit them first"


def verdict(environment: dict[str, Any]) -> str:
    """Describe the sources of a run: its commit, and whether it was clean, changed or cannot be verified."""
    commit = str(environment.get("commit") or "")
    commit = commit if _HASH.fullmatch(commit) else ""
    short = commit[:12]
    if "tree" not in environment:
        return f"{short or 'no commit'}, not verified" + (", local changes" if environment.get("dirty") else "")
    theirs = _committed_digest(commit) if commit else None
    if theirs is None:
        why = "not in this repository" if commit and (PACKAGE.parent / ".git").exists() else "not verified"
        return f"{short or 'no commit'}, {why}"
    return f"{short}, clean" if theirs == environment["tree"] else f"{short}, local changes"


@lru_cache(maxsize=64)
def _committed_digest(commit: str) -> str | None:
    found = committed(commit)
    return None if found is None else digest(found)


def _git(package: Path, *words: str) -> str:
    """Return git's output for the checkout; empty without git, without a checkout, or if git fails."""
    if not (package.parent / ".git").exists():
        return ""
    command = ["git", "-C", str(package.parent), *words]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
