"""Problems and configurations that between them reach every branch of the factorizations on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mansard.kernels.factor.cholesky import space_cpu as cholesky_cpu
from mansard.kernels.factor.cholesky import spec as cholesky_spec
from mansard.kernels.factor.lu import space_cpu as lu_cpu
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.kernels.factor.qr import space_cpu as qr_cpu
from mansard.kernels.factor.qr import spec as qr_spec
from mansard.plan.problem import REAL, Problem

_STRIDED: dict[str, Any] = {"stack_a": "strided", "stack_b": "strided"}
_POINTERS: dict[str, Any] = {"stack_a": "pointers", "stack_b": "pointers"}

P, Simd, Rowwise = lu_spec.problem, lu_cpu.Simd, lu_cpu.Rowwise
LU: list[tuple[Problem, lu_cpu.Config | None]] = [  # None: a matrix per lane, by the rules
    # all steps written out; pivot rows chosen among all; gathered
    (P("float64", 1, 1, 70), None),
    (P("float64", 2, 2, 131), None),
    (P("float64", 4, 4, 33), None),
    (P("float64", 6, 6, 33), None),
    (P("float64", 8, 8, 65), None),
    (P("float32", 16, 16, 35), None),
    (P("complex64", 3, 3, 35), None),
    (P("complex128", 9, 9, 17), None),
    # several panels, ragged ones, tall and wide, fewer lanes
    (P("float64", 16, 16, 9), Simd(4, 5, 4, 2)),
    (P("float64", 21, 21, 11), None),
    (P("float64", 33, 33, 9), Simd(2, 8, 2, 4)),
    (P("float64", 40, 9, 9), None),
    (P("float64", 7, 30, 9), Simd(4, 4, 8, 2)),
    (P("float32", 30, 20, 18), None),
    (P("complex64", 19, 19, 17), Simd(4, 8, 2, 2)),
    (P("complex128", 18, 25, 9), None),
    (P("float64", 64, 64, 3), None),
    # nothing exchanged
    (P("float64", 4, 4, 33, pivot=False), None),
    (P("float64", 20, 20, 9, pivot=False), None),
    (P("complex64", 20, 13, 9, pivot=False), Simd(4, 4, 2, 2)),
    (P("complex128", 13, 20, 9, pivot=False), None),
    # layouts, pitches, stacks
    (P("float64", 8, 8, 21, layout_a="col"), None),
    (P("complex64", 11, 11, 21, layout_f="col"), None),
    (P("float32", 6, 9, 21, layout_a="any"), None),
    (P("float64", 5, 5, 21, pitch_a=9, **_STRIDED), None),
    (P("complex64", 10, 10, 9, **_POINTERS), None),
    # solutions, inverses, determinants
    (P("float64", 3, 3, 70, NRHS=1, want="solve"), None),
    (P("float64", 8, 8, 40, NRHS=1, want="solve"), None),
    (P("float64", 16, 16, 9, NRHS=2, want="solve"), None),
    (P("float64", 23, 23, 9, NRHS=1, want="solve"), None),
    (P("float32", 21, 21, 5, NRHS=5, want="solve", layout_b="col"), Simd(8, 6, 4, 4)),
    (P("complex128", 7, 7, 5, NRHS=1, want="solve", layout_a="col", pivot=False), None),
    (P("complex64", 20, 20, 9, NRHS=2, want="solve", layout_x="col", **_STRIDED), None),
    (P("float64", 6, 6, 21, NRHS=1, want="solve", **_POINTERS), None),
    (P("float64", 2, 2, 70, want="inverse"), None),
    (P("float64", 12, 12, 9, want="inverse", layout_f="col"), None),
    (P("complex128", 17, 17, 5, want="inverse"), None),
    (P("float64", 5, 5, 40, want="determinant"), None),
    (P("complex64", 20, 20, 9, want="determinant", pivot=False), None),
    (P("float32", 4, 4, 40, want="logdet"), None),
    (P("complex128", 18, 18, 9, want="logdet"), None),
]
ROWWISE: list[tuple[Problem, lu_cpu.Config | None]] = [
    # all steps written out, one or two at a time, with one left; vectors that rows do not fill
    (P("float64", 1, 1, 70), Rowwise(2, 16, 2)),
    (P("float64", 2, 2, 131), Rowwise(2, 16, 2)),
    (P("float64", 3, 3, 35), Rowwise(2, 16, 1)),
    (P("float64", 5, 5, 33), Rowwise(2, 2, 2)),
    (P("float64", 8, 8, 65), Rowwise(2, 16, 2)),
    (P("float32", 7, 7, 35), Rowwise(4, 16, 2)),
    (P("float64", 16, 16, 9), Rowwise(2, 16, 1)),
    (P("float32", 16, 16, 9), Rowwise(4, 3, 1)),
    # some steps together, several tiles, tall and wide
    (P("float64", 17, 17, 9), Rowwise(2, 16, 1)),
    (P("float32", 30, 20, 18), Rowwise(4, 16, 1)),
    (P("float64", 7, 30, 9), Rowwise(2, 4, 2)),
    (P("float64", 40, 9, 9), Rowwise(2, 16, 1)),
    (P("float64", 64, 64, 3), Rowwise(2, 16, 1)),
    (P("float32", 33, 33, 5), Rowwise(2, 8, 4)),
    # panels with rests of one, two and three columns; blocks of them, rows that would share sets of a cache
    (P("float64", 18, 18, 9), Rowwise(2, 16, 1)),
    (P("float64", 23, 19, 9), Rowwise(2, 8, 1)),
    (P("float32", 19, 23, 9), Rowwise(4, 16, 1)),
    (P("float64", 65, 65, 3), Rowwise(2, 16, 1)),
    (P("float64", 90, 70, 3), Rowwise(2, 16, 1)),
    (P("float32", 128, 128, 3), Rowwise(4, 16, 1)),
    (P("float64", 66, 66, 3, NRHS=1, want="solve"), Rowwise(2, 16, 1)),
    (P("float64", 99, 99, 3, NRHS=3, want="solve"), Rowwise(2, 16, 1)),
    (P("float64", 67, 67, 3, NRHS=1, want="solve", pivot=False), Rowwise(2, 16, 1)),
    (P("float64", 96, 96, 3, want="inverse"), Rowwise(2, 16, 1)),
    (P("float64", 71, 71, 3, want="inverse"), Rowwise(2, 4, 1)),
    # determinants
    (P("float64", 4, 4, 40, want="determinant"), Rowwise(2, 16, 2)),
    (P("float64", 21, 21, 9, want="determinant"), Rowwise(2, 16, 1)),
    (P("float32", 5, 5, 9, want="logdet"), Rowwise(4, 16, 2)),
    (P("float64", 18, 18, 9, want="logdet"), Rowwise(2, 16, 1)),
    (P("float64", 7, 7, 9, want="determinant", pivot=False), Rowwise(2, 16, 1)),
    # nothing exchanged; layouts, pitches, stacks
    (P("float64", 9, 9, 11, pivot=False), Rowwise(2, 16, 2)),
    (P("float32", 20, 20, 9, pivot=False), Rowwise(4, 16, 1)),
    (P("float64", 8, 8, 21, layout_a="col", layout_f="col"), Rowwise(2, 16, 2)),
    (P("float32", 6, 9, 21, layout_a="any"), Rowwise(4, 16, 2)),
    (P("float64", 5, 5, 21, pitch_a=9, **_STRIDED), Rowwise(2, 16, 1)),
    # solutions, inverses
    (P("float64", 3, 3, 71, NRHS=1, want="solve"), Rowwise(2, 16, 2)),
    (P("float64", 4, 4, 40, NRHS=3, want="solve"), Rowwise(2, 16, 2)),
    (P("float64", 8, 8, 41, NRHS=1, want="solve"), Rowwise(2, 16, 2)),
    (P("float32", 13, 13, 9, NRHS=2, want="solve", layout_b="col", layout_x="col"), Rowwise(4, 16, 1)),
    (P("float64", 23, 23, 9, NRHS=1, want="solve"), Rowwise(2, 16, 1)),
    (P("float64", 6, 6, 21, NRHS=1, want="solve", **_POINTERS), Rowwise(2, 16, 2)),
    (P("float32", 21, 21, 5, NRHS=5, want="solve", layout_b="col"), Rowwise(4, 16, 1)),
    (P("float64", 2, 2, 71, want="inverse"), Rowwise(2, 16, 2)),
    (P("float64", 12, 12, 9, want="inverse", layout_f="col"), Rowwise(2, 16, 1)),
    (P("float32", 19, 19, 5, want="inverse"), Rowwise(4, 16, 1)),
]

Small = lu_cpu.Small
SMALL: list[tuple[Problem, lu_cpu.Config | None]] = [
    (P("float64", 1, 1, 7), Small(2)),
    (P("float64", 2, 2, 131), Small(2)),
    (P("float64", 5, 5, 33), Small(2)),
    (P("float64", 6, 3, 9), Small(2)),
    (P("float32", 2, 5, 21), Small(4)),
    (P("float32", 7, 7, 35), Small(4)),
    (P("complex128", 4, 4, 9), Small(2)),
    (P("complex64", 3, 3, 17, layout_a="col"), Small(4)),
    (P("float64", 3, 3, 9, pivot=False), Small(2)),
    (P("float64", 4, 4, 21, layout_a="any", layout_f="any"), Small(2)),
    (P("float64", 3, 3, 21, NRHS=1, want="solve"), Small(2)),
    (P("complex64", 4, 4, 9, NRHS=2, want="solve", layout_b="col"), Small(4)),
    (P("float64", 6, 6, 21, NRHS=1, want="solve", **_POINTERS), Small(2)),
    (P("float32", 5, 5, 9, want="inverse"), Small(4)),
    (P("complex128", 3, 3, 9, want="inverse"), Small(2)),
]

C, Tiles, Rows = cholesky_spec.problem, cholesky_cpu.Simd, cholesky_cpu.Rowwise
CHOLESKY: list[tuple[Problem, cholesky_cpu.Config | None]] = [
    (C("float64", 1, 70), None),
    (C("float64", 3, 67, uplo="upper"), None),
    (C("float64", 8, 65), None),
    (C("float64", 13, 9, uplo="upper"), Tiles(4, 8, 2)),
    (C("float64", 30, 9), Tiles(2, 2, 4)),
    (C("float64", 64, 3), None),
    (C("float64", 12, 11, layout_a="any"), Tiles(2, 4, 4, 2)),
    (C("float32", 17, 35), None),
    (C("float32", 14, 13, uplo="upper"), Tiles(4, 4, 4, 2)),
    (C("complex64", 15, 9, layout_a="col"), Tiles(4, 2, 2, 2)),
    (C("complex64", 6, 33, uplo="upper"), None),
    (C("complex128", 19, 9), None),
    (C("complex128", 7, 21, uplo="upper", layout_f="col"), Tiles(4, 2, 1)),
    (C("float64", 9, 21, layout_a="col"), None),
    (C("float32", 6, 21, layout_a="any", uplo="upper"), None),
    (C("float64", 5, 21, pitch_a=9, stack_a="strided"), None),
    (C("float64", 7, 21, stack_a="pointers"), None),
    (C("float64", 5, 40, NRHS=1, want="solve"), None),
    (C("float64", 18, 9, NRHS=3, want="solve", uplo="upper"), None),
    (C("float32", 33, 9, NRHS=5, want="solve", layout_b="col"), None),
    (C("complex64", 11, 9, NRHS=2, want="solve", uplo="upper", layout_x="col"), None),
    (C("complex128", 8, 9, NRHS=1, want="solve", **_POINTERS), None),
]
# one matrix after the other: every end of tiles and blocks, and every way to lie
CHOLESKY_ROWWISE: list[tuple[Problem, cholesky_cpu.Config | None]] = [
    (C("float64", 1, 3), Rows(2, 4)),
    (C("float64", 7, 5, uplo="upper"), Rows(2, 4)),
    (C("float64", 13, 5, layout_a="col"), Rows(2, 8)),
    (C("float64", 30, 5, layout_a="any"), Rows(2, 16)),
    (C("float32", 35, 5), Rows(4, 32)),
    (C("float32", 17, 5, uplo="upper", layout_f="col"), Rows(2, 8)),
    (C("float64", 64, 3, stack_a="pointers"), Rows(2, 32)),
    (C("float64", 131, 3), Rows(2, 32)),
    (C("float64", 11, 5, NRHS=1, want="solve"), Rows(2, 8)),
    (C("float64", 6, 5, NRHS=7, want="solve", uplo="upper"), Rows(2, 4)),
    (C("float32", 23, 5, NRHS=3, want="solve", layout_b="col", layout_x="row"), Rows(4, 8)),
    (C("float64", 32, 5, NRHS=2, want="solve", pitch_a=40, stack_a="strided"), Rows(2, 16)),
]

Q, Columns = qr_spec.problem, qr_cpu.Simd
QR: list[tuple[Problem, Columns | None]] = [
    (Q("float64", 1, 1, 70), None),
    (Q("float64", 3, 3, 67), None),
    (Q("float64", 8, 8, 65), Columns(4, 8)),
    (Q("float64", 17, 17, 9), None),
    (Q("float64", 40, 7, 9), Columns(2, 1)),
    (Q("float64", 5, 12, 9), None),
    (Q("float64", 64, 64, 3), None),
    (Q("float32", 16, 16, 35), Columns(8, 2)),
    (Q("complex64", 8, 5, 33), None),
    (Q("complex64", 5, 9, 17), None),
    (Q("complex128", 19, 19, 9), None),
    (Q("float64", 7, 5, 9, layout_a="col", layout_f="row"), None),
    (Q("complex128", 4, 3, 9, layout_a="any"), None),
    (Q("float64", 5, 3, 9, pitch_a=9, stack_a="strided"), None),
    (Q("float64", 7, 7, 9, stack_a="pointers"), None),
    (Q("complex64", 9, 5, 9, want="r", layout_f="col"), None),
    (Q("float64", 8, 8, 9, want="reduced"), None),
    (Q("float32", 20, 9, 17, want="reduced", layout_q="col"), None),
    (Q("complex128", 7, 11, 5, want="reduced"), None),
    (Q("float64", 9, 3, 9, want="complete"), None),
    (Q("complex64", 4, 9, 17, want="complete"), None),
    (Q("float64", 4, 4, 33, want="solve", NRHS=1), None),
    (Q("float32", 20, 16, 5, want="solve", NRHS=3), None),
    (Q("complex128", 9, 6, 9, want="solve", NRHS=2, layout_b="col"), None),
]

SPACES: dict[str, Any] = {"lu": lu_cpu, "cholesky": cholesky_cpu, "qr": qr_cpu}


def case_id(case: tuple[Problem, Any]) -> str:
    problem, config = case
    sizes = "x".join(str(size) for _, size in problem.sizes)
    return f"{problem.operation}-{problem.want}-{problem.dtype}-{sizes}-{'own' if config else 'default'}"


def demanding(dtype: str, rows: int, columns: int, batch: int = 7) -> dict[str, Any]:
    """Stacks that ask for care: graded, ill-conditioned, of deficient rank, near the ends of the range of numbers."""
    rng, real = np.random.default_rng(rows), np.finfo(REAL[dtype])

    def normal() -> Any:
        parts = rng.standard_normal((2, batch, rows, columns))
        return parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]

    steps = min(rows, columns)
    left, _, right = np.linalg.svd(normal(), full_matrices=False)
    fading = left * np.logspace(0, np.log10(real.eps), steps) @ right
    deficient = normal()
    deficient[:, :, columns // 2 :] = deficient[:, :, : columns - columns // 2]
    scales = {"tiny": real.tiny * 4, "huge": real.max / (8 * columns * rows)}
    stacks = {"random": normal(), "ill": fading, "deficient": deficient}
    stacks["graded"] = normal() * np.logspace(0, 12, rows)[:, None] * np.logspace(0, -12, columns)
    scaled = {name: normal() / 8 * scale for name, scale in scales.items()}
    return {name: stack.astype(dtype) for name, stack in (stacks | scaled).items()}
