"""The compile cache: built once by many, whole or not at all, rebuilt when damaged, honest about compile errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mansard as ms
from mansard.codegen.instantiate import Source
from mansard.compile import cxx, key
from mansard.compile.cache import Built, Cache, open_cache
from mansard.errors import CompileError, MansardWarning

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Source("cpu", 'extern "C" int kernel(const void*) { return 0; }\n', ())


def make(text: str = "text", compiler: str = "cc 1", flags: tuple[str, ...] = ("-O3",), arch: str = "x") -> key.Key:
    return key.Key(text, "headers", flags, compiler, arch)


def build_of(content: bytes, counter: list[int]) -> object:
    def build(folder: Path) -> Built:
        counter.append(1)
        (folder / "binary").write_bytes(content)
        return Built("binary", "log")

    return build


def test_second_request_does_not_build(tmp_path: Path) -> None:
    calls: list[int] = []
    for _ in range(3):
        entry = Cache(tmp_path).get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]
    assert len(calls) == 1 and entry.binary.read_bytes() == b"abc" and entry.log == "log"
    assert (entry.folder / "k.cu").read_text() == "text"


@pytest.mark.parametrize("change", [{"text": "t2"}, {"compiler": "cc 2"}, {"flags": ("-O2",)}, {"arch": "y"}])
def test_key_covers_everything(change: dict[str, object]) -> None:
    assert make().digest != make(**change).digest  # type: ignore[arg-type]


def test_key_follows_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key, "INCLUDE_DIRS", (tmp_path,))
    (tmp_path / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text("int x;\n")
    before = key.headers_digest('#include "a.cuh"\n')
    (tmp_path / "b.cuh").write_text("int yy;\n")
    assert key.headers_digest('#include "a.cuh"\n') != before


def test_code_is_the_same_whatever_is_said_about_it(tmp_path, monkeypatch):
    """Records of kernels survive comments, blank lines and another folder, and nothing else."""
    monkeypatch.setattr(key, "INCLUDE_DIRS", (tmp_path,))
    text = '#include "inner/a.cuh"\nint x;\n'
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.cuh").write_text('#pragma once\n#include "inner/b.cuh"\nint a = 1;  // one\n')
    (tmp_path / "inner/b.cuh").write_text("int b = 2;\n")
    before = key.code_digest(text)
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer/c.cuh").write_text('/* it\n was a */\n#include "inner/b.cuh"\n\nint  a = 1;\n')
    assert key.code_digest('#include "outer/c.cuh"\nint x;  // why\n') == before
    (tmp_path / "inner/b.cuh").write_text("int b = 22;\n")
    assert key.code_digest(text) != before


@pytest.mark.parametrize("damage", ["truncate", "delete", "manifest"])
def test_damaged_entry_is_rebuilt(tmp_path: Path, damage: str) -> None:
    calls: list[int] = []
    cache = Cache(tmp_path)
    entry = cache.get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]
    if damage == "truncate":
        entry.binary.write_bytes(b"a")
    elif damage == "delete":
        entry.binary.unlink()
    else:
        (entry.folder / "manifest.json").write_text("{")
    again = cache.get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]
    assert len(calls) == 2 and again.binary.read_bytes() == b"abc"


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> Built:
        (folder / "half").write_text("x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Cache(tmp_path).get_or_build(make(), "k.cu", fail)
    assert Cache(tmp_path).get(make()) is None
    assert not list((tmp_path / "tmp").iterdir())


def test_unwritable_cache_still_answers(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(MansardWarning, match="MANSARD_CACHE_DIR"):
        cache = open_cache(blocked / "cache")
    assert cache.get_or_build(make(), "k.cu", build_of(b"abc", [])).binary.exists()  # type: ignore[arg-type]


def test_compile_error_shows_numbered_source(own_cache: Path) -> None:
    bad = Source("cpu", "int x;\nint y = nonsense;\n", ())
    with pytest.raises(CompileError) as caught:
        cxx.compile_cpu(bad)
    assert "nonsense" in str(caught.value) and "   2 | int y = nonsense;" in str(caught.value)


_CHILD = """
import sys, numpy as np, mansard as ms
from mansard.compile import cxx
built = []
real = cxx.forks.run
def counting(command, **options):
    if "-o" in command: built.append(command)
    return real(command, **options)
cxx.forks.run = counting
A = np.ones((100, 3))
assert (ms.gram(A, backend="cpu") == 100).all()
print(len(built))
"""


@pytest.mark.slow
def test_eight_cold_processes_compile_once(tmp_path: Path) -> None:
    env = os.environ | {"MANSARD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "MANSARD_LAUNCHER": "python"}
    children = [
        subprocess.Popen([sys.executable, "-c", _CHILD], env=env, stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    outputs = [child.communicate(timeout=120)[0] for child in children]
    assert all(child.returncode == 0 for child in children)
    assert sum(int(text) for text in outputs) == 1


@pytest.mark.slow
def test_warm_cache_does_not_compile(tmp_path: Path) -> None:
    env = os.environ | {"MANSARD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "MANSARD_LAUNCHER": "python"}
    run = [sys.executable, "-c", _CHILD]
    first, second = (subprocess.run(run, env=env, check=True, capture_output=True, text=True).stdout for _ in range(2))
    assert (int(first), int(second)) == (1, 0)


def test_no_compiler_still_answers(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from mansard.backends import select

    monkeypatch.setenv("MANSARD_CXX", "/nonexistent/c++")
    ms.settings.reread()
    for cached in (cxx.find_compiler, select._unavailable):
        cached.cache_clear()
    try:
        with pytest.warns(MansardWarning, match=r"install g\+\+"):
            C = ms.gram(np.ones((7, 2)), np.ones((7, 3)))
        assert (C == 7).all()
    finally:
        monkeypatch.undo()
        ms.settings.reread()
        for cached in (cxx.find_compiler, select._unavailable):
            cached.cache_clear()
