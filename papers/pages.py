"""`python -m papers.pages`: writes `papers/<paper>/README.md`, our answer beside every figure of each paper.

Pages are made of `figures.toml` (what a figure claims, our verdict), `answers.py` (numbers from committed rows) and
pictures drawn from those rows. A verdict that its numbers no longer support stops the generator.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections import Counter
from pathlib import Path

from mansard.bench.extension import Picture
from mansard.bench.plots import small_png

from .declared import HERE, MEASURED, NOT, PAPERS, VERDICTS, Answer, Mistake, Paper, read
from .found import Number, results

PICTURES = "pictures"
_DPI = 75
_EDITED = "<!-- python -m papers.pages writes this page from figures.toml, answers.py and results/: edit those. -->"


def page(paper: Paper) -> str:
    """The page of a paper."""
    parts = [(answer, number_of(paper, answer)) for answer in paper.answers]
    counted = Counter(answer.verdict for answer in paper.answers for _ in answer.figures)
    text = [
        _EDITED, "", f"# {paper.title}", "", f"{paper.source} Measured there on: {paper.hardware}", "",
        *([paper.notes, ""] if paper.notes else []),
        "| verdict | figures and tables |", "|---|---|",
        *(f"| {verdict} | {counted[verdict]} |" for verdict in VERDICTS if counted[verdict]), "",
        "| figure | verdict | in short |", "|---|---|---|",
        *(f"| [{answer.title}](#{_anchor(answer.title)}) | {answer.verdict} | {_sentence(paper, answer, number)} |"
          for answer, number in parts), "",
        f"Measure again: `python -m papers.{paper.name} --device cuda` (`--list` says what it runs). "
        "How old rows are, and what the numbers mean: [results](../../results/README.md).", "",
    ]  # fmt: skip
    for answer, number in parts:
        text += _section(paper, answer, number)
    return "\n".join(text).rstrip() + "\n"


def _section(paper: Paper, answer: Answer, number: Number | None) -> list[str]:
    lines = [f"## {answer.title}", "", f"*The paper:* {answer.claims}", ""]
    lines += [f"**{answer.verdict.capitalize()}.** {_sentence(paper, answer, number)}", ""]
    if answer.rows:
        lines += [f"Our rows: {answer.rows}.", ""]
    if answer.picture:
        lines += [f"![{answer.title}: {_alt(answer)}]({PICTURES}/{picture_name(answer)}.png)", ""]
    if number and number.columns:
        cells = [number.columns, tuple("---" for _ in number.columns), *number.cells]
        lines += [f"| {' | '.join(line)} |" for line in cells] + [""]
    if answer.measure:
        word = "Measure" if answer.verdict not in MEASURED else "Again"
        lines += [f"{word}: `{answer.measure}`", ""]
    if answer.missing:
        lines += [f"Missing: {answer.missing}.", ""]
    return lines


def _alt(answer: Answer) -> str:
    return picture_name(answer).replace("_", " ").replace("-", ", ")


def _sentence(paper: Paper, answer: Answer, number: Number | None) -> str:
    """The sentence of a verdict, with its numbers."""
    try:
        return answer.why.format(**(number.values if number else {}))
    except (KeyError, IndexError, ValueError) as error:
        raise Mistake(f"papers/{paper.name}: {answer.title}: why = {answer.why!r} does not fit: {error!r}") from None


def _anchor(title: str) -> str:
    """The name that forges give a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def number_of(paper: Paper, answer: Answer) -> Number | None:
    """The numbers of an answer; raises if they do not support its verdict."""
    if not answer.number:
        return None
    name = answer.number.removeprefix(NOT)
    found: Number = getattr(importlib.import_module(f"papers.{paper.name}.answers"), name)()
    if found.holds == answer.number.startswith(NOT):
        raise Mistake(f"papers/{paper.name}: {answer.title} is declared {answer.verdict}, but its rows say otherwise: "
                      f"{found.values}; change figures.toml")  # fmt: skip
    return found


def picture_name(answer: Answer) -> str:
    """The name of a picture's file: of `h200/gram: tile_size` it is gram-tile_size."""
    folder, name = answer.picture.split(": ", 1)
    return f"{folder.rsplit('/', 1)[-1]}-{name}"


def pictures(paper: Paper) -> dict[str, Answer]:
    """The answers with pictures, by file name."""
    return {picture_name(answer): answer for answer in paper.answers if answer.picture}


def draw(paper: Paper) -> list[Path]:
    """Draw the pictures of a paper from committed results; returns the files."""
    files = []
    for name, answer in pictures(paper).items():
        files.append(HERE / paper.name / PICTURES / f"{name}.png")
        files[-1].parent.mkdir(exist_ok=True)
        files[-1].write_bytes(drawn(paper, answer))
    return files


def drawn(paper: Paper, answer: Answer) -> bytes:
    """The picture of an answer as a PNG file, drawn from committed results."""
    from mansard.bench import gallery

    from . import EXTENSION

    known: dict[str, Picture] = gallery.pictures(EXTENSION)
    folder, which = answer.picture.split(": ", 1)
    own = getattr(importlib.import_module(f"papers.{paper.name}.pictures"), "PAGE", {})
    made = own[which]() if which in own else known[which].draw(results(folder))
    if made is None:
        raise Mistake(f"papers/{paper.name}: {answer.title}: results/{folder} has no rows for picture {which}")
    return small_png(made, _DPI)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.pages", description=__doc__.splitlines()[0])
    parser.add_argument("papers", nargs="*", default=PAPERS, metavar="PAPER", help=f"some of {', '.join(PAPERS)}")
    parser.add_argument("--no-pictures", action="store_true", help="write the text alone; matplotlib is not needed")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.papers if name not in PAPERS]:
        parser.error(f"{', '.join(unknown)}: choose among {', '.join(PAPERS)}")
    for name in given.papers:
        try:
            paper = read(name)
            path = HERE / name / "README.md"
            path.write_text(page(paper))
            drawn = [] if given.no_pictures else draw(paper)
        except Mistake as error:
            print(error, file=sys.stderr)
            return 1
        print(f"page: {path} ({len(paper.figures)} figures and tables, {len(drawn)} pictures)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
