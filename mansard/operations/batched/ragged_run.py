"""Runs the products of a ragged batch: the sort on the device, one launch per class of sizes, or the CPU's kernel."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from ctypes import c_void_p
from functools import partial
from typing import Any

import numpy as np

from ...arrays.types import Array, Kind
from ...backends.base import Launch
from ...codegen.geometry import Device
from ...errors import IllegalConfig
from ...kernels.batched.ragged_gemm import defaults, emit, space, work
from ...plan import pin
from ...plan.dispatch import choose
from ...plan.problem import Problem
from .. import recording
from ..ragged import Ragged
from ..ragged_kernel import remember
from ..ragged_layout import scratch, stream_key
from ..run import together

_BOUNDS = np.array([width for width in reversed(space.WIDTHS) if width is not None])
_VECTOR_BOUNDS = np.array([width for width in reversed(space.VECTORS) if width is not None])
_SORTING = (1.0, 0.0, 0.0, 0.0)  # the sort has no use for them


class RaggedRun:
    """For one triple of layouts. `tables` are the host's rows, columns and offsets of A, B and C, or None."""

    def __init__(self, kind: Kind, problem: Problem, backend: Any, tables: Array, steps: tuple[int, int]) -> None:
        self.kind, self.problem, self.backend, self.steps = kind, problem, backend, steps
        self.sizes = None if tables is None else _sizes(problem, tables, steps)
        self._start = defaults.merged_from(problem)
        self._launches: dict[Hashable, Any] = {}
        self._lists: dict[Hashable, _Scratch] = {}  # sorted products, by stream
        self._held: list[_Scratch] = []  # lists of captured graphs
        remember(self)

    def forget(self) -> None:
        """Choose and prepare anew: after tuning. Sorted lists stay: a captured graph may read them."""
        self._launches.clear()

    def run(self, given: tuple[Ragged, Ragged, Ragged], scaling: tuple[float, ...], accumulate: bool) -> None:
        """The products of A and B into C."""
        if self.problem.BATCH == 0:
            return
        if self.backend.name == "reference" or (self.backend.name == "cpu" and self.sizes is None):
            self._by_library(given, scaling, range(self.problem.BATCH))
        elif self.backend.name == "cpu":
            self._on_cpu(given, scaling, accumulate)
        elif pin.pins().get("VARIANT") == "vendor":
            self._by_library(given, scaling, range(self.problem.BATCH))
        else:
            self._on_gpu(given, scaling, accumulate)

    def tables(self, given: tuple[Ragged, ...]) -> tuple[int, ...]:
        """Addresses of rows, columns and offsets of A, B and C."""
        return self._addresses(given)[1]

    def _addresses(self, given: tuple[Ragged, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the buffers, and of the tables."""
        ordinal = given[0]._view.device[1]
        tables: tuple[int, ...] = ()
        for one in given:
            tables += one.layout.addresses(self.kind, one.buffer, self.backend, ordinal)
        return tuple(one._view.address for one in given), tables

    # ---- CPUs ---------------------------------------------------------------------------------------------

    def _on_cpu(self, given: tuple[Ragged, ...], scaling: tuple[float, ...], accumulate: bool) -> None:
        assert self.sizes is not None
        key = (accumulate, *pin.pins().items())
        if key not in self._launches:
            problem = self.problem.replace(accumulate=accumulate)
            config = choose(problem, self.backend.device).config
            wide = self.sizes.max(0) > (config.WIDEST if config else 0)  # none: the array library was asked for
            products, launch = int(self.sizes[:, ~wide].prod(0).sum()), None
            if config:
                launch = recording.prepared(emit, problem, config, self.backend, (*self.steps, products))[0]
            self._launches[key] = launch, np.flatnonzero(wide).tolist()
        launch, wide = self._launches[key]
        if launch:
            buffers, tables = self._addresses(given)
            launch((*buffers, *tables), scaling, 0)
        self._by_library(given, scaling, wide)

    def _by_library(self, given: tuple[Ragged, ...], scaling: tuple[float, ...], which: Iterable[int]) -> None:
        """One product after the other, by the array library."""
        A, B, C = given
        alpha, beta = complex(*scaling[:2]), complex(*scaling[2:])
        if not self.problem.is_complex:
            alpha, beta = alpha.real, beta.real
        p = self.problem
        for i in which:
            left = self._op(A[i * self.steps[0]], p.trans_a, p.conj_a)
            product = self.kind.matmul(left, self._op(B[i * self.steps[1]], p.trans_b, p.conj_b))
            product = product if alpha == 1.0 else product * alpha
            place = C[i]
            place[...] = product if beta == 0.0 else product + place * beta

    def _op(self, matrix: Array, trans: bool, conj: bool) -> Array:
        turned = matrix.swapaxes(-1, -2) if trans else matrix
        return self.kind.conj(turned) if conj else turned

    # ---- GPUs ---------------------------------------------------------------------------------------------

    def _on_gpu(self, given: tuple[Ragged, ...], scaling: tuple[float, ...], accumulate: bool) -> None:
        stream = self.kind.stream_of(given[0]._view.device)()
        held, items, starts = self._sorted(given, stream)
        buffers = tuple(one._view.address for one in given)
        for launch in self._class_launches(accumulate):
            launch((*buffers, items, starts), scaling, stream)
        del held  # until here: another thread's sorted list may have taken its place

    def _class_launches(self, accumulate: bool) -> list[Launch]:
        """The largest first; classes that the host knows to be empty are left out."""
        key = (accumulate, *pin.pins().items())
        if key not in self._launches:
            problem, device = self.problem.replace(accumulate=accumulate), self.backend.device
            known, counts = self.sizes is not None, self._counts()
            configs = {i: defaults.of_class(problem, i, device, n * known) for i, n in enumerate(counts) if n}
            makers = [
                partial(recording.prepared, emit, problem.replace(BATCH=counts[index]), config, self.backend)
                for index, config in pinned(problem, configs, device).items()
            ]
            self._launches[key] = [launch for launch, _ in together(makers)]
        return self._launches[key]  # type: ignore[no-any-return]

    def _counts(self) -> list[int]:
        """Products of each class; where sizes are on the device alone, as many as there might be."""
        if self.sizes is not None:
            return class_counts(self.sizes, self._start)
        most = [self.problem.BATCH] * work.CLASSES
        merged = [index for index, width in enumerate(space.WIDTHS) if width and self._start < width < 32]
        return [0 if index in merged else count for index, count in enumerate(most)]

    def _sorted(self, given: tuple[Ragged, ...], stream: int) -> tuple[_Scratch, int, int]:
        """The memory, and the addresses in it of the sorted products and of the starts of the classes. What the host
        knows is sorted once for each stream; a graph being captured sorts for itself, since nothing runs yet."""
        key = stream_key(stream)
        sort = defaults.sorts(self._start)
        list_bytes, start_bytes, count_bytes = work.workspace_bytes(
            self.problem.BATCH, emit.sorters(self.problem.BATCH, sort[0])
        )
        held = self._lists.get(key)
        capturing = self.backend.name == "cuda" and bool(self.backend.driver.capture_id(c_void_p(stream)))
        if held is None or self.sizes is None or capturing:
            fresh = _Scratch(self.kind, given[2], list_bytes + start_bytes + count_bytes, self.backend.name)
            self._sort(given, fresh.address, (list_bytes, start_bytes), stream)
            if capturing:
                self._held.append(fresh)
            else:
                self._lists[key] = fresh  # memory of the stream's: what comes next there may take what was held
            held = fresh
        return held, held.address, held.address + list_bytes

    def _sort(self, given: tuple[Ragged, ...], address: int, sizes: tuple[int, int], stream: int) -> None:
        if "sort" not in self._launches:
            configs = defaults.sorts(self._start)
            makers = [partial(recording.prepared, emit, self.problem, one, self.backend, self.steps) for one in configs]
            self._launches["sort"] = [launch for launch, _ in together(makers)]
        _, tables = self._addresses(given)
        places = (address, address + sizes[0], address + sum(sizes))
        for launch in self._launches["sort"]:
            launch((*tables, *places), _SORTING, stream)


def pinned(problem: Problem, configs: Mapping[int, space.Config], device: Device) -> Mapping[int, space.Config]:
    """Configurations of the classes, with what is pinned in those that have all these parameters; a pinned VARIANT or
    CLASS says which they are. IllegalConfig if there are none, or one would be illegal."""
    wanted = pin.pins()
    if not wanted:
        return configs
    found = dict(configs)
    for index, config in configs.items():
        values = space.to_dict(config)
        named = all(values.get(name) == wanted[name] for name in ("VARIANT", "CLASS") if name in wanted)
        if named and set(wanted) <= set(values):
            found[index] = space.from_dict({**values, **wanted})
            reason = space.illegal(problem, found[index], device)
            if reason:
                raise IllegalConfig(f"ragged_gemm: pinned configuration {found[index]}: {reason}")
    if found == configs and not any(set(wanted.items()) <= set(space.to_dict(one).items()) for one in configs.values()):
        raise IllegalConfig(f"ragged_gemm: no class of these sizes has a kernel with {', '.join(wanted)}: unpin them")
    return found


class _Scratch:
    """Memory for a sorted list, where the kernels run; on the emulator of any content."""

    def __init__(self, kind: Kind, beside: Ragged, size: int, backend: str) -> None:
        if backend == "cuda":
            self.held = scratch(kind, beside.buffer, size)
            self.address = kind.address(self.held)
        else:
            self.held = np.full(-(-size // 8), -1, np.int64)
            self.address = int(self.held.ctypes.data)


def _sizes(problem: Problem, tables: Array, steps: tuple[int, int]) -> Array:
    """m, n and k of every product."""
    of_a, of_b, _ = tables
    k = np.broadcast_to(of_a[0 if problem.trans_a else 1], (problem.BATCH,))
    m = np.broadcast_to(of_a[1 if problem.trans_a else 0], (problem.BATCH,))
    n = np.broadcast_to(of_b[0 if problem.trans_b else 1], (problem.BATCH,))
    return np.stack([m, n, k])


def class_counts(sizes: Array, start: int = 24) -> list[int]:
    """Products in each class (items.cuh), the largest first; what has no entries is in none."""
    sizes = sizes[:, (sizes[0] > 0) & (sizes[1] > 0)]
    m, n, _ = sizes
    most = sizes.max(0)
    classes = len(_BOUNDS) - np.searchsorted(_BOUNDS, most, side="left")
    classes[(most > start) & (most <= 32)] = 3
    classes[(m == 1) & (most > 32)] = space.ROW
    vectors = (n == 1) & (most > 4)
    classes[vectors] = space.ROW - 1 - np.searchsorted(_VECTOR_BOUNDS, most[vectors], side="left")
    return np.bincount(classes, minlength=work.CLASSES).tolist()  # type: ignore[no-any-return]
