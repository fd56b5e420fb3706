"""`ms.sparse.tune`: measure how a matrix is best stored and multiplied, and how its powers are best computed.

Formats are measured with the kernels that are chosen for them; the fastest one's kernel is tuned then. Executions of
powers are those of `ms.matrix_powers` with other budgets, lags and retentions. Every result is compared with that of
the static rules before it counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backends.select import select
from ..errors import MansardError
from ..machine import caches
from ..machine.measure import measure
from ..operations.plans import PLANS
from ..operations.sparse import convert
from ..operations.sparse.convert import Source
from ..operations.sparse.matrix import Matrix, matrix
from ..operations.sparse.powers.call import as_found
from ..operations.sparse.powers.order.ordered import Orders
from ..operations.sparse.powers.run import Powers
from ..operations.sparse.powers.task import Options, Task
from ..records import findings
from .cases.spmv import SpmvCase
from .session import TuningResult, tune_problem

_WINDOWS = (256, 4096)
_PADDED = 1.6  # stored entries per entry from which a format is not tried
_BUDGETS = (0.15, 0.3, 0.6, 0.9)  # of the cache that level groups are to pass through
_REPEATS, _ROUNDS = 5, 2
_CLOSE = 1.3  # nobody slower than this many times the fastest is measured again


@dataclass
class Trial:
    """A way that was tried: its parameters, and median seconds, or why there are none."""

    values: dict[str, Any]
    seconds: float = float("inf")
    reason: str = ""


@dataclass
class Tuned:
    """What `tune` found."""

    matrix: Matrix  # as it is best stored
    format: dict[str, Any]  # arguments of `ms.sparse.matrix`
    formats: list[Trial]
    kernel: TuningResult | None = None
    powers: dict[int, list[Trial]] = field(default_factory=dict)  # by p, the fastest first

    @property
    def p(self) -> int | None:
        """The number of powers whose products take the least time each."""
        return min(self.powers, key=lambda p: self.powers[p][0].seconds / p, default=None)

    def summary(self) -> str:
        """The fastest ways, as text."""
        lines = [f"{len(self.formats)} formats"] + [_line(trial) for trial in self.formats[:3]]
        lines += [self.kernel.line()] if self.kernel else []
        for p, trials in self.powers.items():
            lines += [f"{p} powers, {trials[0].seconds / p * 1e6:.4g} us each", *map(_line, trials[:3])]
        return "\n".join(lines)


def _line(trial: Trial) -> str:
    given = " ".join(f"{name}={value}" for name, value in trial.values.items())
    return f"  {trial.seconds * 1e6:10.4g} us  {given or 'static rules'}  {trial.reason}".rstrip()


def tune(A: Any, p: int | Iterable[int] | None = None, *, limit: int = 12, backend: str | None = None) -> Tuned:
    """Measure storage formats of a sparse matrix, then kernels for the best one, and remember the winners.

    Later calls of `ms.sparse.matrix` and `ms.matrix_powers` with this pattern on this device use them. It takes seconds
    to minutes.

    Parameters
    ----------
    A : sparse matrix of SciPy, CuPy or PyTorch
    p : numbers of powers for which ways to compute them are measured as well
    limit : kernels that are tried
    backend : as for `ms.matmul`

    Examples
    --------
    >>> import mansard as ms
    >>> A = ms.sparse.matrices.stencil(7, (40, 40, 40))
    >>> print(ms.sparse.tune(A, 4))  # doctest: +SKIP
    """
    with findings.ignored():  # what is found is compared with static rules
        found = _tune(A, () if p is None else (p,) if isinstance(p, int) else tuple(p), limit, backend)
    PLANS.forget()  # the matrix's next product is planned with the tuned kernel
    return found


def _tune(A: Any, counts: tuple[int, ...], limit: int, backend: str | None) -> Tuned:
    source = convert.read(A)
    chosen = select(source.device, backend)
    trials = _formats(A, source, chosen, backend)
    best = trials[0].values
    findings.remember(chosen.device, source.rows, "format", best)
    made = matrix(A, backend=backend, **best)
    found = Tuned(made, best, trials, _kernel(made, source, chosen, limit))
    for count in counts:
        ranked = _executions(A, source, count, chosen, backend)
        findings.remember(chosen.device, source.rows, f"powers {count}", ranked[0].values)
        found.powers[count] = ranked
    return found


# --- formats ---------------------------------------------------------------------------------------------------


def _every_format() -> list[dict[str, Any]]:
    """Static rules first."""
    sells = [{"format": "sell", "C": C, "sigma": sigma, "index": index}
             for C in (32, 16, 8, 4) for sigma in (1, *_WINDOWS) for index in ("int32", "delta16")]  # fmt: skip
    rows = [{"format": "csr", "threads": lanes} for lanes in (None, 2, 4, 8, 16, 32)]
    return [{}, *sells, *({name: value for name, value in each.items() if value} for each in rows), {"format": "ell"}]


def _worth(source: Source, device: str) -> Iterator[dict[str, Any]]:
    """Formats that are not mostly padding; several lanes per row are a GPU's."""
    rows, xp = source.rows, source.xp
    mean = rows.nnz / max(1, rows.shape[0])
    longest = float(xp.diff(rows.indptr).max()) if rows.shape[0] else 0.0
    for form in _every_format():
        lanes = form.get("threads", 32 // form["C"] if "C" in form and device != "cpu" else 1)
        if lanes > 1 and (device == "cpu" or lanes > 2 * mean):
            continue
        if form.get("format") == "ell" and longest > _PADDED * mean:
            continue
        if "sigma" in form:
            padding = convert.padding(rows, form["C"], form["sigma"], xp)
            plain = convert.padding(rows, form["C"], 1, xp)
            if padding > _PADDED or (form["sigma"] > 1 and padding > 0.98 * plain):
                continue
        yield form


def _formats(A: Any, source: Source, chosen: Any, backend: str | None) -> list[Trial]:
    rng, xp = np.random.default_rng(3), source.xp
    x = xp.asarray(rng.standard_normal(source.rows.shape[1]).astype(source.rows.values_dtype))
    y = xp.empty(source.rows.shape[0], x.dtype)

    def calls() -> Iterator[tuple[dict[str, Any], Callable[[], Callable[[], Any]]]]:
        for form in _worth(source, chosen.device.backend):

            def make(form: dict[str, Any] = form) -> Callable[[], Any]:
                stored = matrix(A, backend=backend, **form)
                return lambda: stored.product(x, out=y)

            yield form, make

    return _contest(calls(), chosen)


def _alike(result: Any, first: Any) -> bool:
    """Whether vectors agree up to roundings, each measured by its largest entry."""
    if not first.size:
        return True
    scale = abs(first).max(axis=-1, keepdims=True)
    return bool((abs(result - first) <= 1e3 * np.finfo(first.dtype).eps * (scale + 1)).all())


def _kernel(made: Matrix, source: Source, chosen: Any, limit: int) -> TuningResult | None:
    """The kernel of the best format; None where nothing is compiled, or nothing is to be computed."""
    if limit < 1 or not hasattr(chosen, "prepare") or not source.rows.nnz:
        return None
    x = source.xp.zeros(made.shape[1], made.dtype)
    held = made.held
    problem = made.plan(x).problem
    return tune_problem(problem, chosen, limit=limit, case=SpmvCase(problem, chosen, held=held))


# --- powers ----------------------------------------------------------------------------------------------------


def _executions(A: Any, source: Source, p: int, chosen: Any, backend: str | None) -> list[Trial]:
    rng, xp = np.random.default_rng(4), source.xp
    x = xp.asarray(rng.standard_normal(source.rows.shape[0]).astype(source.rows.values_dtype))
    out = xp.empty((p + 1, x.shape[0]), x.dtype)
    task, orders = Task(p), Orders(A, backend)
    task.settle_dtype(source.rows.values_dtype, None)

    def calls() -> Iterator[tuple[dict[str, Any], Callable[[], Callable[[], Any]]]]:
        first = as_found(task, orders, Options(), {})
        yield {}, lambda: lambda: first(x, out)
        for values in _ways(first, p, chosen):

            def make(values: dict[str, Any] = values) -> Callable[[], Any]:
                plan = as_found(task, orders, Options(), values)
                return lambda: plan(x, out)

            yield values, make

    return _contest(calls(), chosen)


def _ways(first: Powers, p: int, chosen: Any) -> Iterator[dict[str, Any]]:
    """Executions with their parameters."""
    yield {"execution": "plain"}
    if p < 2 or not hasattr(chosen, "prepare"):
        return
    yield {"execution": "groups"}
    if chosen.device.backend == "cpu":
        cache = caches.cache_bytes()[0] * chosen.device.multiprocessors
        yield from ({"execution": "groups", "budget": share * cache} for share in _BUDGETS)
        return
    yield {"execution": "persistent"}
    if first.choice.passes:
        lag = first.choice.passes[0].LAG
        yield from ({"execution": "persistent", "LAG": lag + more} for more in (-2, -1, 1, 2) if lag + more > 0)
        for count in range(1, p + 1):  # groups of powers that share a copy, the later ones the longer
            lengths = (p // count + (group >= count - p % count) for group in range(count))
            yield {"execution": "persistent", "RETAIN": "|".join(map(str, lengths))}
        yield from ({"execution": "persistent", "EVICT": how} for how in ("none", "keep"))


# --- measuring -------------------------------------------------------------------------------------------------


def _contest(
    calls: Iterable[tuple[dict[str, Any], Callable[[], Callable[[], Any]]]], chosen: Any
) -> list[Trial]:  # fmt: skip
    """All ways, the fastest first; those that are close are measured again, in turn."""
    ways: list[tuple[Trial, Callable[[], Any] | None]] = []
    first: Any = None
    for values, make in calls:
        trial, run = Trial(values), None
        try:
            run = make()
            result = run()
            chosen.synchronize(0)
            first = result.copy() if first is None else first
            if _alike(result, first):
                trial.seconds = measure(run, chosen, repeats=_REPEATS).median
            else:
                trial.reason = "wrong"
        except (MansardError, ValueError) as error:
            trial.reason = str(error).splitlines()[0]
        fast = trial.seconds <= _CLOSE * min((other.seconds for other, _ in ways), default=trial.seconds)
        ways.append((trial, run if fast else None))  # what is slow gives its memory back
    _again(ways, chosen)
    return sorted((trial for trial, _ in ways), key=lambda trial: trial.seconds)


def _again(ways: list[tuple[Trial, Callable[[], Any] | None]], chosen: Any) -> None:
    fastest = min((trial.seconds for trial, _ in ways), default=0.0)
    close = [(trial, run) for trial, run in ways if run is not None and trial.seconds <= _CLOSE * fastest]
    times: list[list[float]] = [[] for _ in close]
    for _ in range(_ROUNDS):
        for place, (_trial, run) in enumerate(close):
            assert run is not None
            times[place] += measure(run, chosen, repeats=_REPEATS, warmup=1).seconds
    for (trial, _), seconds in zip(close, times, strict=True):
        trial.seconds = statistics.median(seconds)
