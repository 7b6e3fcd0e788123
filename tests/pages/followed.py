"""Pages of the documentation whose commands and files are those of the tests."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from odtc.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)


def commands(text: str, serial: str = "SERIAL") -> Iterator[list[str]]:
    """The words of each command of a page, or of a section; its files are written meanwhile.

    Args:
        text: with blocks of `sh`, and blocks that name a file.
        serial: of the phone that the page calls SERIAL.
    """
    for block in _BLOCK.finditer(text):
        if block["file"]:
            Path(block["file"]).write_text(block["text"])
            continue
        assert block["kind"] == "sh"
        for line in block["text"].splitlines():
            yield shlex.split(line.replace("SERIAL", serial))


def follow(text: str, serial: str = "SERIAL") -> None:
    """Does what a page, or a section, says, in this folder."""
    for program, *words in commands(text, serial):
        if program == "odtc":
            assert main(words) == 0, words
        else:
            assert program == "python"
            _run(*words)


def _run(script: str, *words: str) -> None:
    """Does what `python SCRIPT` does, in this process: it has imported what takes seconds there."""
    here = Path.cwd()
    # Another page had other files of these names.
    for path in here.glob("*.py"):
        sys.modules.pop(path.stem, None)
    ours, paths = [script, *words], [str(here), *sys.path]
    with patch.object(sys, "argv", ours), patch.object(sys, "path", paths):
        runpy.run_path(script, run_name="__main__")
