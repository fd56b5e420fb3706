"""Time steps: Runge and Kutta's classical scheme, the one that keeps the total energy, and the control of the step."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .forces import Forces
from .points import Points, TangledError, evaluate, longest_step
from .start import Flow, State, norm

_SHORTER, _LONGER, _AMPLE = 0.85, 1.02, 1.25
_HALF = 0.5  # of a step that turns a zone inside out
_SHORTEST = 2.0**-52


@dataclass
class Clock:
    """Seconds by phase; the device is waited for at the end of each, unless nobody wants to know."""

    wait: Callable[[], None]
    runs: bool = True
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        if not self.runs:
            return
        self.wait()
        self.seconds[name] += time.perf_counter() - started


@dataclass
class Progress:
    """Where a run is."""

    state: State
    time: float = 0.0
    step: int = 0  # steps done
    dt: float = 0.0  # that the next step begins with; 0: not known yet

    def advance(self, state: State, time: float, dt: float) -> None:
        """One step on. All fields change in one call: an interrupted run is before the step or after it."""
        vars(self).update(state=state, time=time, step=self.step + 1, dt=dt)


class Stepper:
    """Advances a flow. `tell` is called with one line about whatever is not usual."""

    def __init__(
        self, flow: Flow, integrator: str = "rk4", cfl: float = 0.5, tolerance: float = 1e-8, most: int = 300,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.flow, self.cfl, self.tell = flow, cfl, tell
        self.forces = Forces(flow, tolerance, most)
        self.clock = Clock(flow.arrays.wait)
        self.evaluations = self.rejected = 0
        self._advance = {"rk4": self._rk4, "rk2avg": self._rk2avg}[integrator]
        self._allowed = float("inf")  # step, by all points evaluated since the last reset

    def run(self, progress: Progress, final_time: float, most_steps: int | None = None) -> Iterator[Progress]:
        """Steps until the final time; the same object after each."""
        try:
            points = self._points(progress.state)
        except TangledError as error:
            raise RuntimeError(f"t = {progress.time:.6g}: {error} before the first step") from None
        progress.dt = progress.dt or self._allowed
        while progress.time < final_time and (most_steps is None or progress.step < most_steps):
            clipped = progress.time + progress.dt >= final_time
            points = self._accepted(progress, points, final_time if clipped else None)
            yield progress

    def _accepted(self, progress: Progress, points: Points, end: float | None) -> Points:
        """One step, to `end` if that is given; shortened until the points of its stages and of its result allow it."""
        first: Points | None = points
        dt = progress.dt if end is None else end - progress.time
        while True:
            self._allowed = float("inf")
            factor, why = _SHORTER, ""
            try:
                if first is None:  # after a rejection the start is evaluated again, and counts
                    first = self._points(progress.state)
                state = self._advance(progress.state, first, dt)
                after = self._points(state)
                if self._allowed >= dt:
                    break
            except TangledError as error:
                factor, why = _HALF, f"zone {error.zone} would be turned inside out"
                self.tell(f"step {progress.step + 1}: {why}; the time step is halved to {dt * factor:.3g}")
            dt, first, end = dt * factor, None, None
            self.rejected += 1
            if dt < _SHORTEST:
                raise RuntimeError(f"t = {progress.time:.6g}: the time step has become zero{': ' * bool(why)}{why}")
        reached = progress.time + dt if end is None else end
        progress.advance(state, reached, dt * _LONGER if self._allowed > _AMPLE * dt else dt)
        return after

    def _points(self, state: State) -> Points:
        with self.clock.phase("points"):
            points = evaluate(self.flow, state)
        with self.clock.phase("time step"):
            self._allowed = min(self._allowed, longest_step(self.flow, points, self.cfl))
        self.evaluations += 1
        return points

    def _acceleration(self, points: Points) -> State:
        with self.clock.phase("forces"):
            load = self.forces.load(points)
        with self.clock.phase("conjugate gradients"):
            return self.forces.acceleration(load)

    def _rates(self, state: State, points: Points) -> State:
        acceleration = self._acceleration(points)
        with self.clock.phase("forces"):
            return State(state.v, acceleration, self.forces.heating(state, points))

    def _rk4(self, start: State, points: Points, dt: float) -> State:
        k1 = self._rates(start, points)
        rates, total = k1, k1
        for share, weight in ((0.5, 2), (0.5, 2), (1.0, 1)):
            stage = start.moved(share * dt, rates)
            rates = self._rates(stage, self._points(stage))
            total = total.moved(weight, rates)
        return start.moved(dt / 6, total)

    def _rk2avg(self, start: State, points: Points, dt: float) -> State:
        """Positions and energies move with the velocity halfway, by the same forces: the total energy stays."""
        state = start
        for share in (0.5, 1.0):
            acceleration = self._acceleration(points)
            halfway = start.v + dt / 2 * acceleration
            with self.clock.phase("forces"):
                heating = self.forces.heating(state, points, halfway)
            state = start.moved(share * dt, State(halfway, acceleration, heating))
            if share == 0.5:
                points = self._points(state)
        return state


def summary(progress: Progress, flow: Flow) -> str:
    """One line."""
    size = norm(flow, progress.state)
    return f"step {progress.step:5d}  t = {progress.time:.4f}  dt = {progress.dt:.6f}  |e| = {size:.10e}"
