"""The sdist builds the wheel; the wheel installs with what it declares, works without the sources, and has types."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import needs_cpu

import mansard

ROOT = Path(__file__).resolve().parents[2]
USER = ROOT / "tests" / "cases" / "installed.py"
EXAMPLES = ROOT / "examples"
# Users' scripts have functions without types, and libraries that are not installed; what they call is checked all the
# same.
SETTINGS = """\
[mypy]
strict = true
ignore_missing_imports = true
error_summary = false

[mypy-{modules}]
disallow_untyped_defs = false
disallow_incomplete_defs = false
disallow_untyped_calls = false
disallow_untyped_decorators = false
disallow_subclassing_any = false
warn_return_any = false
warn_unused_ignores = false
check_untyped_defs = true
"""
WRONG = """\
import numpy as np
import mansard as ms

ms.gramm(np.ones((3, 2)))
ms.gram(np.ones((3, 2)), conjugate=True)
ms.plan("gram", np.ones((3, 2))).explian()
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed"),
]


def ran(*command: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder without the sources, which neither PYTHONPATH nor the user's own packages reach."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")} | env
    return subprocess.run(list(map(str, command)), cwd=cwd, env=kept, capture_output=True, text=True, timeout=400)


def built(tree: Path, target: str, folder: Path) -> Path:
    done = ran(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, cwd=tree)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("dist")
    sdist = built(ROOT, "sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return built(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder / "wheel")


def installed(wheel: Path, folder: Path) -> Path:
    """The interpreter of an empty environment into which the wheel and its dependencies were installed."""
    env = folder / "env"
    assert ran(sys.executable, "-m", "venv", "--without-pip", env, cwd=env.parent).returncode == 0
    python = env / "bin" / "python"
    options = ("--quiet", "--no-compile", "--disable-pip-version-check", "--no-warn-script-location")
    done = ran(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=env.parent)
    if re.search(r"NewConnectionError|NameResolutionError|ConnectTimeout", done.stderr):
        pytest.skip("the package index cannot be reached: numpy, scipy and rich cannot be installed")
    assert done.returncode == 0, done.stderr
    return python


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Python, kernels, headers, tuning records, data sheets and the mark of type information; and nothing else."""
    package = ROOT / "mansard"
    ours = {f"mansard/{path.relative_to(package)}" for path in package.rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert {name for name in names if ".dist-info/" not in name} == ours
    for suffix in (".cuh", ".hpp", ".cpp", ".jsonl", "/nominal.json", "/py.typed"):
        assert any(name.endswith(suffix) for name in ours), suffix
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_the_version_is_the_same_everywhere(wheel: Path) -> None:
    version = mansard.__version__
    assert wheel.name.startswith(f"mansard-{version}-py3-none-any")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_licence_is_declared_for_every_file() -> None:
    """REUSE.toml, which `reuse lint` reads, says of all files what pyproject.toml says of the package."""
    (declared,) = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert (declared["path"], declared["SPDX-License-Identifier"]) == ("**", licence)
    (text,) = (ROOT / "LICENSES").iterdir()
    assert text.name == f"{licence}.txt" and text.read_text() == (ROOT / "LICENSE").read_text()


@needs_cpu
def test_the_installed_package_works_and_has_types(wheel: Path, tmp_path: Path) -> None:
    """Without the sources; mypy passes right calls in strict mode, examples and gallery, and finds wrong ones."""
    python = installed(wheel, tmp_path)
    done = ran(python, "-I", USER, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    command = ran(tmp_path / "env" / "bin" / "mansard", "--version", cwd=tmp_path)
    assert command.returncode == 0 and mansard.__version__ in command.stdout, command.stderr

    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    scripts = sorted([*EXAMPLES.glob("*.py"), *(EXAMPLES / "gallery").glob("*.py")])
    (tmp_path / "mypy.ini").write_text(SETTINGS.format(modules=",".join(path.stem for path in scripts)))
    options = ("--config-file", "mypy.ini", "--python-executable", python, "--cache-dir", tmp_path / "cache")
    done = ran(sys.executable, "-m", "mypy", *options, *scripts, USER, "wrong.py", cwd=tmp_path)
    found = re.findall(r"^(\S+):(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    kinds = [("4", "attr-defined"), ("5", "call-arg"), ("6", "attr-defined")]
    assert found == [("wrong.py", *kind) for kind in kinds], done.stdout
