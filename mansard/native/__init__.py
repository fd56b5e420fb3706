"""The native launcher: a small extension module of Python that runs warm calls without Python code.

It is compiled once, like a kernel, by the system's C++ compiler against Python's headers, and lies in the cache of
compiled kernels. Where it cannot be had, `unavailable` says why, and Python runs the calls as ever. What it does is in
`calls.hpp`; what it is told, in `mansard.operations.launcher`.
"""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, Protocol

from .. import forks, notices, settings
from ..compile import cxx
from ..errors import MansardError

_NAME = "mansard_launcher"  # of the function that initialises the module
_TEXT = '#include "native/module.hpp"\n'


class Module(Protocol):
    """The functions of the extension module; `module.hpp` says what each takes and gives."""

    call: Callable[..., Any]
    quick: Callable[..., Any]
    enter: Callable[[tuple[Any, ...], tuple[Any, ...], dict[str, Any]], Any]
    make_run: Callable[[tuple[Any, ...]], Any]
    bind: Callable[[tuple[Any, ...], Any], Any]
    again: Callable[[Any, Any], Any]
    attach: Callable[..., None]
    serve: Callable[..., None]
    know: Callable[[type, int], None]
    set_dtypes: Callable[..., None]
    set_torch: Callable[..., bool]
    describe: Callable[[Any], tuple[Any, ...] | None]
    is_zero: Callable[[Any], bool | None]
    wants_gradient: Callable[[tuple[Any, ...]], bool]
    set_fetch: Callable[..., None]
    forget: Callable[[], None]
    size: Callable[[], int]
    lose_cuda: Callable[[], None]


def unavailable() -> str | None:
    """Why calls are launched by Python, or None where the launcher can be had, compiled or from the cache."""
    if not settings.current().native_launcher:
        return "MANSARD_LAUNCHER=python asks for Python's"
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this interpreter is no CPython with a global lock, which the launcher relies on"
    reason = cxx.unavailable()
    if reason or is_cached():
        return reason
    if not (_headers() / "Python.h").is_file():
        remedy = "install Python's headers (apt install python3-dev, dnf install python3-devel)"
        return f"no Python.h in {_headers()}: {remedy}"
    return cxx.available()


def state() -> str:
    """Who launches calls in a process like this one, for people."""
    reason = unavailable()
    if reason:
        return f"Python ({reason})"
    return "the native launcher" + ("" if is_cached() else ", compiled when it is first needed")


def is_cached() -> bool:
    """Whether the cache holds the launcher for this interpreter, so that loading it takes milliseconds."""
    return cxx.is_extension_cached(_TEXT, _abi())


def load() -> Module:
    """The module, compiled where the cache has none; raises an error of Mansard's, or ImportError, if that fails."""
    with notices.compiling("the launcher of calls"):
        entry = cxx.compile_extension(_TEXT, _abi(), _headers())
    loader = ExtensionFileLoader(_NAME, str(entry.binary))
    spec = spec_from_loader(_NAME, loader)
    if spec is None:
        raise MansardError(f"{entry.binary} is no module that Python loads")
    with forks.postponed():
        module: Any = module_from_spec(spec)
        loader.exec_module(module)
    return module  # type: ignore[no-any-return]


def _abi() -> str:
    return str(sysconfig.get_config_var("SOABI") or f"cpython-{sysconfig.get_python_version()}").replace("-", "_")


def _headers() -> Path:
    return Path(sysconfig.get_paths()["include"])
