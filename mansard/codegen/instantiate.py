"""Configuration -> the few lines of C++ that instantiate a kernel template.

The template lives in a real header; what is written here is the include, a `Params` struct of named constants, the
`Arguments` struct and one `extern "C"` entry. Constants come after the include so that the header part never varies.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Fields of `Arguments` are eight bytes each, so that Python's packing and C++'s layout agree without padding rules.
_PACK = {"pointer": "Q", "integer": "q", "real": "d"}
CPP_TYPES = {
    "float32": "float",
    "float64": "double",
    "complex64": "mansard::Complex<float>",
    "complex128": "mansard::Complex<double>",
}


@dataclass(frozen=True)
class Field:
    """One member of `Arguments`: its C++ type, and how Python packs it."""

    name: str
    cpp: str
    kind: str  # pointer | integer | real


# What every family's `Arguments` end with: scratch (see Geometry), and alpha and beta.
WORKSPACE = (Field("partials", "void*", "pointer"), Field("counters", "mansard::u32*", "pointer"))
SCALARS = tuple(Field(name, "double", "real") for name in ("alpha_re", "alpha_im", "beta_re", "beta_im"))


@dataclass(frozen=True)
class Source:
    """A kernel's text for one target, ready to compile, and the shape of its `Arguments`."""

    target: str  # cuda | cpu | emulated
    text: str
    arguments: tuple[Field, ...]
    cooperative: bool = False

    @property
    def packing(self) -> struct.Struct:
        return struct.Struct("=" + "".join(_PACK[field.kind] for field in self.arguments))


def instantiate(
    *,
    title: str,
    header: str,
    function: str,
    target: str,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    arguments: tuple[Field, ...],
    bounds: tuple[int, int] | None = None,
    cooperative: bool = False,
) -> Source:
    """The text of one instantiation; `bounds` are the launch bounds (threads, blocks per multiprocessor)."""
    lines = [
        f"// {title}",
        f"// written by Mansard from {header}; edit the template, not this file",
        f'#include "{header}"',
        "",
        "struct Params {",
        *(f"  using {name} = {cpp};" for name, cpp in types.items()),
        *(_constant(name, value) for name, value in constants.items()),
        "};",
        "",
        "struct Arguments {",
        *(f"  {field.cpp} {field.name};" for field in arguments),
        "};",
        "",
        *_entry(function, target, bounds),
    ]
    return Source(target, "\n".join(lines) + "\n", arguments, cooperative)


def _constant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"  static constexpr bool {name} = {str(value).lower()};"
    if isinstance(value, str):  # an enumerator: the C++ enum carries the parameter's name in title case
        enum = "".join(word.capitalize() for word in name.split("_"))
        return f"  static constexpr mansard::{enum} {name} = mansard::{enum}::{value};"
    return f"  static constexpr int {name} = {value};"


def _entry(function: str, target: str, bounds: tuple[int, int] | None) -> list[str]:
    if target == "cpu":
        return [
            'extern "C" int kernel(const Arguments* arguments) {',
            f"  return mansard::{function}<Params>(*arguments);",
            "}",
        ]
    assert bounds is not None, "a GPU kernel states its launch bounds"
    entry = [
        f'extern "C" __global__ void __launch_bounds__({bounds[0]}, {bounds[1]})',
        "kernel(const __grid_constant__ Arguments arguments) {",
        f"  mansard::{function}<Params>(arguments);",
        "}",
    ]
    return entry + (["MANSARD_EMULATED_ENTRY(kernel, Arguments)"] if target == "emulated" else [])
