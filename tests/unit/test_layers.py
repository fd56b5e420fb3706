"""The shape of the package: imports go one way, the environment is read in one place, modules stay readable."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mansard"
MODULES = sorted(PACKAGE.rglob("*.py"))
LEAVES = {"errors", "settings", "plan.problem"}  # may be imported from everywhere

# folder -> folders it must not import
_UPPER = {"operations", "bench", "linalg", "blas", "sparse"}
FORBIDDEN = {
    "arrays": {"kernels", "compile", "machine", "tune", *_UPPER},
    "codegen": {"kernels", "plan", "compile", "backends", "tune", "machine", *_UPPER},
    "compile": {"kernels", "plan", "backends", "tune", "machine", *_UPPER},
    "backends": {"kernels", "plan", "tune", "machine", *_UPPER},
    "kernels": {"plan", "compile", "backends", "tune", *_UPPER},
    "machine": _UPPER,
    "plan": _UPPER,
    "tune": _UPPER - {"operations"},
}


def imports(path: Path) -> set[str]:
    """Modules of the package that `path` imports, as dotted names below the package."""
    package = ("mansard", *path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, node.module) if node.module else base)
            for module in (name, *(f"{name}.{alias.name}" for alias in node.names)):
                if module.startswith("mansard."):
                    found.add(module.removeprefix("mansard."))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    folder = path.relative_to(PACKAGE).parts[0]
    for name in imports(path):
        if any(name == leaf or name.startswith(leaf + ".") or leaf.startswith(name + ".") for leaf in LEAVES):
            continue
        assert name.partition(".")[0] not in FORBIDDEN.get(folder, set()), f"{folder} imports {name}"


def test_environment_is_read_in_settings_alone() -> None:
    for path in MODULES:
        if path.name != "settings.py":
            assert not re.search(r"os\.(environ|getenv)", path.read_text()), path


def test_kernels_include_no_system_headers() -> None:
    for path in (*PACKAGE.glob("kernels/*/*/*.cuh"), *PACKAGE.glob("include/mansard/gpu/*.cuh")):
        assert "#include <" not in path.read_text(), path


def test_every_family_has_the_same_files() -> None:
    for folder in {path.parent for path in PACKAGE.glob("kernels/*/*/space.py")}:
        for name in ("spec.py", "space.py", "work.py", "emit.py", "defaults.py"):
            assert (folder / name).exists(), folder / name
        # ... and on GPUs the factorizations' own kernels answer for ragged batches, by classes of sizes
        assert list(folder.glob("kernel*.cuh")) or folder.name == "ragged_factor"
        # on CPUs the array library answers for families that have no kernel of their own there
        assert (folder / "kernel.hpp").exists() == (folder / "space_cpu.py").exists()


def test_importing_the_package_is_cheap_and_leaks_nothing() -> None:
    """`import mansard` loads neither SciPy nor an array library, and no folder is a public name."""
    code = (
        "import sys, mansard as ms\n"
        "loaded = {'numpy', 'scipy', 'torch', 'cupy', 'jax'} & set(sys.modules)\n"
        "from mansard.plan import dispatch\n"
        "from mansard.tune import session\n"
        "print(sorted(loaded), callable(ms.plan), callable(ms.tune), dir(ms) == sorted(ms.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    assert done.stdout.strip() == "[] True True True"


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").exists()
