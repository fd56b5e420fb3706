"""How small arrays travel between ranks: host arrays by MPI, device arrays by NCCL, by MPI itself, or staged.

The way for device arrays is chosen once per communicator, with the first of them, by all ranks together:
NCCL if every rank has a GPU of its own; MPI if it says that it takes device memory; pinned host memory otherwise.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..arrays import kinds
from ..arrays.cupy import stream_at
from ..arrays.types import Array, Kind
from .communicator import Communicator
from .messages import in_rank_order

_PLACE = 160  # bytes: host, address of the GPU on its bus, whether NCCL can be loaded


class Transport(NamedTuple):
    """A way for device arrays. Without `gather` they are staged through pinned host memory."""

    name: str
    reason: str
    gather: Callable[[Any, Any], None] | None = None  # CuPy's array and stack of all, on the current stream


class Sum(NamedTuple):
    """A sum over ranks that may be under way."""

    wait: Callable[[], Any]


def start_sum(comm: Communicator, stack: Array, counts: list[int], facts: str) -> Sum:
    """Begin the sum over the first axis of all ranks' stacks, rank by rank; `counts[r]` arrays of rank r count.

    The result is an array of the same library on the same device, the same bits on every rank.
    """
    kind = kinds.kind_of(stack, "stack")
    view = kind.view(stack, "stack")
    places = [(rank, i) for rank, count in enumerate(counts) for i in range(count)]

    def ordered(gathered: Array) -> Array:
        """The sum of those that count, in rank order."""
        return in_rank_order([gathered[at] for at in places]) if places else np.zeros(view.shape[1:], view.dtype)

    if view.device[0] == "cpu":
        return Sum(comm.start(kind.download(stack), facts, lambda one: kind.upload(ordered(one), stack)).wait)
    way = transport(comm, view.device[1])
    if way.gather is None or not places:
        staged = comm.start(_staged(kind, stack), facts, lambda one: kind.upload(ordered(one), stack))
        return Sum(staged.wait)
    agreed = comm.start(np.empty(0), f"{facts}: {view.dtype} {view.shape}")
    return Sum(lambda: (agreed.wait(), _on_device(comm, way, kind, stack, ordered))[1])


def _on_device(
    comm: Communicator, way: Transport, kind: Kind, stack: Array, ordered: Callable[[Array], Array]
) -> Array:
    """Gather and add without leaving the device; all ranks have agreed to."""
    cupy, view = kinds.imported("cupy").module, kind.view(stack, "stack")
    total = kind.allocate(view.shape[1:], view.dtype, stack)
    with stream_at(cupy, kind.stream_of(view.device)()):
        mine = cupy.ascontiguousarray(cupy.asarray(stack))
        gathered = cupy.empty((comm.size, *mine.shape), mine.dtype)
        assert way.gather is not None
        way.gather(mine, gathered)
        cupy.asarray(total)[...] = ordered(gathered)
    comm.messages.update({"device": 1, "bytes": mine.nbytes})
    return total


def _staged(kind: Kind, stack: Array) -> np.ndarray[Any, Any]:
    """A device array in pinned host memory."""
    import cupyx

    cupy, view = kinds.imported("cupy").module, kind.view(stack, "stack")
    with stream_at(cupy, kind.stream_of(view.device)()) as stream:
        mine = cupy.ascontiguousarray(cupy.asarray(stack))
        pinned: np.ndarray[Any, Any] = cupyx.empty_pinned(mine.shape, mine.dtype)
        mine.get(stream, out=pinned)
        stream.synchronize()
    return pinned


def transport(comm: Communicator, ordinal: int) -> Transport:
    """The way for arrays on this rank's device `ordinal`, chosen by all ranks with the first one."""
    if comm.transport is None:
        comm.transport = choose(comm, kinds.imported("cupy").module, ordinal)
    found: Transport = comm.transport
    return found


def choose(comm: Communicator, cupy: Any, ordinal: int) -> Transport:
    """Choose a way: which GPUs the ranks have is gathered, and whether every rank could begin with NCCL."""
    nccl = _nccl(cupy)
    bus = cupy.cuda.runtime.deviceGetPCIBusId(ordinal)
    place = f"{socket.gethostname()[:100]}/{bus}/{int(nccl is not None)}".encode().ljust(_PLACE)
    places = [one.tobytes().strip() for one in comm.gather(np.frombuffer(place, np.uint8), "device of each rank")]
    shared = len(set(places)) < len(places)
    able = all(one.endswith(b"/1") for one in places)
    if not shared and able:
        gather = _begin_nccl(comm, nccl)
        if gather is not None:
            return Transport("nccl", "every rank has a GPU of its own", gather)
        why = "NCCL failed to begin on a rank"
    else:
        why = "ranks share a GPU" if shared else "NCCL is not installed on every rank"
    if "cuda" in (comm.raw.Get_info().get("mpi_memory_alloc_kinds") or ""):
        return Transport("cuda-aware MPI", f"{why}; the MPI library takes device memory", _by_mpi(comm, cupy))
    return Transport("pinned host memory", f"{why}; the MPI library does not say that it takes device memory")


def _nccl(cupy: Any) -> Any:
    """The module cupy.cuda.nccl, or None."""
    try:
        module = import_module("cupy.cuda.nccl")
    except ImportError:
        return None
    return module if getattr(module, "available", False) else None


def _begin_nccl(comm: Communicator, nccl: Any) -> Callable[[Any, Any], None] | None:
    """Make a communicator of NCCL on every rank; None if that fails on any of them."""
    made: Any = None
    name = np.zeros(128, np.int8)
    with suppress(nccl.NcclError):
        if comm.rank == 0:
            name = _bytes(nccl.get_unique_id())
    name = comm.gather(name, "NCCL's id")[0]
    with suppress(nccl.NcclError):
        made = _made(nccl, comm, name) if name.any() else None
    if not comm.gather(np.array([made is not None]), "NCCL has begun").all():
        return None

    def gather(mine: Any, gathered: Any) -> None:
        current = kinds.imported("cupy").module.cuda.get_current_stream().ptr
        made.allGather(mine.data.ptr, gathered.data.ptr, mine.nbytes, nccl.NCCL_CHAR, current)

    return gather


def _bytes(name: Any) -> np.ndarray[Any, Any]:
    """NCCL's id, which CuPy gives as bytes or, before version 14, as a tuple of them."""
    return np.frombuffer(name, np.int8) if isinstance(name, bytes) else np.array(name, np.int8)


def _made(nccl: Any, comm: Communicator, name: np.ndarray[Any, Any]) -> Any:
    """NCCL's communicator of this rank, from an id in the form that this CuPy takes."""
    try:
        return nccl.NcclCommunicator(comm.size, name.tobytes(), comm.rank)
    except TypeError:
        return nccl.NcclCommunicator(comm.size, tuple(map(int, name)), comm.rank)


def _by_mpi(comm: Communicator, cupy: Any) -> Callable[[Any, Any], None]:
    def gather(mine: Any, gathered: Any) -> None:
        cupy.cuda.get_current_stream().synchronize()  # MPI knows nothing of streams
        comm.raw.Allgather(mine, gathered)

    return gather
