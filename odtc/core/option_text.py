"""The text form `name{key=value,key=value}` that targets and passes share."""

import re
from collections.abc import Mapping

_FORM = re.compile(r"(?P<name>[A-Za-z][\w.-]*)(?:\{(?P<options>[^{}]*)\})?")


def format_options(name: str, options: Mapping[str, object]) -> str:
    """`name`, followed by the options in braces where there are any."""
    inside = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}{{{inside}}}" if inside else name


def parse_options(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options; the inverse of `format_options` for values without `,{}`.

    Raises:
        ValueError: the text has another form, or names a key twice.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not of the form name{{key=value,...}}")
    options: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in (match["options"] or "").split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value) or key in options:
            raise ValueError(f"{item!r} is not a new key=value")
        options[key] = value
    return match["name"], options
