"""TSM2's choice of parameters (its algorithm 5): gradient descent on t2 and t3 for the resource that limits a problem,
then t1, and what else is no smooth quantity, by trying. The paper tries on the device, here the model is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

from ..errors import UnsupportedProblem
from ..plan.problem import REAL
from .tsm2 import Parameters, Prediction, Shape, Tsm2Model

T1 = (128, 256, 64)  # the paper's usual choice first: it wins a tie
T3 = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
PARTS = (1, 2, 4, 8, 16, 32, 64)  # tcf and split
_EQUAL = 1.02  # the model is off by more: of equals the shortest fetch, since it flatters long ones by few warps

Point = tuple[float, float]  # t2, t3
Objective = Callable[[float, float], float]


def optimise(
    model: Tsm2Model, shape: Shape, splits: tuple[int, ...] = PARTS, ladder: tuple[int, ...] = T3
) -> Prediction:
    """TSM2R's parameters. `splits=(1,)` is the paper's kernel, which gives a row to one thread; `ladder` has the t3
    that a kernel allows."""
    tails = [(1, False, split) for split in splits if split * max(T3) <= shape.k or split == 1]
    return _best(model, shape, tails, ladder)


def optimise_left(model: Tsm2Model, shape: Shape) -> Prediction:
    """TSM2L's parameters: rows per thread in either order, besides t1, t2 and t3."""
    return _best(model, shape, [(tcf, order, 1) for tcf in PARTS for order in (False, True) if tcf > 1 or not order])


def exhaustive(model: Tsm2Model, shape: Shape, left: bool = False) -> Iterator[Prediction]:
    """The model's word on every legal set of parameters, for comparison with the search."""
    tails = [(tcf, order, 1) for tcf in PARTS for order in (False, True)] if left else [(1, False, s) for s in PARTS]
    for t1, t2, t3, tail in product(T1, range(1, shape.n + 1), T3, tails):
        parameters = Parameters(t1, t2, t3, *tail)
        if t3 <= shape.k and model.blocks(shape.dtype, parameters):
            yield model.predict(shape, parameters)


def _best(
    model: Tsm2Model, shape: Shape, tails: list[tuple[int, bool, int]], ladder: tuple[int, ...] = T3
) -> Prediction:
    found: list[Prediction] = []
    for tail in tails:
        for t2, t3 in optima(model, shape, *tail):
            for t1, (whole_t2, whole_t3) in product(T1, _rounded(model, shape, t2, t3, tail[1], ladder)):
                parameters = Parameters(t1, whole_t2, whole_t3, *tail)
                if model.blocks(shape.dtype, parameters):
                    found.append(model.predict(shape, parameters))
    if not found:
        raise UnsupportedProblem(f"no TSM2 kernel for {shape} fits {model.device.name}")
    least = min(prediction.seconds for prediction in found)
    equals = [prediction for prediction in found if prediction.seconds <= _EQUAL * least]
    return min(equals, key=lambda prediction: (prediction.parameters.t3, prediction.seconds))


def optima(model: Tsm2Model, shape: Shape, tcf: int = 1, interleaved: bool = False, split: int = 1) -> list[Point]:
    """Algorithm 5 up to rounding: one optimum where memory limits the problem; where arithmetic does, one for either,
    because a kernel that is limited by memory may still be the faster one."""
    memory, arithmetic = _objectives(model, shape, tcf, interleaved, split)
    threshold, n, k = model.threshold(shape.dtype), float(shape.n), float(shape.k)
    if n <= threshold:
        return [descend(memory, (1.0, 1.0), (n, k))]
    turn = max(1.0, threshold)
    return [descend(arithmetic, (turn, 1.0), (n, k)), descend(memory, (1.0, 1.0), (turn, k))]


def _objectives(model: Tsm2Model, shape: Shape, tcf: int, interleaved: bool, split: int) -> tuple[Objective, Objective]:
    """Seconds for fetching A, and for arithmetic meanwhile. Threads are those that fit, or those there are rows for."""
    rows = shape.m * split / tcf / model.device.multiprocessors
    idle, bandwidth = model.machine.latency_seconds, model.machine.read_bandwidth / model.device.multiprocessors
    least = model.work(shape, Parameters(1, shape.n, 1)).flops / model.machine.fma[REAL[shape.dtype]]

    def threads(t2: float, t3: float) -> float:
        return min(rows, model.max_threads(shape.dtype, t2, t3, interleaved))

    def memory(t2: float, t3: float) -> float:
        start = model.tile_latencies + model.dispatch_latencies / tcf
        waiting = shape.k / split / t3 * model.turn(t2, t3) + start * idle
        fetching = threads(t2, t3) * shape.k / split * shape.itemsize / bandwidth
        return _over(rows * tcf * shape.n / t2, threads(t2, t3)) * model.together(waiting, fetching)

    def arithmetic(t2: float, t3: float) -> float:
        busy = _over(least, model.arithmetic_utilisation(shape.dtype, threads(t2, t3), t2))
        return model.together(busy, memory(t2, t3)) if math.isfinite(busy) else busy

    return memory, arithmetic


def _over(amount: float, share: float) -> float:
    return amount / share if share else math.inf


def descend(objective: Objective, low: Point, high: Point, step: float = 0.1, stop: float = 1e-4) -> Point:
    """Gradient descent inside a box, from its lower corner. A step is `step` long whatever the gradient's length, and
    halved when it leads up; the search ends when it is below `stop`."""
    point, value = low, objective(*low)
    while step > stop:
        slope = _slope(objective, point, low, high)
        length = math.hypot(*slope)
        if not length:
            break
        trial = _inside((point[0] - step * slope[0] / length, point[1] - step * slope[1] / length), low, high)
        ahead = objective(*trial)
        if ahead < value:
            point, value = trial, ahead
        else:
            step /= 2
    return point


def _slope(objective: Objective, point: Point, low: Point, high: Point, reach: float = 1e-3) -> Point:
    """The gradient by differences, without what points out of the box or to where no thread fits."""
    slope = []
    for axis in (0, 1):
        ends = []
        for sign in (-1, 1):
            end = list(point)
            end[axis] += sign * reach
            ends.append(objective(*_inside((end[0], end[1]), low, high)))
        difference = ends[1] - ends[0]
        down_is_out = point[axis] <= low[axis] if difference > 0 else point[axis] >= high[axis]
        slope.append(0.0 if down_is_out or not math.isfinite(difference) else difference / (2 * reach))
    return slope[0], slope[1]


def _inside(point: Point, low: Point, high: Point) -> Point:
    return min(max(point[0], low[0]), high[0]), min(max(point[1], low[1]), high[1])


def _rounded(
    model: Tsm2Model, shape: Shape, t2: float, t3: float, interleaved: bool, ladder: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Integers t2 and t3 near an optimum: t2 pads least for a whole number of reads of A, t3 is on its ladder.

    More than the nearest steps, upwards mostly: blocks come whole, so that fewer threads are resident than the smooth
    objective believes, and more so in a last wave that is not full.
    """
    found = set()
    for passes in {max(1, math.floor(shape.n / t2)), math.ceil(shape.n / t2)}:
        whole = math.ceil(shape.n / passes)
        steps = [s for s in ladder if s <= shape.k and model.max_threads(shape.dtype, whole, s, interleaved)]
        below, above = [s for s in steps if s <= t3], [s for s in steps if s >= t3]
        found |= {(whole, step) for step in (*below[-2:], *above[:3])}
    return sorted(found)
