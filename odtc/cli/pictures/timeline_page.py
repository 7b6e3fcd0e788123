"""The page around the charts of a profile: its style, its script, and its tables."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from odtc.charts import chart as charts
from odtc.charts import figure as figures
from odtc.charts.chart import Chart
from odtc.charts.figure import figure
from odtc.cli.console import readable_bytes
from odtc.core.disk.sendable import sendable
from odtc.runtime_rpc.metrics.usage import usage_of, usage_rows
from odtc.runtime_rpc.profile.trace import EMULATED

if TYPE_CHECKING:
    from odtc.runtime_rpc.profile.record import Profile

# Operators in the table.
_SHOWN = 60
# Heights of the first chart, and of the others.
_TALL, _LOW = "190px", "90px"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<link rel="icon" href="data:,"/>
<title>{title}</title>
<style>
body {{ margin: 0 auto; padding: 1rem; max-width: 1280px; background: #ffffff; color: #24292f;
  font: 14px/1.45 {font}; }}
h1 {{ font-size: 1.25rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }}
.stamp {{ color: #b3005e; font-weight: 600; }}
.wide {{ overflow-x: auto; max-width: 100%; }}
.tables {{ display: flex; flex-wrap: wrap; align-items: flex-start; }}
.tables table {{ border-collapse: collapse; margin: 1em 2em 1em 0; }}
.tables td, .tables th {{ padding: .15em .9em .15em 0; text-align: left;
  border-bottom: 1px solid #e3e6ea; }}
.tables td:first-child, .tables td:last-child {{
  min-width: 8em; max-width: 30em; overflow-wrap: break-word; }}
{style}
#timeline .plot > svg[role="img"] {{ overflow: hidden; cursor: grab; touch-action: pan-y; }}
#timeline .area:hover {{ opacity: .6; }}
@media (prefers-color-scheme: dark) {{
body {{ background: #161b22; color: #e6edf3; }} .stamp {{ color: #ff79b8; }}
.tables td, .tables th {{ border-color: #2b323b; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
{stamps}
<p>{summary}</p>
<p>Wheel, or + and -: closer and farther. Drag, or arrows: along. Double click, or 0: all.</p>
<div id="timeline" data-ms="{ms:.6f}" tabindex="0" role="region" aria-label="time line">
{figures}
</div>
<div class="tables">
{tables}
</div>
<script>
{script}
</script>
</body>
</html>
"""

# Each plot is moved into an SVG of its own, which is as much wider as the look is closer.
_SCRIPT = """
const timeline = document.getElementById("timeline");
const all = Number(timeline.dataset.ms);
const name = "http://www.w3.org/2000/svg";
const plots = [...timeline.querySelectorAll(".plot > svg[role=img]")];
const axes = [...timeline.querySelectorAll(".plot > svg:last-child")];
const scaled = plots.map((plot) => {
  const inner = document.createElementNS(name, "svg");
  inner.classList.add("scaled");
  inner.setAttribute("height", "100%");
  inner.append(...[...plot.children].filter((e) => !["title", "desc"].includes(e.tagName)));
  plot.append(inner);
  return inner;
});
let from = 0, length = all;
const draw = () => {
  length = Math.min(all, Math.max(all / 5000, length));
  from = Math.min(all - length, Math.max(0, from));
  for (const each of scaled) {
    each.setAttribute("x", `${-100 * from / length}%`);
    each.setAttribute("width", `${100 * all / length}%`);
  }
  const marks = Math.max(2, Math.min(10, plots[0].getBoundingClientRect().width / 90));
  const power = 10 ** Math.floor(Math.log10(length / marks));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= length / marks);
  for (const axis of axes) {
    axis.replaceChildren();
    for (let n = Math.ceil(from / step); n * step <= from + length; n++) {
      const text = document.createElementNS(name, "text");
      text.setAttribute("class", "quiet");
      text.setAttribute("text-anchor", "middle");
      text.setAttribute("x", `${100 * (n * step - from) / length}%`);
      text.setAttribute("y", "16");
      text.textContent = Number((n * step).toPrecision(10));
      axis.append(text);
    }
  }
};
const at = (event) => {
  const box = plots[0].getBoundingClientRect();
  return (event.clientX - box.left) / box.width;
};
const zoom = (factor, place) => {
  const fixed = from + place * length;
  length = Math.min(all, Math.max(all / 5000, length * factor));
  from = fixed - place * length;
  draw();
};
let held = null;
for (const plot of plots) {
  plot.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, at(event))));
  }, {passive: false});
  plot.addEventListener("pointerdown", (event) => { held = from + at(event) * length; });
  plot.addEventListener("pointermove", (event) => {
    if (held !== null) { from = held - at(event) * length; draw(); }
  });
  plot.addEventListener("dblclick", () => { from = 0; length = all; draw(); });
}
addEventListener("pointerup", () => { held = null; });
addEventListener("resize", draw);
timeline.addEventListener("keydown", (event) => {
  const keys = {
    "+": () => zoom(0.8, 0.5), "-": () => zoom(1.25, 0.5),
    "0": () => { from = 0; length = all; draw(); },
    "ArrowLeft": () => { from -= length / 10; draw(); },
    "ArrowRight": () => { from += length / 10; draw(); },
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
draw();
"""


def page(profile: "Profile", drawn: Sequence[Chart]) -> str:
    """The page of a profile with its charts, whose first is what ran."""
    title = sendable(f"{profile.model} on {profile.device}")
    stamps = {EMULATED: profile.emulated, "samples of a fixture": profile.samples.fixture}
    milliseconds = [1e3 * seconds for seconds in profile.step_seconds]
    summary = (
        f"{len(profile.steps)} steps of {min(milliseconds):.2f} to {max(milliseconds):.2f} ms on "
        f"the device, {profile.coverage:.1%} of it in operators; "
        f"{readable_bytes(profile.peak_bytes)} of the arena alive at most"
    )
    heights = [_TALL, *[_LOW] * (len(drawn) - 1)]
    return _PAGE.format(
        title=escape(title),
        font=charts.FONT,
        style=f"{charts.STYLE}\n{figures.STYLE}",
        stamps="".join(f'<p class="stamp">{text}</p>' for text, holds in stamps.items() if holds),
        summary=escape(summary),
        ms=1e3 * max(profile.ended - profile.began, 1e-9),
        figures="\n".join(map(figure, drawn, heights)),
        tables="\n".join(_tables(profile)),
        script=_SCRIPT,
    )


def _tables(profile: "Profile") -> Iterator[str]:
    seconds = profile.operator_seconds
    total = sum(seconds) or 1.0
    slowest = sorted(range(len(seconds)), key=lambda number: -seconds[number])[:_SHOWN]
    yield _table(
        ("operator", "part", "ms", "share", "kernel"),
        (
            (
                profile.operators[number].label,
                profile.operators[number].phase.value,
                f"{1e3 * seconds[number]:.3f}",
                f"{seconds[number] / total:.1%}",
                profile.operators[number].kernel,
            )
            for number in slowest
        ),
    )
    yield _table(("of the run", ""), usage_rows(usage_of(profile.samples)))
    probes = profile.samples.probes.items()
    yield _table(("source", "", ""), ((name, probe.state, probe.detail) for name, probe in probes))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'
