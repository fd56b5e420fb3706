"""Dong's bidiagonalization step by step (figure 4.8): without blocks, and his versions 1 to 4; float64.

| version | tall and wide products | products with the square rest |
|---|---|---|
| nonblocked | none: the rest is updated after every column | the array library's |
| 1 | the array library's | the array library's |
| 2 | in one launch per panel | in the same launch: a block per matrix ("big tile") |
| 3 | a launch per step, a block per matrix | a launch per step, several blocks per matrix ("classic") |
| 4 | as 3 | as 3, rows padded to whole lines of memory |

Behind a panel the rest is updated by the array library. `bidiagonal.cuh` has the kernels; tests run them in the
emulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mansard.codegen.geometry import Geometry, Kernel
from mansard.codegen.instantiate import Field

from ..kernels import ITEM, Text, launched

HEADER = Path(__file__).with_name("bidiagonal.cuh")
VERSIONS = ("nonblocked", "1", "2", "3", "4")
PARTS = ("panel", "square", "product")  # wide and tall products with vectors, square ones, products of matrices
PANEL, MOST = 32, 1024  # columns of a panel; rows of a matrix, of which shared memory has a vector
LANES_Y, BLOCKS = 8, 4  # warps of a block; blocks of a matrix in classic products
LINE = {"4": 16}  # numbers of a line of memory, with which rows begin; other versions: anywhere
_ARRAYS, _NUMBERS = ("F", "L", "R", "D", "E", "TAU", "W"), ("N", "LINE", "K", "BEGIN", "END")


@dataclass
class Work:
    """Matrices, which are overwritten, and what is computed of them."""

    module: Any  # numpy or cupy
    F: Any
    panel: int = PANEL
    L: Any = field(init=False)
    R: Any = field(init=False)
    D: Any = field(init=False)
    E: Any = field(init=False)
    TAU: Any = field(init=False)
    W: Any = field(init=False)

    def __post_init__(self) -> None:
        zeros, (count, n, _) = self.module.zeros, self.F.shape
        self.L, self.R = (zeros((count, 2 * self.panel, n)) for _ in range(2))
        self.D, self.E, self.W = (zeros((count, n)) for _ in range(3))
        self.TAU = zeros((count, 2 * self.panel))

    @property
    def arrays(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _ARRAYS)


class Kernels:
    """Launches of panels, steps and square products; every one is prepared once."""

    def __init__(self, backend: Any, stream: Any = lambda: 0) -> None:
        self.backend, self.stream = backend, stream
        self._prepared: dict[tuple[Any, ...], Any] = {}

    def launch(self, entry: str, work: Work, *numbers: int) -> None:
        """One launch; `numbers` are LINE, K, BEGIN and END."""
        count, n, _ = work.F.shape
        key = (entry, count, n, numbers)
        if key not in self._prepared:
            made = _text(entry)
            grid = (count, BLOCKS if entry == "bidiagonal_square" else 1, 1)
            geometry = Geometry(grid, made.threads, made.constants["SHARED_BYTES"])
            kernel = Kernel(made.source(self.backend.name), geometry, (n, *numbers))
            self._prepared[key] = self.backend.prepare(kernel)
        launched(self._prepared[key], work.arrays, self.stream())


def _text(entry: str) -> Text:
    threads = 32 * LANES_Y
    shared = (threads + MOST + 2 * PANEL) * ITEM["float64"]
    constants = {"LANES_Y": LANES_Y, "NB": PANEL, "MOST": MOST, "SHARED_BYTES": shared}
    arrays = tuple(Field(name, "double*", "pointer") for name in _ARRAYS)
    return Text(HEADER, entry, "float64", constants, arrays, _NUMBERS, threads)


def _unmarked(part: str) -> None:
    pass


def run(version: str, work: Work, kernels: Kernels, mark: Callable[[str], Any] = _unmarked) -> None:
    """Bidiagonalize the matrices of `work`: D and E are the diagonal and what lies above it. Versions 3 and 4 call
    `mark` behind every part, with its name in PARTS."""
    n = work.F.shape[-1]
    for K in range(0, n, work.panel):
        steps = 2 * min(work.panel, n - K)
        if version in ("nonblocked", "1"):
            for s in range(steps):
                step(work, K, s)
        elif version == "2":
            kernels.launch("bidiagonal_panel", work, 1, K, 0, steps)
        else:
            for s in range(steps + 1):
                kernels.launch("bidiagonal_step", work, 1, K, s, steps)
                mark("panel")
                if s < steps:
                    kernels.launch("bidiagonal_square", work, LINE.get(version, 1), K, s, steps)
                    mark("square")
        after = slice(K + work.panel, n)
        work.F[:, after, after] -= work.L[:, :steps, after].swapaxes(1, 2) @ work.R[:, :steps, after]
        mark("product")


def step(work: Work, K: int, s: int) -> None:
    """Step s of the panel at K by the array library's products, as `bidiagonal.cuh` describes it."""
    module, k, F = work.module, K + s // 2, work.F
    first, behind = k + s % 2, slice(k + 1, None)
    own, cross = (work.R, work.L) if s % 2 else (work.L, work.R)
    own[:, s, K:] = cross[:, s, K:] = 0
    line = (F[:, k, first:] if s % 2 else F[:, first:, k]) - _combined(own[:, :s, first:], cross[:, :s, k])
    if not line.shape[1]:
        return
    tail = (line[:, 1:] ** 2).sum(1)
    beta = -module.copysign(module.sqrt(line[:, 0] ** 2 + tail), line[:, 0])
    reflects = tail > 0
    tau = module.where(reflects, (beta - line[:, 0]) / module.where(reflects, beta, 1), 0)
    (work.E if s % 2 else work.D)[:, k] = module.where(reflects, beta, line[:, 0])
    own[:, s, first:] = module.where(reflects[:, None], line / module.where(reflects, line[:, 0] - beta, 1)[:, None], 0)
    own[:, s, first] = 1
    vector, rest = own[:, s, first:], F[:, behind, first:] if s % 2 else F[:, first:, behind].swapaxes(1, 2)
    product = (rest @ vector[:, :, None])[:, :, 0]
    along = (own[:, :s, first:] @ vector[:, :, None])[:, :, 0]
    cross[:, s, behind] = tau[:, None] * (product - _combined(cross[:, :s, behind], along))


def _combined(rows: Any, factors: Any) -> Any:
    """The sum of rows of every matrix, each times its factor."""
    return (factors[:, None, :] @ rows)[:, 0]


def flops(n: int) -> float:
    return 8 / 3 * math.pow(n, 3)
