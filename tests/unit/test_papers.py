"""Pages of papers: committed pages are what the generator writes, every figure has a verdict, numbers are of rows."""

import dataclasses
import io
import json
import re
import string
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from sparing import rotated

from mansard.bench import store
from mansard.bench.plots import DRAWN_BY
from papers import declared, found, measure, pages
from papers.declared import MEASURED, PAPERS, Mistake, read

REQUIRED = {"ernst": 24, "masliah": 13, "panzlaff": 36, "tsm2": 18, "dong": 69}  # figures and tables of each paper


@pytest.mark.parametrize("name", PAPERS)
def test_committed_page_is_what_the_generator_writes(name):
    committed = (declared.HERE / name / "README.md").read_text()
    assert committed == pages.page(read(name)), f"run python -m papers.pages {name}"


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_has_a_section_and_a_verdict(name):
    paper = read(name)
    assert len(paper.figures) == REQUIRED[name]
    text = (declared.HERE / name / "README.md").read_text()
    for answer in paper.answers:
        section = text.split(f"\n## {answer.title}\n")[1].split("\n## ")[0]
        assert f"**{answer.verdict.capitalize()}.**" in section


@pytest.mark.parametrize("name", PAPERS)
def test_pictures_are_there_and_small(name):
    paper = read(name)
    kept = {path.stem for path in (declared.HERE / name / pages.PICTURES).glob("*")}
    assert kept == set(pages.pictures(paper))


DRAWN = [(name, picture) for name in PAPERS for picture in pages.pictures(read(name))]


@rotated(6)
@pytest.mark.parametrize(("name", "picture"), DRAWN)
def test_committed_pictures_are_what_the_generator_draws(name, picture):
    """Pixel by pixel, where the same matplotlib drew the committed one."""
    image, matplotlib = pytest.importorskip("PIL.Image"), pytest.importorskip("matplotlib")
    paper = read(name)
    drawn = image.open(io.BytesIO(pages.drawn(paper, pages.pictures(paper)[picture])))
    kept = image.open(declared.HERE / name / pages.PICTURES / f"{picture}.png")
    counts = sorted((count for count, _ in drawn.getcolors()), reverse=True)
    assert 0.3 < counts[0] / sum(counts) < 0.98 and len(counts) > 5, "blank, or no plot"
    if kept.info[DRAWN_BY] == matplotlib.__version__:
        assert drawn.size == kept.size and drawn.convert("RGB").tobytes() == kept.convert("RGB").tobytes(), (
            f"run python -m papers.pages {name}"
        )


def test_pictures_of_all_papers_are_below_one_and_a_half_megabytes():
    assert sum(path.stat().st_size for path in declared.HERE.glob(f"*/{pages.PICTURES}/*")) < 1_500_000


def test_colours_of_lines_stay_apart_in_small_pictures():
    """Of a picture that is white but for seven thin lines, as most are."""
    image, plots = pytest.importorskip("PIL.Image"), pytest.importorskip("mansard.bench.plots")
    pytest.importorskip("matplotlib")
    drawn, (axis,) = plots.figure({"environment": {"device": "a device", "date": "2026-11-19"}}, "lines")
    for number in range(len(plots.COLOURS)):
        axis.plot([1, 2, 3], [number, number + 2, number], label=str(number), **plots.style(number))
    axis.legend()
    kept = image.open(io.BytesIO(plots.small_png(drawn, 75))).convert("RGB")
    colours = [colour for _, colour in kept.getcolors(1 << 20)]
    for wanted in plots.COLOURS:
        parts = [int(wanted[at : at + 2], 16) for at in (1, 3, 5)]
        apart = min(max(abs(one - other) for one, other in zip(parts, colour, strict=True)) for colour in colours)
        assert apart < 12, f"{wanted} is not drawn: the nearest colour is {apart} of 255 away"


@pytest.mark.parametrize("name", PAPERS)
def test_measured_verdicts_quote_numbers_of_their_rows(name):
    for answer in read(name).answers:
        fields = [field for _, field, _, _ in string.Formatter().parse(answer.why) if field is not None]
        if answer.verdict in MEASURED:
            assert fields, f"{answer.title}: the sentence of a measured verdict has no number from rows"


@pytest.mark.parametrize("name", PAPERS)
def test_named_sets_exist(name):
    from mansard.bench import applications
    from mansard.bench.runner import sets_of
    from papers import EXTENSION

    runs = [*read(name).runs, *(each.measure.removeprefix("mansard bench ") for each in read(name).answers
                                if each.measure.startswith("mansard bench") and "--set" in each.measure)]  # fmt: skip
    for run in runs:
        family = run.split()[0]
        is_application = family in applications.APPLICATIONS
        known = applications.load(family).SETS if is_application else sets_of(family, EXTENSION)
        for one in re.search(r"--set (\S+)", run)[1].split(","):
            assert one in known, run


@pytest.mark.parametrize("name", PAPERS)
def test_commands_of_a_paper_parse(name, capsys):
    import argparse

    from mansard.bench import command

    assert measure.main(name, ["--list"]) == 0
    paper = read(name)
    on_gpus = [each for each in paper.experiments if each.device != "cpu"]
    assert len(capsys.readouterr().out.splitlines()) == len(paper.runs) + len(on_gpus)
    assert measure.main(name, ["--list", "--device", "cpu", "--elements", "4096"]) == 0
    every = capsys.readouterr().out.splitlines()
    lines = [line for line in every if line.startswith("mansard")]
    assert len(every) == len(lines) + sum(each.device != "cuda" for each in paper.experiments)
    assert lines and not any("tilesize" in line or "steps,tsm2r" in line for line in lines)  # sets for GPUs
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for line in lines:
        given = parser.parse_args(line.split()[2:])
        assert given.device == "cpu" and given.elements == 4096 and given.out.is_absolute()


BY_HAND = {"h200/hydro/triple-point.jsonl"}  # the last line of `python -m examples.hydrodynamics --json`
FOLDERS = {"cuda": "h200", "cpu": "xeon-avx512-2-cores"}  # of the results that pages read


@pytest.mark.parametrize("name", PAPERS)
def test_every_row_that_a_page_reads_is_measured_by_a_declared_run(name, monkeypatch):
    seen, read_text, collect = set(), Path.read_text, store.collect

    def noted(path, *arguments, **options):
        seen.update({path} if path.suffix == ".jsonl" else ())
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", noted)
    monkeypatch.setattr(store, "collect", lambda folder: seen.add(folder) or collect(folder))
    for cached in (found.lines, found.results):
        cached.cache_clear()
    paper = read(name)
    pages.page(paper)
    root, measured = declared.HERE.parent, set()
    for device, folder in FOLDERS.items():
        given = measure.parser(name).parse_args(["--device", device, "--into", str(root / "results" / folder)])
        for command in measure.commands(paper, given):
            measured.add(Path(command[command.index("--out") + 1]))
        for _, files in measure.experiments(paper, given):
            measured.update(files)
    assert seen and seen <= measured | {root / "results" / path for path in BY_HAND}


def test_program_that_ended_is_not_run_again(tmp_path, monkeypatch, capsys):
    """Not before it ended well, and again when asked to."""
    ran, status = [], [3, 0, 0]
    monkeypatch.setattr(measure, "commands", lambda paper, given: [])

    def run(command, **options):
        ran.append(command)
        return SimpleNamespace(returncode=status[len(ran) - 1])

    monkeypatch.setattr(measure.subprocess, "run", run)
    given = ["--device", "cuda", "--into", str(tmp_path / "some"), "--no-draw"]
    assert measure.main("ernst", given) == 1 and len(ran) == 1
    assert measure.main("ernst", given) == 0 and len(ran) == 2
    assert measure.main("ernst", given) == 0 and len(ran) == 2
    assert "finished before" in capsys.readouterr().out
    assert measure.main("ernst", [*given, "--again"]) == 0 and len(ran) == 3
    assert ran[0][1:3] == ["-m", "papers.ernst.occupancy"] and str(tmp_path / "some" / "papers") in ran[0]


def test_finished_command_is_known_from_its_journal(tmp_path):
    line = ["bench", "gram", "--set", "quick,full", "--out", str(tmp_path)]
    assert not measure.is_finished(line)
    other = '{"line": "run", "run": 1, "environment": {}, "options": {"sets": ["quick"]}}\n'
    (tmp_path / "rows.jsonl").write_text(other)
    assert not measure.is_finished(line)
    journal = '{"line": "run", "run": 1, "environment": {}, "options": {"sets": ["quick", "full"]}}\n'
    (tmp_path / "rows.jsonl").write_text(journal)
    assert not measure.is_finished(line)  # begun, not finished
    (tmp_path / "rows.jsonl").write_text(journal + '{"line": "finished", "run": 1}\n')
    assert measure.is_finished(line)


BROKEN = {
    "nothing answers 2": ("", 'figures = ["1"]'),
    "twice or not among": ("", 'figures = ["1", "2", "2"]'),
    "is none of": ("fine", 'figures = ["1-2"]'),
    "name the rows and the number": ("reproduced", 'figures = ["1-2"]'),
    "name the command": ("not measured yet", 'figures = ["1-2"]'),
}


@pytest.mark.parametrize("said", BROKEN)
def test_impossible_declaration_is_refused(said, tmp_path, monkeypatch):
    verdict, figures = BROKEN[said]
    (tmp_path / "some").mkdir()
    text = '[paper]\ntitle = ""\nsource = ""\nhardware = ""\nfigures = ["1-2"]\n[[answer]]\nclaims = ""\nwhy = ""\n'
    (tmp_path / "some" / "figures.toml").write_text(
        f'{text}verdict = "{verdict or "not testable here"}"\n{figures}\n'
    )
    monkeypatch.setattr(declared, "HERE", tmp_path)
    with pytest.raises(Mistake, match=said):
        read("some")


def test_verdict_that_rows_contradict_is_refused(monkeypatch):
    paper = read("masliah")
    answer = next(each for each in paper.answers if each.number == "efficiency")
    from papers.masliah import answers

    monkeypatch.setattr(answers, "efficiency", lambda: found.Number(False, {}))
    with pytest.raises(Mistake, match="rows say otherwise"):
        pages.number_of(paper, answer)


def test_numbers_may_support_the_opposite(monkeypatch):
    from papers.masliah import answers

    paper = read("masliah")
    answer = next(each for each in paper.answers if each.number == "efficiency")
    opposite = dataclasses.replace(answer, number="not efficiency")
    with pytest.raises(Mistake, match="rows say otherwise"):
        pages.number_of(paper, opposite)
    monkeypatch.setattr(answers, "efficiency", lambda: found.Number(False, {"x": 1}))
    assert pages.number_of(paper, opposite).values == {"x": 1}


def test_declarations_hold_no_measured_numbers_of_ours():
    """Numbers of ours come from rows: a sentence of a measured verdict has at most the problem's own sizes."""
    for name in PAPERS:
        for values in tomllib.loads((declared.HERE / name / "figures.toml").read_text())["answer"]:
            if values["verdict"] in MEASURED:
                typed = re.findall(r"\d+\.\d+(?: times| GFLOP| %)", re.sub(r"\{.*?\}", "", values["why"]))
                assert not typed, f"{name}, {values['figures']}: {typed} should come from answers.py"


def test_unknown_paper_is_refused(capsys):
    with pytest.raises(SystemExit):
        pages.main(["nobody"])
    assert "choose among" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ["ijk", "ikj", "registers"])
def test_loops_of_masliah_are_exact(kernel):
    np = pytest.importorskip("numpy")
    from mansard.compile import cxx
    from papers.masliah import cpu

    if cxx.available():
        pytest.skip("there is no C++ compiler")
    n, rng = 10, np.random.default_rng(3)
    A, B, C = (rng.integers(-3, 4, (7, n, n)).astype(float) for _ in range(3))
    expected = C + A @ B
    cpu.loops(n)[kernel](A.ctypes.data, B.ctypes.data, C.ctypes.data, 7, 2)
    assert (expected == C).all()


def test_matrix_file_becomes_a_set(tmp_path):
    import scipy.io
    import scipy.sparse

    from mansard.bench.cases import Size
    from mansard.bench.sparse import cases, matrices
    from mansard.errors import UsageError

    path = tmp_path / "tri.mtx"
    scipy.io.mmwrite(path, scipy.sparse.diags([1.0, 2.0, 3.0], [-1, 0, 1], shape=(50, 50)))
    found = cases.of_file(str(path))(Size("cpu", {"float64": 1 << 12}, 1 << 20))
    assert [case.operation for case in found] == ["spmv", *["powers"] * 5]
    assert {case.K for case in found} == {50}
    import numpy as np

    A = matrices.make(str(path), 50, "float64", np)
    assert A.shape == (50, 50) and A.nnz == 148
    assert matrices.make(str(path), 20, "float64", np).shape == (20, 20)
    with pytest.raises(UsageError, match="no such file"):
        cases.of_file(str(tmp_path / "none.mtx"))




@pytest.mark.parametrize("rows", [1 << 13, (1 << 13) + 37])
def test_split_peer_multiplies(rows):
    torch = pytest.importorskip("torch")
    import numpy as np

    from mansard.bench.cases import Case
    from papers.ernst.split_peer import SplitPeer

    A, B = (torch.from_numpy(np.random.default_rng(seed).integers(-3, 4, (rows, 5)).astype(float)) for seed in (1, 2))
    case = Case("full", "float64", 5, 5, rows)
    ways = SplitPeer().gram(case)
    assert len(ways) == 2 and SplitPeer().takes_part(case)  # 4096 slices would be shorter than wide
    for way in ways.values():
        assert (way(A, B) == A.mT @ B).all()
    assert not SplitPeer().takes_part(Case("full", "complex128", 5, 5, rows))


def _occupancy():
    """Made-up rows of table 1 and figure 17: more loads and more warps are faster, to a point."""
    for resident, slower in {0: 1, 1: 1.05, 4: 1.1, 16: 1.2}.items():
        for parallel in (1, 16):
            warps = 4 * max(1, resident) * (1 if resident else 1 / 132)
            rate = min(4000.0, 40.0 * warps * parallel) / slower
            yield {"what": "read", "resident": resident, "parallel": parallel, "blocks": max(1, 132 * resident),
                   "occupancy": resident / 16, "gbytes_per_second": rate, "right": True, "mhz": 2000.0}  # fmt: skip
    for tile in ([8, 4], [8, 8]):
        for kind, most, registers in (("correct", 3000, 170), ("fewer registers", 5000, 56), ("in L1", 6000, 48)):
            for warps in (4, 8, 16, 24):
                yield {"what": "probe", "tile": tile, "kind": kind, "warps": warps, "right": True,
                       "registers": registers, "gflops": most * min(1.0, warps / 24)}  # fmt: skip


def _dong():
    for n in (64, 512):
        for uplo in "LU":
            for way, rate in {"inverted": 50, "blocked": 400, "recursive": 500, "whole": 900}.items():
                yield {"what": "trsv", "n": n, "uplo": uplo, "way": way, "gflops": rate}
        for operation in ("lu", "cholesky", "qr"):
            for how in ("nonblocked", "classic"):
                yield {"what": "panels", "operation": operation, "n": n, "how": how, "gflops": n + len(how)}
    for how, share, end in (("classic", 0.1, 21_000), ("parallel swaps", 0.05, 20_000), ("recursive", 0.1, 5_000)):
        shares = {"panel": 0.2, "exchange": share, "solve": 0.1, "product": 0.1}
        yield {"what": "line", "how": how, "n": 300, "count": 7, "shares": shares,
               "parts": [["panel", 0, 5], ["product", 5, end]]}  # fmt: skip


def _panzlaff():
    """BabelStream: twice his GH200's speed, and copies that reach it at 64 MiB."""
    for stream, rate in {"copy": 6430, "mul": 6414, "add": 7038, "triad": 7046, "dot": 7488}.items():
        yield {"what": "stream", "stream": stream, "right": True, "gbytes_per_second": rate}
    for mib in (1, 16, 64, 1024):
        yield {"what": "ramp", "bytes": mib << 20, "right": True, "cache": 50 << 20, "stream": "copy",
               "gbytes_per_second": min(4000, 100 * mib), "device": "a device", "date": "2026-11-19"}  # fmt: skip


EXPERIMENTS = {
    "panzlaff": (_panzlaff, "panzlaff-streams", {"babelstream": ("least", 2.0), "copies": ("half", 64.0)}),
    "ernst": (_occupancy, "ernst-occupancy",
              {"bandwidth": ("alone_cycles", 2 * 128 * 8 / (160 / 132)), "altered_kernels": ("larger8", 3.0)}),
    "dong": (_dong, "dong-experiments",
             {"forward_ways": ("least", 1.8), "panels": ("lu_classic", 519), "exchanges_in_time": ("gain", 1.05),
              "panels_in_time": ("own_classic", 6.0)}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_answers_of_experiments_are_computed_from_their_rows(name, tmp_path, monkeypatch):
    """With rows that were made up, since a GPU has not given all of them yet."""
    from importlib import import_module

    rows, file, expected = EXPERIMENTS[name]
    answers = import_module(f"papers.{name}.answers")
    path = tmp_path / "results" / "h200" / "papers" / f"{file}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    monkeypatch.setattr(found, "RESULTS", tmp_path / "results")
    found.lines.cache_clear()
    try:
        for function, (value, wanted) in expected.items():
            number = getattr(answers, function)()
            assert number.holds and number.cells, function
            assert number.values[value] == pytest.approx(wanted), function
    finally:
        found.lines.cache_clear()


def test_versions_of_the_bidiagonalization_stand_beside_ours(tmp_path, monkeypatch):
    """Those that were measured, where ours were; the verdict stands once all four are, each gains, and all together
    more than his."""
    import bench_factors

    bench_factors.journal(tmp_path / "results" / "h200" / "two_sided", ("gebrd",))
    path = tmp_path / "results/h200/papers/dong-experiments.jsonl"
    path.parent.mkdir()
    lines = [json.dumps({"what": "versions", "version": str(each), "n": 512, "gflops": 100 * each + 0.4}) + "\n"
             for each in (2, 1, 3, 4)]  # fmt: skip
    monkeypatch.setattr(found, "RESULTS", tmp_path / "results")
    found.results.cache_clear()
    progress = __import__("papers.dong.answers", fromlist=["progress"]).progress
    try:
        for count in (1, 4):
            path.write_text("".join(lines[:count]))
            found.lines.cache_clear()
            number = progress()
            assert number.holds == (count == 4)
            by_size = {cell[0]: dict(zip(number.columns, cell, strict=True)) for cell in number.cells}
            assert by_size["512"]["version 2"] == "200" and ("version 1" in number.columns) == (count == 4)
            assert by_size["256"]["version 2"] == "" and "nonblocked" not in number.columns
        path.write_text("".join(json.dumps({"what": "versions", "version": str(each), "n": 512, "gflops": 100 + each})
                                + "\n" for each in (1, 2, 3, 4)))  # fmt: skip
        found.lines.cache_clear()
        assert not progress().holds, "each gains, but together less than his"
    finally:
        found.lines.cache_clear()
        found.results.cache_clear()


@pytest.mark.parametrize(("square", "panel", "product", "holds"), [
    ((0.3, 0.6), (0.6, 0.3), (0.1, 0.1), True), ((0.6, 0.3), (0.6, 0.3), (0.1, 0.1), False),
    ((0.3, 0.6), (0.3, 0.6), (0.1, 0.1), False), ((0.3, 0.6), (0.6, 0.3), (0.02, 0.05), False),
])  # fmt: skip
def test_shares_of_a_reduction_are_three_claims(square, panel, product, holds, monkeypatch):
    """Square products grow, panels fall, products of matrices stay: each of them can fail."""
    from papers.dong import reduced

    rows = [{"what": "reduction", "n": n, "count": 7, "milliseconds": 1.0,
             "shares": {"square": square[at], "panel": panel[at], "product": product[at]}}
            for at, n in enumerate((128, 512))]  # fmt: skip
    monkeypatch.setattr(reduced, "experiment", lambda name, **equal: rows)
    number = reduced.phases()
    assert number.holds == holds and [cell[0] for cell in number.cells] == ["128", "512"]
    monkeypatch.setattr(reduced, "experiment", lambda name, **equal: [])
    assert not reduced.phases().holds


JOURNALS = {  # folder: group, sets, and what is expected of which answers
    "gram": ("gram", ("mapping", "mapping_search"), {("ernst", "searched"): ("widths", "32")}),
    "matmul": ("matmul", ("smallk", "rectangles", "steps"),
               {("tsm2", "small_inner"): ("most", 15360), ("tsm2", "rectangular"): ("peer", 1.0),
                ("tsm2", "steps"): ("single_worst", 0.0)}),
    "two_sided": ("factor", ("gebrd",), {("dong", "bidiagonal"): ("largest", 512),
                                          ("dong", "progress"): ("largest", 512)}),
}  # fmt: skip


@pytest.mark.parametrize("folder", JOURNALS)
def test_answers_are_computed_from_rows_of_their_sets(folder, tmp_path, monkeypatch):
    """With rows that were made up; verdicts are those of real ones."""
    import bench_factors
    import bench_samples

    from papers.ernst import cases

    group, sets, expected = JOURNALS[folder]
    monkeypatch.setattr(cases, "_SEARCHED", (32,))
    path = tmp_path / "h200" / folder
    if group == "factor":
        bench_factors.journal(path, sets)
    else:
        bench_samples.journal(path, sets, group)
    monkeypatch.setattr(found, "RESULTS", tmp_path)
    found.results.cache_clear()
    try:
        for (paper, function), (value, wanted) in expected.items():
            number = getattr(__import__(f"papers.{paper}.answers", fromlist=[function]), function)()
            assert number.cells and len(number.columns) == len(number.cells[0])
            if isinstance(wanted, float):
                assert number.values[value] > wanted
            else:
                assert number.values[value] == wanted
    finally:
        found.results.cache_clear()
