"""The steps of `cholesky_qr` on a GPU: planned by the kernel small_step, so that it never waits for the host.

The host queues a step and the pass that applies it, and only then looks at what became of the step: the device is busy
with the pass meanwhile. Steps that need more thought than the kernel has are left to orthogonal_steps.py.
"""

from __future__ import annotations

from typing import NamedTuple

from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends import mailbox
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...kernels.tall_skinny.small_step import defaults, emit, spec
from ...kernels.tall_skinny.small_step.spec import Status
from ...plan import pin
from ...plan.dispatch import choose
from ...plan.problem import Problem
from ...plan.tall_skinny_rules import pays_sketch
from .. import recording
from ..plans import PLANS
from . import small_factors as small
from .gram import gram
from .matmul import matmul
from .matmul_gram_call import plan_matmul_gram
from .sketch_call import plan_sketch

STEPS = 3  # enough for full rank; more of them need the host's second look


class Progress(NamedTuple):
    """How far a block has come: V = block `factor`, the product of the factors of so many `steps`."""

    block: Array
    G: Array  # its Gram matrix, on the host; None once the block is orthonormal
    factor: Array
    norms: Array  # of the columns of V
    steps: int = 0
    sketched: bool = False  # the last of them came from a sketch


class _Planned(NamedTuple):
    backend: Backend
    problem: Problem
    launch: Launch
    rules: tuple[spec.Rules, ...]  # of the first, second, ... step
    by_sketch: Launch | None  # plans the first step from a sketch where the Gram matrix does not suffice
    sketch_rules: tuple[spec.Rules, spec.Rules, spec.Rules]  # of the first step, of one from a sketch, of that after it
    state: tuple[int, int]  # shape of an array that has room for it


def advanced(kind: Kind, V: Array, view: View, out: Array, backend: str | None) -> Progress | None:
    """V after as many steps as the device can plan, in `out`; None where there is no kernel for them. V is as it was if
    the first step was declined."""
    key = ("small_step", view.device, view.dtype, view.shape[1], backend)
    held: tuple[_Planned | None] | None = PLANS.get(key)
    if held is None:
        held = (_planned(view, backend),)
        PLANS.keep(key, held)
    planned = held[0]
    if planned is None:
        return None
    rows, columns = view.shape
    is_worthwhile = planned.by_sketch is not None and pays_sketch(view.dtype, rows, columns, planned.backend.device)
    run = plan_sketch(V, backend) if is_worthwhile else None
    # the device begins; everything else can be made ready meanwhile
    Y, G = (None, gram(V, backend=backend)) if run is None else run(V)
    box = mailbox.take(planned.backend)
    progress = _Walk(kind, V, view, planned, box).go(V, G, Y, out, backend)
    mailbox.give(planned.backend, box)
    return progress


def _planned(view: View, backend: str | None) -> _Planned | None:
    chosen = select(view.device, backend)
    problem = spec.problem(view.dtype, view.shape[1])
    if chosen.name not in ("cuda", "emulated") or spec.refusal(problem):
        return None
    # pins are meant for the products of a call: they have names that this kernel lacks
    config = defaults.default(problem, chosen.device) if pin.pins() else choose(problem, chosen.device).config
    if config is None:
        return None
    launch, _ = recording.prepared(emit, problem, config, chosen)
    rules = tuple(small.rules(view.dtype, count) for count in range(STEPS))
    row = problem.N * problem.itemsize
    state = (-(-spec.state_bytes(problem) // row), problem.N)
    of_sketch = small.rules_of_sketch(view.dtype, problem.N)
    return _Planned(chosen, problem, launch, rules, _planned_by_sketch(problem, chosen), of_sketch, state)


def _planned_by_sketch(problem: Problem, chosen: Backend) -> Launch | None:
    of_sketch = spec.problem(problem.dtype, problem.N, sketched=True)
    config = None if spec.refusal(of_sketch) else defaults.default(of_sketch, chosen.device)
    return None if config is None else recording.prepared(emit, of_sketch, config, chosen)[0]


class _Walk:
    """The steps of one block; the kernel and the host share its state."""

    def __init__(self, kind: Kind, V: Array, view: View, planned: _Planned, box: mailbox.Mailbox) -> None:
        self.kind, self.planned, self.box, self.stream = kind, planned, box, kind.stream_of(view.device)
        n, dtype = planned.problem.N, view.dtype
        self.S, self.R = (kind.empty((n, n), dtype, V) for _ in range(2))
        self.state = kind.empty(planned.state, dtype, V)
        small_ones = (kind.address(array) for array in (self.S, self.R, self.state))
        self.addresses = (*small_ones, box.address)

    def go(self, V: Array, G: Array, Y: Array, out: Array, backend: str | None) -> Progress:
        block, near, sketched = V, False, False
        for rules in self.planned.rules:
            self._queue(G, Y if rules.number == 0 else None, rules, sketched)
            into = out if block is V else block
            following, its_gram, status = self._passed(block, into, near, backend)
            if status == Status.LAST:
                return Progress(following, None, self.R, None)
            if status == Status.DECLINED:
                return self._left(block, G, int(rules.number), sketched)
            block, near, sketched = following, status == Status.TRUSTED, status == Status.SKETCHED
            G = gram(block, backend=backend) if its_gram is None else its_gram
        return self._left(block, G, len(self.planned.rules), sketched)

    def _queue(self, G: Array, Y: Array, rules: spec.Rules, sketched: bool) -> None:
        """Queue a step of a block with this Gram matrix. The first one comes from the sketch where it would be shifted;
        `sketched`: so did the step before."""
        stream, address = self.stream(), self.kind.address
        S, _, state, status = self.addresses
        if Y is None and not sketched:
            self.planned.launch((address(G), *self.addresses), rules, stream)
        else:
            first, of_sketch, second = self.planned.sketch_rules
            self.planned.launch((address(G), *self.addresses), second if sketched else first, stream)
            if Y is not None and self.planned.by_sketch is not None:
                self.planned.by_sketch((address(Y), address(G), S, state, status), of_sketch, stream)
        self.box.posted(stream)

    def _passed(self, block: Array, into: Array, near: bool, backend: str | None) -> tuple[Array, Array, int]:
        """block S, its Gram matrix if that costs nothing, and what became of the step. A block that was `near` needs
        no Gram matrix: the step before said that this one would be the last."""
        kind = self.kind
        run = None if near else plan_matmul_gram(block, self.S, into, None, backend)
        if run is not None:
            following, G = run(block, self.S, into, gate=self.addresses[2])
            return following, G, self.box.read()
        in_place = into is not None and kind.address(into) == kind.address(block)
        status = self.box.read() if in_place and not near else 0  # a product with I would spread what is not finite
        if status == Status.DECLINED:
            return block, None, status
        following = matmul(block, self.S, out=into, backend=backend)
        return following, None, status or self.box.read()

    def _left(self, block: Array, G: Array, count: int, sketched: bool) -> Progress:
        """What the host needs to go on."""
        problem = self.planned.problem
        G = small.to_host(self.kind, G, problem.dtype)
        if count == 0:
            return Progress(block, G, None, None)
        norms, factor = spec.state_parts(problem, self.kind.download(self.state), count)
        return Progress(block, G, factor, norms, count, sketched)
