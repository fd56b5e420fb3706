"""Configuration -> the few lines of C++ that instantiate a kernel template.

The template lives in a real header; what is written here is the include, a `Params` struct of named constants, the
`Arguments` struct and one `extern "C"` entry. Constants come after the include so that the header part never varies.

This is the last place before a compiler. Configurations are checked where they are read (`kernels/common/fields.py`);
here, once more, nothing becomes text but integers, flags, identifiers and the few C++ types below.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..errors import IllegalConfig

# Fields of `Arguments` are eight bytes each, so that Python's packing and C++'s layout agree without padding rules.
_PACK = {"pointer": "Q", "integer": "q", "real": "d"}
CPP_TYPES = {
    "float32": "float",
    "float64": "double",
    "complex64": "mansard::Complex<float>",
    "complex128": "mansard::Complex<double>",
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER = re.compile(r"(kernels(/[a-z0-9_]+){2}|machine)/[a-z0-9_]+\.(cuh|hpp)")
_FIELD_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_:* ]{0,63}")  # const Params::T* const*
_MOST = 1 << 31  # constants are int


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
    """The text of one instantiation; `bounds` are the launch bounds (threads, blocks per multiprocessor). Raises
    IllegalConfig for whatever is no integer, flag, identifier or known type."""
    _check(title, header, function, types, arguments, bounds or (1, 1))
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


def _check(
    title: str,
    header: str,
    function: str,
    types: Mapping[str, str],
    arguments: tuple[Field, ...],
    bounds: tuple[int, int],
) -> None:
    names = (function, *types, *(field.name for field in arguments))
    texts_fit = (
        title.isprintable()
        and not title.endswith("\\")  # which would continue the comment
        and _HEADER.fullmatch(header)
        and all(map(_IDENTIFIER.fullmatch, names))
        and all(cpp in CPP_TYPES.values() for cpp in types.values())
        and all(_FIELD_TYPE.fullmatch(field.cpp) for field in arguments)
    )
    if not texts_fit or not all(_is_integer(bound) and bound > 0 for bound in bounds):
        raise IllegalConfig(f"{function!r}: its title, header, types, arguments or bounds cannot become C++ text")


def _constant(name: str, value: Any) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise IllegalConfig(f"{name!r} is no name of a constant")
    if isinstance(value, bool):
        return f"  static constexpr bool {name} = {str(value).lower()};"
    if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
        # an enumerator: the C++ enum carries the parameter's name in title case
        enum = "".join(word.capitalize() for word in name.split("_"))
        return f"  static constexpr mansard::{enum} {name} = mansard::{enum}::{value};"
    if not _is_integer(value):
        raise IllegalConfig(f"{name}={str(value)[:40]!r} is neither an integer of 32 bits nor a flag nor a name")
    return f"  static constexpr int {name} = {int(value)};"


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and -_MOST <= int(value) < _MOST


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
