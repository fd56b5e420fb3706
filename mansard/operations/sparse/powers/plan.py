"""How powers are computed, and why: decided by the pattern, before a matrix is stored or a kernel compiled.

Plain products (`A @ x`, p times), level groups that pass through a cache, or one persistent launch: a model says which
should be fastest. Of large matrices two routes may be left, whose times decide (`call.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .... import settings
from ....arrays.types import Array
from ....codegen.geometry import Device
from ....errors import UnsupportedProblem
from ....kernels.common import fields, measured
from ....kernels.sparse.powers import defaults, fit, spec, work
from ....kernels.sparse.powers.space import Groups, Persistent
from ....machine import caches, machine
from ....machine.spmv import cached_bandwidth
from ....plan import pin
from ....plan.problem import Problem
from .. import convert
from .order.groups import chunked, group_ranges, range_lag, whole
from .order.ordered import Ordered, Orders
from .task import Options, Task

EXECUTIONS = ("plain", "groups", "persistent")
_ONE = "one power is one product"
_TOO_WIDE = "levels are too wide for the caches, or too few"
_MEASURED = 1 << 18  # entries, from which rows by level and rows as they are are both tried
_WHOLE = 0.7  # share of a cache: a matrix that takes less stays there by itself
_FILLED = 0.6  # least share of a persistent launch's turns in which all powers are under way
_CACHED = 0.6  # share of L2 that level groups may fill: vectors and results pass through it too
_MOST_OF_CACHE = 0.75  # share of the third cache up to which a window of groups is tried
GAIN = 1.03  # predicted gain from which blocking is worth its risk
# Ratios of the model that a sweep of the device replaces (`_ratio`). These are assumptions for devices without one.
_LEAST = 4.0  # sizes of L2 that a matrix has at least: with less, blocks are done before they are in step
_REACHED = 1.5  # times as long as bandwidths alone let expect: blocks wait for each other
_SCATTERED = 0.45  # share of the bandwidth where vectors are permuted: parts of sectors of 32 bytes are not used
_SHARED = 4  # bandwidth of shared memory over L2's: 128 and 32 bytes per clock and multiprocessor


@dataclass(frozen=True)
class Choice:
    """The execution that will run, why, and its predicted time."""

    execution: str
    reason: str
    config: Any = None  # of `groups`, or `simd`
    passes: tuple[Persistent, ...] = ()
    ranges: Array = None  # rows at which groups begin, int32
    lag: int = 1
    seconds: tuple[tuple[str, float], ...] = ()  # predictions
    on_trial: bool = False  # only a measurement can tell


class Route(NamedTuple):
    """A choice, and the matrix that it is for: in level order, or (None) as products store it."""

    choice: Choice
    ordered: Ordered | None = None


def routes(task: Task, orders: Orders, options: Options, order: str) -> tuple[Route, ...]:
    """The route of a plan for the matrix in this order, or two of which the faster is to be taken.

    Where products run plainly, they read the matrix as these store it. Reordered rows may speed up products too (H200,
    delaunay: 1.9 times), so that large matrices are to be tried both ways.
    """
    asked, rows, backend = options.execution, orders.source.rows, orders.backend
    serves = products_serve(task, rows.nnz)
    if serves and order == "none" and (asked == "plain" or task.p < 2):
        return (Route(Choice("plain", "asked for" if asked else _ONE)),)
    if serves and asked is None and convert.is_skewed(rows, orders.source.xp):
        return (Route(Choice("plain", "a few rows are so long that no order blocks the matrix")),)
    found = _route(task, orders, options, order)
    if asked is not None:
        return (found,)
    if not (serves and order == "auto" and rows.nnz >= _MEASURED):
        found = _untried(found)
    is_plain, permuted = found.choice.execution == "plain", orders.by_level(order).permutation is not None
    if is_plain and order == "auto" and permuted:  # in vain; rows as they are may be read less often
        given = _untried(_route(task, orders, options, "none"))
        if not serves or given.choice.execution != "plain":
            return (given,)
    if not serves or (order == "search" and permuted):
        return (found,)
    plainly = Route(found.choice if is_plain else Choice("plain", "measured: faster than groups of rows"))
    if is_plain and not (order == "auto" and permuted):
        return (plainly,)
    if order == "auto" and rows.nnz >= _MEASURED and (backend.name == "cpu" or (is_plain and backend.name == "cuda")):
        by_level = "rows by level, measured: faster all the same"
        choice = replace(found.choice, reason=f"{found.choice.reason}; {by_level}") if is_plain else found.choice
        return found._replace(choice=choice), plainly
    return (plainly if is_plain else found,)


def _route(task: Task, orders: Orders, options: Options, order: str) -> Route:
    ordered = orders.by_level(order)
    return Route(chosen(task, ordered, orders.backend.device, options), ordered)


def _untried(route: Route) -> Route:
    """The route where nothing is measured: plain products instead of groups that only a measurement could choose."""
    if not route.choice.on_trial:
        return route
    rows = int(route.choice.ranges[-1])
    return route._replace(choice=Choice("plain", _TOO_WIDE, route.choice.config, ranges=whole(rows)))


def products_serve(task: Task, nnz: int) -> bool:
    """Whether the kernels of `A @ x` compute the powers: one vector, no combinations, entries, and nothing pinned."""
    return bool(task.columns == 1 and task.output != "combination" and nnz > 0 and not pin.pins())


def chosen(task: Task, ordered: Ordered, device: Device, options: Options) -> Choice:
    """What to run on a matrix in level order."""
    problem = task.problem(ordered.layout)
    refusal = spec.refusal(problem)
    if refusal:
        raise UnsupportedProblem(refusal)
    threads = options.threads or settings.current().threads
    choice = choose(problem, ordered, device, options.execution, threads)
    if options.budget is None or choice.execution != "groups":
        return choice
    ranges = group_ranges(problem, ordered, options.budget)
    if device.backend != "cpu":
        return replace(choice, ranges=ranges)
    ranges = chunked(ranges, problem.ROWS, ordered.layout.C)
    return replace(choice, ranges=ranges, lag=range_lag(ordered, ranges)[1] + 1)  # one group of slack


def choose(problem: Problem, ordered: Ordered, device: Device, asked: str | None, threads: int) -> Choice:
    """The execution that was asked for (a ValueError says why it cannot be), or the one that should be fastest."""
    if device.backend == "cpu":
        return _on_cpu(problem, ordered, device, asked, threads)
    config = _groups_config(problem, device)
    passes, reason = _passes(problem, ordered, device)
    seconds = predictions(problem, ordered, device, passes)
    predicted = dict(seconds)
    if asked == "groups":
        ranges = group_ranges(problem, ordered, _CACHED * device.l2_bytes)
        return Choice("groups", "asked for", config, ranges=ranges, seconds=seconds)
    if asked == "persistent":
        if not passes:
            raise ValueError(f"execution='persistent' does not serve this matrix: {reason}")
        return Choice("persistent", "asked for", config, tuple(passes), seconds=seconds)
    if asked is None:
        reason = _ONE if problem.P < 2 else reason or _against(problem, ordered, device, passes)
        if not reason and predicted["plain"] < GAIN * predicted["persistent"]:
            reason = "the model expects no gain"
        if not reason:
            gain = predicted["plain"] / predicted["persistent"]
            return Choice("persistent", f"{gain:.2f} x by the model", config, tuple(passes), seconds=seconds)
    return Choice("plain", "asked for" if asked else reason, config, seconds=seconds)


def _groups_config(problem: Problem, device: Device) -> Groups:
    config = defaults.default(problem, device, "groups")
    assert isinstance(config, Groups)
    return replace(config, **({"CACHE": "normal"} | _pinned(Groups)))


def _pinned(kind: type[Groups | Persistent]) -> dict[str, Any]:
    """Pinned values of the parameters that this kind of configuration has, checked."""
    given = {name: value for name, value in pin.pins().items() if name in kind.__dataclass_fields__}
    return fields.checked("powers", kind, given)


def _passes(problem: Problem, ordered: Ordered, device: Device) -> tuple[list[Persistent], str]:
    pinned = _pinned(Persistent)
    passes, reason = fit.passes(problem, ordered.pattern(), device)
    if "RETAIN" in pinned and passes:  # says what one launch does
        passes = passes[:1]
    return [fit.changed(problem, config, device, pinned) for config in passes] if pinned else passes, reason


def _against(problem: Problem, ordered: Ordered, device: Device, passes: list[Persistent]) -> str:
    """Why blocking would not pay, "" if it may."""
    size = ordered.layout.nbytes
    if size < _WHOLE * device.l2_bytes:
        return f"the matrix ({size / 1e6:.3g} MB) stays in the cache as it is"
    least = _ratio("LEAST_PERCENT", device, _LEAST)
    if size < least * device.l2_bytes:
        return f"the matrix ({size / 1e6:.3g} MB) is less than {least:g} times the second cache"
    if passes[0].DIRECT:
        return "some rows are much longer than others: their tiles do not fit shared memory"
    tiles = -(-problem.ROWS // (ordered.layout.C * passes[0].TILE))
    steps = tiles / device.multiprocessors
    turns = steps + (problem.P / len(passes) - 1) * passes[0].LAG
    return "" if steps > _FILLED * turns else f"too few levels: {steps:.0f} steps, all powers under way in few of them"


def predictions(
    problem: Problem, ordered: Ordered, device: Device, passes: list[Persistent]
) -> tuple[tuple[str, float], ...]:
    """Seconds of plain products and of the passes: memory once per pass, caches for the rest (equation 4.8)."""
    known = machine.known(device)
    matrix, vectors = float(ordered.layout.nbytes), 2.0 * problem.ROWS * problem.NVECS * problem.itemsize
    memory = 0.94 * known.read_bandwidth
    found = [("plain", problem.P * ((matrix + vectors) / memory + known.launch_seconds))]
    if passes:
        second, shared = _cache_ratios(device, known)
        total = known.launch_seconds + (problem.P - 1) * vectors / 2 / memory  # what is prefilled
        for config in passes:
            lengths = work.retained(config.RETAIN)
            again, kept = len(lengths) - 1, sum(lengths) - len(lengths)
            total += (matrix + (1 + sum(lengths)) * vectors / 2) / memory
            total += matrix * (again / second + kept / shared) / memory + known.launch_seconds
        moved = (1 + problem.P) * vectors if ordered.permutation is not None else 0.0
        moved /= _ratio("SCATTERED_PERCENT", device, _SCATTERED) * memory
        found.append(("persistent", _ratio("REACHED_PERCENT", device, _REACHED) * total + moved))
    return tuple(found)


def _cache_ratios(device: Device, known: machine.Machine) -> tuple[float, float]:
    """Bandwidths of L2 and of shared memory over the memory's; without a sweep, by the ceilings of L2."""
    second = max(1.0, cached_bandwidth(known, _CACHED * device.l2_bytes) / known.read_bandwidth)
    return _ratio("L2_PERCENT", device, second), _ratio("SHARED_PERCENT", device, _SHARED * second)


def _ratio(name: str, device: Device, assumed: float) -> float:
    """A ratio of the model as it was measured on `device`, in percent; `assumed` where it was not."""
    return measured.number("powers", device, name, round(100 * assumed)) / 100


# ---- CPUs -------------------------------------------------------------------------------------------------


def _on_cpu(problem: Problem, ordered: Ordered, device: Device, asked: str | None, threads: int) -> Choice:
    config = defaults.default(problem, device)
    if asked == "persistent":
        raise ValueError("execution='persistent' is for GPUs: use 'groups' on CPUs")
    if asked == "plain" or (asked is None and problem.P < 2):
        return Choice("plain", "asked for" if asked else _ONE, config, ranges=whole(problem.ROWS))
    second, third = caches.cache_bytes()
    size = ordered.layout.nbytes
    if asked is None and size < 0.5 * second * threads:
        reason = f"the matrix ({size / 1e6:.3g} MB) stays in the second caches as it is"
        return Choice("plain", reason, config, ranges=whole(problem.ROWS))
    for name, budget in (("second", 0.6 * second * threads), ("third", 0.3 * third)):
        held = 2 * problem.P if threads > 1 else problem.P
        ranges = chunked(group_ranges(problem, ordered, budget, held), problem.ROWS, ordered.layout.C)
        _, lag = range_lag(ordered, ranges)
        lag += threads > 1  # a group's slack, so that nobody waits for the slowest
        window = problem.P * lag * size / max(1, len(ranges) - 1)
        if window <= 1.2 * budget and len(ranges) > 4 * problem.P * lag:
            seconds = _predictions_on_cpu(problem, ordered, device, (len(ranges) - 1, lag, window), threads)
            predicted = dict(seconds)
            if asked is None and predicted and predicted["plain"] < GAIN * predicted["groups"]:
                reason = f"the {name} caches are not so much faster than memory that groups would pay"
                return Choice("plain", reason, config, ranges=whole(problem.ROWS), seconds=seconds)
            reason = f"groups of rows pass through the {name} caches ({budget / 1e6:.3g} MB)"
            return Choice("groups", "asked for" if asked else reason, config, ranges=ranges, lag=lag, seconds=seconds)
    if asked == "groups":
        return Choice("groups", "asked for", config, ranges=ranges, lag=lag)
    if window <= _MOST_OF_CACHE * third and len(ranges) > 2 * problem.P * lag:
        reason = f"groups of rows fill most of the third cache ({window / 1e6:.3g} MB), measured: faster all the same"
        return Choice("groups", reason, config, ranges=ranges, lag=lag, on_trial=True)
    return Choice("plain", _TOO_WIDE, config, ranges=whole(problem.ROWS))


def _predictions_on_cpu(
    problem: Problem, ordered: Ordered, device: Device, groups: tuple[int, int, float], threads: int
) -> tuple[tuple[str, float], ...]:
    """Seconds of plain products and of so many groups with a lag and a window of bytes in a cache; nothing without
    ceilings of this machine, measured while it was quiet.

    Plain products read matrix and vectors p times, at the rate of repeated reads of as many bytes: a third cache that
    nearly holds them serves most. Groups read them from memory once, and from the caches at the rate of the window
    p - 1 times; results go to memory; a thread waits for all others before each task.
    """
    known = machine.known(device)
    if not known.measured or known.noise or not known.cache_bandwidth:
        return ()
    count, lag, window = groups
    vector = float(problem.ROWS * problem.NVECS * problem.itemsize)
    once, memory, powers = ordered.layout.nbytes + 2 * vector, known.read_bandwidth, problem.P
    cache = max(memory, cached_bandwidth(known, window * device.multiprocessors / threads))  # a thread's share counts
    again = max(memory, cached_bandwidth(known, once))  # which fits a cache that all share, if any
    waits = (count + (powers - 1) * lag) * powers * known.grid_barrier_seconds * (threads > 1)
    permuted = 2 * (1 + powers) * vector / memory if ordered.permutation is not None else 0.0
    blocked = once / memory + (powers - 1) * (once / cache + vector / memory) + waits + permuted
    return ("plain", powers * (once / again + known.grid_barrier_seconds)), ("groups", blocked)
