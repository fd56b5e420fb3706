"""C++ -> shared library with the system's compiler, for CPU kernels and for the emulator."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

from .. import forks, settings
from ..codegen.instantiate import Source
from ..errors import BackendUnavailable, CompileError
from .cache import Built, Cache, Entry, default_cache
from .key import INCLUDE_DIRS, Key, make_key

# Kernels say themselves which products are fused with additions (include/mansard/cpu/fused.hpp): -ffp-contract=off.
CPU_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-fPIC", "-Wall", "-Wextra")
EMULATED_FLAGS = ("-std=c++17", "-g1", "-fPIC", "-fvisibility=hidden", "-Wall", "-DMANSARD_EMULATED")
# Compiling takes most of the time of a test: -Og spares a tenth to a third of it beside -O1, and such kernels run
# about as fast; -O0 spares more, but they then run longer. The runtime is compiled once.
KERNEL_FLAGS, RUNTIME_FLAGS = (*EMULATED_FLAGS, "-Og"), (*EMULATED_FLAGS, "-O1")
EXTENSION_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-Wall", "-Wextra")  # code that other programs call
# Without some of UBSan: a null pointer crashes, and AddressSanitizer knows where objects end.
SANITIZE_FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,object-size,vptr",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)
RUNTIME_SANITIZE_FLAGS = ("-fsanitize=address", "-fno-omit-frame-pointer")  # UBSan there doubles its compile time
RUNTIME = '#include "mansard/emulated/runtime.cpp"\n'

# What CPU kernels include of the system, precompiled: reading it takes longer than most kernels take to compile. Every
# kernel still includes what it needs, so that it is the same kernel with and without.
PRELUDE = """\
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(_OPENMP)
#include <omp.h>
#endif
"""
WITHOUT_PRELUDE = 3  # kernels of a process that are compiled before precompiling pays

_SOURCES = {".so": "kernel.cpp", ".o": "kernel.cpp", ".gch": "prelude.hpp"}
_MODES = {".so": "-shared", ".o": "-c", ".gch": "-xc++-header"}
_compiled: Counter[Path] = Counter()  # CPU kernels by cache


def compile_cpu(source: Source, extra_flags: tuple[str, ...] = ()) -> Entry:
    """The shared library of a CPU kernel."""
    return _compile(source.text, CPU_FLAGS + extra_flags, "kernel.so", prelude=not extra_flags)


def compile_emulated(source: Source, sanitize: bool) -> Entry:
    """The shared library of a CUDA kernel for the emulator, linked with the emulator's runtime object."""
    runtime = _compile(RUNTIME, RUNTIME_FLAGS + (RUNTIME_SANITIZE_FLAGS if sanitize else ()), "runtime.o")
    flags = KERNEL_FLAGS + (SANITIZE_FLAGS if sanitize else ()) + _linker()
    if source.cooperative:
        flags += ("-DMANSARD_EMULATED_COOPERATIVE",)
    return _compile(source.text, flags, "kernel.so", link=(runtime.binary,))


def compile_extension(text: str, interface: str, headers: Path) -> Entry:
    """A shared library that another program calls through its own headers (Python's, XLA's), whose binary interface is
    `interface`, a word. The key leaves out where the headers are: they are the same wherever the interface is."""
    return _compile(text, _extension_flags(interface), "kernel.so", include=headers)


def is_extension_cached(text: str, interface: str) -> bool:
    """Whether the cache holds an extension."""
    return default_cache().get(_key(text, _extension_flags(interface))) is not None


def _extension_flags(interface: str) -> tuple[str, ...]:
    return (*EXTENSION_FLAGS, f"-DMANSARD_INTERFACE={interface}")


def _compile(
    text: str, flags: tuple[str, ...], binary: str, link: tuple[Path, ...] = (), prelude: bool = False,
    include: Path | None = None,
) -> Entry:  # fmt: skip
    linked = tuple(path.parent.name for path in link)  # a linked object's digest stands for its content
    key = _key(text, flags + linked)
    source = _SOURCES[Path(binary).suffix]

    def build(folder: Path) -> Built:
        compiler, _ = find_compiler()
        options = [*flags, *(f"-I{directory}" for directory in INCLUDE_DIRS)]
        if include:
            options += ["-isystem", str(include)]
        if prelude:
            options += _prelude(default_cache().root)
        command = [compiler, *options, _MODES[Path(binary).suffix], source, *map(str, link), "-o", binary]
        run = forks.run(command, cwd=folder)
        if run.returncode:
            raise CompileError(" ".join(command), run.stderr, text)
        return Built(binary, " ".join(command) + "\n" + run.stderr)

    return default_cache().get_or_build(key, source, build)


def _key(text: str, flags: tuple[str, ...]) -> Key:
    return make_key(text, flags, key_version(), host_arch())


def is_cached(source: Source) -> bool:
    """Whether the cache holds a CPU kernel."""
    return default_cache().get(_key(source.text, CPU_FLAGS)) is not None


def key_version() -> str:
    """The compiler's version, as it stands in keys. Without a compiler, that of the one which filled most of the cache
    on a CPU like this: a cache may come from a machine that has one."""
    try:
        return find_compiler()[1]
    except BackendUnavailable:
        version = _filled_by(default_cache())
        if version is None:
            raise
        return version


@lru_cache(maxsize=4)
def _filled_by(cache: Cache) -> str | None:
    """The compiler of most CPU kernels of a cache that run here; None if it holds none."""
    found = Counter(key.compiler for key in cache.each_key() if key.arch == host_arch() and key.flags == CPU_FLAGS)
    return found.most_common(1)[0][0] if found else None


@lru_cache(maxsize=1)
def _linker() -> tuple[str, ...]:
    """The option for a linker that takes less than half of the usual one's time, where it is installed and works: a
    compiler may have its libraries where only its own linker finds them."""
    if not shutil.which("ld.gold"):
        return ()
    with tempfile.TemporaryDirectory() as folder:
        command = [find_compiler()[0], *_TRY, "-o", f"{folder}/tried.so"]
        run = forks.run(command)
    return ("-fuse-ld=gold",) if run.returncode == 0 else ()


_TRY = ("-fuse-ld=gold", "-shared", "-fPIC", "-x", "c++", "-")


def _prelude(root: Path) -> tuple[str, ...]:
    """Options that bring in the precompiled prelude, once enough kernels were compiled into the cache at `root`."""
    _compiled[root] += 1
    if _compiled[root] <= WITHOUT_PRELUDE and not _has_prelude(root):
        return ()
    path = _precompiled(root)
    return ("-include", str(path)) if path and path.exists() else ()


@lru_cache(maxsize=4)
def _has_prelude(root: Path) -> bool:
    """Whether another process has left a precompiled prelude in the cache at `root`."""
    return default_cache().get(_key(PRELUDE, CPU_FLAGS)) is not None


@lru_cache(maxsize=4)
def _precompiled(root: Path) -> Path | None:
    """The prelude, its precompiled form beside it; None where the compiler makes none."""
    if "clang" in find_compiler()[1]:  # wants it named otherwise, and fails where g++ falls back on the text
        return None
    try:
        return _compile(PRELUDE, CPU_FLAGS, "prelude.hpp.gch").binary.with_suffix("")
    except CompileError:
        return None


def unavailable() -> str | None:
    """None if CPU kernels can be had, compiled here or from a cache that was copied; otherwise what is missing."""
    try:
        key_version()
        return None
    except BackendUnavailable as error:
        return str(error)


def available() -> str | None:
    """None if a C++ compiler is here, otherwise what is missing and the remedy."""
    try:
        find_compiler()
        return None
    except BackendUnavailable as error:
        return str(error)


@lru_cache(maxsize=1)
def find_compiler() -> tuple[str, str]:
    """Path and full version of the C++ compiler."""
    asked = settings.current().cxx
    for name in (asked,) if asked else ("g++", "clang++", "c++"):
        path = shutil.which(name or "")
        if path:
            asking = forks.run([path, "--version"])
            if asking.returncode == 0:  # what cannot say its version does not compile either
                version = asking.stdout.splitlines()
                return path, version[0] if version else path
    raise BackendUnavailable(
        f"no C++ compiler found that runs (looked for {asked or 'g++, clang++, c++'}): install g++ (apt install g++, "
        "dnf install gcc-c++) or set MANSARD_CXX"
    )


@lru_cache(maxsize=1)
def host_arch() -> str:
    """Names this CPU as far as -march=native tells CPUs apart, so that a shared cache serves several machines."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine() + " " + platform.processor()
    marks = ("flags", "Features", "model name", "CPU part", "CPU implementer")
    first = info.split("\n\n")[0].splitlines()
    return platform.machine() + " " + " ".join(sorted(line for line in first if line.startswith(marks)))
