"""A chart as a file: SVG of a fixed width, or a page of HTML that is as wide as its window."""

import os
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from odtc.charts import chart as charts
from odtc.charts import figure as figures
from odtc.charts.chart import Chart
from odtc.charts.figure import figure
from odtc.charts.letters import width, wrapped
from odtc.charts.rows import KEY_HEIGHT, KEY_WIDTH, Row
from odtc.core.disk.files import atomic_write

SUFFIXES = (".svg", ".html")
WIDTH, HEIGHT = 1280, 720
# Margins of the plot at its left, right and bottom; rows of text and of the legend.
_LEFT, _RIGHT, _BOTTOM = 84, 32, 60
_TITLE, _TEXT, _ENTRY = 24, 17, 20
_TITLE_SIZE, _SIZE = 18, 12
_GAP = 18
# No picture is so low that its plot has less.
_LEAST_PLOT = 220

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{title}</title>
<style>
body {{ margin: 0 auto; padding: 1rem; max-width: 1280px; background: #ffffff; color: #24292f;
  font: 15px/1.5 {font}; }}
h1 {{ font-size: 1.25rem; margin: 0; overflow-wrap: anywhere; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #161b22; color: #e6edf3; }} }}
{style}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
{figure}
</body>
</html>
"""


def write_chart(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Writes a chart, whole or not at all.

    Args:
        chart: to write.
        path: where it goes; its suffix is one of `SUFFIXES`.

    Raises:
        OutputError: the file cannot be written.
    """
    text = page(chart) if Path(path).suffix == ".html" else svg(chart)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(chart: Chart) -> str:
    """The chart as a page of its own; it fetches nothing, and has no script."""
    return _PAGE.format(
        title=escape(chart.title),
        summary=escape(chart.summary),
        font=charts.FONT,
        style=f"{charts.STYLE}\n{figures.STYLE}",
        figure=figure(chart, "max(260px, 60vh)", titled=False),
    )


def svg(chart: Chart, wide: int = WIDTH, high: int = HEIGHT) -> str:
    """The chart as SVG.

    Args:
        chart: to draw.
        wide: its width in points; at this width its texts have 12.
        high: its height; more where texts and legend leave too little of it.
    """
    head, top = _head(chart, wide)
    plot = max(high - top - _BOTTOM, _LEAST_PLOT)
    high, across = top + plot + _BOTTOM, wide - _LEFT - _RIGHT
    middle = f"{top + plot / 2:g}"
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
        chart.described(),
        f"<style>{charts.STYLE}</style>",
        f'<rect class="page" width="{wide}" height="{high}"/>',
        *head,
        _part(_LEFT, top, across, plot, chart.body()),
        _part(32, top, _LEFT - 40, plot, chart.marks_up()),
        _part(_LEFT, top + plot, across, _BOTTOM, chart.marks_across()),
        _text(_LEFT + across / 2, high - 14, chart.across.label, "", "middle"),
        f'<text x="20" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 20 {middle})">{escape(chart.up.label)}</text>',
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _head(chart: Chart, wide: int) -> tuple[list[str], int]:
    """Title, summary and legend, and where they end."""
    room, y, found = wide - 2 * _RIGHT, 34, []
    for line in wrapped(chart.title, _TITLE_SIZE, room, bold=True):
        found.append(_text(_RIGHT, y, line, "title"))
        y += _TITLE
    for line in wrapped(chart.summary, _SIZE, room):
        found.append(_text(_RIGHT, y, line, "quiet"))
        y += _TEXT
    y += 8
    for line in _legend_lines(chart.rows, room):
        for x, row in line:
            key = _part(_RIGHT + x, y - KEY_HEIGHT + 3, KEY_WIDTH, KEY_HEIGHT, [row.key()])
            label = _text(_RIGHT + x + KEY_WIDTH + 6, y, row.label)
            found.append(f'<g class="entry">{key}{label}</g>')
        y += _ENTRY
    return found, y


def _legend_lines(rows: Iterable[Row], room: float) -> Iterator[list[tuple[float, Row]]]:
    """The entries of each line of the legend, with their places."""
    line: list[tuple[float, Row]] = []
    x = 0.0
    for row in rows:
        wide = KEY_WIDTH + 6 + width(row.label, _SIZE)
        if line and x + wide > room:
            yield line
            line, x = [], 0.0
        line.append((x, row))
        x += wide + _GAP
    yield line


def _part(x: float, y: float, wide: float, high: float, lines: Iterable[str]) -> str:
    """A part with places of its own."""
    size = f'x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}"'
    return f"<svg {size}>{''.join(lines)}</svg>"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'
