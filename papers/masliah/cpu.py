"""The CPU half of Masliah et al., measured: `python -m papers.masliah.cpu --out papers/masliah/cpu.jsonl`.

Speed of their loops and of `ms.matmul` by size and number of threads (figures 4b and 5b), and instructions, loads,
stores and cache misses of the loops (figures 3 and 5a), counted by valgrind where the processor's counters cannot be
read. A row is one kernel, size and number of threads; rows that the file has already are not measured again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from mansard.codegen.instantiate import Source
from mansard.compile import cxx

HERE = Path(__file__).parent
LOOPS = ("ijk", "ikj", "registers")
SIZES = (2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32)
COUNTED = (4, 8, 12, 16, 20, 24, 28, 32)
_HEADER = HERE / "kernels.hpp"
_FLAGS = ("-ffp-contract=fast",)  # products and sums fused, as the paper's -mfma
_COUNT_FLAGS = ("-std=c++17", "-O3", "-mavx2", "-mfma")  # valgrind knows AVX2, which the paper's processor has
_BYTES = 1 << 27  # of the batch: four times the last cache
_D1_BYTES = 1 << 15  # first-level data cache of the paper's processor

Row = dict[str, Any]


def text(n: int) -> str:
    """C++ text of the kernels of one size: entry points that divide a batch among threads."""
    calls = "\n".join(
        f'extern "C" void {name}(const double* A, const double* B, double* C, masliah::i64 count, int threads) {{\n'
        f"#pragma omp parallel for schedule(static) num_threads(threads)\n"
        f"  for (masliah::i64 b = 0; b < count; ++b) masliah::{name}<{n}>(A + b * {n * n}, B + b * {n * n}, "
        f"C + b * {n * n});\n}}"
        for name in (*LOOPS, "stream")
    )
    return f"{_HEADER.read_text()}\n{calls}\n"


def loops(n: int) -> dict[str, Any]:
    """The compiled loops of a size: functions of three addresses, a count and a number of threads."""
    library = ctypes.CDLL(str(cxx.compile_cpu(Source("cpu", text(n), ()), _FLAGS).binary))
    found = {}
    for name in (*LOOPS, "stream"):
        found[name] = getattr(library, name)
        found[name].argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int)
        found[name].restype = None
    return found


def speeds(n: int, threads: int, repeats: int, size: int = _BYTES) -> Iterator[Row]:
    """Seconds of every kernel, sampled in turn; the fastest sample counts, because other work disturbs the rest."""
    import numpy as np

    count = max(1, size // (24 * n * n))
    A, B, C = (np.full((count, n, n), value) for value in (0.5, 0.25, 0.0))
    found = loops(n)

    def call(name: str) -> Callable[[], None]:
        return lambda: found[name](A.ctypes.data, B.ctypes.data, C.ctypes.data, count, threads)

    kernels: dict[str, Callable[[], None]] = {name: call(name) for name in found}
    kernels["Mansard"] = _ours(A, B, C)
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(repeats + 1):
        for name, run in kernels.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    bound = 2 * n * count * n * n / min(seconds["stream"][1:])  # flops of the products in the time of their bytes
    for name, each in seconds.items():
        if name != "stream":
            fastest = min(each[1:])
            yield {"what": "speed", "kernel": name, "n": n, "threads": threads, "matrices": count,
                   "seconds": [round(value, 7) for value in each[1:]], "gflops": 2 * count * n**3 / fastest / 1e9,
                   "bound_gflops": bound / 1e9, "percent_bound": 100 * 2 * count * n**3 / fastest / bound}  # fmt: skip


def _ours(A: Any, B: Any, C: Any) -> Callable[[], None]:
    import mansard as ms

    def run() -> None:
        ms.matmul(A, B, out=C, beta=1.0)

    return run


_MAIN = """
#include <cstdlib>
#include <vector>
int main(int, char** given) {
  const int passes = std::atoi(given[1]);
  std::vector<double> A(COUNT * N * N, 0.5), B(COUNT * N * N, 0.25), C(COUNT * N * N, 0.0);
  for (int pass = 0; pass < passes; ++pass)
    for (int b = 0; b < COUNT; ++b) masliah::KERNEL<N>(&A[b * N * N], &B[b * N * N], &C[b * N * N]);
  return C[0] != C[COUNT * N * N - 1];
}
"""


def counts(name: str, n: int) -> Row:
    """Instructions, loads, stores and cache misses of one product, counted by valgrind: a run of many passes over a
    batch less a run of few."""
    compiler = cxx.find_compiler()[0]
    matrices = max(16, 4 * _D1_BYTES // (24 * n * n))  # every pass finds the first-level cache full of other matrices
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "count.cpp", Path(folder) / "count"
        defines = f"#define N {n}\n#define COUNT {matrices}\n"
        source.write_text(f"{_HEADER.read_text()}\n{defines}{_MAIN.replace('KERNEL', name)}")
        subprocess.run([compiler, *_COUNT_FLAGS, str(source), "-o", str(program)], check=True)
        few, many = (_misses(program, passes) | _accesses(program, passes) for passes in (1, 3))
    each = {key: (many[key] - few[key]) / (2 * matrices) for key in few}
    return {"what": "counts", "kernel": name, "n": n, **{key: round(value, 1) for key, value in each.items()}}


def _misses(program: Path, passes: int) -> dict[str, int]:
    """Instructions, and misses of a first-level data cache like the paper's: 32 KiB, 8 ways."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", f"--D1={_D1_BYTES},8,64",
               "--cachegrind-out-file=/dev/null", str(program), str(passes)]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {}
    for key, pattern in {"instructions": r"I\s+refs:\s+([\d,]+)", "d1_misses": r"D1\s+misses:\s+([\d,]+)"}.items():
        match = re.search(pattern, said)
        if match is None:
            raise SystemExit(f"valgrind did not say {key}: {said[-500:]}")
        found[key] = int(match[1].replace(",", ""))
    return found


def _accesses(program: Path, passes: int) -> dict[str, int]:
    """Instructions that load and that store, and the bytes that they load, from valgrind's trace of every access."""
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=1", str(program), str(passes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = traced(running.stdout)
    if running.returncode:
        raise SystemExit(f"valgrind ended with status {running.returncode}: {' '.join(command)}")
    return found


def traced(lines: Iterable[str]) -> dict[str, int]:
    """Counts of a trace: `I  address,size` is an instruction; its loads (L), stores (S) and both at once (M) follow.

    An instruction counts once, whether valgrind shows its vector as one access (a move) or as one per number (a fused
    multiply-add from memory).
    """
    found = {"loads": 0, "stores": 0, "bytes_loaded": 0}
    has_loaded = has_stored = False
    for line in lines:
        kind = line[:2]
        if kind == "I ":
            has_loaded = has_stored = False
            continue
        if kind in (" L", " M"):
            found["loads"] += not has_loaded
            found["bytes_loaded"] += int(line.rsplit(",", 1)[1])
            has_loaded = True
        if kind in (" S", " M"):
            found["stores"] += not has_stored
            has_stored = True
    return found


def perf_says() -> str:
    """What `perf stat` says about the instruction counter: empty if it can be read."""
    if not shutil.which("perf"):
        return "perf is not installed"
    said = subprocess.run(["perf", "stat", "-e", "instructions", "true"], capture_output=True, text=True, check=False)
    return "" if re.search(r"^\s*[\d,]+\s+instructions", said.stderr, re.M) else "perf: instructions are not supported"


def sockets() -> int:
    """NUMA nodes of this machine."""
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1


def processor() -> str:
    """The name of this CPU, and how many of its threads there are."""
    names = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text()) if sys.platform == "linux" else []
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} threads"


def main(arguments: list[str] | None = None) -> int:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m papers.masliah.cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "cpu.jsonl", help="the file that rows are appended to")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, metavar="N", help="orders of the matrices")
    parser.add_argument("--repeats", type=int, default=9, help="samples of every kernel (default: 9)")
    parser.add_argument("--mib", type=int, default=_BYTES >> 20, help="MiB of a batch (default: 128)")
    text = "numbers of threads (default: powers of two)"
    parser.add_argument("--threads", type=int, nargs="*", metavar="T", help=text)
    parser.add_argument("--no-counts", action="store_true", help="do not count instructions")
    parser.add_argument("--no-speeds", action="store_true", help="do not measure speeds")
    given = parser.parse_args(arguments)
    about = {"cpu": processor(), "nodes": sockets(), "perf": perf_says(), "date": date.today().isoformat()}
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(row["what"], row["n"], row.get("threads"), row["kernel"]) for row in known if row["cpu"] == about["cpu"]}
    threads = given.threads or sorted({1 << power for power in range(10) if 1 << power <= cores} | {cores})

    def keep(rows: list[Row]) -> None:
        with given.out.open("a") as file:
            file.writelines(json.dumps({**row, **about}) + "\n" for row in rows)

    for n in () if given.no_speeds else given.sizes:
        for count in threads:
            if ("speed", n, count, "ijk") not in done:
                os.environ["OMP_NUM_THREADS"] = str(count)
                print(f"n = {n}, {count} threads", flush=True)
                keep(list(_in_process(n, count, given.repeats, given.mib)))
    for name in () if given.no_counts or not shutil.which("valgrind") else LOOPS:
        for n in (n for n in COUNTED if n in given.sizes and ("counts", n, None, name) not in done):
            print(f"counting {name}, n = {n}", flush=True)
            keep([counts(name, n)])
    return 0


def _in_process(n: int, threads: int, repeats: int, mib: int) -> list[Row]:
    """The rows of a size, measured by a process of its own: `ms.matmul` takes its threads from the environment."""
    call = f"cpu.speeds({n}, {threads}, {repeats}, {mib << 20})"
    code = f"import json; from papers.masliah import cpu; print(json.dumps(list({call})))"
    environment = {**os.environ, "MANSARD_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment,
                          cwd=HERE.parent.parent)  # fmt: skip
    rows: list[Row] = json.loads(said.stdout.splitlines()[-1])
    return rows


if __name__ == "__main__":
    sys.exit(main())
