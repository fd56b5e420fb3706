"""The guide "add an operation" is followed: its files are written to a copy of the package, and the kernels run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs_cpu

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "add-an-operation.md"
# Files of the family by the section whose blocks they are, in the guide's order.
FILES = {
    "1": ["spec.py"], "2": ["kernel_threads.cuh"], "3": ["space.py"], "4": ["work.py"], "5": ["emit.py"],
    "6": ["defaults.py", "__init__.py"], "7": ["kernel.hpp", "space_cpu.py"],
}  # fmt: skip
ON_CPU = """
from mansard.backends import cpu
from mansard.kernels import family_of
family, where = family_of("axpby"), cpu.backend()
problem = family.spec.problem("complex64", 5, 9)
config = family.defaults.default(problem, where.device)
source = family.emit.source(problem, config, "cpu").text
print(config.VARIANT, "axpby_simd" in source, family.work.work(problem).bytes)
"""


def blocks(number: str) -> list[str]:
    """The code blocks of a section of the guide."""
    section = re.search(rf"^## {number}\. .*?(?=^## )", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None, f"the guide has no section {number}"
    return re.findall(r"```\w*\n(.*?)```", section.group(), re.DOTALL)


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A copy of the package with the family of the guide."""
    shutil.copytree(ROOT / "mansard", tmp_path / "mansard", ignore=shutil.ignore_patterns("__pycache__", "data"))
    folder = tmp_path / "mansard" / "kernels" / "batched" / "axpby"
    folder.mkdir()
    for number, names in FILES.items():
        for name, text in zip(names, blocks(number), strict=False):
            (folder / name).write_text(text)
    families = folder.parents[1] / "__init__.py"
    families.write_text(families.read_text().replace('"ragged_gemm")', '"ragged_gemm", "axpby")'))
    return tmp_path


@needs_cpu
def test_the_family_of_the_guide_runs(followed: Path) -> None:
    (snippet,) = (block for block in blocks("6") if "<<'END'" in block)
    code = snippet.partition("<<'END'\n")[2].partition("\nEND")[0]
    command, env = [sys.executable, "-c", code + ON_CPU], os.environ | {"PYTHONPATH": str(followed)}
    done = subprocess.run(command, env=env, cwd=followed, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3.0", "3.0", "simd", "True", str(3 * 5 * 9 * 8)]
