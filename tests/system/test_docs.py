"""What the documentation shows is run: the README's example, the examples, doctests; its links lead somewhere."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import doctests
import pytest
from sparing import rotated

import mansard.operations.tall_skinny.fused
import mansard.operations.tall_skinny.gram
import mansard.operations.tall_skinny.matmul
import mansard.operations.tall_skinny.orthogonal

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "add-an-operation.md"]
OTHERS = [ROOT / name for name in ("README.md", "CHANGELOG.md", "results/README.md", "papers/README.md")]
PAGES = sorted({*OTHERS, *GUIDES, *(ROOT / "docs").rglob("*.md")})


def test_readme_example(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    exec(compile(code.group(1), "README.md", "exec"), {})
    assert "limit" in capsys.readouterr().out


@rotated(2)
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT), "MANSARD_LIBRARY_BELOW": ""}  # as users have it
    result = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def test_doctests() -> None:
    for module, least in (
        (mansard.operations.tall_skinny.gram, 3),
        (mansard.operations.tall_skinny.matmul, 3),
        (mansard.operations.tall_skinny.fused, 4),
        (mansard.operations.tall_skinny.orthogonal, 2),
    ):
        failures, tried = doctests.run(module)
        assert tried >= least and failures == 0


@pytest.mark.parametrize("with_torch", [False, True])
def test_examples_of_differences(with_torch: bool) -> None:
    """Of the sections of NumPy and SciPy, and of the whole page where PyTorch is installed."""
    page = ROOT / "docs" / "differences.md"
    if with_torch:
        pytest.importorskip("torch")
    before, heading, rest = page.read_text().partition("## What differs from torch.linalg")
    text = before + (rest if with_torch else rest.partition("\n## ")[2])
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner().run(test)
    assert heading and result.attempted >= 8 + 3 * with_torch and result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_name_files_that_exist(page: Path) -> None:
    """Paths and targets of make; `axpby` is what the guide adds."""
    text = page.read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in re.findall(r"`((?:mansard|tests|docs|papers|results)/[\w./-]+)`", text):
        assert "axpby" in name or (ROOT / name).exists(), f"{page.name}: {name}"
    for name in re.findall(r"`make ([a-z-]+)", text):
        assert name in targets, f"{page.name}: make {name}"


def test_counts_of_the_sanitizers_are_those_of_the_table() -> None:
    text = (ROOT / "results" / "sanitizers-h200.md").read_text()
    rows = re.findall(r"^\| (\w+) \| racecheck \| \d+ \| [^|]+ \| [^|]+ \| (\d+) \|", text, re.MULTILINE)
    silent = sum(errors == "0" for _, errors in rows)
    assert f"racecheck is silent for {silent} of the\n{len(rows)} families in the table" in text


def test_commands_of_the_readme_exist() -> None:
    from mansard.cli import COMMANDS

    for name in re.findall(r"`mansard (\w+)", (ROOT / "README.md").read_text()):
        assert name in COMMANDS


def test_the_vocabulary_names_every_parameter() -> None:
    from mansard.kernels import FAMILIES

    words = set(re.findall(r"\b[A-Z_]{3,}\b|\bT[123]\b", (ROOT / "docs" / "vocabulary.md").read_text()))
    configs = [config for family in FAMILIES for config in family.space.VARIANTS.values()]
    for config in configs:
        assert set(config.__dataclass_fields__) <= words, config
    parameters = {name for config in configs for name in config.__dataclass_fields__}
    assert words - {"VARIANT", "GPU", "CPU", "LAPACK"} <= parameters
