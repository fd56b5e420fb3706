"""Threads: several of them at once get the bits that one gets alone, from the first call on."""

from __future__ import annotations

import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from process_cases import run, sparse

import mansard as ms


@needs_cpu
def test_eight_threads_give_the_bits_of_one() -> None:
    """1000 calls each, of all kinds in an order of its own, with operands of its own and a sparse matrix and powers for
    all; the first calls, which plan, load and allocate, are made by all threads at once."""
    script = """
    import sys, threading
    import numpy as np
    from process_cases import answers, calls, sparse

    sys.setswitchinterval(1e-5)
    common, start, wrong, done = sparse(side=20), threading.Barrier(8), [], []
    made = [calls(seed, 40, common) for seed in range(8)]
    found = [[] for _ in made]

    def work(own):
        names = np.random.default_rng(own).permutation(list(made[own]))
        start.wait()
        for i in range(1000):
            name = str(names[i % len(names)])
            found[own].append((name, np.asarray(made[own][name]()).tobytes()))
        done.append(own)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own, one in enumerate(made):
        expected = answers(one)
        wrong += [name for name, bits in found[own] if bits != expected[name]]
    print(sorted(done), sorted(set(wrong)))
    """
    assert run(textwrap.dedent(script)).strip() == f"{list(range(8))} []"


@needs_cpu
def test_eight_threads_compile_a_kernel_once(tmp_path: Path) -> None:
    script = """
    import threading
    import numpy as np, mansard as ms
    from mansard.compile import cxx

    built, real, start, found = [], cxx.forks.run, threading.Barrier(8), []
    def counting(command, **options):
        if "-o" in command: built.append(command)
        return real(command, **options)
    cxx.forks.run = counting
    A = np.arange(30.0).reshape(10, 3)
    def work():
        start.wait()
        found.append(bool((ms.gram(A) == A.T @ A).all()))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(built), found)
    """
    found = run(textwrap.dedent(script), MANSARD_CACHE_DIR=str(tmp_path), MANSARD_LAUNCHER="python")
    assert found.strip() == f"1 {[True] * 8}"


def _at_once(*work: Any) -> None:
    """In a thread each; exceptions are raised here."""
    errors: list[BaseException] = []

    def caught(one: Any) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caught, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


class _Interrupted(float):
    """A number that another thread's call comes between when it is compared."""

    between: Any = None

    def __ne__(self, other: object) -> bool:
        if isinstance(other, _Interrupted) and self.between is not None:
            _at_once(self.between)
        return float(self) != other


@needs_cpu
def test_another_threads_factors_are_not_taken() -> None:
    """The last factors are remembered with what they mean to the kernel; between the look at the former and the use of
    the latter another thread may have put its own there."""
    A, out = np.ones((2, 4, 4)), np.zeros((2, 4, 4))
    plan, beta = ms.plan("gemm", A, A, out=out), _Interrupted(0.5)
    plan(A, A, out, 2.0, beta)
    beta.between = lambda: plan(A, A, np.zeros_like(A), 3.0, 0.5)
    assert (plan(A, A, np.zeros_like(A), 2.0, beta) == 8.0).all()


@needs_cpu
def test_powers_have_a_space_for_each_thread() -> None:
    """Two threads in the same plan: each is stopped where its vectors lie in the plan's work space."""
    powers = sparse(side=20).powers
    one, other = (np.random.default_rng(seed).standard_normal((400, 2)) for seed in range(2))
    expected, meet, launch = (powers(one), powers(other)), threading.Barrier(2), powers._runner.launch

    def stopped(pointers: Any, scalars: Any, stream: int) -> None:
        meet.wait(60)  # both have brought x to the matrix' order
        launch(pointers, scalars, stream)

    powers._runner.launch = stopped
    found: dict[int, Any] = {}
    _at_once(*(lambda i=i, x=x: found.update({i: powers(x)}) for i, x in enumerate((one, other))))
    assert all(np.array_equal(found[i], expected[i]) for i in range(2))


def test_threads_that_meet_a_library_first_agree_on_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from mansard.arrays import kinds as arrays

    made, meet, found = arrays._MAKERS["torch"], threading.Barrier(2), []

    def together() -> Any:
        meet.wait(60)
        return made()

    monkeypatch.setattr(arrays, "KINDS", {"numpy": arrays.KINDS["numpy"]})
    monkeypatch.setattr(arrays, "_BY_TYPE", {})
    monkeypatch.setitem(arrays._MAKERS, "torch", together)
    _at_once(*[lambda: found.append(arrays.kind_of(torch.ones(1), "A"))] * 2)
    assert found[0] is found[1] is arrays.kind_of(torch.ones(1), "A")


@needs_cpu
def test_ragged_solves_of_two_threads_use_their_own_tables() -> None:
    """The same layout of A and of the result, and right-hand sides that lie otherwise: what was made for one of them
    must not serve the other, who came between. Launches per size are those of GPUs."""
    squares, buffer = [np.eye(2) * n for n in (2, 3, 4)], np.arange(40.0)
    A = ms.Ragged.from_list(squares)

    def solved(offsets: list[int]) -> None:
        b, out = ms.Ragged(buffer, [2, 2, 2], 1, offsets), ms.Ragged.empty([2, 2, 2], 1)
        for _ in range(20):
            found = ms.linalg.solve(A, b, out=out, backend="emulated")
            assert all(np.allclose(a @ x, y) for a, x, y in zip(squares, found, b, strict=True))

    solved([1, 3, 5])  # kernels are compiled
    _at_once(lambda: solved([0, 2, 5]), lambda: solved([20, 30, 10]))
