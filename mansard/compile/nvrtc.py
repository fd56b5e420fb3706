"""CUDA C++ -> cubin through NVRTC, called directly: it needs no GPU and reports registers and spills.

The library is looked for in the CUDA wheels beside this Python, in `CUDA_PATH`, then by the system's loader.
"""

from __future__ import annotations

import ctypes
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import settings
from ..codegen.instantiate import Source
from ..errors import BackendUnavailable, CompileError
from .cache import Built, Entry, default_cache
from .key import INCLUDE_DIRS, make_key

FLAGS = ("--std=c++17", "-default-device", "--ptxas-options=-v", "--generate-line-info")


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel as the assembler reports them. Spills and stack tell more than the register count."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int


def compile_cuda(source: Source, arch: str) -> Entry:
    """The cubin of `source` for `arch` (sm_90a, ...), from the cache if it is there."""
    nvrtc = _library()
    flags = FLAGS + tuple(f"-I{folder}" for folder in INCLUDE_DIRS)
    # The include paths are left out of the key: the headers' content is in it.
    key = make_key(source.text, FLAGS, f"nvrtc {nvrtc.version}", arch)

    def build(folder: Path) -> Built:
        cubin, log = nvrtc.compile(source.text, (f"--gpu-architecture={arch}", *flags))
        (folder / "kernel.cubin").write_bytes(cubin)
        return Built("kernel.cubin", log)

    return default_cache().get_or_build(key, "kernel.cu", build)


def resources(log: str) -> Resources:
    """Registers, spills, stack and static shared memory, read from the assembler's log."""

    def find(pattern: str) -> int:
        match = re.search(pattern, log)
        return int(match.group(1)) if match else 0

    return Resources(
        registers=find(r"Used (\d+) registers"),
        spill_bytes=find(r"(\d+) bytes spill stores"),
        stack_bytes=find(r"(\d+) bytes stack frame"),
        shared_bytes=find(r"(\d+) bytes smem"),
    )


class Nvrtc:
    """The few NVRTC calls Mansard needs, by ctypes. Compilation releases the interpreter lock."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self._library = library
        self.path = path
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        library, program = self._library, ctypes.c_void_p()
        library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        try:
            encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = library.nvrtcCompileProgram(program, len(options), encoded)
            log = self._read(program, "ProgramLog").decode().rstrip("\0")
            if status:
                raise CompileError(f"NVRTC {self.version}", log, text)
            return self._read(program, "CUBIN"), log
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw


def version() -> str:
    """The compiler's version, as it stands in every key."""
    return _library().version


def available() -> str | None:
    """None if NVRTC can be used here, otherwise what is missing and the remedy."""
    try:
        _library()
        return None
    except BackendUnavailable as error:
        return str(error)


@lru_cache(maxsize=1)
def _library() -> Nvrtc:
    for folder in _folders():
        for path in sorted(folder.glob("libnvrtc.so*"), reverse=True):
            library = _open(folder, path)
            if library:
                return Nvrtc(library, str(path))
    try:
        return Nvrtc(ctypes.CDLL("libnvrtc.so"), "libnvrtc.so")
    except OSError:
        raise BackendUnavailable(
            "NVRTC (CUDA's run-time compiler) is not installed: pip install 'mansard[cuda]', or set CUDA_PATH"
        ) from None


def _folders() -> Iterator[Path]:
    site = Path(sysconfig.get_paths()["purelib"])
    yield from (site / "nvidia" / name / "lib" for name in ("cu13", "cuda_nvrtc"))
    cuda_path = settings.current().cuda_path
    if cuda_path:
        yield from (cuda_path / "lib64", cuda_path / "targets" / "x86_64-linux" / "lib")


def _open(folder: Path, path: Path) -> ctypes.CDLL | None:
    try:
        for builtins in folder.glob("libnvrtc-builtins.so*"):  # NVRTC opens them by bare name: load them first
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(path))
    except OSError:
        return None
