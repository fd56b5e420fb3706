"""The vector passes of Krylov solvers on the vectors' own device: planned, launched, and what they post.

Scalars stay in a state beside the vectors. After each iteration a pass posts its status and the residual's norm; the
host queues `AHEAD` iterations beyond the last one it has read, so that a GPU never waits for Python. Iterations after
the last one change nothing.
"""

from __future__ import annotations

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
from .matrix import Matrix

AHEAD = 4  # iterations: launching one takes Python less time than four take a GPU, and more would run in vain at the end


class Posted(NamedTuple):
    """What an iteration has left for the host."""

    status: Status
    left: float  # norm of the residual
    count: int  # iterations that changed x
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
        self.kind, self.passes, self.A = kind, passes, A
        dtype = kind.view(x, "x").dtype
        self.x, self.r, self.weights, self.thresholds = x, r, weights, thresholds
        self.p, self.q = (kind.empty(x.shape, dtype, x) for _ in range(2))
        self.state = kind.allocate((spec.STATE_BYTES // 8,), "float64", x)
        self.stream = kind.stream_of(kind.view(x, "x").device)
        self.ahead = (AHEAD if ahead is None else ahead) if passes.is_queued else 0
        self.boxes = [mailbox.take(passes.backend) for _ in range(self.ahead + 1)]
        self.product = A.plan(self.p, self.q).run if isinstance(A, Matrix) else None
        self.queued = -1  # number of the last iteration that was queued; 0 is the residual at the beginning

    def queue(self) -> None:
        """Launch one more iteration, and the post of its result."""
        self.queued += 1
        if self.queued == 0:
            self._launch(Phase.BEGIN, self.q)
            self._box().posted(self.stream())
            self._launch(Phase.START, self.q)
            return
        q = self._multiplied()
        self._launch(Phase.CURVATURE, q)
        self._launch(Phase.RESIDUAL, q)
        self._box().posted(self.stream())
        self._launch(Phase.DIRECTION, q)

    def read(self, number: int) -> Posted:
        """Wait for what iteration `number`, one of the last `ahead` + 1, has posted."""
        box = self.boxes[number % len(self.boxes)]
        status = Status(box.read())
        left, count, curvature = box.numbers(3)
        return Posted(status, left, int(count), curvature)

    def close(self) -> None:
        """Wait for the last iteration, which may still post, and give the mailboxes back."""
        if self.queued >= 0:
            self._box().read()
        for box in self.boxes:
            mailbox.give(self.passes.backend, box)
        self.boxes = []

    def _box(self) -> mailbox.Mailbox:
        return self.boxes[self.queued % len(self.boxes)]

    def _multiplied(self) -> Array:
        """A p: in its own place if A is stored for our kernels."""
        if self.product is not None:
            return self.product(self.p, None, self.q)
        found = self.A @ self.p
        fits = found.dtype == self.p.dtype and found.shape == self.p.shape and found.flags.c_contiguous
        if fits and self.kind.address(found) % 16 == 0:
            return found
        self.q[...] = found
        return self.q

    def _launch(self, phase: Phase, q: Array) -> None:
        at = self.kind.address
        weights = 0 if self.weights is None else at(self.weights)
        pointers = (at(self.x), at(self.r), at(self.p), at(q), weights, at(self.state), self._box().address)
        self.passes.launches[phase](pointers, self.thresholds, self.stream())
