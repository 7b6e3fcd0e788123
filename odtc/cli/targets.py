"""`odtc targets`: what odtc compiles for."""

import argparse

from odtc.cli.console import aligned, emit, emit_json
from odtc.cli.options import add_json_option
from odtc.core.errors import ExitCode


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "targets",
        help="list the targets",
        description="Lists what odtc compiles for, and why it cannot where it cannot.",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the targets."""
    from odtc.backends.targets import targets

    if args.json:
        emit_json(
            {
                "targets": [
                    {
                        "name": target.name,
                        "description": target.description,
                        "available": target.available_from is None,
                        "reason": target.available_from,
                    }
                    for target in targets()
                ]
            }
        )
    else:
        emit(*aligned((t.name, t.available_from or "available", t.description) for t in targets()))
    return ExitCode.OK
