"""The command `mansard`: info, bench, tune, report, explain. Each command lives beside what it shows."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

# command -> (module with add_arguments and run, one line of help)
COMMANDS = {
    "info": ("mansard.model.info", "what is here, what is missing, and this device's measured ceilings"),
    "bench": ("mansard.bench.command", "measure a family against the device's limit and its peers"),
    "tune": ("mansard.tune.command", "measure configurations on this device and remember the best"),
    "report": ("mansard.bench.report", "write the report of results that were measured before"),
    "explain": ("mansard.plan.explain", "which kernel a problem gets here, why, and what limits it"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="mansard", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name in arguments[:1]:  # the others are not needed, and importing them takes time
            import_module(module).add_arguments(command)
    chosen = parser.parse_args(arguments)
    try:
        return int(import_module(COMMANDS[chosen.command][0]).run(chosen) or 0)
    except KeyboardInterrupt:
        print("interrupted; what was measured so far is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (`| head`) has seen enough
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
