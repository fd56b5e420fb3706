"""What XLA calls back: a function of Mansard's runs on XLA's buffers, and writes its results into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...arrays.cupy import stream_at

# (results to fill, operands, options)
Host = Callable[..., None]


def run(host: Host, options: dict[str, Any], context: Any, results: Sequence[Any], operands: Sequence[Any]) -> None:
    """Fill `results` on the stream that XLA computes on; buffers of a CPU or a GPU are used where they are."""
    buffers = [*results, *operands]
    if hasattr(buffers[0], "__dlpack_device__") and buffers[0].__dlpack_device__()[0] == _CPU:
        fill(host, options, [np.from_dlpack(one) for one in results], [np.from_dlpack(one) for one in operands])
        return
    import cupy

    views = [cupy.asarray(one) for one in buffers]
    with views[0].device, stream_at(cupy, context.stream):
        fill(host, options, views[: len(results)], views[len(results) :])


_CPU = 1  # DLPack's number of the device


def fill(host: Host, options: dict[str, Any], results: Sequence[Any], operands: Sequence[Any]) -> None:
    """Run on NumPy or CuPy arrays. What has no result is NaN: nothing can be raised inside a compiled program."""
    try:
        with np.errstate(all="ignore"):  # nobody reads a warning from a thread of XLA
            host(results, *operands, **options)
    except np.linalg.LinAlgError:
        for one in results:
            one[...] = np.nan if one.dtype.kind in "fc" else 0


def pure(host: Host, options: dict[str, Any], shapes: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """New NumPy arrays with the results; for versions of JAX that lend no buffers."""
    results = [np.empty(one.shape, one.dtype) for one in shapes]
    fill(host, options, results, [np.asarray(one) for one in operands])
    return results


def copied(results: Sequence[Any], found: Any) -> None:
    """Copy what a function without `out=` returned into the results."""
    for one, value in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
        one[...] = value


def on_gpu(array: Any) -> bool:
    return not isinstance(array, np.ndarray)


def masked(array: Any, info: Any) -> Any:
    """The results of a stack with NaN where `info` is not 0; nothing waits for a GPU."""
    module = import_module("cupy") if on_gpu(array) else np
    return module.where(info[..., None, None] == 0, array, array.dtype.type(np.nan))
