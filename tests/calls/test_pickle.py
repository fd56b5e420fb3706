"""Pickling: batches, sparse matrices, plans, powers and errors come back with the same bits and without addresses."""

from __future__ import annotations

import copy
import pickle
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from conftest import needs_cpu
from process_cases import run, sparse

import mansard as ms
from mansard import errors
from mansard.backends import cuda
from mansard.operations import recipes as alike

_on_gpus = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")
Again = Callable[[Any], Any]


def _over_odd_buffers(one: Any) -> Any:
    """Arrays of the result lie in memory that somebody else has, and begin anywhere."""
    buffers: list[Any] = []
    text = pickle.dumps(one, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[memoryview(bytearray(b"x" * 3 + bytes(part.raw())))[3:] for part in buffers])


ROUNDS: dict[str, Again] = {
    **{f"protocol {p}": lambda one, p=p: pickle.loads(pickle.dumps(one, p)) for p in (2, 5)},
    "odd buffers": _over_odd_buffers,
    "deepcopy": copy.deepcopy,
}
rounds = pytest.mark.parametrize("again", ROUNDS.values(), ids=ROUNDS)


def _stack(count: int = 5, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((count, 4, 4))


def same(one: Any, other: Any) -> bool:
    return bool(np.asarray(one).tobytes() == np.asarray(other).tobytes())


@needs_cpu
@rounds
def test_ragged(again: Again) -> None:
    rng = np.random.default_rng(1)
    r = ms.Ragged.from_list([rng.standard_normal((m, 3)) for m in (2, 0, 5)])
    expected = ms.matmul(r, np.ones((3, 2)))
    found = again(r)
    assert found.shapes == r.shapes and found._kind is r._kind and found.buffer is not r.buffer
    assert all(map(same, ms.matmul(found, np.ones((3, 2))), expected))
    both = again((r, r[1:], ms.Ragged.empty_like(r)))
    assert both[0].layout is both[2].layout  # what was one stays one
    assert both[1].buffer is both[0].buffer or again is _over_odd_buffers
    assert all(map(same, both[1], r[1:]))


@needs_cpu
@rounds
def test_interleaved(again: Again) -> None:
    x = ms.interleave(_stack())
    found = again(x)
    assert repr(found) == repr(x) and found.buffer is not x.buffer
    assert same(ms.deinterleave(ms.matmul(found, found)), ms.deinterleave(ms.matmul(x, x)))


@needs_cpu
@rounds
@pytest.mark.parametrize("options", [{}, {"format": "csr"}, {"format": "ell"}, {"index": "delta16"}], ids=str)
def test_sparse_matrices(again: Again, options: dict[str, Any]) -> None:
    made = scipy.sparse.random_array((300, 200), density=0.05, rng=np.random.default_rng(2))
    A, x, y = ms.sparse.matrix(made, **options), np.arange(200.0), np.arange(300.0)
    for first in (A, A.T, A.H.T, A.T.T.H):
        vector = x if first.shape[1] == 200 else y
        found = again(first)
        assert repr(found) == repr(first) and found.shape == first.shape
        assert same(found @ vector, first @ vector) and same(found.T @ (first @ vector), first.T @ (first @ vector))
    one, other = again((A, A.T))
    assert one._sides is other._sides
    assert same(one.with_values(2 * made.tocsr().data) @ x, A.with_values(2 * made.tocsr().data) @ x)


@needs_cpu
@rounds
def test_conjugates_of_sparse_matrices(again: Again) -> None:
    A = ms.sparse.matrix(scipy.sparse.csr_array(np.array([[1 + 2j, 0], [3j, 4 - 1j]])))
    x = np.array([1.0 + 1j, 2.0])
    assert all(same(again(one) @ x, one @ x) for one in (A, A.T, A.H, A.H.T, A.H.H))


@needs_cpu
@rounds
@pytest.mark.parametrize("execution", ["groups", "plain", None])
def test_powers(again: Again, execution: str | None) -> None:
    A, x = sparse(side=20).matrix, np.random.default_rng(3).standard_normal((400, 2))
    P = sparse(side=20).powers if execution == "groups" else ms.matrix_powers(A, 3, execution=execution)
    x = x if execution == "groups" else x[:, 0].copy()
    found = again(P)
    assert found.explain() == P.explain() and same(found(x), P(x))
    doubled = 2 * A.to_scipy().data
    assert same(found.with_values(doubled)(x), P.with_values(doubled)(x))
    none = ms.matrix_powers(A, 0)
    assert same(again(none)(x[:, 0] if x.ndim == 2 else x), none(x[:, 0] if x.ndim == 2 else x))


# ---- plans ----------------------------------------------------------------------------------------------------------

LOWER = np.tril(_stack(5, 4)) + 4 * np.eye(4)
POSITIVE = _stack() @ _stack().swapaxes(1, 2) + 4 * np.eye(4)
OPERANDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gram": ("gram", {"A": np.ones((50, 4))}, {}),
    "gram of columns, out": ("gram", {"A": np.ones((4, 50)).T, "out": np.zeros((4, 4))}, {"conj": False}),
    "gram backwards": ("gram", {"A": np.arange(200.0).reshape(50, 4)[::-1]}, {}),
    "tsmm": ("tsmm", {"A": np.ones((50, 4)), "B": np.ones((4, 4))}, {}),
    "gemm": ("gemm", {"A": _stack(), "B": _stack()}, {}),
    "gemm of lists": ("gemm", {"A": list(_stack()), "B": list(_stack(5, 1))}, {}),
    "broadcast": ("gemm", {"A": _stack(), "B": np.broadcast_to(_stack(1), (5, 4, 4))}, {}),
    "gemv": ("gemv", {"A": _stack(), "B": np.ones((5, 4))}, {"trans": "N"}),
    "trsm in place": ("trsm", {"A": LOWER, "B": _stack()}, {"uplo": "L"}),
    "trmm": ("trmm", {"A": LOWER, "B": _stack()}, {"uplo": "L"}),
    "cholesky": ("cholesky", {"A": POSITIVE}, {}),
    "solve": ("lu", {"A": POSITIVE, "B": np.ones((5, 4, 1))}, {"want": "solve"}),
}


@needs_cpu
@pytest.mark.parametrize("name", OPERANDS)
def test_plans(name: str) -> None:
    operation, operands, options = OPERANDS[name]

    def given() -> dict[str, Any]:
        place = {"B": operands["B"].copy()} if name.endswith("in place") else {}
        return operands | place | ({"out": place["B"]} if place else {})

    plan = ms.plan(operation, **given(), **options)
    for again in (ROUNDS["protocol 5"], copy.deepcopy):
        found = again(plan)
        assert (found.problem, found.source(), found.kernel) == (plan.problem, plan.source(), plan.kernel)
        assert found.choice == plan.choice and type(found) is type(plan) and found.run is not plan.run
        first, *others = (one(**given()) for one in (plan, found, again(found)))
        for other in others:
            assert all(map(same, first, other)) and len(first) == len(other)


@needs_cpu
def test_plans_of_sparse_products() -> None:
    A, x = sparse(side=20).matrix, np.arange(400.0)
    for plan in (A.plan(x), A.T.plan(x, np.empty(400))):
        found = ROUNDS["protocol 5"](plan)
        assert found.source() == plan.source() and same(found(x), plan(x))


@needs_cpu
def test_plans_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    A = torch.arange(200.0).to(torch.complex128).reshape(4, 50).T.conj()
    plan = ms.plan("gram", A[3:])
    found = ROUNDS["protocol 5"](plan)
    assert found.problem == plan.problem and same(found(A[3:]), plan(A[3:]))


@needs_cpu
def test_plans_keep_their_pins() -> None:
    with ms.pin(VARIANT="vendor"):
        plan = ms.plan("gram", np.ones((50, 4)))
    found = ROUNDS["protocol 5"](plan)
    assert found.choice == plan.choice and found.choice.origin == "pinned"


def test_plans_of_the_library_itself_say_that_they_do_not_pickle() -> None:
    from mansard.operations.tall_skinny.gram import plan_gram

    with pytest.raises(TypeError, match=r"ms\.plan"):
        pickle.dumps(plan_gram(np.ones((50, 4)), None, None, None))


def test_described_operands_come_back_alike() -> None:
    """Signatures, overlaps and identities are those of the operands; addresses are not in it."""
    from mansard.arrays.kinds import KINDS

    base = np.zeros(400)
    A, kind = base[3:203].reshape(20, 10), KINDS["numpy"]
    operands = {"A": A[::-2, 1:9:3], "B": A, "out": A, "rows": [row := A[0], A[1], row], "none": None}
    operands["B"].flags.writeable = False
    described = alike.describe(**operands)
    made = pickle.loads(pickle.dumps(described)).allocate()
    assert len(described.blocks) == 1 and made["B"] is made["out"] and made["rows"][0] is made["rows"][2]
    assert all(kind.signature(made[name]) == kind.signature(operands[name]) for name in ("A", "B"))
    assert made["A"].ctypes.data - made["B"].ctypes.data == operands["A"].ctypes.data - A.ctypes.data
    assert made["none"] is None and all(abs(one.offset) < 4000 for one in described.arrays)
    assert alike.describe(A=np.zeros((3, 0)), B=base).allocate()["A"].shape == (3, 0)


# ---- errors, and other processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [errors.CompileError("g++", "log", "int x;"), errors.RankDeficient("column 3", 3), errors.CudaAfterFork(),
     errors.LaunchError("status 1"), errors.UnsupportedProblem("no"), errors.BackendUnavailable("none")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_errors(error: Exception) -> None:
    """A pool passes on what its workers raise by pickling it."""
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)


@needs_cpu
def test_a_spawned_pool_takes_and_returns_them() -> None:
    script = """
    import multiprocessing
    import numpy as np, mansard as ms
    from process_cases import bits_of, sparse

    if __name__ == "__main__":
        stack, x = np.random.default_rng(0).standard_normal((5, 4, 4)), np.arange(400.0)
        grid = sparse(side=20)
        given = [
            ms.Ragged.from_list(list(stack)), ms.interleave(stack), grid.matrix, grid.matrix.H, grid.powers,
            ms.plan("gemm", stack, stack), grid.matrix.plan(x),
        ]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.map(bits_of, given)
            back = pool.map(bits_of, [one for one, _ in found])
        print([one == bits_of(first)[1] == again for first, (_, one), (_, again) in zip(given, found, back)])
    """
    assert run(textwrap.dedent(script)).strip() == str([True] * 7)


@_on_gpus
def test_on_a_gpu() -> None:
    """CuPy's arrays by CuPy's pickling, where they were."""
    cp = pytest.importorskip("cupy")
    stack, x = cp.asarray(_stack()), cp.arange(400.0)
    again = ROUNDS["protocol 5"]
    r, inter = ms.Ragged.from_list(list(stack)), ms.interleave(stack)
    assert same(ms.matmul(again(r), r).buffer.get(), ms.matmul(r, r).buffer.get())
    # lanes past the last matrix are never written
    assert same(ms.deinterleave(ms.matmul(again(inter), inter)).get(), ms.deinterleave(ms.matmul(inter, inter)).get())
    host = sparse(side=20).matrix.to_scipy()
    A = ms.sparse.matrix(ms.sparse.matrix(host).to_cupy())
    P = ms.matrix_powers(A, 3)
    for first in (A, A.T):
        assert same((again(first) @ x).get(), (first @ x).get())
    assert same(again(P)(x).get(), P(x).get())
    for plan, given in ((ms.plan("gemm", stack, stack), (stack, stack)), (A.plan(x), (x,))):
        found = again(plan)
        assert found.problem == plan.problem and same(found(*given).get(), plan(*given).get())
