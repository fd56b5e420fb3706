"""Run in a process of its own, with AddressSanitizer loaded first: a family's cases on the emulator.

sanitized_cases.py FAMILY FIRST STEP   every STEP-th case from FIRST on, exact
sanitized_cases.py overrun             a kernel that is told of one row more than A has
"""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np

from mansard.backends import emulated
from mansard.kernels.tall_skinny.gram import emit, space, spec


def overrun() -> None:
    problem = spec.problem("float64", 5, 5, 100)
    A, C = np.ones((99, 5)), np.empty((5, 5))
    kernel = emit.kernel(problem, space.Tiled(5, 5), emulated.backend().device, (5, 1, 5, 1, 5, 1))
    emulated.backend().prepare(kernel)((A.ctypes.data, A.ctypes.data, C.ctypes.data), (1.0, 0.0, 0.0, 0.0), 0)


if __name__ == "__main__":
    if sys.argv[1] == "overrun":
        overrun()
        print("not noticed")
    else:
        family, first, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        cases = import_module(f"{family}_cases")
        chosen = cases.CASES[first::step]
        for case in chosen:
            cases.exact(*(case if isinstance(case, tuple) else (case,)), "emulated")
        print(f"clean: {len(chosen)}")
