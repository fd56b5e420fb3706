"""Problems and configurations that between them reach every branch of the lu kernels."""

from __future__ import annotations

from mansard.families.lu import spec
from mansard.families.lu.space import Block, Config, Lanes, Swaps
from mansard.plan.problem import Problem

P = spec.problem
_STRIDED = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS = {"stack_a": "pointers", "stack_b": "pointers"}
_ONE = Lanes(1)

LANES: list[tuple[Problem, Config]] = [
    # a whole matrix per lane; groups that begin anywhere, tails of the batch
    (P("float64", 1, 1, 70), _ONE),
    (P("float64", 2, 2, 131), Lanes(1, WARPS=2)),
    (P("float64", 3, 3, 67, pivot=False), _ONE),
    (P("float64", 4, 4, 33), _ONE),
    (P("float64", 7, 4, 40), _ONE),
    (P("float64", 4, 7, 40, layout_a="col"), _ONE),
    (P("float64", 8, 8, 37), _ONE),
    (P("float32", 5, 5, 35), _ONE),
    (P("complex64", 4, 4, 35), _ONE),
    (P("complex128", 3, 3, 35, pivot=False), _ONE),
    # two lanes that do the same
    (P("float64", 2, 2, 131), Lanes(2, WARPS=2)),
    (P("float64", 2, 2, 33, NRHS=1, want="solve"), Lanes(2)),
    (P("complex64", 3, 3, 35, want="inverse"), Lanes(2, WARPS=1)),
    (P("float32", 5, 3, 17, layout_a="col"), Lanes(2)),
    (P("float64", 3, 3, 19, want="determinant"), Lanes(2)),
    # teams of 4 to 32 lanes, one and several rows each, ragged shares, both kinds of code
    (P("float64", 3, 3, 19), Lanes(4)),
    (P("float64", 6, 6, 19), Lanes(4, True)),
    (P("float64", 12, 12, 9), Lanes(4, True)),
    (P("float64", 13, 13, 9), Lanes(8, WARPS=2)),
    (P("float64", 16, 16, 9), Lanes(8)),
    (P("float64", 16, 16, 9, pivot=False), Lanes(8, True)),
    (P("float64", 17, 17, 5), Lanes(8, True, 1)),
    (P("float64", 24, 24, 5), Lanes(8, True, 1)),
    (P("float64", 25, 25, 5), Lanes(16, True, 1)),
    (P("float64", 32, 32, 5), Lanes(16, True, 1)),
    (P("float64", 32, 32, 3, pivot=False), Lanes(32, True, 1)),
    (P("float64", 40, 40, 3), Lanes(32, True, 1)),
    (P("float64", 20, 9, 5), Lanes(8, True)),
    # neighbouring rows in one lane; rows of factors that are looked up; solutions that are gathered
    (P("float64", 15, 11, 9), Lanes(8)),
    (P("float32", 29, 29, 3), Lanes(16, True, 1)),
    (P("float64", 13, 13, 9, NRHS=1, want="solve", pivot=False), Lanes(8)),
    (P("complex64", 15, 15, 7, NRHS=2, want="solve", layout_a="col"), Lanes(8)),
    (P("complex64", 16, 16, 9, pitch_a=18, **_STRIDED), Lanes(8)),
    (P("complex128", 32, 32, 3, stack_a="pointers", stack_f="packed"), Lanes(32, True, 1)),
    (P("float64", 16, 16, 9, NRHS=1, want="solve", layout_b="col", pitch_b=20, stack_b="strided"), Lanes(8)),
    (P("float64", 9, 20, 5), Lanes(4, True)),
    (P("float32", 16, 16, 7), Lanes(4, True)),
    (P("float32", 31, 31, 3), Lanes(8, True, 1)),
    (P("complex64", 14, 14, 7), Lanes(8)),
    (P("complex64", 19, 19, 5), Lanes(16, True)),
    (P("complex128", 9, 9, 5), Lanes(8)),
    (P("complex128", 18, 18, 3, pivot=False), Lanes(32, True, 1)),
    (P("complex128", 26, 26, 3), Lanes(32, True, 1)),
    # the pivot's row through shared memory
    (P("float64", 6, 6, 19), Lanes(4, True, VIA="shared")),
    (P("float64", 13, 13, 9), Lanes(8, WARPS=2, VIA="shared")),
    (P("float64", 16, 16, 9, NRHS=2, want="solve"), Lanes(8, VIA="shared")),
    (P("float64", 9, 20, 5), Lanes(4, True, VIA="shared")),
    (P("float64", 32, 32, 5, NRHS=1, want="solve"), Lanes(16, True, 1, VIA="shared")),
    (P("float32", 10, 10, 9, NRHS=3, want="solve"), Lanes(8, VIA="shared")),
    (P("float64", 24, 24, 5), Lanes(8, True, 1, VIA="shared")),
    (P("complex64", 19, 19, 5, want="inverse"), Lanes(16, True, VIA="shared")),
    (P("complex128", 9, 9, 5), Lanes(8, VIA="shared")),
    (P("float64", 40, 40, 3), Lanes(32, True, 1, VIA="shared")),
    # layouts, pitches, stacks, alignment
    (P("float64", 8, 8, 21, layout_a="col"), Lanes(4)),
    (P("float64", 8, 8, 21, layout_a="col", layout_f="row"), _ONE),
    (P("float64", 11, 11, 21, layout_f="col"), Lanes(8)),
    (P("float32", 6, 9, 21, layout_a="any"), Lanes(4)),
    (P("float64", 5, 5, 21, pitch_a=9, **_STRIDED), _ONE),
    (P("float64", 6, 6, 21, pitch_a=8, **_STRIDED), Lanes(4, True)),
    (P("float64", 7, 7, 21, stack_a="pointers", stack_f="packed"), Lanes(4)),
    (P("complex64", 10, 10, 9, **_POINTERS), Lanes(8)),
    (P("float64", 5, 5, 21, aligned=False), _ONE),
    (P("float32", 9, 9, 21, aligned=False), Lanes(8)),
    (P("complex128", 4, 4, 21, aligned=False), Lanes(4)),
    # right-hand sides
    (P("float64", 2, 2, 70, NRHS=1, want="solve"), _ONE),
    (P("float64", 8, 8, 40, NRHS=1, want="solve"), _ONE),
    (P("float64", 5, 5, 40, NRHS=3, want="solve", pivot=False), _ONE),
    (P("float64", 12, 12, 9, NRHS=1, want="solve"), Lanes(4, True)),
    (P("float64", 16, 16, 9, NRHS=2, want="solve"), Lanes(8)),
    (P("float64", 23, 23, 5, NRHS=1, want="solve"), Lanes(8, True, 1)),
    (P("float64", 32, 32, 5, NRHS=1, want="solve"), Lanes(16, True, 1)),
    (P("float32", 21, 21, 5, NRHS=4, want="solve", layout_b="col"), Lanes(8, True, 1)),
    (P("complex64", 15, 15, 5, NRHS=2, want="solve", layout_b="col", layout_x="row"), Lanes(16)),
    (P("complex128", 7, 7, 5, NRHS=1, want="solve", layout_a="col", pivot=False), Lanes(4)),
    (P("float64", 9, 9, 9, NRHS=2, want="solve", layout_b="any", **_STRIDED), Lanes(8)),
    (P("float64", 6, 6, 21, NRHS=1, want="solve", **_POINTERS), _ONE),
    (P("float32", 10, 10, 21, NRHS=3, want="solve", pitch_b=5, stack_b="strided"), Lanes(8)),
    (P("float64", 7, 7, 21, NRHS=1, want="solve", aligned=False), Lanes(4)),
    # inverses and determinants
    (P("float64", 2, 2, 70, want="inverse"), _ONE),
    (P("float64", 6, 6, 40, want="inverse"), _ONE),
    (P("complex64", 4, 4, 40, want="inverse", pivot=False), _ONE),
    (P("float64", 9, 9, 9, want="inverse"), Lanes(4, True)),
    (P("float64", 16, 16, 9, want="inverse", layout_f="col"), Lanes(8)),
    (P("float64", 27, 27, 3, want="inverse"), Lanes(16, True, 1)),
    (P("float32", 32, 32, 3, want="inverse", layout_a="col"), Lanes(16, True, 1)),
    (P("complex128", 12, 12, 3, want="inverse"), Lanes(16)),
    (P("float64", 5, 5, 40, want="determinant"), _ONE),
    (P("float64", 20, 20, 5, want="determinant", layout_a="col"), Lanes(8, True)),
    (P("complex64", 11, 11, 9, want="determinant", pivot=False), Lanes(8)),
    (P("float32", 4, 4, 40, want="logdet"), _ONE),
    (P("float64", 14, 14, 9, want="logdet"), Lanes(8)),
    (P("complex128", 13, 13, 9, want="logdet"), Lanes(16, True)),
]  # fmt: skip

BLOCK: list[tuple[Problem, Config]] = [
    # whole panels and ragged ones, one to four rows per lane, one warp and several
    (P("float64", 32, 32, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 33, 33, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 50, 50, 3), Block(8, 4, UNIT="mma")),
    (P("float64", 64, 64, 3), Block(8, 2, UNIT="mma")),
    (P("float64", 64, 64, 2, pivot=False), Block(16, 2, UNIT="mma")),
    (P("float64", 61, 61, 2), Block(8, 1, UNIT="fma")),
    (P("float64", 100, 100, 2), Block(16, 4, UNIT="mma")),
    (P("float64", 128, 128, 2), Block(8, 8, UNIT="mma")),
    (P("float64", 90, 20, 2), Block(8, 4, UNIT="mma")),
    (P("float64", 20, 90, 2), Block(8, 4, UNIT="mma")),
    (P("float64", 37, 37, 3, layout_a="col"), Block(8, 2, UNIT="mma")),
    (P("float64", 40, 40, 3, layout_a="col", layout_f="row"), Block(8, 3, UNIT="mma")),
    (P("float64", 38, 44, 3, layout_a="any", layout_f="row"), Block(16, 2, UNIT="mma")),
    (P("float64", 40, 40, 3, pitch_a=46, **_STRIDED), Block(8, 2, UNIT="mma")),
    (P("float64", 36, 36, 3, stack_a="pointers", stack_f="packed"), Block(8, 2, UNIT="mma")),
    (P("float64", 35, 35, 3, aligned=False), Block(8, 2, UNIT="mma")),
    (P("float32", 64, 64, 2), Block(8, 2)),
    (P("float32", 75, 75, 2, layout_f="col"), Block(4, 3)),
    (P("complex64", 48, 48, 2), Block(8, 4)),
    (P("complex64", 33, 41, 2, aligned=False), Block(8, 2)),
    (P("complex128", 35, 35, 2, layout_a="col"), Block(8, 4)),
    (P("complex128", 40, 40, 2, pivot=False), Block(4, 2)),
    (P("complex64", 41, 41, 2), Block(4, 1)),
    # all warps factor a panel
    (P("float64", 200, 16, 2), Block(8, 4, "block", "mma")),
    (P("float64", 133, 32, 2, layout_a="col"), Block(8, 2, "block", "mma")),
    (P("float64", 70, 29, 2, pivot=False), Block(16, 2, "block", "mma")),
    (P("float64", 40, 40, 2), Block(8, 2, "block", "fma")),
    (P("float32", 300, 9, 2), Block(8, 8, "block")),
    (P("complex64", 90, 21, 2), Block(4, 2, "block")),
    (P("complex128", 75, 20, 2, pitch_a=22, **_STRIDED), Block(8, 4, "block")),
    (P("float64", 45, 45, 2, NRHS=2, want="solve"), Block(8, 4, "block", "mma")),
    (P("complex128", 35, 35, 2, want="determinant"), Block(8, 2, "block")),
    # right-hand sides, determinants
    (P("float64", 33, 33, 2, NRHS=1, want="solve"), Block(8, 2, UNIT="mma")),
    (P("float64", 64, 64, 2, NRHS=3, want="solve", layout_b="col"), Block(8, 2, UNIT="mma")),
    (P("float64", 70, 70, 2, NRHS=1, want="solve", pivot=False, layout_a="col"), Block(16, 4, UNIT="mma")),
    (P("float32", 45, 45, 2, NRHS=2, want="solve", layout_x="col"), Block(8, 3)),
    (P("complex128", 34, 34, 2, NRHS=2, want="solve", **_POINTERS), Block(8, 1)),
    (P("complex128", 41, 41, 2, NRHS=1, want="solve"), Block(4, 1)),
    (P("complex128", 36, 36, 2, want="inverse"), Block(4, 1)),
    (P("float64", 33, 33, 2, want="inverse"), Block(8, 2, UNIT="mma")),
    (P("float64", 50, 50, 2, want="inverse", layout_f="col"), Block(8, 4, "block", "mma")),
    (P("complex64", 40, 40, 2, want="inverse", layout_a="col", pivot=False), Block(8, 3)),
    (P("float64", 64, 64, 2, want="inverse"), Block(16, 2, UNIT="mma")),
    (P("float64", 79, 79, 2, want="inverse", layout_a="col"), Block(16, 3, UNIT="mma")),
    (P("float64", 20, 20, 3, want="inverse"), Block(8, 1, UNIT="mma")),
    (P("float64", 128, 128, 2, want="inverse"), Block(16, 4, UNIT="mma")),
    (P("float32", 100, 100, 2, want="inverse", aligned=False), Block(8, 4)),
    (P("complex128", 35, 35, 2, want="inverse", **_POINTERS), Block(8, 2)),
    (P("float64", 50, 50, 2, want="determinant"), Block(8, 2, UNIT="mma")),
    (P("complex64", 40, 40, 2, want="logdet"), Block(8, 2)),
]  # fmt: skip
SWAPS: list[tuple[Problem, Config]] = [
    (P("float64", 9, 40, 5, NRHS=4, want="swap"), Swaps(16, 2)),
    (P("float64", 70, 33, 3, NRHS=32, want="swap", layout_a="col"), Swaps()),
    (P("float32", 20, 7, 3, NRHS=20, want="swap", layout_f="col"), Swaps(32, 1)),
    (P("complex128", 12, 10, 3, NRHS=8, want="swap", pitch_a=13, **_STRIDED), Swaps(4, 2)),
    (P("complex64", 33, 6, 3, NRHS=16, want="swap", stack_a="pointers", stack_f="packed"), Swaps(8, 3)),
]
CASES = LANES + BLOCK  # and exchanges alone, which take pivots instead of making them


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    sizes = "x".join(str(size) for _, size in problem.sizes)
    return f"{config.VARIANT}-{problem.want}-{problem.dtype}-{sizes}-{(CASES + SWAPS).index(case)}"
