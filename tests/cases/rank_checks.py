"""Checks that every rank of `mpiexec -n N python rank_checks.py` runs together; tests/system/test_ranks.py starts them.

`python rank_checks.py kill | raise` are programs of which one rank dies, or raises what nobody catches;
`python rank_checks.py device` runs the checks of a GPU alone, `tensors` those of PyTorch's tensors and `long` those of
a message of more than 2^31 bytes, with any number of ranks.
"""

from __future__ import annotations

import doctest
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import mansard as ms
from mansard import settings
from mansard.distributed import Batch, Communicator, Rows, batch, later_gram, transport
from mansard.distributed import messages as sent
from mansard.distributed.communicator import QUIET
from mansard.errors import RankDeficient, RankError, RanksDiffer
from mansard.operations.plans import PLANS
from papers.dong import rank_messages

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
COMM = Communicator.of(WORLD)


def integers(rows: int, columns: int, seed: int = 0) -> Any:
    """Small integers, of which all sums are exact."""
    return np.random.default_rng(seed + columns).integers(-3, 4, (rows, columns)).astype(float)


def same_everywhere(array: Any) -> bool:
    """Whether all ranks have the same bits."""
    every = WORLD.allgather(np.ascontiguousarray(array).tobytes())
    return all(one == every[0] for one in every)


@contextmanager
def messages(count: int, comm: Communicator = COMM) -> Iterator[None]:
    """Inside, so many collective messages are sent."""
    before = comm.messages["gather"] + comm.messages["continued"]
    yield
    assert comm.messages["gather"] + comm.messages["continued"] - before == count


def check_products() -> None:
    """Against NumPy, exactly: many rows, fewer rows than ranks, none; with and without blocks."""
    for rows in (203, SIZE - 1, 1, 0):
        A, B, S = integers(rows, 4), integers(rows, 3), integers(4, 3)
        for blocks in (None, 16):
            a, b = (Rows.from_global(one, WORLD, blocks=blocks) for one in (A, B))
            assert a.shape == A.shape and a.offsets[-1] == len(a) == rows and a.dtype == A.dtype
            assert (a.local == A[a.offsets[RANK] : a.offsets[RANK + 1]]).all()
            assert (ms.gram(a) == A.T @ A).all() and (ms.gram(a, b) == A.T @ B).all()
            assert (ms.matmul(a, S).to_global() == A @ S).all()
            W, G = ms.matmul_gram(a, S)
            assert (W.to_global() == A @ S).all() and (G == (A @ S).T @ (A @ S)).all()
            rest, G = ms.project(a, b)
            expected = B - A @ (A.T @ B)
            assert (rest.to_global() == expected).all() and (expected.T @ expected == G).all()


def check_places() -> None:
    """`out`, alpha and beta."""
    A, S = integers(40, 4), integers(4, 4)
    a, out = Rows.from_global(A), np.ones((4, 4))
    assert ms.gram(a, out=out, alpha=2.0, beta=3.0) is out and (out == 2 * A.T @ A + 3).all()
    place = Rows.from_global(np.ones((40, 4)))
    assert ms.matmul(a, S, out=place, alpha=2.0, beta=1.0) is place
    assert (place.to_global() == 2 * A @ S + 1).all()
    Q, _ = ms.cholesky_qr(Rows.from_global(A + 9 * np.eye(40, 4)), out=place)
    assert Q is place and np.allclose(ms.gram(Q), np.eye(4), atol=1e-13)


def check_factors() -> None:
    """Orthonormal to working precision, for any number of rows."""
    V = np.random.default_rng(3).standard_normal((150, 6)) @ np.diag(10.0 ** -np.arange(6))
    W = np.random.default_rng(4).standard_normal((150, 3))
    for blocks in (None, 32):
        v, w = (Rows.from_global(one, blocks=blocks) for one in (V, W))
        Q, R = ms.cholesky_qr(v)
        assert np.allclose(Q.to_global() @ R, V, atol=1e-14) and np.abs(ms.gram(Q) - np.eye(6)).max() < 1e-14
        assert same_everywhere(R)
        Q2, R2, H = ms.orthogonalize(w, against=Q)
        assert np.allclose(Q2.to_global() @ R2 + Q.to_global() @ H, W) and np.abs(ms.gram(Q, Q2)).max() < 1e-14
        for rows in (150, 7, 3, 0):
            part = Rows.from_global(V[:rows], blocks=blocks)
            with messages(int(SIZE > 1)):
                Q, R = ms.linalg.qr(part)
            assert Q.shape == (rows, min(rows, 6)) and R.shape == (min(rows, 6), 6) and same_everywhere(R)
            assert np.allclose(Q.to_global() @ R, V[:rows]) and np.allclose(ms.gram(Q), np.eye(min(rows, 6)))
            assert (ms.linalg.qr(part, mode="r") == R).all()
    tall = np.random.default_rng(6).standard_normal((900, 6))
    tall[:, 5] = tall[:, 0] + 1e-12 * tall[:, 5]
    ill = Rows.from_global(np.vstack([tall, -tall]))
    with messages(3 * (SIZE > 1)):  # Gram matrix, sketch, Gram matrix
        Q, R = ms.cholesky_qr(ill)
    assert np.abs(ms.gram(Q) - np.eye(6)).max() < 1e-14 and same_everywhere(R)
    with pytest.raises(RankDeficient):
        ms.cholesky_qr(Rows(np.ones((10, 2))))
    _, _, dependent = ms.cholesky_qr(Rows(np.ones((10, 2))), on_deficient="flag")
    assert dependent.tolist() == [False, True]


def check_bits() -> None:
    """The same on every rank and in every run; with blocks, whatever the number of ranks."""
    V = np.random.default_rng(5).standard_normal((500, 4))
    v = Rows.from_global(V)
    first = ms.gram(v)
    assert same_everywhere(first) and (ms.gram(v) == first).all()
    total, *others = WORLD.allgather(ms.gram(v.local))
    for one in others:
        total += one
    assert (first == total).all()  # in rank order
    alone, spread = (Rows.from_global(V, comm, blocks=64) for comm in (MPI.COMM_SELF, WORLD))
    for call in (ms.gram, lambda V: ms.linalg.qr(V).R, lambda V: ms.cholesky_qr(V)[1]):
        assert (call(alone) == call(spread)).all()
    assert (ms.cholesky_qr(alone)[0].local == ms.cholesky_qr(spread)[0].to_global()).all()


def check_messages() -> None:
    """One per pass: gram one, cholesky_qr two, products none; wide ones after the first, too."""
    v, S = Rows(np.random.default_rng(RANK).random((60, 8)) + np.eye(60, 8)), np.eye(8)
    for count, call in (
        (1, lambda: ms.gram(v)),
        (0, lambda: ms.matmul(v, S)),
        (1, lambda: ms.matmul_gram(v, S)),
        (2, lambda: ms.cholesky_qr(v)),
        (2, lambda: ms.project(v, v)),
    ):
        with messages(count if SIZE > 1 else 0):
            call()
    wide = Rows(np.ones((4, 100)))
    ms.gram(wide)  # longer than the room for payloads, which grows
    with messages(int(SIZE > 1)):
        assert (ms.gram(wide) == 4 * SIZE).all()
    later = later_gram(v)
    W = ms.matmul(v, S)
    assert (later.wait() == ms.gram(v)).all() and (W.local == v.local).all()


def check_room() -> None:
    """After many short messages the room for payloads shrinks on all ranks alike: a long one takes two, then one."""
    other = WORLD.Dup()
    comm, odd = Communicator.of(other), RANK == SIZE - 1
    long = np.random.default_rng(RANK).random(1024)
    every = np.array(WORLD.allgather(long))
    for _ in range(2 * QUIET):
        assert (comm.gather(np.array([RANK]), "short")[:, 0] == np.arange(SIZE)).all()
    assert len(set(WORLD.allgather(comm.room))) == 1 and comm.room < long.nbytes
    with pytest.raises(RanksDiffer, match=f"rank {SIZE - 1}.*other"):
        comm.agree("other" if odd else "this")
    with pytest.raises(ValueError if odd else RankError, match="xxx"), comm.call("a long text"):
        if odd:
            raise ValueError("x" * 2 * comm.room)
        comm.agree("this")
    for count in (2, 1):
        with messages(count, comm):
            assert (comm.gather(long, "long") == every).all()
    for one in [comm.start(np.full(n, RANK), "in flight") for n in (1, 3000, 2, 70000)]:
        assert (one.wait() == np.arange(SIZE)[:, None]).all()  # the room of each is that of its start
    v = Rows(np.ones((2, 32)), other)
    for _ in range(2 * QUIET):
        comm.agree("short")
    with messages(1, comm):
        assert (ms.gram(v) == 2 * SIZE).all()  # Rows have room for Gram matrices, whatever came before
    other.Free()


def check_disagreement() -> None:
    """Different dtypes, widths, options and calls raise on every rank, and name the rank that differs."""
    odd = RANK == SIZE - 1
    v = Rows(np.ones((5, 3)))
    for call, word in (
        (lambda: Rows(np.ones((5, 3), np.float32 if odd else np.float64)), "float32"),
        (lambda: Rows(np.ones((5, 4 if odd else 3))), "4 columns"),
        (lambda: Rows(np.ones((8, 3)), blocks=4 if odd else 8), "blocks=4"),
        (lambda: ms.gram(v, conj=not odd), "conj=False"),
        (lambda: ms.cholesky_qr(v, on_deficient="flag" if odd else "raise"), "flag"),
        (lambda: ms.gram(v) if odd else ms.linalg.qr(v), "gram"),
    ):
        with pytest.raises(RanksDiffer, match=f"rank {SIZE - 1}.*{word}") as caught:
            call()
        assert caught.value.rank == SIZE - 1
    assert (ms.gram(v) == 5 * SIZE).all()


def check_failures() -> None:
    """A rank that raises makes every rank raise; the next call works."""
    v, odd = Rows(np.ones((5, 3))), RANK == SIZE - 1
    for call, error in (
        (lambda: ms.cholesky_qr(v, shift="x" if odd else "auto"), ValueError),
        (lambda: ms.matmul_gram(v, np.ones((4 if odd else 3, 2))), ValueError),
        (lambda: Rows(np.ones(3) if odd else np.ones((2, 3))), ValueError),
        (lambda: (ms.matmul(v, np.ones((4 if odd else 3, 2))), ms.gram(v)), ValueError),  # without a message of its own
        (lambda: ms.gram(v, np.ones((5, 2))), TypeError),  # on all ranks
    ):
        with pytest.raises(error if odd or error is TypeError else RankError):
            call()
        assert (ms.gram(v) == 5 * SIZE).all()
    for columns in (8, 190):  # the Gram matrix under way fits into its message, or is continued in another one
        later = later_gram(Rows(np.ones((5, columns))))
        with pytest.raises(ValueError if odd else RankError):
            ms.matmul_gram(v, np.ones((4 if odd else 3, 2)))
        assert (later.wait() == 5 * SIZE).all() and (ms.gram(v) == 5 * SIZE).all()
    for call in (lambda: ms.matmul(v, v), lambda: ms.plan("gram", v), lambda: ms.linalg.svd(v)):
        with pytest.raises(TypeError, match=r"rows"):
            call()
    with pytest.raises(ValueError, match="redistribute"):
        ms.gram(v, v.redistribute([0] + [len(v)] * SIZE))
    with pytest.raises(TypeError, match="pickled"):
        COMM.__reduce__()


def check_moves() -> None:
    """Rows from one rank, to other ranks, and back; messages are split."""
    A = integers(57, 3)
    for piece in (sent.PIECE, 64):
        before, sent.PIECE = sent.PIECE, piece
        a = Rows.from_global(A if RANK == SIZE - 1 else None, root=SIZE - 1)
        assert (a.to_global() == A).all() and (ms.gram(a) == A.T @ A).all()
        offsets = sorted(np.random.default_rng(1).integers(0, 58, SIZE - 1).tolist())
        moved = a.redistribute([0, *offsets, 57])
        assert moved.offsets == (0, *offsets, 57) and (moved.to_global() == A).all()
        assert (moved.redistribute().local == a.local).all()
        assert COMM.gather(np.arange(2000.0), "a long one").shape == (SIZE, 2000)
        sent.PIECE = before
    with pytest.raises(ValueError, match="offsets"):
        a.redistribute([0, 1])
    assert "ranks" in a.explain() and "MPI" in a.explain() and f"rank {RANK}" in repr(a)


def check_costs() -> None:
    """What `papers.dong.rank_messages` measures: every call, and the slowest rank's seconds on all of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SIZES", (8, 16384)), ("CALLS", 1), ("BATCHES", 2), ("WARM", 1)):
            patch.setattr(rank_messages, name, value)
        rows = list(rank_messages.measure(COMM))
    assert [row["bytes"] for row in rows] == [8] * 6 + [16384] * 6 and {row["ranks"] for row in rows} == {SIZE}
    assert all(us > 0 for row in rows for us in row["us"]) and same_everywhere(np.array([row["us"] for row in rows]))


def check_halos() -> None:
    """Messages from rank to rank."""
    right, left, found = (RANK + 1) % SIZE, (RANK - 1) % SIZE, np.empty(10)
    COMM.exchange({right: np.full(10, float(RANK))}, {left: found}).wait()
    assert (found == left).all()


def check_freed() -> None:
    """A communicator that was freed too early says so."""
    other = WORLD.Dup()
    v = Rows(np.ones((2, 2)), other)
    assert Communicator.of(other) is v.comm
    other.Free()
    for call in (lambda: ms.gram(v), lambda: Rows(np.ones((2, 2)), other)):
        with pytest.raises(ValueError, match="freed"):
            call()
    with pytest.raises(TypeError, match="mpi4py"):
        Rows(np.ones((2, 2)), "world")


def check_batches() -> None:
    """Divided by work; results left where they are, or gathered."""
    random = np.random.default_rng(0)
    S, b = random.random((7, 4, 4)) + 4 * np.eye(4), random.random((7, 4, 2))
    s = batch(S)
    assert isinstance(s, Batch) and len(s) == 7 and len(s.local) == s.offsets[RANK + 1] - s.offsets[RANK]
    assert np.allclose(s.map(ms.linalg.solve, batch(b, like=s)).gather(), np.linalg.solve(S, b))
    Q, R = s.map(ms.linalg.qr)
    assert np.allclose(Q.gather() @ R.gather(), S) and np.allclose(s.map(ms.matmul, np.eye(4)).gather(), S)
    matrices = [random.random((n, n)) + n * np.eye(n) for n in (1, 2, 3, 4, 12)]
    for whole in (matrices, ms.Ragged.from_list(matrices), matrices[:1]):
        found = batch(whole).map(ms.linalg.inv).gather()
        assert all(np.allclose(one @ other, np.eye(len(one))) for one, other in zip(found, whole, strict=True))
    if SIZE == 2:
        assert batch(matrices).offsets == (0, 4, 5)
    S[-1] = 0
    with pytest.raises(np.linalg.LinAlgError if batch(S).offsets[RANK + 1] == 7 and len(s.local) else RankError):
        batch(S).map(ms.linalg.inv)


def check_torch() -> None:
    """Rows of PyTorch tensors; on one rank of two, since importing PyTorch takes longer than all else."""
    if SIZE != 2 or RANK:
        return
    torch = pytest.importorskip("torch")
    A = integers(30, 4)
    a = Rows.from_global(torch.from_numpy(A), MPI.COMM_SELF)
    G = ms.gram(a)
    assert isinstance(G, torch.Tensor) and (G.numpy() == A.T @ A).all()
    assert (ms.matmul(a, torch.eye(4, dtype=torch.float64)).to_global().numpy() == A).all()


def tensors() -> None:
    """Rows of PyTorch tensors on all ranks: results are tensors, exact on integers, with the bits of NumPy's arrays."""
    import torch

    A, S = integers(500, 4), integers(4, 4, 1)
    V = np.random.default_rng(5).standard_normal((500, 4))
    a, v = (Rows.from_global(torch.from_numpy(one), WORLD) for one in (A, V))
    small = torch.from_numpy(S)
    G = ms.gram(a)
    assert isinstance(G, torch.Tensor) and isinstance(a.local, torch.Tensor) and (G.numpy() == A.T @ A).all()
    W, H = ms.matmul_gram(a, small)
    assert (W.to_global().numpy() == A @ S).all() and (H.numpy() == (A @ S).T @ (A @ S)).all()
    moved = a.redistribute([0, *[7] * (SIZE - 1), 500])
    assert isinstance(moved.local, torch.Tensor) and (ms.gram(moved).numpy() == A.T @ A).all()
    arrays = Rows.from_global(V, WORLD)
    for call in (ms.cholesky_qr, ms.linalg.qr):
        (Q, R), (P, T) = call(v), call(arrays)
        assert isinstance(Q.local, torch.Tensor) and isinstance(R, torch.Tensor) and same_everywhere(R.numpy())
        assert np.array_equal(R.numpy(), T) and np.array_equal(Q.local.numpy(), P.local)
        assert np.abs(ms.gram(Q).numpy() - np.eye(4)).max() < 1e-14 and np.allclose((Q.to_global() @ R).numpy(), V)
    batches = batch(torch.from_numpy(np.stack([S + 9 * np.eye(4)] * 5)), WORLD)
    assert np.allclose(batches.map(ms.linalg.inv).gather().numpy() @ (S + 9 * np.eye(4)), np.eye(4))
    odd = RANK == SIZE - 1
    with pytest.raises(ValueError if odd else RankError):
        ms.matmul_gram(a, torch.ones((5 if odd else 4, 2), dtype=torch.float64))
    assert (ms.gram(a).numpy() == A.T @ A).all()


def long() -> None:
    """All rows of rank 0, 2^31 bytes and some more, move to the last rank: every number arrives at its place."""
    rows = (1 << 25) + 3  # of eight numbers: 2^31 + 192 bytes
    mine = np.arange(8.0 * rows if RANK == 0 else 0.0).reshape(-1, 8)
    v = Rows(mine, WORLD)
    del mine
    moved = v.redistribute([0] * SIZE + [rows])
    if RANK == SIZE - 1:
        assert moved.local.nbytes > 1 << 31
        for first in range(0, rows, 1 << 22):
            part = moved.local[first : first + (1 << 22)].reshape(-1)
            assert (part == np.arange(8.0 * first, 8.0 * first + part.size)).all(), first
    else:
        assert len(moved.local) == 0


def check_cupy() -> None:
    """Rows of CuPy arrays, several ranks on one GPU included; `explain` names the way that messages take."""
    try:
        cupy = import_module("cupy")
        cupy.cuda.Device().synchronize()
    except (ImportError, RuntimeError):
        return
    A, V = integers(5000, 4), np.random.default_rng(8).standard_normal((5000, 8))
    for blocks in (None, 512):
        a, v = (Rows.from_global(cupy.asarray(one), blocks=blocks) for one in (A, V))
        G = ms.gram(a)
        assert isinstance(G, cupy.ndarray) and (G.get() == A.T @ A).all() and same_everywhere(G.get())
        S = cupy.asarray(integers(4, 3))
        assert (ms.matmul(a, S).to_global().get() == A @ S.get()).all()
        W, G = ms.matmul_gram(a, S)
        assert (G.get() == (A @ S.get()).T @ (A @ S.get())).all() and isinstance(W.local, cupy.ndarray)
        for Q, R in (ms.cholesky_qr(v), ms.linalg.qr(v)):
            assert np.allclose(Q.to_global().get() @ R.get(), V) and np.abs(ms.gram(Q).get() - np.eye(8)).max() < 1e-13
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert (ms.gram(Rows.from_global(cupy.asarray(A))).get() == A.T @ A).all()
    assert "nccl" in a.explain() if SIZE == 1 else "pinned" in a.explain() or "MPI" in a.explain()


def check_transports() -> None:
    """NCCL where every rank has a GPU of its own, MPI where it takes device memory, pinned memory otherwise."""

    class Failure(Exception):
        pass

    def nccl(works: bool, form: type = bytes) -> Any:
        def made(size: int, name: Any, rank: int) -> Any:
            if not isinstance(name, form):
                raise TypeError
            if not works or bytes(name) != bytes(range(128)):
                raise Failure
            return SimpleNamespace(allGather=None)

        name = lambda: form(range(128))  # noqa: E731
        return SimpleNamespace(available=True, NcclError=Failure, get_unique_id=name, NcclCommunicator=made)

    def chosen(bus: str, library: Any) -> Any:
        sys.modules["cupy.cuda.nccl"] = library
        runtime = SimpleNamespace(deviceGetPCIBusId=lambda ordinal: bus)
        return transport.choose(COMM, SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), 0)

    for form in (bytes, tuple):  # of NCCL's id, in CuPy 14 and before
        own = chosen(f"0000:{RANK:02x}", nccl(True, form))
        assert own.name == "nccl" and own.gather is not None
    for bus, library, why in (
        ("0000:00", nccl(True), "share"),
        (f"0000:{RANK:02x}", nccl(RANK > 0), "failed"),
        (f"0000:{RANK:02x}", SimpleNamespace(available=RANK > 0), "not installed"),
    ):
        other = chosen(bus, library)
        assert other.name == "pinned host memory" and why in other.reason
    del sys.modules["cupy.cuda.nccl"]


def check_examples() -> None:
    """The examples of the docstrings, which hold for any number of ranks."""
    for name in ("answers", "rows", "batch", "sparse.call", "sparse.powers"):
        module = import_module(f"mansard.distributed.{name}")
        failures, tried = doctest.testmod(module)
        assert tried >= 3 and failures == 0


def check_page() -> None:
    """The examples of docs/distributed.md; that of Dask has a test of its own."""
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        if "dask" not in block:
            exec(compile(block, "distributed.md", "exec"), names)


def main(argument: str = "") -> None:
    """All checks, or a program with a fault."""
    v = Rows(np.ones((5, 3)))
    if argument == "kill" and RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if argument == "raise" and RANK == 1:
        raise RuntimeError("nobody catches this")
    if argument == "device":
        check_cupy()
        return print(COMM.explain(), dict(COMM.messages), flush=True)
    if argument in ("tensors", "long"):
        {"tensors": tensors, "long": long}[argument]()
        return print(f"{argument}: right on rank {RANK} of {SIZE}", flush=True)
    if argument:
        while True:
            ms.gram(v)
    checks: list[Callable[[], None]] = [one for name, one in globals().items() if name.startswith("check_")]
    for check in checks:
        check()
    if SIZE == 2:  # once more with kernels, of which few are compiled
        os.environ["MANSARD_BACKEND"] = "cpu"
        settings.reread()
        PLANS.forget()
        check_bits()
    if RANK == 0:
        print(f"{len(checks)} checks on {SIZE} ranks")


if __name__ == "__main__":
    main(*sys.argv[1:])
