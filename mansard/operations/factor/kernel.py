"""One kernel launch for a batch of factorizations: how its operands lie, the problem, addresses.

Every operand has the leading dimensions of the batch. One that has no single step through them is addressed matrix by
matrix, so that one launch does it all and the flat results (pivots, info) lie in the order of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ... import kernels as families
from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...codegen.geometry import Kernel
from ...kernels.common.batches import POINTERS
from ...plan.problem import ITEMSIZE, Options, Problem
from ...plan.route import Choice
from .. import run as call
from .. import stacks
from ..batched.gemm_run import _upload
from ..direct import Direct, described
from ..stacks import Operand
from .task import MATRICES, Found, Sizes, Task, dtype_of

# Operands with strides, in the kernels' order.
STRIDED = {"cholesky": "AFBX", "lu": "AFBX", "qr": "AFQBX", "systems": "ABX"}
_ALWAYS = {"cholesky": ("INFO",), "lu": ("INFO",), "qr": (), "systems": ()}  # written whether asked for or not
_FLAT = ("PIVOTS", "TAU", "SQUARES", "INFO")


Quick = Callable[[Array, Array, Array], list[Array] | None]  # (A, B, out) -> the parts; None: not for these places


class Place(NamedTuple):
    """Where the matrices of an operand are, from launch to launch."""

    operand: Operand
    stack: str  # packed, strided, shared or pointers
    step: int
    table: Array  # offsets of all matrices, in elements, where there is no single step

    @property
    def strides(self) -> tuple[int, int, int]:
        """Matrices, rows, columns, as kernels take them."""
        layout, pitch = self.operand.layout
        inner = {"row": (pitch, 1), "col": (1, pitch), "any": (self.operand.row, self.operand.column)}[layout]
        return (self.step, *inner)

    def aligned(self, unit: int) -> bool:
        """Whether every matrix, or of a packed stack the first one, is on a 16-byte boundary."""
        stepping = self.stack == "strided" and self.step % unit
        return self.operand.aligned and not stepping and (self.table is None or not (self.table % unit).any())


def place_of(operand: Operand) -> Place:
    """How the leading dimensions of an operand are walked through."""
    if operand.listed:
        return Place(operand, "pointers", 0, None)
    left = stacks._collapsed(operand.shape, (operand.strides,))
    if len(left) > 1:
        return Place(operand, "pointers", 0, stacks._offsets(operand.shape, operand.strides))
    dense = operand.rows * operand.columns
    if not left:
        return Place(operand, "packed" if operand.is_dense else "strided", dense, None)
    step = left[0][1][0]
    stack = "shared" if step == 0 else "packed" if operand.is_dense and step == dense else "strided"
    return Place(operand, stack, step, None)


def packed(view: View, shape: tuple[int, ...], rows: int, columns: int) -> Operand:
    """Matrices without gaps, row after row."""
    steps = tuple(rows * columns * prod(shape[i + 1 :]) for i in range(len(shape)))
    return Operand(view._replace(conjugated=False), rows, columns, columns, 1, shape, steps)


def is_readable(operand: Operand, backend: str, shared: bool = False) -> bool:
    """Whether kernels take it as it is; otherwise a copy is made. `shared`: also one matrix for the whole batch."""
    if not operand.uniform or operand.view.conjugated or (backend == "cpu" and operand.layout[0] == "any"):
        return False
    return shared or place_of(operand).stack != "shared"


def family_of(name: str) -> Any:
    """The kernels of this name, None if there are none."""
    return families.family_of(name) if name in families.names() else None


class KernelRun:
    """A kernel for operands that lie like the ones it was planned for; to be prepared before it runs."""

    def __init__(
        self, kind: Kind, task: Task, sizes: Sizes, given: dict[str, Operand], outs: dict[str, Operand], backend: Any
    ) -> None:
        self.kind, self.task, self.sizes, self.backend = kind, task, sizes, backend
        a = given["A"]
        self.lead, self.dtype, self.stream = a.shape, a.view.dtype, kind.stream_of(a.view.device)
        shared = task.family == "systems"
        self.copies = {name: not is_readable(one, backend.name, shared) for name, one in given.items()}
        used = {name: self._copied(one) if self.copies[name] else one for name, one in given.items()}
        self.places = {name: place_of(one) for name, one in (used | self._results(a.view, outs)).items()}
        self.addressed = any(place.stack == "pointers" for place in self.places.values())
        self.problem = self._problem()
        self.launch: Any = None
        self.kernel: Kernel | None = None

    def prepare(self, choice: Choice) -> None:
        """Compile the kernel that was chosen."""
        strides: tuple[int, ...] = ()
        for name in STRIDED[self.task.family]:
            strides += self.places[name].strides if name in self.places else (0, 0, 0)
        emit = family_of(self.task.family).emit
        self.launch, _, self.kernel = call.prepare(emit, self.problem, self.backend, strides, choice=choice)

    def _copied(self, operand: Operand) -> Operand:
        made = packed(operand.view, operand.shape, operand.rows, operand.columns)
        return made._replace(listed=operand.listed, aligned=operand.aligned or not operand.listed)

    def _results(self, view: View, outs: dict[str, Operand]) -> dict[str, Operand]:
        found: dict[str, Operand] = {}
        for part in MATRICES:
            if part in self.task.parts:
                rows, columns = self.sizes.shape(self.task, part) or (1, 1)
                found[part] = outs.get(part) or packed(view, self.lead, rows, columns)
        return found

    def _problem(self) -> Problem:
        task, sizes = self.task, self.sizes
        make: Callable[..., Problem] = family_of(task.family).spec.problem
        if task.family == "systems":  # strides are arguments of its kernels
            given: Options = {f"stack_{name.lower()}": place.stack for name, place in self.places.items()}
            given |= {"pivot": task.pivot, "uplo": "upper" if task.upper else "lower"}
            return make(self.dtype, *sizes[:2], prod(self.lead), NRHS=sizes.NRHS, want=task.want, **given)
        traits: Options = {}
        for name, place in self.places.items():
            (layout, pitch), side = place.operand.layout, name.lower()
            traits |= {f"layout_{side}": layout, f"stack_{side}": place.stack}
            traits[f"pitch_{side}"] = None if layout == "any" else pitch
        if task.family == "cholesky":
            traits["uplo"] = "upper" if task.upper else "lower"
        if task.family == "lu":
            traits["pivot"] = task.pivot
        unit = max(1, 16 // ITEMSIZE[self.dtype])
        aligned = all(place.aligned(unit) for place in self.places.values())
        order = (sizes.N,) if task.family == "cholesky" else (sizes.M, sizes.N)
        return make(self.dtype, *order, prod(self.lead), NRHS=sizes.NRHS, want=task.want, aligned=aligned, **traits)

    def fresh(self, part: str, like: Array) -> Array:
        """Memory for a part of the result."""
        shape, dtype = self.sizes.shape(self.task, part), dtype_of(self.task, part, self.dtype)
        return self.kind.allocate((*self.lead, *shape), dtype, like)

    def __call__(self, A: Array, B: Array, outs: Found) -> Found:
        given = {"A": A} | ({} if B is None else {"B": B})
        for name, copy in self.copies.items():
            if copy:
                one = given[name]
                given[name] = [self.kind.plain(x) for x in one] if stacks.is_list(one) else self.kind.plain(one)
        like = A[0] if stacks.is_list(A) else A
        wanted = dict.fromkeys((*self.task.parts, *_ALWAYS[self.task.family]))
        results = {part: outs[part] if part in outs else self.fresh(part, like) for part in wanted}
        used = [given.get(name, results.get(name)) for name in POINTERS[self.task.family]]
        stream = self.stream()
        if self.addressed:
            pointers, held = self._tables(used, like, stream)
            self.launch(pointers, (), stream)
            del held  # memory of the stream's: what comes next there may take it
        else:
            self.launch(tuple(0 if one is None else self.kind.address(one) for one in used), (), stream)
        return results

    def quick(self, placed: bool, vectors: bool = False) -> Quick | None:
        """The same for stacks that need no tables, without questions: the path of every later call. Its result are the
        parts in their order. `placed`: the first of them is given, and must not overlap what is read. `vectors`: B, and
        so the first part, has its one column as a vector."""
        if self.addressed:
            return None
        address, stream, launch = self.kind.address, self.stream, self.launch
        wanted = list(dict.fromkeys((*self.task.parts, *_ALWAYS[self.task.family])))
        makers = [self.maker(part, vectors and part == wanted[0]) for part in wanted[placed:]]
        held, count, right = ["A", "B", *wanted], 2 + len(self.task.parts), "B" in self.places
        pointers = itemgetter(  # of the addresses of what is held, and a null at the end
            *(held.index(name) if name in self.places or name in wanted else -1 for name in POINTERS[self.task.family])
        )
        overlap = self.overlap(wanted[0]) if placed else None

        def run(A: Array, B: Array, out: Array) -> list[Array] | None:
            used = [A, B, out] if placed else [A, B]
            at = [address(A), address(B) if right else 0]
            if overlap is not None:
                at.append(address(out))
                if overlap(*at):
                    return None
            for make in makers:
                made = make(A)
                used.append(made)
                at.append(address(made))
            at.append(0)
            launch(pointers(at), (), stream())
            return used[2:count]

        if any(self.copies.values()):
            return self._of_copies(run)
        return described(run, self._direct(held, placed, vectors))

    def _of_copies(self, run: Quick) -> Quick:
        """The quick path on copies of what no kernel reads."""
        plain, of_a, of_b = self.kind.plain, self.copies["A"], self.copies.get("B", False)

        def run_on_copies(A: Array, B: Array, out: Array) -> list[Array] | None:
            return run(plain(A) if of_a else A, plain(B) if of_b else B, out)

        return run_on_copies

    def _direct(self, held: list[str], placed: bool, vectors: bool) -> Direct:
        """The quick path as the native launcher takes it."""
        wanted, kind, first = held[2:], self.kind, self.places[held[2]].operand.view if placed else None
        order = tuple(held.index(name) if name in held else -1 for name in POINTERS[self.task.family])
        shapes = [self._shape(part, vectors and part == wanted[0]) for part in wanted]
        dtypes = [dtype_of(self.task, part, self.dtype) for part in wanted]
        makers = tuple(kind.maker(shape, dtype, self.dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
        a, b = (self.places[name].operand.view if name in self.places else None for name in ("A", "B"))
        assert a is not None
        item = ITEMSIZE[self.dtype]
        reaches = [(0, 0) if one is None else arrays.reach(one, item) for one in (a, b, first)] if placed else ()
        return Direct(
            kind, self.launch, a.device, order, makers, reaches, parts=len(self.task.parts),
            in_place=int(first is not None and self._in_place(wanted[0])),
        )  # fmt: skip

    def overlap(self, part: str) -> Callable[[int, int, int], str]:
        """The operand that a place overlaps, asked with addresses; empty: none. F may be exactly where A is."""
        a, b, x = (self.places[name].operand.view if name in self.places else None for name in ("A", "B", part))
        assert a is not None and x is not None
        return call.make_overlap(a, b, x, self._in_place(part))

    def _in_place(self, part: str) -> bool:
        """Whether the place of a part may be that of A, exactly."""
        a, x = self.places["A"].operand.view, self.places[part].operand.view
        return part == "F" and (a.shape, a.strides) == (x.shape, x.strides)

    def maker(self, part: str, vectors: bool = False) -> Callable[[Array], Array]:
        """`fresh` for one part, with everything known beforehand."""
        return self.kind.allocator(self._shape(part, vectors), dtype_of(self.task, part, self.dtype), self.dtype)

    def _shape(self, part: str, vectors: bool) -> tuple[int, ...]:
        shape = (*self.lead, *self.sizes.shape(self.task, part))
        return shape[:-1] if vectors else shape

    def _tables(self, used: list[Array], like: Array, stream: int) -> tuple[tuple[int, ...], Array]:
        """What a launch is handed: addresses, or the addresses of arrays of them, and who keeps these arrays."""
        many = [self._addresses(name, one) for name, one in zip(POINTERS[self.task.family], used, strict=True)]
        host = np.concatenate([found for found in many if found is not None])
        first, held = int(host.ctypes.data), host
        if self.backend.name == "cuda":
            held = self.kind.empty((1, -(-host.nbytes // ITEMSIZE[self.dtype])), self.dtype, like)
            first = self.kind.address(held)
            _upload(self.backend.driver, first, host, stream)
        pointers = []
        for one, found in zip(used, many, strict=True):
            pointers.append(first if found is not None else 0 if one is None else self.kind.address(one))
            first += 0 if found is None else found.nbytes
        return tuple(pointers), held

    def _addresses(self, name: str, array: Array) -> Array:
        if array is None or name in _FLAT or self.places[name].stack != "pointers":
            return None
        if stacks.is_list(array):
            return np.fromiter(map(self.kind.address, array), np.int64, len(array))
        return self.kind.address(array) + self.places[name].table * ITEMSIZE[self.dtype]
