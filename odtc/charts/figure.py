"""A chart in a page: as wide as the page, its legend in lines, its data as a table below."""

from html import escape

from odtc.charts.chart import Chart
from odtc.charts.rows import KEY_HEIGHT, KEY_WIDTH, Row

STYLE = """
figure.chart { margin: .8rem 0 0; }
.chart figcaption { font-weight: 600; margin-bottom: .3rem; overflow-wrap: anywhere; }
.chart .units { font-weight: 400; }
.chart .plot {
  display: grid; grid-template-columns: 3.4rem 1fr; column-gap: .5rem; margin-right: 1rem; }
.chart .plot > svg { display: block; width: 100%; }
.chart .legend {
  display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: .4rem 0; font-size: .85rem; }
.chart .legend span { display: inline-flex; align-items: center; gap: .4rem; }
.chart .legend svg { flex: none; }
.chart .quiet { color: #59636e; }
.chart .rows { overflow-x: auto; font-size: .85rem; }
.chart table { border-collapse: collapse; }
.chart td, .chart th { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }
.chart td { white-space: pre-line; min-width: 8rem; }
@media (prefers-color-scheme: dark) { .chart .quiet { color: #9aa4b0; } }
""".strip()

# Heights of the plot and of the texts below it.
HEIGHT, FOOT = 260, 24


def figure(chart: Chart, height: str = f"{HEIGHT}px", *, titled: bool = True) -> str:
    """The chart as HTML, which is XML too.

    Args:
        chart: to show.
        height: of the plot, in CSS.
        titled: whether the title is above it; else the page says it.
    """
    title = f"{escape(chart.title)}: " if titled else ""
    legend = "".join(map(legend_entry, chart.rows))
    units = f"{chart.up.label}, by {chart.across.label}"
    return (
        f'<figure class="chart"><figcaption>{title}'
        f'<span class="quiet units">{escape(units)}</span></figcaption>'
        f'<div class="plot"><svg aria-hidden="true" style="height: {height}">'
        f'{"".join(chart.marks_up())}</svg><svg role="img" style="height: {height}">'
        f"{chart.described()}{''.join(chart.body())}</svg><span></span>"
        f'<svg aria-hidden="true" height="{FOOT}">{"".join(chart.marks_across())}</svg></div>'
        f'<div class="legend">{legend}</div>{_table(chart)}</figure>'
    )


def legend_entry(row: Row) -> str:
    """A key and its label."""
    return (
        f'<span><svg width="{KEY_WIDTH}" height="{KEY_HEIGHT}" aria-hidden="true">{row.key()}</svg>'
        f"{escape(row.label)}</span>"
    )


def _table(chart: Chart) -> str:
    rows = "".join(
        f"<tr><td>{escape(row.label)}</td><td>{escape(said)}</td></tr>"
        for row in chart.rows
        for said in row.data()
    )
    return (
        f"<details><summary>Data of this chart</summary><p>{escape(chart.summary)}</p>"
        f'<div class="rows"><table><thead><tr><th scope="col">kind</th><th scope="col">values</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
