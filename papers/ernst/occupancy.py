"""Latency and occupancy (Ernst et al., table 1 and figure 17): `python -m papers.ernst.occupancy --out FOLDER`.

The kernels are in `occupancy.cuh`; tests run them in the emulator, `--registers` compiles them without a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mansard.codegen.geometry import Device, Geometry, Kernel
from mansard.compile import nvrtc

from ..kernels import Rows, Text, pointers, timed

HERE = Path(__file__).parent
HEADER, REGISTERS, ROWS = HERE / "occupancy.cuh", HERE / "registers.jsonl", "ernst-occupancy.jsonl"
PARALLEL = (1, 4, 16)  # independent loads of a thread
RESIDENT = (1, 2, 4, 8, 16)  # blocks of four warps on a multiprocessor
BLOCK = 128  # threads: four warps, one for each quadrant of a multiprocessor
WIDTH = 64  # M and N of figure 17
TILES = ((8, 4), (8, 8))
FAR = 1 << 20  # rows are k / FAR: few of them, which stay in the L1 cache
KINDS = {"correct": (0, 1), "fewer registers": (2, 1), "in L1": (2, FAR)}  # sums of a thread (0: the tile), divisor
PER_SM = (1, 2, 3, 4, 5, 6, 8)  # blocks of four warps per multiprocessor that are launched in figure 17
_RESERVED = 1024  # bytes of shared memory that a block takes by itself


def read_text(parallel: int, block: int = BLOCK) -> Text:
    constants = {"ILP": parallel, "BLOCK": block}
    return Text(HEADER, "read_sum", "float64", constants, pointers("float64", "A", "O"), ("PASSES",), block)


def read_kernel(parallel: int, blocks: int, numbers: int, device: Device, target: str, resident: int = 0) -> Kernel:
    """Sum of `numbers` numbers at most by `blocks` blocks; with `resident`, a multiprocessor holds no more of them."""
    shared = device.shared_per_multiprocessor // resident - _RESERVED if resident else 0
    shared = min(shared - shared % 16, device.shared_per_block) if resident else 0
    passes = numbers // (blocks * BLOCK * parallel)
    return Kernel(read_text(parallel).source(target), Geometry((blocks, 1, 1), BLOCK, shared), (passes,))


def probe_text(tile: tuple[int, int], kind: str, width: int = WIDTH, divisor: int = 0) -> Text:
    sums, far = KINDS[kind]
    tile_m, tile_n = tile
    constants = {
        "M": width, "N": width, "TILE_M": tile_m, "TILE_N": tile_n, "BLOCK": BLOCK, "TRANSPOSED": True, "UNROLL": 1,
        "CONJ": False, "LAYOUT_A": "Layout::row", "LAYOUT_B": "Layout::row", "SHARED_BYTES": 1 << 20,
        "SUMS": sums or tile_m * tile_n, "DIVISOR": divisor or far,
    }  # fmt: skip
    numbers = ("K", "a_row", "a_col", "b_row", "b_col")
    return Text(HEADER, "tile_probe", "float64", constants, pointers("float64", "AB", "O"), numbers, BLOCK)


def probe_kernel(text: Text, blocks: int, rows: int, target: str) -> Kernel:
    width = text.constants["M"]
    return Kernel(text.source(target), Geometry((blocks, 1, 1), BLOCK), (rows, width, 1, width, 1))


def texts() -> dict[str, Text]:
    """All kernels by name."""
    found = {f"read, {parallel} loads": read_text(parallel) for parallel in PARALLEL}
    return found | {f"{m} x {n}, {kind}": probe_text((m, n), kind) for m, n in TILES for kind in KINDS}


def resources(arch: str = "sm_90a") -> Iterator[dict[str, Any]]:
    """Registers and spills of every kernel, compiled without a GPU."""
    for name, text in texts().items():
        found = nvrtc.resources(nvrtc.compile_cuda(text.source("cuda"), arch).log)
        yield {"kernel": name, "arch": arch, "registers": found.registers, "spills": found.spill_bytes}


def measure(out: Path, gigabytes: float = 4.0) -> None:
    """Both experiments on this machine's GPU, as rows in a file below `out`."""
    from mansard.backends import cuda

    backend = cuda.backend()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda text: nvrtc.compile_cuda(text.source("cuda"), backend.device.arch), texts().values()))
    rows = Rows(out / ROWS, backend.device.name)
    _measure_reads(rows, backend, int(gigabytes * 1e9 / 8))
    _measure_probes(rows, backend)


def _measure_reads(rows: Rows, backend: Any, numbers: int) -> None:
    """Table 1: a block alone, then 1 to 16 blocks on every multiprocessor."""
    import cupy

    A = cupy.random.default_rng(1).integers(-3, 4, numbers, dtype=cupy.int64).astype(cupy.float64)
    many = backend.device.multiprocessors
    for parallel in PARALLEL:
        registers = nvrtc.resources(backend.log(read_text(parallel).source("cuda"))).registers
        for resident in (0, *RESIDENT):
            if resident * BLOCK * registers > backend.device.registers_per_multiprocessor:
                continue  # so many do not run at once
            blocks, size = (many * resident, numbers) if resident else (1, min(numbers, 1 << 22))
            kernel = read_kernel(parallel, blocks, size, backend.device, "cuda", resident)
            run, sums = backend.prepare(kernel), cupy.empty(blocks * BLOCK)
            took = timed(run, (A, sums))
            count = kernel.fixed[0] * blocks * BLOCK * parallel
            rate = 8 * count / min(took) / 1e9
            rows.add(what="read", parallel=parallel, resident=resident, blocks=blocks, warps=4 * resident,
                     occupancy=resident * BLOCK / backend.device.threads_per_multiprocessor, bytes=8 * count,
                     gbytes_per_second=rate, right=bool(sums.sum() == A[:count].sum()), mhz=_clock(),
                     registers=registers, seconds=took)  # fmt: skip
            print(f"read, {parallel} loads, {resident} blocks per SM: {rate:.0f} GB/s", flush=True)


def _measure_probes(rows: Rows, backend: Any, length: int = 1 << 21) -> None:
    """Figure 17: the correct kernel and both altered ones, by blocks per multiprocessor."""
    import cupy

    make = cupy.random.default_rng(2)
    A, B = (make.integers(-3, 4, (length, WIDTH), dtype=cupy.int64).astype(cupy.float64) for _ in "AB")
    whole, far = float(A.sum(1) @ B.sum(1)), FAR * float(A[: length // FAR].sum(1) @ B[: length // FAR].sum(1))
    for tile in TILES:
        for kind in KINDS:
            text = probe_text(tile, kind)
            log = backend.log(text.source("cuda"))
            for per_sm in PER_SM:
                blocks = per_sm * backend.device.multiprocessors
                run, sums = backend.prepare(probe_kernel(text, blocks, length, "cuda")), cupy.empty(blocks * BLOCK)
                took = timed(run, (A, B, sums))
                rate = 2 * WIDTH * WIDTH * length / min(took) / 1e9
                rows.add(what="probe", tile=list(tile), kind=kind, per_sm=per_sm, warps=4 * per_sm, K=length, M=WIDTH,
                         registers=nvrtc.resources(log).registers, gflops=rate, mhz=_clock(),
                         right=bool(sums.sum() == (far if kind == "in L1" else whole)), seconds=took)  # fmt: skip
                print(f"{tile[0]} x {tile[1]}, {kind}, {4 * per_sm} warps: {rate:.0f} GFLOP/s", flush=True)


def _clock() -> float | None:
    """The clock of the multiprocessors in MHz, where it can be read."""
    try:
        import cupy
        from pynvml import NVML_CLOCK_SM, nvmlDeviceGetClockInfo, nvmlDeviceGetHandleByIndex, nvmlInit

        nvmlInit()
        return float(nvmlDeviceGetClockInfo(nvmlDeviceGetHandleByIndex(cupy.cuda.Device().id), NVML_CLOCK_SM))
    except Exception:  # a number beside the rows, not worth a run
        return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.ernst.occupancy", description=__doc__.splitlines()[0])
    parser.add_argument("--registers", action="store_true", help=f"compile for sm_90a and write {REGISTERS.name}")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="measure on this machine's GPU; folder of the rows")
    given = parser.parse_args(arguments)
    if not (given.registers or given.out):
        parser.error("--registers or --out FOLDER")
    if given.registers:
        REGISTERS.write_text("".join(json.dumps(row) + "\n" for row in resources()))
        print(f"registers: {REGISTERS}")
    if given.out:
        measure(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
