"""Calls whose results other processes and other threads must give to the last bit, large enough for several threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import mansard as ms

ROOT = Path(__file__).resolve().parents[2]
Calls = dict[str, Callable[[], Any]]


class Sparse(NamedTuple):
    """A sparse matrix, and its powers with two vectors, in an order of their own."""

    matrix: Any
    powers: Any


def sparse(seed: int = 0, side: int = 50) -> Sparse:
    """Five points on a square grid, with random coefficients."""
    size, rng = side * side, np.random.default_rng(seed)
    grid = scipy.sparse.diags_array([-1.0, -1.0, 4.0, -1.0, -1.0], offsets=[-side, -1, 0, 1, side], shape=(size, size))
    grid.data *= rng.uniform(0.5, 1.5, grid.data.shape)
    options: dict[str, Any] = {"output": "last", "order": "search", "execution": "groups", "columns": 2}
    return Sparse(ms.sparse.matrix(grid), ms.matrix_powers(grid, 3, **options))


def calls(seed: int = 0, count: int = 20000, common: Sparse | None = None) -> Calls:
    """One call of every kind of kernel that CPUs have, with operands of their own; `common` is for all."""
    rng = np.random.default_rng(seed)
    tall, small = rng.standard_normal((count // 2, 4)), rng.standard_normal((4, 4))
    stack = rng.standard_normal((count, 4, 4))
    positive = stack @ stack.swapaxes(1, 2) + 4 * np.eye(4)
    right, out = rng.standard_normal((count, 4, 1)), np.ones((count, 4, 4))
    lower = np.tril(stack) + 4 * np.eye(4)
    matrix, powers = common or sparse(seed)
    vectors = rng.standard_normal((matrix.shape[0], 2))
    sizes = np.random.default_rng(0).integers(1, 20, (min(count, 400), 3))
    left = ms.Ragged.from_list([rng.standard_normal((m, k)) for m, _, k in sizes])
    ragged = ms.Ragged.from_list([rng.standard_normal((k, n)) for _, n, k in sizes])
    together = ms.interleave(stack)

    def scaled() -> Any:
        return ms.matmul(stack, positive, out=out.copy(), alpha=2.0 + seed, beta=0.5)

    return {
        "gram": lambda: ms.gram(tall),
        "tall": lambda: ms.matmul(tall, small),
        "stack": lambda: ms.matmul(stack, positive),
        "scaled": scaled,
        "gemv": lambda: ms.matmul(stack, right),
        "solve": lambda: ms.linalg.solve(positive, right),
        "cholesky": lambda: ms.linalg.cholesky(positive),
        "triangle": lambda: ms.linalg.solve_triangular(lower, right, lower=True),
        "sparse": lambda: matrix @ vectors[:, 0],
        "transposed": lambda: matrix.T @ vectors[:, 0],
        "powers": lambda: powers(vectors),
        "ragged": lambda: np.concatenate([one.ravel() for one in ms.matmul(left, ragged)]),
        "interleaved": lambda: ms.matmul(together, together).buffer,
    }


def answers(made: Calls) -> dict[str, bytes]:
    return {name: np.asarray(call()).tobytes() for name, call in made.items()}


def run(script: str, seconds: float = 100, **environment: str) -> str:
    """The output of a script in a process of its own, which may import this module; one that hangs fails. Idle threads
    of its processes sleep: together they are more than the machine has cores."""
    places = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "cases")))
    env = os.environ | {"PYTHONPATH": places, "OMP_WAIT_POLICY": "passive"} | environment
    command = [sys.executable, "-c", script]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, start_new_session=True, **pipes) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too
            raise
    assert process.returncode == 0, output + errors
    return str(output)


def of_seed(seed: int) -> dict[str, bytes]:
    """For processes that import what they run."""
    return answers(calls(seed))


def bits_of(one: Any) -> tuple[Any, bytes]:
    """Whatever can be pickled, and the bits of a call with it."""
    stack, x = np.random.default_rng(0).standard_normal((5, 4, 4)), np.arange(400.0)
    if isinstance(one, ms.Ragged | ms.Interleaved):
        found = ms.matmul(one, stack[0]).buffer
    elif hasattr(one, "problem"):
        given = {"gemm": (stack, stack), "powers": (np.stack([x, x], 1),), "spmv": (x,)}
        found = one(*given[one.problem.operation])
    else:
        found = one @ x
    return one, np.asarray(found).tobytes()
