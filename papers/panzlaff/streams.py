"""BabelStream's kernels on a GPU (Panzlaff, table 4.1), and how its copy gains speed with the data (figure 4.1).

    python -m papers.panzlaff.streams --out FOLDER

A thread per element, as there. Launches are nodes of a graph, where BabelStream times single ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mansard.codegen.geometry import Geometry, Kernel

from ..kernels import Rows, Text, launched, pointers, seconds

HERE = Path(__file__).parent
ROWS = "panzlaff-streams.jsonl"
STREAMS = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}  # numbers of eight bytes moved per element
BLOCK, DOT_BLOCKS = 1024, 4  # threads of a block, as in BabelStream; blocks of dot per multiprocessor
LENGTH = 1 << 29  # elements of an operand: his -s 1024 * 2^19
RAMP = tuple(1 << power for power in range(11, 28))  # elements of a copy
_NODES = 20  # launches of a graph


def text(stream: str) -> Text:
    made = {"BLOCK": BLOCK} | ({} if stream == "dot" else {"STREAM": list(STREAMS).index(stream)})
    entry = "dot" if stream == "dot" else "stream"
    return Text(HERE / "streams.cuh", entry, "float64", made, pointers("float64", "AB", "C"), ("N",), BLOCK)


def kernel(stream: str, count: int, target: str, multiprocessors: int) -> Kernel:
    """The kernel for `count` elements; of dot a few blocks for every multiprocessor."""
    blocks, shared = (DOT_BLOCKS * multiprocessors, 8 * BLOCK) if stream == "dot" else (-(-count // BLOCK), 0)
    return Kernel(text(stream).source(target), Geometry((blocks, 1, 1), BLOCK, shared), (count,))


def expected(stream: str, A: Any, B: Any) -> Any:
    """What a stream makes of its operands, by the array library."""
    if stream in ("copy", "mul"):
        return A if stream == "copy" else A / 2
    return (A * B).sum() if stream == "dot" else A + (B if stream == "add" else B / 2)


def result(stream: str, C: Any, count: int, multiprocessors: int) -> Any:
    """What a kernel has made: entries, or of dot the sum of its blocks' sums."""
    return C[: DOT_BLOCKS * multiprocessors].sum() if stream == "dot" else C[:count]


def measure(out: Path) -> None:
    """All streams on long operands, and copies of every size, as rows in a file below `out`."""
    import cupy

    from mansard.backends import cuda

    backend = cuda.backend()
    rows, many = Rows(out / ROWS, backend.device.name), backend.device.multiprocessors
    length = LENGTH
    while 5 * 8 * length > cupy.cuda.runtime.memGetInfo()[0]:  # three operands, and what is compared
        length //= 2
    A, B = (cupy.tile(cupy.arange(first, first + 64, dtype="float64"), length // 64) for first in (1, 3))
    C = cupy.empty_like(A)
    jobs = [*((name, length, "stream") for name in STREAMS), *(("copy", count, "ramp") for count in RAMP)]
    for name, count, what in jobs:
        run = backend.prepare(kernel(name, count, "cuda", many))
        took = [each / _NODES for each in seconds(_graph(run, (A, B, C)), 7, 1)]
        right = bool((result(name, C, count, many) == expected(name, A[:count], B[:count])).all())
        moved = 8 * STREAMS[name] * count
        rows.add(what=what, stream=name, count=count, bytes=moved, seconds=took, right=right,
                 gbytes_per_second=moved / min(took) / 1e9, cache=backend.device.l2_bytes)  # fmt: skip
        print(f"{name}, {count:,} elements: {moved / min(took) / 1e9:.0f} GB/s{'' if right else ', WRONG'}", flush=True)


def _graph(run: Any, arrays: tuple[Any, ...]) -> Callable[[], Any]:
    import cupy

    from mansard.bench.clock import capture_cupy

    return capture_cupy(lambda _: launched(run, arrays, cupy.cuda.get_current_stream().ptr), _NODES)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.panzlaff.streams", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the rows")
    measure(parser.parse_args(arguments).out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
