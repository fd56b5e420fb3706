"""The compile cache and foreign hands: manifests that lie, links, locks, and folders that others can write to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_cache import build_of, make

from mansard import private
from mansard.codegen.instantiate import Source
from mansard.compile import cxx, nvrtc
from mansard.compile.cache import Cache, Entry, default_cache, open_cache
from mansard.errors import MansardWarning
from mansard.machine import machine
from mansard.plan.explain import NOMINAL
from mansard.records.trials import store_path

H200 = NOMINAL["sm_90a"]


def built(cache: Cache, calls: list[int]) -> Entry:
    return cache.get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]


def good(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text()))


def manifest(**changes: Any) -> Any:
    """Damage: a manifest with other values."""
    return lambda folder: (folder / "manifest.json").write_text(json.dumps({**good(folder), **changes}))


def text(content: str) -> Any:
    return lambda folder: (folder / "manifest.json").write_text(content)


def replaced(name: str, make_other: Any) -> Any:
    """Damage: a file of the entry is something else."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        make_other(folder / name)

    return damage


def foreign(path: Path) -> None:
    """A link to the same bytes outside the entry: the checksum is right."""
    outside = path.parent.parent / "outside"
    outside.write_bytes(b"abc" if path.name == "binary" else json.dumps({"binary": "binary"}).encode())
    path.symlink_to(outside)


DAMAGES = {
    "list": text("[]"), "number": text("7"), "null": text("null"), "cut": text('{"binary": "bin'), "empty": text(""),
    "nested": text("[" * 9999), "huge": text("x" * (1 << 20)), "integer": manifest(binary=3),
    "none": manifest(binary=None),
    "list of names": manifest(binary=["binary"]), "absolute": manifest(binary="/usr/lib/libc.so.6"),
    "above": manifest(binary="../../x"), "below": manifest(binary="a/binary"), "dot": manifest(binary="."),
    "nothing": manifest(binary=""), "newline": manifest(binary="binary\n"), "null byte": manifest(binary="binary\0"),
    "no checksum": manifest(sha256=None), "short checksum": manifest(sha256="ab"),
    "empty binary": lambda folder: (folder / "binary").write_bytes(b""),
    "changed binary": lambda folder: (folder / "binary").write_bytes(b"abd"),
    "linked binary": replaced("binary", foreign), "linked manifest": replaced("manifest.json", foreign),
    "pipe": replaced("binary", os.mkfifo), "folder": replaced("binary", Path.mkdir),
    "no log": lambda folder: (folder / "build.log").unlink(),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_entry_is_said_and_built_again(tmp_path: Path, name: str) -> None:
    calls: list[int] = []
    entry = built(Cache(tmp_path), calls)
    DAMAGES[name](entry.folder)
    with pytest.warns(MansardWarning, match="damaged and is built again: ") as said:
        again = built(Cache(tmp_path), calls)
    assert len(calls) == 2 and again.binary.read_bytes() == b"abc" and again.binary.parent == entry.folder
    assert len(said) == 1 and str(entry.folder) in str(said[0].message)
    assert built(Cache(tmp_path), calls) and len(calls) == 2


@pytest.mark.parametrize("dangling", [False, True])
def test_a_linked_entry_is_replaced_and_its_target_left_alone(tmp_path: Path, dangling: bool) -> None:
    calls: list[int] = []
    entry = built(Cache(tmp_path), calls)
    elsewhere = tmp_path / "elsewhere"
    entry.folder.rename(elsewhere)
    entry.folder.symlink_to(tmp_path / "nowhere" if dangling else elsewhere)
    with pytest.warns(MansardWarning, match="damaged"):
        again = built(Cache(tmp_path), calls)
    assert len(calls) == 2 and not again.folder.is_symlink() and (elsewhere / "binary").exists()


def test_locks_neither_follow_links_nor_truncate(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    locks = tmp_path / "locks"
    locks.mkdir()
    for target in (victim, tmp_path / "missing"):
        (locks / make(target.name).digest).symlink_to(target)
        Cache(tmp_path).get_or_build(make(target.name), "k.cu", build_of(b"x", []))  # type: ignore[arg-type]
    assert victim.read_text() == "precious" and not (tmp_path / "missing").exists()
    (locks / make("other").digest).write_text("kept")
    Cache(tmp_path).get_or_build(make("other"), "k.cu", build_of(b"x", []))  # type: ignore[arg-type]
    assert (locks / make("other").digest).read_text() == "kept"


def test_folders_and_locks_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        entry = built(open_cache(tmp_path / "above" / "cache"), [])
        machine_file = tmp_path / "above" / "cache" / "machines" / "one.json"
        private.replace_file(machine_file, "{}")
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "above").rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "above", *folders)} == {0o700}
    assert (tmp_path / "above" / "cache" / "locks" / make().digest).stat().st_mode & 0o777 == 0o600
    assert machine_file.stat().st_mode & 0o777 == 0o600 and entry.binary.exists()


@pytest.mark.parametrize("how", ["owner", "group", "others"])
def test_a_folder_that_others_can_write_to_is_not_used(own_cache: Path, monkeypatch: Any, how: str) -> None:
    own_cache.mkdir()
    own_cache.chmod({"owner": 0o700, "group": 0o770, "others": 0o707}[how])
    if how == "owner":
        uid = os.geteuid()
        monkeypatch.setattr(private.os, "geteuid", lambda: uid + 1)
    private._instead_of.cache_clear()
    with pytest.warns(MansardWarning, match=r"is not used.*MANSARD_CACHE_DIR") as said:
        used = {private.cache_root(), store_path(H200, "gram").parents[2], machine.store_path(H200).parents[1]}
    assert len(said) == 1 and str(own_cache) in str(said[0].message)
    assert len(used) == 1 and own_cache not in used
    assert default_cache().root in used and not list(own_cache.iterdir())
    private._instead_of.cache_clear()


def test_a_folder_that_others_can_read_is_used(own_cache: Path) -> None:
    own_cache.mkdir(mode=0o755)
    own_cache.chmod(0o755)
    assert private.cache_root() == own_cache


# --- keys ---------------------------------------------------------------------------------------------------------


class Recorder:
    """Stands in for the cache: notes the key, builds nothing."""

    root = Path("/nowhere")

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def get_or_build(self, key: Any, source: str, build: Any) -> Entry:
        self.keys.append(key)
        return Entry(Path("/nowhere"), Path("/nowhere/0/binary"), "")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    for module in (cxx, nvrtc):
        monkeypatch.setattr(module, "default_cache", lambda: found)
    return found


@pytest.mark.skipif(cxx.available() is not None, reason=str(cxx.available()))
def test_every_flag_of_a_cpu_kernel_is_in_its_key(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("cpu", 'extern "C" int kernel(const void*) { return 0; }\n', ())
    cxx.compile_cpu(source)
    cxx.compile_cpu(source, ("-DMORE",))
    monkeypatch.setattr(cxx, "CPU_FLAGS", (*cxx.CPU_FLAGS, "-ffast-math"))
    cxx.compile_cpu(source)
    plain, more, fast = recorder.keys
    assert set(cxx.CPU_FLAGS) - {"-ffast-math"} <= set(plain.flags)
    assert "-DMORE" in more.flags and "-ffast-math" in fast.flags
    assert len({key.digest for key in recorder.keys}) == 3


@pytest.mark.skipif(cxx.available() is not None, reason=str(cxx.available()))
def test_every_flag_of_an_emulated_kernel_is_in_its_key(recorder: Recorder) -> None:
    text = '#include "mansard/emulated/runtime.cpp"\n'
    for sanitize, cooperative in ((False, False), (True, False), (False, True)):
        cxx.compile_emulated(Source("emulated", text, (), cooperative), sanitize)
    kernels = recorder.keys[1::2]
    assert all(set(cxx.KERNEL_FLAGS) <= set(key.flags) for key in kernels)
    assert set(cxx.SANITIZE_FLAGS) <= set(kernels[1].flags) and set(cxx.RUNTIME_SANITIZE_FLAGS) <= set(
        recorder.keys[2].flags
    )
    assert "-DMANSARD_EMULATED_COOPERATIVE" in kernels[2].flags
    assert len({key.digest for key in kernels}) == 3


@pytest.mark.skipif(cxx.available() is not None, reason=str(cxx.available()))
def test_the_command_has_no_flag_that_the_key_lacks(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else reaches the compiler names folders, files, and the kind of output."""
    seen: list[tuple[Any, list[str]]] = []
    real = cxx.forks.run

    def run(command: list[str], **options: Any) -> Any:
        seen[-1][1].extend(command)
        return real(command, **options)

    class Spy(Cache):
        def get_or_build(self, key: Any, source: str, build: Any) -> Entry:
            seen.append((key, []))
            return super().get_or_build(key, source, build)

    cxx.find_compiler()
    monkeypatch.setattr(cxx, "default_cache", lambda: Spy(own_cache))
    monkeypatch.setattr(cxx.forks, "run", run)
    cxx.compile_cpu(Source("cpu", 'extern "C" int kernel(const void*) { return 0; }\n', ()))
    key, command = seen[0]
    free = {"-shared", "-o"} | {flag for flag in command if flag.startswith("-I")}
    assert {flag for flag in command if flag.startswith("-")} - free == set(key.flags)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
def test_flags_and_architecture_of_a_gpu_kernel_are_in_its_key(recorder: Recorder, monkeypatch: Any) -> None:
    source = Source("cuda", 'extern "C" __global__ void kernel() {}\n', ())
    nvrtc.compile_cuda(source, "sm_90a")
    nvrtc.compile_cuda(source, "sm_80")
    monkeypatch.setattr(nvrtc, "FLAGS", (*nvrtc.FLAGS, "-DMORE"))
    nvrtc.compile_cuda(source, "sm_90a")
    assert len({key.digest for key in recorder.keys}) == 3 and "-DMORE" in recorder.keys[2].flags
