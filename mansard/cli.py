"""Kernels for tall-skinny products, batches of small matrices and sparse powers: look, measure, tune, explain."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

from . import __version__
from .errors import IllegalConfig, MansardWarning, UnsupportedProblem, UsageError, known_text
from .options import near
from .untrusted import Damaged

# command -> (module with add_arguments and run, one line of help)
COMMANDS = {
    "info": ("mansard.machine.info", "show what is here and what is missing; measure this device's ceilings"),
    "bench": ("mansard.bench.command", "measure operations against the device's limit and its peers"),
    "tune": ("mansard.tune.command", "measure configurations on this device and remember the best"),
    "report": ("mansard.bench.report", "write the report of results that were measured before"),
    "precompile": ("mansard.operations.precompile_command", "compile the kernels of recorded problems ahead"),
    "explain": ("mansard.operations.command", "say which kernel a problem gets here, why, and what limits it"),
}
_TRACEBACK = "show where an error comes from"


class Parser(argparse.ArgumentParser):
    """argparse, with errors in one line that name the nearest word to a mistyped one."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice:
            message += near(choice[1], [word.strip("' ") for word in choice[2].split(",")])
        self.exit(2, f"mansard: error: {message}\n`{self.prog} --help` lists what can be asked for\n")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status: 2 for a wrong command line, 1 for what failed, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings(), _without_notices():
        warnings.showwarning = _warn
        try:
            status = _run(arguments)
            sys.stdout.flush()
            return status
        except KeyboardInterrupt:
            print("mansard: interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:  # the reader of our output (`| head`) has seen enough
            _discard_output()
            return 0
        except Exception as error:
            text = None if "--traceback" in arguments else known_text(error)
            if text is None:
                raise
            print(f"mansard: error: {text}", file=sys.stderr)
            return 2 if isinstance(error, UsageError | UnsupportedProblem | IllegalConfig | Damaged) else 1


@contextmanager
def _without_notices() -> Iterator[None]:
    """Commands have a progress of their own: they do not mention compilations."""
    logger = logging.getLogger("mansard")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run(arguments: list[str]) -> int:
    parser = Parser(prog="mansard", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mansard {__version__}")
    parser.add_argument("--traceback", action="store_true", help=_TRACEBACK)
    commands = parser.add_subparsers(dest="command", metavar="command")
    named = next((word for word in arguments if not word.startswith("-")), None)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == named:  # the others are not needed, and importing them takes time
            import_module(module).add_arguments(command)
            command.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=_TRACEBACK)
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help(sys.stderr)
        return 2
    return int(import_module(COMMANDS[chosen.command][0]).run(chosen) or 0)


def _discard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter complains when it ends."""
    with suppress(OSError, ValueError, AttributeError):  # no file behind sys.stdout, as in notebooks
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning of ours is for whoever typed the command; others name the line they come from."""
    ours = issubclass(category, MansardWarning)
    print(f"mansard: warning: {message}" if ours else f"{filename}:{lineno}: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
