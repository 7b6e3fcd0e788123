"""The `odtc` command: its parser, and the one place where errors become text and an exit code.

Data goes to stdout; progress, notes and errors go to stderr. Nothing heavy is imported here, so
that `odtc --help` answers at once: each command imports what it needs when it runs.
"""

import argparse
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from odtc.cli import completion
from odtc.cli.compiling import cache, compile, opt, pack, plan, targets
from odtc.cli.config import init, show
from odtc.cli.config.apply import add_config_options, take_options
from odtc.cli.console import (
    ReaderGoneError,
    abandon,
    flush,
    hold,
    print_error,
    say,
    say_held,
    writing,
)
from odtc.cli.empty_words import check_filled
from odtc.cli.idle import idle_notes
from odtc.cli.interrupts import StopRequest, held, interruption
from odtc.cli.last_resort import second_request_ends
from odtc.cli.measuring import bench, compare, db, profile, report, sweep, tune
from odtc.cli.model import adapt, check, export, export_app, generate, inspect, predict
from odtc.cli.old_names import by_new_names
from odtc.cli.phones import device, devices
from odtc.cli.repeated import repeated_notes
from odtc.cli.switches import Help
from odtc.cli.training import train
from odtc.cli.unknown import unknown_beside, unknown_options
from odtc.core.disk.files import disk_full, disk_is_full
from odtc.core.errors import ExitCode, OdtcError, UsageError, error_kinds
from odtc.core.options.option_text import did_you_mean
from odtc.core.process.missing_packages import missing_package
from odtc.core.process.without_torch import leave_out_torch
from odtc.core.version import VERSION

COMMANDS = (
    *(
        compile,
        train,
        predict,
        generate,
        inspect,
        check,
        export,
        export_app,
        adapt,
        plan,
        profile,
        sweep,
    ),
    *(
        tune,
        db,
        compare,
        bench,
        report,
        pack,
        targets,
        opt,
        cache,
        devices,
        device,
        init,
        show,
        completion,
    ),
)

TRACEBACK = "ODTC_TRACEBACK"

_OTHER_CODES = {
    ExitCode.OK: "Success.",
    ExitCode.INTERNAL: "An internal error of odtc.",
    ExitCode.HUNG_UP: "Hung up: the terminal is gone (SIGHUP).",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C.",
    ExitCode.READER_GONE: "Nothing reads the output any more, as after `| head` (SIGPIPE).",
    ExitCode.TERMINATED: "Terminated (SIGTERM).",
}


# What argparse says of a word that is none of some.
_INVALID = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are odtc's own, and whose options are not abbreviated."""

    def __init__(self, **options) -> None:
        options.setdefault("formatter_class", Help)
        super().__init__(allow_abbrev=False, **options)
        self._words: Sequence[str] = ()

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[override]
        """What argparse reads; its words are kept, for what is said of those that are missing."""
        self._words = args or ()
        return super().parse_known_args(args, namespace)

    def _print_message(self, message, file=None) -> None:
        """Writes help and version; argparse would not tell that nobody reads them."""
        if file is not None:
            with writing():
                file.write(message)

    def error(self, message: str) -> NoReturn:
        """Raises what argparse would print.

        Raises:
            UsageError: always.
        """
        near = _INVALID.search(message)
        known = re.findall(r"'([^']*)'", near["known"]) if near else ()
        hint = did_you_mean(near["given"], known) if near else ""
        if "required" in message:
            hint = unknown_beside(self, self._words)
        raise UsageError(message, hint=f"{hint}`{self.prog} --help` shows what is available")


def exit_codes() -> dict[ExitCode, str]:
    """Every exit code with what it means: the first line of its error's docstring."""
    kinds = {kind.exit_code: (kind.__doc__ or "") for kind in error_kinds()}
    return {code: (kinds | _OTHER_CODES)[code].splitlines()[0] for code in ExitCode}


def build_parser() -> Parser:
    """The parser of the whole command line."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in exit_codes().items())
    parser = Parser(
        prog="odtc",
        description="Compile an ONNX model into a training step for phones, and run it.",
        epilog=f"exit codes:\n{codes}",
    )
    parser.add_argument("--version", action="version", version=f"odtc {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in COMMANDS:
        command.add_parser(subparsers)
    add_config_options(parser)
    # For commands that tell of all others.
    parser.set_defaults(parser=parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: the arguments; those of the process if None.

    Returns:
        The exit code.
    """
    # To find the folder, Python writes a file there and removes it: nothing may come in between.
    with held(), suppress(OSError):
        tempfile.gettempdir()
    asked = StopRequest()
    try:
        with interruption(at_once=True, asked=asked):
            return _reported(argv, asked)
    except KeyboardInterrupt as error:  # it came while handlers were put into their places
        return _report(error, asked)


def _reported(argv: Sequence[str] | None, asked: StopRequest) -> int:
    """Runs the command; what ends it becomes text and an exit code."""
    try:
        with second_request_ends():
            code = _run(argv)
            flush()
            return code
    except BaseException as error:
        # A Ctrl-C that TVM's C++ was in the way of comes out as an error of another class.
        return _report(KeyboardInterrupt() if asked.number else error, asked)


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        parser = build_parser()
        check_filled(words)
        words, notes = by_new_names(parser, words)
        notes += repeated_notes(parser, words)
        taken = take_options(parser, words)
        args, unknown = parser.parse_known_args(words)
    except SystemExit as done:  # argparse printed the help or the version
        return int(done.code or 0)
    if unknown:
        raise unknown_options(parser, args.command, unknown)
    for line in (*(f"note: {note}" for note in notes), *taken.said()):
        say(line)
    hold(f"note: {note}" for note in idle_notes(args))
    leave_out_torch()
    with warnings.catch_warnings():
        # What a file lost, and which cores are idle, is among the notes, here.
        warnings.filterwarnings("ignore", message="compile: ")
        warnings.filterwarnings("ignore", message="trainer: ")
        warnings.filterwarnings("ignore", message="load: ")
        code = args.run(args)
    say_held()
    return code


def _report(error: BaseException, asked: StopRequest) -> int:
    """Says what went wrong, and gives the exit code for it."""
    if isinstance(error, OSError) and disk_is_full(error):
        abandon(sys.stdout)
        error = disk_full(error)
    if isinstance(error, ModuleNotFoundError):
        error = missing_package(error) or error
    match error:
        case OdtcError():
            print_error(str(error))
            return error.exit_code
        case KeyboardInterrupt():
            say(asked.word)
            return asked.code
        case ReaderGoneError():
            return ExitCode.READER_GONE
        case MemoryError():
            print_error(
                "out of memory\n  hint: use a smaller --batch, or a machine with more memory"
            )
            return ExitCode.INTERNAL
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    text = " ".join(str(error).split())
    print_error(
        f"{type(error).__name__}: {text}\n  hint: set {TRACEBACK}=1 to see the traceback",
        label="internal error",
    )
    return ExitCode.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
