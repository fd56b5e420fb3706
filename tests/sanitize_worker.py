"""The program that compute-sanitizer watches: some cases of a family on the GPU.

sanitize_worker.py FAMILY TOOL CASE ...   TOOL none: nobody watches, kernels are compiled and stay in the cache
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

from sanitize_report import BEGIN, END

from mansard.backends import cuda
from mansard.compile import nvrtc


def allocate_exactly() -> None:
    """Give every array and every workspace an allocation of its own, as long as asked for and not a byte more. Without
    it memory pools hide what lies beyond an array. Partial sums are not cleared, so that initcheck sees who reads them
    too early."""
    import cupy

    cupy.cuda.set_allocator(None)

    def piece(self: cuda.Workspaces, key: object, kind: str, size: int) -> int:
        if kind != "partials":
            return self._driver.allocate(size)
        return int(cupy.cuda.runtime.malloc(max(16, size)))

    cuda.Workspaces._piece = piece  # type: ignore[method-assign]


def run(cases: Any, number: int) -> str:
    case = cases.CASES[number]
    try:
        cases.exact(*(case if isinstance(case, tuple) else (case,)), "cuda")
        return "right"
    except AssertionError as error:
        return f"wrong result: {_one_line(error)}"
    except Exception as error:
        return f"failed: {type(error).__name__} {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def main(family: str, tool: str, numbers: list[int]) -> None:
    import cupy

    allocate_exactly()
    if family == "powers":
        # Warps wait for words in shared memory, which race checkers take for races unless they are atomic.
        nvrtc.FLAGS = (*nvrtc.FLAGS, "-DMANSARD_RACECHECK")
    cases = import_module(f"{family}_cases")
    for number in numbers:
        print(BEGIN, number, flush=True)
        begin = time.monotonic()
        outcome = run(cases, number)
        cupy.cuda.runtime.deviceSynchronize()
        print(END, number, f"{time.monotonic() - begin:.1f}", outcome, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(number) for number in sys.argv[3:]])
