"""The documentation site: it builds without warnings, every link in it leads somewhere, the code of its guides runs."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import textwrap
from pathlib import Path

import pytest

import mansard
from docs.site import chromium

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed: pip install '.[docs]'"
)

needs_chromium = pytest.mark.skipif(chromium.find() is None, reason="Chromium is not installed")


def _blocks(page: Path, language: str) -> list[str]:
    """Code of a page, also inside tabs."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


def _missing(code: str) -> bool:
    return any(re.search(rf"^import {name}\b", code, re.MULTILINE) and importlib.util.find_spec(name) is None
               for name in ("cupy", "torch", "jax"))  # fmt: skip


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_code_of_guides_runs(page: Path) -> None:
    """Blocks of a page run one after the other; those for libraries that are not here are left out."""
    names: dict[str, object] = {}
    blocks = [code for code in _blocks(page, "python") if not _missing(code)]
    assert blocks
    for at, code in enumerate(blocks):
        exec(compile(code, f"{page.name}, block {at}", "exec"), names)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_commands_of_guides_are_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options that a command does not have end with status 2."""
    from mansard.cli import main

    for line in "\n".join(_blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["mansard"]:
            with pytest.raises(SystemExit) as ended:
                main([*words[1:], "--help"])
            assert ended.value.code == 0
            known = capsys.readouterr().out
            for option in filter(lambda word: word.startswith("--"), words):
                assert option in known, f"{page.name}: {line}"


def _explained() -> list[str]:
    """Every `mansard explain` of the guides, in blocks and in sentences."""
    text = "\n".join(page.read_text() for page in GUIDES)
    return sorted({found.strip() for found in re.findall(r"mansard (explain [^#`\n]+)", text)})


@pytest.mark.parametrize("line", _explained())
def test_explanations_of_guides_are_printed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands that measure nothing are run, on the CPU unless they name an architecture."""
    from mansard.cli import main

    words = shlex.split(line)
    words += [] if "--arch" in words else ["--device", "cpu"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert words[1] in out and "limit" in out


def _benched() -> list[str]:
    """Every `mansard bench` of operations or their groups in a block of commands of the documentation."""
    from mansard.bench.runner import CATALOGUES
    from mansard.operations.registry import OPERATIONS

    blocks = "\n".join(block for page in sorted((ROOT / "docs").rglob("*.md")) for block in _blocks(page, "sh"))
    found = {line.strip() for line in re.findall(r"^mansard (bench [^#`\n]+)", blocks, re.MULTILINE)}
    return sorted(line for line in found if {*line.split()[1:2]} & {*CATALOGUES, *OPERATIONS})


@pytest.mark.parametrize("line", _benched())
def test_benchmarks_of_the_pages_can_be_asked_for(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --list a benchmark ends when it knows what it would measure."""
    from mansard.cli import main

    assert main([*shlex.split(line), "--list"]) == 0, capsys.readouterr().err


def test_operations_of_guides_exist() -> None:
    """`mansard tune` and `mansard bench` of the guides name operations that there are."""
    from mansard.operations.registry import OPERATIONS

    text = "\n".join(page.read_text() for page in GUIDES)
    for command, name in re.findall(r"mansard (tune|bench) ([a-z]\w*)", text):
        assert name in OPERATIONS, f"mansard {command} {name}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once; in this process, whose tests have loaded the array libraries already."""
    from docs.site.build import build

    out = tmp_path_factory.mktemp("built") / "site"
    dead = build(out)
    assert not dead, "\n".join(dead)
    return out


@needs_mkdocs
def test_the_site_builds_and_its_links_lead_somewhere(site: Path) -> None:
    _check_reference(site / "docs" / "reference")
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("cholesky_qr" in entry["title"] for entry in index["docs"])
    # what a page loads comes from the disk
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="([^"]+)"', page.read_text())
        assert not [one for one in loaded if "//" in one], page
    rows = (site / "results" / "h200" / "factor" / "summary.html").read_text()
    assert rows.count("<tr>") > 800 and "data-table" not in rows  # long tables are put back


LOOKED_AT = ("index.html", "docs/start.html", "docs/performance.html", "docs/worst-cases.html",
             "results/h200/index.html", "papers/ernst/index.html", "docs/gallery.html", "docs/reference/linalg.html",
             "docs/support.html", "results/h200/factor/summary.html")  # fmt: skip


@needs_mkdocs
@needs_chromium
def test_pages_look_right_in_a_browser(site: Path) -> None:
    """`make docs` looks at all of them."""
    from docs.site.browser import check

    program = chromium.find()
    assert program
    assert check(site, program, [site / name for name in LOOKED_AT]) == []


@needs_chromium
def test_the_look_finds_what_is_wrong(tmp_path: Path) -> None:
    from docs.site.browser import check

    program = chromium.find()
    assert program
    good = "<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }</style><p>text</p>"
    bad = {
        "script": "<script>nothing.here()</script>", "console": "<script>console.error('no')</script>",
        "picture": "<img src=none.png>", "wider": "<pre style='width: 900px; overflow: hidden'>x</pre>",
        "contrast": "<p style='color: #888; background: #777'>x</p>",
        "dark": "<style>@media all { body { background: #fff; color: #000; } }</style>",
    }  # fmt: skip
    for name, text in {"good": "", **bad}.items():
        (tmp_path / f"{name}.html").write_text(f"<!doctype html><title>x</title>{good}{text}")
    found = {line.split(".html: ")[0]: line for line in check(tmp_path, program)}
    assert found.keys() == bad.keys()
    said = {"picture": "none.png", "wider": "px wider", "contrast": "contrast 1.", "dark": "is not dark"}
    assert all(text in found[name] for name, text in said.items()), found


def _check_reference(folder: Path) -> None:
    """Every public function has a description with its signature."""
    index = (folder / "index.html").read_text()
    for module in (mansard.linalg, mansard.blas):
        for name in module.__all__:
            assert f"#{name.lower()}\"" in index, name
    text = (folder / "linalg.html").read_text()
    assert 'id="solve_ex"' in text and "assume_a" in text


def test_the_link_check_finds_what_is_dead(tmp_path: Path) -> None:
    from docs.site.links import dead_links

    (tmp_path / "a.html").write_text('<h1 id="top"><a href="b.html#here">b</a><a href="b.html#gone">b</a></h1>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html#top">a</a><img src="none.png"></p>'
                                     '<script src="https://example.org/x.js"></script>')  # fmt: skip
    found = "\n".join(dead_links(tmp_path))
    assert found.count("\n") == 2
    assert "b.html#gone" in found and "none.png" in found and "needs a network" in found
