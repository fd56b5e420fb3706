"""The vector passes of Krylov solvers on the vectors' own device: planned, launched, and what they post.

Scalars stay in a state beside the vectors. After each iteration a pass posts its status and the residual's norm; the
host queues `AHEAD` iterations beyond the last one it has read, so that a GPU never waits for Python. Iterations after
the last one change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...arrays.types import Array, Kind, SparseMatrix
from ...arrays.view import View
from ...backends import mailbox
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...kernels.sparse.krylov import defaults, emit, spec
from ...kernels.sparse.krylov.spec import Lanczos, Phase, Status
from ...plan import pin
from ...plan.dispatch import choose
from .. import recording
from ..plans import PLANS
from .captured import Captured
from .matrix import Matrix

EAGER = 10  # iterations, for each graph of a solver, that are launched one by one: a capture takes what ten would save
AHEAD = 1  # iterations beyond the one that is read: it runs while the next is queued; more would only run in vain


class Posted(NamedTuple):
    """What an iteration has left for the host."""

    status: Status
    left: float  # norm of the residual
    curvature: float  # p^H A p

    @property
    def is_running(self) -> bool:
        """Whether iterations go on."""
        return self.status == Status.RUNNING

    @property
    def is_indefinite(self) -> bool:
        """Whether p^H A p was not positive."""
        return self.status == Status.INDEFINITE

    @property
    def is_singular(self) -> bool:
        """Whether the last column of the tridiagonal matrix added nothing."""
        return self.status == Status.SINGULAR


class Passes:
    """The launches of all passes over vectors of one length and dtype."""

    def __init__(self, backend: Backend, launches: dict[int, Launch]) -> None:
        self.backend, self.launches = backend, launches
        self.is_queued = self.is_captured = backend.name == "cuda"  # elsewhere a launch is done when it returns


def planned(kind: Kind, like: Array, method: str, backend: str | None) -> Passes | None:
    """The passes over vectors like this one; None where no kernel answers."""
    view = kind.view(like, "b")
    key = ("krylov", method, view.device, view.dtype, view.shape, backend)
    held: tuple[Passes | None] | None = PLANS.get(key)
    if held is None:
        held = (_made(view, method, backend),)
        PLANS.keep(key, held)
    return held[0]


def _made(view: View, method: str, backend: str | None) -> Passes | None:
    chosen = select(view.device, backend)
    problem = spec.problem(view.dtype, view.shape[0], method)
    if chosen.name == "reference" or spec.refusal(problem):
        return None
    # pins are meant for the products of a call: they have names that this kernel lacks
    config = defaults.default(problem, chosen.device) if pin.pins() else choose(problem, chosen.device).config
    if config is None:
        return None
    phases: type[Phase] | type[Lanczos] = Phase if method == "cg" else Lanczos
    numbers = [int(phase) for phase in phases]
    return Passes(chosen, {one: recording.prepared(emit, problem, config, chosen, (one,))[0] for one in numbers})


class Queue:
    """Iterations on the vectors of one system, queued ahead of what the host knows of them."""

    period = 1  # iterations after which the same buffers have the same roles

    def __init__(
        self, kind: Kind, passes: Passes, A: SparseMatrix, x: Array, scalars: tuple[float, ...], ahead: int
    ) -> None:
        """`ahead`: iterations beyond the last one that was read; 0 waits for each."""
        self.kind, self.passes, self.A, self.x, self.scalars = kind, passes, A, x, scalars
        self.view = kind.view(x, "x")
        self._state = kind.allocate((spec.STATE_BYTES // 8,), "float64", x)
        self.state = kind.address(self._state)
        self.stream = kind.stream_of(self.view.device)
        self.ahead = ahead if passes.is_queued else 0
        self.boxes = [mailbox.take(passes.backend) for _ in range(self.ahead + 1)]
        self.graphs: list[Captured | None] = [None] * len(self.boxes)
        self.queued = -1  # number of the last iteration that was queued; 0 is what comes before the first
        self.product: Callable[[int, int, int], None] | None = None

    def room(self, filled: bool = False) -> Array:
        """A vector like x, of zeros or of any content."""
        made = self.kind.empty(self.x.shape, self.view.dtype, self.x)
        if filled:
            made[...] = 0
        return made

    def queue(self) -> None:
        """Launch one more iteration, and the post of its result."""
        self.queued += 1
        slot, stream = self.queued % len(self.boxes), self.stream()
        repeats = self.passes.is_captured and self.product is not None and len(self.boxes) % self.period == 0
        if self.queued == 0:
            self.begin(stream)
        elif repeats and self.queued > EAGER * len(self.boxes):
            graph = self.graphs[slot]
            if graph is None:
                graph = self.graphs[slot] = Captured(self.passes.backend, self.iterate)  # type: ignore[arg-type]
            graph(stream)
        else:
            self.iterate(stream)
        self.boxes[slot].posted(stream)

    def read(self, number: int) -> Posted:
        """Wait for what iteration `number`, one of the last `ahead` + 1, has posted."""
        box = self.boxes[number % len(self.boxes)]
        status = box.read()
        left, _, curvature = box.numbers(3)
        return Posted(Status(status), left, curvature)

    def close(self) -> None:
        """Wait for the last iteration, which may still post, and give mailboxes and graphs back."""
        if self.queued >= 0:
            self.boxes[self.queued % len(self.boxes)].read()
        for box in self.boxes:
            mailbox.give(self.passes.backend, box)
        for graph in self.graphs:
            if graph is not None:
                graph.destroy()
        self.boxes = []

    def begin(self, stream: int) -> None:
        """Launch what comes before the first iteration."""
        raise NotImplementedError

    def iterate(self, stream: int) -> None:
        """Launch iteration `queued`, whose result goes to its mailbox."""
        raise NotImplementedError

    def multiply(self, p: Array, q: Array, stream: int) -> None:
        """Launch q = A p."""
        if self.product is not None:
            self.product(self.kind.address(p), self.kind.address(q), stream)
        else:
            q[...] = self.A @ p

    def launch(self, phase: int, vectors: tuple[int, ...], stream: int) -> None:
        """Launch one pass over vectors at these addresses."""
        box = self.boxes[self.queued % len(self.boxes)].address
        self.passes.launches[phase]((*vectors, self.state, box), self.scalars, stream)


class CgQueue(Queue):
    """Conjugate gradients on x and its residual r; the preconditioner is diagonal."""

    def __init__(
        self, kind: Kind, passes: Passes, A: SparseMatrix, x: Array, r: Array, weights: Array | None,
        thresholds: tuple[float, float], waits: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kind, passes, A, x, thresholds, 0 if waits else AHEAD)
        self.r, self.weights, self.p, self.q = r, weights, self.room(), self.room()
        vectors = (x, r, self.p, self.q, weights)
        self.vectors = tuple(0 if one is None else kind.address(one) for one in vectors)
        self.product = _launcher(A, self.p, self.q)

    def begin(self, stream: int) -> None:
        self.launch(Phase.BEGIN, self.vectors, stream)
        self.launch(Phase.START, self.vectors, stream)

    def iterate(self, stream: int) -> None:
        self.multiply(self.p, self.q, stream)
        for phase in (Phase.CURVATURE, Phase.RESIDUAL, Phase.DIRECTION):
            self.launch(phase, self.vectors, stream)


class MinresQueue(Queue):
    """The minimal residual method from x and its residual r, which is overwritten."""

    period = 6  # v, u and v_before take turns, and so do w and w_before

    def __init__(
        self, kind: Kind, passes: Passes, A: SparseMatrix, x: Array, r: Array, scalars: tuple[float, ...],
        waits: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kind, passes, A, x, scalars, 0 if waits else self.period - 1)
        self.turns, self.w = (self.room(), r, self.room(filled=True)), (self.room(filled=True), self.room(filled=True))
        self.product = _launcher(A, self.turns[0], r)

    def begin(self, stream: int) -> None:
        self.launch(Lanczos.SCALE, self._vectors(0), stream)

    def iterate(self, stream: int) -> None:
        step = self.queued - 1
        self.multiply(self.turns[step % 3], self.turns[(step + 1) % 3], stream)
        for phase in (Lanczos.PROJECT, Lanczos.NORM, Lanczos.UPDATE):
            self.launch(phase, self._vectors(step), stream)

    def _vectors(self, step: int) -> tuple[int, ...]:
        turns = (self.turns[(step + i) % 3] for i in range(3))
        w, w_before = self.w[step % 2], self.w[(step + 1) % 2]
        return tuple(map(self.kind.address, (self.x, *turns, w, w_before)))


def _launcher(A: SparseMatrix, p: Array, q: Array) -> Callable[[int, int, int], None] | None:
    """Launches q = A p, by addresses; None where a product is more than a launch."""
    return A._launcher(p, q) if isinstance(A, Matrix) else None
