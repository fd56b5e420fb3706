"""Kernels of papers that the library does not have: their text from a header of this folder, launches, and clocks.

A header has one function `NAME<Params>(arguments)`; constants become `Params`, arguments a structure.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from mansard.codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source

ITEM = {"float32": 4, "float64": 8}
_NO_SCALARS = (1.0, 0.0, 0.0, 0.0)  # alpha and beta, which these kernels do not have


def pointers(dtype: str, reads: str = "", writes: str = "") -> tuple[Field, ...]:
    """Arguments of one letter each that are read, then those that are written."""
    made = [Field(name, f"const {CPP_TYPES[dtype]}*", "pointer") for name in reads]
    return (*made, *(Field(name, f"{CPP_TYPES[dtype]}*", "pointer") for name in writes))


@dataclass(frozen=True)
class Text:
    """What the text of a kernel is made of: `NAME<Params>(arguments)` of a header, its constants and arguments."""

    header: Path
    entry: str
    dtype: str
    constants: Mapping[str, Any]
    arrays: tuple[Field, ...]
    numbers: tuple[str, ...]
    threads: int
    blocks_per_sm: int = 1

    def source(self, target: str) -> Source:
        integers = (Field(name, "mansard::i64", "integer") for name in self.numbers)
        arguments = (*self.arrays, *WORKSPACE, *integers, *SCALARS)
        lines = [
            self.header.read_text(), "struct Params {", f"  using T = {CPP_TYPES[self.dtype]};",
            *(f"  static constexpr {_constant(name, value)};" for name, value in self.constants.items()),
            "};", "struct Arguments {", *(f"  {field.cpp} {field.name};" for field in arguments), "};",
            f'extern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks_per_sm})',
            "kernel(const __grid_constant__ Arguments arguments) {",
            f"  mansard::{self.entry}<Params>(arguments);", "}",
        ]  # fmt: skip
        if target == "emulated":
            lines.append("MANSARD_EMULATED_ENTRY(kernel, Arguments)")
        return Source(target, "\n".join(lines) + "\n", arguments)


def _constant(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"auto {name} = mansard::{value}"  # an enumerator
    return f"{'bool' if isinstance(value, bool) else 'int'} {name} = {int(value)}"


def address(array: Any) -> int:
    return int(array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data)


def launched(launch: Any, arrays: Iterable[Any], stream: int = 0) -> None:
    """Launch a prepared kernel on these arrays."""
    launch(tuple(address(array) for array in arrays), _NO_SCALARS, stream)


def timed(launch: Any, arrays: Sequence[Any], samples: int = 5, calls: int = 3) -> list[float]:
    """Seconds of a prepared kernel on CuPy's current stream."""
    import cupy

    return seconds(partial(launched, launch, arrays, cupy.cuda.get_current_stream().ptr), samples, calls)


def seconds(run: Callable[[], Any], samples: int = 5, calls: int = 3) -> list[float]:
    """Seconds of a call on the GPU, by events around several of them; one call before the first sample."""
    import cupy

    run()
    found = []
    for _ in range(samples):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        found.append(float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3 / calls)
    return found


class Rows:
    """A file of rows, one JSON object a line, each with the device, the date and the median of its seconds."""

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device = path, device
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **row: Any) -> None:
        row |= {"median": statistics.median(row["seconds"])} if row.get("seconds") else {}
        row |= {"device": self.device, "date": date.today().isoformat()}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
