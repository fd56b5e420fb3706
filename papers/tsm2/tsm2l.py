"""TSM2L's algorithms 6 and 7 as kernels: `python -m papers.tsm2.tsm2l --registers` compiles them for sm_90a,
`--device cuda --out FILE` measures them by number of tiles (TSM2X, figure 5).

The kernels are in `tsm2l.cuh`; tests run them in the emulator and compare entry by entry.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from mansard.codegen.geometry import Geometry, Kernel
from mansard.codegen.instantiate import Source
from mansard.compile import nvrtc

from ..kernels import ITEM, Text, launched, pointers, timed

HERE = Path(__file__).parent
REGISTERS = HERE / "registers.jsonl"
TILES = (1, 2, 4, 8, 16, 32)
_HEADER = HERE / "tsm2l.cuh"
_INTEGERS = ("M", "K", "a_row", "a_col", "b_row", "b_col", "c_row", "c_col")


@dataclass(frozen=True)
class Config:
    """Parameters of a kernel; the header says what they mean."""

    INTERLEAVED: bool
    T1: int = 128
    T2: int = 8
    T3: int = 4
    TCF: int = 1


def source(dtype: str, n: int, config: Config, target: str) -> Source:
    """The kernel's text: the header, constants, arguments and an entry point."""
    constants = {"N": n, **asdict(config), "SHARED_BYTES": config.T1 * config.T2 * ITEM[dtype]}
    return Text(_HEADER, "tsm2l", dtype, constants, pointers(dtype, "AB", "C"), _INTEGERS, config.T1).source(target)


def kernel(A: Any, B: Any, C: Any, config: Config, target: str) -> Kernel:
    """The kernel for these arrays: strides in elements, as many blocks as a tile of A has rows for."""
    (m, k), n, dtype = A.shape, B.shape[1], A.dtype.name
    strides = [step // ITEM[dtype] for array in (A, B, C) for step in array.strides]
    threads = -(-m // config.TCF)
    blocks = -(-threads // config.T1)
    geometry = Geometry((blocks, 1, 1), config.T1, config.T1 * config.T2 * ITEM[dtype])
    return Kernel(source(dtype, n, config, target), geometry, (m, k, *strides))


def multiply(A: Any, B: Any, C: Any, config: Config, backend: Any) -> None:
    """C = A B on a backend (cuda or emulated)."""
    launched(backend.prepare(kernel(A, B, C, config, backend.name)), (A, B, C))


def resources(arch: str = "sm_90a") -> Iterator[dict[str, Any]]:
    """Registers and spills of both algorithms for the sizes of table 4, compiled without a GPU."""
    for interleaved in (False, True):
        for dtype in ("float32", "float64"):
            for n in (8, 16):
                config = Config(interleaved, 128, n, 8, 4)
                found = nvrtc.resources(nvrtc.compile_cuda(source(dtype, n, config, "cuda"), arch).log)
                yield {"algorithm": 7 if interleaved else 6, "dtype": dtype, "n": n, "arch": arch, **asdict(config),
                       "registers": found.registers, "spills": found.spill_bytes,
                       "shared": config.T1 * config.T2 * ITEM[dtype]}  # fmt: skip


def measured(repeats: int = 7) -> Iterator[dict[str, Any]]:
    """Rows of figure 5 on this machine's GPU: seconds by algorithm, dtype, width, rows and number of tiles."""
    import cupy

    from mansard.backends import cuda

    backend = cuda.backend()
    for dtype in ("float32", "float64"):
        for n in (8, 16):
            for rows in (10_000, 100_000, 1_000_000, 10_000_000):
                A = cupy.random.random((n, rows)).astype(dtype).T  # column-major, as in the paper
                B, C = cupy.random.random((n, n)).astype(dtype), cupy.empty((n, rows), dtype).T
                for interleaved in (False, True):
                    for tiles in TILES:
                        run = backend.prepare(kernel(A, B, C, Config(interleaved, 128, n, 8, tiles), "cuda"))
                        took = timed(run, (A, B, C), repeats, 20)
                        right = bool(cupy.allclose(C, A @ B, rtol=1e-3 if dtype == "float32" else 1e-10))
                        yield {"algorithm": 7 if interleaved else 6, "dtype": dtype, "n": n, "rows": rows, "tcf": tiles,
                               "seconds": took, "bytes": 2 * rows * n * ITEM[dtype], "right": right,
                               "device": backend.device.name, "date": date.today().isoformat()}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.tsm2.tsm2l", description=__doc__.splitlines()[0])
    parser.add_argument("--registers", action="store_true", help=f"compile for sm_90a and write {REGISTERS.name}")
    parser.add_argument("--device", choices=("cuda",), help="measure on this machine's GPU")
    parser.add_argument("--out", type=Path, default=Path("tsm2l.jsonl"), help="file of measured rows")
    given = parser.parse_args(arguments)
    if not (given.registers or given.device):
        parser.error("--registers or --device cuda")
    if given.registers:
        REGISTERS.write_text("".join(json.dumps(row) + "\n" for row in resources()))
        print(f"registers: {REGISTERS}")
    if given.device:
        with given.out.open("w") as file:
            for row in measured():
                file.write(json.dumps(row) + "\n")
                about = f"algorithm {row['algorithm']}, {row['dtype']}, n = {row['n']}, {row['rows']:,} rows"
                took = f"tcf {row['tcf']}: {min(row['seconds']) * 1e6:.1f} us"
                print(f"{about}, {took}{'' if row['right'] else ', WRONG'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
