"""C++ -> shared library with the system's compiler, for CPU kernels and for the emulator."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from .. import settings
from ..codegen.instantiate import Source
from ..errors import BackendUnavailable, CompileError
from .cache import Built, Entry, default_cache
from .key import INCLUDE_DIRS, make_key

CPU_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-Wall", "-Wextra")
EMULATED_FLAGS = ("-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-Wall", "-DMANSARD_EMULATED")
SANITIZE_FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
RUNTIME_SANITIZE_FLAGS = ("-fsanitize=address", "-fno-omit-frame-pointer")  # UBSan there doubles its compile time
RUNTIME = '#include "mansard/emulated/runtime.cpp"\n'


def compile_cpu(source: Source, extra_flags: tuple[str, ...] = ()) -> Entry:
    """The shared library of a CPU kernel."""
    return _compile(source.text, CPU_FLAGS + extra_flags, shared=True)


def compile_emulated(source: Source, sanitize: bool) -> Entry:
    """The shared library of a CUDA kernel for the emulator, linked with the emulator's runtime object."""
    runtime = _compile(RUNTIME, EMULATED_FLAGS + (RUNTIME_SANITIZE_FLAGS if sanitize else ()), shared=False)
    flags = EMULATED_FLAGS + (SANITIZE_FLAGS if sanitize else ())
    if source.cooperative:
        flags += ("-DMANSARD_EMULATED_COOPERATIVE",)
    return _compile(source.text, flags, shared=True, link=(runtime.binary,))


def _compile(text: str, flags: tuple[str, ...], shared: bool, link: tuple[Path, ...] = ()) -> Entry:
    compiler, version = find_compiler()
    linked = tuple(path.parent.name for path in link)  # a linked object's digest stands for its content
    key = make_key(text, flags + linked, version, host_arch())

    def build(folder: Path) -> Built:
        binary = "kernel.so" if shared else "runtime.o"
        include = [f"-I{directory}" for directory in INCLUDE_DIRS]
        command = [
            compiler,
            *flags,
            *include,
            "-shared" if shared else "-c",
            "kernel.cpp",
            *map(str, link),
            "-o",
            binary,
        ]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if run.returncode:
            raise CompileError(" ".join(command), run.stderr, text)
        return Built(binary, " ".join(command) + "\n" + run.stderr)

    return default_cache().get_or_build(key, "kernel.cpp", build)


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
            version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.splitlines()
            return path, version[0] if version else path
    raise BackendUnavailable(
        f"no C++ compiler found (looked for {asked or 'g++, clang++, c++'}): install g++ (apt install g++, "
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
