"""Problems of kernel families at random: problem I of a seed and a family is always the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import exp, log

from ...codegen.geometry import Device
from ...kernels import family_of
from ...operations import registry
from ...operations.sizes import Asked
from ...plan.problem import DTYPES, Problem

# family -> (operation it is asked for by, sides that are drawn: largest M, K, N; 0: the operation has no such option)
FAMILIES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "gram": ("gram", (128, 0, 128)),
    "tsmm": ("matmul", (0, 96, 96)),
    "tsm2r": ("matmul", (0, 8192, 32)),
    "gemm": ("gemm", (128, 128, 128)),
    "gemv": ("gemv", (256, 256, 0)),
    "trsm": ("trsm", (128, 0, 64)),
    "trmm": ("trmm", (128, 0, 64)),
    "rank_k": ("syrk", (128, 96, 0)),
    "matmul_gram": ("matmul_gram", (48, 0, 48)),
    "cholesky": ("cholesky", (128, 0, 0)),
    "lu": ("lu_factor", (128, 0, 0)),
    "qr": ("qr", (128, 0, 64)),
    "jacobi": ("eigh", (32, 0, 0)),
    "tridiagonal": ("tridiagonalize", (128, 0, 0)),
    "bidiagonal": ("bidiagonalize", (96, 0, 96)),
    "spmv": ("matvec", (0, 128, 16)),
}
_WEIGHTS = (5, 8, 3, 4)  # of DTYPES
_DRAWS = 40  # of which one is accepted by the family, or the problem is left out


def problems(family: str, seed: int, cases: int, elements: int, device: Device) -> Iterator[Problem]:
    """So many problems of a family, with operands of about `elements` entries."""
    for number in range(cases):
        problem = _problem(family, random.Random(f"{seed} {family} {number}"), elements, device)
        if problem is not None:
            yield problem


def _problem(family: str, source: random.Random, elements: int, device: Device) -> Problem | None:
    """The first drawn problem that the family has a kernel for."""
    operation, (m, k, n) = FAMILIES[family]
    for _ in range(_DRAWS):
        dtype = source.choices(DTYPES, _WEIGHTS)[0]
        layout = source.choice(("row", "row", "col"))
        sides = {name: _side(source, most) for name, most in zip("mkn", (m, k, n), strict=True) if most}
        if family == "tsmm":  # M is long
            sides["m"] = max(1, elements // sides["k"])
        if family == "tsm2r":  # M and K are
            sides["m"] = sides["k"] = max(1024, round((elements * source.uniform(0.25, 1.0)) ** 0.5))
        asked = Asked(operation, dtype, layout=layout, on_cpu=device.backend == "cpu", device=device)
        asked = registry.with_long(replace(asked, m=sides.get("m"), k=sides.get("k"), n=sides.get("n")), elements)
        for _, problem in registry.problems_of(asked):
            if problem.operation == family and family_of(family).spec.refusal(problem) is None:
                return problem
    return None


def _side(source: random.Random, most: int) -> int:
    """Log-uniform from 1 to `most`."""
    return round(exp(source.uniform(0.0, log(most))))
