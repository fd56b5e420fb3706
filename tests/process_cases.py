"""Calls whose results other processes and other threads must give to the last bit, large enough for several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import mansard as ms

ROOT = Path(__file__).resolve().parent.parent
Calls = dict[str, Callable[[], Any]]


def calls(seed: int = 0) -> Calls:
    """One call of every kind of kernel that CPUs have, with operands and matrices of their own."""
    rng = np.random.default_rng(seed)
    tall, small = rng.standard_normal((9000, 4)), rng.standard_normal((4, 4))
    stack = rng.standard_normal((20000, 4, 4))
    positive = stack @ stack.swapaxes(1, 2) + 4 * np.eye(4)
    right = rng.standard_normal((20000, 4, 1))
    lower = np.tril(stack) + 4 * np.eye(4)
    grid = scipy.sparse.diags_array([-1.0, -1.0, 4.0, -1.0, -1.0], offsets=[-50, -1, 0, 1, 50], shape=(2500, 2500))
    grid.data *= rng.uniform(0.5, 1.5, grid.data.shape)
    vector, matrix = rng.standard_normal(2500), ms.sparse.matrix(grid)
    powers = ms.matrix_powers(grid, 3, output="last", order="search", execution="groups", columns=2)
    sizes = rng.integers(1, 20, (400, 3))
    left = ms.Ragged.from_list([rng.standard_normal((m, k)) for m, _, k in sizes])
    ragged = ms.Ragged.from_list([rng.standard_normal((k, n)) for _, n, k in sizes])
    together, out = ms.interleave(stack), np.ones((20000, 4, 4))

    def scaled(alpha: float) -> Any:
        return ms.matmul(stack, positive, out=out.copy(), alpha=alpha, beta=0.5)

    return {
        "gram": lambda: ms.gram(tall),
        "tall": lambda: ms.matmul(tall, small),
        "stack": lambda: ms.matmul(stack, positive),
        "scaled": lambda: scaled(2.0),
        "otherwise scaled": lambda: scaled(3.0),
        "gemv": lambda: ms.matmul(stack, right),
        "solve": lambda: ms.linalg.solve(positive, right),
        "cholesky": lambda: ms.linalg.cholesky(positive),
        "triangle": lambda: ms.linalg.solve_triangular(lower, right, lower=True),
        "sparse": lambda: matrix @ vector,
        "transposed": lambda: matrix.T @ vector,
        "powers": lambda: powers(np.stack([vector, vector], 1)),
        "ragged": lambda: np.concatenate([one.ravel() for one in ms.matmul(left, ragged)]),
        "interleaved": lambda: ms.matmul(together, together).buffer,
    }


def answers(made: Calls) -> dict[str, bytes]:
    return {name: np.asarray(call()).tobytes() for name, call in made.items()}


def run(script: str, seconds: float = 60, **environment: str) -> str:
    """The output of a script in a process of its own, which may import this module; one that hangs fails. Idle threads
    of its processes sleep: together they are more than the machine has cores."""
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_WAIT_POLICY": "passive"} | environment
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def of_seed(seed: int) -> dict[str, bytes]:
    """For processes that import what they run."""
    return answers(calls(seed))
