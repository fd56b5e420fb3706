"""Matrices and vectors of sparse cases: one matrix at a time, and whatever was made of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import mansard as ms

from ... import settings
from ...machine import caches
from ...operations.sparse import convert
from ...operations.sparse.operand import bytes_of
from ...operations.sparse.powers.call import planned
from ...operations.sparse.powers.order.ordered import Ordered, Orders
from ...operations.sparse.powers.run import Powers
from ...operations.sparse.powers.task import Options, Task
from ..cases import Case
from . import matrices as sparse_matrices
from .operations import storage_of

T = TypeVar("T")
_SHARE = 0.6  # of a cache that level groups may fill
_PADDED = 3.0  # stored entries per entry beyond which a format is not tried: memory may not hold it


class Given:
    """A matrix as CSR, and what contenders made of it: they share it, since making it may take longer than a case."""

    def __init__(self, csr: Any, xp: Any, asked: str | None) -> None:
        self.csr, self.xp, self.asked = csr, xp, asked
        self._made: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[no-any-return]

    @property
    def facts(self) -> dict[str, int]:
        return {"rows": int(self.csr.shape[0]), "nnz": int(self.csr.nnz)}

    def matrix(self, **form: Any) -> Any:
        """Stored by `ms.sparse`, as it chooses or as asked for. `sell` sorts its rows where that saves padding."""
        if form.get("format") in ("sell", "ell"):
            form = self._fitting(form)
        return self.once(tuple(form.items()), lambda: ms.sparse.matrix(self.csr, backend=self.asked, **form))

    def _fitting(self, form: dict[str, Any]) -> dict[str, Any]:
        """A ValueError where it would be padded to a multiple of its size."""
        rows = convert.read(self.csr).rows
        lengths = self.xp.diff(rows.indptr)
        if form["format"] == "ell":
            padding = float(lengths.max()) * rows.shape[0] / max(1, rows.nnz)
        else:
            C = form.get("C", 32)
            tried = [form["sigma"]] if "sigma" in form else [1, 256, 4096]
            sigma = min(tried, key=lambda sigma: (round(convert.padding(rows, C, sigma, self.xp), 1), sigma))
            padding, form = convert.padding(rows, C, sigma, self.xp), form | {"sigma": sigma}
        if padding > _PADDED:
            raise ValueError(f"rows differ too much: {padding:.3g} stored entries per entry")
        return form

    def ordered(self, order: str) -> tuple[Orders, Ordered, float]:
        """The matrix in all orders and in this one, and the seconds that levels, permutation and conversion took."""

        def make() -> tuple[Orders, Ordered, float]:
            self._settle()
            begin = time.perf_counter()
            read = Orders(self.csr, self.asked)
            orders = self.once("orders", lambda: read)
            found = orders.by_level(order)
            assert found.sell.buffer is not None  # stored now
            self._settle()
            return orders, found, time.perf_counter() - begin

        return self.once(("ordered", order), make)

    def _settle(self) -> None:
        if self.xp is not np:
            self.xp.cuda.get_current_stream().synchronize()

    def powers(
        self, p: int, execution: str | None, order: str = "auto", graph: bool = True, budget: float | None = None
    ) -> Powers:
        """Make the `Powers` that `ms.matrix_powers` returns, for a matrix that is already ordered."""
        task, orders = Task(p), self.ordered(order)[0]
        task.settle_dtype(orders.source.rows.values_dtype, None)
        return planned(task, orders, Options(execution, graph=graph, budget=budget), order)


def about(plan: Powers, dtype: str) -> dict[str, Any]:
    """How powers are computed, and the bytes that are to stay in a cache."""
    stored, choice = plan.stored, getattr(plan, "choice", None)
    facts: dict[str, Any] = {"storage": storage_of(stored, dtype), "execution": "library"}
    if choice is None:
        return facts
    size, p = float(bytes_of(stored)), plan.problem.P
    facts |= {"execution": choice.execution, "origin": "model", "reason": choice.reason}
    facts["footprint"] = min(size, _budget(plan))  # what blocking would aim at, where nothing is blocked
    if choice.execution == "persistent":
        lag = max(config.LAG * sum(map(int, config.RETAIN.split("|"))) * config.SLOT_BYTES for config in choice.passes)
        facts |= {"footprint": float(lag * plan._backend.device.multiprocessors), "launches": len(choice.passes)}
        config = choice.passes[0]
    else:
        config = choice.config
    if choice.execution == "groups":
        groups = len(choice.ranges) - 1
        facts |= {"groups": groups, "footprint": min(size, (p + 1) * choice.lag * size / max(1, groups))}
        if plan.device[0] != "cpu":
            facts["launches"] = groups * p
    return facts | ({"config": {"VARIANT": config.VARIANT, **vars(config)}} if config else {})


def _budget(plan: Powers) -> float:
    device = plan._backend.device
    own = caches.cache_bytes()[0] * device.multiprocessors
    return _SHARE * float(own if device.backend == "cpu" else device.l2_bytes)


class Matrices:
    """Makes the matrices of cases; the last one stays, and on the host those that take long."""

    def __init__(self, xp: Any, backend_name: str) -> None:
        self.xp = xp
        # the backend, unless it would be chosen anyway
        self.asked = None if backend_name in ("cuda", settings.current().backend) else backend_name
        self._key: Any = None
        self._held: Given | None = None
        self._slow: dict[Any, Any] = {}

    def pair(self, case: Case) -> tuple[Given, Any]:
        """The matrix, and a vector or several side by side."""
        key = (case.form, case.K, case.dtype)
        if self._held is None or self._key != key:
            self.release()
            self._held, self._key = Given(self._make(*key), self.xp, self.asked), key
        given = self._held
        return given, given.once(("x", case.N), lambda: self.vectors(given.csr.shape[1], case.N, case.dtype))

    def _make(self, name: str, rows: int, dtype: str) -> Any:
        if not sparse_matrices.kind_of(name).slow or self.xp is np:
            return sparse_matrices.make(name, rows, dtype, self.xp)
        from cupyx.scipy.sparse import csr_matrix

        key = (name, rows, dtype)
        if key not in self._slow:
            self._slow[key] = sparse_matrices.make(name, rows, dtype, np)
        return csr_matrix(self._slow[key])

    def vectors(self, rows: int, columns: int, dtype: str) -> Any:
        """Random numbers, the same ones every time."""
        rng = np.random.default_rng(5)
        shape = rows if columns == 1 else (rows, columns)
        drawn = rng.standard_normal(shape)
        drawn = drawn + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else drawn
        return self.xp.asarray(drawn.astype(dtype))

    def release(self) -> None:
        self._held = self._key = None
        gc.collect()
        if self.xp is not np:
            self.xp.get_default_memory_pool().free_all_blocks()
