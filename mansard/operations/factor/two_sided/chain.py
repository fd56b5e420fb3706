"""Two-sided factorizations by our kernels: which launches a task takes, in which order, and what passes between them.

    small matrices   jacobi, on CPUs by any method of its kernels ("lanes"); so do small batches of `svd`
    values           reduction -> sweeps
    vectors          reduction -> sweeps (values) -> sweeps (rotations, these values as shifts) -> back transformation,
                     of singular vectors one for each side
    reductions       reduction -> back transformation without rotations

Small batches take a block per matrix instead of a thread for values and for eigenvectors of up to 128 rows (method
"divide"), and for the values that other vectors have as shifts (method "bisect"):

    values           reduction -> divide (multisection)
    eigenvectors     reduction -> divide (divide and conquer) -> back transformation, a product with these vectors
    other vectors    reduction -> divide (multisection) -> sweeps (rotations) -> back transformation

A reduction is `tridiagonal` or `bidiagonal`. What one launch leaves for the next lies in scratch memory; a large batch
is divided so that it stays bounded (`chunked.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....kernels.factor import back_transform, bidiagonal, divide, jacobi, sweeps, tridiagonal
from ....kernels.factor.two_sided.reductions import Panels, fits_registers
from ....plan import pin
from ....plan.problem import ITEMSIZE, REAL, Options, Problem
from .task import Task

_TINY = 8  # rows of a matrix in one thread's registers, on GPUs; of complex matrices without symmetry one less
DIVIDED = ("eigh", "eigvalsh", "svd", "svdvals")  # tasks of which small batches take `divide`
_ALIGNMENT = 256  # bytes: every array in scratch memory begins at a multiple
# results and scratch by the pointers of the launches that write and read them, where names differ
_SHIFTING = {"W": "SHIFTS", "SHIFTS": "", "SCALE": ""}  # the first pass: unsorted values become shifts
_RECORDING = {"W": "VALUES"}
_VECTORS = {"TAU": "", "D": "VALUES", "ROTATIONS": "LEFT"}
_FORM = {"TAU": "", "D": "", "ROTATIONS": "", "RANGES": "", "COUNT": "", "W": "", "SCALE": ""}  # Q alone
_PRODUCT = _FORM | {"ROTATIONS": "T_VECTORS"}  # Q times the eigenvectors of T
_LEFT = {"V": "U_REFLECTORS", "TAU": "TAU_U", "PHASE": "PHASE_U", "Z": "U"}
_RIGHT = {"V": "V_REFLECTORS", "TAU": "TAU_V", "PHASE": "PHASE_V", "Z": "VH"}


class Link(NamedTuple):
    """One launch: its problem, and the array behind each of its pointers ("": null)."""

    problem: Problem
    arrays: tuple[str, ...]


def links(task: Task, dtype: str, N: int, BATCH: int, lies: Options) -> tuple[Link, ...]:
    """The launches for BATCH square matrices; `lies` says how those of A lie: stack_a and, for jacobi, its layout."""
    uplo = "upper" if task.upper else "lower"
    if task.driver in ("jacobi", "lanes"):
        method = "any" if task.driver == "lanes" else "jacobi"
        problem = jacobi.spec.problem(dtype, N, BATCH, want=task.want, uplo=uplo, method=method, **lies)
        written = {"Z": "U" if task.want == "svd" else "Z" if task.want == "eigh" else ""}
        return (_link(problem, jacobi.spec.POINTERS, written | ({} if task.want == "svd" else {"VH": ""})),)
    vectors, stack = any(part in task.parts for part in ("Z", "U", "Q")), lies.get("stack_a", "packed")
    want = "vectors" if vectors else "values"
    if task.is_hermitian:
        problem = tridiagonal.spec.problem(dtype, N, BATCH, want=want, uplo=uplo, stack_a=stack)
        names = {"V": "V_REFLECTORS"} if vectors else {"V": _in_place("V_REFLECTORS", dtype, N), "PHASE": ""}
        first = _link(problem, tridiagonal.spec.POINTERS, names)
    else:
        problem = bidiagonal.spec.problem(dtype, N, BATCH, want=want, stack_a=stack)
        unused = dict.fromkeys(("TAU_U", "V", "TAU_V", "PHASE_U", "PHASE_V"), "")
        unused["U"] = _in_place("U_REFLECTORS", dtype, N)
        names = {"U": "U_REFLECTORS", "V": "V_REFLECTORS"} if vectors else unused
        first = _link(problem, bidiagonal.spec.POINTERS, names)
    found = (first, *_iteration(task, dtype, N, BATCH, vectors), *_back(task, dtype, N, BATCH, vectors))
    return found if problem.is_complex else tuple(_without_phases(link) for link in found)


def methods(
    task: Task, dtype: str, N: int, on_cpu: bool, few: bool = False, rotates: bool = False
) -> list[Task]:  # fmt: skip
    """Methods that come into question for matrices of N rows, as drivers, the preferred one first; `few`: the batch is
    too small for a thread per matrix; `rotates`: so small that a block of `jacobi` each is faster than a chain."""
    if "D" in task.parts:
        return [task._replace(driver="qr")]
    on_gpus = _TINY - (dtype.startswith("complex") and not task.is_hermitian)
    if task.driver == "jacobi" or N == 1:
        return [task._replace(driver="jacobi")]
    if on_cpu and task.driver == "auto":
        return [task._replace(driver="lanes")]
    if task.driver == "qr" or on_gpus < N:
        divides = few and task.driver != "qr" and task.want in DIVIDED
        first = ["jacobi"] if rotates and task.driver == "auto" else []
        second = [of_few(task, N)] if divides else []
        return [task._replace(driver=driver) for driver in (*first, *second, "qr")]
    return [task._replace(driver="jacobi"), task._replace(driver="qr")]


def of_few(task: Task, N: int) -> str:
    """The method for small batches: singular vectors, and vectors of many rows, take rotations with known shifts."""
    has_vectors = "Z" in task.parts or "U" in task.parts
    return "bisect" if "U" in task.parts or (has_vectors and N > divide.spec.WIDEST_OF_VECTORS) else "divide"


def chain_of(task: Task, dtype: str, N: int, BATCH: int, on_cpu: bool) -> tuple[Problem, ...]:
    """The problems of a task on packed matrices, by the preferred method."""
    return tuple(link.problem for link in links(methods(task, dtype, N, on_cpu)[0], dtype, N, BATCH, {}))


def _in_place(reflectors: str, dtype: str, N: int) -> str:
    """The array in which a matrix is reduced whose reflectors nobody wants; none for a matrix in registers, unless
    panels are pinned."""
    return "" if fits_registers(dtype, N) and pin.pins().get("VARIANT") != Panels.VARIANT else reflectors


def _link(problem: Problem, pointers: tuple[str, ...], names: dict[str, str]) -> Link:
    return Link(problem, tuple(names.get(name, name) for name in pointers))


def _without_phases(link: Link) -> Link:
    return link._replace(arrays=tuple("" if name.startswith("PHASE") else name for name in link.arrays))


def _is_reduction(task: Task) -> bool:
    return "D" in task.parts


def _iteration(task: Task, dtype: str, N: int, BATCH: int, vectors: bool) -> tuple[Link, ...]:
    """Values, and with vectors a second pass that records the rotations."""
    if _is_reduction(task):
        return ()
    if task.driver == "divide":
        return (_divided(task, dtype, N, BATCH, vectors),)
    form, real, pointers = "tridiagonal" if task.is_hermitian else "bidiagonal", REAL[dtype], sweeps.spec.POINTERS
    unused = dict.fromkeys(("LEFT", "RIGHT", "RANGES", "COUNT"), "")
    problem = sweeps.spec.problem(real, N, BATCH, form=form, want="values", sorted=not vectors)
    if not vectors:
        return (_link(problem, pointers, unused | {"SHIFTS": ""}),)
    shifts = _link(problem, pointers, unused | _SHIFTING)
    if task.driver == "bisect":
        values = divide.spec.problem(real, N, BATCH, form=form, want="shifts")
        shifts = _link(values, divide.spec.POINTERS, _SHIFTING | {"Z": ""})
    recorded = sweeps.spec.problem(real, N, BATCH, sweeps.spec.capacity(N), form=form, want="rotations")
    right = {"RIGHT": ""} if task.is_hermitian else {}
    return shifts, _link(recorded, pointers, _RECORDING | right)


def _divided(task: Task, dtype: str, N: int, BATCH: int, vectors: bool) -> Link:
    """Values, and eigenvectors of T, by a block per matrix."""
    form, want = "tridiagonal" if task.is_hermitian else "bidiagonal", "vectors" if vectors else "values"
    problem = divide.spec.problem(REAL[dtype], N, BATCH, form=form, want=want)
    return _link(problem, divide.spec.POINTERS, {"Z": "T_VECTORS" if vectors else ""})


def _back(task: Task, dtype: str, N: int, BATCH: int, vectors: bool) -> tuple[Link, ...]:
    if not vectors:
        return ()
    if task.driver == "divide":
        product = back_transform.spec.problem(dtype, N, BATCH, side="product")
        return (_link(product, back_transform.spec.POINTERS, _PRODUCT | {"V": "V_REFLECTORS"}),)
    capacity = 0 if _is_reduction(task) else sweeps.spec.capacity(N)
    with_rotations = _FORM if _is_reduction(task) else _VECTORS
    sides: dict[str, dict[str, str]] = {"left": _LEFT | {"W": ""}, "right": _RIGHT}
    if task.is_hermitian:
        sides = {"eigenvectors": {"V": "V_REFLECTORS", "Z": "Q" if _is_reduction(task) else "Z"}}
    found = []
    for side, names in sides.items():
        problem = back_transform.spec.problem(dtype, N, BATCH, capacity, side=side)
        rotations = {"ROTATIONS": "RIGHT"} if side == "right" and not _is_reduction(task) else {}
        found.append(_link(problem, back_transform.spec.POINTERS, with_rotations | rotations | names))
    return tuple(found)


# ---- scratch memory ---------------------------------------------------------------------------------------


class Scratch(NamedTuple):
    """Where arrays begin in one block of scratch memory, in bytes, and how long it is."""

    offsets: dict[str, int]
    size: int


def scratch(task: Task, chain: tuple[Link, ...], dtype: str, N: int, BATCH: int) -> Scratch:
    """The arrays that launches of the chain leave for others, one after the other."""
    results = {*task.parts, "A", "INFO", ""}
    used = dict.fromkeys(name for link in chain for name in link.arrays if name not in results)
    offsets, end = {}, 0
    for name in used:
        offsets[name] = end
        end += -(-bytes_of(name, dtype, N, BATCH) // _ALIGNMENT) * _ALIGNMENT
    return Scratch(offsets, end)


def bytes_of(name: str, dtype: str, N: int, BATCH: int) -> int:
    """Bytes of an array that launches read or write, of BATCH matrices."""
    entry, real = ITEMSIZE[dtype], ITEMSIZE[REAL[dtype]]
    capacity = sweeps.spec.capacity(N)
    if name in ("LEFT", "RIGHT"):
        return sweeps.spec.record_words(N, BATCH, capacity) * real
    each: dict[str, Any] = {
        "V_REFLECTORS": N * N * entry, "U_REFLECTORS": N * N * entry, "PHASE": N * entry, "PHASE_U": N * entry,
        "PHASE_V": N * entry, "T_VECTORS": N * N * real, "SCALE": real, "RANGES": 4 * capacity, "COUNT": 4,
        "INFO": 4, **dict.fromkeys(("A", "Z", "Q", "U", "VH"), N * N * entry),
    }  # fmt: skip
    return BATCH * int(each.get(name, N * real))
