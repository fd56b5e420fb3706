"""The support matrix, by asking: each public operation is called, differentiated and planned (`probes`, `derivatives`).

Libraries that are not installed have no column. What CuPy's column says comes from the registry: there is no GPU where
the pages are built.
"""

from __future__ import annotations

import importlib.util
import inspect
import platform
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from mansard.codegen.geometry import Device
from mansard.kernels import family_of
from mansard.operations import registry
from mansard.operations.sizes import Asked
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import Problem

from .derivatives import jax_cells, torch_cells
from .docstring import escaped
from .probes import (
    DTYPES,
    FORMS,
    NO,
    YES,
    Cell,
    Probe,
    as_dtype,
    by_dtype,
    by_lapack,
    double_precision,
    probes,
    without_compiling,
)

ORDERS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_NO = "-"


def table(columns: Iterable[str], lines: Iterable[tuple[str, Sequence[Cell]]], with_reasons: bool = True) -> list[str]:
    """Rows of a table; with reasons also what the error says where a call was refused, once for all of its cells."""
    names, reasons = list(columns), dict[str, list[str]]()
    rows = ["| operation | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for operation, cells in lines:
        rows.append(f"| {operation} | " + " | ".join(cell.text for cell in cells) + " |")
        for name, cell in zip(names, cells, strict=True):
            if cell.reason:
                reasons.setdefault(cell.reason, []).append(f"{operation} ({name})")
    told = [f"* {escaped(reason)}: {', '.join(where)}" for reason, where in reasons.items()]
    return [*rows, "", "The errors where something is refused:", "", *told] if with_reasons and told else rows


# ---- libraries, forms, dtypes -----------------------------------------------------------------------------


def libraries() -> dict[str, Callable[[Any, str], Any]]:
    """Array libraries that are installed, and how each makes an array of a dtype."""
    found: dict[str, Callable[[Any, str], Any]] = {"NumPy": as_dtype}
    if importlib.util.find_spec("torch") is not None:
        import torch

        found["PyTorch"] = lambda values, dtype: torch.from_numpy(as_dtype(values, dtype))
    if importlib.util.find_spec("jax") is not None:
        import jax

        found["JAX"] = lambda values, dtype: jax.numpy.asarray(as_dtype(values, dtype))
    return found


def forms_table(asked: Sequence[Probe], convert: Callable[[Any, str], Any], with_out: bool) -> list[str]:
    """Forms of a batch that each operation takes in one library: all dtypes, or those that are named."""
    lines = []
    for probe in asked:
        cells = [by_dtype(probe, form, convert) for form in FORMS]
        if with_out:
            function = getattr(import_module(probe.home), probe.name)
            cells.append(YES if "out" in inspect.signature(function).parameters else NO)
        lines.append((probe.spelled, cells))
    return table((*FORMS, "`out=`") if with_out else FORMS, lines)


def derivatives_table(asked: Sequence[Probe], names: Iterable[str]) -> list[str]:
    """First and second derivatives in the libraries that have them, of stacks and of lists."""
    columns: dict[str, Callable[[Probe], tuple[Cell, Cell]]] = {}
    if "PyTorch" in names:
        columns["PyTorch"] = lambda probe: torch_cells(probe, probe.usual)
        columns["PyTorch, lists"] = lambda probe: torch_cells(probe, "list")
    if "JAX" in names:
        columns["JAX"] = lambda probe: jax_cells(probe, probe.usual)
    lines = [(probe.spelled, [cell for ask in columns.values() for cell in ask(probe)]) for probe in asked]
    return table([f"{name}: {order}" for name in columns for order in ("1st", "2nd")], lines)


# ---- kernels ----------------------------------------------------------------------------------------------

_SPARSE = ("matvec", "matrix_powers")


def public() -> list[registry.PublicOperation]:
    """Operations of dense matrices that users call."""
    named = registry.OPERATIONS.values()
    return [one for one in named if one.home and not one.name.endswith("_ex") and one.name not in _SPARSE]


def _spelled(operation: registry.PublicOperation) -> str:
    return f"`{operation.home.replace('mansard', 'ms', 1)}.{operation.name}`"


CPU = Device("cpu", "a CPU with 64-byte vectors", platform.machine(), 8, vector_bytes=64)


def reach(operation: registry.PublicOperation, dtype: str, device: Device) -> str:
    """The largest order, or number of columns, for which every step is a kernel of ours."""
    for order in reversed(ORDERS):
        sizes = {"m": order, "n": order, "k": order, "batch": 10_000}
        if operation.sizes.long == "k":
            sizes["k"] = 1 << 20
        elif operation.name == "matmul":
            sizes["m"] = 1 << 20
        elif operation.sizes.n == 1:
            del sizes["n"]
        given = {name: number for name, number in sizes.items() if name in operation.sizes.takes}
        asked = Asked(operation.name, dtype, **given, on_cpu=device.backend == "cpu", device=device)
        if all(_has_kernel(problem, device) for _, problem in operation.problems_for(asked)):
            return f"{order}+" if order == ORDERS[-1] else str(order)
    return _NO


@cache
def _has_kernel(problem: Problem, device: Device) -> bool:
    family = family_of(problem.operation)
    return family.spec.refusal(problem) is None and next(family.space.candidates(problem, device), None) is not None


def kernels_table(device: Device) -> list[str]:
    rows = ["| operation | " + " | ".join(DTYPES) + " |", "|---" * (len(DTYPES) + 1) + "|"]
    for one in public():
        rows.append(f"| {_spelled(one)} | " + " | ".join(reach(one, dtype, device) for dtype in DTYPES) + " |")
    return rows


def cupy_table(device: Device) -> list[str]:
    """Table of the kernel families that serve CuPy arrays, from the registry; nothing is run."""
    rows = ["| operation | CuPy | kernels |", "|---|---|---|"]
    for one in public():
        has = any(reach(one, dtype, device) != _NO for dtype in DTYPES)
        rows.append(f"| {_spelled(one)} | not probed here | {', '.join(one.families) if has else 'the library'} |")
    return rows


def pages() -> dict[str, str]:
    """The page of the matrix."""
    gpu, asked, known = NOMINAL["sm_90a"], probes(), libraries()
    with without_compiling(), double_precision():
        forms = {name: forms_table(asked, convert, name == "NumPy") for name, convert in known.items()}
    with by_lapack(), double_precision():
        derivatives = derivatives_table(asked, known)
    return {"docs/support.md": "\n".join([
        "# Support matrix", "",
        "Which operation takes what, and which has a kernel. The build of this page asked this version: every cell",
        "is a call that was accepted (yes) or refused (-), for float32, float64, complex64 and complex128. A cell that",
        "names dtypes was accepted for these alone. The reasons of refusals are below each table.",
        *(line for name, rows in forms.items() for line in ("", f"## {name}: forms of a batch", "", *rows)),
        "", "Sparse matrices: `ms.sparse.matrix` takes those of SciPy, CuPy and PyTorch (CSR), `float32` to",
        "`complex128`, and multiplies vectors and blocks of vectors of any library.",
        "", "## Derivatives", "",
        "With respect to all operands, in float64 and complex128. PyTorch ran backward, once and twice, and both",
        "results were compared with differences of the function. JAX traced its derivatives; the tests compute them.",
        "Containers (`Ragged`, `Interleaved`) and `out` have none. More: [PyTorch](torch.md), [JAX](jax.md).",
        "", *derivatives, "",
        "## CuPy", "",
        "There is no GPU where this page is built. CuPy's arrays take the way of NumPy's through the checks, so that",
        "NumPy's table holds for them; the tests on a GPU (`make test-gpu`) call every operation. From the registry:",
        "", *cupy_table(gpu), "",
        "## Kernels by dtype and device", "",
        "The largest order (columns of tall matrices) for which every step has a kernel of Mansard's. Above it, and",
        "where it is known to be faster, a blocked algorithm or the array library answers the same call. One",
        "right-hand side. Orders asked for: " + ", ".join(map(str, ORDERS)) + ".",
        "", f"### {gpu.name}", "", *kernels_table(gpu), "", f"### {CPU.name[2:]}", "", *kernels_table(CPU), "",
    ])}  # fmt: skip
