"""Examples of docstrings as tests: `--quick` skips a test whose example compiles, as it skips other tests."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

import pytest


class _Runner(doctest.DocTestRunner):
    def report_unexpected_exception(
        self, out: Callable[[str], Any], test: doctest.DocTest, example: doctest.Example,
        exc_info: tuple[type[BaseException], BaseException, TracebackType],
    ) -> None:  # fmt: skip
        if isinstance(exc_info[1], pytest.skip.Exception):
            raise exc_info[1]
        super().report_unexpected_exception(out, test, example, exc_info)


def run(thing: Any, name: str | None = None) -> tuple[int, int]:
    """Examples of a module, or of one function or class: how many failed, and how many were tried."""
    is_module = isinstance(thing, ModuleType)
    runner = _Runner()
    for test in doctest.DocTestFinder(recurse=is_module).find(thing, name, globs=None if is_module else {}):
        runner.run(test)
    return runner.failures, runner.tries
