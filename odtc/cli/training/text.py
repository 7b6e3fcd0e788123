"""`--tokenizer` and what goes with it: how text becomes samples of a step."""

import argparse
from pathlib import Path

from odtc.cli.switches import Switch
from odtc.core.errors import UsageError
from odtc.runtime_rpc.data.wanted import Text


def check_text(text: Text) -> None:
    """Checks that an option has something to be about.

    Raises:
        UsageError: there is no tokenizer that could have an end token.
    """
    if text.end_token and not text.tokenizer:
        raise UsageError("--end-token needs a tokenizer", hint="pass --tokenizer FILE")


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Text`."""
    add = parser.add_argument
    add(
        "--tokenizer",
        type=Path,
        metavar="JSON",
        help="tokenizer.json of the model, where the data is text: JSON lines with text, or prompt "
        "and completion, of which the completion alone is learned",
    )
    add("--end-token", metavar="TOKEN", help="put this token behind each document, such as '</s>'")
    add(
        "--pack",
        action=Switch,
        help="fill rows with documents one after the other (default: a document a row, filled up)",
    )
