"""The text form `name{key=value,key=value}` that targets, passes and optimizers share."""

import difflib
import re
from collections.abc import Iterable, Mapping

from odtc.core.elsewhere.arguments import argument_elsewhere

# How adapters are written; not in braces, as there is one kind of them.
LORA_FORM = "rank=8,alpha=16,targets=*.query*|*.value*"
# Of the letters of two names, the part that both have in one order. difflib's own bound, 0.6, calls
# windows and ios near, each of whose letters windows has somewhere.
_NEAR = 0.65
# Letters with which a name begins, for these to be meant for it.
_LEAST_BEGINNING = 3
_FORM = re.compile(r"(?P<name>[A-Za-z][\w.-]*)(?:\{(?P<options>[^{}]+)\})?")


def format_options(name: str, options: Mapping[str, object]) -> str:
    """`name`, followed by the options in braces where there are any."""
    inside = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}{{{inside}}}" if inside else name


def parse_options(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options; the inverse of `format_options` for values without `,{}`.

    Raises:
        ValueError: the text has another form, or gives a key twice.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError("it is not of the form name{key=value,key=value}")
    options: dict[str, str] = {}
    for item in match["options"].split(",") if match["options"] else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise ValueError(f"{item.strip()!r} is not of the form key=value")
        if key in options:
            raise ValueError(f"the option {key!r} is given twice")
        options[key] = value
    return match["name"], options


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The beginning of a hint, for a name that is nearly a known one; empty if it is not.

    The beginning of one is near, too. Large letters, and what stands between words, make no
    difference.
    """
    near = close_name(name, known)
    return f"did you mean {near}? " if near else ""


def close_name(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest to another; empty where none is near."""
    plain, given = {_plain(each): each for each in known}, _plain(name)
    close = difflib.get_close_matches(given, list(plain), n=1, cutoff=_NEAR)
    if not close and len(given) >= _LEAST_BEGINNING:
        close = [each for each in plain if each.startswith(given)]
    return plain[close[0]] if close else ""


def meant(name: str, known: Iterable[str], *, command_line: bool = False) -> str:
    """The beginning of a hint for an option that there is not: where odtc has it, or a near one.

    Args:
        name: that was given; one of the command line with its dashes.
        known: the names that there are.
        command_line: whether it is said on the command line.
    """
    names = list(known)
    said, near = argument_elsewhere(name, command_line=command_line), close_name(name, names)
    # One that is spelt as it is here but for dashes and large letters is just that.
    return f"{said}; " if said and _plain(near) != _plain(name) else did_you_mean(name, names)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).lower()
