"""The support matrix, by asking: each public operation is called, and planned, with each kind of operand.

Calls stop where a kernel would be compiled: by then every argument has been accepted. Libraries that are not
installed have no column.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from mansard.compile import cxx
from mansard.kernels import family_of
from mansard.operations import registry
from mansard.operations.sizes import Asked
from mansard.plan import dispatch
from mansard.plan.explain import NOMINAL
from mansard.plan.route import Kernel
from mansard.records import database

ORDERS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
DTYPES = ("float32", "float64", "complex64", "complex128")
COUNT = 40  # matrices of a stack
FORMS = ("matrix", "stack", "list", "ragged list", "`Ragged`", "`Interleaved`", "`out=`")
_YES, _NO = "yes", "–"
_RNG = np.random.default_rng(3)
_SQUARE = _RNG.standard_normal((COUNT, 3, 3))
POSITIVE = _SQUARE @ _SQUARE.swapaxes(1, 2) + 3 * np.eye(3)


class _Reached(BaseException):
    """A kernel would be compiled now."""


@contextmanager
def without_compiling() -> Iterator[None]:
    """Compiling ends the call; nothing comes from the cache."""

    def stop(*_: object, **__: object) -> None:
        raise _Reached

    from mansard import settings

    before, place = cxx.compile_cpu, os.environ.get("MANSARD_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MANSARD_CACHE_DIR"] = folder
        settings.reread()
        cxx.compile_cpu = stop  # type: ignore[assignment]
        try:
            yield
        finally:
            cxx.compile_cpu = before
            os.environ.pop("MANSARD_CACHE_DIR") if place is None else os.environ.update(MANSARD_CACHE_DIR=place)
            settings.reread()


def accepts(call: Callable[[], Any]) -> str:
    """Whether a call gets past its checks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except _Reached:
        return _YES
    except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError, KeyError):
        return _NO
    return _YES
