"""The page as a whole."""

import json
import math
from html import escape
from importlib.resources import files
from typing import Any

from odtc.charts import chart as charts
from odtc.charts import figure as figures
from odtc.comparison.measures.measure import cpu_text
from odtc.comparison.row import ComparisonRow
from odtc.report import model_sections, sections
from odtc.report.read import Material
from odtc.report.roofline import rooflines
from odtc.report.skyline import skyline

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="quiet">{subtitle}</p>
{doubts}
<nav aria-label="Parts of this page">{links}</nav>
<div class="tools"><button type="button" data-json>Save all as JSON</button></div>
</header>
<main>
{body}
</main>
<script type="application/json" id="data">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""


def page(material: Material, title: str) -> str:
    """The page of some material.

    Args:
        material: to show.
        title: of the page.
    """
    results, heads = material.results, material.heads
    parts: dict[str, tuple[str, str]] = {}
    if results:
        parts |= {
            "loses": ("Where odtc loses", sections.losses(results)),
            "summary": ("Summary", sections.summary(results)),
            "trains": ("Who trains what", sections.outcomes(results)),
        }
        parts |= {anchor: (name, body) for name, anchor, body in model_sections.models(results)}
    roof = rooflines(results)
    if roof:
        parts["roofline"] = ("Roofline", roof)
    # Names of files are no anchors: they may have any letter.
    for number, (name, artifact) in enumerate(material.artifacts.items()):
        at = f"skyline-{number}"
        parts[at] = (f"Memory of {name}", skyline(at, name, artifact))
    for number, (name, found) in enumerate(material.frontiers.items()):
        at = f"frontier-{number}"
        parts[at] = (f"Budgets of {name}", model_sections.frontier(at, name, found))
    for number, (name, profiled) in enumerate(material.profiles.items()):
        at = f"profile-{number}"
        parts[at] = (f"Operators of {name}", model_sections.profile(at, name, profiled))
    if results:
        parts["all"] = ("Everything", sections.everything(results))
    if material.values:
        parts["values"] = ("Values only", sections.values(material.values))
    published = model_sections.published(heads)
    if published:
        parts["published"] = ("Published figures", published)
    if heads:
        parts["how"] = ("How it was measured", model_sections.machines(heads))
    return _PAGE.format(
        title=escape(title),
        style="\n".join((_resource("style.css"), charts.STYLE, figures.STYLE)),
        script=_resource("script.js"),
        subtitle=escape(_subtitle(material)),
        doubts=sections.doubts(results),
        links="".join(
            f'<a href="#{escape(a)}">{escape(name)}</a>' for a, (name, _) in parts.items()
        ),
        body="\n".join(body for _, body in parts.values()),
        data=_embedded(material),
    )


def _subtitle(material: Material) -> str:
    machines = dict.fromkeys(cpu_text(head["machine"]) for head in material.heads)
    days = sorted({row.began[:10] for rows in material.rows for row in rows if row.began})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    return "; ".join(filter(None, (", ".join(machines), when)))


def _embedded(material: Material) -> str:
    """Heads and rows with their raw samples; no text can end the script that holds them."""
    data = [
        {"head": head, "rows": [_finite(row) for row in rows]}
        for head, rows in zip(material.heads, material.rows, strict=True)
    ]
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _finite(row: ComparisonRow) -> dict[str, Any]:
    """A row as JSON knows it, which has no NaN."""
    losses = [loss if math.isfinite(loss) else None for loss in row.losses]
    return row.to_dict() | {"losses": losses}


def _resource(name: str) -> str:
    return (files("odtc.report") / name).read_text(encoding="utf-8").strip()
