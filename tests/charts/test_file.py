"""Charts as files: no text is cut at any width, and a screen reader has something to read."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from odtc.charts.file import page, svg, write_chart
from odtc.charts.letters import width, wrapped
from tests.charts.reading import bare
from tests.cli.test_pictures import drawn

PLACE = ("x", "y", "width", "height")
WIDTHS = (390, 768, 1280)
SIZES = {"title": 18.0}


def texts(
    element: Element, left: float = 0.0, top: float = 0.0, room: tuple[float, float] = (0, 0)
) -> Iterator[tuple[Element, float, float]]:
    """Each text with its place in the picture."""
    for each in element:
        if each.tag == "svg" and not each.get("viewBox"):
            x, y, wide, high = (_length(each.get(name), 0) for name in PLACE)
            yield from texts(each, left + x, top + y, (wide, high))
        elif each.tag == "text" and each.text:
            x, y = _length(each.get("x"), room[0]), _length(each.get("y"), room[1])
            yield each, left + x, top + y
        else:
            yield from texts(each, left, top, room)


def _length(text: str | None, whole: float) -> float:
    text = text or "0"
    return float(text.removesuffix("%")) / 100 * whole if text.endswith("%") else float(text)


def texts_within(root: Element) -> int:
    """Fails where a text of a picture ends beyond its edge; returns how many texts there are."""
    wide, high = (float(root.get(name, "")) for name in ("width", "height"))
    found = list(texts(root))
    for text, x, y in found:
        kind = text.get("class", "")
        long = width(text.text or "", SIZES.get(kind, 12.0), bold=kind == "title")
        if text.get("transform"):
            assert long / 2 < y < high - long / 2, text.text
            continue
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")] * long
        assert x - before >= 0, text.text
        assert x - before + long <= wide, text.text
        assert 0 < y < high, text.text
    return len(found)


@pytest.mark.parametrize("wide", WIDTHS)
def test_no_text_is_cut(wide: int) -> None:
    _, chart = drawn(26)
    assert texts_within(bare(svg(chart, wide, 480))) > 26


@pytest.mark.parametrize("wide", WIDTHS)
def test_no_text_lies_on_another(wide: int) -> None:
    _, chart = drawn(26)
    lines: dict[float, list[tuple[float, float]]] = {}
    for text, x, y in texts(bare(svg(chart, wide, 480))):
        long = width(text.text or "", 12.0)
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")] * long
        if not text.get("transform") and text.get("class") != "title":
            lines.setdefault(round(y), []).append((x - before, x - before + long))
    for places in lines.values():
        ordered = sorted(places)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


def test_a_screen_reader_has_title_and_summary() -> None:
    _, chart = drawn(3)
    root = bare(svg(chart))
    assert root.get("role") == "img"
    assert [each.tag for each in root][:2] == ["title", "desc"]
    assert (root.findtext("title"), root.findtext("desc")) == (chart.title, chart.summary)
    (picture,) = (each for each in bare(page(chart)).iter("svg") if each.get("role") == "img")
    assert picture.findtext("desc") == chart.summary


def test_nothing_is_fetched_and_dark_pages_have_their_colours(tmp_path: Path) -> None:
    _, chart = drawn(3)
    for name in ("a.svg", "a.html"):
        write_chart(chart, tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r"\b(nan|inf)\b", text)


def test_lines_are_within_their_room() -> None:
    text = "mobilenet_v2.onnx on " + "a" * 300 + " and words"
    for room in (60.0, 200.0, 1000.0):
        lines = wrapped(text, 18, room, bold=True)
        assert all(width(line, 18, bold=True) <= room for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
