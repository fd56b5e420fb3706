"""Run in a process of its own, with AddressSanitizer loaded first: gram cases on the emulator, under the sanitizers.

sanitized_gram.py FIRST STEP       every STEP-th case from FIRST on, exact
sanitized_gram.py overrun          a kernel that is told of one row more than A has
"""

from __future__ import annotations

import sys

import numpy as np
from gram_cases import CASES, exact

from mansard.backends import emulated
from mansard.families.gram import emit, space, spec


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
        chosen = CASES[int(sys.argv[1]) :: int(sys.argv[2])]
        for problem, config in chosen:
            exact(problem, config, "emulated")
        print(f"clean: {len(chosen)}")
