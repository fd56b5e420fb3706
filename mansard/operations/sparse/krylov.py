"""The vector passes of Krylov solvers on the vectors' own device: planned, launched, and what they post.

Scalars stay in a state beside the vectors. After each iteration a pass posts its status and the residual's norm; the
host queues `AHEAD` iterations beyond the last one it has read, so that a GPU never waits for Python. Iterations after
the last one change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...arrays.types import Array, Kind
from ...backends import mailbox
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...kernels.sparse.krylov import defaults, emit, spec
from ...kernels.sparse.krylov.spec import Phase, Status
from ...plan import pin
from ...plan.dispatch import choose
from .. import recording
from ..plans import PLANS
from .captured import Captured
from .matrix import Matrix
from .spmv_run import ProductRun

EAGER = 10  # iterations that are launched one by one: capturing them as graphs takes as long as this many
AHEAD = 4  # iterations: Python launches one while a GPU runs four; more of them would run in vain at the end


class Posted(NamedTuple):
    """What an iteration has left for the host."""

    is_running: bool  # iterations go on
    is_indefinite: bool  # p^H A p was not positive
    left: float  # norm of the residual
    iterations: int  # those that changed x
    curvature: float


class Passes:
    """The launches of all passes over vectors of one length and dtype."""

    def __init__(self, backend: Backend, launches: dict[Phase, Launch]) -> None:
        self.backend, self.launches = backend, launches
        self.is_queued = backend.name == "cuda"  # elsewhere a launch is done when it returns


def planned(kind: Kind, like: Array, method: str, backend: str | None) -> Passes | None:
    """The passes over vectors like this one; None where no kernel answers."""
    view = kind.view(like, "b")
    key = ("krylov", method, view.device, view.dtype, view.shape, backend)
    held: tuple[Passes | None] | None = PLANS.get(key)
    if held is None:
        held = (_made(view, method, backend),)
        PLANS.keep(key, held)
    return held[0]


def _made(view: Any, method: str, backend: str | None) -> Passes | None:
    chosen = select(view.device, backend)
    problem = spec.problem(view.dtype, view.shape[0], method)
    if chosen.name == "reference" or spec.refusal(problem):
        return None
    # pins are meant for the products of a call: they have names that this kernel lacks
    config = defaults.default(problem, chosen.device) if pin.pins() else choose(problem, chosen.device).config
    if config is None:
        return None
    return Passes(chosen, {phase: recording.prepared(emit, problem, config, chosen, (phase,))[0] for phase in Phase})


class Iterations:
    """Conjugate gradients on x and its residual r, queued ahead of what the host knows of them."""

    def __init__(
        self, kind: Kind, passes: Passes, A: Any, x: Array, r: Array, weights: Array | None,
        thresholds: tuple[float, float], ahead: int | None = None,
    ) -> None:  # fmt: skip
        """`ahead`: iterations beyond the last one that was read; 0 waits for each."""
        self.kind, self.passes, self.A, self.thresholds = kind, passes, A, thresholds
        view = kind.view(x, "x")
        self.x, self.r = x, r
        self.p, self.q = (kind.empty(x.shape, view.dtype, x) for _ in range(2))
        state = kind.allocate((spec.STATE_BYTES // 8,), "float64", x)
        self._kept = (x, r, weights, state)  # whose addresses follow
        at = [0 if one is None else kind.address(one) for one in (x, r, self.p, self.q, weights, state)]
        self._front, self._q, self._back = tuple(at[:3]), at[3], tuple(at[4:])
        self.stream = kind.stream_of(view.device)
        self.ahead = (AHEAD if ahead is None else ahead) if passes.is_queued else 0
        self.boxes = [mailbox.take(passes.backend) for _ in range(self.ahead + 1)]
        self.product = _launcher(A, self.p, self.q)
        self.graphs: list[Captured | None] = [None] * len(self.boxes)
        self.queued = -1  # number of the last iteration that was queued; 0 is the residual at the beginning

    def queue(self) -> None:
        """Launch one more iteration, and the post of its result."""
        self.queued += 1
        slot, stream = self.queued % len(self.boxes), self.stream()
        if self.queued == 0:
            self._launch(Phase.BEGIN, self._q, stream)
            self.boxes[0].posted(stream)
            self._launch(Phase.START, self._q, stream)
        elif self.passes.is_queued and self.product is not None and self.queued > EAGER:
            if self.graphs[slot] is None:
                self.graphs[slot] = Captured(self.passes.backend, self._iterate)  # type: ignore[arg-type]  # a GPU's
            self.graphs[slot](stream)  # type: ignore[misc]
            self.boxes[slot].posted(stream)
        else:
            self._iterate(stream)
            self.boxes[slot].posted(stream)

    def read(self, number: int) -> Posted:
        """Wait for what iteration `number`, one of the last `ahead` + 1, has posted."""
        box = self.boxes[number % len(self.boxes)]
        status = box.read()
        left, count, curvature = box.numbers(3)
        return Posted(status == Status.RUNNING, status == Status.INDEFINITE, left, int(count), curvature)

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

    def _iterate(self, stream: int) -> None:
        """Launch an iteration."""
        q = self._q
        if self.product is not None:
            self.product(self._front[2], q, stream)
        else:
            found = self._multiplied()  # lives until its launches are queued
            q = self.kind.address(found)
        for phase in (Phase.CURVATURE, Phase.RESIDUAL, Phase.DIRECTION):
            self._launch(phase, q, stream)

    def _multiplied(self) -> Array:
        """A p by an operator of any kind, as kernels can read it."""
        found = self.A @ self.p
        fits = found.dtype == self.p.dtype and found.shape == self.p.shape and found.flags.c_contiguous
        if fits and self.kind.address(found) % 16 == 0:
            return found
        self.q[...] = found
        return self.q

    def _launch(self, phase: Phase, q: int, stream: int) -> None:
        box = self.boxes[self.queued % len(self.boxes)].address
        self.passes.launches[phase]((*self._front, q, *self._back, box), self.thresholds, stream)


def _launcher(A: Any, p: Array, q: Array) -> Callable[[int, int, int], None] | None:
    """Launches q = A p, by addresses; None where a product is more than a launch."""
    if not isinstance(A, Matrix):
        return None
    run = A.plan(p, q).run
    return run.launcher() if isinstance(run, ProductRun) else None
