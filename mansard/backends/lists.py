"""The compiled loop over lists of NumPy arrays (`include/mansard/cpu/lists.hpp`): its text, and its launch."""

from __future__ import annotations

from ..codegen.geometry import Geometry, Kernel
from ..codegen.instantiate import WORKSPACE, Field, Source
from ..errors import MansardError
from ..notices import compiling
from . import cpu
from .base import Launch

_POINTERS = ("objects", "type", "dtype", "tables", "places", "report", "buffer", "one")
_INTEGERS = ("head", "dimensions", "item", "count", "task", "part")  # which differ from call to call: not of the kernel
_FIELDS = (
    *(Field(name, "void*", "pointer") for name in _POINTERS),
    *(Field(name, "long long", "integer") for name in _INTEGERS),
    *WORKSPACE,
)
_TEXT = """\
// lists of NumPy arrays
#include "mansard/cpu/lists.hpp"

struct Arguments {{
{fields}
}};

extern "C" int kernel(const Arguments* arguments) {{
  return mansard::run_list_task(*arguments);
}}
"""


def loop() -> Launch | None:
    """The launch, for pointers and integers in the order above; None where nothing can be compiled."""
    if cpu.unavailable() is not None:
        return None
    fields = "\n".join(f"  {field.cpp} {field.name};" for field in _FIELDS)
    source = Source("cpu", _TEXT.format(fields=fields), _FIELDS)
    try:
        with compiling("copies of lists"):
            return cpu.backend().prepare(Kernel(source, Geometry((1, 1, 1), 1), ()))
    except MansardError:
        return None
