"""The shape of the package: imports go down the stages and never in circles, the environment is read in one place,
modules stay readable."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mansard"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The vocabulary: every module may import these, and they import nothing else of the package.
LEAVES = {
    "errors", "forks", "notices", "options", "plan.problem", "private", "rules", "settings", "units", "untrusted",
    "version",
}  # fmt: skip

# Folder, or module beside the folders -> folders that it may import beside the leaves. From the bottom to the top.
MAY_IMPORT: dict[str, set[str]] = {
    "codegen": set(),
    "compile": {"codegen"},
    "native": {"compile"},
    "backends": {"codegen", "compile"},
    "arrays": {"backends", "native"},
    "machine": {"codegen", "compile", "native", "backends"},
    "kernels": {"codegen", "machine"},
    "testing": {"kernels"},
    "records": {"codegen", "compile", "machine", "kernels"},
    "plan": {"codegen", "compile", "backends", "machine", "kernels", "records"},
    "operations": {"codegen", "native", "backends", "arrays", "machine", "kernels", "records", "plan"},
    "tune": {"codegen", "compile", "backends", "machine", "kernels", "testing", "records", "plan", "operations"},
    "blas": {"arrays", "operations"},
    "linalg": {"arrays", "operations", "blas"},
    "sparse": {"arrays", "operations", "tune"},
    "distributed": {"backends", "arrays", "machine", "plan", "operations", "linalg", "sparse"},
    "mansard": {"plan", "operations", "tune", "blas", "linalg", "sparse", "distributed"},  # the package's own names
    "frameworks": {"codegen", "compile", "backends", "arrays", "kernels", "operations", "linalg", "mansard"},
    "bench": {"codegen", "compile", "backends", "arrays", "machine", "kernels", "testing", "records", "plan",
              "operations", "tune", "sparse", "distributed", "mansard"},
    "cli": {"machine", "plan", "operations", "tune", "bench", "mansard"},
    "__main__": {"cli"},
    # the models and the kernels are what papers study; they call the public names, and the engine of the benchmark;
    # kernels of their own are compiled and run as ours are
    "papers": {"machine", "kernels", "bench", "mansard", "codegen", "compile", "backends"},
}  # fmt: skip

# Single imports that go up, or close a circle: (importer, imported) -> why.
EXCEPTIONS = {
    **{
        (f"frameworks.pullbacks.{one}", "frameworks.torch_function"): "rules use other rules, which are recorded"
        for one in ("sparse", "spectral", "systems")
    },
    ("operations.factor.face", "operations.factor.ragged"): "a ragged batch is answered by size, through the same face",
    ("operations.factor.plan", "operations.factor.systems"): "systems of large matrices: factor, then solve by factors",
    ("papers.dong.answers", "operations.factor.blocked"): "the stages of blocked factors that the thesis compares",
    ("papers.dong.cases", "operations.factor.blocked"): "the stages of blocked factors that the thesis compares",
    ("papers.dong.pictures", "operations.factor.blocked"): "the stages of blocked factors that the thesis compares",
    ("papers.dong.tables", "operations.factor.blocked"): "the stages of blocked factors that the thesis compares",
    **{
        ("papers.dong.panels", name): "panels of its own inside the library's blocked factors"
        for name in ("arrays.kinds", "operations.factor.blocked", "operations.factor.task")
    },
    ("papers.dong.timeline", "operations.factor.blocked"): "the parts of blocked factors that a time line shows",
    ("papers.dong.timeline", "operations.factor.task"): "the parts of blocked factors that a time line shows",
    ("papers.dong.experiments", "operations.factor.plan"): "blocked factors whose time lines are compared",
    ("papers.dong.experiments", "arrays.kinds"): "blocked factors whose time lines are compared",
    ("papers.dong.rank_messages", "distributed.sparse.halo"): "the exchange with packing whose cost is measured",
    ("papers.joules", "tune.energy"): "the tuner's windows, which the ledger of finished parts notes",
    ("papers.dong.counted", "plan.explain"): "data sheets of devices that are not here",
    ("papers.masliah.counters", "plan.explain"): "data sheets of devices that are not here",
    ("papers.tsm2.cases", "plan.explain"): "data sheets of devices that are not here",
}  # fmt: skip


def named(path: Path) -> str:
    """Dotted name of a module below `mansard`, or of one of `papers` with it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts[1:] if parts[0] == "mansard" and len(parts) > 1 else parts)


PATHS = {named(path): path for path in (*MODULES, *sorted((ROOT / "papers").rglob("*.py")))}


def imported(path: Path) -> Iterator[str]:
    """Full names that a module imports: at its head, in functions, for types, and by `import_module` of a text."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, node.module) if node.module else base)
            yield from (f"{name}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            for text in (str(one.value) for one in node.args if isinstance(one, ast.Constant)):
                name = text.lstrip(".")
                yield ".".join((*package[: len(package) + 1 - len(text) + len(name)], name)) if name != text else text


@lru_cache(maxsize=1)
def graph() -> dict[str, frozenset[str]]:
    """The modules that each module of `mansard` and `papers` imports."""

    def module(name: str) -> str | None:
        """The module itself, or the one that a name is imported from."""
        for each in (name, name.rpartition(".")[0]):
            known = each.removeprefix("mansard.")
            if each.split(".")[0] in ("mansard", "papers") and known in PATHS:
                return known
        return None

    return {
        name: frozenset(found for each in imported(path) if (found := module(each)) and found != name)
        for name, path in PATHS.items()
    }


def folder(name: str) -> str:
    """The folder of a module, the module itself if it lies beside the folders; of a leaf, the leaf."""
    return name if name in LEAVES else name.partition(".")[0]


def test_every_folder_has_a_rule() -> None:
    found = {folder(name) for name in PATHS}
    assert found - LEAVES == set(MAY_IMPORT), "a new folder says in MAY_IMPORT what it may import"
    assert {name for name in LEAVES if name in PATHS} == LEAVES


def test_the_rules_have_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()


@pytest.mark.parametrize("name", [*MAY_IMPORT, *sorted(LEAVES)])
def test_imports_go_down(name: str) -> None:
    allowed = LEAVES | MAY_IMPORT.get(name, set()) | {name}
    wrong = [
        f"{importer} imports {one}"
        for importer, them in graph().items()
        for one in sorted(them)
        if folder(importer) == name and folder(one) not in allowed and (importer, one) not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


def test_there_is_no_circle_of_imports() -> None:
    """Imports in functions and for types count."""
    try:
        TopologicalSorter(
            {name: [one for one in them if (name, one) not in EXCEPTIONS] for name, them in graph().items()}
        ).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_every_exception_is_needed() -> None:
    for importer, one in EXCEPTIONS:
        assert one in graph()[importer], f"{importer} no longer imports {one}"
        goes_down = folder(one) in LEAVES | MAY_IMPORT[folder(importer)] | {folder(importer)}
        assert not goes_down or importer in reached(one), f"{importer} may import {one}"


def test_families_compile_and_run_nothing() -> None:
    """What kernels import, and what that imports: no compiler, no backend, no records, no array library."""
    for name in (name for name in PATHS if folder(name) == "kernels"):
        assert not {folder(one) for one in reached(name)} & {"compile", "backends", "arrays", "records", "plan"}, name


def reached(name: str) -> set[str]:
    """All modules that importing this one may load."""
    found, waiting = set(), [name]
    while waiting:
        new = graph()[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_environment_is_read_in_settings_alone() -> None:
    for path in MODULES:
        if path.name != "settings.py":
            assert not re.search(r"os\.(environ|getenv)", path.read_text()), path


# Modules that may tell array libraries apart by name -> why.
BY_NAME = {
    "machine.info": "lists installed packages with their versions, no arrays",
}
LIBRARIES = {"NumPy", "CuPy", "PyTorch", "JAX"}


def told_apart_by_name(path: Path) -> list[int]:
    """Lines that branch on the name of an array library: comparisons with one, tables by it, lookups by `kind.name`."""

    def is_name(node: ast.AST) -> bool:
        holder = getattr(node, "value", None)
        named = getattr(holder, "attr", getattr(holder, "id", "")).endswith("kind")
        return isinstance(node, ast.Attribute) and node.attr in ("name", "package") and named

    def holds(node: ast.AST, parts: list[ast.expr]) -> bool:
        constants = {each.value for part in parts for each in ast.walk(part) if isinstance(each, ast.Constant)}
        return bool(constants & LIBRARIES) or any(map(is_name, parts))

    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice] if is_name(node.slice) else []
        elif isinstance(node, ast.Match):
            parts = [node.subject]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "startswith"):
            parts = [one for one in node.args if is_name(one)]
        else:
            continue
        found += [node.lineno] if holds(node, parts) else []
    return found


def test_array_libraries_are_told_apart_in_arrays_alone() -> None:
    """Elsewhere a `Kind` is asked for a fact, or for a function."""
    found = {named(path): lines for path in MODULES if (lines := told_apart_by_name(path))}
    outside = {name: lines for name, lines in found.items() if folder(name) != "arrays"}
    assert not {name: lines for name, lines in outside.items() if name not in BY_NAME}
    assert set(BY_NAME) == set(outside), "an entry of BY_NAME is no longer needed"


def test_branches_on_names_are_found(tmp_path: Path) -> None:
    text = """
if kind.name == "x": ...
x = 1 if self._kind.name in names else 2
y = {"NumPy": 1}[z]
w = TABLE[kind.name], TABLE.get(kind.name)
match kind.name:
    case _: ...
if name == "PyTorch": ...
print(f"{kind.name} arrays", "NumPy")
"""
    path = tmp_path / "module.py"
    path.write_text(text)
    assert sorted(told_apart_by_name(path)) == [2, 3, 4, 5, 5, 6, 8]


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
        "named = all(dir(one) == sorted(one.__all__) for one in (ms, ms.blas, ms.linalg, ms.sparse))\n"
        "print(sorted(loaded), callable(ms.plan), callable(ms.tune), named)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    assert done.stdout.strip() == "[] True True True"


def test_functions_load_what_they_need() -> None:
    """A face is a list of names until one is used, and a function loads its own kernels' family alone."""
    code = (
        "import sys, mansard as ms\n"
        "ms.linalg, ms.blas, dir(ms.linalg)\n"
        "print(len([one for one in sys.modules if one.startswith('mansard')]) < 12, 'numpy' in sys.modules)\n"
        "ms.gram\n"
        "print('mansard.kernels.factor.lu' in sys.modules, 'scipy' in sys.modules)\n"
        "print(ms.linalg.solve is ms.linalg.solve, ms.linalg.solve.__module__, hasattr(ms.linalg, 'eig'))\n"
        "print(all(callable(getattr(ms.linalg, one)) for one in ms.linalg.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    expected = ["True False", "False False", "True mansard.linalg False", "True"]
    assert done.stdout.splitlines() == expected


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_annotations_say_what_they_mean() -> None:
    """`Array`, `Matrices`, `Kind`, `Backend`, ... instead of Any, which is left where no type would be checked."""
    counts = {
        path: sum(len(re.findall(r"\bAny\b", line)) for line in path.read_text().splitlines() if "import" not in line)
        for path in (*PACKAGE.glob("operations/**/*.py"), *PACKAGE.glob("plan/**/*.py"))
    }
    most = sorted(counts, key=counts.__getitem__, reverse=True)[:5]
    assert sum(counts.values()) < 150, [f"{path.relative_to(PACKAGE)}: {counts[path]}" for path in most]
