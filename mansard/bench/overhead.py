"""Cost of a call for the caller, above the cheapest launch the device allows: planned and unplanned, for each kind of
array. The kernel's own time is out of it: on a GPU calls are queued and waited for after the clock stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mansard as ms

from ..arrays.kinds import kind_of
from ..operations.launcher import LAUNCHER
from . import clock as clocks
from . import small_calls
from .cases import Case
from .peers import Peer, TorchPeer
from .rows import Row, row

CHEAPEST = "cheapest launch"
_CALLS = 200  # fewer than a GPU's queue of launches holds
_SAMPLES = 31


def measure(case: Case, backend: Any, peers: list[Peer], samples: int = _SAMPLES) -> list[Row]:
    """Rows in mode `host`: seconds per call that the caller spends."""
    clock = clocks.clock_for(backend)
    calls = _calls(case, backend, peers)
    count = _CALLS if backend.name in ("cuda", "cpu") else 2
    facts = {**case.to_dict(), "case": case.key, "date": time.strftime("%Y-%m-%d %H:%M:%S")}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for run in calls.values():
        clock.enqueue(run, count)
    for _ in range(samples):
        for name, run in calls.items():
            seconds[name].append(clock.enqueue(run, count))
    return [row(facts, name, values, spelling=name) for name, values in seconds.items()]


def _calls(case: Case, backend: Any, peers: list[Peer]) -> dict[str, Callable[[], Any]]:
    """Every call that is compared, the cheapest launch first."""
    asked = None if backend.name == "cuda" else backend.name
    calls: dict[str, Callable[[], Any]] = {}
    for kind, make in _kinds(backend, peers).items():
        A, B = make((case.K, case.M)), make((case.K, case.N))
        plan = ms.plan("gram", A, B, backend=asked)
        out = make((case.M, case.N))
        into = ms.plan("gram", A, B, out=out, backend=asked)
        if not calls:
            calls[CHEAPEST] = _cheapest(backend, plan, A, B, out)
        calls[f"plan(A, B), {kind}"] = _bind(plan, A, B)
        calls[f"plan.run(A, B), {kind}"] = _bind(plan.run, A, B)
        calls[f"plan(A, B, out), {kind}"] = _bind(into, A, B, out)
        calls[f"plan.run(A, B, out), {kind}"] = _bind(into.run, A, B, out)
        calls[f"ms.gram(A, B), {kind}"] = _bind(partial(ms.gram, backend=asked) if asked else ms.gram, A, B)
        calls[f"A.T @ B, {kind}"] = _bind(_vendor, A, B)
        if backend.name == "cpu":  # where a backend need not be named: calls as users write them
            calls |= _small(kind, A)
    return calls


def _small(kind: str, like: Any) -> dict[str, Callable[[], Any]]:
    """Small problems of many operations, ours (natively launched where that can be had) and the library's."""
    LAUNCHER.wait()
    found: dict[str, Callable[[], Any]] = {}
    for name, ours, theirs in small_calls.calls(like):
        found[f"{name}: Mansard, {kind}"] = ours
        if theirs is not None:
            found[f"{name}: {kind}"] = theirs
    return found


def _vendor(A: Any, B: Any) -> Any:
    return A.T @ B


def _bind(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _kinds(backend: Any, peers: list[Peer]) -> dict[str, Callable[[tuple[int, int]], Any]]:
    """Makers of random arrays, by the name of their library."""
    torch = next((peer.torch for peer in peers if isinstance(peer, TorchPeer) and not peer.missing), None)
    kinds: dict[str, Callable[[tuple[int, int]], Any]] = {}
    if backend.name == "cuda":
        import cupy

        kinds["CuPy"] = lambda shape: cupy.random.standard_normal(shape)
        if torch is not None:
            kinds["PyTorch"] = lambda shape: torch.randn(shape, dtype=torch.float64, device="cuda")
        return kinds
    kinds["NumPy"] = lambda shape: np.random.default_rng(3).standard_normal(shape)
    if torch is not None:
        kinds["PyTorch"] = lambda shape: torch.randn(shape, dtype=torch.float64)
    return kinds


def _cheapest(backend: Any, plan: Any, A: Any, B: Any, out: Any) -> Callable[[], Any]:
    """On a GPU a prepared launch of an empty kernel; on a CPU the compiled kernel called with addresses at hand."""
    if backend.name == "cuda":
        return clocks.prepared_launch(backend)
    if plan.launch is None:
        return lambda: None
    kind, launch = kind_of(A, "A"), plan.launch
    addresses = (kind.address(A), kind.address(B), kind.address(out))
    return lambda: launch(addresses, (1.0, 0.0, 0.0, 0.0), 0)
