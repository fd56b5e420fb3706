"""Chains of launches on the matrices of a stack, some of them at a time, so that scratch memory stays bounded.

Vectors of large matrices: several chunks are in flight. The reductions, and values by a block per matrix, run one after
the other on the caller's stream and keep the GPU busy. A thread per matrix leaves most of it idle: each chunk's
rotations and back transformations run on an urgent stream beside the reductions of the next chunks. All chunks in
flight share the bound of scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_size_t
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple

from .... import units
from ....arrays.types import Array, Kind
from ....backends.base import Launch
from ....backends.beside import followers, several
from ....codegen.geometry import Kernel
from ....kernels import family_of
from ....kernels.factor.two_sided.reductions import MOST_OF_BLOCK
from ....plan import dispatch
from ....plan.problem import ITEMSIZE, REAL, Options, Problem
from ....plan.route import Choice
from ... import run as call
from ...ragged_copy import is_capturing
from ...stacks import Operand, is_list
from ..kernel import place_of
from ..task import Found, stacked
from .chain import Link, Scratch, links, scratch
from .task import Sizes, Task, dtype_of

SCRATCH = 1 << 30  # bytes of scratch memory, where the device's memory is not known
_SHARE = 8  # of a GPU's memory that scratch may take: one part in so many
_WHOLE = 128  # matrices: chunks have a multiple of them
_FLIGHTS = 4  # chunks of large matrices in flight; a half of a chain or more is behind the reduction


class Step(NamedTuple):
    """One prepared launch."""

    problem: Problem
    choice: Choice
    kernel: Kernel | None
    launch: Launch | None
    arrays: tuple[str, ...]


class Chain(NamedTuple):
    """The launches for so many matrices, and their scratch memory."""

    matrices: int
    steps: tuple[Step, ...]
    scratch: Scratch

    @property
    def groups(self) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]:
        """Launches that fill the GPU; those of a thread per matrix; back transformations, which wait for no other."""
        operations = [step.problem.operation for step in self.steps]
        first = operations.index("sweeps") if "sweeps" in operations else len(operations)
        last = len(operations) - operations.count("back_transform")
        return self.steps[: min(first, last)], self.steps[min(first, last) : last], self.steps[last:]


class Layout(NamedTuple):
    """How the matrices of A lie when kernels read them."""

    copied: bool  # a contiguous copy is made first
    strides: tuple[int, int, int]  # matrix, row, column, in elements
    lies: Options  # traits of problems


def layout_of(a: Operand, on_cpu: bool) -> Layout:
    """The layout of an operand: any one with a single step through the batch is read as it is. CPUs want rows or
    columns that are adjacent."""
    if not a.listed and not a.view.conjugated and not (on_cpu and a.layout[0] == "any"):
        place = place_of(a)
        if place.stack in ("packed", "strided") and min(place.strides) >= 0:
            layout, pitch = a.layout
            lies: Options = {"layout_a": layout, "stack_a": place.stack, "pitch_a": None if layout == "any" else pitch}
            return Layout(False, place.strides, lies)
    return Layout(True, (a.rows * a.columns, a.columns, 1), {"layout_a": "row", "stack_a": "packed"})


def reduction_lies(layout: Layout) -> Options:
    """How A lies, as reductions know it: packed row after row, or strided."""
    plain = layout.lies["stack_a"] == "packed" and layout.lies["layout_a"] == "row"
    return {"stack_a": "packed" if plain else "strided"}


def problems_of(task: Task, a: Operand, layout: Layout, count: int) -> tuple[Link, ...]:
    """The launches for `count` matrices like those of A."""
    lies = layout.lies if task.driver in ("jacobi", "lanes") else reduction_lies(layout)
    return links(task, a.view.dtype, a.columns, count, lies)


def flights_of(task: Task, order: int, count: int, multiprocessors: int) -> int:
    """Chunks in flight: each fills the GPU with a block per matrix."""
    rotates = task.driver in ("qr", "bisect") and ("Z" in task.parts or "U" in task.parts)
    return max(1, min(_FLIGHTS, count // multiprocessors)) if rotates and order > MOST_OF_BLOCK else 1


def chunk_of(task: Task, a: Operand, layout: Layout, limit: int, flights: int = 1, unit: int = 1) -> int:
    """Matrices at a time: as many as `flights` chunks in scratch memory of `limit` bytes take, in whole units."""
    count, limit = max(1, prod(a.shape)), limit // flights
    count = min(count, -(-count // (flights * unit)) * unit)
    if scratch(task, problems_of(task, a, layout, count), a.view.dtype, a.columns, count).size <= limit:
        return count
    chain = problems_of(task, a, layout, _WHOLE)
    each = scratch(task, chain, a.view.dtype, a.columns, _WHOLE).size / _WHOLE
    return min(count, max(_WHOLE, int(limit / each) // _WHOLE * _WHOLE))


def scratch_limit(backend: Any) -> int:
    """Bytes of scratch memory that a call may take on the device."""
    if backend.name != "cuda":
        return SCRATCH
    total, driver = c_size_t(), backend.driver
    driver.check(driver.lib.cuDeviceTotalMem_v2(byref(total), backend.device.ordinal), "cuDeviceTotalMem")
    return max(SCRATCH, total.value // _SHARE)


class ChunkedRun:
    """The chains of a plan: for whole chunks, and for what is left of the batch."""

    def __init__(self, kind: Kind, task: Task, method: Task, a: Operand, backend: Any, layout: Layout) -> None:
        self.kind, self.task, self.method, self.backend, self.layout = kind, task, method, backend, layout
        self.lead, self.dtype, self.sizes = a.shape, a.view.dtype, Sizes(a.rows, a.columns)
        self.stream, count = kind.stream_of(a.view.device), prod(a.shape)
        waves = -(-backend.device.multiprocessors // 4) * 4  # matrices; in multiples of 4 results stay aligned
        self.flights = flights_of(method, a.columns, count, waves)
        self.chunk = chunk_of(method, a, layout, scratch_limit(backend), self.flights, waves if self.flights > 1 else 1)
        counts = [self.chunk] * (count // self.chunk) + ([count % self.chunk] if count % self.chunk else [])
        made = {each: self._chain(a, each) for each in dict.fromkeys(counts)}
        self.chains = [made[each] for each in counts]
        self.flights = min(self.flights, len(self.chains))
        self.scratch_bytes = max(chain.scratch.size for chain in self.chains) * self.flights
        self.shapes = self._shapes()
        self.steps = self._bytes_per_matrix()
        self._captured: list[Array] = []  # scratch memory that graphs read and write
        self.run = self if self.layout.copied or self.scratch_bytes or len(self.chains) > 1 else self._single()

    @property
    def description(self) -> str:
        """Chunks and scratch memory, for people."""
        chunks = units.count(len(self.chains), "chunk")
        beside = f", {self.flights} of them in flight" if self.flights > 1 else ""
        return f"{chunks} of up to {self.chunk} matrices{beside}, {units.volume(self.scratch_bytes)} of scratch memory"

    def _chain(self, a: Operand, count: int) -> Chain:
        chain = problems_of(self.method, a, self.layout, count)
        makers = [lambda link=link: self._step(link) for link in chain]
        return Chain(count, tuple(call.together(makers)), scratch(self.method, chain, self.dtype, a.columns, count))

    def _step(self, link: Link) -> Step:
        family = family_of(link.problem.operation)
        strides = self.layout.strides if "A" in link.arrays else ()
        choice = dispatch.choose(link.problem, self.backend.device)
        launch, _, kernel = call.prepare(family.emit, link.problem, self.backend, strides, choice=choice)
        return Step(link.problem, choice, kernel, launch, link.arrays)

    def __call__(self, A: Array, stream: int | None = None, held: list[Array] | None = None) -> Found:
        """The parts for a stack or a list. On another `stream` than the caller's, scratch memory is added to `held`:
        it may be used again once the streams have met."""
        kind, like = self.kind, A[0] if is_list(A) else A
        if self.layout.copied:
            A = kind.plain(stacked(kind, A))
        found = {part: kind.allocate(shape, dtype, like) for part, (shape, dtype) in self.shapes.items()}
        begins = {part: kind.address(one) for part, one in found.items()} | {"A": kind.address(A), "": 0}
        memory = kind.allocate((max(1, self.scratch_bytes),), "uint8", like)
        stream = self.stream() if stream is None else stream
        if held is not None:
            held.append(memory)
        elif is_capturing(self.backend, stream):
            self._captured.append(memory)
        base, done, places = kind.address(memory), 0, []
        for i, chain in enumerate(self.chains):
            own = base + i % self.flights * (self.scratch_bytes // self.flights)
            at = {name: own + offset for name, offset in chain.scratch.offsets.items()}
            places.append(at | {name: begin + done * self.steps[name] for name, begin in begins.items()})
            done += chain.matrices
        self._launch(places, stream, held is not None)
        return found

    def _launch(self, places: list[dict[str, int]], stream: int, is_beside: bool) -> None:
        """Launch all chains, of which `places` are the arrays; all on `stream` where other calls are beside it."""
        with followers(self.backend, stream, 1 if is_beside else self.flights) as streams:
            for i, (chain, at) in enumerate(zip(self.chains, places, strict=True)):
                filling, waiting, last = chain.groups
                if self.flights == 1 or is_beside:
                    _run((*filling, *waiting), at, stream)
                    self._transform_back(last, at, stream, is_beside)
                    continue
                lane = i % self.flights
                streams.wait(lane)  # its scratch memory is still in use
                _run(filling, at, stream)
                _run((*waiting, *last), at, streams.follow(lane))

    def _transform_back(self, steps: tuple[Step, ...], at: dict[str, int], stream: int, is_beside: bool) -> None:
        """Launch the back transformations; of few matrices, which leave room, those of both sides at once."""
        if is_beside or self.method.driver != "bisect":
            return _run(steps, at, stream)
        with several(self.backend, stream, len(steps), are_chains=True) as streams:
            for i, step in enumerate(steps):
                _run((step,), at, streams[i % len(streams)])

    def _single(self) -> Callable[[Array], Found]:
        """The warm path of a stack that one launch answers: allocate the results, launch, and ask nothing."""
        (step,), address, stream = self.chains[0].steps, self.kind.address, self.stream
        launch, names = step.launch, ["A", *self.shapes]
        makers = [self.kind.allocator(shape, dtype, self.dtype) for shape, dtype in self.shapes.values()]
        pointers = itemgetter(*(names.index(name) if name else -1 for name in step.arrays))
        assert launch is not None

        def run(A: Array) -> Found:
            made = [make(A) for make in makers]
            launch(pointers([address(A), *map(address, made), 0]), (), stream())
            return dict(zip(self.shapes, made, strict=True))

        return run

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of what the launches write for callers; E has an entry more than callers get."""
        parts = dict.fromkeys((*self.task.parts, "INFO"))
        if "D" in parts:
            parts["SCALE"] = None
        shapes: dict[str, tuple[int, ...]] = {"E": (self.sizes.N,), "SCALE": ()}
        return {
            part: (
                (*self.lead, *shapes.get(part, self.sizes.shape(self.task, part))),
                REAL[self.dtype] if part == "SCALE" else dtype_of(part, self.dtype),
            )
            for part in parts
        }

    def _bytes_per_matrix(self) -> dict[str, int]:
        item, real = ITEMSIZE[self.dtype], ITEMSIZE[REAL[self.dtype]]
        found = {"A": self.layout.strides[0] * item, "": 0}
        for part, (shape, dtype) in self.shapes.items():
            each = prod(shape[len(self.lead) :])
            found[part] = each * (4 if dtype == "int32" else item if dtype == self.dtype else real)
        return found


def _run(steps: tuple[Step, ...], at: dict[str, int], stream: int) -> None:
    for step in steps:
        assert step.launch is not None
        step.launch(tuple([at[name] for name in step.arrays]), (), stream)


def reduced(kind: Kind, task: Task, found: Found) -> Found:
    """The parts of a reduction: D and E without the factor by which A was scaled, E without its last place."""
    scale = found["SCALE"][..., None]
    return {
        part: found[part] / scale if part == "D" else found[part][..., :-1] / scale if part == "E" else found[part]
        for part in task.parts
    }
