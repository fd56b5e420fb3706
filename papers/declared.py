"""What is said about every figure of a paper: `papers/<paper>/figures.toml`, read and checked.

A file has one table `[paper]`, an `[[experiment]]` for every program outside `mansard bench` whose rows the page
reads, and an `[[answer]]` for a figure, or for figures that one answer covers:

    [[experiment]]
    run = "python -m papers.ernst.occupancy --out {results}/papers"  # {results}: of the device; {device}: cuda or cpu
    rows = ["{results}/papers/ernst-occupancy.jsonl"]                # files that it writes
    device = "cuda"                                                  # where it runs: cuda, cpu or any (the default)

    [[answer]]
    figures = ["16"]                     # "5-9" is a range, "3.12-3.14" one in a chapter, "table 1" a table
    claims = "what the paper's figure says, one sentence"
    rows = "`gram`: set `tilesize`"      # what answers it here
    verdict = "reproduced"               # one of VERDICTS
    number = "best_tile"                 # a function of answers.py: numbers from rows, and whether the verdict stands;
                                         # "not best_tile": the verdict stands where the numbers do not hold
    why = "The best tile is {tile}."     # one sentence; numbers come from that function
    picture = "h200/gram: tile_size"     # results, and a picture of a report
    measure = "mansard bench ..."        # what measures it again, or for the first time
    missing = "a kernel that ..."        # instead, of a figure that nothing measures yet: what would have to be written
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAPERS = ("ernst", "masliah", "panzlaff", "tsm2", "dong")
REPRODUCED, EXCEEDED, CONTRADICTED = "reproduced", "exceeded", "contradicted"
NOT_TESTABLE, NOT_MEASURED = "not testable here", "not measured yet"
VERDICTS = (REPRODUCED, EXCEEDED, CONTRADICTED, NOT_TESTABLE, NOT_MEASURED)
MEASURED = VERDICTS[:3]
NOT = "not "  # before the name of a number
_RANGE = re.compile(r"(table )?(?:(\d+)\.)?(\d+)-(?:(\d+)\.)?(\d+)")


@dataclass(frozen=True)
class Answer:
    """Our answer to a figure, or to several: the declaration, before any number was computed."""

    figures: tuple[str, ...]  # names, ranges written out
    title: str
    claims: str
    verdict: str
    why: str
    rows: str = ""
    number: str = ""
    picture: str = ""
    measure: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Experiment:
    """A program outside `mansard bench` that measures rows of a page, and the files it writes."""

    run: str
    rows: tuple[str, ...]
    device: str = "any"


@dataclass(frozen=True)
class Paper:
    """A paper: where it is from, all its figures, what measures them again, and our answers in its order."""

    name: str
    title: str
    source: str
    hardware: str
    figures: tuple[str, ...]
    runs: tuple[str, ...]  # arguments of `mansard bench`, sets of one family each
    experiments: tuple[Experiment, ...]
    answers: tuple[Answer, ...]
    notes: str = ""


class Mistake(ValueError):
    """A declaration that cannot be right; the text names file, figure and remedy."""


def read(name: str) -> Paper:
    """The declaration of a paper, checked."""
    path = HERE / name / "figures.toml"
    document = tomllib.loads(path.read_text())
    about = document["paper"]
    answers = tuple(_answer(path, each) for each in document["answer"])
    figures = tuple(_expanded(about.pop("figures")))
    experiments = tuple(Experiment(**(each | {"rows": tuple(each["rows"])})) for each in document.get("experiment", ()))
    paper = Paper(name, figures=figures, answers=answers, runs=tuple(about.pop("runs", ())), experiments=experiments,
                  **about)  # fmt: skip
    _check(path, paper)
    return paper


def _answer(path: Path, values: dict[str, object]) -> Answer:
    written = values.pop("figures")
    if not isinstance(written, list):
        raise Mistake(f"{path}: figures = {written!r} of an answer is no list of names")
    try:
        return Answer(tuple(_expanded(written)), _title(written), **values)  # type: ignore[arg-type]
    except TypeError as error:
        raise Mistake(f"{path}: the answer to {_title(written)}: {error}") from None


def _title(written: list[str]) -> str:
    """Names as a heading: "Figures 5-9, 12" or "Table 1"."""
    plain, tables = ([n for n in written if n.startswith("table ") == is_table] for is_table in (False, True))
    parts = []
    for word, names in (("Figure", plain), ("Table", [name.removeprefix("table ") for name in tables])):
        if names:
            several = len(names) > 1 or "-" in names[0]
            parts.append(f"{word}{'s' if several else ''} {', '.join(names)}".replace("-", " to "))
    return "; ".join(parts)


def _expanded(names: list[str]) -> Iterator[str]:
    for name in names:
        found = _RANGE.fullmatch(name)
        if not found:
            yield name
            continue
        table, chapter, first, _, last = found.groups()
        for number in range(int(first), int(last) + 1):
            yield f"{table or ''}{f'{chapter}.' if chapter else ''}{number}"


def _check(path: Path, paper: Paper) -> None:
    """Every figure is answered once, every verdict is one of five, measured ones have numbers, others say how."""
    answered = [figure for answer in paper.answers for figure in answer.figures]
    if missing := [figure for figure in paper.figures if figure not in answered]:
        raise Mistake(f"{path}: nothing answers {', '.join(missing)}: add an [[answer]]")
    if unknown := [figure for figure in answered if figure not in paper.figures or answered.count(figure) > 1]:
        raise Mistake(f"{path}: answered, but twice or not among the paper's figures: {', '.join(unknown)}")
    for answer in paper.answers:
        if answer.verdict not in VERDICTS:
            raise Mistake(f"{path}: {answer.title}: verdict {answer.verdict!r} is none of {', '.join(VERDICTS)}")
        if answer.verdict in MEASURED and not (answer.number and answer.rows):
            raise Mistake(f"{path}: {answer.title} is {answer.verdict}: name the rows and the number that say so")
        if answer.verdict == NOT_MEASURED and not (answer.measure or answer.missing):
            raise Mistake(f"{path}: {answer.title} is not measured yet: name the command that measures it, or what is "
                          "missing")  # fmt: skip
