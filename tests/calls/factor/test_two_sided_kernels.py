"""Chains of kernels behind `eigh` and `svd` on the emulator: chunks, layouts, drivers, tall matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import wanted
from exact_values import exact_singular_values
from linalg_cases import normal
from sparing import rotated
from two_sided_cases import KINDS, check_eigh, check_svd, general, hermitian

import mansard as ms
from mansard.backends.select import select
from mansard.kernels import family_of
from mansard.kernels.factor import jacobi
from mansard.operations import stacks
from mansard.operations.factor.two_sided import chunked, plan
from mansard.operations.factor.two_sided.chain import DIVIDED, links, methods, scratch
from mansard.operations.factor.two_sided.routes import too_few
from mansard.operations.factor.two_sided.task import PADDED, Task
from mansard.operations.plans import PLANS

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
N = 9  # rows: beyond one thread's registers, and cheap


def symmetric(count: int, dtype: str = "float64", n: int = N) -> Any:
    rng = np.random.default_rng(n)
    return np.stack([hermitian(rng, KINDS[i % len(KINDS)], n, dtype) for i in range(count)])


@pytest.fixture
def no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is small enough for a block of Jacobi's method per matrix."""
    monkeypatch.setattr(jacobi.defaults, "fewest_of_chains", lambda *_: 0)


def planned(task: Task, A: Any, backend: str | None = "emulated") -> Any:
    return plan.plan_two_sided(task, stacks.kind_of(A, "a"), A, backend)


@rotated(2)
@pytest.mark.usefixtures("no_blocks")
def test_results_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks, the last one shorter, give the bits of one."""
    A = symmetric(300)
    B = np.stack([general(np.random.default_rng(i), KINDS[i % len(KINDS)], N, N, "float64") for i in range(300)])
    whole = *linalg.eigh_ex(A, backend="emulated"), *linalg.svd_ex(B, backend="emulated")
    values = linalg.eigvalsh(A, backend="emulated"), linalg.svdvals(B, backend="emulated")
    PLANS.forget()
    monkeypatch.setattr(chunked, "SCRATCH", 1 << 10)
    assert len(planned(Task("eigh"), A).kernels.chains) == 3
    parts = *linalg.eigh_ex(A, backend="emulated"), *linalg.svd_ex(B, backend="emulated")
    for one, other in zip(parts, whole, strict=True):
        assert np.array_equal(one, other)
    again = linalg.eigvalsh(A, backend="emulated"), linalg.svdvals(B, backend="emulated")
    assert np.array_equal(again[0], values[0]) and np.array_equal(again[1], values[1])
    assert "3 chunks of up to 128 matrices" in ms.plan("eigh", A, backend="emulated").explain()


class Recorded:
    """Followers, and launches by the streams that they are queued on."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append("join")

    def follow(self, i: int) -> int:
        self.events.append(("follow", i))
        return i + 1

    def wait(self, i: int) -> None:
        self.events.append(("wait", i))


@pytest.mark.usefixtures("no_blocks")
@pytest.mark.parametrize("driver", ["auto", "qr"])
def test_chunks_in_flight(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks, two of them in flight, give the bits of one; what follows the reduction is on another stream, and
    scratch memory is used again when its chunk is done."""
    B = np.stack([general(np.random.default_rng(i), KINDS[i % len(KINDS)], N, N, "float64") for i in range(40)])
    whole = linalg.svd_ex(B, driver=driver, backend="emulated")
    assert planned(Task("svd"), B).kernels.flights == 1
    PLANS.forget()
    monkeypatch.setattr(chunked, "SCRATCH", 1 << 10)
    monkeypatch.setattr(chunked, "_WHOLE", 16)
    monkeypatch.setattr(chunked, "flights_of", lambda *_: 2)
    kernels = planned(Task("svd", driver=driver), B).kernels
    assert kernels.flights == 2 and kernels.scratch_bytes == 2 * kernels.chains[0].scratch.size
    assert "2 of them in flight" in kernels.description
    for one, other in zip(linalg.svd_ex(B, driver=driver, backend="emulated"), whole, strict=True):
        assert np.array_equal(one, other)
    recorded, scratch = Recorded(), kernels.chains[0].scratch.offsets
    monkeypatch.setattr(chunked, "followers", lambda *_: recorded)
    monkeypatch.setattr(chunked, "_run", lambda steps, at, stream: recorded.events.append(
        (stream, *(step.problem.operation for step in steps), min(at[name] for name in scratch))))  # fmt: skip
    kernels(B)
    filling = ("bidiagonal",) if driver == "qr" else ("bidiagonal", "divide")
    behind = ("sweeps",) * (2 if driver == "qr" else 1) + ("back_transform",) * 2
    places = [event[-1] for event in recorded.events if event[0] == 0]
    assert places[0] == places[2] != places[1]
    expected: list[Any] = []
    for i, place in zip((0, 1, 0), places, strict=True):
        expected += [("wait", i), (0, *filling, place), ("follow", i), (i + 1, *behind, place)]
    assert recorded.events == [*expected, "join"]


def test_graphs_keep_their_scratch_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is captured leaves its scratch memory to the graph; what it is given beside other calls is theirs."""
    A = symmetric(5)
    kernels = planned(Task("eigvalsh"), A).kernels
    kernels(A)
    assert not kernels._captured
    monkeypatch.setattr(chunked, "is_capturing", lambda *_: True)
    kernels(A)
    kernels(A, 0, [])
    assert [one.nbytes for one in kernels._captured] == [kernels.scratch_bytes]


def test_large_matrices_have_chunks_in_flight() -> None:
    """Where each chunk has a matrix for every multiprocessor, and only with vectors by rotations."""
    flights, svd = chunked.flights_of, Task("svd", driver="bisect")
    assert [flights(svd, 256, count, 132) for count in (1, 263, 264, 400, 5000)] == [1, 1, 2, 3, 4]
    assert flights(svd, 128, 5000, 132) == 1 and flights(Task("svdvals", driver="qr"), 256, 5000, 132) == 1
    assert (
        flights(Task("eigh", driver="qr"), 512, 300, 132) == 2
        and flights(Task("eigh", driver="divide"), 512, 300, 132) == 1
    )


@pytest.mark.parametrize("driver", ["qr", "divide", "bisect"])
@pytest.mark.parametrize("want", ["eigh", "eigvalsh", "svd", "svdvals", "tridiagonalize", "bidiagonalize"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_every_pointer_of_a_chain_has_an_array(want: str, dtype: str, driver: str) -> None:
    """A result of the task, or scratch that an earlier launch writes; phases exist for complex matrices alone."""
    if driver != "qr" and (want not in DIVIDED or (driver, want) == ("divide", "svd")):
        return
    task = Task(want, driver=driver)
    chain = links(task, dtype, 12, 100, {})
    known = {"A", "INFO", "", *task.parts, *scratch(task, chain, dtype, 12, 100).offsets}
    assert all(set(link.arrays) <= known for link in chain)
    phases = {name for link in chain for name in link.arrays if name.startswith("PHASE")}
    assert bool(phases) == (dtype == "complex128" and want in ("eigh", "svd", "tridiagonalize", "bidiagonalize"))
    for link in chain:
        spec: Any = family_of(link.problem.operation).spec
        assert len(link.arrays) == len(spec.POINTERS)
    larger = scratch(task, links(task, dtype, 12, 200, {}), dtype, 12, 200).size
    assert larger <= 2.1 * scratch(task, chain, dtype, 12, 100).size


def test_pinned_panels_have_an_array_to_work_in() -> None:
    """Small matrices stay in registers; by panels they need memory even where no reflectors are wanted."""
    A = symmetric(3, n=13)
    with ms.pin(VARIANT="panels"):
        chain = planned(Task("bidiagonal", driver="qr"), A).kernels.chains[0]
        assert "U_REFLECTORS" in chain.steps[0].arrays and chain.scratch.size >= A.nbytes
        assert "V_REFLECTORS" in links(Task("eigvalsh", driver="qr"), "float64", 13, 3, {})[0].arrays
        d, e = linalg.bidiagonalize(A, compute_uv=False, backend="emulated")
    B = np.stack([np.diag(one) + np.diag(other, 1) for one, other in zip(d, e, strict=True)])
    assert np.allclose(np.linalg.norm(B, axis=(1, 2)), np.linalg.norm(A, axis=(1, 2)), rtol=1e-14)


def test_layouts() -> None:
    """Kernels read strided stacks as they lie; what has no single step is copied."""
    A = symmetric(6)
    apart = np.full((6, N + 2, 2 * N), np.nan)[:, 1:-1, ::2]
    apart[...] = A
    grid = A.reshape(2, 3, N, N).swapaxes(0, 1)
    w = linalg.eigvalsh(A, backend="emulated")
    for one, copied in ((A, False), (apart, False), (A.swapaxes(-1, -2), False), (A[::-1], True), (grid, True),
                        (list(A), True)):  # fmt: skip
        found = planned(Task("eigvalsh"), one)
        assert found.kernels.layout.copied == copied
        values = np.asarray(linalg.eigvalsh(one, backend="emulated"))
        order = np.argsort(np.asarray(values)[..., 0].ravel()), np.argsort(w[:, 0])
        assert np.allclose(values.reshape(6, N)[order[0]], w[order[1]], rtol=1e-12, atol=1e-12)
    U = np.triu(A) + np.tril(np.full_like(A, np.nan), -1)
    check_eigh(A, *linalg.eigh(U, "U", backend="emulated"), "upper")


def test_drivers_choose_the_method() -> None:
    small = symmetric(5, n=6)
    for driver, family in (("auto", "jacobi"), ("jacobi", "jacobi"), ("qr", "tridiagonal")):
        found = planned(Task("eigh", driver=driver), small)
        assert found.kernels.chains[0].steps[0].problem.operation == family
        check_eigh(small, *linalg.eigh(small, driver=driver, backend="emulated"), driver)
    A = symmetric(len(KINDS), n=2)  # the smallest that reductions take
    check_eigh(A, *linalg.eigh(A, driver="qr", backend="emulated"), 2)
    B = np.stack([general(np.random.default_rng(3), kind, 2, 2, "float64") for kind in KINDS])
    check_svd(B, *linalg.svd(B, driver="qr", backend="emulated"), 2)
    assert [task.driver for task in methods(Task("svd"), "complex64", 8, False)] == ["qr"]
    assert [task.driver for task in methods(Task("svd"), "float64", 8, False)] == ["jacobi", "qr"]
    assert [task.driver for task in methods(Task("svd"), "float64", 128, True)] == ["lanes"]
    assert [task.driver for task in methods(Task("svd", driver="jacobi"), "float64", 16, True)] == ["jacobi"]
    assert [task.driver for task in methods(Task("eigh"), "float64", 16, False, few=True)] == ["divide", "qr"]
    assert [task.driver for task in methods(Task("svd"), "float64", 16, False, few=True)] == ["bisect", "qr"]
    both = {name: methods(Task("svd", driver=name), "float64", 16, False, True, True) for name in ("auto", PADDED)}
    assert [task.driver for task in both["auto"]] == ["jacobi", "bisect", "qr"]
    assert [task.driver for task in both[PADDED]] == ["bisect", "qr"]
    assert [task.driver for task in methods(Task("eigh"), "float64", 129, False, few=True)] == ["bisect", "qr"]
    assert [task.driver for task in methods(Task("eigh", driver="qr"), "float64", 16, False, few=True)] == ["qr"]
    assert [task.driver for task in methods(Task("svd", driver="qr"), "float64", 1, False)] == ["jacobi"]


def test_small_batches_of_singular_vectors_take_a_block_each() -> None:
    """Up to so many matrices that a chain is as fast, and as many rows as shared memory holds."""
    chain = ["bidiagonal", "divide", "sweeps", *2 * ["back_transform"]]
    for n, batch, operations in ((9, 40, ["jacobi"]), (119, 2, chain)):
        kernels = planned(Task("svd"), np.zeros((batch, n, n))).kernels
        assert [step.problem.operation for step in kernels.chains[0].steps] == operations
    fewest, device = jacobi.defaults.fewest_of_chains, select(("cpu", 0), "emulated").device
    most = fewest("svd", "float64", 9, device)
    assert planned(Task("svd"), np.zeros((most - 1, 9, 9))).kernels.chains[0].steps[0].problem.operation == "jacobi"
    assert planned(Task("svd"), np.zeros((most, 9, 9))).kernels.chains[0].steps[0].problem.operation == "bidiagonal"
    others = (("svd", 8), ("svd", 119), ("svdvals", 9), ("eigh", 9))
    assert not any(fewest(want, "float64", n, device) for want, n in others)
    B = np.stack([general(np.random.default_rng(5), kind, N, N, "float64") for kind in KINDS])
    check_svd(B, *linalg.svd(B, backend="emulated"), N)


def test_jacobi_finds_small_values_of_graded_columns() -> None:
    """A = B D: values have small relative errors, of whatever size they are."""
    rng = np.random.default_rng(7)
    for n in (12, 33):
        A = rng.standard_normal((3, n, n)) * np.logspace(0, -12, n)
        exact = exact_singular_values(A)
        for vectors in (True, False):
            s = linalg.svd(A, compute_uv=vectors, driver="jacobi", backend="emulated")
            found = s[1] if vectors else s
            assert (np.abs(found / exact - 1) < 1e-13 * n).all(), np.abs(found / exact - 1).max()


def test_tall_matrices_become_square() -> None:
    """Kernels take square matrices: R, whatever the shape, and then a product."""
    for rows, columns in ((10, 9), (9, 10)):
        A = normal(np.random.default_rng(5), (4, rows, columns), "float64")
        assert planned(Task("svd"), A).shape.name == ("triangle" if rows > columns else "adjoint")
        check_svd(A, *linalg.svd(A, False, backend="emulated"), (rows, columns))


def test_few_large_matrices_are_a_librarys() -> None:
    """An iteration takes as long for one matrix as for many; up to 128 rows it is short enough."""
    assert "no more than 7 of 256 rows" in str(too_few(Task("eigh"), 256, 7)) and not too_few(Task("eigh"), 256, 8)
    assert too_few(Task("svd"), 256, 1) and not too_few(Task("svd"), 256, 2) and not too_few(Task("svd"), 128, 1)
    assert not too_few(Task("bidiagonalize"), 256, 1) and not too_few(Task("eigh", driver="qr"), 256, 1)


def test_who_answers_is_said() -> None:
    A = symmetric(40)
    text = ms.plan("eigh", A, backend="emulated", driver="qr").explain()
    assert "a thread per matrix iterates" in text and "step 4 of 4: back_transform" in text
    text = ms.plan("eigh", A, backend="emulated").explain()
    assert "40 matrices" in text and "divide and conquer by a block each" in text
    assert "step 3 of 3: back_transform" in text
    assert "multisection by a block each" in ms.plan("svdvals", A, backend="emulated").explain()
    text = ms.plan("svd", A, backend="emulated").explain()
    assert "40 matrices of 9 rows: a block each rotates pairs of columns" in text and "VARIANT=block" in text
    text = ms.plan("svd", np.zeros((2, 120, 120)), backend="emulated").explain()
    assert "values are shifts of a thread per matrix" in text and "step 2 of 5: divide" in text
    assert "step 1 of 1: jacobi" in ms.plan("eigvalsh", symmetric(40, n=3), backend="emulated").explain()
    large = ms.plan("eigh", np.zeros((2, 513, 513)), backend="emulated").explain()
    assert "N=513 is not between 2 and 512" in large and "LAPACK" in large
    panels = ms.plan("eigvalsh", np.zeros((2, 130, 130)), backend="emulated").explain()
    assert "130 rows, more than registers hold: by panels" in panels and "VARIANT=panels" in panels
    with ms.pin(VARIANT="vendor"):
        assert "vendor's routine was pinned" in ms.plan("eigh", A, backend="emulated").explain()
    assert "the reference was asked for" in ms.plan("svd", A, backend="reference").explain()


def test_tensors_and_gradients_on_kernels() -> None:
    torch = wanted("torch")
    A = torch.from_numpy(symmetric(4))
    w, z = linalg.eigh(A, backend="emulated")
    assert type(z) is torch.Tensor
    check_eigh(A.numpy(), w.numpy(), z.numpy(), "tensors")
    w = linalg.eigh(A.requires_grad_(), backend="emulated")[0]
    w.sum().backward()  # the trace
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    torch.testing.assert_close(A.grad, eye.expand(A.shape), rtol=0, atol=1e-13)
