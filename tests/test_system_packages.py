"""`make setup` installs each program that the stand-in for a phone, and its tests, need."""

import re
from pathlib import Path

from odtc.runtime_rpc.standin import tools

_MAKEFILE = Path(__file__).parents[1] / "Makefile"
# Debian's own, without which nothing is installed.
_THERE = {"apt-get", "dpkg-deb"}


def test_the_stand_ins_tools_are_installed() -> None:
    found = re.search(r"^SYSTEM := (.*?[^\\])$", _MAKEFILE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    installed = dict(each.split("=", 1) for each in found[1].replace("\\\n", " ").split())
    commands = {Path(command).name: package for package, command in installed.items()}
    for command, package in tools._PACKAGES.items():
        if command not in _THERE:
            assert commands.get(command) == package, command
