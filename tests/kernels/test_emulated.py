"""The emulator runs correct kernels in every thread order and catches the bugs planted in them.

emulated/ holds the kernels, what they must compute, and the bugs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "emulated"))

from emulated_bugs import BUGS, SANITIZED_BUGS  # noqa: E402
from emulated_cases import CHECKS, COOPERATIVE, ORDERS, EmulatorError, Kernel, Launch, check  # noqa: E402

INCLUDE = HERE.parents[1] / "mansard" / "include"
RUNTIME = INCLUDE / "mansard" / "emulated" / "runtime.cpp"
COMPILE = ["g++", "-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
COMPILE += [f"-I{INCLUDE}", "-DMANSARD_EMULATED"]
ADDRESS = ["-fsanitize=address", "-fno-omit-frame-pointer"]
SANITIZE = [*ADDRESS, "-fsanitize=undefined", "-fno-sanitize-recover=all"]

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


# --- Building -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Builder:
    """Compiles kernels, each once."""

    folder: Path

    @functools.cache  # noqa: B019 - lives as long as the tests
    def runtime(self, sanitized: bool) -> Path:
        path = self.folder / f"runtime{'_sanitized' * sanitized}.o"
        flags = ADDRESS if sanitized else []
        subprocess.run([*COMPILE, *flags, "-c", str(RUNTIME), "-o", str(path)], check=True)
        return path

    def library(self, name: str, old: str = "", new: str = "", sanitized: bool = False) -> Path:
        """The kernel of this name, with one passage of it replaced."""
        text = (HERE / "emulated" / f"{name}.cu").read_text()
        assert old == "" or text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        return self.build(text.replace(old, new) if old else text, sanitized, name in COOPERATIVE)

    @functools.cache  # noqa: B019
    def build(self, text: str, sanitized: bool = False, cooperative: bool = False) -> Path:
        stem = hashlib.sha256(f"{text}{sanitized}{cooperative}".encode()).hexdigest()[:16]
        source, path = self.folder / f"{stem}.cpp", self.folder / f"{stem}.so"
        source.write_text(text)
        flags = [
            *(SANITIZE if sanitized else []),
            *(["-DMANSARD_EMULATED_COOPERATIVE"] if cooperative else []),
        ]
        command = [*COMPILE, *flags, "-shared", str(source), str(self.runtime(sanitized)), "-o", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return path


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("emulated"))


def check_sanitized(name: str, library: Path) -> subprocess.CompletedProcess[str]:
    """Checks a sanitized library in all orders, in a child that has the sanitizer from its start."""
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {**os.environ, "LD_PRELOAD": found.stdout.strip()}
    environment |= {"ASAN_OPTIONS": "detect_leaks=0", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "emulated" / "emulated_cases.py"), name, str(library)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# --- Correct kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CHECKS)
def test_correct(builder: Builder, name: str, order: str) -> None:
    check(name, builder.library(name), order)


@pytest.mark.parametrize("name", CHECKS)
def test_correct_sanitized(builder: Builder, name: str) -> None:
    result = check_sanitized(name, builder.library(name, sanitized=True))
    assert result.returncode == 0, result.stderr


# --- Planted bugs -------------------------------------------------------------------------------------------


def outcome(name: str, library: Path, order: str) -> str:
    try:
        check(name, library, order)
    except EmulatorError as error:
        return str(error)
    except AssertionError:
        return "wrong answer"
    return "nothing noticed"


@pytest.mark.parametrize("name", BUGS)
def test_bug_is_caught(builder: Builder, name: str) -> None:
    bug = BUGS[name]
    library = builder.library(bug.kernel, bug.old, bug.new)
    outcomes = {order: outcome(bug.kernel, library, order) for order in ORDERS}
    caught = {order for order, text in outcomes.items() if re.search(bug.report, text, re.DOTALL)}
    said = "\n".join(outcomes.values())
    if bug.only:
        assert caught == set(bug.only), said
    else:
        assert caught == set(ORDERS) if bug.always else caught, said


@pytest.mark.parametrize("name", SANITIZED_BUGS)
def test_bug_is_caught_by_sanitizers(builder: Builder, name: str) -> None:
    bug = SANITIZED_BUGS[name]
    result = check_sanitized(bug.kernel, builder.library(bug.kernel, bug.old, bug.new, sanitized=True))
    assert result.returncode != 0
    assert re.search(bug.report, result.stderr), result.stderr


# --- The other half: the same sources on a GPU's compiler ---------------------------------------------------


def nvrtc() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        libraries = Path(folder) / "cu13" / "lib"
        if (libraries / "libnvrtc.so.13").exists():
            ctypes.CDLL(str(libraries / "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(libraries / "libnvrtc.so.13"))
    return None


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CHECKS)
def test_compiles_for_gpus(name: str, architecture: str) -> None:
    compiler = nvrtc()
    if compiler is None:
        pytest.skip("needs nvidia-cuda-nvrtc 13")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = (HERE / "emulated" / f"{name}.cu").read_text()
    compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    options = [f"--gpu-architecture={architecture}", "--std=c++17", f"-I{INCLUDE}"]
    packed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = compiler.nvrtcCompileProgram(program, len(options), packed)
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetProgramLog(program, log)
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    assert (code, log.value.decode()) == (0, "")


# --- The launch itself --------------------------------------------------------------------------------------


def test_blocks_wait_only_in_cooperative_launches(builder: Builder) -> None:
    kernel = Kernel(builder.library("grid_barrier"), "forward", cooperative=False)
    with pytest.raises(EmulatorError, match=r"block \(0,0,0\): 1 waiting for a flag to differ from 0"):
        CHECKS["grid_barrier"](kernel)


def test_a_launch_after_a_failed_one(builder: Builder) -> None:
    library = builder.library("grid_barrier")
    with pytest.raises(EmulatorError):
        CHECKS["grid_barrier"](Kernel(library, "reverse", cooperative=False))
    check("grid_barrier", library, "reverse")


def test_static_shared_is_refused_in_cooperative_kernels(builder: Builder) -> None:
    text = (HERE / "emulated" / "tree_sum.cu").read_text()
    with pytest.raises(RuntimeError, match="keeps its shared memory in MANSARD_SHARED_ARENA"):
        builder.build(text, cooperative=True)


def test_stack_overflow_is_reported(builder: Builder) -> None:
    text = """
#include "mansard/gpu/platform.cuh"
struct Arguments { double* x; };
extern "C" __global__ void deep(const __grid_constant__ Arguments arguments) {
  volatile double local[9000];
  for (int i = 0; i < 9000; ++i) local[i] = i;
  __syncthreads();
  arguments.x[threadIdx.x] = local[threadIdx.x];
}
MANSARD_EMULATED_ENTRY(deep, Arguments)
"""
    with pytest.raises(EmulatorError, match="stack overflow"):
        Kernel(builder.build(text), "forward")(1, 1, 0, np.zeros(1))


@pytest.mark.parametrize(
    ("field", "value", "report"),
    [
        ("grid", (0, 1, 1), r"grid\[0\] is 0"),
        ("grid", (1, 65536, 1), r"grid\[1\] is 65536"),
        ("block", (32, 33, 1), "1056 threads"),
        ("shared_bytes", 233000, "233000 bytes of shared memory"),
        ("order", 5, "order is 5"),
    ],
)
def test_impossible_launches_are_refused(builder: Builder, field: str, value: object, report: str) -> None:
    library = ctypes.CDLL(str(builder.library("warp_words")))
    library.mansard_emulated_error.restype = ctypes.c_char_p
    launch = Launch((1, 1, 1), (32, 1, 1), 0, 0, 0, 0)
    setattr(launch, field, value)
    assert library.mansard_launch(ctypes.byref(launch), (ctypes.c_void_p * 1)()) == 2
    assert re.search(report, library.mansard_emulated_error().decode())
