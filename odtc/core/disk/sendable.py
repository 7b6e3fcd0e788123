"""What files that users send to others may hold: no serial number, host, user or home folder.

Texts of errors name what went wrong by these, and are kept as the reasons of rows. Whatever writes
a file that is meant to be sent passes it through `sendable`; whoever learns of such a name, as a
phone's serial, tells it by `hide_serial` or `hide_host`.
"""

import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
# A pattern, and what stands for its matches.
_Pattern = tuple[re.Pattern[str], str]

# What stands for a name, by the name: of serials, and of hosts. They are of the process, as errors
# of any part may hold them.
_serials: dict[str, str] = {}
_hosts: dict[str, str] = {}
# A shorter one is part of too much else, and nobody's own.
_LEAST_LETTERS = 3
_OF_NOBODY = {"root", "localhost", "127.0.0.1"}
# A text with one of these is a sentence, a path or a URL; another one is a name by itself, such as
# that of a model, whatever the user is called.
_MARKS = re.compile(r"[\s/@:]")


def hide_serial(serial: str) -> None:
    """Has a device's serial number replaced in all that is written for sending from now on."""
    if _is_own(serial):
        _serials[serial] = "SERIAL"


def hide_host(host: str) -> None:
    """The same of the host of a tracker, but where it stands alone: it may be any word."""
    if _is_own(host):
        _hosts[host] = "TRACKER"


def sendable(value: T) -> T:
    """A value as JSON has it, whose texts name neither devices nor this computer and its user."""
    home = os.path.expanduser("~").rstrip(os.sep)
    everywhere = _serials | ({home: "~"} if home else {})
    return _of(
        value,
        [*_patterns(everywhere, r"\w")],
        # `android-cpu` is of no user called android.
        [*_patterns(_hosts | _of_this_computer(), r"[\w-]")],
    )


def _of(value: Any, everywhere: list[_Pattern], within: list[_Pattern]) -> Any:
    if isinstance(value, str):
        for pattern, instead in everywhere + within if _MARKS.search(value) else everywhere:
            value = pattern.sub(instead, value)
        return value
    if isinstance(value, Mapping):
        return {_of(k, everywhere, within): _of(v, everywhere, within) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_of(each, everywhere, within) for each in value])
    return value


def _patterns(names: Mapping[str, str], letters: str) -> Iterator[_Pattern]:
    """Each name as a whole word, the longest first: it may begin with another one."""
    for name in sorted(names, key=len, reverse=True):
        yield re.compile(rf"(?<!{letters}){re.escape(name)}(?!{letters})"), names[name]


def _of_this_computer() -> dict[str, str]:
    """What stands for its name, and its user's."""
    found: dict[str, str] = {}
    with suppress(OSError, KeyError, ImportError):
        found[getpass.getuser()] = "USER"
    host = socket.gethostname()
    found |= {host: "HOST", host.partition(".")[0]: "HOST"}
    return {name: instead for name, instead in found.items() if _is_own(name)}


def _is_own(name: str) -> bool:
    return len(name) >= _LEAST_LETTERS and name not in _OF_NOBODY
