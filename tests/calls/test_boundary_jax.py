"""JAX at the array boundary: every public function answers or refuses by name; so do tracers and sharded arrays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boundary_cases as cases
import numpy as np
import pytest
from boundary_cases import CASES, Case, given, parts
from conftest import needs_cpu

import mansard as ms

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = needs_cpu
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Numbers as NumPy has them, in the memory where NumPy has them, on machines with a GPU too."""
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def refused(call: Callable[[], Any], argument: str, what: str) -> None:
    """The call raises an error of ours that names the argument and says what is wrong with it."""
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    text = str(error.value)
    assert re.search(rf"\b{argument}\b", text, re.IGNORECASE), text
    assert re.search(what, text), text


@pytest.mark.parametrize("case", [case for case in CASES if case.jax], ids=lambda case: case.name)
def test_jax_arrays_give_what_numpy_arrays_give(case: Case) -> None:
    expected = parts(case.call(given(case, lambda array: array)))
    found = parts(case.call(given(case, jax.numpy.asarray)))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if not case.jax], ids=lambda case: case.name)
def test_where_jax_arrays_are_not_taken_they_are_refused(case: Case) -> None:
    if {"sparse.matrix", "matrix_powers"} & set(case.functions) and "A" in case.arrays:
        return  # the sparse matrix is SciPy's or PyTorch's
    with pytest.raises(TypeError, match=r"JAX|pass a NumPy or CuPy array"):
        case.call(given(case, jax.numpy.asarray))


TRANSFORMED: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "jit": lambda function, x: jax.jit(function)(x),
    "grad": lambda function, x: jax.grad(lambda y: function(y).sum())(x),
    "vmap": lambda function, x: jax.vmap(function)(jax.numpy.stack([x, x])),
    "eval_shape": lambda function, x: jax.eval_shape(function, x),
}


@pytest.mark.parametrize("transform", TRANSFORMED)
def test_tracers_are_refused_by_name_where_nothing_knows_them(transform: str) -> None:
    """What most functions answer is in tests/calls/frameworks."""
    x, run = jax.numpy.ones(30), TRANSFORMED[transform]
    refused(partial(run, lambda y: ms.cholesky_qr(y[:, None])[0], x), "V", "traced by JAX.*ms.linalg.qr")
    refused(partial(run, lambda y: ms.plan("gram", y[:, None]), x), "A", "traced by JAX")


def test_the_remedy_for_tracers_works() -> None:
    x = jax.numpy.asarray(cases.TALL)
    shape = jax.ShapeDtypeStruct((2, 2), x.dtype)
    found = jax.jit(lambda y: jax.pure_callback(lambda z: np.asarray(ms.gram(np.asarray(z))), shape, y))(x)
    np.testing.assert_allclose(found, cases.TALL.T @ cases.TALL, rtol=1e-12)


def test_arrays_without_values_or_of_other_dtypes() -> None:
    gone = jax.numpy.ones((50, 2))
    gone.delete()
    refused(lambda: ms.gram(gone), "A", "deleted or donated")
    refused(lambda: ms.linalg.inv(gone), "a", "deleted or donated")
    narrow = jax.numpy.ones((50, 2), "bfloat16")
    refused(lambda: ms.gram(narrow), "A", "bfloat16")
    refused(lambda: ms.linalg.lstsq(narrow, narrow), "a", "bfloat16")
    refused(lambda: ms.gram(jax.numpy.ones((50, 2), "float16")), "A", "float16")
    refused(lambda: ms.gram(jax.numpy.ones((50, 2), "int32")), "A", "int32")
    refused(lambda: ms.gram(jax.random.key(0)), "A", "random keys")
    refused(lambda: ms.plan("gram", jax.numpy.ones((50, 2))), "A", "numpy.asarray")
    refused(lambda: ms.Ragged.zeros([1], [1], like=jax.numpy.ones(2)), "like", "JAX")


def test_a_mask_of_libraries_is_refused() -> None:
    x = jax.numpy.ones((50, 2))
    refused(lambda: ms.gram(x, np.ones((50, 2))), "B", "convert one of them")
    refused(lambda: ms.matmul(np.ones((50, 2)), x.T), "B", "convert one of them")


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np, mansard as ms
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(np.array(jax.devices()), ("rows",))
x = jax.numpy.ones((50, 2), "float32")
for spec in (PartitionSpec("rows"), PartitionSpec()):
    try:
        ms.gram(jax.device_put(x, NamedSharding(mesh, spec)))
    except ValueError as error:
        print(error)
print(float(ms.gram(jax.device_put(x, jax.devices()[1]))[0, 0]))
"""


def test_arrays_on_several_devices_are_refused() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    *texts, value = done.stdout.splitlines()
    assert len(texts) == 2 and all("A is spread over 2 devices" in text and "device_put" in text for text in texts)
    assert float(value) == 50
