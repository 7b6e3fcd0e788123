"""A chart: rows on a plane with two axes, and what is said above and beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from odtc.charts.palette import rules
from odtc.charts.rows import Plane, Row
from odtc.charts.scales import Scale

FONT = 'system-ui, "Segoe UI", Helvetica, Arial, sans-serif'

STYLE = f"""
svg {{ overflow: visible; }}
.chart text {{ font: 12px {FONT}; fill: #24292f; stroke: none; }}
.chart text.quiet {{ fill: #59636e; }}
.chart text.title {{ font-size: 18px; font-weight: 600; }}
{rules()}
.peak {{ fill: #14171a; }} .point {{ stroke: #ffffff; stroke-width: 0.8; }}
.area {{ stroke: #ffffff; }}
.curve, .live, .bound, .roof, .least, .turn {{
  fill: none; stroke-width: 2; stroke-linejoin: round; }}
.live {{ stroke: #14171a; }} .roof {{ stroke: #59636e; }}
.least {{ stroke: #14171a; stroke-dasharray: 1 4; stroke-linecap: round; }}
.bound {{ stroke: #b3005e; stroke-dasharray: 8 5; }}
.turn {{ stroke: #59636e; stroke-dasharray: 3 3; stroke-width: 1.2; }}
.dash1 {{ stroke-dasharray: 7 3; }} .dash2 {{ stroke-dasharray: 2 3; }}
.grid {{ stroke: #e3e6ea; }} .axis {{ stroke: #8c959f; }} .page {{ fill: #ffffff; }}
@media (prefers-color-scheme: dark) {{
.chart text {{ fill: #e6edf3; }} .chart text.quiet {{ fill: #9aa4b0; }} .page {{ fill: #161b22; }}
.point, .area {{ stroke: #161b22; }} .live, .least {{ stroke: #e6edf3; }}
.peak {{ fill: #e6edf3; }} .bound {{ stroke: #ff79b8; }} .roof, .turn {{ stroke: #9aa4b0; }}
.grid {{ stroke: #2b323b; }} .axis {{ stroke: #6e7681; }}
}}
""".strip()


@dataclass(frozen=True)
class Axis:
    """An axis: its scale, and what it shows with its unit."""

    scale: Scale
    label: str


@dataclass(frozen=True)
class Chart:
    """Rows on a plane.

    Attributes:
        title: above it.
        summary: what it shows, in a sentence: under the title, and what a screen reader reads.
        across: the axis at the bottom.
        up: the axis at the left.
        rows: what is drawn, the first at the back.
    """

    title: str
    summary: str
    across: Axis
    up: Axis
    rows: Sequence[Row]

    def body(self) -> Iterator[str]:
        """Grid and rows, as SVG whose places are in percent of the plot."""
        plane = Plane(self.across.scale, self.up.scale)
        for mark in self.up.scale.marks():
            y = f"{100 - self.up.scale.at(mark):.2f}%"
            yield f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        yield '<line class="axis" x1="0" x2="100%" y1="100%" y2="100%"/>'
        for row in self.rows:
            yield from row.body(plane)

    def marks_across(self) -> Iterator[str]:
        """Texts below the plot, in percent of its width."""
        for mark in self.across.scale.marks():
            place = self.across.scale.at(mark)
            yield (
                f'<text class="quiet" x="{place:.2f}%" y="16" text-anchor="middle">'
                f"{escape(self.across.scale.text(mark))}</text>"
            )

    def marks_up(self) -> Iterator[str]:
        """Texts at the left of the plot, in percent of its height."""
        for mark in self.up.scale.marks():
            place = 100 - self.up.scale.at(mark)
            yield (
                f'<text class="quiet" x="100%" y="{place:.2f}%" dy="4" text-anchor="end">'
                f"{escape(self.up.scale.text(mark))}</text>"
            )

    def described(self) -> str:
        """What a screen reader reads of the SVG: its first elements."""
        return f"<title>{escape(self.title)}</title><desc>{escape(self.summary)}</desc>"
