"""Scripts of the gallery: each runs, its own assertions hold, and its picture is there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from conftest import needs_cpu
from sparing import sliced

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "gallery"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
pytestmark = [needs_cpu, pytest.mark.slow]


@pytest.mark.parametrize("script", sliced(SCRIPTS, 3), ids=lambda path: path.stem)
def test_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is computed and drawn; what it claims is asserted in it."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    names = runpy.run_path(str(script))
    figure = names["draw"](names["run"]())
    assert figure.axes
    import matplotlib.pyplot as plt

    plt.close(figure)


def test_scripts_are_short_and_have_small_pictures() -> None:
    assert len(SCRIPTS) >= 13
    for script in SCRIPTS:
        picture = FOLDER / "pictures" / f"{script.stem}.png"
        assert picture.stat().st_size < 60_000, picture
        assert len(script.read_text().splitlines()) < 80, script
    assert {path.stem for path in (FOLDER / "pictures").iterdir()} == {path.stem for path in SCRIPTS}
