"""The support matrix, by asking: each public operation is called, and planned, with each kind of operand.

Calls stop where a kernel would be compiled: by then every argument has been accepted. Libraries that are not
installed have no column.
"""

from __future__ import annotations

import importlib.util
import inspect
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import mansard as ms
from mansard.codegen.geometry import Device
from mansard.compile import cxx
from mansard.kernels import family_of
from mansard.operations import registry
from mansard.operations.sizes import Asked
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import Problem

from .docstring import escaped

ORDERS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
DTYPES = ("float32", "float64", "complex64", "complex128")
COUNT = 40  # matrices of a stack
FORMS = ("matrix", "stack", "list", "ragged list", "`Ragged`", "`Interleaved`", "`out=`")
_NO = "-"
_RNG = np.random.default_rng(3)
_SQUARE = _RNG.standard_normal((COUNT, 3, 3))
POSITIVE = _SQUARE @ _SQUARE.swapaxes(1, 2) + 3 * np.eye(3)
TALL = _RNG.standard_normal((COUNT, 3))
ORTHONORMAL = np.linalg.qr(_RNG.standard_normal((COUNT, 3)))[0]


class _Reached(BaseException):
    """A kernel would be compiled now."""


@contextmanager
def without_compiling() -> Iterator[None]:
    """Compiling ends the call."""

    def stop(*_: object, **__: object) -> None:
        raise _Reached

    before = cxx.compile_cpu
    cxx.compile_cpu = stop  # type: ignore[assignment]
    try:
        yield
    finally:
        cxx.compile_cpu = before


class Cell(NamedTuple):
    """Whether a call was accepted, and what the error says if it was not."""

    text: str
    reason: str = ""


YES = Cell("yes")


def accepts(call: Callable[[], Any]) -> Cell:
    """Whether a call gets past its checks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except _Reached:
        return YES
    except (TypeError, ValueError, RuntimeError) as error:
        return Cell("-", str(error).split("\n")[0])
    return YES


def table(columns: Iterable[str], lines: Iterable[tuple[str, Sequence[Cell]]], with_reasons: bool = False) -> list[str]:
    """Rows of a table; with reasons also what the error says where a call was refused, once for all of its cells."""
    names, reasons = list(columns), dict[str, list[str]]()
    rows = ["| operation | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for operation, cells in lines:
        rows.append(f"| {operation} | " + " | ".join(cell.text for cell in cells) + " |")
        for name, cell in zip(names, cells, strict=True):
            if cell.reason:
                reasons.setdefault(cell.reason, []).append(f"{operation} ({name})")
    told = [f"* {escaped(reason)}: {', '.join(where)}" for reason, where in reasons.items()]
    return [*rows, "", "The errors where a cell has -:", "", *told] if with_reasons and told else rows


# ---- forms and libraries ----------------------------------------------------------------------------------


def batch(values: Any, form: str) -> Any:
    """Matrices (COUNT, rows, columns) in one of the forms."""
    parts = list(values)
    if form == "ragged list":
        return [part[(slice(2),) * part.ndim] if at % 2 else part for at, part in enumerate(parts)]
    made = {"matrix": lambda: values[0], "list": lambda: parts, "`Interleaved`": lambda: ms.interleave(values),
            "`Ragged`": lambda: ms.Ragged.from_list(batch(values, "ragged list"))}  # fmt: skip
    return made.get(form, lambda: values)()


def arguments(operation: registry.PublicOperation, form: str, convert: Callable[[Any], Any] = np.asarray) -> list[Any]:
    """Operands of an operation: tall matrices for tall & skinny ones, square matrices for all others."""
    name = operation.name
    if operation.sizes.takes[-1] != "batch" and operation.sizes.long == "k" and form == "matrix":
        first = ORTHONORMAL if name == "project" else TALL
        second = {"matmul_gram": POSITIVE[0], "orthogonalize": ORTHONORMAL}.get(name, TALL)
        return [convert(one) for one in (first, second)[: operation.required]]
    made = [batch(convert(POSITIVE), form)]
    if name == "lu_solve":
        made = [ms.linalg.lu_factor(made[0], backend="reference")]
    elif name == "cho_solve":
        made = [(made[0], True)]
    if operation.required == 2:
        right = POSITIVE
        if name in ("gemv", "trsv"):
            right = POSITIVE[..., :1] if form == "`Ragged`" else POSITIVE[..., 0]
        made.append(batch(convert(right), form))
    return made


def answers(operation: registry.PublicOperation, form: str, convert: Callable[[Any], Any] = np.asarray) -> Cell:
    function = getattr(import_module(operation.home), operation.name)
    return accepts(lambda: function(*arguments(operation, form, convert)))


def public() -> list[registry.PublicOperation]:
    """Operations of dense matrices that users call; the sparse ones have a table of their own."""
    named = registry.OPERATIONS.values()
    return [one for one in named if one.home and not one.name.endswith("_ex") and one.name not in _SPARSE]


_SPARSE = ("matvec", "matrix_powers")


def forms_table() -> list[str]:
    lines = []
    for one in public():
        function = getattr(import_module(one.home), one.name)
        takes_out = YES if "out" in inspect.signature(function).parameters else Cell("-")
        lines.append((_spelled(one), [*(answers(one, form) for form in FORMS[:-1]), takes_out]))
    return table(FORMS, lines)


def _spelled(operation: registry.PublicOperation) -> str:
    return f"`{operation.home.replace('mansard', 'ms', 1)}.{operation.name}`"


def libraries_table() -> list[str]:
    """Ask every installed array library which operations it takes, and in which forms."""
    columns = {"NumPy": lambda one: answers(one, "stack" if one.home != "mansard" else "matrix")} | _torch() | _jax()
    return table(columns, [(_spelled(one), [ask(one) for ask in columns.values()]) for one in public()], True)


Ask = Callable[[registry.PublicOperation], Cell]


def _torch() -> dict[str, Ask]:
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    def ask(one: registry.PublicOperation, gradient: bool) -> Cell:
        form = "stack" if one.home != "mansard" else "matrix"
        return answers(one, form, lambda values: torch.from_numpy(np.array(values)).requires_grad_(gradient))

    return {"PyTorch": lambda one: ask(one, False), "PyTorch, gradients": lambda one: ask(one, True)}


def _jax() -> dict[str, Ask]:
    if importlib.util.find_spec("jax") is None:
        return {}
    import jax

    def ask(one: registry.PublicOperation, traced: bool) -> Cell:
        form = "stack" if one.home != "mansard" else "matrix"
        if not traced:
            return answers(one, form, jax.numpy.asarray)
        leaves, tree = jax.tree.flatten(arguments(one, form))
        are_arrays = [isinstance(leaf, np.ndarray) for leaf in leaves]  # flags are not traced
        function = getattr(import_module(one.home), one.name)

        def call(*arrays: Any) -> Any:
            rest = iter(arrays)
            return function(*tree.unflatten(next(rest) if is_array else leaf
                                            for is_array, leaf in zip(are_arrays, leaves, strict=True)))  # fmt: skip

        return accepts(lambda: jax.make_jaxpr(call)(*(one for one in leaves if isinstance(one, np.ndarray))))

    return {"JAX": lambda one: ask(one, False), "JAX, `jit`": lambda one: ask(one, True)}


# ---- kernels ----------------------------------------------------------------------------------------------

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


def pages() -> dict[str, str]:
    """The page of the matrix."""
    gpu = NOMINAL["sm_90a"]
    with without_compiling():
        forms, libraries = forms_table(), libraries_table()
    return {"docs/support.md": "\n".join([
        "# Support matrix", "",
        "Which operation takes what, and which has a kernel. The build of this page asked this version: every cell",
        "is a call, or a plan, that was accepted (yes) or refused (-). CuPy arrays go wherever NumPy arrays go, on the",
        "GPU; the tests on a GPU check it. Gradients: [PyTorch](torch.md), [JAX](jax.md).",
        "", "## Forms of a batch", "", *forms, "",
        "A refusal says which form is needed. Sparse matrices: `ms.sparse.matrix` takes those of SciPy, CuPy and",
        "PyTorch (CSR), `float32` to `complex128`, and multiplies vectors and blocks of vectors of any library.",
        "", "## Array libraries", "", *libraries, "",
        "## Kernels by dtype and device", "",
        "The largest order (columns of tall matrices) for which every step has a kernel of Mansard's. Above it, and",
        "where it is known to be faster, a blocked algorithm or the array library answers the same call. One",
        "right-hand side. Orders asked for: " + ", ".join(map(str, ORDERS)) + ".",
        "", f"### {gpu.name}", "", *kernels_table(gpu), "", f"### {CPU.name[2:]}", "", *kernels_table(CPU), "",
    ])}  # fmt: skip
