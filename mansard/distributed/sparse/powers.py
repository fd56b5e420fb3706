"""Powers of a distributed matrix: one exchange for p products with ghost zones, or an exchange for each.

Ghost zones save messages and let the matrix pass through the caches once for several powers, but rows of neighbours are
multiplied on both sides. Which is cheaper is predicted from latency, bandwidths and the rows of the zones; of matrices
large enough, both are timed, and all ranks take what was faster on the slowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ...arrays.kinds import kind_of
from ...arrays.types import Array
from ...backends.select import select
from ...machine import machine
from ...operations.sparse.powers.call import matrix_powers as local_powers
from ...operations.sparse.powers.task import coefficients, count
from .matrix import DistributedMatrix
from .zones import Zone

LATENCY = 5e-6  # seconds of an exchange besides its bytes, where nothing was measured: MPI in a node or beyond
BANDWIDTH = 5e9  # bytes per second of a message, likewise
_TIMED = 1 << 20  # entries of a rank from which both are timed
_TRIALS = 3
_MOST = 4.0  # entries of a zone over those of the largest rank, beyond which no further layers are fetched


@dataclass(frozen=True)
class Costs:
    """Predicted seconds of a call on the slowest rank, and what they follow from."""

    one: float  # one exchange of ghost zones
    each: float  # an exchange for every product
    repeated: int  # rows computed twice, all ranks together
    layers: list[int]  # rows of ghost layers 1 .. p of this rank
    shares: float  # entries of the largest zone over own entries


class DistributedPowers:
    """Powers of a distributed matrix: `P(x)` returns this rank's rows of [v_0 .. v_p], an array (p + 1, n)."""

    def __init__(
        self, matrix: DistributedMatrix, p: int, basis: Any, exchanges: str | None, columns: int, dtype: Any
    ) -> None:  # fmt: skip
        self.matrix, self.comm, self.p, self.columns = matrix, matrix.comm, count(p), columns
        self.coefficients, self.basis = coefficients(basis, self.p), basis
        is_complex = np.iscomplexobj(self.coefficients)
        self.dtype = np.dtype(dtype or (np.result_type(matrix.dtype, np.complex64) if is_complex else matrix.dtype))
        facts = f"matrix_powers p={self.p} {self.coefficients.tobytes().hex()[:64]} {exchanges} {columns} {self.dtype}"
        self.comm.agree(facts)
        first, last = matrix.offsets[self.comm.rank : self.comm.rank + 2]
        self.n = int(last - first)
        most = np.inf if exchanges == "one" else _MOST
        self._zone = Zone(matrix, self.p, most) if self.p > 1 and exchanges != "each" else None
        self.costs = None if self._zone is None else _costs(matrix, self._zone, self.p, columns, self.dtype)
        self.exchanges, self.reason = self._chosen(exchanges)
        matrix.split  # noqa: B018  # sends messages when it is made
        self._plan: Any = None
        if self.exchanges == "one":
            self._plan = self._local()
            if exchanges is None and int(matrix.entries.max()) >= _TIMED:
                self._time_both()

    def _chosen(self, asked: str | None) -> tuple[str, str]:
        if asked is not None or self.p < 2 or self.costs is None:
            return (asked or "each") if self.p > 1 else "each", "asked for" if asked else "one power is one product"
        costs = self.costs
        is_tried = self.comm.size == 1 or costs.one <= costs.each or int(self.matrix.entries.max()) >= _TIMED
        if is_tried and self._zone is not None and self._zone.is_complete:
            return "one", "more exchanges cost more than the rows that are computed twice"
        return "each", f"{costs.repeated} rows would be computed twice"

    def _local(self) -> Any:
        assert self._zone is not None
        return local_powers(
            self._zone.extended(), self.p, basis=tuple(self.coefficients.T), columns=self.columns, dtype=self.dtype.name
        )

    def _time_both(self) -> None:
        """Take what is faster on the slowest rank."""
        x = np.ones(self.n if self.columns == 1 else (self.n, self.columns), self.dtype)
        seconds = {}
        for way, run in (("one", self._with_zones), ("each", self._with_products)):
            run(x)
            times = []
            for _ in range(_TRIALS):
                self.comm.agree("timing")
                begin = perf_counter()
                run(x)
                times.append(perf_counter() - begin)
            seconds[way] = float(self.comm.gather(np.array([min(times)]), "timing").max())
        self.exchanges = min(seconds, key=lambda way: seconds[way])
        self.reason = ", ".join(f"{way}: {1e3 * time:.3g} ms" for way, time in seconds.items()) + ", measured"
        if self.exchanges == "each":
            self._plan = None

    @property
    def passes(self) -> int:
        """How often a call reads the matrix, as far as the local plan says."""
        choice = getattr(self._plan, "choice", None)
        return self.p if choice is None or choice.execution == "plain" else max(1, len(choice.passes))

    def __call__(self, x: Array) -> Array:
        with self.comm.call("matrix_powers"):
            shape = (self.n,) if self.columns == 1 else (self.n, self.columns)
            if not isinstance(x, np.ndarray) or x.shape != shape:
                raise ValueError(f"x has shape {np.shape(x)}, this rank's part is {shape}: pass it as a NumPy array")
            if x.dtype != self.dtype:
                raise TypeError(f"x has dtype {x.dtype}, the plan was made for {self.dtype}: convert x")
            return self._with_zones(x) if self.exchanges == "one" else self._with_products(x)

    def _empty(self, x: Array, rows: int) -> Array:
        """Room for x and its powers, in memory that earlier results left: new pages take longer than a power."""
        return kind_of(x, "x").empty((self.p + 1, rows, *x.shape[1:]), self.dtype.name, x)

    def _with_zones(self, x: Array) -> Array:
        zone = self._zone
        assert zone is not None
        V = self._empty(x, len(zone.rows))
        zone.fill(x, V[0])
        self._plan(V[0], out=V)
        return V[:, zone.low : zone.high]

    def _with_products(self, x: Array) -> Array:
        V = self._empty(x, len(x))
        V[0] = x
        for k, (alpha, beta, gamma) in enumerate(self.coefficients.tolist()):
            if (alpha, beta, gamma) == (1.0, 0.0, 0.0):
                self.matrix.split.product(V[k], V[k + 1])
            else:
                before = V[k - 1] if k and gamma != 0 else None
                self.matrix.split.product(V[k], V[k + 1], (alpha, beta, gamma), before)
        return V

    def explain(self) -> str:
        """Which exchange was chosen and why, the rows that are computed twice, and the local plan."""
        lines = [f"{self!r}: {self.reason}"]
        if self.costs is not None:
            costs = self.costs
            lines.append(f"rows computed twice: {costs.repeated} of {self.matrix.shape[0]}, {self.p} times each "
                         f"(largest zone: {100 * (costs.shares - 1):.2f} % more entries)")
            lines.append(f"ghost layers of rank {self.comm.rank}: {', '.join(map(str, costs.layers))} rows")
            lines.append(f"predicted: one exchange {1e6 * costs.one:.4g} us, an exchange for each product "
                         f"{1e6 * costs.each:.4g} us")
        lines += [f"  {line}" for line in self._plan.explain().splitlines()] if self._plan is not None else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        what = "one exchange with ghost zones" if self.exchanges == "one" else f"{self.p} exchanges"
        return f"<DistributedPowers p={self.p} of {self.matrix.shape[0]} rows on {self.comm.size} ranks, {what}>"


def _costs(matrix: DistributedMatrix, zone: Zone, p: int, columns: int, dtype: np.dtype[Any]) -> Costs:
    """Predicted seconds: bytes of entries and vectors at the memory's speed, latency and bytes of messages."""
    comm, item = matrix.comm, dtype.itemsize * columns
    per_entry, per_row = matrix.dtype.itemsize + 4, 2 * item
    own = matrix.local.nnz * per_entry + matrix.local.shape[0] * per_row
    extra = zone.repeated_entries * per_entry + zone.repeated * per_row
    sent = len(zone.halo.wanted), zone.layers[0] if zone.layers else 0
    facts = np.array([own, extra, *sent, zone.repeated, matrix.local.nnz, zone.repeated_entries], np.float64)
    every = comm.gather(facts, "costs of powers")
    memory = machine.known(select(("cpu", 0), None).device).read_bandwidth
    one = LATENCY + every[:, 2].max() * item / BANDWIDTH + p * (every[:, 0] + every[:, 1]).max() / memory
    each = p * (LATENCY + every[:, 3].max() * item / BANDWIDTH + every[:, 0].max() / memory)
    shares = float((every[:, 5] + every[:, 6]).max() / max(1.0, every[:, 5].max()))
    return Costs(float(one), float(each), int(every[:, 4].sum()), zone.layers, shares)


def matrix_powers(
    M: DistributedMatrix, p: int, basis: Any = "monomial", *, exchanges: str | None = None, columns: int = 1,
    dtype: Any = None,
) -> DistributedPowers:  # fmt: skip
    """A plan for powers of a square distributed matrix: `P(x)` is this rank's part of [v_0, v_1, ..., v_p].

    Parameters
    ----------
    M : made by `ms.distributed.matrix`
    p, basis, columns, dtype : as for `ms.matrix_powers`
    exchanges : "one" exchanges ghost zones of depth p once, and computes rows of neighbours again; "each" exchanges the
        entries that rows read before every product; None takes the cheaper. `P.explain()` says which and why

    Cost: 2 p nnz flops over all ranks. "each" sends p messages per neighbour, "one" a single one with the ghost
    zone of depth p, whose rows are computed again.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> A = ms.distributed.matrix(ms.sparse.matrices.band(100, 3))
    >>> P = ms.distributed.matrix_powers(A, 2)
    >>> v = P(A.part(np.ones(100)))  # this rank's entries of [x, A x, A^2 x]
    >>> v.shape[0], bool((v[2] == A @ v[1]).all())
    (3, True)
    """
    if not isinstance(M, DistributedMatrix):
        raise TypeError(f"M is a {type(M).__name__}: make it with ms.distributed.matrix, or call ms.matrix_powers")
    if exchanges not in (None, "one", "each"):
        raise ValueError(f"exchanges={exchanges!r} is not None, 'one' or 'each'")
    with M.comm.call("matrix_powers"):
        if M.shape[0] != M.shape[1]:
            raise ValueError(f"M has shape {M.shape}: only square matrices have powers")
        return DistributedPowers(M, p, basis, exchanges, columns, dtype)


class Planned:
    """Powers for the solvers: planned when it is known what the vectors are."""

    def __init__(self, matrix: DistributedMatrix, p: int, recurrence: Any) -> None:
        self._matrix, self._p, self._recurrence, self.passes = matrix, p, recurrence, p
        self._plans: dict[Any, DistributedPowers] = {}

    def __call__(self, x: Array) -> Array:
        dtype = np.result_type(self._matrix.dtype, x.dtype, *(np.asarray(part).dtype for part in self._recurrence))
        columns = 1 if x.ndim == 1 else int(x.shape[1])
        key = dtype.name, columns
        if key not in self._plans:
            self._plans[key] = matrix_powers(self._matrix, self._p, self._recurrence, columns=columns, dtype=dtype)
        plan = self._plans[key]
        self.passes = plan.passes
        vector = x[:, 0] if x.ndim == 2 and columns == 1 else x
        found = plan(np.ascontiguousarray(vector, dtype))
        return found if vector.ndim == x.ndim else found[..., None]
