"""Reads a chart back: what its legend says of each mark, and where each mark is drawn."""

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SPACE = "{http://www.w3.org/2000/svg}"
# The class and the outline of a mark.
Mark = tuple[str, str]


@dataclass(frozen=True)
class Drawn:
    """A point as it is drawn.

    Attributes:
        mark: its class and its outline.
        x: its place in percent of the plot, from the left.
        y: the same, from the top.
        tip: what is said of it.
    """

    mark: Mark
    x: float
    y: float
    tip: str


def bare(text: str) -> Element:
    """The elements of an SVG or of a page, without the names of their spaces."""
    root = ElementTree.fromstring(text)
    for each in root.iter():
        each.tag = each.tag.removeprefix(SPACE)
    return root


def legend_of(root: Element) -> list[tuple[str, Mark]]:
    """The label of each entry that has a mark, and the mark; of a file or of a page."""
    entries = [each for each in root.iter("g") if each.get("class") == "entry"]
    for legend in root.iter("div"):
        entries += list(legend) if legend.get("class") == "legend" else []
    return [
        ("".join(entry.itertext()), _mark(point))
        for entry in entries
        for point in entry.iter("path")
    ]


def points_of(root: Element) -> list[Drawn]:
    """All points of the plot."""
    return [
        Drawn(_mark(point), _percent(place.get("x")), _percent(place.get("y")), tip)
        for place in root.iter("svg")
        if place.get("class") == "at"
        for point in place.iter("path")
        if (tip := point.findtext("title"))
    ]


def _mark(point: Element) -> Mark:
    return point.get("class", ""), point.get("d", "")


def _percent(text: str | None) -> float:
    assert text
    assert text.endswith("%")
    return float(text.removesuffix("%"))
