"""Parts of a page that stand between marks."""

import re
from collections.abc import Callable, Iterator

_PART = re.compile(
    r"^(?P<head><!-- figures: (?P<name>\S+) -->)\n(?P<text>.*?)^(?P<end><!-- end of figures -->)$",
    re.M | re.S,
)
_MARK = re.compile(r"<!-- (?:figures: \S+|end of figures) -->")


class MarksError(ValueError):
    """A mark without its counterpart."""


def parts(page: str) -> Iterator[tuple[str, str]]:
    """Name and text of each part.

    Raises:
        MarksError: a part has no beginning or no end.
    """
    found = list(_PART.finditer(page))
    if any(_MARK.search(each["text"]) for each in found) or 2 * len(found) != len(
        _MARK.findall(page)
    ):
        raise MarksError("a mark of figures has no counterpart")
    for each in found:
        yield each["name"], each["text"]


def filled(page: str, write: Callable[[str], str]) -> str:
    """The page with the text of each part by its name."""
    list(parts(page))
    return _PART.sub(lambda each: f"{each['head']}\n{write(each['name'])}\n{each['end']}", page)


def outside(page: str) -> str:
    """The page without its parts."""
    return _PART.sub("", page)
