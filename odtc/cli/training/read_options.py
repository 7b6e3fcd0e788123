"""How files are read, where there are several ways: text, and images that are broken."""

import argparse
from pathlib import Path

from odtc.cli.switches import Switch
from odtc.core.errors import UsageError
from odtc.runtime_rpc.data.wanted import ReadOptions


def check_read_options(options: ReadOptions) -> None:
    """Checks that an option has something to be about.

    Raises:
        UsageError: there is no tokenizer that could have an end token.
    """
    if options.end_token and not options.tokenizer:
        raise UsageError("--end-token needs a tokenizer", hint="pass --tokenizer FILE")


def add_read_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ReadOptions`."""
    add = parser.add_argument
    add(
        "--tokenizer",
        type=Path,
        metavar="JSON",
        help="tokenizer.json of the model, for text data: JSON lines with text, or with prompt "
        "and completion, of which only the completion is learned",
    )
    add("--end-token", metavar="TOKEN", help="append this token to each document, such as '</s>'")
    add(
        "--pack",
        action=Switch,
        help="fill rows with several documents one after the other (default: one document per "
        "row, padded)",
    )
    add(
        "--skip-broken",
        action=Switch,
        help="skip images that cannot be read, with a note that names them (default: stop with "
        "an error)",
    )
