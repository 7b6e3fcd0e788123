"""Pages of the documentation whose commands and files are those of the tests."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from odtc.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)
# As `python FILE`, but that torchvision can be imported, which PEFT does.
_SCRIPT = """
import runpy
import sys

from odtc.torch_export.torchvision_anyway import import_torchvision_anyway

import_torchvision_anyway()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


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
            subprocess.run([sys.executable, "-c", _SCRIPT, *words], check=True, timeout=300)
